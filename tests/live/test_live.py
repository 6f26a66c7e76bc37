"""Requirements with real models and real protocols, independent of the model's answers: requests, disk and log."""

import asyncio
import json
from pathlib import Path

import pytest

from app.cli.main import main
from app.conversation.events import (
    AssistantMessage,
    ProposalDecided,
    ProposalStaged,
    Question,
    UserAnswer,
    UserMessage,
)
from app.llm.endpoint_doctor import CHECKS
from tests.live import prompts
from tests.live.bench import LiveSession
from tests.live.conftest import Check
from tests.live.vendors import Target
from tests.wire.bench import FILE
from tests.wire.server import Request

_EDIT = prompts.EDIT + FILE
_ESSENTIAL_CHECKS = {"reachable", "key", "model", "wire", "streaming"}


def test_doctor(
    target: Target, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    results = {item["name"]: item["ok"] for item in document["checks"] if item["name"] in CHECKS}
    assert (code, document["ok"]) == (0, True), document
    assert all(results[name] for name in _ESSENTIAL_CHECKS), document
    assert len(check.recorder.turns) > 3
    if target.scripted:
        assert results == dict.fromkeys(CHECKS, True), document


async def test_gate(live: LiveSession) -> None:
    await live.ask_for(_EDIT, lambda: live.pending)
    [proposal] = live.pending
    assert [event.proposal for event in live.events if isinstance(event, ProposalStaged)] == [proposal.id]
    assert live.stopped in ("staged", "refused")
    staged = live.request_counts[ProposalStaged]
    *before, closing = [exchange.request for exchange in live.recorder.turns[: staged + 1]]
    assert_closing_request(live, closing, proposal.id)
    assert closing.body["tools"] == before[-1].body["tools"]
    accepted = [exchange for exchange in live.recorder.turns[staged:] if exchange.status == 200]
    assert len(accepted) <= 1
    for exchange in live.recorder.turns[staged:]:
        assert any(proposal.id in text and "Do not call tools" in text for _, text in exchange.request.said)
    if live.target.scripted or live.profile.tool_choice_none != "fails":
        live.check()
    assert live.file == FILE


async def test_denial(live: LiveSession) -> None:
    await live.ask_for(_EDIT, lambda: live.pending)
    [proposal] = live.pending
    sent = len(live.recorder.turns)
    await live.session.deny(proposal.id, feedback=prompts.DENIAL)
    await live.session.wait_until_idle()
    following = live.recorder.turns[sent].request
    assert [role for role, text in following.said if prompts.DENIAL in text] == ["user"]
    assert sum(text.count("<b>keep</b>") for _, text in following.said) == 1
    decision_roles = {role for role, text in following.said if proposal.id in text and "denied" in text}
    assert decision_roles == {"user" if live.profile.mid_system == "fold_user" else "system"}
    assert not following.closing
    [decision] = [event for event in live.events if isinstance(event, ProposalDecided)]
    assert (decision.source, decision.feedback) == ("user", prompts.DENIAL)
    assert proposal.id not in [pending.id for pending in live.pending]
    live.check()


async def test_question(live: LiveSession) -> None:
    await live.ask_for(prompts.ASK, lambda: live.session.question)
    asked = live.request_counts[Question]
    assert live.stopped == "question" and len(live.recorder.turns) == asked
    await live.session.answer(prompts.ANSWER)
    await live.session.wait_until_idle()
    following = live.recorder.turns[asked].request
    assert [role for role, text in following.said if prompts.ANSWER in text] == ["tool"]
    assert [event.text for event in live.events if isinstance(event, UserAnswer)] == [prompts.ANSWER]
    live.check()


async def test_abort(live: LiveSession) -> None:
    for _ in range(2):
        live.streaming.clear()
        async with asyncio.timeout(120):
            await live.session.send(prompts.LONG)
            first = asyncio.ensure_future(live.streaming.wait())
            idle = asyncio.ensure_future(live.session.wait_until_idle())
            await asyncio.wait({first, idle}, return_when=asyncio.FIRST_COMPLETED)
            live.session.interrupt()
            await idle
            first.cancel()
        assert live.stopped != "failed", live.failure
        if live.stopped == "aborted":
            break
    else:
        live.skip_uncooperative_model()
    assert [event.state for event in live.events if isinstance(event, AssistantMessage)][-1] == "interrupted"
    await live.send_message(prompts.SHORT)
    said = live.recorder.turns[-1].request.said
    sent_texts = [event.text for event in live.events if isinstance(event, UserMessage)]
    for sent_text in set(sent_texts):
        assert sum(text.count(sent_text) for role, text in said if role == "user") == sent_texts.count(sent_text)
    live.check()


def assert_closing_request(live: LiveSession, closing: Request, proposal: str) -> None:
    """Assert that the closing request forbids calls, and names the proposal in a system message if possible."""
    profile = live.profile
    if profile.tool_choice_none != "rejected":
        assert closing.closing
    [(index, role)] = [
        (index, role)
        for index, (role, text) in enumerate(closing.said)
        if proposal in text and "Do not call tools" in text
    ]
    assert role == ("user" if profile.mid_system == "fold_user" else "system")
    assert profile.mid_system != "inline" or index == len(closing.said) - 1
