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

from app.keys.actions import actions_in_scope
from app.keys.keymap import effective_keys, first_key_name
from app.review.review_state import ReviewState
from app.tools.base.contract import PermissionRequest
from widgets.chat.chat_column import ComposerQuestionBar
from widgets.chat.composer import Composer
from widgets.common.input_order import JOINED_KEYS_MESSAGE, JoinedKey, OnScreenClock, input_arrival_time
from widgets.common.key_hints import ClickTargets
from widgets.diff.display_cells import wrap_words
from widgets.review.decision_keys import GracePeriod, is_action_available
from widgets.review.review import ReviewPane
from widgets.review.review_wording import (
    ACTION_META_KEY,
    QUIET_STYLE,
    describe_permission_scope,
    describe_request_folder,
    make_chip,
    safe_content,
)

ALONE_SECONDS = 0.6
"""Seconds without another key after which a key answers."""

_ANSWERS = ("approve", "deny", "allow_session")
_WORDS = {"changes": ("stage all", "throw away"), "ignored": ("write it", "throw away")}
"""Labels of yes and no for kinds of requests that do not use "allow once" and "deny"."""
_SHARE = 0.4
"""Maximum share of the terminal's height for the request."""
_TOO_EARLY = "It came before this was on the screen."
_WRITING = "You were writing just before it."
_TOO_LONG = "Not all of it has room here."


class _Typed(NamedTuple):
    """A key that will answer unless another key follows."""

    action: str
    character: str
    key: str
    """Key of the permission request."""
    timer: asyncio.TimerHandle


