"""The cursor of the diff preview: its row, and how the view scrolls with it."""

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, Protocol

from textual.geometry import Offset

from app.proposals.values.models import Hunk
from widgets.diff.diff_layout import Landmarks
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import CommentRow, ContextSegment, FoldRow, LineRow, Row, SourceLine

_SCROLL_MARGIN = 3
"""Lines kept visible above and below the cursor."""

_NO_LINES = 20
"""More rows than ever follow each other without a line of a file among them: heads, folds, notes."""


Job = Callable[[], Awaitable[None]]
"""Background work, as a function that begins it."""


class CursorView(Protocol):
    """The view that a cursor moves in."""

    @property
    def scroll_offset(self) -> Offset:
        """Return the scroll offset."""

    @property
    def visible_lines(self) -> int:
        """Return the visible terminal lines; while hidden, the number before."""

    def scroll_to(
        self, x: float | None = None, y: float | None = None, *, animate: bool = True, immediate: bool = False
    ) -> None:
        """Scroll to an offset."""

    def refresh_lines(self, y_start: int, line_count: int = 1) -> None:
        """Redraw some terminal lines."""

    def update_scroll_range(self) -> None:
        """Update the virtual size after the layout has grown."""

    def cursor_moved(self) -> None:
        """Called after the cursor moved to another row."""


class DiffViewAccess(Protocol):
    """The view of a diff as its search, its picked lines and its background work see it."""

    def search_changed(self) -> None:
        """Called when a search begins or has its result."""

    def run_job(self, name: str, job: Job) -> None:
        """Run a job in the place of the one before under that name."""

    def redraw_lines(self) -> None:
        """Draw the lines again, which look different now."""

    def redraw_all(self) -> None:
        """Draw everything again."""

    def handle_growth(self) -> None:
        """Called when the layout has more lines, or wider ones."""

    def relayout(self) -> None:
        """Lay out again: other lines are to be shown."""


class CursorBookmark(NamedTuple):
    """A cursor position that can be restored in another layout."""

    row: Row | None
    above: int
    """Terminal lines of the view above it."""


