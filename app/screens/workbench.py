"""The main screen: chat at the left, diff over approvals at the right, the status bar below."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer

from app.config import Settings
from app.proposals.models import Proposal
from widgets.approval.review import Review
from widgets.chat.pane import ChatPane
from widgets.common.pane_tabs import PANES, Pane, PaneTabs
from widgets.common.status_bar import StatusBar


class Workbench(Screen[None]):
    """Three panes side by side, or one at a time with tabs where the terminal is narrow."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next_pane(1)", "Next", show=False),
        Binding("shift+tab", "next_pane(-1)", "Previous", show=False),
    ]

    DEFAULT_CSS = """
    Workbench {
        #panes { height: 1fr; }
        ChatPane { width: 1fr; }
        Review { width: 1fr; border-left: vkey $panel; }
        PaneTabs { display: none; }
        Footer { background: $background; }
        &.-review-only ChatPane { display: none; }
        &.-review-only Review { border-left: none; }

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
        self._look: tuple[str, bool, bool, dict[str, str]] = ("auto", False, True, {})
        """Of the settings, those that the panes follow already."""

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

    def show_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Show what waits and what was decided."""
        self.review.set_proposals(proposals)
        self.tabs.waiting = sum(one.state.waiting for one in proposals)

    def apply_settings(self, settings: Settings) -> None:
        """Bring the panes in line with the settings, and leave alone what the user turned by key."""
        look = (settings.layout, settings.wrap, settings.show_interventions, settings.keys)
        before, self._look = self._look, look
        if look[0] != before[0]:
            self.review.view.set_split({"auto": None, "unified": False, "split": True}[settings.layout])
        if look[1] != before[1]:
            self.review.view.set_wrap(settings.wrap)
        if look[2] != before[2]:
            self.chat.transcript.action_toggle_interventions()
        if look[3] != before[3]:
            self.review.set_keys(settings.keys)

    def set_full_screen(self, on: bool) -> None:
        """Give the review the whole screen, or part it again."""
        self.set_class(on, "-review-only")

    def show_pane(self, pane: Pane) -> None:
        """Bring a pane to the front and give it the focus."""
        if pane != "diff" and self.has_class("-review-only"):
            self.review.action_full_screen()
            self.set_full_screen(False)
        self.set_class(pane != "chat", "show-review")
        self.tabs.shown = pane
        match pane:
            case "chat":
                self.chat.focus_composer()
            case "diff":
                self.review.view.focus()
            case "approvals":
                self.review.pane.queue.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The tab follows the focus, wherever a click or Tab has put it."""
        widget = event.widget
        if self.chat in widget.ancestors_with_self:
            self.tabs.shown = "chat"
        elif self.review in widget.ancestors_with_self:
            self.tabs.shown = "approvals" if self.review.pane in widget.ancestors_with_self else "diff"

    def action_next_pane(self, step: int) -> None:
        """Tab: on to the next widget, or to the next pane where only one is shown."""
        if self.has_class("-narrow"):
            self.show_pane(PANES[(PANES.index(self.tabs.shown) + step) % len(PANES)])
        elif step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    @on(PaneTabs.Chosen)
    def follow_tab(self, event: PaneTabs.Chosen) -> None:
        """A click on a tab."""
        self.show_pane(event.pane)
