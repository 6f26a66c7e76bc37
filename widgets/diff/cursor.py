"""The cursor of the diff preview: which row it is on, and how the view follows it."""

from dataclasses import dataclass

from app.proposals.models import Hunk
from widgets.diff.canvas import DiffCanvas
from widgets.diff.rows import CommentRow, LineRow, Side

MARGIN = 3
"""Lines kept visible above and below the cursor."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line that a comment can stand on."""

    file: int
    side: Side
    line: int
    """From 0."""


class DiffCursor(DiffCanvas, can_focus=True):
    """Moves over the rows of a change."""

    @property
    def hunk_at_cursor(self) -> Hunk | None:
        """The hunk that the cursor is in."""
        if not self.rows.rows:
            return None
        segment = self.rows.segments[self.rows.segment_of(self.cursor)]
        return None if segment.hunk is None else self.diffs[segment.file].change.hunks[segment.hunk]

    @property
    def file_at_cursor(self) -> int:
        """The index of the file that the cursor is in."""
        row = self.row_at_cursor
        return 0 if row is None else max(0, row.file)

    @property
    def anchor_at_cursor(self) -> Anchor | None:
        """The line that a comment would stand on; on a comment, the line that it is about."""
        row = self.row_at_cursor
        if isinstance(row, CommentRow):
            comment = self._comments[row.comment]
            return Anchor(comment.file, comment.side, comment.line)
        if not isinstance(row, LineRow):
            return None
        if row.new is not None:
            return Anchor(row.file, "new", row.new)
        return None if row.old is None else Anchor(row.file, "old", row.old)

    def move_to(self, row: int, *, above: int = MARGIN) -> None:
        """Put the cursor on a row and scroll as little as needed, with `above` lines of margin."""
        if not self.rows.rows:
            return
        row = self.clamped(row)
        top, height = self.rows.line_of(row), self.rows.height_of(row)
        view, first = self.scrollable_content_region.height, self.scroll_offset.y
        margin = min(above, max(0, (view - height) // 2))
        if top - margin < first:
            self.scroll_to(y=max(0, top - margin), animate=False, immediate=True)
        elif top + min(height, view) + margin > first + view:
            self.scroll_to(y=top + min(height, view) + margin - view, animate=False, immediate=True)
        self.put_cursor(row)

    def put_cursor(self, row: int) -> None:
        """Put the cursor on a row that is in view."""
        if not self.rows.rows:
            return
        previous, self.cursor = self.cursor, self.clamped(row)
        self._refresh_row(previous)
        self._refresh_row(self.cursor)
        self.post_message(self.ViewMoved())

    def go_to(self, row: int, *, at_top: bool = False) -> None:
        """Put the cursor on a landmark, a few lines under the top if it has to be scrolled to, or at the top."""
        if not self.rows.rows:
            return
        line, view = self.rows.line_of(row), self.scrollable_content_region.height
        first = self.scroll_offset.y
        segment = self.rows.segments[self.rows.segment_of(row)]
        if at_top:
            self.scroll_to(y=line, animate=False, immediate=True)
        elif not (first + 1 <= line and line + min(segment.height, view - 2) <= first + view):
            self.scroll_to(y=max(0, line - min(MARGIN + 1, view // 4)), animate=False, immediate=True)
        self.move_to(row, above=0 if at_top else 1)

    def go_to_file(self, file: int) -> None:
        """Put the cursor on the head of a file, by its index."""
        row = self.rows.row_of_file(file)
        self.fit()
        if row is not None:
            self.go_to(row, at_top=True)

    def _refresh_row(self, row: int) -> None:
        if row < self.rows.rows:
            self.refresh_lines(self.rows.line_of(row), self.rows.height_of(row))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell who draws the position."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.ViewMoved())

    def on_focus(self) -> None:
        """Show the cursor as active."""
        self._refresh_row(self.cursor)

    def on_blur(self) -> None:
        """Show the cursor as resting."""
        self._refresh_row(self.cursor)
