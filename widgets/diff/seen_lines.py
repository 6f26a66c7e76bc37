"""Records which changed lines were on the screen: whole rows, or ranges of characters of long lines.

A line is identified by its hunk and its number in the hunk, where removed lines come before added ones. Lines stay
seen when a re-base moves the hunk.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from textual.widget import Widget

from app.review.hunk_lines import (
    SeenLines,
    Side,
    changed_line_at,
    changed_line_count,
    changed_line_index,
    heading_shows_change,
)
from widgets.diff.diff_cursor import CursorViewInterface, DiffCursor
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import FileRow, LineRow, Row, SourceLinePosition, row_of_line
from widgets.diff.render_context import RenderContext

_CONTEXT_CELLS = 4
"""Cells left of an unseen place that are shown with it."""


class UnseenLine(NamedTuple):
    """A changed line that was not completely on screen, or the heading of a file without hunks."""

    file: int
    hunk: int
    """Index in the file; -1 for the heading of a file."""
    number: int
    """Number of the line in the hunk."""


class UnseenLineFinder:
    """Counts and finds the unseen lines of a diff.

    Excluded hunks, and hunks that were decided while others are pending, do not count.

    Args:
        context: The render context of the diff.
        seen: The seen lines. If it grows, call `record_seen`; if other hunks are excluded, make a new object.
    """

    def __init__(self, context: RenderContext, seen: SeenLines) -> None:
        self._context = context
        self._seen = seen
        self._counts_by_file: dict[int, tuple[int, int]] = {}
        """By file, because a file may have many hunks."""

    def count_unseen(self, file: int) -> tuple[int, int]:
        """Return how many changed lines of a file were never on screen, and how many it has."""
        change = self._context.diffs[file].change
        if not change.hunks:
            return int(change.path not in self._seen.files), 1
        if file not in self._counts_by_file:
            hunks = [hunk for hunk in change.hunks if self._context.would_be_written(hunk)]
            self._counts_by_file[file] = (
                sum(map(self._seen.count_unseen_lines, hunks)),
                sum(map(changed_line_count, hunks)),
            )
        return self._counts_by_file[file]

    def record_seen(self, row: LineRow, lines: int) -> None:
        """Record that `lines` more lines on a row of a hunk have been seen."""
        if row.hunk is None or row.file not in self._counts_by_file:
            return
        if self._context.would_be_written(self._context.diffs[row.file].change.hunks[row.hunk]):
            missing, total = self._counts_by_file[row.file]
            self._counts_by_file[row.file] = missing - lines, total

    def iterate_from(self, file: int, row: Row | None) -> Iterator[UnseenLine]:
        """Yield the unseen lines from a row of a file to the end, then from the beginning."""
        diffs = self._context.diffs
        start_hunk, start_number = self._hunk_and_line_at(file, row)
        for index in (*range(file, len(diffs)), *range(file + 1)):
            change = diffs[index].change
            is_written = not change.hunks or any(map(self._context.would_be_written, change.hunks))
            if is_written and change.path not in self._seen.files and heading_shows_change(change):
                yield UnseenLine(index, -1, 0)
            for hunk_number, hunk in enumerate(change.hunks):
                if index == file and hunk_number < start_hunk < len(change.hunks):
                    continue
                if not self._context.would_be_written(hunk):
                    continue
                first = start_number if (index, hunk_number) == (file, start_hunk) else 0
                number = self._seen.first_unseen(hunk, first)
                if number is not None:
                    yield UnseenLine(index, hunk_number, number)
            start_hunk = start_number = 0

    def _hunk_and_line_at(self, file: int, row: Row | None) -> tuple[int, int]:
        """Return the index of the hunk at or below a row, and the number of the row's line in it."""
        hunks = self._context.diffs[file].change.hunks
        if not isinstance(row, LineRow):
            return 0, 0
        if row.hunk is None:
            return bisect_right(hunks, row.new or 0, key=lambda hunk: hunk.new_start), 0
        return row.hunk, changed_line_index(hunks[row.hunk], *row.lines[0])


def go_to_unseen_line(
    unseen: UnseenLine, seen: SeenLines, model: DiffModel, cursor: DiffCursor, view: CursorViewInterface
) -> None:
    """Scroll to the first unseen character of a line, and move the cursor there."""
    hunk, context = model.diffs[unseen.file].change.hunks[unseen.hunk], model.render_context
    side, line = changed_line_at(hunk, unseen.number)
    row = row_of_line(SourceLinePosition(unseen.file, side, line), unseen.hunk)
    row_number = cursor.find_row(row)
    if row_number is None:
        return
    drawn = context.drawn_line(row, side, line)
    changed = context.changed_spans(row, side, line) or ((0, len(context.line_text(unseen.file, side, line))),)
    character = drawn.text.drawn_index(seen.first_undrawn_character(hunk, unseen.number, changed))
    part = max(0, bisect_right(drawn.starts, character) - 1)
    if not model.wrap:
        cell = drawn.text.first_column_of(character)
        view.scroll_to(x=0 if cell < context.code_width - 1 else cell - _CONTEXT_CELLS, animate=False, immediate=True)
    top, first = model.rows.first_line_of_row(row_number) + part, view.scroll_offset.y
    if not first <= top < first + view.visible_lines:
        view.scroll_to(y=max(0, top - 1), animate=False, immediate=True)
    cursor.move_without_scrolling(row_number)


