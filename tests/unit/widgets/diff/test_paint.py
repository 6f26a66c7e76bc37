"""What is drawn of rows, without a screen."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from textual.geometry import Size

from tests.ui.sample_diffs import file_diff
from tests.unit.widgets.diff.test_cursor import laid_out
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_painter import DiffPainter
from widgets.diff.diff_rows import (
    BlankRowBetweenFiles,
    CommentRow,
    FileRow,
    FoldRow,
    LineRow,
    NoteRow,
    SourceLinePosition,
)
from widgets.diff.syntax_tokens import (
    FlaggedStretch,
    StyledStretch,
    clip_stretches,
    overlay_stretches,
    split_into_style_runs,
)


def drawn(sheet: DiffModel) -> list[str]:
    painter = DiffPainter(sheet.render_context, lambda classes: Style())
    parts = [sheet.rows.part_at(line) for line in range(sheet.rows.height)]
    return [painter.paint(part.row, part.part, line).text.rstrip() for line, part in enumerate(parts)]


def test_the_cursor_is_a_glyph_on_every_row_and_hides_no_text() -> None:
    lines = [f"line {number}" for number in range(30)]
    diffs = [file_diff(name, "\n".join(lines), "\n".join([*lines[:-1], "last"])) for name in ("a.py", "b.py")]
    sheet = laid_out(*diffs)
    sheet.notes = (NoteRow(-1, "of all", "note"), NoteRow(0, "of one", "note"))
    sheet.comments = (DiffComment(SourceLinePosition(0, "new", 29), "why?"),)
    sheet.lay_out(Size(80, 30), None)
    sheet.rows.lay_out_more()
    painter = DiffPainter(sheet.render_context, lambda classes: Style())
    parts = [sheet.rows.part_at(line) for line in range(sheet.rows.height)]
    assert {type(part.row) for part in parts} == {
        BlankRowBetweenFiles,
        CommentRow,
        FileRow,
        FoldRow,
        LineRow,
        NoteRow,
    }
    for line, part in enumerate(parts):
        plain, marked = (painter.paint(part.row, 0, line, cursor=cursor).text for cursor in ("", "diff--cursor"))
        assert "›" not in plain and marked[:2].count("›") == 1 and marked.replace("›", " ") == plain


def test_a_fold_names_the_definition_of_the_code_below() -> None:
    old = ["def first():", *(f"    one({number})" for number in range(20)), "def last():"]
    new = [line.replace("one(10)", "two(10)") for line in old]
    sheet = laid_out(file_diff("a.py", "\n".join(old), "\n".join(new)))
    folds = [line.strip() for line in drawn(sheet) if "unchanged" in line]
    assert folds == ["⋯ 8 unchanged lines  def first()", "⋯ 7 unchanged lines"], "below the last there is no code"
    inside = [f"    one({number})" for number in range(6)]
    old = ["def first():", *inside, "}", "", f"TABLE = {'x' * 500}", *inside, "    last"]
    sheet = laid_out(file_diff("a.py", "\n".join(old), "\n".join([*old[:-1], "    changed"])))
    (fold,) = [line.strip() for line in drawn(sheet) if "unchanged" in line]
    assert fold.endswith("unchanged lines  def first()"), "brackets, empty and very long lines are no definition"


def test_wrapped_unchanged_line_shows_only_its_beginning() -> None:
    long = "word " * 2_000
    sheet = laid_out(file_diff("a.py", f"{long}\none\n", f"{long}\ntwo\n"), wrap=True)
    lines = drawn(sheet)
    assert "⋯9,600 u" in "".join(lines) and len(lines) < 20


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("side", ["old", "new"])
def test_a_missing_final_newline_is_shown_on_its_side(width: int, side: str) -> None:
    diff = file_diff("a.py", "kept\none\n", "kept\ntwo\n")
    sheet = laid_out(diff.model_copy(update={f"{side}_final_newline": False}), width=width)
    sheet.lay_out(Size(width, 30), None)
    (line,) = [line for line in drawn(sheet) if "no newline at end" in line]
    word = {"old": "one", "new": "two"}[side]
    assert f"{word} ∅ no newline" in line


@pytest.mark.parametrize("width", [60, 200])
def test_a_wrapped_line_goes_on_below_its_code_behind_a_mark(width: int) -> None:
    comment = "# " + "why it is done in this way " * 8
    sheet = laid_out(file_diff("a.py", "a\n", f"        call()  {comment}\n"), width=width, wrap=True)
    sheet.render_context.query = "done in this"
    rows = drawn(sheet)
    first = next(number for number, row in enumerate(rows) if "+ " in row and "call()" in row)
    column = rows[first].index("call()")
    further = [row for row in rows[first + 1 :] if row]
    assert len(further) > 1
    for row in further:
        assert row[column - 10 : column] == "↳         ", "where the sign stands in the first"
        assert not row[column].isspace()
    assert not any("↳" in row for row in rows[: first + 1])
    joined = "".join(f"{row[column:]} " for row in rows[first:])
    assert joined.split() == f"call() {comment}".split()


def test_a_short_line_beside_a_wrapped_one_has_no_wrap_mark() -> None:
    sheet = laid_out(file_diff("a.py", "short\n", "short " * 60 + "\n"), width=160, wrap=True)
    rows = [row for row in drawn(sheet) if "↳" in row]
    assert rows
    assert all("↳" not in row[:80] for row in rows)


LENGTH = 30

RANGE = st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted).filter(lambda ends: ends[0] < ends[1])


@st.composite
def apart(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ranges in order that don't overlap."""
    ends = sorted(draw(st.sets(st.integers(0, LENGTH), max_size=10)))
    return [(begin, end) for number, (begin, end) in enumerate(pairwise(ends)) if number % 2 == 0]


@given(apart(), apart(), st.lists(st.tuples(RANGE, st.sampled_from([1, 2, 4])), max_size=4))
def test_each_character_gets_the_style_of_its_marks(
    tokens: list[tuple[int, int]], words: list[tuple[int, int]], flags: list[tuple[list[int], int]]
) -> None:
    under: list[StyledStretch] = [(begin, end, f"token {begin}") for begin, end in tokens]
    marks: list[FlaggedStretch] = [(begin, end, bit) for (begin, end), bit in flags]
    looks: list[tuple[str, int]] = []
    for start, end, name, marked in split_into_style_runs(LENGTH, overlay_stretches(under, words, "word"), marks):
        assert start == len(looks) < end
        looks += [(name, marked)] * (end - start)
    assert len(looks) == LENGTH
    for at, (name, marked) in enumerate(looks):
        token = next((name for begin, end, name in under if begin <= at < end), "")
        assert name == ("word" if any(begin <= at < end for begin, end in words) else token)
        expected = 0
        for begin, end, bit in marks:
            expected |= bit if begin <= at < end else 0
        assert marked == expected


@given(apart(), RANGE)
def test_clipped_stretches_lie_within_the_window(tokens: list[tuple[int, int]], window: list[int]) -> None:
    first, last = window
    found = clip_stretches([(begin, end, "") for begin, end in tokens], first, last)
    shown = {at for begin, end, _ in found for at in range(begin, end)}
    assert shown == {at for begin, end in tokens for at in range(begin, end) if first <= at < last}
