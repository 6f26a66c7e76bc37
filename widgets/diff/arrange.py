"""From file diffs to a layout: which stretches are shown, folded or opened, and where comments stand."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from app.proposals.models import FileDiff, Hunk
from widgets.diff.notes import file_notes
from widgets.diff.pairing import Pair, in_order, pair_lines
from widgets.diff.rows import (
    BlankRow,
    CommentRow,
    Context,
    FileRow,
    FoldRow,
    Layout,
    LineRow,
    NoteRow,
    Row,
    Segment,
    Side,
    Single,
    Split,
    Unified,
)

CONTEXT_LINES = 3
"""Unchanged lines shown at each side of a hunk."""

SMALLEST_FOLD = 3
"""Shorter unchanged stretches are shown."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A remark of the user on a line of the shown diff."""

    file: int
    side: Side
    line: int
    """From 0."""
    text: str


@dataclass(frozen=True, slots=True)
class Shape:
    """How the user wants to see a diff."""

    split: bool = False
    whole: bool = False
    """All unchanged stretches are open."""
    opened: frozenset[tuple[int, int]] = frozenset()
    """Folds whose state differs from `whole`: (file, gap)."""
    collapsed: frozenset[int] = frozenset()
    """Files of which only the head is shown."""


@dataclass(slots=True)
class _Builder:
    diffs: Sequence[FileDiff]
    shape: Shape
    comments: dict[tuple[int, Side, int], list[tuple[int, str]]]
    segments: list[Segment] = field(default_factory=list)

    def file(self, number: int) -> None:
        change = self.diffs[number].change
        self.segments.append(Single(FileRow(number)))
        if number in self.shape.collapsed:
            return
        self.segments += (Single(note) for note in file_notes(number, change))
        old = new = 0
        last = len(change.hunks)
        for index, hunk in enumerate(change.hunks):
            self._unchanged(number, index, old, new, hunk.new_start - new, first=index == 0, last=False)
            self._hunk(number, index, hunk)
            old, new = hunk.old_start + hunk.old_count, hunk.new_start + hunk.new_count
        if not change.binary:
            self._unchanged(number, last, old, new, len(self.diffs[number].new) - new, first=not last, last=True)

    def _unchanged(self, file: int, gap: int, old: int, new: int, count: int, *, first: bool, last: bool) -> None:
        """The stretch before a hunk, or after the last."""
        head = 0 if first else CONTEXT_LINES
        tail = 0 if last else CONTEXT_LINES
        hidden = count - head - tail
        opened = ((file, gap) in self.shape.opened) != self.shape.whole
        untouched = first and last and hidden > 0
        if opened or (hidden < SMALLEST_FOLD and not untouched):
            self._context(file, old, new, count, gap)
            return
        self._context(file, old, new, head, gap)
        self.segments.append(Single(FoldRow(file, gap, new + head, hidden)))
        self._context(file, old + count - tail, new + count - tail, tail, gap)

    def _context(self, file: int, old: int, new: int, count: int, gap: int) -> None:
        if count <= 0:
            return
        if not self.comments:
            self.segments.append(Context(file, old, new, count, gap))
            return
        start = 0
        for at in self._commented(file, "new", new, count):
            self.segments.append(Context(file, old + start, new + start, at + 1 - start, gap))
            self._remarks(file, [("new", new + at)])
            start = at + 1
        if start < count:
            self.segments.append(Context(file, old + start, new + start, count - start, gap))

    def _hunk(self, file: int, index: int, hunk: Hunk) -> None:
        if not self.comments and (hunk.old_count or hunk.new_count):
            plain = not self.shape.split
            piece = Unified(file, index, hunk) if plain else Split(file, index, hunk, self._pairs(file, hunk))
            self.segments.append(piece)
            return
        pairs = self._pairs(file, hunk) if self.shape.split else None
        whole = self._piece(file, index, hunk, pairs, 0, None)
        stops = self._stops(file, hunk, whole) if self.comments else []
        if not stops:
            if whole.rows:
                self.segments.append(whole)
            return
        start = 0
        for row, lines in stops:
            self.segments.append(self._piece(file, index, hunk, pairs, start, row + 1 - start))
            self._remarks(file, lines, index)
            start = row + 1
        if start < whole.rows:
            self.segments.append(self._piece(file, index, hunk, pairs, start, whole.rows - start))

    def _pairs(self, file: int, hunk: Hunk) -> list[Pair] | None:
        if in_order(hunk.old_count, hunk.new_count):
            return None
        diff = self.diffs[file]
        return pair_lines(
            diff.old[hunk.old_start : hunk.old_start + hunk.old_count],
            diff.new[hunk.new_start : hunk.new_start + hunk.new_count],
        )

    def _piece(
        self, file: int, index: int, hunk: Hunk, pairs: list[Pair] | None, start: int, rows: int | None
    ) -> Segment:
        if self.shape.split:
            return Split(file, index, hunk, pairs, start, rows)
        return Unified(file, index, hunk, start, rows)

    def _stops(self, file: int, hunk: Hunk, whole: Segment) -> list[tuple[int, list[tuple[Side, int]]]]:
        """Rows of the hunk under which comments stand, with the lines that they are on."""
        old = self._commented(file, "old", hunk.old_start, hunk.old_count)
        new = self._commented(file, "new", hunk.new_start, hunk.new_count)
        wanted: set[tuple[Side, int]] = {("old", hunk.old_start + line) for line in old}
        wanted |= {("new", hunk.new_start + line) for line in new}
        stops: list[tuple[int, list[tuple[Side, int]]]] = []
        for number in range(whole.rows) if wanted else ():
            row = whole.row(number)
            assert isinstance(row, LineRow)
            lines: list[tuple[Side, int]] = []
            if row.old is not None and ("old", row.old) in wanted:
                lines.append(("old", row.old))
            if row.new is not None and ("new", row.new) in wanted:
                lines.append(("new", row.new))
            if lines:
                stops.append((number, lines))
        return stops

    def _commented(self, file: int, side: Side, start: int, count: int) -> list[int]:
        """Lines with comments, counted from `start`."""
        return sorted(
            line - start
            for at, on, line in self.comments
            if at == file and on == side and start <= line < start + count
        )

    def _remarks(self, file: int, lines: Iterable[tuple[Side, int]], hunk: int | None = None) -> None:
        for side, line in lines:
            for number, text in self.comments[file, side, line]:
                self.segments.append(Single(CommentRow(file, number, text), hunk))


