"""The drawing side of the diff preview: lines of a layout as strips, made as they are looked at; selected text."""

from textwrap import wrap
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from widgets.common.selection import selection_style
from widgets.diff.cells import display
from widgets.diff.colours import COMPONENTS, DIFF_CSS
from widgets.diff.copying import copied_text
from widgets.diff.layout import Layout
from widgets.diff.paint import Painter
from widgets.diff.scene import Scene

_KEPT_STRIPS = 1024


class _Frame(NamedTuple):
    """What is the same for all lines of a frame."""

    top: int
    """The first terminal line of the view."""
    width: int
    cursor: str
    """The component class of the cursor; empty where there is none."""
    selection: Selection | None
    lit: range
    """Rows that are shown as the cursor's."""


class DiffSurface(ScrollView):
    """Draws the rows of a layout; knows nothing of where they come from."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    DEFAULT_CSS = DIFF_CSS

    class ViewMoved(Message):
        """The cursor, the scroll position or the layout changed."""

        def can_replace(self, message: Message) -> bool:
            """The newest stands for all."""
            return isinstance(message, DiffSurface.ViewMoved)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.rows = Layout()
        self.cursor = 0
        """The row that the keys act on."""
        self.plain_text = False
        """Whether plain lines are shown, without a cursor."""
        self.scene = Scene()
        self._painter = Painter(self.scene, self._style)
        self._wrap = False
        self._message = ""
        self._strips: LRUCache[tuple[int, int, int, str], Strip] = LRUCache(_KEPT_STRIPS)
        self._styles: dict[tuple[str, ...], Style] = {}
        self._frame: _Frame | None = None

    @property
    def lit(self) -> range:
        """Rows that are shown as the cursor's, beside its own."""
        return range(0)

    def set_scene(self, scene: Scene) -> None:
        """Draw with other surroundings."""
        self.scene = scene
        self._painter = Painter(scene, self._style)

    def _style(self, classes: tuple[str, ...]) -> Style:
        style = self._styles.get(classes)
        if style is None:
            if classes[-1] == "screen--selection":
                style = self._style(classes[:-1]) + selection_style(self)
            else:
                style = self.get_visual_style(*classes).rich_style
            self._styles[classes] = style
        return style

    def notify_style_update(self) -> None:
        """Forget everything that was drawn with the old colours."""
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def redraw(self) -> None:
        """Draw every line anew."""
        self._strips.clear()
        self.refresh()

    def repaint(self) -> None:
        """Draw everything anew, and tell who draws the position."""
        self.redraw()
        self.post_message(self.ViewMoved())

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selected text."""
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected source text, without line numbers and signs."""
        return copied_text(self.rows, self.scene, selection), "\n"

    def after_drawing(self, first: int, last: int) -> None:
        """Terminal lines `first` to `last`, the last not included, have been drawn."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw."""
        self._frame = frame = self._look()
        try:
            strips = super().render_lines(crop)
        finally:
            self._frame = None
        if crop.height:
            self.after_drawing(frame.top + crop.y, frame.top + crop.y + crop.height)
        return strips

    def _look(self) -> _Frame:
        """The state that the next lines are drawn in."""
        offset = self.scroll_offset
        self.scene.scroll = 0 if self._wrap else offset.x
        cursor = "" if self.plain_text else "diff--cursor" if self.has_focus else "diff--cursor-blurred"
        return _Frame(offset.y, self.size.width, cursor, self.text_selection, self.lit)

    def render_line(self, y: int) -> Strip:
        """One terminal line of the viewport; outside of drawing, as the mouse asks, its pieces tell their places."""
        frame = self._frame or self._look()
        line = y + frame.top
        if self._message:
            words = wrap(display(self._message).text, max(1, frame.width - 2))
            above = self.size.height // 2 - len(words) // 2
            if above <= y < above + len(words):
                return self._centred(words[y - above])
        if line >= self.rows.height:
            return Strip.blank(frame.width, self._style(("diff--plain",)))
        number, row, part = self.rows.at(line)
        cursor = frame.cursor if number == self.cursor else "diff--cursor-blurred" if number in frame.lit else ""
        if self._frame is None:
            return self._painter.paint(row, part, line, cursor=cursor, selection=frame.selection, offsets=True)
        if frame.selection is not None:
            return self._painter.paint(row, part, line, cursor=cursor, selection=frame.selection)
        key = (line, self.scene.scroll, frame.width, cursor)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._painter.paint(row, part, line, cursor=cursor)
        return strip

    def _centred(self, message: str) -> Strip:
        style = self._style(("diff--plain", "diff--message"))
        text = Strip([Segment(message, style)])
        return (
            text.text_align(self.size.width, "center").adjust_cell_length(self.size.width, style).apply_style(style)
        )
