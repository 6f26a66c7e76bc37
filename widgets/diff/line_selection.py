"""Picking lines out of a diff: from where it began to the cursor, or by a selection with the mouse."""

import re
from dataclasses import dataclass

from textual.geometry import Offset
from textual.selection import Selection

from app.proposals.stack.hunk_splitting import SelectedLines
from app.review.hunk_lines import Side
from app.review.seen import changed_line_count
from app.text.safe_text import escape_unsafe
from widgets.diff.code_painter import RIGHT_SIDE_OFFSET, is_right_half, selected_range
from widgets.diff.diff_cursor import DiffCursor, DiffViewAccess
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import CommentRow, FileRow, LineRow, NoteRow, Row
from widgets.diff.display_cells import display_text
from widgets.diff.render_context import RenderContext

_WORD = re.compile(r"\w+|[^\w\s]+")
"""A name, a number, or signs that stand together."""


def copied_text(layout: DiffLayout, context: RenderContext, selection: Selection) -> str:
    """Return the text of the selected terminal lines, with wrapped lines joined again.

    Tabs stay tabs. An unsafe character is copied as the glyph that was seen: what is pasted into a shell holds no
    escape sequence.
    """
    first = selection.start.y if selection.start is not None else 0
    last = selection.end.y if selection.end is not None else layout.height - 1
    parts: list[str] = []
    previous = -1
    for line in range(max(0, first), min(last, layout.height - 1) + 1):
        number, row, part = layout.part_at(line)
        if number == previous and not isinstance(row, LineRow):
            continue
        text = _selected_text(context, row, part, selection, line)
        if text is None:
            continue
        if number == previous:
            parts[-1] += text
        else:
            parts.append(text)
        previous = number
    return "\n".join(parts)


def _selected_text(scene: RenderContext, row: Row, part: int, selection: Selection, line: int) -> str | None:
    match row:
        case LineRow():
            side: Side = "old" if row.new is None else "new"
            if scene.split:
                right = selected_range(selection, line, True, "new")
                side = "old" if right is None else "new"
            span = selected_range(selection, line, scene.split, side)
            number = row.old if side == "old" else row.new
            if span is None or number is None:
                return None
            return _source(scene, row, side, number, part, span)
        case NoteRow() | CommentRow():
            return escape_unsafe(row.text)
        case FileRow():
            return display_text(scene.diffs[row.file].change.path).text
        case _:
            return None


def _source(scene: RenderContext, row: LineRow, side: Side, number: int, part: int, span: tuple[int, int]) -> str:
    """The selected characters of a line, or of one part of it where lines are wrapped; `span` counts drawn ones."""
    source = scene.line_text(row.file, side, number)
    drawn = scene.drawn_line(row, side, number)
    shown, starts = drawn.text, drawn.starts
    if part >= len(starts):
        return ""
    end = starts[part + 1] if part + 1 < len(starts) else len(shown.text)
    begin = max(starts[part], span[0])
    end = end if span[1] < 0 else min(end, span[1])
    last = len(source) if end == len(shown.text) else shown.source_index(end)
    return escape_unsafe(source, keep="\t")[shown.source_index(begin) : last]


def word_at(layout: DiffLayout, context: RenderContext, offset: Offset) -> Selection | None:
    """Return the word at a mouse offset: drawn character and terminal line."""
    found = _source_at(layout, context, offset)
    if found is None:
        return None
    begin, text = found
    for match in _WORD.finditer(text):
        if match.start() <= offset.x - begin < match.end():
            return Selection(Offset(begin + match.start(), offset.y), Offset(begin + match.end(), offset.y))
    return None


def line_at(layout: DiffLayout, context: RenderContext, offset: Offset) -> Selection | None:
    """Return the whole source line at a mouse offset, over all terminal lines that it is wrapped to."""
    found = _source_at(layout, context, offset)
    if found is None:
        return None
    begin, text = found
    number = layout.part_at(offset.y).number
    top, after = (
        layout.first_line_of(number),
        layout.first_line_of(number + 1) if number + 1 < layout.row_count else layout.height,
    )
    return Selection(Offset(begin, top), Offset(begin + len(text), after - 1))


