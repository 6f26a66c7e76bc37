"""A proposal's states, versions and journal records."""

from collections.abc import Callable
from itertools import product

import pytest

from app.proposals.decide.comment_follow_up import diff_with_superseded_proposal
from app.proposals.journal.journal import effective_records, folder_modes_from_records, records_reverted_by_last_undo
from app.proposals.values.models import (
    TRANSITIONS,
    FileDiff,
    Proposal,
    ProposalState,
    with_state,
)
from app.proposals.values.proposal_errors import InvalidTransition, UnknownProposal
from app.proposals.values.proposal_store import JournalRecord
from tests.unit.proposals.bench import Bench

ALLOWED = {
    "pending": "pending partly_approved applied denied stale superseded failed",
    "partly_approved": "partly_approved pending applied stale failed",
    "stale": "stale pending partly_approved applied denied superseded failed",
    "applied": "undone failed",
    "undone": "applied failed",
    "failed": "pending partly_approved applied undone",
    "denied": "pending",
    "superseded": "",
}


def test_a_state_becomes_only_those_that_may_follow() -> None:
    assert set(TRANSITIONS) == set(ProposalState)
    proposal = Proposal(id="P1", workspace="/w", created=0.0, summary="s", files=())
    for start, end in product(ProposalState, ProposalState):
        before = proposal.model_copy(update={"state": start})
        if end.value in ALLOWED[start.value].split():
            moved = with_state(before, end, "why")
            assert (moved.state, moved.reason) == (end, "why")
        else:
            with pytest.raises(InvalidTransition, match=r"P1 is .* and can't become"):
                with_state(before, end)


def records(history: str) -> list[JournalRecord]:
    """From `apply undo -apply`, newest first; a minus is for one that was rolled back."""
    common = {"proposal": "P1", "time": 0.0, "entries": (), "after_proposal": ""}
    made = []
    for number, word in enumerate(history.split(), 1):
        fate = {"action": word.removeprefix("-"), "state": "rolled_back" if word.startswith("-") else "done"}
        values = {"id": number, "folder_modes": {"folder": number}, **common, **fate}
        made.append(JournalRecord.model_validate(values))
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
def test_undo_and_redo_count_as_one_record(history: str, on_disk: list[int], taken_back: list[int]) -> None:
    found = records(history)
    assert [record.id for record in effective_records(found)] == on_disk
    assert [record.id for record in records_reverted_by_last_undo(found)] == taken_back
    done = [record.id for record in found if record.state == "done"]
    assert folder_modes_from_records(found) == ({"folder": done[0]} if done else {})


BEFORE, ZWEI, DEUX = (f"one\n{word}\nthree\n" for word in ("two", "zwei", "deux"))


def denied(site: Bench, **files: str) -> tuple[str]:
    first = site.write(**files)
    site.service.deny(first.id, feedback="in French, and leave b alone")
    return (first.id,)


def differences(site: Bench, proposal: Proposal) -> dict[str, FileDiff]:
    return {diff.change.path: diff for diff in diff_with_superseded_proposal(site.store, proposal.id)}


def test_only_what_differs_between_two_versions_is_shown(bench: Callable[..., Bench]) -> None:
    site = bench({"a.py": BEFORE, "b.py": "b\n"})
    second = site.write(*denied(site, **{"a.py": ZWEI, "b.py": "B\n"}), **{"a.py": DEUX, "c.py": "c\n"})
    diffs = differences(site, second)
    assert set(diffs) == {"a.py", "b.py", "c.py"}
    assert (diffs["a.py"].old, diffs["a.py"].new) == (("one", "zwei", "three"), ("one", "deux", "three"))
    assert (diffs["b.py"].old, diffs["b.py"].new) == (("B",), ("b",))
    assert diffs["c.py"].change.base is None and diffs["c.py"].new == ("c",)
    for name in (*denied(site, **{"b.py": "C\n"}), "P99"):
        with pytest.raises(UnknownProposal):
            diff_with_superseded_proposal(site.store, name)


def test_equal_files_of_two_versions_are_left_out_and_a_rename_moves_the_file(bench: Callable[..., Bench]) -> None:
    site = bench({"a.py": BEFORE, "b.py": "b\n"})
    second = site.write(*denied(site, **{"a.py": ZWEI, "b.py": "B\n"}), **{"a.py": ZWEI, "b.py": "C\n"})
    assert list(differences(site, second)) == ["b.py"]
    site.service.deny(second.id)
    diffs = differences(site, site.rename("a.py", "z.py", answers=denied(site, **{"a.py": ZWEI})))
    assert diffs["a.py"].change.result is None and diffs["a.py"].old == ("one", "zwei", "three")
    assert diffs["z.py"].change.base is None and diffs["z.py"].new == ("one", "two", "three")
