"""What of a change was never on screen, and the way to it."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from textual.message import Message

from app.proposals.models import HunkState
from widgets.diff.cursor import DiffCursor
from widgets.diff.rows import LineRow, Side
from widgets.diff.seen import changed_lines

_BESIDE = 4
"""Cells left of an unseen place that are shown with it."""


class UnseenPlaces(DiffCursor):
    """Counts what was not seen, and goes there."""

    class NothingUnseen(Message):
        """There is no unseen place to go to."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._counted: dict[int, tuple[int, int]] = {}
        """What `unseen_lines` came to, by file: a file may have many hunks."""
        self._counted_for: tuple[object, ...] = ()

    def unseen_lines(self, file: int) -> tuple[int, int]:
        """Changed lines of a file that were never on screen, and all of them; a file without hunks is one line.

        Hunks that are left out, and those that were decided while others wait, don't count.
        """
        change = self.diffs[file].change
        if not change.hunks:
            return int(change.path not in self.seen.files), 1
        scope = (self.diffs, self.scene.left_out, self.seen)
        if any(one is not other for one, other in zip_longest(scope, self._counted_for)):
            self._counted, self._counted_for = {}, scope
        if file not in self._counted:
            self._counted[file] = self._count(file)
        return self._counted[file]

    def _count(self, file: int) -> tuple[int, int]:
        change = self.diffs[file].change
        numbers = [number for number in range(len(change.hunks)) if self._counts(file, number)]
        missing = sum(self.seen.unseen(change.hunks[number]) for number in numbers)
        return missing, sum(changed_lines(change.hunks[number]) for number in numbers)

    def lines_seen(self, row: LineRow, count: int) -> None:
        """Count on from what is known."""
        if row.file in self._counted and row.hunk is not None and self._counts(row.file, row.hunk):
            missing, of = self._counted[row.file]
            self._counted[row.file] = missing - count, of

    def _counts(self, file: int, number: int) -> bool:
        hunk = self.diffs[file].change.hunks[number]
        if not self.scene.undecided:
            return True
        return hunk.state is HunkState.PENDING and hunk.id not in self.scene.left_out

    def action_next_unseen(self) -> None:
        """Go to the next place that was never on screen, from the end on to the first."""
        place = next(self._unseen_from_cursor(), None) if self.diffs and not self.versions else None
        if place is None:
            self.post_message(self.NothingUnseen())
            return
        file, hunk, number = place
        if file in self.shape.collapsed:
            self.reshape(replace(self.shape, collapsed=self.shape.collapsed - {file}))
        if hunk < 0:
            self.go_to_file(file)
        else:
            self._go_to_line(file, hunk, number)

    def _unseen_from_cursor(self) -> Iterator[tuple[int, int, int]]:
        """The unseen places by file, hunk (-1 for the head of a file) and number of the line in the hunk."""
        start_file, start_hunk, start_number = self._cursor_place()
        files = len(self.diffs)
        for file in (*range(start_file, files), *range(start_file + 1)):
            hunks = self.diffs[file].change.hunks
            if not hunks and self.diffs[file].change.path not in self.seen.files:
                yield file, -1, 0
            for index, hunk in enumerate(hunks):
                if file == start_file and index < start_hunk and start_hunk < len(hunks):
                    continue
                if not self._counts(file, index):
                    continue
                first = start_number if (file, index) == (start_file, start_hunk) else 0
                number = self.seen.first_unseen(hunk, first)
                if number is not None:
                    yield file, index, number
            start_hunk = start_number = 0

    def _cursor_place(self) -> tuple[int, int, int]:
        file, row = self.file_at_cursor, self.row_at_cursor
        hunks = self.diffs[file].change.hunks
        if not isinstance(row, LineRow):
            return file, 0, 0
        if row.hunk is None:
            return file, bisect_right(hunks, row.new or 0, key=lambda hunk: hunk.new_start), 0
        hunk = hunks[row.hunk]
        if row.old is not None:
            return file, row.hunk, row.old - hunk.old_start
        return file, row.hunk, hunk.old_count + (row.new or 0) - hunk.new_start

    def _go_to_line(self, file: int, index: int, number: int) -> None:
        hunk = self.diffs[file].change.hunks[index]
        is_old = number < hunk.old_count
        side: Side = "old" if is_old else "new"
        line = hunk.old_start + number if is_old else hunk.new_start + number - hunk.old_count
        row = LineRow(file, line if is_old else None, None if is_old else line, index, number)
        found = self.rows.locate(row)
        self.fit()
        if found is None:
            return
        scene = self.scene
        shown, starts, _ = scene.shown(row, side, line)
        wanted = scene.changed(row, side, line) or ((0, len(scene.line(file, side, line))),)
        character = shown.drawn(self.seen.missing(hunk, number, wanted))
        part = max(0, bisect_right(starts, character) - 1)
        if not self.wrap:
            cell = shown.cell(character)
            self.scroll_to(x=0 if cell < scene.code_width - 1 else cell - _BESIDE, animate=False, immediate=True)
        top, view = self.rows.line_of(found) + part, self.scrollable_content_region.height
        if not self.scroll_offset.y <= top < self.scroll_offset.y + view:
            self.scroll_to(y=max(0, top - 1), animate=False, immediate=True)
        self.put_cursor(found)
