"""The cursor of the diff preview: which row it is on, and how the view follows it."""

from typing import Literal, NamedTuple, Protocol

from textual.geometry import Offset

from app.proposals.values.models import Hunk
from widgets.diff.diff_layout import Landmarks
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import CommentRow, ContextSegment, FoldRow, LineRow, Row, SourceLine

MARGIN = 3
"""Lines kept visible above and below the cursor."""

_NO_LINES = 20
"""More rows than ever follow each other without a line of a file among them: heads, folds, notes."""


class CursorView(Protocol):
    """What a cursor moves in."""

    @property
    def scroll_offset(self) -> Offset:
        """What stands in the corner."""

    @property
    def room(self) -> int:
        """Terminal lines on view; out of sight, as many as there were."""

    def scroll_to(
        self, x: float | None = None, y: float | None = None, *, animate: bool = True, immediate: bool = False
    ) -> None:
        """Show another part."""

    def refresh_lines(self, y_start: int, line_count: int = 1) -> None:
        """Draw some terminal lines anew."""

    def fit(self) -> None:
        """Take in that more has been laid out."""

    def cursor_moved(self) -> None:
        """Take in that the cursor is on another row."""


class CursorBookmark(NamedTuple):
    """Where the cursor was, to come back to in another layout."""

    row: Row | None
    above: int
    """Terminal lines of the view above it."""


