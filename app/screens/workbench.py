"""The main screen: chat at the left, diff over approvals at the right, the status bar below."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer

from app.agent.updates import Update
from widgets.approval.review import Review
from widgets.chat.pane import ChatPane
from widgets.common.pane_tabs import Pane, PaneTabs
from widgets.common.status_bar import StatusBar


class Workbench(Screen[None]):
    """Three panes side by side, or one at a time with tabs where the terminal is narrow."""

    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-narrow"), (110, "-wide")]

    DEFAULT_CSS = """
    Workbench {
        #panes { height: 1fr; }
        ChatPane { width: 1fr; }
        Review { width: 1fr; border-left: vkey $panel; }
        PaneTabs { display: none; }
        Footer { background: $background; }

        &.-narrow {
            PaneTabs { display: block; }
            Review { display: none; border-left: none; }
            &.show-review {
                Review { display: block; }
                ChatPane { display: none; }
            }
        }
    }
    """

    class Ready(Message):
        """All panes are there."""

    chat = getters.query_one(ChatPane)
    review = getters.query_one(Review)
    status = getters.query_one(StatusBar)
    tabs = getters.query_one(PaneTabs)

    def __init__(self, files: Callable[[], Sequence[str]], commands: Sequence[tuple[str, str]]) -> None:
        """`files` and `commands` are what the composer completes."""
        super().__init__()
        self._files = files
        self._commands = commands

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield PaneTabs()
        with Horizontal(id="panes"):
            yield ChatPane(self._files, self._commands)
            yield Review()
        yield StatusBar()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """The composer is where everything begins."""
        self.chat.focus_composer()
        self.post_message(self.Ready())

    def apply(self, update: Update) -> None:
        """Show an update of the session."""
        self.chat.apply(update)

    def show_pane(self, pane: Pane) -> None:
        """Bring a pane to the front and give it the focus."""
        self.set_class(pane != "chat", "show-review")
        self.tabs.shown = pane
        match pane:
            case "chat":
                self.chat.focus_composer()
            case "diff":
                self.review.focus_target.focus()
            case "approvals":
                self.review.pane.queue.focus()

    @on(PaneTabs.Chosen)
    def follow_tab(self, event: PaneTabs.Chosen) -> None:
        """A click on a tab."""
        self.show_pane(event.pane)
