"""What of a change was never on screen: how much of each file, and where."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from widgets.diff.cursor import Cursor, View
from widgets.diff.rows import LineRow, Row, SourceLine, line_of, number_of, row_of
from widgets.diff.scene import Scene
from widgets.diff.seen import Seen, changed_lines
from widgets.diff.sheet import Sheet

_BESIDE = 4
"""Cells left of an unseen place that are shown with it."""


class UnseenLine(NamedTuple):
    """A changed line that was not wholly on screen, or the head of a file without hunks."""

    file: int
    hunk: int
    """Index in the file; -1 for the head of a file."""
    number: int
    """Of the line in the hunk."""


class UnseenLines:
    """Counts what of a scene was not seen, and finds it.

    Hunks that are left out, and those that were decided while others wait, don't count.
    """

    def __init__(self, scene: Scene, seen: Seen) -> None:
        """`seen` may grow, if `note` is told; where something else is left out, begin anew."""
        self._scene = scene
        self._seen = seen
        self._counted: dict[int, tuple[int, int]] = {}
        """By file, which may have many hunks."""

    def count(self, file: int) -> tuple[int, int]:
        """Changed lines of a file that were never on screen, and all of them; a file without hunks is one line."""
        change = self._scene.diffs[file].change
        if not change.hunks:
            return int(change.path not in self._seen.files), 1
        if file not in self._counted:
            hunks = [hunk for hunk in change.hunks if self._scene.counts(hunk)]
            self._counted[file] = sum(map(self._seen.unseen, hunks)), sum(map(changed_lines, hunks))
        return self._counted[file]

    def note(self, row: LineRow, lines: int) -> None:
        """So many of the lines on a row of a hunk have been seen now."""
        if row.hunk is None or row.file not in self._counted:
            return
        if self._scene.counts(self._scene.diffs[row.file].change.hunks[row.hunk]):
            missing, of = self._counted[row.file]
            self._counted[row.file] = missing - lines, of

    def below(self, file: int, row: Row | None) -> Iterator[UnseenLine]:
        """What is unseen, from a row of a file on, and from the end on to the first."""
        diffs = self._scene.diffs
        start_hunk, start_number = self._place_of(file, row)
        for index in (*range(file, len(diffs)), *range(file + 1)):
            change = diffs[index].change
            if not change.hunks and change.path not in self._seen.files:
                yield UnseenLine(index, -1, 0)
            for at, hunk in enumerate(change.hunks):
                if index == file and at < start_hunk < len(change.hunks):
                    continue
                if not self._scene.counts(hunk):
                    continue
                first = start_number if (index, at) == (file, start_hunk) else 0
                number = self._seen.first_unseen(hunk, first)
                if number is not None:
                    yield UnseenLine(index, at, number)
            start_hunk = start_number = 0

    def _place_of(self, file: int, row: Row | None) -> tuple[int, int]:
        """The hunk that a row is in or above, and the number of its line in it."""
        hunks = self._scene.diffs[file].change.hunks
        if not isinstance(row, LineRow):
            return 0, 0
        if row.hunk is None:
            return bisect_right(hunks, row.new or 0, key=lambda hunk: hunk.new_start), 0
        return row.hunk, number_of(hunks[row.hunk], *row.lines[0])


def go_to_unseen(place: UnseenLine, seen: Seen, sheet: Sheet, cursor: Cursor, view: View) -> None:
    """Bring the first unseen character of a line into view, and the cursor with it."""
    hunk, scene = sheet.diffs[place.file].change.hunks[place.hunk], sheet.scene
    side, line = line_of(hunk, place.number)
    row = row_of(SourceLine(place.file, side, line), place.hunk)
    found = cursor.find(row)
    if found is None:
        return
    drawn = scene.drawn(row, side, line)
    wanted = scene.changed(row, side, line) or ((0, len(scene.line(place.file, side, line))),)
    character = drawn.text.drawn(seen.missing(hunk, place.number, wanted))
    part = max(0, bisect_right(drawn.starts, character) - 1)
    if not sheet.wrap:
        cell = drawn.text.cell(character)
        view.scroll_to(x=0 if cell < scene.code_width - 1 else cell - _BESIDE, animate=False, immediate=True)
    top, first = sheet.rows.line_of(found) + part, view.scroll_offset.y
    if not first <= top < first + view.room:
        view.scroll_to(y=max(0, top - 1), animate=False, immediate=True)
    cursor.put(found)
