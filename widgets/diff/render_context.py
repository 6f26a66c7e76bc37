"""The render context of a diff: everything that affects how a row looks, except the row."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from rich.style import Style

from app.proposals.values.models import FileDiff, Hunk, HunkState
from app.review.hunk_lines import Side, diff_side_lines
from widgets.diff.diff_rows import CommentRow, LineRow, NoteRow, Row, RowSegment, SourceLinePosition
from widgets.diff.display_cells import (
    DisplayText,
    Spans,
    choose_shown_spans_of_changed_line,
    choose_shown_spans_of_context_line,
    display_text,
    find_line_breaks,
    make_display_text_with_gaps,
    widest_line_width,
    wrap_into_safe_lines,
    wrapped_row_count,
)
from widgets.diff.line_marks import DiffLineMarks
from widgets.diff.syntax_tokens import LazySyntaxTokens

StyleOf = Callable[[tuple[str, ...]], Style]
"""Returns the Rich style of component classes laid over each other."""


_MAX_LONG_LINES = 512
"""Maximum number of cached lines that do not fit on one terminal line."""


class WrappedSourceLine(NamedTuple):
    """A line of source as it is drawn, with its line breaks."""

    text: DisplayText
    starts: Sequence[int]
    """Index of the first drawn character of each terminal line of the wrapped line."""
    hang: int
    """Blank cells at the left of all terminal lines but the first."""
    changed: Spans
    """The characters that its counterpart lacks; only for a line that does not fit on one terminal line."""


class VisibleLinePart(NamedTuple):
    """The visible part of a line on one terminal line, as indices of drawn characters."""

    first: int
    last: int
    blank: int
    """Blank cells before the part, because a wide character is cut or the continuation of a line is indented."""
    before: bool
    """Whether the line continues to the left; the first cell shows it."""
    after: bool
    """Whether the line continues to the right."""


class RenderContext(Struct):
    """Everything that affects how a row looks, except the row."""

    diffs: Sequence[FileDiff] = ()
    marks: DiffLineMarks = field(default_factory=lambda: DiffLineMarks(()))
    syntax: LazySyntaxTokens = field(default_factory=lambda: LazySyntaxTokens(()))
    width: int = 0
    """Cells of the whole row."""
    split: bool = False
    wrap: bool = False
    scroll: int = 0
    """Cells scrolled to the right."""
    digits: int = 3
    """Cells of a line number."""
    left_out: frozenset[str] = frozenset()
    """Ids of hunks that an approval would not write."""
    undecided: bool = True
    """Whether the proposal is undecided."""
    undone: bool = False
    """Whether the applied proposal was undone."""
    collapsed: frozenset[int] = frozenset()
    opened: frozenset[SourceLinePosition] = frozenset()
    """Long lines that are shown in full."""
    query: str = ""
    """The search query; lower-case text matches both cases."""
    current_match: SourceLinePosition | None = None
    """The line of the current match."""
    _cached_look: tuple[object, ...] = ()
    _long_lines: dict[SourceLinePosition, WrappedSourceLine] = field(default_factory=dict)

    @property
    def gutter(self) -> int:
        """Return the cells before the code; in the side-by-side view, before the left code."""
        return self.digits + 5 if self.split else 2 * self.digits + 6

    @property
    def code_width(self) -> int:
        """Return the cells for code, on one side."""
        if not self.split:
            return max(1, self.width - self.gutter)
        return max(1, (self.width - 2 * self.gutter + 1) // 2)

    @property
    def note_width(self) -> int:
        """Return the cells for a comment or a note."""
        return max(8, self.width - 8)

    def would_be_written(self, hunk: Hunk) -> bool:
        """Return whether an approval would write a hunk, or the proposal is decided; then its unseen lines count."""
        return not self.undecided or (hunk.state is HunkState.PENDING and hunk.id not in self.left_out)

    def is_left_out_row(self, row: LineRow) -> bool:
        """Return whether an approval would not write this row, because its hunk is excluded or denied."""
        if row.hunk is None:
            return False
        hunk = self.diffs[row.file].change.hunks[row.hunk]
        left_out = hunk.state is HunkState.PENDING and self.undecided and hunk.id in self.left_out
        return left_out or hunk.state is HunkState.DENIED

    def line_text(self, file: int, side: Side, number: int) -> str:
        """Return a line of source."""
        return diff_side_lines(self.diffs[file], side)[number]

    def fits_on_one_row(self, line: str) -> bool:
        """Return whether a fast check shows that a line fits on one terminal line."""
        return len(line) <= self.code_width and line.isascii() and "\t" not in line

    def changed_spans(self, row: LineRow, side: Side, number: int) -> Spans:
        """Return the characters of a line that its counterpart lacks; empty if the whole line is new."""
        return () if row.hunk is None else self.marks.changed_words(row.file, row.hunk, side, number)[0]

    def visible_spans(self, row: LineRow, side: Side, number: int) -> Spans | None:
        """Return the spans of a long line that are shown; None for the whole line."""
        line = self.line_text(row.file, side, number)
        if self.fits_on_one_row(line) or (row.file, side, number) in self.opened:
            return None
        if row.hunk is None:
            return choose_shown_spans_of_context_line(line, self.wrap)
        return choose_shown_spans_of_changed_line(
            line, self.changed_spans(row, side, number), self.code_width, self.wrap
        )

    def drawn_line(self, row: LineRow, side: Side, number: int) -> WrappedSourceLine:
        """Return a line as it is drawn; cache long lines."""
        line = self.line_text(row.file, side, number)
        if self.fits_on_one_row(line):
            return WrappedSourceLine(display_text(line), (0,), 0, ())
        look = (self.code_width, self.wrap, self.opened)
        if look != self._cached_look or len(self._long_lines) > _MAX_LONG_LINES:
            self._cached_look, self._long_lines = look, {}
        key = SourceLinePosition(row.file, side, number)
        if key not in self._long_lines:
            spans = self.visible_spans(row, side, number)
            text = display_text(line) if spans is None else make_display_text_with_gaps(line, spans)
            starts, hang = find_line_breaks(line, self.code_width, spans) if self.wrap else ((0,), 0)
            self._long_lines[key] = WrappedSourceLine(text, starts, hang, self.changed_spans(row, side, number))
        return self._long_lines[key]

    def height_of(self, row: Row) -> int:
        """Return the number of terminal lines of a row if source lines wrap."""
        match row:
            case LineRow():
                drawn_lines: list[tuple[Side, int]] = (
                    [("new", row.new)] if row.new is not None and not self.split else row.lines
                )
                return max(1, *(self._wrapped_height(row, side, number) for side, number in drawn_lines))
            case NoteRow(level="folded"):
                return 1
            case NoteRow() | CommentRow():
                return len(wrap_into_safe_lines(row.text, self.note_width))
            case _:
                return 1

    def _wrapped_height(self, row: LineRow, side: Side, number: int) -> int:
        return wrapped_row_count(
            self.line_text(row.file, side, number), self.code_width, self.visible_spans(row, side, number)
        )

    def all_fit_on_one_row(self, segment: RowSegment) -> bool:
        """Return whether every line of a source segment fits on one terminal line."""
        return widest_line_width(self.diffs, (segment,)) <= self.code_width

    def visible_part_of(self, drawn: WrappedSourceLine, part: int) -> VisibleLinePart:
        """Return the part of a line that is visible on one of its terminal lines."""
        text, starts = drawn.text, drawn.starts
        if self.wrap:
            if part >= len(starts):
                return VisibleLinePart(len(text.text), len(text.text), 0, False, False)
            last = starts[part + 1] if part + 1 < len(starts) else len(text.text)
            return VisibleLinePart(starts[part], last, drawn.hang if part else 0, False, False)
        begin, end = self.scroll, self.scroll + self.code_width
        before, after = begin > 0 and text.width > 0, text.width > end
        return VisibleLinePart(*text.slice_cells(begin + before, max(begin + before, end - after)), before, after)
