"""The line between the diff and the approvals; the mouse drags it."""

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget


class Splitter(Widget):
    """One row that can be dragged up and down."""

    DEFAULT_CSS = """
    Splitter {
        height: 1;
        color: $foreground 25%;
        background: $surface;
        &:hover, &.-dragged { color: $accent; }
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Dragged(Message):
        """The line is held at this row of the screen."""

        screen_y: int

    def render_line(self, y: int) -> Strip:
        """A rule with a handle in its middle."""
        width = self.size.width
        handle = "═══"
        side = max(0, (width - len(handle)) // 2)
        text = ("─" * side + handle + "─" * width)[:width]
        return Strip([Segment(text, self.rich_style)], width)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold."""
        self.add_class("-dragged")
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the mouse."""
        if self.has_class("-dragged"):
            self.post_message(self.Dragged(event.screen_y))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let go."""
        self.remove_class("-dragged")
        self.release_mouse()
