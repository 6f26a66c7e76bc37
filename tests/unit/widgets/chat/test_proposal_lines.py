"""What the chat says about a decision."""

import pytest

from app.conversation.events import Decision
from widgets.chat.entries import DecisionEntry
from widgets.chat.proposal_lines import decision_lines


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision.PARTLY_APPROVED, "Approved in part: P1 · the rest still waits"),
        (Decision.DENIED, "Denied P1 · the rest still waits"),
        (Decision.EDITED, "Edited P1 · it still waits"),
    ],
)
def test_what_still_waits_is_said_as_it_is(decision: Decision, words: str) -> None:
    lines = decision_lines(DecisionEntry("d1", "P1", decision, still_pending=True), 80)
    assert [line.text for line in lines] == [words]