class DiffCursor:
    """Moves over the rows of a diff layout."""

    def __init__(self, model: DiffModel, view: CursorView) -> None:
        self._sheet = model
        self._view = view
        self.number = 0
        """The row that the keys act on."""

    # What it is on

    @property
    def row(self) -> Row | None:
        """Return the row under the cursor."""
        rows = self._sheet.rows
        return rows.row_at(self.number) if self.number < rows.row_count else None

    @property
    def file_index(self) -> int:
        """Return the index of the file under the cursor."""
        row = self.row
        return 0 if row is None else max(0, row.file)

    @property
    def hunk(self) -> Hunk | None:
        """Return the hunk under the cursor, if there is one."""
        rows = self._sheet.rows
        if not rows.row_count:
            return None
        segment = rows.segments[rows.segment_index_of(self.number)]
        return None if segment.hunk is None else self._sheet.diffs[segment.file].change.hunks[segment.hunk]

    @property
    def gap(self) -> tuple[int, int] | None:
        """Return the file and number of the unchanged stretch under the cursor, folded or open."""
        rows, row = self._sheet.rows, self.row
        if isinstance(row, FoldRow):
            return row.file, row.gap
        segment = None if row is None else rows.segments[rows.segment_index_of(self.number)]
        return (segment.file, segment.gap) if isinstance(segment, ContextSegment) else None

    @property
    def source_line(self) -> SourceLine | None:
        """Return the line that a comment would be attached to; on a comment, the line that it is about."""
        match self.row:
            case CommentRow(comment=comment):
                return self._sheet.comments[comment].line
            case LineRow() as row:
                return row.newest
            case _:
                return None

    def next_line(self) -> LineRow | None:
        """Return the first line of a file at or below the cursor."""
        rows = self._sheet.rows
        below = map(rows.row_at, range(self.number, min(rows.row_count, self.number + _NO_LINES)))
        return next((row for row in below if isinstance(row, LineRow)), None)

    # Where it goes

    def find_row(self, row: Row) -> int | None:
        """Return the number of a row, and lay out that far if needed."""
        number = self._sheet.rows.find_equal_row(row)
        self._view.update_scroll_range()
        return number

    def move_to(self, row: int, *, above: int = _SCROLL_MARGIN) -> None:
        """Move to a row and scroll as little as needed, with `above` lines of margin."""
        rows = self._sheet.rows
        if not rows.row_count:
            return
        row = rows.nearest_row(row)
        top, height = rows.first_line_of(row), rows.height_of(row)
        room, first = self._room, self._view.scroll_offset.y
        margin = min(above, max(0, (room - height) // 2))
        if top - margin < first:
            self._scroll(max(0, top - margin))
        elif top + min(height, room) + margin > first + room:
            self._scroll(top + min(height, room) + margin - room)
        self.move_without_scrolling(row)

    def move_without_scrolling(self, row: int) -> None:
        """Move to a visible row without scrolling."""
        self.redraw_row()
        self.number = self._sheet.rows.nearest_row(row)
        self.redraw_row()
        self._view.cursor_moved()

    def go_to(self, row: int, *, at_top: bool = False) -> None:
        """Move to a landmark, with a small margin if it must be scrolled to, or at the top."""
        rows, room, first = self._sheet.rows, self._room, self._view.scroll_offset.y
        line = rows.first_line_of(row)
        segment = rows.segments[rows.segment_index_of(row)]
        if at_top:
            self._scroll(line)
        elif not (first + 1 <= line and line + min(segment.height, room - 2) <= first + room):
            self._scroll(max(0, line - min(_SCROLL_MARGIN + 1, room // 4)))
        self.move_to(row, above=0 if at_top else 1)

    def go_to_file(self, file: int) -> None:
        """Move to the head of a file, by its index."""
        row = self._sheet.rows.row_of_file(file)
        self._view.update_scroll_range()
        if row is not None:
            self.go_to(row, at_top=True)

    def go_to_next(self, kind: Literal["hunks", "files"], by: int) -> None:
        """Move to the next start of a hunk or file, or to the previous one with -1."""
        rows = self._sheet.rows
        starts = rows.landmarks.hunks if kind == "hunks" else rows.landmarks.files
        find = Landmarks.landmark_below if by > 0 else Landmarks.landmark_above
        row = find(starts, self.number)
        if row is None and not rows.complete:
            self.lay_out_all()
            row = find(starts, self.number)
        if row is not None:
            self.go_to(row, at_top=kind == "files")

    def move_row(self, by: int) -> None:
        """Move one row down or up; scroll through a row that is taller than the view first."""
        rows, first = self._sheet.rows, self._view.scroll_offset.y
        if self._sheet.plain_text:
            self.scroll_lines(by)
            return
        if rows.row_count:
            top = rows.first_line_of(self.number)
            beyond = top + rows.height_of(self.number) > first + self._room if by > 0 else top < first
            if beyond:
                self.scroll_lines(by)
                return
        self.move_to(self.number + by)

    def move_page(self, by: int) -> None:
        """Move one page down or up."""
        rows = self._sheet.rows
        if not rows.row_count:
            return
        step = max(1, self._room - 2) * by
        line = rows.first_line_of(self.number) + step
        self.scroll_lines(step)
        if self._sheet.plain_text:
            return
        first = self._view.scroll_offset.y
        self.move_without_scrolling(
            rows.part_at(max(first, min(line, first + self._room - 1, rows.height - 1))).number
        )

    def to_top(self) -> None:
        """Move to the first row."""
        self._scroll(0)
        self.move_to(0)

    def to_end(self) -> None:
        """Move to the last row."""
        self.lay_out_all()
        rows = self._sheet.rows
        self._scroll(rows.height)
        self.move_to(rows.row_count - 1)

    def bookmark(self) -> CursorBookmark:
        """Return the current position as a bookmark."""
        row = self.row
        return CursorBookmark(
            row, 0 if row is None else self._sheet.rows.first_line_of(self.number) - self._view.scroll_offset.y
        )

    def scroll_lines(self, lines: int) -> None:
        """Scroll by a number of lines."""
        self._scroll(self._view.scroll_offset.y + lines)

    def redraw_row(self) -> None:
        """Redraw the cursor's row."""
        rows = self._sheet.rows
        if self.number < rows.row_count:
            self._view.refresh_lines(rows.first_line_of(self.number), rows.height_of(self.number))

    @property
    def _room(self) -> int:
        return self._view.visible_lines

    def _scroll(self, line: int) -> None:
        self._view.scroll_to(y=line, animate=False, immediate=True)

    def lay_out_all(self) -> None:
        """Complete the layout at once, for a move that needs all of it."""
        if not self._sheet.rows.complete:
            self._sheet.rows.lay_out_more()
            self._view.update_scroll_range()
