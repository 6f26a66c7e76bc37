"""What the record of a session, and the model, are told of who said and decided what."""

import json
from typing import Any

import pytest

from app.conversation.events import (
    EVENT_JSON,
    AssistantMessage,
    CallDeniedWithFeedback,
    CallOutcome,
    DecisionKind,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalDecided,
    ToolCall,
    ToolResult,
    UserNotice,
)
from app.conversation.markdown_export import format_session_as_markdown
from app.conversation.proposal_reports import format_decision_facts


def test_the_record_shows_control_characters_as_glyphs() -> None:
    answer = AssistantMessage(text="a\x1b]0;title\x07\r\n\tb \u202ec \udcff")
    record = format_session_as_markdown("Ti\x1btle", "model", [answer], {})
    assert "Ti␛tle" in record and "a␛]0;title␇␍\n\tb ⇠c \ufffd\n" in record


def test_the_record_shows_who_said_what_to_whom() -> None:
    events: list[Event] = [
        Intervention(kind=InterventionKind.FACT, text="P1 was undone."),
        UserNotice(text="The profile was corrected."),
        CallDeniedWithFeedback(call="c1.0", asked="command", subject="make", feedback="Not now.\nUse ninja."),
        HistoryCompacted(upto=1, summary="", method="truncation"),
    ]
    record = format_session_as_markdown("Title", "model", events, {})
    assert "> signoff → model (fact): P1 was undone." in record
    assert "> signoff → you: The profile was corrected." in record
    assert "## You denied a call" in record and "`make`. It did not run." in record
    assert "> Not now.\n> Use ninja." in record
    assert "> Older history was left out without a summary" in record
    said = [json.loads(EVENT_JSON.dump_json(event)) for event in events[:2]]
    assert [(one["source"], one["audience"]) for one in said] == [("program", "both"), ("program", "user")]


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ({"command": "make"}, " `make`"),
        ({"command": "echo `pwd`\n\n# Not a heading"}, " `` echo `pwd`␊␊# Not a heading ``"),
        ({"path": 3, "pattern": "a"}, " `a`"),
        ({"path": ["a"]}, ""),
        (None, ""),
    ],
)
def test_a_call_is_named_with_what_it_is_about(arguments: dict[str, Any] | None, target: str) -> None:
    call = ToolCall(uid="c1.0", name="a_tool", arguments=arguments)
    result = ToolResult(call="c1.0", outcome=CallOutcome.OK, text="x", summary="done")
    record = format_session_as_markdown("Title", "model", [AssistantMessage(calls=(call,)), result], {})
    assert f"- a_tool{target}: ok, done" in record.splitlines()


@pytest.mark.parametrize(
    ("decision", "on_disk", "said"),
    [
        (DecisionKind.APPROVED, False, "approved proposal P1. It is written to disk now."),
        (DecisionKind.APPROVED, True, "keeps what proposal P1 shows of the files on disk."),
        (DecisionKind.DENIED, False, "denied proposal P1. Nothing of it was written."),
        (DecisionKind.DENIED, True, "denied proposal P1, of changes that were on disk. They were taken off it;"),
    ],
)
def test_the_facts_say_what_is_on_disk_now(decision: DecisionKind, on_disk: bool, said: str) -> None:
    facts = format_decision_facts(ProposalDecided(proposal="P1", decision=decision, on_disk=on_disk))
    assert facts.startswith(f"The user {said}")
