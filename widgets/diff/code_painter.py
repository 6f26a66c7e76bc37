"""Paints lines of source as strips: hunk state, line numbers, sign, and code with its marks."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from app.proposals.values.models import HunkState
from app.review.hunk_lines import Side
from widgets.common.text_view import find_smartcase_matches
from widgets.diff.diff_rows import LineRow, SourceLinePosition
from widgets.diff.display_cells import DisplayText
from widgets.diff.line_marks import suspicious_spans
from widgets.diff.render_context import RenderContext, StyleOf, WrappedSourceLine
from widgets.diff.syntax_tokens import (
    FlaggedStretch,
    StyledRun,
    StyledStretch,
    clip_stretches,
    overlay_stretches,
    split_into_style_runs,
)

RIGHT_SIDE_OFFSET = 1 << 20
"""Added to the selection offsets of the right half, to distinguish them from the left half."""

BEFORE_EDGE, BEYOND_EDGE = "←", "→"
"""Shown in the first or last cell if the line continues there."""

CURSOR_GLYPH = "›"
"""Shown before the row of the cursor."""

UNCOVERED_SIGN = "!"
"""Shown before the sign of a line that no test runs."""

_CONTINUATION_SIGN = " ↳ "
"""Shown instead of the sign on the continuation of a wrapped line."""

_MATCH, _CURRENT_MATCH, _UNSAFE, _TRAILING, _SELECTED, _LEFT_OUT = 1, 2, 4, 8, 16, 32

_FLAG_CLASSES = (
    (_LEFT_OUT, "diff--edge"),
    (_TRAILING, "diff--trailing"),
    (_UNSAFE, "diff--unsafe"),
    (_MATCH, "diff--match"),
    (_CURRENT_MATCH, "diff--match-current"),
    (_SELECTED, "screen--selection"),
)
"""Component classes of the marks over all other styles, from bottom to top."""


class _LineStyle(NamedTuple):
    """Style of a line of source."""

    kind: str
    """`added`, `removed`, `moved`, or empty for context."""
    sign: str
    """Three cells: a mark (no test runs the line, only whitespace differs, or moved), `+` or `-`, and a space."""
    changed_words: Sequence[tuple[int, int]]
    """Ranges of changed characters in the source."""
    dim: bool
    """Whether an approval would not write the line."""


class _CodePosition(NamedTuple):
    """The place of a piece of code in the diff and on the screen."""

    row: LineRow
    side: Side
    number: int
    """Line of that side, from 0."""
    part: int
    """Index of the terminal line within a wrapped row."""
    y: int
    """Terminal line in the whole diff."""
    cursor: tuple[str, ...]
    selection: Selection | None
    offsets: bool
    """Whether each segment carries its text position for the mouse; off while drawing, because it is slow."""


class SourceRowPainter:
    """Paints the rows of a diff that show source, with hunk state, line numbers, sign and marks."""

    def __init__(self, context: RenderContext, style: StyleOf) -> None:
        self.context = context
        self.style = style

    def paint(
        self, row: LineRow, part: int, y: int, cursor: tuple[str, ...], selection: Selection | None, offsets: bool
    ) -> Strip:
        """Return one terminal line of a row as a strip; with `offsets`, segments carry their text positions."""
        filler = self.style(("diff--plain", "diff--filler", *cursor))

        def side_segments(side: Side, *numbers: int | None) -> list[Segment]:
            number = row.old if side == "old" else row.new
            if number is None:
                return [Segment("╱" * (self.context.digits + 3 + self.context.code_width), filler)]
            return self._side_segments(_CodePosition(row, side, number, part, y, cursor, selection, offsets), numbers)

        state = self.hunk_state_cells(row, part, cursor)
        if offsets:
            state = _position_before_code(state, 0, y)
        cells = self.context.gutter + self.context.code_width
        if not self.context.split:
            segments = [state, *side_segments("old" if row.new is None else "new", row.old, row.new)]
        else:
            middle = Segment("│", filler)
            segments = [state, *side_segments("old", row.old), middle, *side_segments("new", row.new)]
            cells = 2 * cells - 1
        plain = self.style(("diff--plain", *cursor))
        return Strip(segments, cells).adjust_cell_length(self.context.width, plain)

    def hunk_state_cells(self, row: LineRow, part: int, cursor: tuple[str, ...]) -> Segment:
        """Return the two cells that show the state of the hunk."""
        cursor_glyph = CURSOR_GLYPH if cursor and part == 0 else " "
        if row.hunk is None:
            return Segment(f" {cursor_glyph}", self.style(("diff--plain", "diff--state", *cursor)))
        hunk = self.context.diffs[row.file].change.hunks[row.hunk]
        first = row.position == 0 and part == 0
        match hunk.state:
            case HunkState.APPLIED if self.context.undone:
                glyph, name = "↶" if first else "│", "diff--gutter"
            case HunkState.APPLIED:
                glyph, name = "✓" if first else "│", "diff--state-done"
            case HunkState.DENIED:
                glyph, name = "✗" if first else "┊", "diff--state-denied"
            case _ if not self.context.undecided:
                glyph, name = "│", "diff--gutter"
            case _ if hunk.id in self.context.left_out:
                glyph, name = "○" if first else "┊", "diff--state-out"
            case _:
                glyph, name = "●" if first else "┃", "diff--state"
        return Segment(glyph + cursor_glyph, self.style(("diff--plain", name, *cursor)))

    def _side_segments(self, position: _CodePosition, numbers: Sequence[int | None]) -> list[Segment]:
        """Return line numbers, sign and code of one side; in the unified view, the numbers of both sides."""
        row, side, number, part = position[:4]
        style = self._line_style(row, side, number)
        has_tint = style.kind and not style.dim
        gutter = ["diff--plain", f"diff--gutter-{style.kind}" if has_tint else "diff--gutter"]
        if style.sign.startswith(UNCOVERED_SIGN):
            gutter.append("diff--uncovered")
        texts = [str(value + 1) if value is not None and not part else "" for value in numbers]
        label = " ".join(text.rjust(self.context.digits) for text in texts)
        line = self.context.drawn_line(row, side, number)
        sign = style.sign if not part else _CONTINUATION_SIGN if part < len(line.starts) else "   "
        code = self._code_segments(position, line, style)
        numbers_and_sign = Segment(f"{label}{sign}", self.style((*gutter, *position.cursor)))
        if position.offsets:
            column = RIGHT_SIDE_OFFSET if self.context.split and side == "new" else 0
            numbers_and_sign = _position_before_code(numbers_and_sign, column, position.y)
        return [numbers_and_sign, *code]

    def _line_style(self, row: LineRow, side: Side, number: int) -> _LineStyle:
        if row.hunk is None:
            return _LineStyle("", "   ", (), False)
        dim = self.context.is_left_out_row(row)
        changed_words, only_spaces_differ = self.context.marks.changed_words(row.file, row.hunk, side, number)
        sign, kind = ("-", "removed") if side == "old" else ("+", "added")
        line = SourceLinePosition(row.file, side, number)
        if line in self.context.marks.uncovered:
            return _LineStyle(kind, f"{UNCOVERED_SIGN}{sign} ", changed_words, dim)
        if only_spaces_differ:
            return _LineStyle(kind, f"␣{sign} ", changed_words, dim)
        if line in self.context.marks.moved:
            changed_by_move = self.context.marks.words_changed_by_move(line)
            return _LineStyle("moved", f"»{sign} " if side == "old" else f"«{sign} ", changed_by_move, dim)
        return _LineStyle(kind, f" {sign} ", changed_words, dim)

    def _code_segments(self, position: _CodePosition, line: WrappedSourceLine, style: _LineStyle) -> list[Segment]:
        """Return the visible cells of a line, with tokens, changed words, matches and the selection."""
        width = self.context.code_width
        shown = line.text
        first, last, blank, before, after = self.context.visible_part_of(line, position.part)
        base = ["diff--plain"]
        if style.dim:
            base.append("diff--left-out")
        elif style.kind:
            base.append(f"diff--{style.kind}")
        stretches = () if style.dim else self._visible_stretches(shown, position, style, first, last)
        flags = self._visible_flags(shown, position, style, first, last)
        side_offset = RIGHT_SIDE_OFFSET if self.context.split and position.side == "new" else 0
        column = first + side_offset
        segments = self._styled_segments(
            shown.text[first:last], split_into_style_runs(last - first, stretches, flags), base, position, column
        )
        plain = self.style((*base, *position.cursor))
        if blank:
            gap = Segment(" " * blank, plain)
            segments.insert(0, _position_before_code(gap, side_offset, position.y) if position.offsets else gap)
        edge = self.style((*base, "diff--edge", *position.cursor)) if before or after else plain
        if before:
            segments.insert(0, Segment(BEFORE_EDGE, edge))
        padding = width - before - blank - (shown.first_column_of(last) - shown.first_column_of(first))
        if last == len(shown.text) and self._lacks_final_newline(position):
            suffix = set_cell_size(" ∅ no newline at end", max(0, min(padding, 20)))
            segments.append(Segment(suffix, self.style((*base, "diff--note", *position.cursor))))
            padding -= len(suffix)
        if padding > after:
            segments.append(
                Segment(" " * (padding - after), _with_text_position(plain, column + last - first, position))
            )
        if after:
            segments.append(Segment(BEYOND_EDGE, _with_text_position(edge, column + last - first, position)))
        return segments

    def _visible_stretches(
        self, shown: DisplayText, position: _CodePosition, style: _LineStyle, first: int, last: int
    ) -> Sequence[StyledStretch]:
        """Return the visible tokens and changed words; positions count from the first visible character."""
        row, side, number = position[:3]
        if (
            side == "old"
            and row.hunk is None
            and row.new is not None
            and self.context.line_text(row.file, "old", number) == self.context.line_text(row.file, "new", row.new)
        ):
            # With hidden white space changes, both texts of a context row may differ.
            side, number = "new", row.new
        tokens: Sequence[StyledStretch] = self.context.syntax.line_tokens(row.file, side, number)
        changed_words = style.changed_words
        if shown.width_runs:
            tokens = [(shown.drawn_index(begin), shown.drawn_index(end), name) for begin, end, name in tokens]
            changed_words = [(shown.drawn_index(begin), shown.drawn_index(end)) for begin, end in changed_words]
        if changed_words:
            tokens = overlay_stretches(
                tokens, changed_words, "diff--removed-word" if position.side == "old" else "diff--added-word"
            )
        return [(begin - first, end - first, name) for begin, end, name in clip_stretches(tokens, first, last)]

    def _visible_flags(
        self, shown: DisplayText, position: _CodePosition, style: _LineStyle, first: int, last: int
    ) -> list[FlaggedStretch]:
        """Return the visible marks; positions count from the first visible character."""
        flags: list[FlaggedStretch] = []

        def mark(begin: int, end: int, flag: int) -> None:
            begin, end = max(begin, first), min(end, last)
            if begin < end:
                flags.append((begin - first, end - first, flag))

        for begin, end in shown.gaps:
            mark(begin, end, _LEFT_OUT)
        for begin, end in suspicious_spans(
            self.context.line_text(position.row.file, position.side, position.number), shown, first, last
        ):
            mark(begin, end, _UNSAFE)
        if style.kind and position.side == "new" and last == len(shown.text):
            mark(len(shown.text.rstrip(" ")), len(shown.text), _TRAILING)
        if query := self.context.query:
            line = (position.row.file, position.side, position.number)
            current = _CURRENT_MATCH if self.context.current_match == line else 0
            search_start = max(0, first - len(query))
            for begin in find_smartcase_matches(shown.text[search_start : last + len(query)], query):
                mark(search_start + begin, search_start + begin + len(query), _MATCH | current)
        if position.selection is not None:
            span = selected_range_on_line(position.selection, position.y, self.context.split, position.side)
            if span is not None:
                mark(span[0], len(shown.text) if span[1] < 0 else span[1], _SELECTED)
        return flags

    def _styled_segments(
        self, text: str, runs: Iterable[StyledRun], base: list[str], position: _CodePosition, column: int
    ) -> list[Segment]:
        """Return the runs of equal style as Rich segments."""
        segments: list[Segment] = []
        for start, end, name, flags in runs:
            classes = (*base, name, *position.cursor) if name else (*base, *position.cursor)
            if flags:
                classes += tuple(name for bit, name in _FLAG_CLASSES if flags & bit)
            style = self.style(classes)
            if position.offsets:
                style = _with_text_position(style, column + start, position)
            segments.append(Segment(text[start:end], style))
        return segments

    def _lacks_final_newline(self, position: _CodePosition) -> bool:
        diff = self.context.diffs[position.row.file]
        if position.side == "old":
            return not diff.old_final_newline and position.number == len(diff.old) - 1
        return not diff.new_final_newline and position.number == len(diff.new) - 1


def _with_text_position(style: Style, column: int, position: _CodePosition) -> Style:
    """Return a style that carries the text position of a segment for the mouse, if `position.offsets` is set."""
    return style + Style.from_meta({"offset": (column, position.y)}) if position.offsets else style


def _position_before_code(segment: Segment, column: int, y: int) -> Segment:
    """Return the cells before the code, with a text position to the left of the code.

    A selection that begins there takes the line from its start. The position ends at least two characters before
    `column`: Textual adds one to the end of a selection, and an end of -1 would mean the end of the line.
    """
    position_style = Style.from_meta({"offset": (column - 2 - len(segment.text), y)})
    return Segment(segment.text, segment.style + position_style if segment.style else position_style)


def is_in_right_half(selection_column: int) -> bool:
    """Return whether a column of a text selection is in the right half of the side-by-side view."""
    return selection_column >= RIGHT_SIDE_OFFSET // 2


def selected_range_on_line(selection: Selection, y: int, split: bool, side: Side) -> tuple[int, int] | None:
    """Return the selected characters of one side on a terminal line, or None; -1 means the end of the line."""
    span = selection.get_span(y)
    if span is None:
        return None
    start, end = span
    if split:
        right = selection.start is not None and is_in_right_half(selection.start.x)
        if right != (side == "new"):
            return None
        if right:
            start, end = start - RIGHT_SIDE_OFFSET, end if end == -1 else max(0, end - RIGHT_SIDE_OFFSET)
        elif is_in_right_half(end):
            end = -1
    return max(0, start), end if end == -1 else max(0, end)
