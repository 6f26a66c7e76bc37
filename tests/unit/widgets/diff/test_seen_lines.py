"""What counts as seen: lines by rows, long lines by the characters that were drawn, and long lines around changes."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.proposals.values.models import Hunk, Proposal
from app.review.hunk_lines import SeenLines
from app.review.review_state import ReviewQueueState
from app.review.unfinished_review import UnsentComment, move_comment_to_revision
from tests.examples import scale_examples
from tests.ui.sample_diffs import file_diff
from tests.ui.sample_diffs import proposal as proposed
from tests.unit.proposals.bench import Bench, numbered
from widgets.diff.display_cells import (
    choose_shown_spans_of_changed_line,
    choose_shown_spans_of_context_line,
    display_text,
    make_display_text_with_gaps,
)

SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda span: (min(span), max(span))), max_size=8
)


def hunk(old: int, new: int, name: str = "h") -> Hunk:
    return Hunk(id=name, number=1, old_start=0, old_count=old, new_start=0, new_count=new)


@given(SPANS, SPANS)
def test_a_line_is_seen_once_drawn(drawn: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    seen, one = SeenLines(), hunk(0, 1)
    for span in drawn:
        seen.mark_characters_seen(one, 0, span, wanted)
    shown = {place for start, end in drawn for place in range(start, end)}
    missing = [place for start, end in wanted for place in range(start, end) if place not in shown]
    if drawn:
        assert seen.is_seen(one, 0) == (not missing)
        if missing:
            assert seen.first_undrawn_character(one, 0, wanted) == missing[0]


@given(st.integers(0, 5), st.integers(0, 5), st.lists(st.integers(0, 12)))
def test_drawn_lines_are_counted_once(old: int, new: int, drawn: list[int]) -> None:
    seen, one = SeenLines(), hunk(old, new)
    for number in drawn:
        seen.mark_seen(one, number)
    left = [number for number in range(old + new) if number not in drawn]
    assert seen.count_unseen_lines(one) == len(left)
    assert seen.first_unseen(one) == (left[0] if left else None)
    assert seen.lines == old + new - len(left)


def test_marking_seen_lines_again_changes_nothing() -> None:
    seen, one = SeenLines(), hunk(0, 2)
    seen.mark_seen(one, 0)
    seen.mark_characters_seen(one, 0, (0, 5), ((0, 9),))
    seen.mark_characters_seen(one, 1, (5, 5), ((0, 9),))
    assert (seen.count, seen.lines) == (1, 1)


def test_a_line_that_fits_or_shows_its_change_is_not_cut() -> None:
    line = "word " * 400
    assert choose_shown_spans_of_changed_line(line, ((0, 4),), 2_000, True) is None
    assert choose_shown_spans_of_changed_line(line, ((0, 4),), 1_999, True) is not None
    beyond_the_edge = choose_shown_spans_of_changed_line(line, ((0, 4),), 100, False)
    assert beyond_the_edge is None, "it is not in the way"
    assert choose_shown_spans_of_changed_line(line, ((0, 4), (1_900, 1_904)), 100, False) is not None
    assert choose_shown_spans_of_changed_line("x" * 500, ((3, 5),), 80, False) is None
    assert choose_shown_spans_of_changed_line("x" * 500, ((400, 405),), 80, False) == ((388, 417),)
    assert choose_shown_spans_of_changed_line("x" * 500, (), 80, False) is None, "a new line is shown whole"
    assert choose_shown_spans_of_context_line("x" * 1_999, True) is None
    assert choose_shown_spans_of_context_line("x" * 5_000, True) == ((0, 400),)


LINES = st.text(st.sampled_from("abc, \t中é\u200b"), max_size=900)


@given(LINES, SPANS, st.integers(10, 60), st.booleans())
def test_a_long_line_shows_its_changes(line: str, spans: list[tuple[int, int]], width: int, wrap: bool) -> None:
    changed = tuple((10 * start, min(len(line), 10 * start + 7)) for start in sorted({start for start, _ in spans}))
    changed = tuple(span for span in changed if span[0] < span[1])
    kept = choose_shown_spans_of_changed_line(line, changed, width, wrap)
    if kept is None:
        return
    assert all(any(low <= start and end <= high for low, high in kept) for start, end in changed)
    shown = make_display_text_with_gaps(line, kept)
    texts, at = [], 0
    for start, end in (*kept, (len(line), len(line))):
        if at < start:
            texts.append(f"⋯{start - at:,} unchanged⋯")
        texts.append(display_text(line[start:end]).text)
        at = end
    assert shown.text == "".join(texts)
    assert [shown.text[start:end] for start, end in shown.gaps] == [text for text in texts if text.startswith("⋯")]
    drawn = [shown.drawn_index(index) for index in range(len(line) + 1)]
    assert drawn == sorted(drawn) and drawn[-1] == len(shown.text)
    cells = [shown.first_column_of(index) for index in range(len(shown.text) + 1)]
    assert cells == sorted(cells) and cells[-1] == shown.width


def three_hunks(folder: Path) -> tuple[Bench, Proposal, ReviewQueueState]:
    site = Bench(folder, {"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 2\n", "A\nB\n"), ("line 12\n", "C\nD\nE\n"), ("line 22\n", "F\nG\n"))
    state = ReviewQueueState()
    state.update_proposals([proposal])
    return site, proposal, state


@settings(max_examples=scale_examples(25))
@given(line=st.integers(0, 33), hunk=st.integers(1, 3))
def test_a_remark_moves_with_its_line(tmp_path_factory: pytest.TempPathFactory, line: int, hunk: int) -> None:
    site, proposal, state = three_hunks(tmp_path_factory.mktemp("bench"))
    new = site.service.file_diffs(proposal.id)[0].new
    state.feedback_drafts.set_comment(proposal, UnsentComment("a.txt", "new", line, "why?"))
    after = site.service.deny(proposal.id, {str(hunk)}).proposal
    state.update_proposals([after])
    (remark,) = state.feedback_drafts.remarks[proposal.id]
    now = site.service.file_diffs(proposal.id)[0].new
    if new[line] in now:
        assert now[remark.line] == new[line]


def test_comments_on_unchanged_lines_move_with_them_when_the_file_changes_on_disk(tmp_path: Path) -> None:
    site, proposal, state = three_hunks(tmp_path)
    new = site.service.file_diffs(proposal.id)[0].new
    for line, text in enumerate(new):
        state.feedback_drafts.set_comment(proposal, UnsentComment("a.txt", "new", line, text))
    mine = numbered(30).replace("line 7\n", "line 7\nmine\n").replace("line 17\n", "line 17\nmine\n")
    (site.root / "a.txt").write_text(mine)
    state.update_proposals(site.service.rebase_pending())
    now = site.service.file_diffs(proposal.id)[0].new
    assert len(now) == len(new) + 2
    moved = [remark.text for remark in state.feedback_drafts.remarks[proposal.id] if now[remark.line] == remark.text]
    assert {"A", "line 3", "line 11", "line 13", "line 21", "G", "line 29"} <= {*moved}, moved


OWN = ("line 2", "line 12", "line 22")
"""The line that each hunk replaces."""
NEW = ((1, "A"), (12, "C"), (24, "F"))
"""The first of its lines, and where that stands in the proposed text."""


@settings(max_examples=scale_examples(25))
@given(own=st.integers(0, 2), others=st.sets(st.integers(0, 2)), deny=st.booleans(), on_old=st.booleans())
def test_a_comment_stays_at_its_hunk_after_a_decision(
    tmp_path_factory: pytest.TempPathFactory, own: int, others: set[int], deny: bool, on_old: bool
) -> None:
    site, proposal, state = three_hunks(tmp_path_factory.mktemp("bench"))
    diff = site.service.file_diffs(proposal.id)[0]
    line, first = NEW[own]
    assert diff.new[line] == first
    at = diff.old.index(OWN[own]) if on_old else line
    remark = UnsentComment("a.txt", "old" if on_old else "new", at, "why?")
    state.feedback_drafts.set_comment(proposal, remark)
    chosen = {str(hunk + 1) for hunk in {own, *others}}
    decide = site.service.deny if deny else site.service.approve
    after = decide(proposal.id, chosen).proposal
    assume(after.state.is_pending)
    state.update_proposals([after])
    (remark,) = state.feedback_drafts.remarks[proposal.id]
    assert remark.side == "new"
    assert site.service.file_diffs(proposal.id)[0].new[remark.line] == (OWN[own] if deny else first)


def test_a_remark_stays_at_its_hunk_when_the_user_edits_that(tmp_path: Path) -> None:
    site, proposal, state = three_hunks(tmp_path)
    line = site.service.file_diffs(proposal.id)[0].new.index("D")
    state.feedback_drafts.set_comment(proposal, UnsentComment("a.txt", "new", line, "why?"))
    text = "\n".join(site.service.file_diffs(proposal.id)[0].new)
    edited = text.replace("A\nB\n", "A\nB\nand more\n").replace("C\nD\nE\n", "C\nDee\nE\n")
    state.update_proposals([site.service.replace_proposed_text(proposal.id, "a.txt", f"{edited}\n")])
    (remark,) = state.feedback_drafts.remarks[proposal.id]
    assert site.service.file_diffs(proposal.id)[0].new[remark.line] == "Dee"


def test_a_comment_on_a_pending_hunk_stays_on_its_side() -> None:
    long, short = (proposed("P1", [file_diff("a.txt", "1\n2\n3\n", f"1\n{new}3\n")]) for new in ("A\nB\nC\n", "D\n"))
    on_old, on_new = UnsentComment("a.txt", "old", 1, "why?"), UnsentComment("a.txt", "new", 3, "why?")
    assert move_comment_to_revision(on_old, long, short) == on_old
    assert move_comment_to_revision(on_new, long, short).line == 1


def test_a_comment_is_unchanged_if_its_line_cannot_be_found() -> None:
    two_more = proposed("P1", [file_diff("a.txt", "1\n2\n3\n4\n", "1\nA\nB\n2\n3\n4\n")])
    denied = proposed("P1", [file_diff("a.txt", "1\n2\n3\n4\n", "1\n2\n3\n4\n")])
    rebased = proposed("P1", [file_diff("a.txt", "1\nA\nB\n2\n3\n4\n", "1\nA\nB\n2\n3\n4\n5\n")])
    elsewhere = proposed("P1", [file_diff("b.txt", "1\n", "2\n")])
    on_new, on_old = UnsentComment("a.txt", "new", 4, "why?"), UnsentComment("a.txt", "old", 2, "why?")
    assert move_comment_to_revision(on_new, two_more, denied).line == 2, "the third line"
    assert move_comment_to_revision(on_old, two_more, denied) == on_old
    for after in (rebased, elsewhere):
        assert move_comment_to_revision(on_new, two_more, after) == on_new
    assert move_comment_to_revision(on_new, elsewhere, two_more) == on_new
