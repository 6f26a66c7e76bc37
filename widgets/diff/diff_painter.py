"""Paints rows as strips: headings of files, folds, notes and comments; `CodePainter` paints source."""

from collections.abc import Iterable
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.cache import FIFOCache
from textual.selection import Selection
from textual.strip import Strip

from widgets.diff.code_painter import CodePainter
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import BlankRow, CommentRow, FileRow, FoldRow, LineRow, NoteRow, Row, SpaceRow
from widgets.diff.display_cells import display_text, wrap_words
from widgets.diff.file_facts import file_facts, file_name, file_sign
from widgets.diff.render_context import RenderContext, StyleOf
from widgets.diff.white_space import describe_space_lines

_NOTES = {
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

_COMMENTS = {
    "remark": "comment",
    "finding": "finding",
    "known": "known-finding",
    "asked": "asked",
    "held": "held",
    "unheld": "unheld",
    "untold": "untold",
}

_SEARCHED_LINES = 400
"""How many lines above the end of a fold are searched for a definition."""

_LONGEST_DEFINITION = 400

StyledPiece = tuple[str, tuple[str, ...]]
"""Safe text and its component classes."""


class DiffPainter:
    """Paints rows."""

    def __init__(self, context: RenderContext, style: StyleOf) -> None:
        self.scene = context
        self.style = style
        self._code = CodePainter(context, style)

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
            row: The row.
            part: Index of the terminal line within a wrapped row.
            y: Terminal line in the whole diff, for text selection.
            cursor: Component class of the cursor; empty if the cursor is on another row.
            selection: The mouse selection.
            offsets: Whether segments of code carry their text positions for the mouse.
        """
        over = (cursor,) if cursor else ()
        match row:
            case LineRow():
                return self._code.paint(row, part, y, over, selection, offsets)
            case FileRow():
                return self._file(row, over)
            case FoldRow():
                lines = f"{row.lines:,} unchanged line{'s' * (row.lines != 1)}"
                but = " (but for white space)" if row.spaces else ""
                text = f"{' ' * (self.scene.gutter - 2)}⋯ {lines}{but}"
                classes = ("diff--plain", "diff--fold", *over)
                return self._full([(text, classes), (self._definition(row), classes)], classes)
            case SpaceRow():
                return self._spaces(row, over)
            case NoteRow():
                return self._note(row, part, over)
            case CommentRow():
                return self._comment(row, part, over)
            case BlankRow():
                return self._full([], ("diff--plain", *over))

    def _full(self, pieces: Iterable[StyledPiece], classes: tuple[str, ...]) -> Strip:
        """Return pieces as a strip, cropped and padded to the width of the row."""
        segments = [Segment(text, self.style(over)) for text, over in pieces if text]
        return Strip(segments).adjust_cell_length(self.scene.width, self.style(classes))

    def _spaces(self, row: SpaceRow, over: tuple[str, ...]) -> Strip:
        number = self.scene.diffs[row.file].change.hunks[row.hunk].number
        text = f"{' ' * (self.scene.gutter - 4)}␣ hunk {number:,}: {describe_space_lines(row.lines)}"
        hint = " · Enter shows them"
        if cell_len(text) + len(hint) + 2 <= self.scene.width:
            text += hint
        classes = ("diff--plain", "diff--fold", *over)
        state = self._code.hunk_state_cells(LineRow(row.file, None, None, row.hunk, 0), 0, over)
        return Strip([state, Segment(text, self.style(classes))]).adjust_cell_length(
            self.scene.width, self.style(classes)
        )

    def _definition(self, row: FoldRow) -> str:
        """Return the definition that contains the code after a fold, like Git's hunk headers; empty if none."""
        lines = self.scene.diffs[row.file].new
        end = row.new_start + row.lines
        if end >= len(lines):
            return ""
        for line in reversed(lines[max(0, end - _SEARCHED_LINES) : end]):
            # Cheap check first: most lines are indented or empty.
            if line[:1] > " " and (line[0].isalpha() or line[0] in "_$@#") and len(line) < _LONGEST_DEFINITION:
                return f"  {display_text(line).text.rstrip(' {:')}"
        return ""

    def _file(self, row: FileRow, over: tuple[str, ...]) -> Strip:
        diff = self.scene.diffs[row.file]
        change = diff.change
        head, quiet = ("diff--file", *over), ("diff--file-quiet", *over)
        glyph, kind = file_sign(change)
        facts: list[StyledPiece] = [(f"  {text}", (name, *over)) for text, name in file_facts(diff, self.scene)]
        room = max(8, self.scene.width - sum(cell_len(text) for text, _ in facts) - 5)
        name = file_name(change, room)
        arrow = "▸" if row.file in self.scene.collapsed else "▾"
        gap = " " * (room - cell_len(name))
        pieces = [(f"{arrow} ", quiet), (f"{glyph} ", (kind, *over)), (name, head), (gap, quiet), *facts]
        return self._full(pieces, head)

    def _note(self, row: NoteRow, part: int, over: tuple[str, ...]) -> Strip:
        glyph, name = _NOTES[row.level]
        classes = ("diff--plain", name, *over)
        lines = wrap_words(row.text, self.scene.note_width)
        indent = " " if row.file < 0 else "   "
        text = lines[part] if part < len(lines) else ""
        if row.level in ("folded", "unfolded") and len(lines) == 1:
            glyph = " "
        elif row.level == "folded":
            text = set_cell_size(" ".join(lines[:2]), self.scene.note_width - 1).rstrip() + "…"
        return self._full([(f"{indent}{' ' if part else glyph} {text}", classes)], classes)

    def _comment(self, row: CommentRow, part: int, over: tuple[str, ...]) -> Strip:
        indent = min(self.scene.gutter, 6) - 2
        lines = wrap_words(row.text, self.scene.note_width)
        text = lines[part] if part < len(lines) else ""
        kind = _COMMENTS[row.kind]
        classes = ("diff--plain", f"diff--{kind}", *over)
        bar = ("diff--plain", f"diff--{kind}-bar", *over)
        return self._full([(" " * indent, ("diff--plain", *over)), ("▌ ", bar), (text, classes)], classes)


_KEPT_STRIPS = 256
"""A few screens."""


class FrameState(NamedTuple):
    """State that all lines of a frame share."""

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


class LineRenderer:
    """Renders the lines of a diff view.

    Args:
        model: The model of the view.
        look_up: Returns the style of component classes laid over each other.
    """

    def __init__(self, model: DiffModel, look_up: StyleOf) -> None:
        self._sheet = model
        self._look_up = look_up
        self._painter = DiffPainter(model.render_context, self.style)
        # Entries of an LRUCache form reference cycles, so that cleared strips would stay in memory.
        self._strips: FIFOCache[tuple[int, int, int, str], Strip] = FIFOCache(_KEPT_STRIPS)
        self._styles: dict[tuple[str, ...], Style] = {}
        self._in_doubt = False
        """Whether the cached styles may be outdated."""

    def style(self, classes: tuple[str, ...]) -> Style:
        """Return the style of component classes laid over each other."""
        self._resolve_doubt()
        style = self._styles.get(classes)
        if style is None:
            style = self._styles[classes] = self._look_up(classes)
        return style

    def recheck_styles(self) -> None:
        """Compare the cached styles with the theme at the next frame.

        They may change whenever the focus moves, but are nearly always the same.
        """
        self._in_doubt = True

    def _resolve_doubt(self) -> None:
        if not self._in_doubt:
            return
        self._in_doubt = False
        if any(self._look_up(classes) != style for classes, style in list(self._styles.items())):
            self._styles.clear()
            self._strips.clear()

    def clear_strips(self) -> None:
        """Drop the rendered strips."""
        self._strips.clear()

    def render_line(self, y: int, frame: FrameState, *, offsets: bool = False) -> Strip:
        """Return one line of the view; with `offsets`, segments carry their text positions."""
        self._resolve_doubt()
        sheet = self._sheet
        if sheet.message and (words := self._words_at(y, sheet.message, frame)):
            return words
        line = y + frame.top
        if line >= sheet.rows.height:
            return Strip.blank(frame.width, self.style(("diff--plain",)))
        if self._painter.scene is not sheet.render_context:
            self._painter = DiffPainter(sheet.render_context, self.style)
        number, row, part = sheet.rows.part_at(line)
        cursor = frame.cursor if number == frame.row else "diff--cursor-blurred" if number in frame.lit else ""
        if offsets or frame.selection is not None:
            return self._painter.paint(row, part, line, cursor=cursor, selection=frame.selection, offsets=offsets)
        key = (line, sheet.render_context.scroll, frame.width, cursor)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._painter.paint(row, part, line, cursor=cursor)
        return strip

    def _words_at(self, y: int, message: str, frame: FrameState) -> Strip | None:
        """Return the line of a message in the middle of the view; None for other lines."""
        lines = wrap(display_text(message).text, max(1, frame.width - 2))
        at = y - (frame.height // 2 - len(lines) // 2)
        if not 0 <= at < len(lines):
            return None
        style = self.style(("diff--plain", "diff--message"))
        text = Strip([Segment(lines[at], style)]).text_align(frame.width, "center")
        return text.adjust_cell_length(frame.width, style).apply_style(style)
