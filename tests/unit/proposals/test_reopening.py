"""A denial that is taken back: the proposal waits again, as it was, on the files as they are."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.locate.matching import TextReplacement
from app.proposals.values.models import FileOperation, HunkState, Proposal, ProposalState
from app.proposals.values.proposal_errors import NothingToUndo
from app.sandbox.captured_changes import FileOrLink, PathChange
from tests.examples import scale_examples
from tests.unit.proposals.bench import Bench, numbered

Make = Callable[..., Bench]


def test_every_kind_of_change_waits_again_and_can_be_approved(bench: Make) -> None:
    site = bench({"a.txt": numbered(5), "move.txt": "m\n", "gone.bin": b"\0\1", "run.sh": "#!/bin/sh\n"})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 2\n", "two\n")])
    draft.rename("move.txt", "moved.txt")
    draft.delete("gone.bin")
    draft.write("made.txt", "new\n")
    proposal = site.service.stage(draft, "All kinds")
    before, shown = site.tree(), site.service.unified_diff(proposal.id)
    site.service.deny(proposal.id, feedback="Not so.")
    result = site.reopened().undo(proposal.id)
    assert result.denial
    assert result.proposal.state is ProposalState.PENDING
    assert result.proposal.feedback == "", "what was said was said with the denial"
    assert result.proposal.revision > proposal.revision
    assert site.tree() == before
    assert site.service.unified_diff(proposal.id) == shown
    site.service.approve(proposal.id)
    assert sorted(site.tree()) == ["a.txt", "made.txt", "moved.txt", "run.sh"]
    assert site.read("a.txt").decode() == numbered(5, l2="two")


@settings(max_examples=scale_examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(apart=st.sets(st.integers(1, 3)), rounds=st.integers(1, 3))
def test_only_the_last_denial_returns(tmp_path_factory: pytest.TempPathFactory, apart: set[int], rounds: int) -> None:
    site = Bench(tmp_path_factory.mktemp("bench"), {"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"), ("line 12\n", "twelve\n"), ("line 22\n", "x\ny\n"))
    for number in sorted(apart):
        site.service.deny(proposal.id, {str(number)})
    if len(apart) == 3:
        apart = {1, 2}
    else:
        site.service.deny(proposal.id)
    for _ in range(rounds):
        site.service.undo(proposal.id)
        assert site.service.redo(proposal.id).proposal.state is ProposalState.DENIED
    site.service.undo(proposal.id)
    site.service.approve(proposal.id)
    kept = {1: "l2", 2: "l12", 3: "l22"}
    texts = {"l2": "two", "l12": "twelve", "l22": "x\ny"}
    landed = {kept[number]: texts[kept[number]] for number in {1, 2, 3} - apart}
    assert site.read("a.txt").decode() == numbered(30, **landed)


def test_a_file_that_moved_on_is_re_based_or_the_proposal_is_stale(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"))
    site.service.deny(proposal.id)
    site.put(**{"a.txt": numbered(30, l20="twenty")})
    assert site.service.undo(proposal.id).proposal.files[0].rebased
    site.service.redo(proposal.id)
    site.put(**{"a.txt": numbered(30, l2="mine")})
    assert site.service.undo(proposal.id).proposal.state is ProposalState.STALE
    assert site.service.redo(proposal.id).proposal.state is ProposalState.DENIED


def test_other_proposals_are_rebased_onto_a_reopened_one(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    first = site.edit("a.txt", ("line 2\n", "two\n"))
    second = site.edit("a.txt", ("line 12\n", "twelve\n"))
    site.service.deny(first.id)
    result = site.service.undo(first.id)
    assert [other.id for other in result.changed] == [second.id]
    assert site.service.get(second.id).files[0].stacked_on == (first.id,)


def test_not_while_another_waits_in_its_stead(bench: Make) -> None:
    site = bench({"a.txt": "a\n"})
    first = site.edit("a.txt", ("a", "b"))
    site.service.deny(first.id, feedback="Say c.")
    second = site.edit("a.txt", ("a", "c"), answers=(first.id,))
    with pytest.raises(NothingToUndo, match=r"P2 replaces P1 and is still pending; decide on that first\."):
        site.service.undo(first.id)
    site.service.deny(second.id)
    assert site.service.undo(first.id).proposal.state is ProposalState.PENDING


def test_a_redo_denies_only_hunks_still_reopened(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    waiting = site.edit("a.txt", ("line 2\n", "two\n"), ("line 22\n", "x\n"))
    with pytest.raises(NothingToUndo):
        site.service.redo(waiting.id)
    site.service.deny(waiting.id)
    site.service.undo(waiting.id)
    site.service.approve(waiting.id, {"1"})
    with pytest.raises(NothingToUndo):
        site.service.redo(waiting.id)


THREE = (("line 2\n", "A\nB\n"), ("line 12\n", "C\n"), ("line 22\n", "D\nE\n"))


def two_files(tmp_path: Path) -> tuple[Bench, Proposal]:
    """Three hunks in one file, and one in another."""
    site = Bench(tmp_path, {"a.txt": numbered(30), "b.txt": numbered(5)})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement(old, new) for old, new in THREE])
    draft.edit("b.txt", [TextReplacement("line 3\n", "F\n")])
    return site, site.service.stage(draft, "Edit both")


@given(denials=st.lists(st.sets(st.integers(1, 4), min_size=1, max_size=2), min_size=1, max_size=3))
def test_denials_are_reopened_one_by_one(tmp_path_factory: pytest.TempPathFactory, denials: list[set[int]]) -> None:
    site, proposal = two_files(tmp_path_factory.mktemp("bench"))
    shown = [(site.service.unified_diff(proposal.id), [hunk.id for hunk in proposal.hunks])]
    for wanted in denials:
        waiting = {hunk.number for hunk in proposal.hunks if hunk.state is HunkState.PENDING}
        if not wanted < waiting:
            continue
        proposal = site.service.deny(proposal.id, {str(number) for number in wanted}).proposal
        shown.append((site.service.unified_diff(proposal.id), [hunk.id for hunk in proposal.hunks]))
    for diff, hunks in reversed(shown[:-1]):
        result = site.service.undo(proposal.id)
        assert result.denial and result.hunks and result.proposal.state is ProposalState.PENDING
        assert site.service.unified_diff(proposal.id) == diff
        assert [hunk.id for hunk in result.proposal.hunks] == hunks
    assert not site.service.get(proposal.id).has_denied_part
    with pytest.raises(NothingToUndo):
        site.service.undo(proposal.id)


def test_undo_reopens_denied_hunks_on_the_current_disk_before_it_reverts_written_ones(tmp_path: Path) -> None:
    site, proposal = two_files(tmp_path)
    site.service.approve(proposal.id, {"1"})
    site.service.deny(proposal.id, {"2"})
    site.put(**{"a.txt": b"first\n" + site.read("a.txt")})
    site.service.rebase_pending()
    result = site.service.undo(proposal.id)
    assert result.denial and [hunk.state.value for hunk in result.proposal.hunks] == ["applied", *["pending"] * 3]
    assert b"A\nB\n" in site.read("a.txt"), "what was written stays"
    site.service.approve(proposal.id)
    text = site.read("a.txt").decode()
    assert text.startswith("first\n") and all(new in text for _, new in THREE)
    assert not site.service.undo(proposal.id).denial
    assert site.read("a.txt").decode() == "first\n" + numbered(30)


def test_a_proposal_denied_hunk_by_hunk_waits_again_hunk_by_hunk(tmp_path: Path) -> None:
    site, proposal = two_files(tmp_path)
    whole = site.service.unified_diff(proposal.id)
    for number in (1, 2, 3, 4):
        site.service.deny(proposal.id, {str(number)})
    assert site.service.get(proposal.id).state is ProposalState.DENIED
    while (now := site.service.get(proposal.id)).has_denied_part or now.state is ProposalState.DENIED:
        site.service.undo(proposal.id)
    assert site.service.unified_diff(proposal.id) == whole
    site.service.deny(proposal.id, {"4"})
    site.service.deny(proposal.id)
    assert {hunk.state for hunk in site.service.undo(proposal.id).proposal.hunks} == {HunkState.PENDING}


def test_a_denied_hunk_is_not_reopened_over_a_users_edit(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"), ("line 12\n", "twelve\n"))
    site.service.deny(proposal.id, ["2"])
    site.service.replace_proposed_text(proposal.id, "a.txt", numbered(20, l2="two", l12="mine"))
    with pytest.raises(NothingToUndo, match=r"The proposed text of a\.txt has changed where the denied hunks were"):
        site.service.undo(proposal.id)


def test_reopened_file_has_its_first_mode(bench: Make) -> None:
    site = bench({"a.sh": numbered(20)})
    draft = site.service.new_draft("session")
    after = numbered(20, l2="two", l12="twelve").encode()
    draft.add_changes([PathChange("a.sh", FileOrLink(numbered(20).encode(), 0o644), FileOrLink(after, 0o755))])
    proposal = site.service.stage(draft, "Executable")
    site.service.approve(proposal.id, ["1"])
    (change,) = site.service.approve(proposal.id).proposal.files
    assert change.base is not None and change.result is not None
    assert (change.op, change.base.mode, change.result.mode) == (FileOperation.EDIT, 0o644, 0o755)
    assert (change.added, change.removed) == (2, 2)
