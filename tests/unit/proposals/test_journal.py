"""Which records of a proposal count: what is on disk of it, and what the last undo took back."""

import pytest

from app.proposals.journal.journal import effective_records, last_folder_modes, undone_records
from app.proposals.values.proposal_store import JournalRecord


def records(history: str) -> list[JournalRecord]:
    """From `apply undo -apply`, newest first; a minus is for one that was rolled back."""
    made = [
        JournalRecord.model_validate(
            {
                "id": number,
                "proposal": "P1",
                "action": word.removeprefix("-"),
                "time": 0.0,
                "entries": (),
                "after_proposal": "",
                "state": "rolled_back" if word.startswith("-") else "done",
                "folder_modes": {"folder": number},
            }
        )
        for number, word in enumerate(history.split(), 1)
    ]
    return made[::-1]


@pytest.mark.parametrize(
    ("history", "on_disk", "taken_back"),
    [
        ("", [], []),
        ("apply", [1], []),
        ("apply apply", [2, 1], []),
        ("-apply apply -undo", [2], []),
        ("apply -apply undo -redo", [], [1]),
        ("apply undo apply", [3], []),
        ("apply apply undo redo", [4], []),
        ("apply undo redo undo", [], [3]),
        ("apply undo apply apply undo", [], [4, 3]),
    ],
)
def test_an_undo_takes_back_all_before_it_and_a_redo_puts_it_forth_as_one(
    history: str, on_disk: list[int], taken_back: list[int]
) -> None:
    found = records(history)
    assert [record.id for record in effective_records(found)] == on_disk
    assert [record.id for record in undone_records(found)] == taken_back


def test_the_last_record_that_was_carried_out_tells_what_a_folder_may() -> None:
    assert last_folder_modes(records("apply undo -redo")) == {"folder": 2}
