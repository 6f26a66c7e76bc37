"""The cursor of the diff and what is found from it, without a screen."""

import pytest
from rich.style import Style
from textual.geometry import Offset, Size
from textual.selection import Selection

from app.proposals.values.models import FileDiff
from app.review.hunk_lines import SeenLines
from tests.ui.sample_diffs import file_diff, proposal
from tests.unit.widgets.diff.diff_canvas import RecordingView
from widgets.diff.code_painter import RIGHT_SIDE_OFFSET
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_cursor import DiffCursor, LineRangePicker, copied_text, line_selection_at, word_selection_at
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_painter import DiffPainter
from widgets.diff.diff_rows import CommentRow, FileRow, FoldRow, LineRow, NoteRow, SourceLinePosition
from widgets.diff.seen_lines import UnseenLine, UnseenLineFinder, go_to_unseen_line


class Window:
    """A view of some lines, which notes what it is told."""

    def __init__(self, room: int = 10) -> None:
        self.scroll_offset = Offset(0, 0)
        self.visible_lines = room
        self.moved = 0

    def scroll_to(
        self, x: float | None = None, y: float | None = None, *, animate: bool = True, immediate: bool = False
    ) -> None:
        at = self.scroll_offset
        self.scroll_offset = Offset(at.x if x is None else int(x), at.y if y is None else int(y))

    def refresh_lines(self, y_start: int, line_count: int = 1) -> None:
        """Nothing is drawn."""

    def update_scroll_range(self) -> None:
        """It has any size."""

    def handle_cursor_moved(self) -> None:
        self.moved += 1


def laid_out(*diffs: FileDiff, width: int = 80, wrap: bool = False) -> DiffModel:
    sheet = DiffModel()
    sheet.wrap = wrap
    sheet.show_change(proposal("P1", diffs), diffs, versions=False)
    sheet.lay_out(Size(width, 30), None)
    sheet.rows.lay_out_more()
    return sheet


def numbered(*changed: int, lines: int = 40, **facts: object) -> FileDiff:
    old = [f"line {number}" for number in range(lines)]
    new = [f"new {number}" if number in changed else line for number, line in enumerate(old)]
    return file_diff("a.py", "\n".join(old), "\n".join(new), **facts)  # type: ignore[arg-type]


def test_plain_text_is_scrolled_without_a_cursor() -> None:
    sheet, window = DiffModel(), Window(10)
    sheet.show_message(plain_text=[NoteRow(-1, f"line {number}", "plain") for number in range(50)])
    sheet.lay_out(Size(80, 10), None)
    cursor = DiffCursor(sheet, window)
    cursor.move_row(1)
    assert (window.scroll_offset.y, cursor.number) == (1, 0)
    cursor.move_page(1)
    assert (window.scroll_offset.y, cursor.number) == (9, 0)


def test_a_row_taller_than_the_view_is_scrolled_before_the_cursor_moves() -> None:
    sheet, window = laid_out(file_diff("a.py", "a\n", "long words " * 60), wrap=True), Window(4)
    cursor = DiffCursor(sheet, window)
    tall = next(number for number in range(sheet.rows.row_count) if sheet.rows.height_of(number) > 6)
    cursor.move_to(tall, above=0)
    at = window.scroll_offset.y
    cursor.move_row(1)
    assert (cursor.number, window.scroll_offset.y) == (tall, at + 1)
    cursor.move_row(-1)
    assert (cursor.number, window.scroll_offset.y) == (tall, at)


def test_a_row_is_found_in_its_hunk_after_a_change_and_not_if_its_file_was_removed() -> None:
    sheet = laid_out(numbered(3, 30))
    diffs = [numbered(3, 10, 30)]
    sheet.show_change(proposal("P1", diffs), diffs, versions=False)
    assert sheet.row_in_new_diffs(LineRow(0, None, 30, 1, 0)) == LineRow(0, None, 30, 2, 0), "one was added above"
    diffs = [file_diff("b.py", "a\n", "b\n")]
    sheet.show_change(proposal("P1", diffs), diffs, versions=False)
    assert sheet.row_in_new_diffs(LineRow(0, 20, 20, None, 0)) is None
    assert sheet.row_in_new_diffs(LineRow(-1, 0, 0, None, 0)) is not None, "what is of no file stays"


def test_the_head_of_a_file_without_hunks_is_one_line_to_see() -> None:
    sheet, seen = laid_out(file_diff("logo.png", None, None, hunks=(), binary=True), numbered(3)), SeenLines()
    assert [UnseenLineFinder(sheet.render_context, seen).count_unseen(file) for file in range(2)] == [(1, 1), (2, 2)]
    seen.mark_file_seen("logo.png")
    assert UnseenLineFinder(sheet.render_context, seen).count_unseen(0) == (0, 1)