def _source_at(layout: DiffLayout, scene: RenderContext, offset: Offset) -> tuple[int, str] | None:
    """The selection offset of the first character of a line of source, and the line as it is drawn."""
    row = layout.part_at(offset.y).row if 0 <= offset.y < layout.height else None
    if not isinstance(row, LineRow):
        return None
    right = scene.split and is_right_half(offset.x)
    side: Side = "new" if right or (not scene.split and row.new is not None) else "old"
    number = row.new if side == "new" else row.old
    if number is None:
        return None
    return RIGHT_SIDE_OFFSET if right else 0, scene.drawn_line(row, side, number).text.text


@dataclass(frozen=True, slots=True)
class PickedLines:
    """Changed lines that were picked, of one file."""

    lines: SelectedLines
    hunks: frozenset[str]
    """Ids of the hunks that they are of."""
    whole: frozenset[str]
    """Ids of the hunks whose lines were all picked."""


class LineSelection:
    """The picked lines, which the next Space takes in or out."""

    def __init__(self, model: DiffModel, cursor: DiffCursor, view: DiffViewAccess) -> None:
        self._sheet = model
        self._cursor = cursor
        self._view = view
        self.start: int | None = None
        """The row from which on lines are picked, up to the cursor."""

    @property
    def picked_rows(self) -> range:
        """Return the rows that are picked, from the start to the cursor."""
        rows = self._sheet.rows
        if self.start is None or not rows.row_count:
            return range(0)
        first, last = sorted((rows.nearest_row(self.start), self._cursor.number))
        return range(first, last + 1)

    def set_start(self, row: int | None) -> None:
        """Begin to pick at a row, or stop it."""
        if row != self.start and self._sheet.diffs:
            self.start = row
            self._view.redraw_all()

    def toggle(self) -> None:
        """Begin to pick at the cursor, or stop it."""
        self.set_start(None if self.start is not None else self._cursor.number)

    def extend(self, step: int) -> None:
        """Extend the selection to the next line, or to the one before (-1)."""
        if self.start is None:
            self.set_start(self._cursor.number)
        self._cursor.move_to(self._cursor.number + step)

    def picked_lines(self, selection: Selection | None) -> PickedLines | None:
        """Return the changed lines, of one file, that are picked by key or lie in a selection."""
        sheet = self._sheet
        rows = self.picked_rows or self._rows_in(selection)
        file = self._cursor.file_index if self.picked_rows else sheet.rows.row_at(rows[0]).file if rows else -1
        if sheet.is_comparing_versions or file < 0:
            return None
        change = sheet.diffs[file].change
        lines: dict[Side, set[int]] = {"old": set(), "new": set()}
        touched: dict[int, int] = {}
        for row in map(sheet.rows.row_at, rows):
            if isinstance(row, LineRow) and row.file == file and row.hunk is not None:
                touched[row.hunk] = touched.get(row.hunk, 0) + len(row.lines)
                for side, line in row.lines:
                    lines[side].add(line)
        if not touched:
            return None
        hunks = [(change.hunks[number], count) for number, count in touched.items()]
        return PickedLines(
            SelectedLines(change.path, frozenset(lines["old"]), frozenset(lines["new"])),
            frozenset(hunk.id for hunk, _ in hunks),
            frozenset(hunk.id for hunk, count in hunks if count == changed_line_count(hunk)),
        )

    def _rows_in(self, selection: Selection | None) -> range:
        """The rows that a selection with the mouse lies on."""
        rows = self._sheet.rows
        if selection is None or selection.start is None or selection.end is None or not rows.row_count:
            return range(0)
        first, last = sorted((selection.start.y, selection.end.y))
        last = min(last, rows.height - 1)
        return range(rows.part_at(first).number, rows.part_at(last).number + 1) if 0 <= first <= last else range(0)
