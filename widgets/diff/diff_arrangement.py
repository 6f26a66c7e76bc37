"""Arranges file diffs into a layout: shown, folded and opened stretches, and comments.

No function makes a list of the whole change: a segment is made when the layout requests it.
"""

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from app.copies import replace
from app.proposals.text.line_comparison import Pair, is_paired_by_position, pair_lines
from app.proposals.values.models import FileDiff, Hunk
from app.review.hunk_lines import HunkPartRanges, Side, changed_line_at, hunk_line_numbers, removed_and_added_lines
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_rows import (
    HUNK_HEAD_KINDS,
    BlankRowBetweenFiles,
    CommentKind,
    CommentRow,
    ContextSegment,
    FileRow,
    FoldRow,
    NoteRow,
    Row,
    RowSegment,
    SingleRowSegment,
    SourceLinePosition,
    SplitSegment,
    UnifiedSegment,
    WhitespaceHunkRow,
)
from widgets.diff.file_facts import notes_below_file_heading
from widgets.diff.white_space import HideableWhitespaceChanges


class DiffFoldState(Struct, frozen=True):
    """The folded and opened parts of a diff; immutable."""

    split: bool = False
    whole: bool = False
    """Whether all unchanged stretches are open."""
    opened: frozenset[tuple[int, int]] = frozenset()
    """Folds whose state differs from `whole`: (file, gap)."""
    collapsed: frozenset[int] = frozenset()
    """Files that are folded to their heading."""
    lines: frozenset[SourceLinePosition] = frozenset()
    """Long lines that are shown in full."""
    spaces: frozenset[str] = frozenset()
    """Ids of hunks whose white space changes are shown while the others are hidden."""

    def toggle_gap(self, file: int, gap: int) -> "DiffFoldState":
        """Return a copy with an unchanged stretch opened or folded."""
        return replace(self, opened=self.opened ^ {(file, gap)})

    def toggle_all(self) -> "DiffFoldState":
        """Return a copy that shows whole files, or only the hunks with their context."""
        return replace(self, whole=not self.whole, opened=frozenset())

    def toggle_file(self, file: int) -> "DiffFoldState":
        """Return a copy with a file folded to its heading, or unfolded."""
        return replace(self, collapsed=self.collapsed ^ {file})

    def toggle_long_lines(self, lines: frozenset[SourceLinePosition]) -> "DiffFoldState":
        """Return a copy with long lines shown in full, or shortened to their changes."""
        return replace(self, lines=self.lines - lines if self.lines & lines else self.lines | lines)

    def reveal_spaces(self, hunk: str) -> "DiffFoldState":
        """Return a copy that shows the white space changes of a hunk, by its id."""
        return replace(self, spaces=self.spaces | {hunk})

    def renumber_files(self, numbers: Mapping[int, int]) -> "DiffFoldState":
        """Return a copy for another order of files; `numbers` maps old to new numbers."""
        return replace(
            self,
            opened=frozenset((numbers[file], gap) for file, gap in self.opened if file in numbers),
            collapsed=frozenset(numbers[file] for file in self.collapsed if file in numbers),
            lines=frozenset(line._replace(file=numbers[line.file]) for line in self.lines if line.file in numbers),
        )

    def unfold_file(self, file: int) -> "DiffFoldState":
        """Return a copy with a file unfolded."""
        return replace(self, collapsed=self.collapsed - {file})

    def reveal_unchanged_line(self, line: SourceLinePosition, hunks: Sequence[Hunk]) -> "DiffFoldState":
        """Return a copy in which an unchanged line of the new text is visible, if its file is unfolded."""
        fold = {(line.file, sum(hunk.new_start <= line.line for hunk in hunks))}
        return replace(self, opened=self.opened - fold if self.whole else self.opened | fold)


CONTEXT_LINES = 3
"""Number of unchanged lines shown on each side of a hunk."""

MIN_FOLD_LINES = 3
"""Shorter unchanged stretches are not folded."""

_MAX_MEASURED_ROWS = 250
"""Maximum rows in a segment whose rows are measured one by one."""


class DiffComment(Struct, frozen=True):
    """A comment on a line of the shown diff, from the user or from a check."""

    line: SourceLinePosition
    text: str
    kind: CommentKind = "comment"


