"""The main screen: the panes, tabs where it is too narrow for all of them, the status bar.

It begins as little more than the composer, so that one can type at once. Chat and review are made ready out of sight
and then take the places that the first picture already has, each painted once.
"""

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from app.slash_commands import COMMANDS
from widgets.chat.composer import Composer
from widgets.common.key_bar import KeyBar
from widgets.common.pane_tabs import PANES, Pane, PaneTabs
from widgets.common.status_bar import StatusBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.config import Settings
    from app.conversation.events import Event
    from app.proposals.models import Proposal
    from app.screens.chat_side import ChatSide
    from app.screens.review_side import ReviewSide
    from widgets.approval.review import Review
    from widgets.chat.pane import ChatPane


class Workbench(Screen[None]):
    """Three panes side by side, or one at a time with tabs where the terminal is narrow."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next_pane(1)", "Next", show=False),
        Binding("shift+tab", "next_pane(-1)", "Previous", show=False),
    ]

    DEFAULT_CSS = """
    Workbench {
        #sides { height: 1fr; layers: arriving default; overflow: hidden; }
        ChatSide, #front-chat { width: 1fr; }
        #front-chat { align-vertical: bottom; }
        ReviewSide, #front-review { width: 1fr; border-left: vkey $panel; }
        PaneTabs { display: none; }
        &.-review-only ChatSide { display: none; }
        &.-review-only ReviewSide { border-left: none; }

        &.-narrow {
            #front-review { display: none; }
            PaneTabs { display: block; }
            ReviewSide { display: none; border-left: none; }
            &.show-review {
                ReviewSide { display: block; }
                ChatSide { display: none; }
            }
        }
    }
    """

    class Ready(Message):
        """One can type."""

    status = getters.query_one(StatusBar)
    tabs = getters.query_one(PaneTabs)

    def __init__(self) -> None:
        super().__init__()
        self._front: Composer | None = Composer(
            (lambda: ()), [(name, action.help) for name, action in COMMANDS.items()]
        )
        self._chat_side: ChatSide | None = None
        """None until the workspace is open."""
        self._review_side: ReviewSide | None = None
        """None until the chat is on the screen."""

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        assert self._front is not None
        yield PaneTabs()
        with Horizontal(id="sides"):
            with Vertical(id="front-chat"):
                yield self._front
            yield Vertical(id="front-review")
        yield StatusBar()
        yield KeyBar()

    def on_mount(self) -> None:
        """The composer is where everything begins."""
        self.set_focus(self.composer.editor)
        self.post_message(self.Ready())

    async def install_chat(self, side: "ChatSide", settings: "Settings", end: "Sequence[Event]" = ()) -> None:
        """Put the chat in its place, with the end of a session; what was typed goes on in its composer."""
        front = self._front
        assert front is not None
        await self._prepare(side, "#front-chat", settings)
        if end:
            side.pane.open_log(end)
        await self._laid_out(side.pane, side.pane.transcript)
        taken = asyncio.Event()
        front.editor.call_later(self._take_over, front, side, taken)
        await taken.wait()

    def _take_over(self, front: Composer, side: "ChatSide", taken: asyncio.Event) -> None:
        """Let the chat's composer go on, once the front one has done all the keys that were meant for it."""
        if front.editor.message_queue_size:
            front.editor.call_later(self._take_over, front, side, taken)
            return
        self._chat_side, self._front = side, None
        self._take_draft(front)
        self._bring_in(side)
        self.set_focus(self.chat.composer.editor)
        self.query_one("#front-chat").display = False
        # One more key may have left the queue without having been done; the callback comes behind it.
        front.editor.call_later(self._take_rest, front, front.draft)
        taken.set()

    def _take_draft(self, front: Composer) -> None:
        composer = self.chat.composer
        composer.restore(front.kept_draft)
        composer.editor.selection = front.editor.selection

    def _take_rest(self, front: Composer, taken: str) -> None:
        composer, late = self.chat.composer, front.draft
        if late != taken and composer.draft == taken:
            self._take_draft(front)
        elif late != taken and composer.draft.startswith(taken):
            composer.draft = late + composer.draft.removeprefix(taken)
        # What the front composer has sent is still on its way up from it, and is lost if that goes first.
        place = self.query_one("#front-chat")
        front.call_later(place.call_later, place.remove)

    async def install_review(
        self, side: "ReviewSide", settings: "Settings", proposals: "Sequence[Proposal]" = ()
    ) -> None:
        """Put the review in its place, with what waits."""
        await self._prepare(side, "#front-review", settings)
        self._review_side = side
        self.show_proposals(proposals)
        await self._laid_out(side.review, side.review.view)
        self._bring_in(side)
        self.query_one("#front-review").remove()

    async def _prepare(self, side: "ChatSide | ReviewSide", place: str, settings: "Settings") -> None:
        """Mount one side as large as it will be, under the others, all but one column of it beyond the edge.

        Of what cannot be seen at all Textual does not say how large it is.
        """
        narrow = self.has_class("-narrow")
        side.styles.layer, side.styles.width = "arriving", "100%" if narrow else "50%"
        side.styles.offset = (1 - self.size.width // (1 if narrow else 2), 0)
        side.can_focus_children = False
        await self.query_one("#sides").mount(side, before=place)
        side.apply_settings(settings)

    async def _laid_out(self, pane: Widget, view: Widget) -> None:
        """Return once all of a pane knows its size and the view in it has acted on that: one picture will do."""
        done = asyncio.Event()

        def tell_sizes() -> None:
            # Textual sends no Resize to a widget whose place was looked up, say for the cursor, before the layout.
            for one in pane.walk_children(Widget, with_self=True):
                if one.size:
                    one.post_message(events.Resize(one.size, one.virtual_size, one.container_size))
            view.call_later(done.set)

        self.call_after_refresh(tell_sizes)
        await done.wait()

    def _bring_in(self, side: "ChatSide | ReviewSide") -> None:
        # A class would have all that is inside styled again.
        for rule in ("layer", "offset", "width"):
            side.styles.clear_rule(rule)
        side.can_focus_children = True
        side.refresh(layout=True)

    @property
    def composer(self) -> Composer:
        """Where the user writes."""
        return self._front if self._front is not None else self.chat.composer

    @property
    def chat(self) -> "ChatPane":
        """The chat, once it is there."""
        assert self._chat_side is not None
        return self._chat_side.pane

    @property
    def review(self) -> "Review":
        """The review, once it is there."""
        assert self._review_side is not None
        return self._review_side.review

    def show_proposals(self, proposals: "Sequence[Proposal]") -> None:
        """Show what waits and what was decided lately."""
        self.review.set_proposals(proposals)
        self.tabs.waiting = sum(one.state.waiting for one in proposals)

    def recall_comments(self, events: "Sequence[Event]") -> None:
        """Have the comments at hand that went to the model in a session, to be ticked off in its next version."""
        from app.conversation.events import ProposalDecided

        for event in events:
            if isinstance(event, ProposalDecided) and event.comments:
                self.review.set_sent_comments(event.proposal, event.comments)

    def tell_outcome(self, problem: str) -> None:
        """Say in the review what went wrong, where there is one."""
        if self._review_side is not None:
            self.review.outcome(problem, problem=True)

    def apply_settings(self, settings: "Settings") -> None:
        """Bring both sides in line with the settings."""
        for side in (self._chat_side, self._review_side):
            if side is not None:
                side.apply_settings(settings)

    def set_full_screen(self, on: bool) -> None:
        """Give the review the whole screen, or part it again."""
        self.set_class(on, "-review-only")

    def show_pane(self, pane: Pane) -> None:
        """Bring a pane to the front and give it the focus."""
        if self._chat_side is None or (self._review_side is None and pane != "chat"):
            return
        if pane != "diff" and self.has_class("-review-only"):
            self.review.action_full_screen()
            self.set_full_screen(False)
        self.set_class(pane != "chat", "show-review")
        self.tabs.shown = pane
        match pane:
            case "chat":
                self.chat.focus_composer()
            case "diff":
                self.set_focus(self.review.view)
            case "approvals":
                self.set_focus(self.review.pane.queue)

    @on(events.ScreenResume)
    def lose_picture(self) -> None:
        """What was covered, by a dialog or by a shell, has to be painted anew before a key decides anything there."""
        if self._review_side is not None:
            self.review.lose_picture()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The tab follows the focus, wherever a click or Tab has put it."""
        above = event.widget.ancestors_with_self
        if self._chat_side in above:
            self.tabs.shown = "chat"
        elif self._review_side in above:
            self.tabs.shown = "approvals" if self.review.pane in above else "diff"

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
