"""Tabs for terminals that are too narrow to show all panes."""

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
    """Shows the panes, which one is visible and how much waits; a click shows another."""

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
    """Proposals that await a decision."""
    asked: reactive[bool] = reactive(False)
    """Whether the model cannot go on without the user's permission."""
    unread: reactive[bool] = reactive(False)
    """Whether the model has handed back while another pane than the chat was shown."""
    _held: Pane | None = None
    """The tab on which the mouse button went down."""

    def render(self) -> Content:
        """The tabs."""
        return Content("").join(content for _, content in self._tabs())

    def mark_unread(self) -> None:
        """Mark the chat as unread, unless it is shown."""
        self.unread = bool(self.display) and self.shown != "chat"

    def watch_shown(self, shown: Pane) -> None:
        """Clear the mark of the shown pane."""
        if shown == "chat":
            self.unread = False

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where a click starts."""
        self._held = self._tab_at(event.x)

    def on_click(self, event: events.Click) -> None:
        """Show the pane of the clicked tab."""
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
            note = ""
            if pane == "approvals" and self.asked:
                note = " (asks)"
            elif pane == "approvals" and self.waiting:
                note = f" ({self.waiting})"
            elif pane == "chat" and self.unread:
                note = " (new)"
            style = "bold reverse" if pane == self.shown else "$text-accent bold" if note else "$foreground 60%"
            tabs.append((pane, Content.styled(f" {key} {title}{note} ", style)))
        return tabs
