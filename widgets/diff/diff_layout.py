"""Positions of the rows of a diff, computed only as far down as needed.

A layout takes its segments from an iterator: first a few screens, later the rest. The first frame costs the same for
ten changed lines and for a hundred thousand.
"""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from math import inf
from operator import attrgetter
from typing import NamedTuple

from widgets.diff.diff_rows import (
    CommentRow,
    FileRow,
    FoldRow,
    LineRow,
    NoteRow,
    Row,
    RowSegment,
    SingleRowSegment,
    WhitespaceHunkRow,
)

_LINES_PER_SEARCH_STEP = 2_000
"""Number of terminal lines that are laid out at a time in the search for a row."""


class RowPartAtTerminalLine(NamedTuple):
    """A terminal line of the layout: its row, and which line of that wrapped row it is."""

    number: int
    """Number of the row, from 0."""
    row: Row
    part: int
    """Index of the terminal line within a wrapped row, from 0."""


class Landmarks:
    """Rows at which hunks, files and comments begin."""

    def __init__(self) -> None:
        self.hunks: list[int] = []
        """First row of each shown hunk."""
        self.hunk_keys: list[tuple[int, int]] = []
        """The same hunks as (index of the file, index in the file)."""
        self.files: list[int] = []
        """Row of each file's heading."""
        self.comments: list[int] = []
        """Row of each comment."""

    def add_segment(self, row: int, segment: RowSegment) -> None:
        """Add the landmarks of a segment that begins at a row."""
        if type(segment) is SingleRowSegment:
            if type(segment.content) is FileRow:
                self.files.append(row)
            elif type(segment.content) is CommentRow:
                self.comments.append(row)
        if segment.hunk is not None:
            key = (segment.file, segment.hunk)
            if not self.hunk_keys or self.hunk_keys[-1] != key:
                self.hunks.append(row)
                self.hunk_keys.append(key)

    @staticmethod
    def landmark_below(rows: Sequence[int], row: int) -> int | None:
        """Return the next landmark below a row; None if there is none."""
        index = bisect_right(rows, row)
        return rows[index] if index < len(rows) else None

    @staticmethod
    def landmark_above(rows: Sequence[int], row: int) -> int | None:
        """Return the landmark above a row; inside a hunk or file, its start; None if there is none."""
        index = bisect_left(rows, row)
        return rows[index - 1] if index else None


