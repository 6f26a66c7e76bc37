"""What the record of a session, and the model, are told of who said and decided what."""

import json
from typing import Any

import pytest

from app.conversation.events import (
    EVENT_JSON,
    AssistantMessage,
    CallDenied,
    CallOutcome,
    DecisionKind,
    Event,
    Intervention,
    InterventionKind,
    ProposalDecided,
    ToolCall,
    ToolResult,
    UserNotice,
)
from app.conversation.markdown_export import export_markdown
from app.conversation.proposal_reports import format_decision_facts

EVENTS_OF_THE_PROGRAM: list[Event] = [
    Intervention(kind=InterventionKind.FACT, text="P1 was undone."),
    UserNotice(text="The profile was corrected."),
]


def test_record_and_json_show_source_and_audience_of_program_messages() -> None:
    record = export_markdown("Title", "model", EVENTS_OF_THE_PROGRAM, {})
    assert "> signoff → model (fact): P1 was undone." in record
    assert "> signoff → you: The profile was corrected." in record
    said = [json.loads(EVENT_JSON.dump_json(event)) for event in EVENTS_OF_THE_PROGRAM]
    assert [(one["source"], one["audience"]) for one in said] == [("program", "both"), ("program", "user")]


def test_record_quotes_the_users_words_on_a_denied_call() -> None:
    denied = CallDenied(call="c1.0", asked="command", subject="make", feedback="Not now.\nUse ninja.")
    record = export_markdown("Title", "model", [denied], {})
    assert "## You denied a call" in record and "`make`. It did not run." in record
    assert "> Not now.\n> Use ninja." in record


@pytest.mark.parametrize(
    ("arguments", "target"),
    [({"command": "make"}, " `make`"), ({"path": 3, "pattern": "a"}, " `a`"), ({"path": ["a"]}, ""), (None, "")],
)
def test_a_call_is_named_with_what_it_is_about(arguments: dict[str, Any] | None, target: str) -> None:
    call = ToolCall(uid="c1.0", name="a_tool", arguments=arguments)
    result = ToolResult(call="c1.0", outcome=CallOutcome.OK, text="x", summary="done")
    record = export_markdown("Title", "model", [AssistantMessage(calls=(call,)), result], {})
    assert f"- a_tool{target}: ok, done" in record.splitlines()


@pytest.mark.parametrize(
    ("decision", "on_disk", "said"),
    [
        (DecisionKind.APPROVED, False, "The user approved proposal P1. It is written to disk now."),
        (DecisionKind.APPROVED, True, "The user keeps what proposal P1 shows of the files on disk."),
        (DecisionKind.DENIED, False, "The user denied proposal P1. Nothing of it was written."),
        (
            DecisionKind.DENIED,
            True,
            "The user denied proposal P1, of changes that were on disk. They were taken off it;",
        ),
    ],
)
def test_the_facts_say_what_is_on_disk_now(decision: DecisionKind, on_disk: bool, said: str) -> None:
    assert format_decision_facts(ProposalDecided(proposal="P1", decision=decision, on_disk=on_disk)).startswith(said)
