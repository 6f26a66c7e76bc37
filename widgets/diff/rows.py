"""The rows of a diff, computed from segments: a stretch of context, a fold, a hunk, never a list of lines.

A layout of fifty thousand changed lines costs as much as its number of hunks. A row is made when it is drawn.
Rows are what the cursor moves over; a row is one terminal line high unless it is wrapped.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from app.proposals.models import Hunk

Side = Literal["old", "new"]
"""Which text of a file a line belongs to."""


class LineRow(NamedTuple):
    """A line of source: context with both numbers, or one or both sides of a hunk."""

    file: int
    """Index of the file."""
    old: int | None
    """Line of the old text from 0, where this row shows it."""
    new: int | None
    hunk: int | None
    """Index of the hunk in its file; None for context."""
    position: int
    """Row in the hunk, from 0."""


class FileRow(NamedTuple):
    """The head of a file."""

    file: int


class NoteRow(NamedTuple):
    """A line of the program's about a file or the whole change."""

    file: int
    """-1 for the whole change."""
    text: str
    level: Literal["note", "warning", "error", "plain", "done", "open"]
    key: str = ""
    """What a click or Enter on it toggles, for a note that can be ticked off."""


class FoldRow(NamedTuple):
    """An unchanged stretch, folded."""

    file: int
    gap: int
    """Which stretch of its file, from 0; the fold's identity."""
    new_start: int
    lines: int


class CommentRow(NamedTuple):
    """The user's remark under a line."""

    file: int
    comment: int
    """Index in the comments of the proposal."""
    text: str


class BlankRow(NamedTuple):
    """Air between two files."""

    file: int


Row = LineRow | FileRow | NoteRow | FoldRow | CommentRow | BlankRow


class Segment:
    """A stretch of rows that are computed alike."""

    __slots__ = ("file", "heights", "hunk", "rows")

    file: int
    rows: int
    hunk: int | None
    """Index of the hunk in its file."""
    heights: list[int] | None
    """Terminal lines up to and including each row; None where each row is one."""

    @property
    def height(self) -> int:
        """Terminal lines."""
        return self.heights[-1] if self.heights else self.rows

    def row(self, number: int) -> Row:
        """A row by its number in the segment."""
        raise NotImplementedError

    def wrap(self, measure: Callable[[Row], int]) -> None:
        """Let rows take several lines, as many as `measure` says."""
        self.heights = list(accumulate(measure(self.row(number)) for number in range(self.rows)))
        if self.heights and self.heights[-1] == self.rows:
            self.heights = None


class Single(Segment):
    """One row that is not a line of source."""

    __slots__ = ("content",)

    def __init__(self, content: Row, hunk: int | None = None) -> None:
        self.file, self.rows, self.hunk, self.heights = content.file, 1, hunk, None
        self.content = content

    def row(self, number: int) -> Row:
        return self.content


class Context(Segment):
    """Unchanged lines."""

    __slots__ = ("gap", "new_start", "old_start")

    def __init__(self, file: int, old_start: int, new_start: int, rows: int, gap: int) -> None:
        # Every hunk brings a few segments: they are made without a call to the base class, which halves their cost.
        self.file, self.rows, self.hunk, self.heights = file, rows, None, None
        self.old_start = old_start
        self.new_start = new_start
        self.gap = gap

    def row(self, number: int) -> LineRow:
        return LineRow(self.file, self.old_start + number, self.new_start + number, None, number)


class Unified(Segment):
    """A hunk, its old lines above its new ones."""

    __slots__ = ("new_start", "offset", "old_count", "old_start")

    def __init__(self, file: int, index: int, hunk: Hunk, offset: int = 0, rows: int | None = None) -> None:
        self.file, self.hunk, self.heights = file, index, None
        self.old_start = hunk.old_start
        self.old_count = hunk.old_count
        self.rows = self.old_count + hunk.new_count if rows is None else rows
        self.new_start = hunk.new_start
        self.offset = offset

    def row(self, number: int) -> LineRow:
        number += self.offset
        if number < self.old_count:
            return LineRow(self.file, self.old_start + number, None, self.hunk, number)
        return LineRow(self.file, None, self.new_start + number - self.old_count, self.hunk, number)


