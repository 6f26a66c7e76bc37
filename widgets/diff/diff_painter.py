"""Paints rows as strips: headings of files, folds, notes and comments; `SourceRowPainter` paints source."""

from collections.abc import Iterable
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.cache import FIFOCache
from textual.selection import Selection
from textual.strip import Strip

from widgets.diff.code_painter import CURSOR_GLYPH, SourceRowPainter
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import (
    BlankRowBetweenFiles,
    CommentRow,
    FileRow,
    FoldRow,
    LineRow,
    NoteRow,
    Row,
    WhitespaceHunkRow,
)
from widgets.diff.display_cells import display_text, wrap_into_safe_lines
from widgets.diff.file_facts import file_heading_facts, file_operation_sign, format_file_name
from widgets.diff.render_context import RenderContext, StyleOf
from widgets.diff.white_space import describe_space_lines

_NOTE_STYLES = {
    "note": ("·", "diff--note"),
    "warning": ("!", "diff--warning"),
    "error": ("✗", "diff--problem"),
    "plain": (" ", "diff--plain"),
    "done": ("☑", "diff--done"),
    "open": ("☐", "diff--note"),
    "folded": ("▸", "diff--plain"),
    "unfolded": ("▾", "diff--plain"),
}
"""Sign and component class for each level of note."""


_MAX_SEARCHED_LINES = 400
"""How many lines above the end of a fold are searched for a definition."""

_MAX_DEFINITION_CHARACTERS = 400

StyledPiece = tuple[str, tuple[str, ...]]
"""Safe text and its component classes."""


class DiffPainter:
    """Paints the rows of a diff as strips: source, headings, folds, notes and comments."""

    def __init__(self, context: RenderContext, style: StyleOf) -> None:
        self.context = context
        self.style = style
        self._code_painter = SourceRowPainter(context, style)

    def paint(
        self,
        row: Row,
        part: int,
        y: int,
        *,
        cursor: str = "",
        selection: Selection | None = None,
        offsets: bool = False,
    ) -> Strip:
        """Return one terminal line as a strip.

        Args:
            part: Index of the terminal line within a wrapped row.
            y: Terminal line in the whole diff, for text selection.
            cursor: Component class of the cursor; empty if the cursor is on another row.
            offsets: Whether segments of code carry their text positions for the mouse.
        """
        cursor_classes = (cursor,) if cursor else ()
        match row:
            case LineRow():
                return self._code_painter.paint(row, part, y, cursor_classes, selection, offsets)
            case WhitespaceHunkRow():
                return self._space_row(row, cursor_classes)
            case FileRow():
                strip = self._file_row(row, cursor_classes)
            case FoldRow():
                lines = f"{row.lines:,} unchanged line{'s' * (row.lines != 1)}"
                space_hint = " (but for white space)" if row.spaces else ""
                text = f"{' ' * (self.context.gutter - 2)}⋯ {lines}{space_hint}"
                classes = ("diff--plain", "diff--fold", *cursor_classes)
                strip = self._full_row([(text, classes), (self._enclosing_definition(row), classes)], classes)
            case NoteRow():
                strip = self._note_row(row, part, cursor_classes)
            case CommentRow():
                strip = self._comment_row(row, part, cursor_classes)
            case BlankRowBetweenFiles():
                strip = self._full_row([], ("diff--plain", *cursor_classes))
        if not cursor or part:
            return strip
        # Without colours, only this glyph shows the cursor.
        cell = 0 if isinstance(row, NoteRow) and row.file < 0 else 1
        glyph = Segment(CURSOR_GLYPH, self.style(("diff--plain", "diff--state", cursor)))
        return Strip.join([strip.crop(0, cell), Strip([glyph], 1), strip.crop(cell + 1)])

    def _full_row(self, pieces: Iterable[StyledPiece], classes: tuple[str, ...]) -> Strip:
        """Return pieces as a strip, cropped and padded to the width of the row."""
        segments = [Segment(text, self.style(piece_classes)) for text, piece_classes in pieces if text]
        return Strip(segments).adjust_cell_length(self.context.width, self.style(classes))

    def _space_row(self, row: WhitespaceHunkRow, cursor_classes: tuple[str, ...]) -> Strip:
        number = self.context.diffs[row.file].change.hunks[row.hunk].number
        text = f"{' ' * (self.context.gutter - 4)}␣ hunk {number:,}: {describe_space_lines(row.lines)}"
        hint = " · Enter shows them"
        if cell_len(text) + len(hint) + 2 <= self.context.width:
            text += hint
        classes = ("diff--plain", "diff--fold", *cursor_classes)
        state = self._code_painter.hunk_state_cells(LineRow(row.file, None, None, row.hunk, 0), 0, cursor_classes)
        return Strip([state, Segment(text, self.style(classes))]).adjust_cell_length(
            self.context.width, self.style(classes)
        )

    def _enclosing_definition(self, row: FoldRow) -> str:
        """Return the definition that contains the code after a fold, like Git's hunk headers; empty if none."""
        lines = self.context.diffs[row.file].new
        end = row.new_start + row.lines
        if end >= len(lines):
            return ""
        for line in reversed(lines[max(0, end - _MAX_SEARCHED_LINES) : end]):
            # Cheap check first: most lines are indented or empty.
            if line[:1] > " " and (line[0].isalpha() or line[0] in "_$@#") and len(line) < _MAX_DEFINITION_CHARACTERS:
                return f"  {display_text(line).text.rstrip(' {:')}"
        return ""

    def _file_row(self, row: FileRow, cursor_classes: tuple[str, ...]) -> Strip:
        diff = self.context.diffs[row.file]
        change = diff.change
        head_classes, quiet_classes = ("diff--file", *cursor_classes), ("diff--file-quiet", *cursor_classes)
        glyph, sign_class = file_operation_sign(change)
        facts: list[StyledPiece] = [
            (f"  {text}", (name, *cursor_classes)) for text, name in file_heading_facts(diff, self.context)
        ]
        name_cells = max(8, self.context.width - sum(cell_len(text) for text, _ in facts) - 5)
        name = format_file_name(change, name_cells)
        arrow = "▸" if row.file in self.context.collapsed else "▾"
        gap = " " * (name_cells - cell_len(name))
        pieces = [
            (f"{arrow} ", quiet_classes),
            (f"{glyph} ", (sign_class, *cursor_classes)),
            (name, head_classes),
            (gap, quiet_classes),
            *facts,
        ]
        return self._full_row(pieces, head_classes)

    def _note_row(self, row: NoteRow, part: int, cursor_classes: tuple[str, ...]) -> Strip:
        glyph, component_class = _NOTE_STYLES[row.level]
        classes = ("diff--plain", component_class, *cursor_classes)
        lines = wrap_into_safe_lines(row.text, self.context.note_width)
        indent = " " if row.file < 0 else "   "
        text = lines[part] if part < len(lines) else ""
        if row.level in ("folded", "unfolded") and len(lines) == 1:
            glyph = " "
        elif row.level == "folded":
            text = set_cell_size(" ".join(lines[:2]), self.context.note_width - 1).rstrip() + "…"
        return self._full_row([(f"{indent}{' ' if part else glyph} {text}", classes)], classes)

    def _comment_row(self, row: CommentRow, part: int, cursor_classes: tuple[str, ...]) -> Strip:
        indent = min(self.context.gutter, 6) - 2
        lines = wrap_into_safe_lines(row.text, self.context.note_width)
        text = lines[part] if part < len(lines) else ""
        classes = ("diff--plain", f"diff--{row.kind}", *cursor_classes)
        bar_classes = ("diff--plain", f"diff--{row.kind}-bar", *cursor_classes)
        return self._full_row(
            [(" " * indent, ("diff--plain", *cursor_classes)), ("▌ ", bar_classes), (text, classes)], classes
        )