def test_no_row_is_outside_of_a_layout_and_the_cursor_of_an_empty_diff_does_not_move() -> None:
    rows = laid_out(numbered(3)).rows
    for number in (-1, rows.row_count):
        with pytest.raises(IndexError):
            rows.row_at(number)
    for line in (-1, rows.height):
        with pytest.raises(IndexError):
            rows.part_at(line)
    assert rows.find_equal_row(LineRow(9, None, 4, None, 0)) is None, "of a file that is not there"
    window = Window()
    cursor = DiffCursor(DiffModel(), window)
    cursor.move_to(3)
    cursor.move_page(1)
    cursor.move_row(1)
    cursor.move_to_end()
    assert (cursor.number, cursor.hunk, cursor.row, window.moved) == (0, None, None, 0)
    sheet = laid_out(numbered(3))
    cursor = DiffCursor(sheet, Window(0))
    for _ in range(sheet.rows.height + 1):
        cursor.move_page(1)
    assert cursor.number == sheet.rows.row_count - 1, "also if no line of the view is visible"
    sheet.rows = DiffLayout()  # since there are no columns yet
    go_to_unseen_line(UnseenLine(0, 0, 0), SeenLines(), sheet, cursor, window)
    assert window.moved == 0


def test_the_way_to_unseen_lines_skips_context_and_excluded_hunks() -> None:
    sheet = laid_out(numbered(3, 20, 35))
    first, second, third = sheet.diffs[0].change.hunks
    unseen = UnseenLineFinder(sheet.render_context, SeenLines())
    below = unseen.iterate_from(0, LineRow(0, 10, 10, None, 0))
    assert [place.hunk for place in below][:2] == [1, 2], "from the context between the first two on"
    sheet.render_context.left_out = frozenset({second.id})
    assert [place.hunk for place in unseen.iterate_from(0, None)][:2] == [0, 2]
    assert not sheet.render_context.is_left_out_row(LineRow(0, 10, 10, None, 0))
    assert sheet.render_context.is_left_out_row(LineRow(0, 20, None, 1, 0))
    assert not sheet.render_context.is_left_out_row(LineRow(0, 35, None, 2, 0)), third.id
    assert first.id != second.id


def test_the_shorter_side_of_a_wrapped_row_is_blank_below_and_copied_once() -> None:
    sheet = laid_out(file_diff("a.py", "short\n", "short " * 60 + "\n"), width=160, wrap=True)
    rows, scene = map(sheet.rows.row_at, range(sheet.rows.row_count)), sheet.render_context
    row = next(row for row in rows if isinstance(row, LineRow) and row.new == 0)
    cut = scene.visible_part_of(scene.drawn_line(row, "old", 0), 2)
    assert (cut.first, cut.last, cut.blank) == (len("short"), len("short"), 0)
    top = line_of(sheet, LineRow, new=0)
    assert copied_text(sheet.rows, scene, Selection(Offset(0, top), Offset(50, top + 3))) == "short"


def test_the_cursor_knows_its_gap_folded_or_open() -> None:
    sheet = laid_out(numbered(20))
    cursor = DiffCursor(sheet, Window())
    gaps = []
    for number in range(sheet.rows.row_count):
        cursor.move_without_scrolling(number)
        if isinstance(cursor.row, FoldRow):
            gaps.append(cursor.gap)
        elif isinstance(cursor.row, LineRow):
            assert cursor.gap == (None if cursor.row.hunk is not None else (0, int((cursor.row.new or 0) > 20)))
    assert gaps == [(0, 0), (0, 1)]


def test_between_two_versions_no_line_is_picked() -> None:
    diff = numbered(3)
    sheet = laid_out(diff)
    cursor = DiffCursor(sheet, Window())
    picking = LineRangePicker(sheet, cursor, RecordingView({}, []))
    cursor.move_without_scrolling(sheet.rows.row_of_hunk(0, 0) or 0)
    picking.toggle()
    picked = picking.picked_lines(None)
    assert picked is not None and picked.lines.old == {3}
    sheet.show_change(proposal("P1", [diff]), [diff], versions=True)
    assert picking.picked_lines(None) is None