class Split(Segment):
    """A hunk, its old lines at the left of its new ones."""

    __slots__ = ("new_count", "new_start", "offset", "old_count", "old_start", "pairs")

    def __init__(
        self,
        file: int,
        index: int,
        hunk: Hunk,
        pairs: Sequence[tuple[int | None, int | None]] | None,
        offset: int = 0,
        rows: int | None = None,
    ) -> None:
        """`pairs` tells which lines stand beside each other; None pairs them in order."""
        whole = max(hunk.old_count, hunk.new_count) if pairs is None else len(pairs)
        self.file, self.hunk, self.heights = file, index, None
        self.rows = whole if rows is None else rows
        self.old_start, self.old_count = hunk.old_start, hunk.old_count
        self.new_start, self.new_count = hunk.new_start, hunk.new_count
        self.pairs = pairs
        self.offset = offset

    def row(self, number: int) -> LineRow:
        number += self.offset
        old: int | None
        new: int | None
        if self.pairs is None:
            old = number if number < self.old_count else None
            new = number if number < self.new_count else None
        else:
            old, new = self.pairs[number]
        return LineRow(
            self.file,
            None if old is None else self.old_start + old,
            None if new is None else self.new_start + new,
            self.hunk,
            number,
        )


class Place(NamedTuple):
    """What stands on a terminal line."""

    number: int
    """The row, from 0."""
    row: Row
    part: int
    """Which line of a wrapped row, from 0."""


class Layout:
    """Segments with their offsets: which row stands where."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self.segments = segments
        rows = [segment.rows for segment in segments]
        heights = [segment.rows if segment.heights is None else segment.height for segment in segments]
        self._rows = list(accumulate(rows, initial=0))
        self._lines = self._rows if heights == rows else list(accumulate(heights, initial=0))

    @property
    def rows(self) -> int:
        """Rows in all."""
        return self._rows[-1]

    @property
    def height(self) -> int:
        """Terminal lines in all."""
        return self._lines[-1]

    def row(self, number: int) -> Row:
        """A row by number; raises IndexError outside."""
        index = self.segment_of(number)
        return self.segments[index].row(number - self._rows[index])

    def segment_of(self, number: int) -> int:
        """The index of the segment that holds a row."""
        if not 0 <= number < self.rows:
            raise IndexError(number)
        return bisect_right(self._rows, number) - 1

    def at(self, line: int) -> Place:
        """What stands on a terminal line; raises IndexError outside."""
        if not 0 <= line < self.height:
            raise IndexError(line)
        index = bisect_right(self._lines, line) - 1
        segment, inner = self.segments[index], line - self._lines[index]
        if segment.heights is None:
            return Place(self._rows[index] + inner, segment.row(inner), 0)
        number = bisect_right(segment.heights, inner)
        above = segment.heights[number - 1] if number else 0
        return Place(self._rows[index] + number, segment.row(number), inner - above)

    def line_of(self, number: int) -> int:
        """The first terminal line of a row."""
        index = self.segment_of(number)
        segment, inner = self.segments[index], number - self._rows[index]
        if segment.heights is None or not inner:
            return self._lines[index] + inner
        return self._lines[index] + segment.heights[inner - 1]

    def height_of(self, number: int) -> int:
        """Terminal lines of a row."""
        return (self.line_of(number + 1) if number + 1 < self.rows else self.height) - self.line_of(number)

    def starts(self) -> Iterator[tuple[int, Segment]]:
        """Every segment with its first row."""
        return zip(self._rows, self.segments, strict=False)

    def spans_between(self, first: int, last: int) -> Iterator[tuple[int, int, Segment]]:
        """The segments on these terminal lines, each with its first line and the one after its last."""
        low, high = self._between(first, last)
        return zip(self._lines[low:high], self._lines[low + 1 : high + 1], self.segments[low:high], strict=True)

    @property
    def comments(self) -> Iterator[int]:
        """The terminal lines on which comments of the user begin."""
        for line, segment in zip(self._lines, self.segments, strict=False):
            if type(segment) is Single and type(segment.content) is CommentRow:
                yield line

    def segments_between(self, first: int, last: int) -> Sequence[Segment]:
        """The segments on the terminal lines `first` to `last`, the last not included."""
        low, high = self._between(first, last)
        return self.segments[low:high]

    def _between(self, first: int, last: int) -> tuple[int, int]:
        """The numbers of the segments on these terminal lines, from, to."""
        if first >= last or not self.segments:
            return 0, 0
        return bisect_right(self._lines, max(0, first)) - 1, bisect_right(self._lines, min(last, self.height) - 1)