class DiffCursor:
    """Moves over the rows of a sheet."""

    def __init__(self, sheet: DiffModel, view: CursorView) -> None:
        self._sheet = sheet
        self._view = view
        self.number = 0
        """The row that the keys act on."""

    # What it is on

    @property
    def row(self) -> Row | None:
        """What it stands on."""
        rows = self._sheet.rows
        return rows.row(self.number) if self.number < rows.rows else None

    @property
    def file(self) -> int:
        """The index of the file that it is in."""
        row = self.row
        return 0 if row is None else max(0, row.file)

    @property
    def hunk(self) -> Hunk | None:
        """The hunk that it is in."""
        rows = self._sheet.rows
        if not rows.rows:
            return None
        segment = rows.segments[rows.segment_of(self.number)]
        return None if segment.hunk is None else self._sheet.diffs[segment.file].change.hunks[segment.hunk]

    @property
    def gap(self) -> tuple[int, int] | None:
        """The file and the number of the unchanged stretch that it is in, folded or open."""
        rows, row = self._sheet.rows, self.row
        if isinstance(row, FoldRow):
            return row.file, row.gap
        segment = None if row is None else rows.segments[rows.segment_of(self.number)]
        return (segment.file, segment.gap) if isinstance(segment, ContextSegment) else None

    @property
    def source_line(self) -> SourceLine | None:
        """The line that a comment would stand on; on a comment, the line that it is about."""
        match self.row:
            case CommentRow(comment=comment):
                return self._sheet.comments[comment].line
            case LineRow() as row:
                return row.newest
            case _:
                return None

    def next_line(self) -> LineRow | None:
        """The first line of a file that it is on, or that is below it."""
        rows = self._sheet.rows
        below = map(rows.row, range(self.number, min(rows.rows, self.number + _NO_LINES)))
        return next((row for row in below if isinstance(row, LineRow)), None)

    # Where it goes

    def find(self, row: Row) -> int | None:
        """The number of a row, laid out that far if need be."""
        number = self._sheet.rows.locate(row)
        self._view.fit()
        return number

    def move_to(self, row: int, *, above: int = MARGIN) -> None:
        """Go to a row and scroll as little as needed, with `above` lines of margin."""
        rows = self._sheet.rows
        if not rows.rows:
            return
        row = rows.nearest(row)
        top, height = rows.line_of(row), rows.height_of(row)
        room, first = self._room, self._view.scroll_offset.y
        margin = min(above, max(0, (room - height) // 2))
        if top - margin < first:
            self._scroll(max(0, top - margin))
        elif top + min(height, room) + margin > first + room:
            self._scroll(top + min(height, room) + margin - room)
        self.put(row)

    def put(self, row: int) -> None:
        """Go to a row that is in view."""
        self.refresh()
        self.number = self._sheet.rows.nearest(row)
        self.refresh()
        self._view.cursor_moved()

    def go_to(self, row: int, *, at_top: bool = False) -> None:
        """Go to a landmark, a few lines under the top if it has to be scrolled to, or at the top."""
        rows, room, first = self._sheet.rows, self._room, self._view.scroll_offset.y
        line = rows.line_of(row)
        segment = rows.segments[rows.segment_of(row)]
        if at_top:
            self._scroll(line)
        elif not (first + 1 <= line and line + min(segment.height, room - 2) <= first + room):
            self._scroll(max(0, line - min(MARGIN + 1, room // 4)))
        self.move_to(row, above=0 if at_top else 1)

    def go_to_file(self, file: int) -> None:
        """Go to the head of a file, by its index."""
        row = self._sheet.rows.row_of_file(file)
        self._view.fit()
        if row is not None:
            self.go_to(row, at_top=True)

    def jump(self, kind: Literal["hunks", "files"], by: int) -> None:
        """Go to where the next hunk or file begins (1), or the one before (-1), if there is one."""
        rows = self._sheet.rows
        starts = rows.landmarks.hunks if kind == "hunks" else rows.landmarks.files
        find = Landmarks.after if by > 0 else Landmarks.before
        row = find(starts, self.number)
        if row is None and not rows.complete:
            self.lay_out_all()
            row = find(starts, self.number)
        if row is not None:
            self.go_to(row, at_top=kind == "files")

    def step(self, by: int) -> None:
        """One row down or up (1, -1); one that is taller than the view is scrolled through first."""
        rows, first = self._sheet.rows, self._view.scroll_offset.y
        if self._sheet.plain_text:
            self.scroll(by)
            return
        if rows.rows:
            top = rows.line_of(self.number)
            beyond = top + rows.height_of(self.number) > first + self._room if by > 0 else top < first
            if beyond:
                self.scroll(by)
                return
        self.move_to(self.number + by)

    def page(self, by: int) -> None:
        """One page down or up. The view stays where the page has come to also if the row begins above it."""
        rows = self._sheet.rows
        if not rows.rows:
            return
        step = max(1, self._room - 2) * by
        line = rows.line_of(self.number) + step
        self.scroll(step)
        if self._sheet.plain_text:
            return
        first = self._view.scroll_offset.y
        self.put(rows.at(max(first, min(line, first + self._room - 1, rows.height - 1))).number)

    def to_top(self) -> None:
        """To the first row."""
        self._scroll(0)
        self.move_to(0)

    def to_end(self) -> None:
        """To the last row."""
        self.lay_out_all()
        rows = self._sheet.rows
        self._scroll(rows.height)
        self.move_to(rows.rows - 1)

    def bookmark(self) -> CursorBookmark:
        """Where it is."""
        row = self.row
        return CursorBookmark(
            row, 0 if row is None else self._sheet.rows.line_of(self.number) - self._view.scroll_offset.y
        )

    def scroll(self, lines: int) -> None:
        """Show what is so many lines further down."""
        self._scroll(self._view.scroll_offset.y + lines)

    def refresh(self) -> None:
        """Draw its row anew."""
        rows = self._sheet.rows
        if self.number < rows.rows:
            self._view.refresh_lines(rows.line_of(self.number), rows.height_of(self.number))

    @property
    def _room(self) -> int:
        return self._view.room

    def _scroll(self, line: int) -> None:
        self._view.scroll_to(y=line, animate=False, immediate=True)

    def lay_out_all(self) -> None:
        """Lay out at once what is left, for a move that leads there."""
        if not self._sheet.rows.complete:
            self._sheet.rows.grow()
            self._view.fit()
