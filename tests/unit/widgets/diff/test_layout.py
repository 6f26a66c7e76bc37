"""Layouts: every line of every file exactly once, in order, wherever folds, comments and wraps are."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.proposals.values.models import FileDiff, FileOperation, Hunk
from tests.ui.sample_diffs import file_diff, file_diff_of_hunks, retry_change
from widgets.diff.diff_arrangement import CONTEXT_LINES, MIN_FOLD_LINES, DiffComment, DiffFoldState, arrange_diffs
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_rows import (
    CommentRow,
    FoldRow,
    LineRow,
    NoteRow,
    Row,
    RowSegment,
    SourceLinePosition,
    UnifiedSegment,
    WhitespaceHunkRow,
)
from widgets.diff.diff_search import find_matches
from widgets.diff.white_space import find_hideable_whitespace_changes


@st.composite
def changes(draw: st.DrawFn) -> FileDiff:
    old: list[str] = []
    new: list[str] = []
    spans: list[tuple[int, int, int, int]] = []
    for _ in range(draw(st.integers(0, 4))):
        gap = [f"same {len(old) + at}" for at in range(draw(st.integers(0, 12)))]
        old, new = old + gap, new + gap
        removed, added = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        if not removed and not added:
            continue
        if spans and not gap:
            continue
        spans.append((len(old), removed, len(new), added))
        old += [f"old {len(old) + at}" for at in range(removed)]
        new += [f"new {len(new) + at}" for at in range(added)]
    tail = [f"tail {at}" for at in range(draw(st.integers(0, 12)))]
    return file_diff_of_hunks("a.py", old + tail, new + tail, spans)


def height(row: Row) -> int:
    match row:
        case LineRow(new=int(new)):
            return 1 + new % 3
        case CommentRow():
            return 2
        case _:
            return 1


def never(segment: RowSegment) -> bool:
    return False


def rows_of(layout: DiffLayout) -> list[Row]:
    layout.lay_out_more()
    return [layout.row_at(number) for number in range(layout.row_count)]


@given(changes(), st.booleans(), st.booleans(), st.booleans(), st.lists(st.integers(0, 30), max_size=4))
def test_each_line_is_once_in_order(diff: FileDiff, split: bool, whole: bool, wrap: bool, remarks: list[int]) -> None:
    comments = [
        DiffComment(SourceLinePosition(0, "new", line), f"about {line}") for line in remarks if line < len(diff.new)
    ]
    layout = arrange_diffs(
        [diff],
        DiffFoldState(split=split, whole=whole),
        comments=comments,
        count_terminal_lines=height,
        fits=never if wrap else None,
    )
    rows = rows_of(layout)
    old = [row.old for row in rows if isinstance(row, LineRow) and row.old is not None]
    new = [row.new for row in rows if isinstance(row, LineRow) and row.new is not None]
    folded = [
        line for row in rows if isinstance(row, FoldRow) for line in range(row.new_start, row.new_start + row.lines)
    ]
    assert old == sorted(set(old))
    assert new == sorted(set(new))
    assert sorted(new + folded) == list(range(len(diff.new)))
    assert not (whole and folded)
    hunk_lines = [
        line for hunk in diff.change.hunks for line in range(hunk.old_start, hunk.old_start + hunk.old_count)
    ]
    assert set(hunk_lines) <= set(old)
    shown = {line for line in remarks if line < len(diff.new)} - set(folded)
    assert {row.text for row in rows if isinstance(row, CommentRow)} == {f"about {line}" for line in shown}
    for number in range(layout.row_count):
        line = layout.first_line_of_row(number)
        for part in range(layout.height_of(number)):
            assert layout.part_at(line + part) == (number, rows[number], part)
        assert layout.height_of(number) == (
            height(rows[number]) if wrap or not isinstance(rows[number], LineRow) else 1
        )
    assert layout.height == sum(layout.height_of(number) for number in range(layout.row_count))


@given(changes(), st.booleans())
def test_a_row_and_the_hunks_are_found_in_another_layout(diff: FileDiff, split: bool) -> None:
    before = arrange_diffs([diff], DiffFoldState(split=split), count_terminal_lines=height)
    after = arrange_diffs([diff], DiffFoldState(split=not split, whole=True), count_terminal_lines=height)
    assert before.landmarks.hunks == [before.row_of_hunk(0, number) for number in range(len(diff.change.hunks))]
    assert all(first < second for first, second in pairwise(before.landmarks.hunks))
    for row in rows_of(before):
        if isinstance(row, LineRow):
            number = after.find_equal_row(row)
            assert number is not None
            found = after.row_at(number)
            assert isinstance(found, LineRow)
            assert (row.new is not None and found.new == row.new) or (row.old is not None and found.old == row.old)


def spaced(lines: list[str], how: list[str]) -> list[str]:
    return [
        {"space": f"  {line} ", "word": f"{line} more"}.get(what, line) for line, what in zip(lines, how, strict=True)
    ]


@given(st.lists(st.sampled_from(["same", "space", "word"]), min_size=1, max_size=40), st.booleans(), st.booleans())
def test_without_white_space_each_line_has_one_place(how: list[str], split: bool, whole: bool) -> None:
    old = [f"line {number};" for number in range(len(how))]
    diff = file_diff("a.go", "\n".join(old) + "\n", "\n".join(spaced(old, how)) + "\n")
    left = find_hideable_whitespace_changes([diff])
    layout = arrange_diffs(
        [diff], DiffFoldState(split=split, whole=whole), hidden_space=left, count_terminal_lines=height
    )
    rows = rows_of(layout)
    assert left.hidden_line_count == how.count("space")
    context = [row for row in rows if isinstance(row, LineRow) and row.hunk is None]
    assert all(row.old == row.new for row in context)
    counted = sum(row.lines for row in rows if isinstance(row, FoldRow))
    counted += sum(row.lines for row in rows if isinstance(row, WhitespaceHunkRow))
    changed = {row.newest.line for row in rows if isinstance(row, LineRow) and row.hunk is not None}
    assert changed == {number for number, what in enumerate(how) if what == "word"}
    assert len(context) + counted + len(changed) == len(how)
    assert {row.hunk for row in rows if isinstance(row, LineRow | WhitespaceHunkRow)} - {None} == set(
        range(len(diff.change.hunks))
    )
    for number, row in enumerate(rows):
        assert layout.find_equal_row(row) == number or not isinstance(row, LineRow | WhitespaceHunkRow)
    everything = arrange_diffs([diff], DiffFoldState(split=split), count_terminal_lines=height)
    for row in rows_of(everything):
        assert layout.find_equal_row(row) is not None
    for row in rows:
        assert everything.find_equal_row(row) is not None


def test_a_note_is_found_by_its_text_or_key() -> None:
    notes = [NoteRow(-1, "one", "note"), NoteRow(-1, "two", "note"), NoteRow(-1, "run", "open", "k")]
    layout = arrange_diffs(
        [file_diff("a.py", "a\n", "b\n")], DiffFoldState(), notes_above=notes, count_terminal_lines=height
    )
    assert [layout.find_equal_row(note) for note in notes] == [0, 1, 2]
    assert layout.find_equal_row(NoteRow(-1, "was run", "done", "k")) == 2
    assert layout.find_equal_row(NoteRow(-1, "three", "note")) is None


def test_a_long_unchanged_stretch_folds_to_one_row_and_opens_and_a_short_one_is_shown() -> None:
    def folds_of(layout: DiffLayout) -> list[FoldRow]:
        return [row for row in rows_of(layout) if isinstance(row, FoldRow)]

    old = [f"line {number}" for number in range(100)]
    diff = file_diff_of_hunks("a.py", old, [*old[:50], "new", *old[51:]], [(50, 1, 50, 1)])
    closed = arrange_diffs([diff], DiffFoldState(), count_terminal_lines=height)
    folds = folds_of(closed)
    assert [fold.lines for fold in folds] == [50 - CONTEXT_LINES, 49 - CONTEXT_LINES]
    opened = arrange_diffs([diff], DiffFoldState(opened=frozenset({(0, 0)})), count_terminal_lines=height)
    opened.lay_out_more()
    assert opened.row_count == closed.row_count + folds[0].lines - 1
    gap = 2 * CONTEXT_LINES + MIN_FOLD_LINES - 1
    new = [*old[:40]]
    new[5] = new[6 + gap] = "new"
    diff = file_diff_of_hunks("a.py", old[:40], new, [(5, 1, 5, 1), (6 + gap, 1, 6 + gap, 1)])
    assert [fold.gap for fold in folds_of(arrange_diffs([diff], DiffFoldState(), count_terminal_lines=height))] == [2]


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        (file_diff("gone.py", "a\n", None), "deleted"),
        (file_diff("new.py", "a\n", "a\n", old_path="old.py"), "Moved"),
        (file_diff("logo.png", None, None, hunks=(), binary=True), "Binary"),
        (file_diff("empty.py", None, ""), "empty"),
        (file_diff("NUL.txt", None, "a\n"), "device"),
        (file_diff("a.py", "a\n", "b\n", rebased=True), "Re-based"),
        (file_diff("a.py", "a\n", "b\n", stacked_on=("P3",)), "Builds on P3"),
        (file_diff("run.sh", "a\n", "a\n", op=FileOperation.MODE, mode=0o755), "644 to 755"),
    ],
)
def test_notes_about_a_file_are_shown(diff: FileDiff, words: str) -> None:
    rows = rows_of(arrange_diffs([diff], DiffFoldState(), count_terminal_lines=height))
    assert any(isinstance(row, NoteRow) and words in row.text for row in rows)


def test_a_huge_hunk_is_one_segment_and_its_parts_are_measured_separately() -> None:
    hunk = Hunk(id="h", number=1, old_start=0, old_count=0, new_start=0, new_count=1_000_000)
    layout = DiffLayout([UnifiedSegment(0, 0, hunk)])
    layout.lay_out_more()
    assert layout.part_at(999_999).row == LineRow(0, None, 999_999, 0, 999_999)
    lines = [f"line {number}" for number in range(3_000)]
    measured: list[int] = []

    def fits(segment: RowSegment) -> bool:
        measured.extend(segment.lines[1])
        return True

    diff = file_diff_of_hunks("a.py", [], lines, [(0, 0, 0, len(lines))])
    rows_of(arrange_diffs([diff], DiffFoldState(split=True), count_terminal_lines=height, fits=fits))
    assert measured == list(range(len(lines)))


def test_a_hunk_without_visible_lines_has_no_row() -> None:
    old = [f"line {number}" for number in range(9)]
    diff = file_diff_of_hunks("a.py", old, [*old[:7], "new", old[8]], [(2, 0, 2, 0), (7, 1, 7, 1)])
    layout = arrange_diffs([diff], DiffFoldState(), count_terminal_lines=height)
    assert layout.row_of_hunk(0, 0) is None
    assert layout.landmarks.hunks == [layout.row_of_hunk(0, 1)] != [None]


def test_search_finds_lines_in_the_order_of_the_screen_and_minds_case_only_with_capitals() -> None:
    diffs = retry_change()
    found = find_matches(diffs, "fetch")
    layout = arrange_diffs(diffs, DiffFoldState(whole=True), count_terminal_lines=height)
    numbers = [layout.find_equal_row(hit.row) for hit in found]
    assert numbers == sorted(numbers, key=lambda number: number or 0)
    assert len(found) == len({hit.line for hit in found}) > 5
    diffs = [file_diff("a.py", "x\n", "Alpha\nalpha\n")]
    assert [len(find_matches(diffs, query)) for query in ("alpha", "Alpha")] == [2, 1]
    diff = file_diff_of_hunks("a.py", ["x"] * 9, ["x"] * 9, [(1, 1, 1, 1), (5, 1, 5, 1)])
    answers = iter([True, False])
    found = find_matches([diff], "x", lambda: next(answers))
    assert {hit.hunk for hit in found} == {None, 0}, "cancelled, it ends before the next hunk"


def test_a_change_is_laid_out_only_as_far_as_needed() -> None:
    old = [f"line {number}" for number in range(8_000)]
    new = [line if number % 20 else "new" for number, line in enumerate(old)]
    diff = file_diff_of_hunks("a.py", old, new, [(start, 1, start, 1) for start in range(0, 8_000, 20)])
    layout = arrange_diffs([diff], DiffFoldState(), count_terminal_lines=height)
    layout.lay_out_more(lines=100)
    assert 100 <= layout.height < 200
    assert not layout.complete
    before = layout.height
    layout.lay_out_more(lines=100)
    assert layout.height == before
    assert layout.find_equal_row(LineRow(0, None, 4_000, 200, 0)) is not None
    assert layout.row_of_hunk(0, 200) == layout.find_equal_row(LineRow(0, 4_000, None, 200, 0))
    assert not layout.complete, "what is below is not needed"
    rest = arrange_diffs([diff], DiffFoldState(), count_terminal_lines=height)
    assert rows_of(layout) == rows_of(rest)


def test_many_remarks_stand_each_under_its_line() -> None:
    lines = [f"line {number}" for number in range(2_000)]
    diff = file_diff_of_hunks("a.py", [], lines, [(0, 0, 0, len(lines))])
    remarks = [DiffComment(SourceLinePosition(0, "new", line), f"about {line}") for line in range(0, 2_000, 2)]
    layout = arrange_diffs([diff], DiffFoldState(), comments=remarks, count_terminal_lines=lambda row: 1)
    rows = rows_of(layout)
    for above, row in pairwise(rows):
        if isinstance(row, CommentRow):
            assert isinstance(above, LineRow)
            assert row.text == f"about {above.new}"
    assert len(layout.landmarks.comments) == len(remarks)


def test_remarks_on_both_sides_of_a_hunk_are_in_the_order_of_the_rows() -> None:
    diff = file_diff_of_hunks("a.py", ["a", "b", "c"], ["x", "y", "z"], [(0, 3, 0, 3)])
    remarks = [
        DiffComment(SourceLinePosition(0, "new", 0), "x"),
        DiffComment(SourceLinePosition(0, "old", 2), "c"),
        DiffComment(SourceLinePosition(0, "old", 0), "a"),
    ]
    for split, order in ((False, ["a", "c", "x"]), (True, ["a", "x", "c"])):
        rows = rows_of(
            arrange_diffs([diff], DiffFoldState(split=split), comments=remarks, count_terminal_lines=lambda row: 1)
        )
        assert [row.text for row in rows if isinstance(row, CommentRow)] == order
