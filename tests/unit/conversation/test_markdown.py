"""The record of a session says who spoke to whom."""

import json

from app.conversation.events import EVENTS, Event, Intervention, InterventionKind, Notice
from app.conversation.markdown import markdown_record

EVENTS_OF_THE_PROGRAM: list[Event] = [
    Intervention(kind=InterventionKind.FACT, text="P1 was undone."),
    Notice(text="The profile was corrected."),
]


def test_what_the_program_says_is_told_with_its_source_and_its_audience() -> None:
    record = markdown_record("Title", "model", EVENTS_OF_THE_PROGRAM, {})
    assert "> signoff → model (fact): P1 was undone." in record
    assert "> signoff → you: The profile was corrected." in record


def test_the_json_of_an_event_names_them_too() -> None:
    said = [json.loads(EVENTS.dump_json(event)) for event in EVENTS_OF_THE_PROGRAM]
    assert [(one["source"], one["audience"]) for one in said] == [("program", "both"), ("program", "user")]
