"""What the hook of another agent takes is a proposal in the open app at once; its own model hears nothing of it."""

import json
import os

import pytest

from app.agent.updates import ProposalsChanged
from app.conversation.events import Notice, ProposalDecided
from app.proposals.values.models import ProposalState
from tests.commands.agent_calls import Agent, reason
from tests.wire.bench import FILE
from tests.wire.hosting import Hosted
from tests.wire.server import WireServer


@pytest.fixture(autouse=True)
def not_in_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CLAUDE")]:
        monkeypatch.delenv(name)


async def test_an_open_app_shows_what_a_hook_has_taken_and_its_denial_is_the_agents(
    server: WireServer, hosted: Hosted
) -> None:
    agent = Agent("claude", hosted.root)
    text = FILE
    (payload,) = agent.responds(agent.writes("greet.py", f"{text}# more\n"))
    answer = await hosted.other("hook", "claude", stdin=json.dumps(payload), code=2)
    assert reason(agent, answer).startswith("P1 is staged")
    await hosted.until(lambda: any(isinstance(one, ProposalsChanged) and "P1" in one.ids for one in hosted.updates))
    proposal = hosted.open_session.runtime.service.get("P1")
    assert (proposal.state, proposal.origin.agent) == (ProposalState.PENDING, "claude")
    await hosted.session.deny("P1", feedback="Not\nso.")
    assert not any(isinstance(event, ProposalDecided) for event in hosted.session.log.events)
    (note,) = [event.text for event in hosted.session.log.events if isinstance(event, Notice)]
    assert note.startswith("P1 is from Claude Code, claude-opus-5-5, session 5f0c77aa: it reads your words")
    assert server.requests == [], "nobody asks signoff's own model"
    told = await hosted.other("hook", "claude", stdin=json.dumps(agent.asks("well?")))
    assert "Not\nso." in json.loads(told)["hookSpecificOutput"]["additionalContext"]
    assert (hosted.root / "greet.py").read_text() == text
