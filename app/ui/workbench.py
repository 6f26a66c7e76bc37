"""The screen with the chat, the review and the splitter between them."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import var
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer, TimerCallback
from textual.widget import Widget

from app.keys.actions import make_key_bindings_of_scopes
from app.ui.context.slash_commands import COMMANDS
from widgets.chat.chat_column import ChatColumn
from widgets.chat.composer import Composer
from widgets.common.containers import Column, Row, background_strips
from widgets.common.workbench_bars import PANES, KeyBar, Pane, PaneTabs, StatusBar, StatusValues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.config.settings import Settings
    from app.conversation.events import Event
    from app.proposals.values.models import Proposal
    from app.ui.chat_area import ChatArea
    from app.ui.review_area import ReviewArea
    from widgets.chat.chat_pane import ChatPane
    from widgets.common.splitter import Splitter
    from widgets.review import review_messages
    from widgets.review.review import ReviewPane


_DEFAULT_REVIEW_PERCENT = 67
"""Percent of the width for the review until the user changes it: two thirds."""
_MIN_PANE_PERCENT = 25
"""Least percent of the width for the chat and for the review."""
_STEP_PERCENT = 5


class PaneSplit(Row):
    """Shares the width between chat and review.

    The share does not depend on the focus: nothing moves, and no text is wrapped again, when the focus changes.
    """

    @dataclass
    class Resized(Message):
        """The user has changed the share of the width."""

        review: int
        """Percent of the width for the review."""

    def __init__(self, composer: "Composer") -> None:
        super().__init__()
        self._composer = composer
        self._review_percent = _DEFAULT_REVIEW_PERCENT
        """Percent of the width for the review."""

    def compose(self) -> ComposeResult:
        """Compose the chat; the review is mounted when it is needed."""
        yield ChatColumn(self._composer)

    def show_placeholder(self) -> None:
        """Mount an empty review and the splitter, unless they are mounted."""
        if len(self.children) > 1:
            return
        from widgets.common.splitter import Splitter

        splitter = Splitter(upright=True)
        splitter.id = "parting"
        self.mount(splitter, Column(id="front-review"))
        self.set_review_share()

    @property
    def review_width(self) -> int:
        """Return the width of the review in cells."""
        rest = self.size.width - 1
        return rest - rest * (100 - self._review_percent) // 100

    def set_review_share(self, percent: int | None = None) -> None:
        """Set the review's share of the width in percent, within the limits; None applies the current share."""
        if percent is not None:
            self._review_percent = min(max(percent, _MIN_PANE_PERCENT), 100 - _MIN_PANE_PERCENT)
        self.query_one(ChatColumn).styles.width = f"{100 - self._review_percent}fr"
        for side in self.query("ReviewArea, #front-review").results(Widget):
            side.styles.width = f"{self._review_percent}fr"

    def grow_review(self, steps: int) -> None:
        """Make the review wider by `steps`, or narrower if negative."""
        self.set_review_share(self._review_percent + _STEP_PERCENT * steps)
        self.post_message(self.Resized(self._review_percent))

    # Handlers by name: their message classes are imported with the review.

    def on_splitter_dragged(self, event: "Splitter.Dragged") -> None:
        """Resize the panes while the user drags the splitter."""
        if event.splitter.id == "parting":
            self.set_review_share(round(100 * (self.size.width - event.screen_x) / self.size.width))

    def on_splitter_dropped(self, event: "Splitter.Dropped") -> None:
        """Report the new share after a drag."""
        if event.splitter.id == "parting":
            self.post_message(self.Resized(self._review_percent))


_REPAINTS_PER_TICK = 2
"""Repaints per tick of Textual's repaint timer."""


