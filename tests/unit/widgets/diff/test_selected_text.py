"""What is copied of a diff, and what a click selects in it."""

import pytest
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection

from tests.ui.sample_diffs import file_diff
from tests.unit.widgets.diff.test_cursor import laid_out, numbered
from widgets.diff.code_painter import RIGHT_SIDE
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_painter import DiffPainter
from widgets.diff.diff_rows import FileRow, FoldRow, LineRow
from widgets.diff.line_selection import copied_text, line_at, word_at

ALL = Selection(None, None)


def line_of(sheet: DiffModel, kind: type, **fields: object) -> int:
    """The first terminal line of a row."""
    for number in range(sheet.rows.rows):
        row = sheet.rows.row(number)
        if isinstance(row, kind) and all(getattr(row, name) == value for name, value in fields.items()):
            return sheet.rows.line_of(number)
    raise LookupError(kind)


def test_a_fold_is_not_copied_and_a_note_that_wraps_is_copied_once() -> None:
    note = "a very long note about the file " * 5
    sheet = laid_out(numbered(20, notes=(note.strip(),)), width=60)
    sheet.rows.grow()
    copied = copied_text(sheet.rows, sheet.scene, ALL)
    assert line_of(sheet, FoldRow)
    assert copied.count("very long note") == 5, "the note once"
    assert "None" not in copied and copied.splitlines()[-1].startswith("line 2")
    assert "line 20" in copied and "new 20" in copied


def test_wrapped_lines_are_joined_again_wherever_the_selection_begins_and_ends() -> None:
    words = "word " * 40 + "end"
    sheet = laid_out(file_diff("a.py", "a\n", f"{words}\n"), width=60, wrap=True)
    top = line_of(sheet, LineRow, new=0)
    assert copied_text(sheet.rows, sheet.scene, Selection(Offset(0, top), None)) == words
    assert copied_text(sheet.rows, sheet.scene, Selection(Offset(400, top), Offset(500, top))) == ""
    one = copied_text(sheet.rows, sheet.scene, Selection(Offset(0, top + 1), Offset(500, top + 1)))
    assert one and one in words and one != words


def test_the_indentation_of_a_wrapped_line_is_not_copied_and_the_mouse_finds_its_start_there() -> None:
    line = "        call()  # " + "why it is done " * 12
    sheet = laid_out(file_diff("a.py", "a\n", f"{line}\n"), width=60, wrap=True)
    top = line_of(sheet, LineRow, new=0)
    assert copied_text(sheet.rows, sheet.scene, Selection(Offset(0, top), None)) == line
    assert copied_text(sheet.rows, sheet.scene, Selection(Offset(0, top + 1), None)) == line[len(first_row(sheet)) :]
    _, row, part = sheet.rows.part_at(top + 1)
    strip = DiffPainter(sheet.scene, lambda classes: Style()).paint(row, part, top + 1, offsets=True)
    indent = next(one for one in strip if one.text == " " * 8)
    assert indent.style
    column, y = indent.style.meta["offset"]
    assert y == top + 1
    assert column + 8 < 0, "to the left of the line"


def first_row(sheet: DiffModel) -> str:
    """What stands on the first row of the added line."""
    row = sheet.rows.row(sheet.rows.part_at(line_of(sheet, LineRow, new=0)).number)
    assert isinstance(row, LineRow)
    drawn = sheet.scene.drawn(row, "new", 0)
    return drawn.text.text[: drawn.starts[1]]


def test_side_by_side_only_the_half_in_which_one_selects_is_copied() -> None:
    sheet = laid_out(file_diff("a.py", "one\nkept\n", "kept\ntwo\n" + "long " * 40), width=160, wrap=True)
    left = copied_text(sheet.rows, sheet.scene, Selection(Offset(0, 0), Offset(5, sheet.rows.height - 1)))
    assert "one" in left.split("\n") and "two" not in left
    from_right = Selection(Offset(RIGHT_SIDE, 0), Offset(RIGHT_SIDE + 9, sheet.rows.height - 1))
    right = copied_text(sheet.rows, sheet.scene, from_right)
    assert "two" in right.split("\n") and "one" not in right.split("\n")


def test_side_by_side_a_line_beside_one_that_wraps_is_copied_once() -> None:
    sheet = laid_out(file_diff("a.py", "short\n", "short " * 60 + "\n"), width=160, wrap=True)
    top = line_of(sheet, LineRow, new=0)
    left = Selection(Offset(0, top), Offset(50, top + 3))
    assert copied_text(sheet.rows, sheet.scene, left) == "short"


@pytest.mark.parametrize("find", [word_at, line_at])
def test_a_click_beside_source_selects_nothing(find) -> None:  # type: ignore[no-untyped-def]
    sheet = laid_out(file_diff("a.py", "one two\nkept\n", "kept\n"), width=160)
    rows, scene = sheet.rows, sheet.scene
    head, gone = line_of(sheet, FileRow), line_of(sheet, LineRow, old=0)
    for nowhere in (Offset(1, head), Offset(1, rows.height), Offset(1, -1), Offset(RIGHT_SIDE + 1, gone)):
        assert find(rows, scene, nowhere) is None
    assert find(rows, scene, Offset(1, gone)) is not None


def test_between_two_words_no_word_is_selected() -> None:
    sheet = laid_out(file_diff("a.py", "one two\nkept\n", "kept\n"))
    gone = line_of(sheet, LineRow, old=0)
    assert word_at(sheet.rows, sheet.scene, Offset(3, gone)) is None
    assert word_at(sheet.rows, sheet.scene, Offset(4, gone)) == Selection(Offset(4, gone), Offset(7, gone))