class DiffLayout:
    """The rows of a diff and their terminal lines, laid out on demand from segments.

    Until it is `complete`, all counts are of the rows laid out so far.
    """

    def __init__(self, source: Iterable[RowSegment] = ()) -> None:
        self.segments: list[RowSegment] = []
        self.landmarks = Landmarks()
        self.complete = False
        self._source = iter(source)
        self._first_rows = [0]
        self._first_lines = [0]

    def lay_out_more(self, *, lines: float = inf, seconds: float = inf) -> None:
        """Lay out more rows, up to a number of terminal lines or seconds; without a limit, all."""
        if self._first_lines[-1] >= lines or self.complete:
            return
        segments, rows, heights = self.segments, self._first_rows, self._first_lines
        add_landmark, clock = self.landmarks.add_segment, time.perf_counter
        row, line, end = rows[-1], heights[-1], clock() + seconds
        for segment in self._source:
            segments.append(segment)
            add_landmark(row, segment)
            row += segment.rows
            line += segment.rows if segment.heights is None else segment.height
            rows.append(row)
            heights.append(line)
            if line >= lines or clock() >= end:
                return
        self.complete = True

    @property
    def row_count(self) -> int:
        return self._first_rows[-1]

    @property
    def height(self) -> int:
        """Return the number of terminal lines."""
        return self._first_lines[-1]

    def row_at(self, number: int) -> Row:
        """Return a row by its number.

        Raises:
            IndexError: The row does not exist.
        """
        index = self.segment_index_of(number)
        return self.segments[index].row_at(number - self._first_rows[index])

    def nearest_row(self, number: int) -> int:
        """Return the existing row number nearest to a number."""
        return max(0, min(number, self.row_count - 1))

    def segment_index_of(self, number: int) -> int:
        """Return the index of the segment that contains a row.

        Raises:
            IndexError: The row does not exist.
        """
        if not 0 <= number < self.row_count:
            raise IndexError(number)
        return bisect_right(self._first_rows, number) - 1

    def part_at(self, line: int) -> RowPartAtTerminalLine:
        """Return the part of a row on a terminal line.

        Raises:
            IndexError: The line does not exist.
        """
        if not 0 <= line < self.height:
            raise IndexError(line)
        index = bisect_right(self._first_lines, line) - 1
        segment, inner = self.segments[index], line - self._first_lines[index]
        if segment.heights is None:
            return RowPartAtTerminalLine(self._first_rows[index] + inner, segment.row_at(inner), 0)
        number = bisect_right(segment.heights, inner)
        above = segment.heights[number - 1] if number else 0
        return RowPartAtTerminalLine(self._first_rows[index] + number, segment.row_at(number), inner - above)

    def first_line_of_row(self, number: int) -> int:
        """Return the first terminal line of a row."""
        index = self.segment_index_of(number)
        segment, inner = self.segments[index], number - self._first_rows[index]
        if segment.heights is None or not inner:
            return self._first_lines[index] + inner
        return self._first_lines[index] + segment.heights[inner - 1]

    def height_of(self, number: int) -> int:
        """Return the number of terminal lines of a row."""
        end = self.first_line_of_row(number + 1) if number + 1 < self.row_count else self.height
        return end - self.first_line_of_row(number)

    def segments_with_lines(self, first: int, last: int) -> Iterator[tuple[int, int, RowSegment]]:
        """Yield the segments on these terminal lines, each with its first line and the line after its last."""
        for index in range(*self._segment_range(first, last)):
            yield self._first_lines[index], self._first_lines[index + 1], self.segments[index]

    def segments_between(self, first: int, last: int) -> Sequence[RowSegment]:
        """Return the segments on the terminal lines `first` to `last`, without the last."""
        return self.segments[slice(*self._segment_range(first, last))]

    def _segment_range(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of segment indices on these terminal lines."""
        begin = bisect_right(self._first_lines, max(0, first)) - 1
        return begin, bisect_right(self._first_lines, min(last, self.height) - 1)

    # Finding

    def row_of_hunk(self, file: int, hunk: int) -> int | None:
        """Return the first row of a hunk, or None if it is not shown; lay out that far."""
        landmarks = self.landmarks
        while not self.complete and (not landmarks.hunk_keys or landmarks.hunk_keys[-1] < (file, hunk)):
            self.lay_out_more(lines=self.height + _LINES_PER_SEARCH_STEP)
        index = bisect_left(landmarks.hunk_keys, (file, hunk))
        is_shown = index < len(landmarks.hunks) and landmarks.hunk_keys[index] == (file, hunk)
        return landmarks.hunks[index] if is_shown else None

    def row_of_file(self, file: int) -> int | None:
        """Return the row of a file's heading, or None if there is none; lay out that far."""
        files = self.landmarks.files
        while not self.complete and len(files) <= file:
            self.lay_out_more(lines=self.height + _LINES_PER_SEARCH_STEP)
        return files[file] if file < len(files) else None

    def find_equal_row(self, row: Row) -> int | None:
        """Return the number of the row that equals a row of another layout of the same change; None if there is none.

        If the row is not shown here, the result is: for a folded line, its fold; for an opened fold, its first line;
        for any other row, the heading of its file. A line of a hunk may be context here, or part of a row for the
        whole hunk.
        """
        match row:
            case LineRow(hunk=int(hunk)):
                number = self._find_changed_line(row, hunk)
            case WhitespaceHunkRow(hunk=hunk):
                number = self.row_of_hunk(row.file, hunk)
            case LineRow(new=int(line)) | FoldRow(new_start=line):
                number = self._find_unchanged_line(row.file, line)
            case FileRow():
                number = None
            case NoteRow():
                number = self._find_single_row(row, -1)
            case _:
                number = self._find_single_row(row, None)
        return self.row_of_file(row.file) if number is None and row.file >= 0 else number

    def _find_changed_line(self, row: LineRow, hunk: int) -> int | None:
        start = self.row_of_hunk(row.file, hunk)
        if start is None:
            return None
        _, side, line = row.newest
        # Context lines of the hunk begin above its first row, and continue between and below its parts.
        for index in count(max(0, self.segment_index_of(start) - 1)):
            if index == len(self.segments):
                self.lay_out_more(lines=self.height + _LINES_PER_SEARCH_STEP)
            if index == len(self.segments) or _is_below_hunk(self.segments[index], row.file, hunk):
                break
            segment = self.segments[index]
            number_in_segment = segment.find_row(side, line) if segment.file == row.file else None
            if number_in_segment is not None:
                return self._first_rows[index] + number_in_segment
        fold_row = self._find_unchanged_line(row.file, line) if side == "new" else None
        return start if fold_row is None else fold_row

    def _find_unchanged_line(self, file: int, line: int) -> int | None:
        first, last = self._segment_range_of_file(file, line)
        index = bisect_right(self.segments, line, first, last, key=attrgetter("new_start")) - 1
        if index < first:
            return None
        segment = self.segments[index]
        if isinstance(segment, SingleRowSegment):
            return self._first_rows[index] if isinstance(segment.content, FoldRow) else None
        number_in_segment = segment.find_row("new", line)
        return None if number_in_segment is None else self._first_rows[index] + number_in_segment

    def _find_single_row(self, row: Row, line: int | None) -> int | None:
        first, last = self._segment_range_of_file(row.file, line)
        for index, segment in enumerate(islice(self.segments, first, last), first):
            if isinstance(segment, SingleRowSegment) and _is_same_row(segment.content, row):
                return self._first_rows[index]
        return None

    def _segment_range_of_file(self, file: int, line: int | None) -> tuple[int, int]:
        """Return the range of a file's segments; lay out down to a line of the new text, or to the file's end."""
        while not self.complete and not self._is_laid_out_past(file, line):
            self.lay_out_more(lines=self.height + _LINES_PER_SEARCH_STEP)
        files = self.landmarks.files
        first = 0 if file < 0 else self.segment_index_of(files[file]) if file < len(files) else len(self.segments)
        following = file + 1
        return first, self.segment_index_of(files[following]) if following < len(files) else len(self.segments)

    def _is_laid_out_past(self, file: int, line: int | None) -> bool:
        if not self.segments:
            return False
        last = self.segments[-1]
        return last.file > file or (line is not None and last.file == file and last.new_start > line)


def _is_below_hunk(segment: RowSegment, file: int, hunk: int) -> bool:
    """Return whether a segment is below a hunk and the context after it."""
    return segment.file != file if segment.hunk is None else (segment.file, segment.hunk) > (file, hunk)


def _is_same_row(shown: Row, row: Row) -> bool:
    """Return whether both rows are the same; notes with a key are compared by key."""
    if isinstance(shown, NoteRow) and isinstance(row, NoteRow) and row.key:
        return shown.key == row.key
    return shown == row