class _CommentsByLine:
    """Finds comments by line."""

    def __init__(self, comments: Sequence[DiffComment]) -> None:
        self.below: dict[SourceLinePosition, list[CommentRow]] = defaultdict(list)
        """Comments below each line."""
        self.above: dict[SourceLinePosition, list[CommentRow]] = {}
        """Comments above the hunk that begins with a line."""
        self._lines: dict[tuple[int, Side], list[int]] = {}
        for number, comment in enumerate(comments):
            row = CommentRow(comment.line.file, number, comment.text, comment.kind)
            if comment.kind in HUNK_HEAD_KINDS:
                self.above.setdefault(comment.line, []).append(row)
            else:
                self.below[comment.line].append(row)
        for file, side, line in sorted(self.below):
            self._lines.setdefault((file, side), []).append(line)

    def lines(self, file: int, side: Side, among: range) -> Sequence[int]:
        """Return the lines of a range that have comments, in order."""
        lines = self._lines.get((file, side), ())
        return lines[bisect_left(lines, among.start) : bisect_left(lines, among.stop)]


class _UnchangedStretch(NamedTuple):
    """Lines that are equal in both texts."""

    file: int
    gap: int
    """As in `FoldRow`."""
    old: int
    new: int
    lines: int
    spaces: bool
    """Whether some of the lines differ in white space."""


class _SegmentBuilder(Struct):
    """Yields the segments of a change, in order."""

    diffs: Sequence[FileDiff]
    fold_state: DiffFoldState
    comments: _CommentsByLine
    measure: Callable[[Row], int]
    hidden_space: HideableWhitespaceChanges
    notes: Mapping[int, Sequence[NoteRow]]

    def note_segment(self, row: NoteRow | CommentRow, new_start: int, hunk: int | None = None) -> SingleRowSegment:
        """Return the segment of a note or comment, with its wrapped height."""
        segment = SingleRowSegment(row, new_start, hunk)
        segment.set_row_heights(self.measure)
        return segment

    def segments(self) -> Iterator[RowSegment]:
        """Yield the segments of all files."""
        for number in range(len(self.diffs)):
            if number:
                yield SingleRowSegment(BlankRowBetweenFiles(number - 1), sys.maxsize)
            yield from self._file_segments(number)

    def _file_segments(self, number: int) -> Iterator[RowSegment]:
        change = self.diffs[number].change
        yield SingleRowSegment(FileRow(number), -1)
        if number in self.fold_state.collapsed:
            return
        for note in (*notes_below_file_heading(number, self.diffs[number]), *self.notes.get(number, ())):
            yield self.note_segment(note, -1)
        old = new = 0
        has_hidden_space = False
        for index, hunk in enumerate(change.hunks):
            parts: Sequence[Hunk | HunkPartRanges] = self.hidden_space.parts.get((number, index)) or (hunk,)
            for part in parts:
                # Hidden changes of a hunk are shown as context, in one stretch with the unchanged lines beside them.
                gap, first = (index, not index) if part is parts[0] else (-1 - new, False)
                has_hidden_space = has_hidden_space or part.new_start > hunk.new_start
                stretch = _UnchangedStretch(number, gap, old, new, part.new_start - new, has_hidden_space)
                yield from self._stretch_segments(stretch, first=first, last=False)
                yield from self._hunk_segments(number, index, part, above=int(part is not parts[0]))
                old, new = part.old_start + part.old_count, part.new_start + part.new_count
                has_hidden_space = new < hunk.new_start + hunk.new_count
        if not change.binary:
            gap, count_below = len(change.hunks), len(self.diffs[number].new) - new
            stretch = _UnchangedStretch(number, gap, old, new, count_below, has_hidden_space)
            yield from self._stretch_segments(stretch, first=not gap, last=True)

    def _stretch_segments(self, stretch: _UnchangedStretch, *, first: bool, last: bool) -> Iterator[RowSegment]:
        """Yield the segments of a stretch before a hunk or after the last hunk, folded if it is long."""
        file, gap, old, new, count, spaces = stretch
        head = 0 if first else CONTEXT_LINES
        tail = 0 if last else CONTEXT_LINES
        hidden = count - head - tail
        is_open = ((file, gap) in self.fold_state.opened) != self.fold_state.whole
        is_unchanged_file = first and last and hidden > 0
        if is_open or (hidden < MIN_FOLD_LINES and not is_unchanged_file):
            yield from self._context_segments(file, old, new, count, gap)
            return
        yield from self._context_segments(file, old, new, head, gap)
        yield SingleRowSegment(FoldRow(file, gap, new + head, hidden, spaces), new + head)
        yield from self._context_segments(file, old + count - tail, new + count - tail, tail, gap)

    def _context_segments(self, file: int, old: int, new: int, count: int, gap: int) -> Iterator[RowSegment]:
        start = new
        for line in self.comments.lines(file, "new", range(new, new + count)):
            yield ContextSegment(file, old + start - new, start, line + 1 - start, gap)
            for comment in self.comments.below[SourceLinePosition(file, "new", line)]:
                yield self.note_segment(comment, line + 1)
            start = line + 1
        if start < new + count:
            yield ContextSegment(file, old + start - new, start, new + count - start, gap)

    def _hunk_segments(self, file: int, index: int, hunk: Hunk | HunkPartRanges, above: int) -> Iterator[RowSegment]:
        """Yield the segments of a hunk or of its part; `above` is the number of parts above it."""
        if not hunk.old_count and not hunk.new_count:
            return
        if self.hidden_space.parts.get((file, index)) == ():
            row_of_hunk = WhitespaceHunkRow(file, index, self.hidden_space.lines[file, index])
            yield SingleRowSegment(row_of_hunk, hunk.new_start, index)
            return
        if not above and self.comments.above:
            for comment in self.comments.above.get(SourceLinePosition(file, *changed_line_at(hunk, 0)), ()):
                yield self.note_segment(comment, hunk.new_start, index)
        if self.fold_state.split:
            whole: RowSegment = SplitSegment(file, index, hunk, self._aligned_lines(file, hunk), above=above)
        else:
            whole = UnifiedSegment(file, index, hunk, above=above)
        start = 0
        for row, line in self._commented_rows(file, hunk, whole):
            if row >= start:
                yield whole.slice_rows(start, row + 1 - start)
                start = row + 1
            for comment in self.comments.below[line]:
                yield self.note_segment(comment, hunk.new_start, index)
        if not start:
            yield whole
        elif start < whole.rows:
            yield whole.slice_rows(start, whole.rows - start)

    def _aligned_lines(self, file: int, hunk: Hunk | HunkPartRanges) -> list[Pair] | None:
        if is_paired_by_position(hunk.old_count, hunk.new_count):
            return None
        return pair_lines(*removed_and_added_lines(self.diffs[file], hunk))

    def _commented_rows(
        self, file: int, hunk: Hunk | HunkPartRanges, whole: RowSegment
    ) -> Iterator[tuple[int, SourceLinePosition]]:
        """Yield the rows of a hunk that have comments below them, from the top, with the commented lines."""

        def rows_of_side(side: Side) -> Iterator[tuple[int, SourceLinePosition]]:
            for line in self.comments.lines(file, side, hunk_line_numbers(hunk, side)):
                if (row := whole.find_row(side, line)) is not None:
                    yield row, SourceLinePosition(file, side, line)

        return merge(rows_of_side("old"), rows_of_side("new"), key=itemgetter(0))


