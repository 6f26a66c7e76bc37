"""The cursor of the diff preview: its row, scrolling with it, and the lines that the user picks.

The user picks lines with keys, from a start row to the cursor, or with a mouse selection.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct
from textual.geometry import Offset
from textual.selection import Selection

from app.proposals.stack.hunk_splitting import SelectedLines
from app.proposals.values.models import Hunk
from app.review.hunk_lines import Side, changed_line_count
from app.text.safe_text import escape_unsafe
from widgets.diff.code_painter import RIGHT_SIDE_OFFSET, is_in_right_half, selected_range_on_line
from widgets.diff.diff_layout import DiffLayout, Landmarks
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import (
    CommentRow,
    ContextSegment,
    FileRow,
    FoldRow,
    LineRow,
    NoteRow,
    Row,
    SourceLinePosition,
)
from widgets.diff.display_cells import display_text
from widgets.diff.render_context import RenderContext

_SCROLL_MARGIN = 3
"""Lines kept visible above and below the cursor."""

_MAX_ROWS_WITHOUT_SOURCE = 20
"""More than the maximum number of successive rows without source: headings, folds, notes."""


Job = Callable[[], Awaitable[None]]
"""Background work, as a function that starts it."""


class CursorViewInterface(Protocol):
    """The view in which the cursor moves: what the cursor reads from it and calls."""

    @property
    def scroll_offset(self) -> Offset:
        """Return the scroll offset."""

    @property
    def visible_lines(self) -> int:
        """Return the number of visible terminal lines; while the view is hidden, the last known number."""

    def scroll_to(
        self, x: float | None = None, y: float | None = None, *, animate: bool = True, immediate: bool = False
    ) -> None:
        """Scroll to an offset."""

    def refresh_lines(self, y_start: int, line_count: int = 1) -> None:
        """Redraw some terminal lines."""

    def update_scroll_range(self) -> None:
        """Update the virtual size after the layout has grown."""

    def handle_cursor_moved(self) -> None:
        """Called after the cursor moved to another row."""


class DiffViewInterface(Protocol):
    """The methods of `DiffView` that its search, line selection and background jobs call."""

    def handle_search_change(self) -> None:
        """Called when a search starts or has its result."""

    def run_job(self, name: str, job: Job) -> None:
        """Run a job; cancel a running job with the same name."""

    def redraw_lines(self) -> None:
        """Redraw the lines, because their look has changed."""

    def redraw_and_report_position(self) -> None:
        """Redraw everything."""

    def handle_layout_growth(self) -> None:
        """Called when the layout has more lines, or wider ones."""

    def relayout(self) -> None:
        """Lay out again, because other lines must be shown."""


class CursorBookmark(NamedTuple):
    """A cursor position that can be restored in another layout."""

    row: Row | None
    above: int
    """Number of visible terminal lines above the row."""


class DiffCursor:
    """Moves over the rows of a diff layout."""

    def __init__(self, model: DiffModel, view: CursorViewInterface) -> None:
        self._model = model
        self._view = view
        self.number = 0
        """The row of the cursor."""

    # Position

    @property
    def row(self) -> Row | None:
        """Return the row under the cursor; None if there are no rows."""
        rows = self._model.rows
        return rows.row_at(self.number) if self.number < rows.row_count else None

    @property
    def file_index(self) -> int:
        """Return the index of the file under the cursor."""
        row = self.row
        return 0 if row is None else max(0, row.file)

    @property
    def hunk(self) -> Hunk | None:
        """Return the hunk under the cursor; None if there is none."""
        rows = self._model.rows
        if not rows.row_count:
            return None
        segment = rows.segments[rows.segment_index_of(self.number)]
        return None if segment.hunk is None else self._model.diffs[segment.file].change.hunks[segment.hunk]

    @property
    def gap(self) -> tuple[int, int] | None:
        """Return (file, gap) of the unchanged stretch under the cursor, folded or open; None if there is none."""
        rows, row = self._model.rows, self.row
        if isinstance(row, FoldRow):
            return row.file, row.gap
        segment = None if row is None else rows.segments[rows.segment_index_of(self.number)]
        return (segment.file, segment.gap) if isinstance(segment, ContextSegment) else None

    @property
    def source_line(self) -> SourceLinePosition | None:
        """Return the line for a new comment; on a comment, its line; None elsewhere."""
        match self.row:
            case CommentRow(comment=comment):
                return self._model.comments[comment].line
            case LineRow() as row:
                return row.newest
            case _:
                return None

    def find_line_at_or_below(self) -> LineRow | None:
        """Return the first line of source at or below the cursor; None if there is none nearby."""
        rows = self._model.rows
        below = map(rows.row_at, range(self.number, min(rows.row_count, self.number + _MAX_ROWS_WITHOUT_SOURCE)))
        return next((row for row in below if isinstance(row, LineRow)), None)

    def is_within(self, lines: int) -> bool:
        """Return whether its row begins on the first `lines` terminal lines of the view."""
        rows, top = self._model.rows, self._view.scroll_offset.y
        return self.number < rows.row_count and top <= rows.first_line_of_row(self.number) < top + lines

    # Movement

    def scroll_into_view(self) -> None:
        """Scroll to the cursor if it is out of view."""
        self.move_to(self.number)

    def find_row(self, row: Row) -> int | None:
        """Return the number of a row, or None; lay out that far."""
        number = self._model.rows.find_equal_row(row)
        self._view.update_scroll_range()
        return number

    def move_to(self, row: int, *, above: int = _SCROLL_MARGIN) -> None:
        """Move to a row and scroll as little as needed, with `above` lines of margin."""
        rows = self._model.rows
        if not rows.row_count:
            return
        row = rows.nearest_row(row)
        top, height = rows.first_line_of_row(row), rows.height_of(row)
        visible_lines, first_line = self._view.visible_lines, self._view.scroll_offset.y
        margin = min(above, max(0, (visible_lines - height) // 2))
        if top - margin < first_line:
            self._scroll_to_line(max(0, top - margin))
        elif top + min(height, visible_lines) + margin > first_line + visible_lines:
            self._scroll_to_line(top + min(height, visible_lines) + margin - visible_lines)
        self.move_without_scrolling(row)

    def move_without_scrolling(self, row: int) -> None:
        """Move to a visible row without scrolling."""
        self.redraw_row()
        self.number = self._model.rows.nearest_row(row)
        self.redraw_row()
        self._view.handle_cursor_moved()

    def go_to(self, row: int, *, at_top: bool = False) -> None:
        """Move to a landmark and scroll if needed: with a small margin above it, or with `at_top` to the top."""
        rows, visible_lines, first_line = self._model.rows, self._view.visible_lines, self._view.scroll_offset.y
        line = rows.first_line_of_row(row)
        segment = rows.segments[rows.segment_index_of(row)]
        if at_top:
            self._scroll_to_line(line)
        elif not (
            first_line + 1 <= line and line + min(segment.height, visible_lines - 2) <= first_line + visible_lines
        ):
            self._scroll_to_line(max(0, line - min(_SCROLL_MARGIN + 1, visible_lines // 4)))
        self.move_to(row, above=0 if at_top else 1)

    def go_to_file(self, file: int) -> None:
        """Move to the heading of a file, by its index."""
        row = self._model.rows.row_of_file(file)
        self._view.update_scroll_range()
        if row is not None:
            self.go_to(row, at_top=True)

    def go_to_next(self, kind: Literal["hunks", "files"], step: int) -> None:
        """Move to the next start of a hunk or file, or to the previous one with -1."""
        rows = self._model.rows
        starts = rows.landmarks.hunks if kind == "hunks" else rows.landmarks.files
        find_landmark = Landmarks.landmark_below if step > 0 else Landmarks.landmark_above
        row = find_landmark(starts, self.number)
        if row is None and not rows.complete:
            self.lay_out_all()
            row = find_landmark(starts, self.number)
        if row is not None:
            self.go_to(row, at_top=kind == "files")

    def move_row(self, by: int) -> None:
        """Move one row down or up; if the row is taller than the view, scroll through it first."""
        rows, first_line = self._model.rows, self._view.scroll_offset.y
        if self._model.plain_text:
            self.scroll_lines(by)
            return
        if rows.row_count:
            top = rows.first_line_of_row(self.number)
            end = top + rows.height_of(self.number)
            if end > first_line + self._view.visible_lines if by > 0 else top < first_line:
                self.scroll_lines(by)
                return
        self.move_to(self.number + by)

    def move_page(self, by: int) -> None:
        """Move one page down or up."""
        rows = self._model.rows
        if not rows.row_count:
            return
        step = max(1, self._view.visible_lines - 2) * by
        line = rows.first_line_of_row(self.number) + step
        self.scroll_lines(step)
        if self._model.plain_text:
            return
        first = self._view.scroll_offset.y
        line = min(max(first, min(line, first + self._view.visible_lines - 1)), rows.height - 1)
        self.move_without_scrolling(rows.part_at(line).number)

    def move_to_top(self) -> None:
        """Move to the first row."""
        self._scroll_to_line(0)
        self.move_to(0)

    def move_to_end(self) -> None:
        """Move to the last row."""
        self.lay_out_all()
        rows = self._model.rows
        self._scroll_to_line(rows.height)
        self.move_to(rows.row_count - 1)

    def bookmark(self) -> CursorBookmark:
        """Return the current position as a bookmark."""
        row = self.row
        first_line = 0 if row is None else self._model.rows.first_line_of_row(self.number)
        return CursorBookmark(row, first_line - self._view.scroll_offset.y)

    def scroll_lines(self, lines: int) -> None:
        """Scroll by a number of lines."""
        self._scroll_to_line(self._view.scroll_offset.y + lines)

    def redraw_row(self) -> None:
        """Redraw the cursor's row."""
        rows = self._model.rows
        if self.number < rows.row_count:
            self._view.refresh_lines(rows.first_line_of_row(self.number), rows.height_of(self.number))

    def _scroll_to_line(self, line: int) -> None:
        self._view.scroll_to(y=line, animate=False, immediate=True)

    def lay_out_all(self) -> None:
        """Complete the layout at once, for a move that needs all rows."""
        if not self._model.rows.complete:
            self._model.rows.lay_out_more()
            self._view.update_scroll_range()


