"""A proposal's states, versions and journal records."""

from itertools import product

import pytest

from app.proposals.decide.comment_follow_up import diff_with_superseded_proposal
from app.proposals.journal.journal import effective_records, folder_modes_from_records, undone_records
from app.proposals.locate.matching import TextReplacement
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import (
    TRANSITIONS,
    FileChange,
    FileOperation,
    Hunk,
    HunkState,
    Proposal,
    ProposalState,
    compute_state,
    with_state,
)
from app.proposals.values.proposal_errors import InvalidTransition, UnknownProposal
from app.proposals.values.proposal_store import JournalRecord
from app.workspace.paths import Workspace
from tests.unit.proposals.memory_store import MemoryStore

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


def proposal(state: ProposalState, *hunks: HunkState) -> Proposal:
    made = tuple(
        Hunk(id=str(n), number=n, old_start=n, old_count=1, new_start=n, new_count=1, state=each)
        for n, each in enumerate(hunks)
    )
    pending = HunkState.PENDING in hunks
    whole = HunkState.PENDING if pending or not hunks else hunks[0]
    change = FileChange(path="a", op=FileOperation.EDIT, base=None, result=None, hunks=made, state=whole)
    return Proposal(id="P1", workspace="/w", created=0.0, summary="s", state=state, files=(change,))


@pytest.mark.parametrize(("start", "end"), product(ProposalState, ProposalState))
def test_every_pair(start: ProposalState, end: ProposalState) -> None:
    if end.value in ALLOWED[start.value].split():
        moved = with_state(proposal(start), end, "why")
        assert moved.state is end
        assert moved.reason == "why"
    else:
        with pytest.raises(InvalidTransition, match=r"P1 is .* and can't become"):
            with_state(proposal(start), end)


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(ProposalState)


@pytest.mark.parametrize(
    ("hunks", "state"),
    [
        ("pending pending", ProposalState.PENDING),
        ("pending denied", ProposalState.PENDING),
        ("pending applied", ProposalState.PARTLY_APPROVED),
        ("applied denied", ProposalState.APPLIED),
        ("applied applied", ProposalState.APPLIED),
        ("denied denied", ProposalState.DENIED),
    ],
)
def test_standing_follows_from_the_hunks(hunks: str, state: ProposalState) -> None:
    states = [HunkState(each) for each in hunks.split()]
    assert compute_state(proposal(ProposalState.PENDING, *states)) is state


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
def test_undo_and_redo_count_as_one_record(history: str, on_disk: list[int], taken_back: list[int]) -> None:
    found = records(history)
    assert [record.id for record in effective_records(found)] == on_disk
    assert [record.id for record in undone_records(found)] == taken_back


def test_folder_permissions_come_from_the_last_executed_record() -> None:
    assert folder_modes_from_records(records("apply undo -redo")) == {"folder": 2}


@pytest.fixture
def service(tmp_path):  # type: ignore[no-untyped-def]
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.py").write_text("one\ntwo\nthree\n")
    (root / "b.py").write_text("b\n")
    store = MemoryStore()
    return ProposalService(Workspace(root), store, tmp_path / "lock"), store


def test_only_what_differs_between_the_two_is_shown(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.new_draft("s")
    draft.edit("a.py", [TextReplacement("two", "zwei")])
    draft.edit("b.py", [TextReplacement("b", "B")])
    first = made.stage(draft, "first")
    made.deny(first.id, feedback="in French, and leave b alone")
    draft = made.new_draft("s")
    draft.edit("a.py", [TextReplacement("two", "deux")])
    draft.write("c.py", "c\n")
    second = made.stage(draft, "second", answers=(first.id,))
    diffs = {diff.change.path: diff for diff in diff_with_superseded_proposal(store, second.id)}
    assert set(diffs) == {"a.py", "b.py", "c.py"}
    assert (diffs["a.py"].old, diffs["a.py"].new) == (("one", "zwei", "three"), ("one", "deux", "three"))
    assert (diffs["b.py"].old, diffs["b.py"].new) == (("B",), ("b",))
    assert diffs["c.py"].change.base is None and diffs["c.py"].new == ("c",)


def test_a_file_with_equal_content_in_both_versions_is_left_out(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.new_draft("s")
    draft.edit("a.py", [TextReplacement("two", "zwei")])
    draft.edit("b.py", [TextReplacement("b", "B")])
    first = made.stage(draft, "first")
    made.deny(first.id)
    draft = made.new_draft("s")
    draft.edit("a.py", [TextReplacement("two", "zwei")])
    draft.edit("b.py", [TextReplacement("b", "C")])
    second = made.stage(draft, "second", answers=(first.id,))
    assert [diff.change.path for diff in diff_with_superseded_proposal(store, second.id)] == ["b.py"]


def test_a_rename_that_is_new_in_the_second_version_moves_the_file(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.new_draft("s")
    draft.edit("a.py", [TextReplacement("two", "zwei")])
    first = made.stage(draft, "first")
    made.deny(first.id)
    draft = made.new_draft("s")
    draft.rename("a.py", "z.py")
    second = made.stage(draft, "second", answers=(first.id,))
    diffs = {diff.change.path: diff for diff in diff_with_superseded_proposal(store, second.id)}
    assert diffs["a.py"].change.result is None and diffs["a.py"].old == ("one", "zwei", "three")
    assert diffs["z.py"].change.base is None and diffs["z.py"].new == ("one", "two", "three")


def test_a_first_version_has_nothing_to_be_compared_with(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.new_draft("s")
    draft.edit("b.py", [TextReplacement("b", "B")])
    first = made.stage(draft, "first")
    for name in (first.id, "P99"):
        with pytest.raises(UnknownProposal):
            diff_with_superseded_proposal(store, name)
