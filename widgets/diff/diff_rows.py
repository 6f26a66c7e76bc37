"""Rows of a diff, computed from segments: a stretch of context, a fold, or a hunk.

Rows are created when they are drawn. The cursor moves by rows. A row is one terminal line high unless it is wrapped.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from app.proposals.values.models import Hunk
from app.review.hunk_lines import HunkPartRanges, Side


class SourceLinePosition(NamedTuple):
    """Identifies a line of the old or the new text of a file: file index, side and line number."""

    file: int
    """Index of the file."""
    side: Side
    line: int
    """From 0."""


class LineRow(NamedTuple):
    """A line of source: context with both numbers, or one or both sides of a hunk."""

    file: int
    """Index of the file."""
    old: int | None
    """Line of the old text, from 0; None if the row does not show it."""
    new: int | None
    hunk: int | None
    """Index of the hunk in its file; None for context."""
    position: int
    """Number of the row in the hunk, from 0."""

    @property
    def lines(self) -> list[tuple[Side, int]]:
        """Return the lines of source that the row shows: two for context or side by side."""
        shown: list[tuple[Side, int | None]] = [("old", self.old), ("new", self.new)]
        return [(side, line) for side, line in shown if line is not None]

    @property
    def newest(self) -> SourceLinePosition:
        """Return the line that identifies the row: the new one if it is shown, else the old one."""
        if self.new is not None:
            return SourceLinePosition(self.file, "new", self.new)
        return SourceLinePosition(self.file, "old", self.old or 0)


def row_of_line(line: SourceLinePosition, hunk: int | None) -> LineRow:
    """Return the row that shows a line of source in a hunk or in context."""
    file, side, number = line
    return LineRow(file, number, None, hunk, 0) if side == "old" else LineRow(file, None, number, hunk, 0)


class FileRow(NamedTuple):
    """The heading of a file."""

    file: int


class NoteRow(NamedTuple):
    """A note of the program about a file or the whole change."""

    file: int
    """-1 for the whole change."""
    text: str
    level: Literal["note", "warning", "error", "plain", "done", "open", "folded", "unfolded"]
    """A `folded` note shows only its beginning, on one terminal line."""
    key: str = ""
    """Key of a note that the user can toggle with a click or Enter; else empty."""


class WhitespaceHunkRow(NamedTuple):
    """A hunk that changes only white space, in one row."""

    file: int
    hunk: int
    """Index of the hunk in its file."""
    lines: int


class FoldRow(NamedTuple):
    """The row that stands for a folded stretch of unchanged lines."""

    file: int
    gap: int
    """Identity of the stretch in its file: the index of the hunk after it, or a negative number inside a hunk."""
    new_start: int
    lines: int
    spaces: bool = False
    """Whether some of the lines have hidden white space changes."""


CommentKind = Literal["comment", "finding", "known-finding", "asked", "repeated", "noticed", "unnoticed", "unclear"]
"""The source of a comment: `comment` is the user's, `finding` is from a check, `known-finding` is a finding that
exists without the proposal too, and `asked` is a side question. At the start of a hunk, `repeated` means that the
user denied the same edit before, `noticed` that a test notices if the hunk is missing, `unnoticed` that no test does,
and `unclear` that this is unknown.
"""
HUNK_HEAD_KINDS: tuple[CommentKind, ...] = ("repeated", "noticed", "unnoticed", "unclear")
"""Kinds that are shown above the hunk that begins with the commented line."""


class CommentRow(NamedTuple):
    """A comment at a line."""

    file: int
    comment: int
    """Index in the comments of the proposal."""
    text: str
    kind: CommentKind = "comment"


class BlankRowBetweenFiles(NamedTuple):
    """An empty row between two files."""

    file: int


Row = LineRow | WhitespaceHunkRow | FileRow | NoteRow | FoldRow | CommentRow | BlankRowBetweenFiles


class RowSegment(ABC):
    """A stretch of rows that are computed in the same way."""

    __slots__ = ("file", "heights", "hunk", "new_start", "rows")

    file: int
    rows: int
    hunk: int | None
    """Index of the hunk in its file."""
    new_start: int
    """Position in the new text: the number, from 0, of the first line or of a line nearby. It never decreases from
    one segment of a file to the next.
    """
    heights: list[int] | None
    """Cumulative number of terminal lines up to each row; None if each row has one line."""

    @property
    def height(self) -> int:
        """Return the number of terminal lines."""
        return self.heights[-1] if self.heights else self.rows

    @property
    def lines(self) -> tuple[range, range]:
        """Return the shown lines of source, of the old and the new text; context counts as new."""
        return range(0), range(0)

    @abstractmethod
    def row_at(self, number: int) -> Row:
        """Return a row by its number in the segment."""

    def find_row(self, side: Side, line: int) -> int | None:
        """Return the number of the row that shows a line of source; None if there is none."""
        return None

    def slice_rows(self, start: int, rows: int) -> "RowSegment":
        """Return some of the rows as a new segment."""
        return self

    def set_row_heights(self, measure: Callable[[Row], int]) -> None:
        """Set the heights of the rows to the numbers of terminal lines that `measure` returns."""
        self.heights = list(accumulate(measure(self.row_at(number)) for number in range(self.rows)))
        if self.heights and self.heights[-1] == self.rows:
            self.heights = None


class SingleRowSegment(RowSegment):
    """A segment with one row that is not source."""

    __slots__ = ("content",)

    def __init__(self, content: Row, new_start: int, hunk: int | None = None) -> None:
        self.file, self.rows, self.hunk, self.heights = content.file, 1, hunk, None
        self.content = content
        self.new_start = new_start

    def row_at(self, number: int) -> Row:
        return self.content


class ContextSegment(RowSegment):
    """The rows of a stretch of unchanged lines."""

    __slots__ = ("gap", "old_start")

    def __init__(self, file: int, old_start: int, new_start: int, rows: int, gap: int) -> None:
        # Each hunk creates a few segments: without the call to the base class, creating one takes half the time.
        self.file, self.rows, self.hunk, self.heights = file, rows, None, None
        self.old_start = old_start
        self.new_start = new_start
        self.gap = gap

    @property
    def lines(self) -> tuple[range, range]:
        return range(0), range(self.new_start, self.new_start + self.rows)

    def row_at(self, number: int) -> LineRow:
        return LineRow(self.file, self.old_start + number, self.new_start + number, None, number)

    def find_row(self, side: Side, line: int) -> int | None:
        number = line - (self.new_start if side == "new" else self.old_start)
        return number if 0 <= number < self.rows else None

    def slice_rows(self, start: int, rows: int) -> "ContextSegment":
        return ContextSegment(self.file, self.old_start + start, self.new_start + start, rows, self.gap)


class UnifiedSegment(RowSegment):
    """Rows of a hunk in the unified view, old lines above new ones."""

    __slots__ = ("_whole_hunk", "above", "offset", "old_count", "old_start")

    def __init__(
        self,
        file: int,
        index: int,
        hunk: Hunk | HunkPartRanges,
        offset: int = 0,
        rows: int | None = None,
        above: int = 0,
    ) -> None:
        """`offset` is the first row within the hunk or part; `above` is the number of the hunk's rows above it."""
        self.file, self.hunk, self.heights = file, index, None
        self.old_start = hunk.old_start
        self.old_count = hunk.old_count
        self.rows = self.old_count + hunk.new_count if rows is None else rows
        self.new_start = hunk.new_start
        self.offset = offset
        self.above = above
        self._whole_hunk = hunk

    @property
    def lines(self) -> tuple[range, range]:
        first, last, old = self.offset, self.offset + self.rows, self.old_count
        return (
            range(self.old_start + min(first, old), self.old_start + min(last, old)),
            range(self.new_start + max(0, first - old), self.new_start + max(0, last - old)),
        )

    def row_at(self, number: int) -> LineRow:
        number += self.offset
        if number < self.old_count:
            return LineRow(self.file, self.old_start + number, None, self.hunk, self.above + number)
        return LineRow(self.file, None, self.new_start + number - self.old_count, self.hunk, self.above + number)

    def find_row(self, side: Side, line: int) -> int | None:
        old, new = self.lines
        if side == "old":
            return line - old.start if line in old else None
        return len(old) + line - new.start if line in new else None

    def slice_rows(self, start: int, rows: int) -> "UnifiedSegment":
        assert self.hunk is not None
        return UnifiedSegment(self.file, self.hunk, self._whole_hunk, self.offset + start, rows, self.above)


