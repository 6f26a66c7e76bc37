"""A remark stays with its line, whatever is decided on the other hunks of the file."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.review.review_state import ReviewState
from app.review.unfinished_review import Remark, moved
from tests.examples import at_most
from tests.ui.sample_diffs import file_diff
from tests.ui.sample_diffs import proposal as proposed
from tests.unit.proposals.bench import Bench, numbered


@settings(max_examples=at_most(25))
@given(line=st.integers(0, 33), hunk=st.integers(1, 3))
def test_a_remark_moves_with_its_line_when_another_hunk_is_denied(
    tmp_path_factory: pytest.TempPathFactory, line: int, hunk: int
) -> None:
    site = Bench(tmp_path_factory.mktemp("bench"), {"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 2\n", "A\nB\n"), ("line 12\n", "C\nD\nE\n"), ("line 22\n", "F\nG\n"))
    new = site.service.diffs(proposal.id)[0].new
    state = ReviewState()
    state.update([proposal])
    state.unsaid.set_comment(proposal, Remark("a.txt", "new", line, "why?"))
    after = site.service.deny(proposal.id, {str(hunk)}).proposal
    state.update([after])
    (remark,) = state.unsaid.remarks[proposal.id]
    now = site.service.diffs(proposal.id)[0].new
    if new[line] in now:
        assert now[remark.line] == new[line]


OWN = ("line 2", "line 12", "line 22")
"""The line that each hunk replaces."""
NEW = ((1, "A"), (12, "C"), (24, "F"))
"""The first of its lines, and where that stands in the proposed text."""


@settings(max_examples=at_most(25))
@given(own=st.integers(0, 2), others=st.sets(st.integers(0, 2)), deny=st.booleans(), on_old=st.booleans())
def test_a_remark_stays_at_the_place_of_its_hunk_once_that_is_decided(
    tmp_path_factory: pytest.TempPathFactory, own: int, others: set[int], deny: bool, on_old: bool
) -> None:
    site = Bench(tmp_path_factory.mktemp("bench"), {"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 2\n", "A\nB\n"), ("line 12\n", "C\nD\nE\n"), ("line 22\n", "F\nG\n"))
    diff = site.service.diffs(proposal.id)[0]
    line, first = NEW[own]
    assert diff.new[line] == first
    state = ReviewState()
    state.update([proposal])
    remark = (
        Remark("a.txt", "old", diff.old.index(OWN[own]), "why?") if on_old else Remark("a.txt", "new", line, "why?")
    )
    state.unsaid.set_comment(proposal, remark)
    chosen = {str(hunk + 1) for hunk in {own, *others}}
    decide = site.service.deny if deny else site.service.approve
    after = decide(proposal.id, chosen).proposal
    assume(after.state.is_pending)
    state.update([after])
    (remark,) = state.unsaid.remarks[proposal.id]
    assert remark.side == "new"
    assert site.service.diffs(proposal.id)[0].new[remark.line] == (OWN[own] if deny else first)


def test_a_remark_stays_at_its_hunk_when_the_user_edits_that(tmp_path: Path) -> None:
    site = Bench(tmp_path, {"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 2\n", "A\nB\n"), ("line 12\n", "C\nD\n"))
    state = ReviewState()
    state.update([proposal])
    line = site.service.diffs(proposal.id)[0].new.index("D")
    state.unsaid.set_comment(proposal, Remark("a.txt", "new", line, "why?"))
    text = "\n".join(site.service.diffs(proposal.id)[0].new)
    edited = text.replace("A\nB\n", "A\nB\nand more\n").replace("C\nD\n", "C\nDee\n")
    state.update([site.service.replace_result(proposal.id, "a.txt", f"{edited}\n")])
    (remark,) = state.unsaid.remarks[proposal.id]
    assert site.service.diffs(proposal.id)[0].new[remark.line] == "Dee"


def test_a_remark_on_a_hunk_that_waits_stays_on_its_side_and_within_what_the_user_left_of_it() -> None:
    long, short = (proposed("P1", [file_diff("a.txt", "1\n2\n3\n", f"1\n{new}3\n")]) for new in ("A\nB\nC\n", "D\n"))
    on_old, on_new = Remark("a.txt", "old", 1, "why?"), Remark("a.txt", "new", 3, "why?")
    assert moved(on_old, long, short) == on_old
    assert moved(on_new, long, short).line == 1


def test_a_remark_stays_as_it_is_where_it_cannot_be_told_where_its_line_went() -> None:
    two_more = proposed("P1", [file_diff("a.txt", "1\n2\n3\n4\n", "1\nA\nB\n2\n3\n4\n")])
    denied = proposed("P1", [file_diff("a.txt", "1\n2\n3\n4\n", "1\n2\n3\n4\n")])
    rebased = proposed("P1", [file_diff("a.txt", "1\nA\nB\n2\n3\n4\n", "1\nA\nB\n2\n3\n4\n5\n")])
    elsewhere = proposed("P1", [file_diff("b.txt", "1\n", "2\n")])
    on_new, on_old = Remark("a.txt", "new", 4, "why?"), Remark("a.txt", "old", 2, "why?")
    assert moved(on_new, two_more, denied).line == 2, "the third line"
    assert moved(on_old, two_more, denied) == on_old
    for after in (rebased, elsewhere):
        assert moved(on_new, two_more, after) == on_new
    assert moved(on_new, elsewhere, two_more) == on_new
