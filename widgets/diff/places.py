"""Finding rows: the hunks, files and lines of a layout, and where a search matches."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.proposals.models import FileDiff
from widgets.diff.paint_code import occurrences
from widgets.diff.rows import Context, FileRow, FoldRow, Layout, LineRow, Row, Side, Single, Split, Unified


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


class Landmarks:
    """The rows of a layout at which hunks and files begin."""

    def __init__(self, layout: Layout) -> None:
        self.hunks: list[int] = []
        """First row of each hunk."""
        self.files: list[int] = []
        """Row of each file's head."""
        previous = (-1, -1)
        for row, segment in layout.starts():
            if segment.hunk is not None:
                if (segment.file, segment.hunk) != previous:
                    previous = (segment.file, segment.hunk)
                    self.hunks.append(row)
            elif type(segment) is Single and type(segment.content) is FileRow:
                self.files.append(row)

    @staticmethod
    def after(rows: Sequence[int], row: int) -> int | None:
        """The next landmark below a row."""
        index = bisect_right(rows, row)
        return rows[index] if index < len(rows) else None

    @staticmethod
    def before(rows: Sequence[int], row: int) -> int | None:
        """The landmark above a row; from inside a hunk or file, its own beginning."""
        index = bisect_left(rows, row)
        return rows[index - 1] if index else None


def locate(layout: Layout, row: Row) -> int | None:
    """The number of an equal row in another layout of the same change.

    A line that is folded there is found at its fold, a fold that is open there at its first line, and anything else
    that is gone at the head of its file.
    """
    fallback: int | None = None
    for start, segment in layout.starts():
        if segment.file != row.file:
            continue
        if isinstance(segment, Single):
            if segment.content == row or _hides(segment.content, row):
                return start
            if isinstance(segment.content, FileRow):
                fallback = start
        elif isinstance(row, LineRow) and (inner := _inside(segment, row)) is not None:
            return start + inner
        elif isinstance(row, FoldRow) and isinstance(segment, Context):
            inner = row.new_start - segment.new_start
            if 0 <= inner < segment.rows:
                return start + inner
    return fallback


def _hides(fold: Row, row: Row) -> bool:
    """Whether a line of context is in a fold."""
    return (
        isinstance(fold, FoldRow)
        and isinstance(row, LineRow)
        and row.hunk is None
        and row.new is not None
        and fold.new_start <= row.new < fold.new_start + fold.lines
    )


def _inside(segment: object, row: LineRow) -> int | None:
    """Where a segment shows a line, from its own first row."""
    match segment:
        case Context() if row.new is not None and row.hunk is None:
            inner = row.new - segment.new_start
            return inner if 0 <= inner < segment.rows else None
        case Unified() if row.hunk == segment.hunk:
            if row.new is None and row.old is not None:
                inner = row.old - segment.old_start - segment.offset
            elif row.new is not None:
                inner = row.new - segment.new_start + segment.old_count - segment.offset
            else:
                return None
            return inner if 0 <= inner < segment.rows else None
        case Split() if row.hunk == segment.hunk:
            for inner in range(segment.rows):
                shown = segment.row(inner)
                if (row.new is not None and shown.new == row.new) or (row.new is None and shown.old == row.old):
                    return inner
    return None


def row_of_hunk(layout: Layout, file: int, hunk: int) -> int | None:
    """The first row of a hunk."""
    return next((row for row, segment in layout.starts() if segment.file == file and segment.hunk == hunk), None)


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