class SplitSegment(RowSegment):
    """Rows of a hunk in the side-by-side view, old lines left of new ones."""

    __slots__ = ("_whole_hunk", "above", "new_count", "offset", "old_count", "old_start", "pairs")

    def __init__(
        self,
        file: int,
        index: int,
        hunk: Hunk | HunkPartRanges,
        pairs: Sequence[tuple[int | None, int | None]] | None,
        offset: int = 0,
        rows: int | None = None,
        above: int = 0,
    ) -> None:
        """`pairs` are the lines side by side; None pairs them in order. `above` is as in `UnifiedSegment`."""
        whole = max(hunk.old_count, hunk.new_count) if pairs is None else len(pairs)
        self.file, self.hunk, self.heights = file, index, None
        self.rows = whole if rows is None else rows
        self.old_start, self.old_count = hunk.old_start, hunk.old_count
        self.new_start, self.new_count = hunk.new_start, hunk.new_count
        self.pairs = pairs
        self.offset = offset
        self.above = above
        self._whole_hunk = hunk

    @property
    def lines(self) -> tuple[range, range]:
        first, last = self.offset, self.offset + self.rows
        if self.pairs is not None:
            # Hunks with aligned lines are small, so the lines of the whole hunk are good enough.
            first, last = 0, max(self.old_count, self.new_count)
        return (
            range(self.old_start + min(first, self.old_count), self.old_start + min(last, self.old_count)),
            range(self.new_start + min(first, self.new_count), self.new_start + min(last, self.new_count)),
        )

    def row_at(self, number: int) -> LineRow:
        number += self.offset
        old: int | None = number if number < self.old_count else None
        new: int | None = number if number < self.new_count else None
        if self.pairs is not None:
            old, new = self.pairs[number]
        old_line = None if old is None else self.old_start + old
        new_line = None if new is None else self.new_start + new
        return LineRow(self.file, old_line, new_line, self.hunk, self.above + number)

    def find_row(self, side: Side, line: int) -> int | None:
        if self.pairs is None:
            shown_lines = self.lines[side == "new"]
            return line - shown_lines.start if line in shown_lines else None
        index = line - (self.new_start if side == "new" else self.old_start)
        pairs = self.pairs[self.offset : self.offset + self.rows]
        return next((number for number, pair in enumerate(pairs) if pair[side == "new"] == index), None)

    def slice_rows(self, start: int, rows: int) -> "SplitSegment":
        assert self.hunk is not None
        return SplitSegment(self.file, self.hunk, self._whole_hunk, self.pairs, self.offset + start, rows, self.above)
