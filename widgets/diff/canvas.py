"""The terminal lines of the diff preview as strips: made when looked at, and kept as long as they look alike."""

from textwrap import wrap
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.cache import FIFOCache
from textual.selection import Selection
from textual.strip import Strip

from widgets.diff.cells import display
from widgets.diff.paint import Painter
from widgets.diff.scene import StyleOf
from widgets.diff.sheet import Sheet

_KEPT_STRIPS = 256
"""Some screens of them."""


class Frame(NamedTuple):
    """What is the same for all lines of a frame."""

    top: int
    """The first terminal line of the view."""
    width: int
    height: int
    row: int
    """The row of the cursor."""
    cursor: str
    """The component class of the cursor; empty where there is none."""
    lit: range
    """Rows that are shown as the cursor's, beside its own."""
    selection: Selection | None


class Canvas:
    """Draws a sheet."""

    def __init__(self, sheet: Sheet, look_up: StyleOf) -> None:
        """`look_up` knows the style of component classes laid over each other."""
        self._sheet = sheet
        self._look_up = look_up
        self._painter = Painter(sheet.scene, self.style)
        # The links of an LRUCache refer to each other: what is cleared of it would stay.
        self._strips: FIFOCache[tuple[int, int, int, str], Strip] = FIFOCache(_KEPT_STRIPS)
        self._styles: dict[tuple[str, ...], Style] = {}
        self._in_doubt = False
        """The styles may be others by now."""

    def style(self, classes: tuple[str, ...]) -> Style:
        """The style of component classes laid over each other."""
        self._resolve_doubt()
        style = self._styles.get(classes)
        if style is None:
            style = self._styles[classes] = self._look_up(classes)
        return style

    def doubt_styles(self) -> None:
        """The colours may be others: they are compared when something is drawn, as they are final only then.

        Whenever the focus moves, they may; as good as always they are the same.
        """
        self._in_doubt = True

    def _resolve_doubt(self) -> None:
        if not self._in_doubt:
            return
        self._in_doubt = False
        if any(self._look_up(classes) != style for classes, style in list(self._styles.items())):
            self._styles.clear()
            self._strips.clear()

    def forget_strips(self) -> None:
        """What is drawn looks different now."""
        self._strips.clear()

    def line(self, y: int, frame: Frame, *, offsets: bool = False) -> Strip:
        """One line of the view; with `offsets`, its pieces tell the mouse which characters they are."""
        self._resolve_doubt()
        sheet = self._sheet
        if sheet.message and (words := self._words_at(y, sheet.message, frame)):
            return words
        line = y + frame.top
        if line >= sheet.rows.height:
            return Strip.blank(frame.width, self.style(("diff--plain",)))
        if self._painter.scene is not sheet.scene:
            self._painter = Painter(sheet.scene, self.style)
        number, row, part = sheet.rows.at(line)
        cursor = frame.cursor if number == frame.row else "diff--cursor-blurred" if number in frame.lit else ""
        if offsets or frame.selection is not None:
            return self._painter.paint(row, part, line, cursor=cursor, selection=frame.selection, offsets=offsets)
        key = (line, sheet.scene.scroll, frame.width, cursor)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._painter.paint(row, part, line, cursor=cursor)
        return strip

    def _words_at(self, y: int, message: str, frame: Frame) -> Strip | None:
        """The line of a message in the middle of the view that stands there."""
        lines = wrap(display(message).text, max(1, frame.width - 2))
        at = y - (frame.height // 2 - len(lines) // 2)
        if not 0 <= at < len(lines):
            return None
        style = self.style(("diff--plain", "diff--message"))
        text = Strip([Segment(lines[at], style)]).text_align(frame.width, "center")
        return text.adjust_cell_length(frame.width, style).apply_style(style)
