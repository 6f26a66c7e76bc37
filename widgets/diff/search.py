"""Where a search matches."""

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
