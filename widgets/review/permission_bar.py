"""The permission request above the composer: while the composer is empty, three keys answer it.

Text for the composer must never answer a request. A key answers only if all of this is true: nothing was typed just
before it, no key follows it for a moment, it arrived in a separate read, and the request was on the screen for a
while before. Otherwise, the key is ordinary text.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip

from app.keys.actions import actions_in_scopes
from app.keys.keymap import effective_keys, first_key_name
from app.review.review_state import ReviewQueueState
from app.text.quantities import format_count
from app.tools.base.contract import PermissionRequest
from widgets.chat.chat_column import ComposerQuestionBarBase
from widgets.chat.composer import Composer
from widgets.common.input_order import KEY_BURST_MESSAGE, OnScreenSinceTracker, PossiblyPastedKey, input_arrival_time
from widgets.common.key_hints import ClickTargets
from widgets.diff.display_cells import wrap_into_safe_lines
from widgets.review.decision_keys import GracePeriod, is_action_available
from widgets.review.review import ReviewPane
from widgets.review.review_wording import (
    ACTION_META_KEY,
    QUIET_STYLE,
    describe_permission_scope,
    describe_request_folder,
    grant_and_deny_labels,
    make_chip,
    safe_line_content,
)

ALONE_SECONDS = 0.6
"""Seconds without another key after which a key answers."""

_ANSWERING_ACTIONS = ("approve", "deny", "allow_session")

_MAX_HEIGHT_SHARE = 0.4
"""Maximum share of the terminal's height for the request."""
_TOO_EARLY_MESSAGE = "You pressed it before this was on the screen."
_WRITING_MESSAGE = "You were writing just before it."
_TOO_LONG_MESSAGE = "It does not fit here."


class _PendingAnswer(NamedTuple):
    """A key that will answer unless another key follows."""

    action: str
    character: str
    key: str
    """Key of the permission request."""
    timer: asyncio.TimerHandle


