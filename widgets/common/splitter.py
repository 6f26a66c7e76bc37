"""The draggable line between two panes."""

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

_HANDLE_CELLS = 3
"""Length of the handle in the middle of the line, in cells."""


class Splitter(Widget):
    """The line between two panes, which the user drags to resize them: a row or a column.

    Args:
        upright: Whether it is a column between panes that are side by side.
    """

    DEFAULT_CSS = """
    Splitter {
        height: 1;
        color: $foreground 25%;
        background: $surface;
        &.upright { width: 1; height: 1fr; background: $background; color: $foreground 18%; }
        &:hover, &.-dragged { color: $accent; }
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Dragged(Message):
        """The user drags the line to this position of the screen."""

        splitter: "Splitter"
        screen_x: int
        screen_y: int

    @dataclass
    class Dropped(Message):
        """The line was dropped."""

        splitter: "Splitter"

    def __init__(self, *, upright: bool = False) -> None:
        super().__init__(classes="upright" if upright else "")
        self._upright = upright

    def render_line(self, y: int) -> Strip:
        """Render a rule with a handle in its middle."""
        width, height = self.size
        if self._upright:
            middle = (height - _HANDLE_CELLS) // 2
            return Strip([Segment("║" if middle <= y < middle + _HANDLE_CELLS else "│", self.rich_style)], width)
        side = max(0, (width - _HANDLE_CELLS) // 2)
        text = ("─" * side + "═" * _HANDLE_CELLS + "─" * width)[:width]
        return Strip([Segment(text, self.rich_style)], width)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.add_class("-dragged")
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.has_class("-dragged"):
            self.post_message(self.Dragged(self, event.screen_x, event.screen_y))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self.has_class("-dragged"):
            self.remove_class("-dragged")
            self.release_mouse()
            self.post_message(self.Dropped(self))