_MAX_CACHED_STRIPS = 256
"""A few screens."""


class ViewportState(NamedTuple):
    """Scroll position, size, cursor and selection of the view while the lines of one frame are drawn."""

    top: int
    """The first terminal line of the view."""
    width: int
    height: int
    row: int
    """The row of the cursor."""
    cursor: str
    """The component class of the cursor; empty if there is none."""
    lit: range
    """Picked rows, which are highlighted like the cursor."""
    selection: Selection | None


class CachingDiffPainter:
    """Renders the terminal lines of a diff view, and caches their strips and styles.

    Args:
        look_up_style: Returns the style of component classes laid over each other.
    """

    def __init__(self, model: DiffModel, look_up_style: StyleOf) -> None:
        self._model = model
        self._look_up_style = look_up_style
        self._painter = DiffPainter(model.render_context, self.style)
        # Entries of an LRUCache form reference cycles, so that cleared strips would stay in memory.
        self._strips: FIFOCache[tuple[int, int, int, str], Strip] = FIFOCache(_MAX_CACHED_STRIPS)
        self._styles: dict[tuple[str, ...], Style] = {}
        self._needs_style_check = False
        """Whether the cached styles may be outdated."""

    def style(self, classes: tuple[str, ...]) -> Style:
        """Return the style of component classes laid over each other."""
        self._check_styles()
        style = self._styles.get(classes)
        if style is None:
            style = self._styles[classes] = self._look_up_style(classes)
        return style

    def recheck_styles(self) -> None:
        """Compare the cached styles with the theme at the next frame.

        They may change whenever the focus moves, but are nearly always the same.
        """
        self._needs_style_check = True

    def _check_styles(self) -> None:
        if not self._needs_style_check:
            return
        self._needs_style_check = False
        if any(self._look_up_style(classes) != style for classes, style in list(self._styles.items())):
            self._styles.clear()
            self._strips.clear()

    def clear_strips(self) -> None:
        """Drop the rendered strips."""
        self._strips.clear()

    def render_line(self, y: int, frame: ViewportState, *, offsets: bool = False) -> Strip:
        """Return one line of the view; with `offsets`, segments carry their text positions."""
        self._check_styles()
        model = self._model
        if model.message and (message_line := self._message_line(y, model.message, frame)):
            return message_line
        line = y + frame.top
        if line >= model.rows.height:
            return Strip.blank(frame.width, self.style(("diff--plain",)))
        if self._painter.context is not model.render_context:
            self._painter = DiffPainter(model.render_context, self.style)
        number, row, part = model.rows.part_at(line)
        cursor = frame.cursor if number == frame.row else "diff--cursor-blurred" if number in frame.lit else ""
        if offsets or frame.selection is not None:
            return self._painter.paint(row, part, line, cursor=cursor, selection=frame.selection, offsets=offsets)
        key = (line, model.render_context.scroll, frame.width, cursor)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._painter.paint(row, part, line, cursor=cursor)
        return strip

    def _message_line(self, y: int, message: str, frame: ViewportState) -> Strip | None:
        """Return the line of a message in the middle of the view; None for other lines."""
        lines = wrap(display_text(message).text, max(1, frame.width - 2))
        index = y - (frame.height // 2 - len(lines) // 2)
        if not 0 <= index < len(lines):
            return None
        style = self.style(("diff--plain", "diff--message"))
        text = Strip([Segment(lines[index], style)]).text_align(frame.width, "center")
        return text.adjust_cell_length(frame.width, style).apply_style(style)
