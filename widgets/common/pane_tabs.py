"""One line of tabs for terminals that are too narrow for all panes side by side."""

from dataclasses import dataclass
from typing import Literal

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from widgets.common.key_hints import MAIN_BUTTON

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
    _held: Pane | None = None
    """The tab on which the mouse button went down."""

    def render(self) -> Content:
        """The tabs."""
        return Content("").join(content for _, content in self._tabs())

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where a click begins."""
        self._held = self._tab_at(event.x)

    def on_click(self, event: events.Click) -> None:
        """Show the pane of the tab under the mouse."""
        pane, self._held = self._held, None
        if pane is not None and event.button == MAIN_BUTTON and pane == self._tab_at(event.x):
            self.post_message(self.Chosen(pane))

    def _tab_at(self, column: int) -> Pane | None:
        position = 0
        for pane, content in self._tabs():
            position += content.cell_length
            if column < position:
                return pane
        return None

    def _tabs(self) -> list[tuple[Pane, Content]]:
        tabs: list[tuple[Pane, Content]] = []
        for pane, key, title in _TABS:
            count = f" ({self.waiting})" if pane == "approvals" and self.waiting else ""
            style = "bold reverse" if pane == self.shown else "$text-accent bold" if count else "$foreground 60%"
            tabs.append((pane, Content.styled(f" {key} {title}{count} ", style)))
        return tabs