def test_a_comment_belongs_to_the_line_above_it() -> None:
    sheet = laid_out(numbered(3))
    sheet.comments = (DiffComment(SourceLinePosition(0, "new", 3), "why?"),)
    sheet.lay_out(Size(80, 30), None)
    cursor = DiffCursor(sheet, Window())
    cursor.move_without_scrolling(
        next(n for n in range(sheet.rows.row_count) if isinstance(sheet.rows.row_at(n), CommentRow))
    )
    assert cursor.source_line == SourceLinePosition(0, "new", 3)


ALL = Selection(None, None)


def line_of(sheet: DiffModel, kind: type, **fields: object) -> int:
    for number in range(sheet.rows.row_count):
        row = sheet.rows.row_at(number)
        if isinstance(row, kind) and all(getattr(row, name) == value for name, value in fields.items()):
            return sheet.rows.first_line_of_row(number)
    raise LookupError(kind)


def test_folds_are_not_copied_and_a_wrapped_note_is_copied_once() -> None:
    note = "a very long note about the file " * 5
    sheet = laid_out(numbered(20, notes=(note.strip(),)), width=60)
    sheet.rows.lay_out_more()
    copied = copied_text(sheet.rows, sheet.render_context, ALL)
    assert line_of(sheet, FoldRow)
    assert copied.count("very long note") == 5, "the note once"
    assert "None" not in copied and copied.splitlines()[-1].startswith("line 2")
    assert "line 20" in copied and "new 20" in copied


def test_wrapped_lines_are_joined_in_a_copy_and_their_indentation_is_left_out() -> None:
    words = "word " * 40 + "end"
    sheet = laid_out(file_diff("a.py", "a\n", f"{words}\n"), width=60, wrap=True)
    top, scene = line_of(sheet, LineRow, new=0), sheet.render_context
    assert copied_text(sheet.rows, scene, Selection(Offset(0, top), None)) == words
    assert copied_text(sheet.rows, scene, Selection(Offset(400, top), Offset(500, top))) == ""
    one = copied_text(sheet.rows, scene, Selection(Offset(0, top + 1), Offset(500, top + 1)))
    assert one and one in words and one != words

    line = "        call()  # " + "why it is done " * 12
    sheet = laid_out(file_diff("a.py", "a\n", f"{line}\n"), width=60, wrap=True)
    top, scene = line_of(sheet, LineRow, new=0), sheet.render_context
    assert copied_text(sheet.rows, scene, Selection(Offset(0, top), None)) == line
    row = sheet.rows.row_at(sheet.rows.part_at(top).number)
    assert isinstance(row, LineRow)
    rest = line[scene.drawn_line(row, "new", 0).starts[1] :]
    assert copied_text(sheet.rows, scene, Selection(Offset(0, top + 1), None)) == rest
    _, found, part = sheet.rows.part_at(top + 1)
    strip = DiffPainter(scene, lambda classes: Style()).paint(found, part, top + 1, offsets=True)
    indent = next(one for one in strip if one.text == " " * 8)
    assert indent.style
    column, y = indent.style.meta["offset"]
    assert y == top + 1
    assert column + 8 < 0, "to the left of the line"


def test_side_by_side_only_the_half_in_which_one_selects_is_copied() -> None:
    sheet = laid_out(file_diff("a.py", "one\nkept\n", "kept\ntwo\n" + "long " * 40), width=160, wrap=True)
    left = copied_text(sheet.rows, sheet.render_context, Selection(Offset(0, 0), Offset(5, sheet.rows.height - 1)))
    assert "one" in left.split("\n") and "two" not in left
    from_right = Selection(Offset(RIGHT_SIDE_OFFSET, 0), Offset(RIGHT_SIDE_OFFSET + 9, sheet.rows.height - 1))
    right = copied_text(sheet.rows, sheet.render_context, from_right)
    assert "two" in right.split("\n") and "one" not in right.split("\n")


def test_a_click_beside_the_source_text_or_between_two_words_selects_nothing() -> None:
    sheet = laid_out(file_diff("a.py", "one two\nkept\n", "kept\n"), width=160)
    rows, scene = sheet.rows, sheet.render_context
    head, gone = line_of(sheet, FileRow), line_of(sheet, LineRow, old=0)
    for nowhere in (Offset(1, head), Offset(1, rows.height), Offset(1, -1), Offset(RIGHT_SIDE_OFFSET + 1, gone)):
        assert word_selection_at(rows, scene, nowhere) is line_selection_at(rows, scene, nowhere) is None
    assert line_selection_at(rows, scene, Offset(1, gone)) is not None
    assert word_selection_at(rows, scene, Offset(3, gone)) is None
    assert word_selection_at(rows, scene, Offset(4, gone)) == Selection(Offset(4, gone), Offset(7, gone))
