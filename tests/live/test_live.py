"""What has to hold with a real model behind a real protocol, whatever it says: on the wire, on disk, in the log."""

import asyncio
import json
from pathlib import Path

import pytest

from app.cli.main import main
from app.conversation.events import (
    Answer,
    AssistantMessage,
    ProposalDecided,
    ProposalStaged,
    Question,
    UserMessage,
)
from app.llm.endpoint_doctor import CHECKS
from tests.live import prompts
from tests.live.bench import Live
from tests.live.conftest import Check
from tests.live.vendors import Target
from tests.wire.bench import FILE
from tests.wire.server import Request

_EDIT = prompts.EDIT + FILE
_WITHOUT_WHICH_NOTHING_WORKS = {"reachable", "key", "model", "wire", "streaming"}


def test_doctor(
    target: Target,
    check: Check,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    found = {one["name"]: one["ok"] for one in document["checks"] if one["name"] in CHECKS}
    assert (code, document["ok"]) == (0, True), document
    assert all(found[name] for name in _WITHOUT_WHICH_NOTHING_WORKS), document
    assert len(check.recorder.turns) > 3
    if target.scripted:
        assert found == dict.fromkeys(CHECKS, True), document


async def test_gate(live: Live) -> None:
    await live.ask_for(_EDIT, lambda: live.waiting)
    [proposal] = live.waiting
    assert [event.proposal for event in live.events if isinstance(event, ProposalStaged)] == [proposal.id]
    assert live.stopped in ("staged", "refused")
    staged = live.sent_when[ProposalStaged]
    *before, closing = [exchange.request for exchange in live.recorder.turns[: staged + 1]]
    told_to_stop(live, closing, proposal.id)
    assert closing.body["tools"] == before[-1].body["tools"]
    taken = [exchange for exchange in live.recorder.turns[staged:] if exchange.status == 200]
    assert len(taken) <= 1
    for exchange in live.recorder.turns[staged:]:
        assert any(proposal.id in text and "Do not call tools" in text for _, text in exchange.request.said)
    if live.target.scripted or live.profile.tool_choice_none != "fails":
        live.check()
    assert live.file == FILE


async def test_denial(live: Live) -> None:
    await live.ask_for(_EDIT, lambda: live.waiting)
    [proposal] = live.waiting
    sent = len(live.recorder.turns)
    await live.session.deny(proposal.id, feedback=prompts.DENIAL)
    await live.session.wait_until_idle()
    following = live.recorder.turns[sent].request
    assert [role for role, text in following.said if prompts.DENIAL in text] == ["user"]
    assert sum(text.count("<b>keep</b>") for _, text in following.said) == 1
    facts = {role for role, text in following.said if proposal.id in text and "denied" in text}
    assert facts == {"user" if live.profile.mid_system == "fold_user" else "system"}
    assert not following.closing
    [decided] = [event for event in live.events if isinstance(event, ProposalDecided)]
    assert (decided.source, decided.feedback) == ("user", prompts.DENIAL)
    assert proposal.id not in [one.id for one in live.waiting]
    live.check()


async def test_question(live: Live) -> None:
    await live.ask_for(prompts.ASK, lambda: live.session.question)
    asked = live.sent_when[Question]
    assert live.stopped == "question" and len(live.recorder.turns) == asked
    await live.session.answer(prompts.ANSWER)
    await live.session.wait_until_idle()
    following = live.recorder.turns[asked].request
    assert [role for role, text in following.said if prompts.ANSWER in text] == ["tool"]
    assert [event.text for event in live.events if isinstance(event, Answer)] == [prompts.ANSWER]
    live.check()


async def test_abort(live: Live) -> None:
    for _ in range(2):
        live.streaming.clear()
        async with asyncio.timeout(120):
            await live.session.send(prompts.LONG)
            first = asyncio.ensure_future(live.streaming.wait())
            over = asyncio.ensure_future(live.session.wait_until_idle())
            await asyncio.wait({first, over}, return_when=asyncio.FIRST_COMPLETED)
            live.session.interrupt()
            await over
            first.cancel()
        assert live.stopped != "failed", live.failure
        if live.stopped == "aborted":
            break
    else:
        live.would_not_play()
    assert [event.state for event in live.events if isinstance(event, AssistantMessage)][-1] == "interrupted"
    await live.say(prompts.SHORT)
    said = live.recorder.turns[-1].request.said
    words = [event.text for event in live.events if isinstance(event, UserMessage)]
    for one in set(words):
        assert sum(text.count(one) for role, text in said if role == "user") == words.count(one)
    live.check()


def told_to_stop(live: Live, closing: Request, proposal: str) -> None:
    """The closing request asks for no calls, and names the proposal where the endpoint takes system messages."""
    profile = live.profile
    if profile.tool_choice_none != "rejected":
        assert closing.closing
    [(at, role)] = [
        (at, role) for at, (role, text) in enumerate(closing.said) if proposal in text and "Do not call tools" in text
    ]
    assert role == ("user" if profile.mid_system == "fold_user" else "system")
    assert profile.mid_system != "inline" or at == len(closing.said) - 1