class PermissionBar(ComposerQuestionBar, ClickTargets):
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
        self._typed: _Typed | None = None
        self._why_not = ""
        """Why the last key that could have answered became text."""
        self._elsewhere = False
        """Whether the review shows the whole request, so that the bar can be short."""
        self.guard = GracePeriod(clock)
        """Its subject is what an answer would apply to."""
        self.sight = OnScreenClock()
        """Whether the current request was on the screen."""
        composer.editor.before_key = self._take
        review.drawn = self.refresh_request

    @property
    def _shown(self) -> tuple[str, PermissionRequest] | None:
        """Return the key and the oldest permission request; None if there is none."""
        return next(iter(self._state.permissions.asked.items()), None)

    def refresh_request(self) -> None:
        """Show the current request, or hide the bar."""
        shown = self._shown
        self._elsewhere = shown is not None and self._is_beside() and self._review.shows_whole_request(shown[0])
        form = None if shown is None else self._state.permissions.selected_form(shown[0])
        if self.guard.set_subject((shown, form, self._elsewhere)):
            self._forget()
            self.sight.mark_not_painted()
        if (shown is not None) != bool(self.display):
            self.display = shown is not None
        self.refresh(layout=True)

    def require_repaint(self) -> None:
        """Ignore keys until the request has been painted again."""
        self.sight.mark_not_painted()
        self.refresh()

    def handle_text_change(self) -> None:
        """Show or hide the keys, because the composer's text has changed."""
        if self._composer.is_empty:
            self._why_not = ""
        if self._shown is not None:
            self.refresh(layout=True)

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the whole request."""
        return len(self._lines(width))

    def render(self) -> Content:
        """Return the request and the keys that answer it."""
        return Content("\n").join(self._lines(self.content_size.width))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines; if the whole bar is drawn, record that the user can see it."""
        strips = super().render_lines(crop)
        if crop.height >= self.outer_size.height > 0:
            self.sight.mark_painted()
        return strips

    def on_resize(self) -> None:
        """Redraw for the new size."""
        self.sight.mark_not_painted()
        self.refresh()

    def _lines(self, width: int) -> list[Content]:
        if self._shown is None or width < 1:
            return []
        key, asked = self._shown
        where = "" if asked.kind == "server" else f"  in {describe_request_folder(asked)}"
        title = Content.assemble(safe_content(asked.title, "bold"), (where, QUIET_STYLE))
        detail = [] if self._elsewhere else self._detail(asked, width)
        notes = [] if self._elsewhere else [safe_content(note, QUIET_STYLE) for note in asked.notes[:1]]
        return [title, *detail, *notes, *self._keys(key, asked, width)]

    def _detail(self, asked: PermissionRequest, width: int) -> list[Content]:
        rows = wrap_words(asked.detail, max(2, width - 2))
        most = self._most_rows
        shown = rows if len(rows) <= most else rows[: most - 1]
        lines = [Content.styled(f"  {row}", "bold $text-warning") for row in shown]
        if len(shown) < len(rows):
            lines.append(Content.styled(f"  … {len(rows) - len(shown)} more lines", QUIET_STYLE))
        return lines

    @property
    def _most_rows(self) -> int:
        return max(2, int(self.app.size.height * _SHARE) - 3)

    @property
    def _is_cut(self) -> bool:
        shown = self._shown
        if shown is None or self._elsewhere:
            return False
        return len(wrap_words(shown[1].detail, max(2, self.content_size.width - 2))) > self._most_rows

    def _keys(self, key: str, asked: PermissionRequest, width: int) -> list[Content]:
        review = first_key_name("app.focus_approvals", self._review.keymap)
        yes, no = _WORDS.get(asked.kind, ("allow once", "deny"))
        words = {"approve": yes, "deny": no, "allow_session": "allow for this session"}
        if self._typed is not None:
            said = words[self._typed.action].capitalize()
            return [Content.styled(f"{said}, unless another key follows.", "bold $text-warning")]
        if not self._composer.is_empty:
            why = f"{self._why_not} " if self._why_not else ""
            said = f"{why}Keys answer while nothing is written here; {review} leads to the review."
            return [safe_content(line, QUIET_STYLE) for line in wrap_words(said, width)]
        lasting = self._can("allow_session") and not self._is_cut
        offered = [("approve", "$success"), ("deny", "$error"), ("allow_session", "$success")]
        dead = {"approve"} if self._is_cut else set()
        dead |= set() if lasting else {"allow_session"}
        key_of = self._review.key_of_action
        chips = [make_chip(key_of, one, words[one], colour) for one, colour in offered if one not in dead]
        form = self._state.permissions.selected_form(key)
        lines = [Content("   ").join(chips)]
        if lasting and form is not None:
            lines.append(
                Content.assemble(
                    (f"{key_of('allow_session')} allows ", QUIET_STYLE), describe_permission_scope(asked, form)
                )
            )
        if self._is_cut:
            lines.append(Content.styled(f"{_TOO_LONG} {review} shows it, and takes a yes.", QUIET_STYLE))
        return [line.truncate(width, ellipsis=True) for line in lines]

    def _keys_of(self, action: str) -> Sequence[str]:
        return effective_keys(
            next(one for one in actions_in_scope("review") if one.handler == action), self._review.keymap
        )

    def _can(self, action: str) -> bool:
        """Return whether an action can answer the request."""
        shown = self._shown
        if shown is None:
            return False
        of_this = ReviewState(permissions=self._state.permissions, current=shown[0])
        return is_action_available(action, of_this, None)

    # Keys

    def _take(self, event: events.Key) -> bool:
        """Check a key of the composer before it is written; return True to drop the key."""
        if self._typed is not None:
            if event.key == "enter":
                # Enter would send the key as a message.
                return True
            self._forget()
        elif (shown := self._shown) is not None and (action := self._answer_of(event)):
            self._why_not = self._why_text(event, action)
            if not self._why_not:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(self.alone_seconds, self.call_later, self._decide)
                self._typed = _Typed(action, event.character or "", shown[0], timer)
                self.refresh(layout=True)
        return False

    def _answer_of(self, event: events.Key) -> str:
        """Return the action for a key; empty if the key cannot answer."""
        vim = self._composer.editor.vim
        if not self._composer.is_empty or not event.is_printable or (vim is not None and not vim.is_inserting):
            return ""
        names = {event.key, event.character}
        return next((one for one in _ANSWERS if self._can(one) and not names.isdisjoint(self._keys_of(one))), "")

    def _why_text(self, event: events.Key, action: str) -> str:
        """Return why a key is treated as text; empty if it may answer."""
        if isinstance(event, JoinedKey):
            return JOINED_KEYS_MESSAGE
        if not self._composer.editor.is_quiet:
            return _WRITING
        if action != "deny" and self._is_cut:
            return _TOO_LONG
        if not self.guard.is_over:
            return self.guard.why
        return "" if self._is_seen else _TOO_EARLY

    @property
    def _is_seen(self) -> bool:
        """Return whether the whole request was on the screen when the key or click came."""
        came = input_arrival_time(self.app)
        return self.sight.was_on_screen_at(came) and (
            not self._elsewhere or self._review.readiness.picture_clock.was_on_screen_at(came)
        )

    def _decide(self) -> None:
        """Answer the request, because no other key followed."""
        typed, editor = self._typed, self._composer.editor
        self._forget()
        if typed is None or self._shown is None or self._shown[0] != typed.key:
            return
        if editor.text == typed.character and editor.has_focus and self.app.screen is self.screen:
            self._composer.draft = ""
            self._review.answer_by_name(typed.key, typed.action)

    def _forget(self) -> None:
        if self._typed is not None:
            self._typed.timer.cancel()
            self._typed = None
            self.refresh(layout=True)

    # Mouse

    def target_at(self, event: events.MouseEvent) -> str | None:
        """Return the action of the chip under the mouse."""
        return event.style.meta.get(ACTION_META_KEY)

    async def click_target(self, target: str) -> None:
        """Answer at once, if the request was on the screen for long enough."""
        if (shown := self._shown) is not None and self.guard.is_over and self._is_seen:
            self._review.answer_by_name(shown[0], target)
