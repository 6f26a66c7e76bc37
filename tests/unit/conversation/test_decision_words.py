"""What the model is told of a decision."""

import pytest

from app.conversation.decision_words import decision_facts
from app.conversation.events import Decision, ProposalDecided


@pytest.mark.parametrize(
    ("decision", "on_disk", "said"),
    [
        (Decision.APPROVED, False, "The user approved proposal P1. It is written to disk now."),
        (Decision.APPROVED, True, "The user keeps what proposal P1 shows of the files on disk."),
        (Decision.DENIED, False, "The user denied proposal P1. Nothing of it was written."),
        (Decision.DENIED, True, "The user denied proposal P1, of changes that were on disk. They were taken off it;"),
    ],
)
def test_the_facts_say_what_is_on_disk_now(decision: Decision, on_disk: bool, said: str) -> None:
    assert decision_facts(ProposalDecided(proposal="P1", decision=decision, on_disk=on_disk)).startswith(said)
