"""One line of tabs for terminals that are too narrow for all panes side by side."""

from dataclasses import dataclass
from typing import Literal

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

Pane = Literal["chat", "diff", "approvals"]

PANES: tuple[Pane, ...] = ("chat", "diff", "approvals")
"""In the order of Tab."""

_TABS: tuple[tuple[Pane, str, str], ...] = (
    ("chat", "F2", "Chat"),
    ("diff", "F3", "Diff"),
    ("approvals", "F4", "Approvals"),
)


class PaneTabs(Widget):
    """Says which panes there are, which one is shown and how much waits; a click shows another."""

    DEFAULT_CSS = """
    PaneTabs {
        height: 1;
        background: $panel;
    }
    """

    @dataclass
    class Chosen(Message):
        """The user clicked a tab."""

        pane: Pane

    shown: reactive[Pane] = reactive[Pane]("chat")
    waiting: reactive[int] = reactive(0)

    def render(self) -> Content:
        """The tabs."""
        return Content("").join(content for _, content in self._tabs())

    def on_click(self, event: events.Click) -> None:
        """Find the tab under the mouse."""
        position = 0
        for pane, content in self._tabs():
            position += content.cell_length
            if event.x < position:
                self.post_message(self.Chosen(pane))
                return

    def _tabs(self) -> list[tuple[Pane, Content]]:
        tabs: list[tuple[Pane, Content]] = []
        for pane, key, title in _TABS:
            count = f" ({self.waiting})" if pane == "approvals" and self.waiting else ""
            style = "bold reverse" if pane == self.shown else "$text-accent bold" if count else "$foreground 60%"
            tabs.append((pane, Content.styled(f" {key} {title}{count} ", style)))
        return tabs
