"""Where a search matches."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.proposals.models import FileDiff
from widgets.diff.paint_code import occurrences
from widgets.diff.rows import LineRow, Side


class Found(NamedTuple):
    """A line that matches a search."""

    file: int
    hunk: int | None
    side: Side
    line: int

    @property
    def row(self) -> LineRow:
        """A row that shows it."""
        old, new = (self.line, None) if self.side == "old" else (None, self.line)
        return LineRow(self.file, old, new, self.hunk, 0)


def first_from(found: Sequence[Found], diffs: Sequence[FileDiff], row: LineRow) -> int:
    """Which of the found lines is the first at a row or below it; the first of all if there is none."""

    def place(file: int, side: Side, line: int, hunk: int | None) -> tuple[int, int, bool, int]:
        # Removed lines stand above the new lines of their hunk.
        new = side == "new"
        return file, line if new else diffs[file].change.hunks[hunk or 0].new_start, new, line

    here = place(row.file, *(("old", row.old or 0) if row.new is None else ("new", row.new)), row.hunk)
    at = bisect_left(found, here, key=lambda hit: place(hit.file, hit.side, hit.line, hit.hunk))
    return at % len(found)


def search(diffs: Sequence[FileDiff], query: str, wanted: Callable[[], bool] = lambda: True) -> list[Found]:
    """The lines that contain a query, in the order in which they are shown; context counts once.

    `wanted` is asked before every hunk; where it says no, the search ends with what it has.
    """
    found: list[Found] = []
    if not query:
        return found
    folded = query == query.lower()

    def scan(file: int, hunk: int | None, side: Side, lines: Sequence[str], start: int, end: int) -> None:
        found.extend(
            Found(file, hunk, side, line)
            for line in range(start, end)
            if query in (lines[line].lower() if folded else lines[line])
        )

    for file, diff in enumerate(diffs):
        at = 0
        for number, hunk in enumerate(diff.change.hunks):
            if not wanted():
                return found
            scan(file, None, "new", diff.new, at, hunk.new_start)
            at = hunk.new_start + hunk.new_count
            scan(file, number, "old", diff.old, hunk.old_start, hunk.old_start + hunk.old_count)
            scan(file, number, "new", diff.new, hunk.new_start, at)
        scan(file, None, "new", diff.new, at, len(diff.new))
    return found


def count_matches(diffs: Sequence[FileDiff], found: Sequence[Found], query: str) -> int:
    """Occurrences on the found lines."""
    return sum(
        len(occurrences((diffs[hit.file].old if hit.side == "old" else diffs[hit.file].new)[hit.line], query))
        for hit in found
    )