def arrange(
    diffs: Sequence[FileDiff],
    shape: Shape,
    *,
    top: Sequence[NoteRow] = (),
    comments: Sequence[Comment] = (),
    measure: Callable[[Row], int],
    fits: Callable[[Segment], bool] | None = None,
) -> Layout:
    """Lay out a change.

    `top` stands above the first file. `measure` tells how many terminal lines a row takes. It is asked about notes
    and comments, which are few, and about lines of source only if these wrap. They do if there is `fits`, which tells
    whether a stretch of source has no line that is too long, so that only the others are measured line by line.
    """
    placed: dict[tuple[int, Side, int], list[tuple[int, str]]] = defaultdict(list)
    for number, comment in enumerate(comments):
        placed[comment.file, comment.side, comment.line].append((number, comment.text))
    builder = _Builder(diffs, shape, dict(placed))
    builder.segments += (Single(note) for note in top)
    if top and diffs:
        builder.segments.append(Single(BlankRow(-1)))
    for number in range(len(diffs)):
        if number:
            builder.segments.append(Single(BlankRow(number - 1)))
        builder.file(number)
    for segment in builder.segments:
        if isinstance(segment, Single):
            if isinstance(segment.content, NoteRow | CommentRow):
                segment.wrap(measure)
        elif fits is not None and not fits(segment):
            segment.wrap(measure)
    return Layout(builder.segments)