_PROBED_CELLS = 3
"""Number of cells of a line, evenly spread, that the widget must own for the line to count as visible."""


class SeenRecorder:
    """Records which changed lines of a diff were on the screen."""

    def __init__(self, model: DiffModel, widget: Widget) -> None:
        self._model = model
        self._widget = widget
        self._painted_lines = bytearray()
        """For each terminal line of the layout, 1 if it was on screen at the current horizontal position."""
        self._painted_scroll = 0
        """The horizontal scroll position of `_painted_lines`."""
        self.seen = SeenLines()
        """The seen lines of the shown change."""
        self.unseen = UnseenLineFinder(model.render_context, self.seen)

    def start_recording_change(self, seen_before: SeenLines | None = None) -> None:
        """Start recording a change; `seen_before` are its lines that were on the screen before, None for none."""
        self.seen = SeenLines() if seen_before is None else seen_before
        self.reset_layout()
        self.update_counted_lines()

    def update_counted_lines(self) -> None:
        """Count again, because other hunks are excluded now."""
        self.unseen = UnseenLineFinder(self._model.render_context, self.seen)

    def reset_layout(self) -> None:
        """Forget the drawn lines, because the layout has changed."""
        self._painted_lines = bytearray()

    def first_unseen_line(self, last: int) -> int | None:
        """Return the first terminal line before `last` that is unseen in this layout; None if there is none."""
        line = self._painted_lines.find(0, 0, last)
        return line if line >= 0 else len(self._painted_lines) if len(self._painted_lines) < last else None

    def record_frame(self, first: int, last: int, top: int) -> bool:
        """Record the drawn lines of a frame whose first line is `top`; return whether any line was unseen."""
        model, seen = self._model, self.seen
        if self._painted_scroll != model.render_context.scroll:
            self._painted_scroll = model.render_context.scroll
            self.reset_layout()
        count_before = seen.count
        for line in self._newly_visible_lines(first, last, top):
            if model.proposal is not None and not model.is_comparing_versions and line < model.rows.height:
                self._record_line(line)
        return seen.count != count_before

    def _newly_visible_lines(self, first: int, last: int, top: int) -> list[int]:
        """Return the lines that are visible for the first time.

        Textual draws a whole widget even if another widget (a toast, a scrollbar) covers a part, if only a part is on
        the screen, or if a dialog dims it.
        """
        painted, widget = self._painted_lines, self._widget
        if len(painted) < last:
            painted.extend(bytes(last - len(painted)))
        unpainted = [line for line in range(first, last) if not painted[line]]
        if not unpainted or not widget.is_attached or widget.app.screen is not widget.screen:
            return []
        screen, region = widget.screen, widget.region
        cells = sorted(
            {region.x + (region.width - 1) * probe // (_PROBED_CELLS - 1) for probe in range(_PROBED_CELLS)}
        )
        visible = []
        for line in unpainted:
            y = region.y + line - top
            if 0 <= y < screen.size.height and all(_is_uncovered(widget, x, y) for x in cells):
                painted[line] = 1
                visible.append(line)
        return visible

    def _record_line(self, line: int) -> None:
        """Record the source lines of a row on a terminal line as seen."""
        _, row, part = self._model.rows.part_at(line)
        if isinstance(row, FileRow):
            change = self._model.diffs[row.file].change
            if heading_shows_change(change):
                self.seen.mark_file_seen(change.path)
        if isinstance(row, LineRow) and row.hunk is not None:
            count_before = self.seen.lines
            for side, number in row.lines:
                self._record_source_line(row, side, number, part)
            if self.seen.lines > count_before:
                self.unseen.record_seen(row, self.seen.lines - count_before)

    def _record_source_line(self, row: LineRow, side: Side, number: int, part: int) -> None:
        assert row.hunk is not None
        context, hunk = self._model.render_context, self._model.diffs[row.file].change.hunks[row.hunk]
        index_in_hunk = changed_line_index(hunk, side, number)
        line = context.line_text(row.file, side, number)
        if context.fits_on_one_row(line) and not context.scroll:
            self.seen.mark_seen(hunk, index_in_hunk)
            return
        drawn = context.drawn_line(row, side, number)
        cut, text = context.visible_part_of(drawn, part), drawn.text
        end = len(line) if cut.last == len(text.text) else text.source_index(cut.last)
        changed = context.changed_spans(row, side, number) if context.fits_on_one_row(line) else drawn.changed
        self.seen.mark_characters_seen(
            hunk, index_in_hunk, (text.source_index(cut.first), end), changed or ((0, len(line)),)
        )


def _is_uncovered(widget: Widget, x: int, y: int) -> bool:
    """Return whether no other widget covers a cell of a widget."""
    top = next(iter(widget.screen.get_widgets_at(x, y)), None)
    return top is not None and top[0] is widget