class Workbench(Screen[None]):
    """The main screen: chat, diff and approvals side by side, or one at a time with tabs in a narrow terminal."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012

    # Those of the app are here, too, because Textual's screens bind Tab.
    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("app")]

    DEFAULT_CSS = """
    Workbench {
        /* Textual orders all widgets inside by these layers; `notice` is one of the review. */
        PaneSplit { layers: arriving default notice; }
        #front-chat { background: $background; }
        ReviewArea, #front-review { width: 1fr; }
        PaneTabs, ReviewArea, #front-review, #parting { display: none; }
        &.-wide { ReviewArea, #front-review, #parting { display: block; } }
        &.-review-only { ChatColumn, #parting { display: none; } }
        &.-wide.-chat-only { ReviewArea, #front-review, #parting { display: none; } }

        &.-narrow {
            PaneTabs { display: block; }
            &.show-review {
                ReviewArea { display: block; }
                ChatColumn { display: none; }
            }
        }
    }
    """

    class Ready(Message):
        """The composer accepts input."""

    class ReviewWanted(Message):
        """The review is needed and not mounted yet: something waits in it, or the user wants to go there."""

    session_status: var[StatusValues] = var(StatusValues())
    """Values of the status bar."""
    shown: var[Pane] = var[Pane]("chat")
    """The pane in front; the focused pane if all are shown."""
    waiting: var[int] = var(0)
    """Number of proposals that await a decision."""
    needs_permission: var[bool] = var(False)
    """Whether the model cannot go on without the user's permission."""

    tabs = getters.query_one(PaneTabs)
    pane_split = getters.query_one(PaneSplit)

    def __init__(self) -> None:
        super().__init__(classes="-chat-only")
        self.composer = Composer(commands=[(name, action.help) for name, action in COMMANDS.items()])
        """Accepts input from the first paint on."""
        self._chat_area: ChatArea | None = None
        """None until the workspace is open."""
        self._review_area: ReviewArea | None = None
        """None until it is first needed."""
        self._proposals: Sequence[Proposal] = ()
        """Proposals of the review."""
        self._review_calls: list[Callable[[ReviewPane], None]] = []
        """Calls to make once the review is mounted."""
        self._pane_after_mount: Pane | None = None
        """The pane to show once it is mounted."""
        self._keeps_review = False
        """Whether the review stays although nothing waits, until a turn starts or the user goes to the chat."""

    def compose(self) -> ComposeResult:
        # The first Resize would set this class, too, but would style the whole screen a second time.
        _, name = max(point for point in self.HORIZONTAL_BREAKPOINTS if self.app.size.width >= point[0])
        self.set_class(True, name, update=False)
        yield PaneTabs().data_bind(shown=Workbench.shown, waiting=Workbench.waiting, asked=Workbench.needs_permission)
        yield PaneSplit(self.composer)
        yield StatusBar().data_bind(status=Workbench.session_status)
        yield KeyBar()

    def set_interval(
        self,
        interval: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        repeat: int = 0,
        pause: bool = False,
    ) -> Timer:
        """Start a timer; Textual's repaint timer runs faster here, to shorten the delay after a key."""
        interval = interval / _REPAINTS_PER_TICK if name == "screen_update" else interval
        return super().set_interval(interval, callback, name=name, repeat=repeat, pause=pause)

    def render_lines(self, crop: Region) -> list[Strip]:
        return background_strips(self, crop)

    def on_mount(self) -> None:
        self.set_focus(self.composer.editor)
        self.post_message(self.Ready())

    async def mount_chat(
        self, chat_area: "ChatArea", settings: "Settings", last_events: "Sequence[Event]" = ()
    ) -> None:
        """Mount the chat above the composer, with the end of a session."""
        column = self.query_one(ChatColumn)
        # While it is prepared, the chat area is beside the composer: give it the height that it will have.
        chat_area.styles.height = column.size.height - self.composer.outer_size.height
        await self._mount_off_screen(chat_area, "#front-chat", settings, column.size.width)
        if last_events:
            chat_area.pane.show_session(last_events)
        column.attach_pane(chat_area.pane)
        await self._wait_for_layout(chat_area.pane, chat_area.pane.transcript)
        self._chat_area = chat_area
        self._replace_placeholder(chat_area, "#front-chat")

    async def mount_review(self, review_area: "ReviewArea", settings: "Settings") -> None:
        """Mount the review with the waiting proposals."""
        self.pane_split.show_placeholder()
        width = self.size.width if self.has_class("-narrow") else self.pane_split.review_width
        review_area.styles.width = width
        await self._mount_off_screen(review_area, "#front-review", settings, width)
        self._review_area = review_area
        review_area.review.set_question_pending(self.session_status.asks == "question")
        self.show_proposals(self._proposals)
        calls, self._review_calls = self._review_calls, []
        for callback in calls:
            callback(review_area.review)
        await self._wait_for_layout(review_area.review, review_area.review.view)
        self._replace_placeholder(review_area, "#front-review")
        self.pane_split.set_review_share()
        from widgets.review.permission_bar import PermissionBar

        bar = PermissionBar(review_area.review, self.composer, self._has_review_beside)
        self.query_one(ChatColumn).show_question(bar)
        bar.refresh_request()
        if self._pane_after_mount is not None:
            self.show_pane(self._pane_after_mount)

    def _has_review_beside(self) -> bool:
        """Return whether the review is shown beside the chat."""
        return self.has_class("-wide") and not self.has_class("-chat-only")

    async def _mount_off_screen(
        self, side: "ChatArea | ReviewArea", place: str, settings: "Settings", width: int
    ) -> None:
        """Mount a side in its final size behind the others, off screen but for one column.

        Textual does not lay out a widget that is completely invisible.
        """
        side.styles.layer, side.styles.offset, side.styles.display = "arriving", (1 - width, 0), "block"
        side.can_focus_children = False
        front = self.query_one(place)
        assert isinstance(front.parent, Widget)
        await front.parent.mount(side, before=front)
        side.apply_settings(settings)

    async def _wait_for_layout(self, pane: Widget, view: Widget) -> None:
        """Return once all widgets of a pane know their size and the view has handled it: then one paint is enough."""
        done = asyncio.Event()

        def post_sizes() -> None:
            # Textual sends no Resize to a widget whose region was queried before the layout, as for the cursor.
            for widget in pane.walk_children(Widget, with_self=True):
                if widget.size:
                    widget.post_message(events.Resize(widget.size, widget.virtual_size, widget.container_size))
            view.call_later(done.set)

        self.call_after_refresh(post_sizes)
        await done.wait()

    def _replace_placeholder(self, side: "ChatArea | ReviewArea", place: str) -> None:
        # Set rules singly: changing a class would style all children again.
        for rule in ("layer", "offset", "width", "height", "display"):
            side.styles.clear_rule(rule)
        side.can_focus_children = True
        side.refresh(layout=True)
        self.query_one(place).remove()

    @property
    def chat(self) -> "ChatPane":
        """Return the chat; it must be mounted."""
        assert self._chat_area is not None
        return self._chat_area.pane

    @property
    def review(self) -> "ReviewPane":
        """Return the review; it must be mounted."""
        assert self._review_area is not None
        return self._review_area.review

    @property
    def awaits_review(self) -> bool:
        """Return whether something waits for the user in the review."""
        return bool(self.waiting) or self.needs_permission

    @property
    def is_in_review(self) -> bool:
        """Return whether the review has the focus."""
        return self._review_area is not None and self.review.has_review_focus

    @property
    def is_in_composer(self) -> bool:
        """Return whether the composer has the focus."""
        return self.focused is self.composer.editor

    def call_when_review_mounted(self, callback: "Callable[[ReviewPane], None]") -> None:
        """Call `callback` with the review, once it is mounted."""
        if self._review_area is None:
            self._review_calls.append(callback)
        else:
            callback(self.review)

    def update_permission_requests(self, change: "Callable[[ReviewPane], None]") -> None:
        """Add or remove a permission request in the review, and update their count in the chat."""

        def apply_change(review: "ReviewPane") -> None:
            change(review)
            self.chat.status_line.show_waiting_permissions(len(review.state.permissions.asked))

        self.call_when_review_mounted(apply_change)

    def show_proposals(self, proposals: "Sequence[Proposal]") -> None:
        """Show the waiting and the latest decided proposals."""
        self._proposals = proposals
        if self._review_area is not None:
            self.review.set_proposals(proposals)
            self._show_outcome_in_chat()
        self.waiting = sum(proposal.state.is_pending for proposal in proposals)
        self._update_review_visibility()

    # Layout

    def watch_session_status(self, status: StatusValues) -> None:
        """Update the review and the layout when the model starts or stops to wait for a permission or an answer."""
        self.needs_permission = status.asks == "permission"
        if self._review_area is not None:
            self.review.set_question_pending(status.asks == "question")
        if self.is_mounted:
            self._update_review_visibility()

    def release_review_width(self) -> None:
        """Give the chat the whole width until something waits in the review."""
        self._keeps_review = False
        self._update_review_visibility()

    def _update_review_visibility(self) -> None:
        """Show or hide the review; mount it if something waits in it or the user is there."""
        is_wanted = self.awaits_review or self.shown != "chat"
        if is_wanted:
            self.pane_split.show_placeholder()
        self._keeps_review = self._keeps_review or is_wanted
        self._set_layout_class("-chat-only", on=not self._keeps_review)
        if is_wanted and self._review_area is None:
            self.post_message(self.ReviewWanted())
        self.composer.set_review_pending(self.awaits_review)

    def _set_layout_class(self, name: str, *, on: bool) -> None:
        """Set or remove a class that decides which sides are shown.

        Style only the sides again, not the widgets in them: the class does not affect those, and styling them would
        delay a key.
        """
        if on != self.has_class(name):
            self.set_class(on, name, update=False)
            self.app.stylesheet.update_nodes(self.pane_split.children)

    def show_review_problem(self, problem: str) -> None:
        """Show a problem in the review, if it is mounted."""
        if self._review_area is not None:
            self.review.show_outcome(problem, problem=True)

    def apply_settings(self, settings: "Settings") -> None:
        """Apply the settings to both sides."""
        self.composer.set_vim(settings.vim)
        for side in (self._chat_area, self._review_area):
            if side is not None:
                side.apply_settings(settings)

    def enter_review(self, pane: Pane) -> None:
        """Show a pane of the review after Enter; keys decide nothing during the grace period that this starts."""
        self.show_pane(pane)
        if self._review_area is not None:
            self.review.restart_grace_period("Enter brought you here just now. Look, then press the key again.")

    def set_full_screen(self, on: bool) -> None:
        """Show the review on the whole screen, or beside the chat again."""
        self.set_class(on, "-review-only")

    def show_pane(self, pane: Pane) -> None:
        """Show and focus a pane; if it is not mounted, do it after mounting."""
        self._pane_after_mount = None
        if self._review_area is None and pane != "chat":
            self._pane_after_mount = pane
            self.post_message(self.ReviewWanted())
            return
        if self._chat_area is None:
            return
        if pane != "diff" and self.has_class("-review-only"):
            self.review.action_full_screen()
            self.set_full_screen(False)
        self._set_layout_class("show-review", on=pane != "chat")
        self.shown = pane
        self._update_review_visibility()
        if self._review_area is not None:
            self._review_area.keep_user_focus()
        match pane:
            case "chat":
                self.chat.focus_composer()
                self._show_outcome_in_chat()
            case "diff":
                self.set_focus(self.review.view)
            case "approvals":
                self.set_focus(self.review.approval_pane.queue)

    def _show_outcome_in_chat(self) -> None:
        """Show the outcome of the last decision above the composer where the chat hides the review."""
        if self._review_area is not None and self._chat_area is not None and self.shown == "chat":
            is_hidden = self.has_class("-narrow")
            self.chat.status_line.show_outcome(*self.review.approval_pane.decision_outcome if is_hidden else ("", ""))

    @on(events.ScreenResume)
    def require_repaint(self) -> None:
        """Ignore decision keys until the next paint: a dialog or a shell covered the screen."""
        if self._review_area is not None:
            self.review.require_repaint()
            self.query_one(ChatColumn).require_repaint()

    @on(events.ScreenSuspend)
    def hide_notifications(self) -> None:
        """Hide the notifications; Textual shows them on the screen in front, and here again when this one resumes."""
        self.query("ToastRack").set(display=False)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Select the tab of the focused pane."""
        ancestors = event.widget.ancestors_with_self
        if self.composer in ancestors or self._chat_area in ancestors:
            self.shown = "chat"
        elif self._review_area in ancestors:
            self.shown = "approvals" if self.review.approval_pane in ancestors else "diff"
        # Also while all panes are shown: when the terminal becomes narrow, the focused pane must stay visible.
        self._set_layout_class("show-review", on=self.shown != "chat")
        self._update_review_visibility()

    def action_next_pane(self, step: int) -> None:
        """Focus the next widget, or the next pane where only one is shown; between transcript and composer first."""
        is_within_chat = self.shown == "chat" and self.is_in_composer == (step < 0)
        if self.has_class("-narrow") and not is_within_chat:
            self.show_pane(PANES[(PANES.index(self.shown) + step) % len(PANES)])
        elif step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    # Handlers by name: their message classes are imported after the first paint.

    def on_full_screen_wanted(self, event: "review_messages.FullScreenWanted") -> None:
        """Show the review on the whole screen, or beside the chat again."""
        self.set_full_screen(event.on)

    def on_review_resize_wanted(self, event: "review_messages.ReviewResizeWanted") -> None:
        """Make the review wider or narrower."""
        self.pane_split.grow_review(event.steps)

    def on_chat_pane_turn_finished(self) -> None:
        """Mark the chat's tab as unread if it is not shown."""
        self.tabs.mark_unread()

    @on(Composer.EmptySubmitted)
    def go_to_next_waiting(self) -> None:
        """Go to the next waiting item after Enter in the empty composer; decides nothing."""
        if not self.awaits_review or self._review_area is None or self.chat.has_question:
            return
        self.enter_review("diff")

    @on(PaneTabs.Chosen)
    def follow_tab(self, event: PaneTabs.Chosen) -> None:
        """Show the pane of the clicked tab."""
        self.show_pane(event.pane)
