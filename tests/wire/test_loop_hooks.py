"""Hooks over whole sessions: what they are told of, from whom, and that the model hears nothing of it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.agent.updates import ProposalsChanged
from app.automation.event_hooks import HookEventDocument
from app.conversation.events import ProposalDecided, UserNotice
from app.proposals.values.models import ProposalState
from app.runtime.open_workspace import open_workspace
from app.workspace import trust
from tests.commands.agent_calls import Agent, reason
from tests.wire.bench import FILE, bench, edit
from tests.wire.hosting import Hosted
from tests.wire.server import WireServer

EVENTS = ("staged", "decided", "turn_ended", "question")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def configured(out: Path, *events: str) -> str:
    return "".join(f"[[hook]]\non = '{event}'\nrun = 'cat >>{out}'\n" for event in events)


def told(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    for line in lines:
        HookEventDocument.model_validate(line)
    return lines


async def test_hooks_receive_events_and_the_model_sees_none(tmp_path: Path, home: Path, server: WireServer) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text(configured(tmp_path / "out", *EVENTS))
    server.turn(calls=[edit(summary="Say hi")])
    server.say("Have a look.")
    server.call("ask_user", {"question": "Which?", "options": ["a", "b"]})
    async with bench(server, tmp_path) as table:
        await table.say("Go")
        await table.settled(table.session.deny("P1", feedback="Not so.\nBut so."))
        bodies = json.dumps([request.body for request in server.requests])
        session = table.session.id
    events = sorted(told(tmp_path / "out"), key=lambda one: one["time"])
    assert {one["session"] for one in events} == {session}
    assert {one["workspace"] for one in events} == {str(tmp_path / "workspace")}
    by_name = {name: [one for one in events if one["event"] == name] for name in EVENTS}
    (staged,), (decided,), (question,) = by_name["staged"], by_name["decided"], by_name["question"]
    assert (staged["proposal"], staged["origin"], staged["files"][0]["path"]) == ("P1", "signoff", "greet.py")
    assert (decided["decision"], decided["feedback"]) == ("denied", "Not so.\nBut so.")
    assert (question["message"], question["options"]) == ("Which?", ["a", "b"])
    assert [one["stopped"] for one in by_name["turn_ended"]] == ["staged", "question"]
    assert str(tmp_path / "out") not in bodies and "hook" not in bodies


async def test_each_process_runs_its_hooks(tmp_path: Path, home: Path, hosted: Hosted, server: WireServer) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text(configured(tmp_path / "out", "staged", "decided"))
    hosted.host.runtime.reload()
    server.turn(calls=[edit()])
    await hosted.session.send("Go")
    await hosted.until(lambda: bool(hosted.session.log.events) and not hosted.session.is_busy)
    await hosted.other("approve", "P1")
    await hosted.until(lambda: any(event.type == "proposal_decided" for event in hosted.session.log.events))
    hosted.host.runtime.hook_dispatcher.close()
    assert [(one["event"], one["decision"]) for one in told(tmp_path / "out")] == [
        ("staged", ""),
        ("decided", "approved"),
    ]


@pytest.mark.parametrize("trusted", [False, True])
async def test_workspace_hooks_need_trust(tmp_path: Path, home: Path, server: WireServer, trusted: bool) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    (root / ".signoff.toml").write_text(configured(tmp_path / "theirs", "turn_ended"))
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text(configured(tmp_path / "mine", "turn_ended"))
    if trusted:
        runtime = open_workspace(root, {}, {})
        trust.store_trust(trust.read_untrusted_workspace_configuration(runtime.workspace), runtime.sessions)
        runtime.close()
    server.say("Hello.")
    async with bench(server, tmp_path) as table:
        await table.say("Hi")
    assert len(told(tmp_path / "mine")) == 1
    assert len(told(tmp_path / "theirs")) == (1 if trusted else 0)


async def test_a_hanging_hook_does_not_block_a_turn(tmp_path: Path, home: Path, server: WireServer) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text("[[hook]]\non = 'turn_ended'\nrun = 'sleep 1000'\nseconds = 600\n")
    server.say("One.")
    server.say("Two.")
    async with bench(server, tmp_path) as table:
        table.runtime.hook_dispatcher.patience = 0.0
        await table.say("Hi")
        await table.say("Again")
        assert len(server.requests) == 2


@pytest.fixture(autouse=True)
def not_in_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CLAUDE")]:
        monkeypatch.delenv(name)


async def test_the_app_shows_an_agents_edit_whose_denial_reaches_it(server: WireServer, hosted: Hosted) -> None:
    agent = Agent("claude", hosted.root)
    text = FILE
    (payload,) = agent.responds(agent.writes("greet.py", f"{text}# more\n"))
    answer = await hosted.other("hook", "claude", stdin=json.dumps(payload), code=2)
    assert reason(agent, answer).startswith("P1 is staged")
    await hosted.until(lambda: any(isinstance(one, ProposalsChanged) and "P1" in one.ids for one in hosted.updates))
    proposal = hosted.host.runtime.service.get("P1")
    assert (proposal.state, proposal.origin.agent) == (ProposalState.PENDING, "claude")
    await hosted.session.deny("P1", feedback="Not\nso.")
    assert not any(isinstance(event, ProposalDecided) for event in hosted.session.log.events)
    (note,) = [event.text for event in hosted.session.log.events if isinstance(event, UserNotice)]
    assert note.startswith("P1 is from Claude Code, claude-opus-5-5, session 5f0c77aa: it reads your words")
    assert server.requests == [], "nobody asks signoff's own model"
    told = await hosted.other("hook", "claude", stdin=json.dumps(agent.asks("well?")))
    assert "Not\nso." in json.loads(told)["hookSpecificOutput"]["additionalContext"]
    assert (hosted.root / "greet.py").read_text() == text