def arrange_diffs(
    diffs: Sequence[FileDiff],
    fold_state: DiffFoldState,
    *,
    notes_above: Sequence[NoteRow] = (),
    comments: Sequence[DiffComment] = (),
    hidden_space: HideableWhitespaceChanges | None = None,
    notes_by_file: Mapping[int, Sequence[NoteRow]] | None = None,
    count_terminal_lines: Callable[[Row], int],
    fits: Callable[[RowSegment], bool] | None = None,
) -> DiffLayout:
    """Return the layout of a change; it has no rows before `DiffLayout.lay_out_more` is called.

    Args:
        notes_above: Notes above the first file.
        notes_by_file: Notes under the headings of files, by the index of the file.
        count_terminal_lines: Returns the number of terminal lines of a row. It is called for notes and comments, and
            for lines of source only if these wrap.
        fits: Returns whether every line of a source segment fits on one terminal line; None if lines do not wrap.
            Only segments that do not fit are measured row by row.
    """
    builder = _SegmentBuilder(
        diffs,
        fold_state,
        _CommentsByLine(comments),
        count_terminal_lines,
        hidden_space or HideableWhitespaceChanges(),
        notes_by_file or {},
    )
    head = [builder.note_segment(note, -1) for note in notes_above]
    if notes_above and diffs:
        head.append(SingleRowSegment(BlankRowBetweenFiles(-1), -1))
    change = builder.segments()
    return DiffLayout(
        chain(head, change if fits is None else _measure_wrapped_segments(change, count_terminal_lines, fits))
    )


def _measure_wrapped_segments(
    segments: Iterator[RowSegment], measure: Callable[[Row], int], fits: Callable[[RowSegment], bool]
) -> Iterator[RowSegment]:
    """Yield the segments with their heights for wrapped lines; long segments are split."""
    for segment in segments:
        for start in range(0, segment.rows, _MAX_MEASURED_ROWS):
            piece = segment
            if segment.rows > _MAX_MEASURED_ROWS:
                piece = segment.slice_rows(start, min(_MAX_MEASURED_ROWS, segment.rows - start))
            if not fits(piece):
                piece.set_row_heights(measure)
            yield piece