_WORD_PATTERN = re.compile(r"\w+|[^\w\s]+")
"""A name, a number, or adjacent punctuation."""


def copied_text(layout: DiffLayout, context: RenderContext, selection: Selection) -> str:
    """Return the text to copy for a selection, with wrapped lines joined again.

    Tabs stay tabs. An unsafe character is copied as its glyph, so that text pasted into a shell contains no escape
    sequence.
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


def _selected_text(context: RenderContext, row: Row, part: int, selection: Selection, line: int) -> str | None:
    match row:
        case LineRow():
            side: Side = "old" if row.new is None else "new"
            if context.split:
                right = selected_range_on_line(selection, line, True, "new")
                side = "old" if right is None else "new"
            span = selected_range_on_line(selection, line, context.split, side)
            number = row.old if side == "old" else row.new
            if span is None or number is None:
                return None
            return _selected_source(context, row, side, number, part, span)
        case NoteRow() | CommentRow():
            return escape_unsafe(row.text)
        case FileRow():
            return display_text(context.diffs[row.file].change.path).text
        case _:
            return None


def _selected_source(
    context: RenderContext, row: LineRow, side: Side, number: int, part: int, span: tuple[int, int]
) -> str:
    """Return the selected characters of a line or of its wrapped part; `span` counts characters of the drawn text."""
    source = context.line_text(row.file, side, number)
    drawn = context.drawn_line(row, side, number)
    shown, starts = drawn.text, drawn.starts
    if part >= len(starts):
        return ""
    end = starts[part + 1] if part + 1 < len(starts) else len(shown.text)
    begin = max(starts[part], span[0])
    end = end if span[1] < 0 else min(end, span[1])
    last = len(source) if end == len(shown.text) else shown.source_index(end)
    return escape_unsafe(source, keep="\t")[shown.source_index(begin) : last]


def word_selection_at(layout: DiffLayout, context: RenderContext, offset: Offset) -> Selection | None:
    """Return the selection of the word at a mouse offset (drawn character, terminal line); None if there is none."""
    line_at_offset = _source_line_at(layout, context, offset)
    if line_at_offset is None:
        return None
    begin, text = line_at_offset
    for match in _WORD_PATTERN.finditer(text):
        if match.start() <= offset.x - begin < match.end():
            return Selection(Offset(begin + match.start(), offset.y), Offset(begin + match.end(), offset.y))
    return None


def line_selection_at(layout: DiffLayout, context: RenderContext, offset: Offset) -> Selection | None:
    """Return the selection of the whole source line at a mouse offset; None if there is none."""
    line_at_offset = _source_line_at(layout, context, offset)
    if line_at_offset is None:
        return None
    begin, text = line_at_offset
    number = layout.part_at(offset.y).number
    top = layout.first_line_of_row(number)
    return Selection(Offset(begin, top), Offset(begin + len(text), top + layout.height_of(number) - 1))


def _source_line_at(layout: DiffLayout, context: RenderContext, offset: Offset) -> tuple[int, str] | None:
    """Return the selection offset of the first character of a source line, and the line as drawn."""
    row = layout.part_at(offset.y).row if 0 <= offset.y < layout.height else None
    if not isinstance(row, LineRow):
        return None
    right = context.split and is_in_right_half(offset.x)
    side: Side = "new" if right or (not context.split and row.new is not None) else "old"
    number = row.new if side == "new" else row.old
    if number is None:
        return None
    return RIGHT_SIDE_OFFSET if right else 0, context.drawn_line(row, side, number).text.text


class PickedLines(Struct, frozen=True):
    """The changed lines that the user picked in one file, and their hunks."""

    lines: SelectedLines
    hunks: frozenset[str]
    """Ids of the hunks that contain the lines."""
    whole: frozenset[str]
    """Ids of the hunks whose lines are all picked."""


class LineRangePicker:
    """Lets the user pick lines, from a start row to the cursor, for the key that includes or excludes them."""

    def __init__(self, model: DiffModel, cursor: DiffCursor, view: DiffViewInterface) -> None:
        self._model = model
        self._cursor = cursor
        self._view = view
        self.start: int | None = None
        """The row at which picking started; None if the user does not pick lines by key."""

    @property
    def picked_rows(self) -> range:
        """Return the picked rows, from the start to the cursor."""
        rows = self._model.rows
        if self.start is None or not rows.row_count:
            return range(0)
        first, last = sorted((rows.nearest_row(self.start), self._cursor.number))
        return range(first, last + 1)

    def set_pick_start(self, row: int | None) -> None:
        """Start picking at a row, or stop if it is None."""
        if row != self.start and self._model.diffs:
            self.start = row
            self._view.redraw_and_report_position()

    def toggle(self) -> None:
        """Start picking at the cursor, or stop."""
        self.set_pick_start(None if self.start is not None else self._cursor.number)

    def extend(self, step: int) -> None:
        """Extend the picked lines to the next row, or to the previous one with -1."""
        if self.start is None:
            self.set_pick_start(self._cursor.number)
        self._cursor.move_to(self._cursor.number + step)

    def picked_lines(self, selection: Selection | None) -> PickedLines | None:
        """Return the changed lines of one file that are picked by key or else selected; None if there are none."""
        model = self._model
        rows = self.picked_rows or self._rows_in_selection(selection)
        file = self._cursor.file_index if self.picked_rows else model.rows.row_at(rows[0]).file if rows else -1
        if model.is_comparing_versions or file < 0:
            return None
        change = model.diffs[file].change
        lines: dict[Side, set[int]] = {"old": set(), "new": set()}
        line_counts: dict[int, int] = {}
        for row in map(model.rows.row_at, rows):
            if isinstance(row, LineRow) and row.file == file and row.hunk is not None:
                line_counts[row.hunk] = line_counts.get(row.hunk, 0) + len(row.lines)
                for side, line in row.lines:
                    lines[side].add(line)
        if not line_counts:
            return None
        hunks = [(change.hunks[number], count) for number, count in line_counts.items()]
        return PickedLines(
            SelectedLines(change.path, frozenset(lines["old"]), frozenset(lines["new"])),
            frozenset(hunk.id for hunk, _ in hunks),
            frozenset(hunk.id for hunk, count in hunks if count == changed_line_count(hunk)),
        )

    def _rows_in_selection(self, selection: Selection | None) -> range:
        rows = self._model.rows
        if selection is None or selection.start is None or selection.end is None or not rows.row_count:
            return range(0)
        first, last = sorted((selection.start.y, selection.end.y))
        last = min(last, rows.height - 1)
        return range(rows.part_at(first).number, rows.part_at(last).number + 1) if 0 <= first <= last else range(0)