class PermissionBar(ComposerQuestionBarBase, ClickTargets):
    """Shows the permission request and the keys that answer it from the empty composer.

    Args:
        review: Has the permission requests, and receives the answers.
        composer: The composer whose keys answer.
        is_beside: Returns whether the review is on the screen beside the chat.
        clock: Returns monotonic seconds.
    """

    DEFAULT_CSS = """
    PermissionBar {
        display: none;
        height: auto;
        padding: 0 1;
        background: $surface;
        color: $foreground;
        border-left: outer $warning;
    }
    """

    alone_seconds = ALONE_SECONDS
    """Seconds without another key after which a key answers."""

    def __init__(
        self,
        review: ReviewPane,
        composer: Composer,
        is_beside: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._review = review
        self._state = review.state
        self._composer = composer
        self._is_beside = is_beside
        self._pending_answer: _PendingAnswer | None = None
        self._reason_key_was_text = ""
        """Why the last key that could have answered became text."""
        self._is_request_in_review = False
        """Whether the review shows the whole request, so that the bar can be short."""
        self.grace_period = GracePeriod(clock)
        """Its subject is what an answer would apply to."""
        self.on_screen_clock = OnScreenSinceTracker()
        """Whether the current request was on the screen."""
        composer.editor.before_key = self._handle_composer_key
        review.after_redraw = self.refresh_request

    @property
    def _oldest_request(self) -> tuple[str, PermissionRequest] | None:
        """Return the key and the oldest permission request; None if there is none."""
        return next(iter(self._state.permissions.asked.items()), None)

    def refresh_request(self) -> None:
        """Show the current request, or hide the bar."""
        request = self._oldest_request
        self._is_request_in_review = (
            request is not None and self._is_beside() and self._review.shows_whole_request(request[0])
        )
        form = None if request is None else self._state.permissions.selected_form(request[0])
        if self.grace_period.set_subject((request, form, self._is_request_in_review)):
            self._cancel_pending_answer()
            self.on_screen_clock.mark_not_painted()
        if (request is not None) != bool(self.display):
            self.display = request is not None
        self.refresh(layout=True)

    def require_repaint(self) -> None:
        """Ignore keys until the request has been painted again."""
        self.on_screen_clock.mark_not_painted()
        self.refresh()

    def handle_text_change(self) -> None:
        """Show or hide the keys, because the composer's text has changed."""
        if self._composer.is_empty:
            self._reason_key_was_text = ""
        if self._oldest_request is not None:
            self.refresh(layout=True)

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the whole request."""
        return len(self._content_lines(width))

    def render(self) -> Content:
        """Return the request and the keys that answer it."""
        return Content("\n").join(self._content_lines(self.content_size.width))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines; if the whole bar is drawn, record that the user can see it."""
        strips = super().render_lines(crop)
        if crop.height >= self.outer_size.height > 0:
            self.on_screen_clock.mark_painted()
        return strips

    def on_resize(self) -> None:
        self.on_screen_clock.mark_not_painted()
        self.refresh()

    def _content_lines(self, width: int) -> list[Content]:
        if self._oldest_request is None or width < 1:
            return []
        key, request = self._oldest_request
        folder_text = "" if request.kind == "server" else f"  in {describe_request_folder(request)}"
        title = Content.assemble(safe_line_content(request.title, "bold"), (folder_text, QUIET_STYLE))
        detail = [] if self._is_request_in_review else self._detail_lines(request, width)
        notes = (
            [] if self._is_request_in_review else [safe_line_content(note, QUIET_STYLE) for note in request.notes[:1]]
        )
        return [title, *detail, *notes, *self._key_lines(key, request, width)]

    def _detail_lines(self, request: PermissionRequest, width: int) -> list[Content]:
        rows = wrap_into_safe_lines(request.detail, max(2, width - 2))
        max_rows = self._max_detail_rows
        shown_rows = rows if len(rows) <= max_rows else rows[: max_rows - 1]
        lines = [Content.styled(f"  {row}", "bold $text-warning") for row in shown_rows]
        if len(shown_rows) < len(rows):
            more = format_count(len(rows) - len(shown_rows), "more line")
            lines.append(Content.styled(f"  … {more}", QUIET_STYLE))
        return lines

    @property
    def _max_detail_rows(self) -> int:
        return max(2, int(self.app.size.height * _MAX_HEIGHT_SHARE) - 3)

    @property
    def _is_cut(self) -> bool:
        request = self._oldest_request
        if request is None or self._is_request_in_review:
            return False
        return (
            len(wrap_into_safe_lines(request[1].detail, max(2, self.content_size.width - 2))) > self._max_detail_rows
        )

    def _key_lines(self, key: str, request: PermissionRequest, width: int) -> list[Content]:
        review_key = first_key_name("app.focus_approvals", self._review.keymap)
        yes, no = grant_and_deny_labels(request)
        labels = {"approve": yes, "deny": no, "allow_session": "allow for this session"}
        if self._pending_answer is not None:
            label = labels[self._pending_answer.action].capitalize()
            return [Content.styled(f"{label}, unless another key follows.", "bold $text-warning")]
        if not self._composer.is_empty:
            reason = f"{self._reason_key_was_text} " if self._reason_key_was_text else ""
            text = f"{reason}The keys answer only while the composer is empty; {review_key} goes to the review."
            return [safe_line_content(line, QUIET_STYLE) for line in wrap_into_safe_lines(text, width)]
        can_last = self._can_answer("allow_session") and not self._is_cut
        colours = {} if self._is_cut else {"approve": "$success"}
        colours |= {"deny": "$error"} | ({"allow_session": "$success"} if can_last else {})
        key_of = self._review.key_of_action
        chips = [make_chip(key_of, action, labels[action], colour) for action, colour in colours.items()]
        form = self._state.permissions.selected_form(key)
        lines = [Content("   ").join(chips)]
        if can_last and form is not None:
            hint = (f"{key_of('allow_session')} allows ", QUIET_STYLE)
            lines.append(Content.assemble(hint, describe_permission_scope(request, form)))
        if self._is_cut:
            lines.append(
                Content.styled(f"{_TOO_LONG_MESSAGE} {review_key} shows all of it; allow it there.", QUIET_STYLE)
            )
        return [line.truncate(width, ellipsis=True) for line in lines]

    def _keys_for_action(self, action: str) -> Sequence[str]:
        user_action = next(item for item in actions_in_scopes("review") if item.handler == action)
        return effective_keys(user_action, self._review.keymap)

    def _can_answer(self, action: str) -> bool:
        request = self._oldest_request
        if request is None:
            return False
        request_state = ReviewQueueState(permissions=self._state.permissions, current=request[0])
        return is_action_available(action, request_state, None)

    # Keys

    def _handle_composer_key(self, event: events.Key) -> bool:
        """Check a key of the composer before it is written; return True to drop the key."""
        if self._pending_answer is not None:
            if event.key == "enter":
                # Enter would send the key as a message.
                return True
            self._cancel_pending_answer()
        elif (request := self._oldest_request) is not None and (action := self._action_for_key(event)):
            self._reason_key_was_text = self._reason_key_is_text(event, action)
            if not self._reason_key_was_text:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(self.alone_seconds, self.call_later, self._send_pending_answer)
                self._pending_answer = _PendingAnswer(action, event.character or "", request[0], timer)
                self.refresh(layout=True)
        return False

    def _action_for_key(self, event: events.Key) -> str:
        """Return the action for a key; empty if the key cannot answer."""
        vim = self._composer.editor.vim
        if not self._composer.is_empty or not event.is_printable or (vim is not None and not vim.is_inserting):
            return ""
        names = {event.key, event.character}
        for action in _ANSWERING_ACTIONS:
            if self._can_answer(action) and not names.isdisjoint(self._keys_for_action(action)):
                return action
        return ""

    def _reason_key_is_text(self, event: events.Key, action: str) -> str:
        """Return why a key is treated as text; empty if it may answer."""
        if isinstance(event, PossiblyPastedKey):
            return KEY_BURST_MESSAGE
        if not self._composer.editor.is_quiet:
            return _WRITING_MESSAGE
        if action != "deny" and self._is_cut:
            return _TOO_LONG_MESSAGE
        if not self.grace_period.is_over:
            return self.grace_period.why
        return "" if self._is_seen else _TOO_EARLY_MESSAGE

    @property
    def _is_seen(self) -> bool:
        """Return whether the whole request was on the screen when the key or click came."""
        arrived = input_arrival_time(self.app)
        return self.on_screen_clock.was_on_screen_at(arrived) and (
            not self._is_request_in_review or self._review.readiness.picture_clock.was_on_screen_at(arrived)
        )

    def _send_pending_answer(self) -> None:
        """Answer the request, because no other key followed."""
        answer, editor = self._pending_answer, self._composer.editor
        self._cancel_pending_answer()
        if answer is None or self._oldest_request is None or self._oldest_request[0] != answer.key:
            return
        if editor.text == answer.character and editor.has_focus and self.app.screen is self.screen:
            self._composer.draft = ""
            self._review.answer_by_name(answer.key, answer.action)

    def _cancel_pending_answer(self) -> None:
        if self._pending_answer is not None:
            self._pending_answer.timer.cancel()
            self._pending_answer = None
            self.refresh(layout=True)

    # Mouse

    def target_at(self, event: events.MouseEvent) -> str | None:
        """Return the action of the chip under the mouse."""
        return event.style.meta.get(ACTION_META_KEY)

    async def click_target(self, target: str) -> None:
        """Answer at once, if the request was on the screen for long enough."""
        if (request := self._oldest_request) is not None and self.grace_period.is_over and self._is_seen:
            self._review.answer_by_name(request[0], target)
