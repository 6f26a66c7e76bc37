"""Delivers keys, pastes and clicks in order: each waits until the one before it is handled completely.

Textual posts a key to the queue of the focused widget, and immediately takes the next key. The effect of the key (it
moves the focus, opens a dialog, closes a field) happens later, in other queues. Without this module, all keys of one
read would go to the widget that the first key leaves.

Here, each event is followed: a callback goes from the widget that got it up to the app, through the queue of each
widget on the way. It arrives there after the event and after the messages that the event caused. The callback repeats
this until all queues on the way are empty. The only time limit is for a handler that does not return.

A letter that follows a letter for the same field does not wait: both are in the same queue, and in a busy app it
would take ten rounds until all queues are empty.

A terminal without bracketed paste delivers pasted text as keys, and most words contain a decision key of the review.
A person's keys arrive one by one, except over a slow link, where the user cannot yet have seen the effect of the
first one. Therefore, characters that arrive together in one read are marked (`mark_burst_keys`): they can move and
write, but decide nothing. A key that is never part of a text, like F3 or an arrow, separates them into groups.
An escape character and a character are one key in most fields, since Alt sends the same (`AltKey`).
Outside of text fields, only the first characters of a long text are delivered: each takes milliseconds, and later
keys would wait for them.
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple

from textual import events
from textual.app import App, ScreenStackError
from textual.dom import DOMNode
from textual.errors import NoWidget
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input as InputField
from textual.widgets import TextArea


class OnScreenSinceTracker:
    """Records since when the current state has been on the screen; tells whether it was there at a moment."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._on_screen = asyncio.Event()

    def mark_not_painted(self) -> None:
        """Mark the state as not on the screen: it changed, lost the focus, or is covered."""
        self._since = None
        self._on_screen.clear()

    def mark_painted(self) -> None:
        """Mark the state as painted now."""
        if self._since is None:
            self._since = time.monotonic()
            self._on_screen.set()

    async def wait_until_on_screen(self, seconds: float) -> None:
        """Return when the state is on the screen, or after a number of seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._on_screen.wait(), seconds)

    def was_on_screen_at(self, moment: float) -> bool:
        """Return whether the state was on the screen at a moment."""
        return self._since is not None and self._since <= moment


InputEvent = events.InputEvent | events.Paste | events.AppFocus | events.AppBlur
"""Input events; entering and leaving the terminal count too, because they move the focus."""

_MAX_ROUNDS = 12
"""Maximum number of rounds; more than any key of the app needs, in case that other messages never stop."""
_CHECK_SECONDS = 0.05
"""Seconds between two checks of a busy handler."""
_MAX_CHECKS = 20
"""Number of checks, on a running event loop, after which a handler is no longer awaited."""
_PAINT_SECONDS = 0.01
"""Seconds until the effect of an input is on the screen."""
_MAX_HOLD_SECONDS = 0.1
"""Maximum seconds that a large change waits while the user types."""
_PAUSE_SECONDS = 1.0
"""Seconds without input that count as a pause."""
_MAX_PAUSE_WAIT_SECONDS = 10.0
"""Maximum seconds that work waits for a pause."""
KEY_BURST_MESSAGE = "Several keys came at once, so nothing was decided. Press the key again."
"""Shown when a decision key was ignored."""
_TEXT_KEYS = frozenset(("enter", "tab", "ctrl+j"))
"""Non-printable keys that can be part of a pasted text."""


_MAX_DELIVERED_CHARACTERS = 64
"""Maximum characters of one read that are delivered outside of a text field."""


class PossiblyPastedKey(events.Key):
    """A key of a burst: it arrived in one read with other characters, so it may be part of a paste."""

    is_beyond_limit = False
    """Whether it exceeds the limit of its read, so that it is delivered to a text field only."""


# Textual finds the handlers of a message by this name, which it derives from the class name.
PossiblyPastedKey.handler_name = events.Key.handler_name


class AltKey(events.Key):
    """A key that the terminal sent as an escape character and a character: Alt, or Escape and a key in one read.

    Args:
        key: The key with Alt.
        plain_key: The key that follows Escape in a field with `splits_alt_keys`.
    """

    def __init__(self, key: events.Key, plain_key: events.Key) -> None:
        super().__init__(key.key, key.character)
        self.plain_key = plain_key

    def split(self) -> tuple[events.Key, PossiblyPastedKey]:
        """Return Escape and the key after it."""
        escape, key = events.Key("escape", "\x1b"), PossiblyPastedKey(self.plain_key.key, self.plain_key.character)
        escape.time = key.time = self.time
        return escape, key


class _PossiblyPastedAltKey(AltKey, PossiblyPastedKey):
    """An `AltKey` that arrived in one read with other characters."""


AltKey.handler_name = _PossiblyPastedAltKey.handler_name = events.Key.handler_name


def mark_burst_keys(read_messages: Iterable[Message]) -> list[Message]:
    """Return the events of one read, with the keys of a burst as `PossiblyPastedKey`."""
    messages = list(read_messages)
    run: list[tuple[int, events.Key]] = []
    runs = [run]
    for index, message in enumerate(messages):
        if isinstance(message, AltKey) or (
            isinstance(message, events.Key) and (message.is_printable or message.key in _TEXT_KEYS)
        ):
            run.append((index, message))
        elif isinstance(message, events.Key | events.Paste):
            runs.append(run := [])
    for run in runs:
        for number, (index, key) in enumerate(run if len(run) > 1 else ()):
            messages[index] = burst_key = _make_possibly_pasted_key(key)
            burst_key.is_beyond_limit = number >= _MAX_DELIVERED_CHARACTERS
    return messages


def neutralize_possible_paste(messages: Iterable[Message]) -> list[Message]:
    """Return the events of a read that may be part of a paste: characters as `PossiblyPastedKey`, no mouse clicks.

    A pasted text can contain the end mark of a bracketed paste, and after it the sequences of keys and of a click.
    """
    return [
        _make_possibly_pasted_key(message)
        if isinstance(message, events.Key) and message.is_printable and not isinstance(message, PossiblyPastedKey)
        else message
        for message in messages
        if not isinstance(message, events.MouseDown)
    ]


def _make_possibly_pasted_key(key: events.Key) -> PossiblyPastedKey:
    if isinstance(key, AltKey):
        marked: PossiblyPastedKey = _PossiblyPastedAltKey(key, key.plain_key)
    else:
        marked = PossiblyPastedKey(key.key, key.character)
    marked.time = key.time
    return marked


class OrderedInputQueue:
    """Queues the user's input, and delivers each event after the one before it has been handled.

    Args:
        deliver: Handles an event; always called from the app's own task.
    """

    def __init__(self, app: App[Any], deliver: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._deliver = deliver
        self._waiting_events: deque[events.Event] = deque()
        self._follower: InputEventCompletionTracker | None = None
        self.current_event: events.Event | None = None
        """The event that is being handled; None if there is none."""
        self._idle = asyncio.Event()
        """Set while no input is being handled."""
        self._idle.set()
        self._handled_at = -math.inf
        """When the last input was handled, in monotonic seconds."""

    @property
    def arrival_time(self) -> float:
        """Return when the current input arrived, in monotonic seconds; now if there is none."""
        return time.monotonic() if self.current_event is None else self.current_event.time

    async def wait_until_painted(self) -> None:
        """Return when the effect of the input is on the screen; call it before a large change."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_HOLD_SECONDS):
                await self._idle.wait()
                await asyncio.sleep(self._handled_at + _PAINT_SECONDS - time.monotonic())

    async def wait_for_quiet(self) -> None:
        """Return when there was no input for a second, or after ten seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_PAUSE_WAIT_SECONDS):
                while (seconds_left := self._handled_at + _PAUSE_SECONDS - time.monotonic()) > 0:
                    await asyncio.sleep(seconds_left)
                    await self._idle.wait()

    async def queue_event(self, event: events.Event) -> None:
        """Queue an event; deliver it now or after the events before it."""
        self._waiting_events.append(event)
        await self._deliver_if_idle()

    def press_key(self, key: str) -> None:
        """Press a key as part of the current input, for example a click: before any later input."""
        event = events.Key(key, None)
        event.time = self.arrival_time
        self._waiting_events.appendleft(event)
        self._app.call_later(self._deliver_if_idle)

    async def _deliver_if_idle(self) -> None:
        if self._follower is None or self._continues_typing(self._follower):
            await self._deliver_next()

    def _continues_typing(self, before: "InputEventCompletionTracker") -> bool:
        """Return whether the next event is a letter for the field that just got one."""
        if not before.ready or not _is_letter(before.event) or not _is_letter(self._waiting_events[0]):
            return False
        field = self._app.focused if self._app.screen_stack else None
        return isinstance(field, TextArea) and field is before.focused

    def _is_field_focused(self) -> bool:
        """Return whether a text field has the focus, so that a key writes text."""
        focused = self._app.focused if self._app.screen_stack else None
        return isinstance(focused, TextArea | InputField)

    def _is_split(self, event: AltKey) -> bool:
        """Return whether a key is Escape and another key: in a field with vim's keys, unless it is bound with Alt."""
        if not self._app.screen_stack or not getattr(self._app.focused, "splits_alt_keys", False):
            return False
        return not (event.key.startswith("alt+") and event.key in self._app.screen.active_bindings)

    async def _deliver_next(self) -> None:
        """Deliver the next event; called only from the app's own task."""
        if self._follower is not None:
            self._follower.stop()
        self._follower = None
        while self._waiting_events:
            event = self._waiting_events[0]
            if isinstance(event, PossiblyPastedKey) and event.is_beyond_limit and not self._is_field_focused():
                self._waiting_events.popleft()
                continue
            if isinstance(event, AltKey) and self._is_split(event):
                self._waiting_events.popleft()
                self._waiting_events.extendleft(reversed(event.split()))
                continue
            self.current_event = event
            self._idle.clear()
            self._follower = follower = InputEventCompletionTracker(self._app, event, self._deliver_next)
            if follower.ready:
                self._waiting_events.popleft()
                await self._deliver(event)
            if not follower.ready or not isinstance(event, events.MouseMove):
                follower.start()
                if not self._waiting_events or not self._continues_typing(follower):
                    return
                follower.stop()
            self._follower = None
        self.current_event = None
        self._handled_at = time.monotonic()
        self._idle.set()


def _is_letter(event: events.Event) -> bool:
    # A digit may select from a list, and the next key is for the result of that.
    return (
        isinstance(event, events.Key)
        and event.is_printable
        and not event.key.isdigit()
        and not isinstance(event, AltKey)
    )


class OrderedInputApp(App[None]):
    """An app that handles keys, pastes and clicks in order, through an `OrderedInputQueue`."""

    def __init__(self) -> None:
        super().__init__()
        self.input = OrderedInputQueue(self, super().on_event)

    async def on_event(self, event: events.Event) -> None:
        """Queue the user's input; handle all other events at once."""
        if not isinstance(event, InputEvent):
            await super().on_event(event)
        elif self.screen_stack and not event.is_forwarded:
            await self.input.queue_event(event)
        elif self.screen_stack:
            await super().on_event(event)
        # Else the screens are already closed, so no widget can handle the input.

    def simulate_key(self, key: str) -> None:
        """Press a key for the user, who clicked its hint."""
        self.input.press_key(key)


def input_arrival_time(app: App[Any]) -> float:
    """Return when the input that the app is handling arrived, in monotonic seconds."""
    return app.input.arrival_time if isinstance(app, OrderedInputApp) else time.monotonic()


def is_burst_input(app: App[Any]) -> bool:
    """Return whether the key that the app is handling arrived with other characters."""
    return isinstance(app, OrderedInputApp) and isinstance(app.input.current_event, PossiblyPastedKey)


async def wait_until_input_painted(app: App[Any]) -> None:
    """Wait until the effect of the user's input is on the screen; call it before a large change."""
    if isinstance(app, OrderedInputApp):
        await app.input.wait_until_painted()


async def wait_for_typing_pause(app: App[Any]) -> None:
    """Wait until the user pauses typing; call it before work that needs the CPU."""
    if isinstance(app, OrderedInputApp):
        await app.input.wait_for_quiet()


def is_handling_input(app: App[Any]) -> bool:
    """Return whether an app is handling input."""
    return isinstance(app, OrderedInputApp) and app.input.current_event is not None


class InputEventCompletionTracker:
    """Follows an input event until it and everything that it caused are handled, then calls `call_done`.

    Args:
        call_done: Called once at the end, from the app's own task.
    """

    def __init__(self, app: App[Any], event: events.Event, call_done: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._call_done = call_done
        self.event = event
        self.focused = app.focused if app.screen_stack else None
        """The widget that had the focus when the event arrived."""
        self._pointer = (event.x, event.y) if isinstance(event, events.MouseEvent) else None
        self._receivers_seen = dict.fromkeys(self._receivers())
        self._nodes_left: list[DOMNode] = []
        self._current_node: DOMNode | None = app
        """The node that the callback waits for; None at the end."""
        self._has_met_messages = False
        self._round_count = self._check_count = 0
        self._check_timer: asyncio.TimerHandle | None = None
        self.ready = all(not isinstance(node, Widget) or node.is_mounted for node in self._receivers_seen)
        """Whether all receivers are mounted; a new screen may be active before it has its widgets."""

    def _receivers(self) -> Iterator[DOMNode]:
        """Yield the receivers of an event: the focused widget, and the one under the mouse."""
        with contextlib.suppress(ScreenStackError, NoWidget):
            yield self._app.focused or self._app.screen
            if self._pointer is not None:
                yield self._app.mouse_captured or self._app.get_widget_at(*self._pointer)[0]

    def start(self) -> None:
        """Start a round, from the receivers of the event and the focused widget up to the app."""
        self._receivers_seen |= dict.fromkeys(self._receivers())
        paths = [path for node in self._receivers_seen if (path := node.ancestors_with_self)[-1] is self._app]
        depths = {node: depth for path in paths for depth, node in enumerate(reversed(path))}
        self._nodes_left = sorted(depths, key=depths.__getitem__) or [self._app]
        self._has_met_messages = False
        if self._check_timer is None:
            self._check_timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check_progress)
        self._visit_next()

    def _visit_next(self) -> None:
        while self._nodes_left:
            self._current_node = node = self._nodes_left.pop()
            self._has_met_messages |= bool(node.message_queue_size)
            # `call_later` wraps the callback, and Textual would inspect the wrapper's signature at each node for each
            # key.
            if node.post_message(events.Callback(_NodeCallback(self, node).report_handled)):
                return

    async def record_handled(self, node: DOMNode) -> None:
        """Continue with the next node, because this node has handled the event and its messages."""
        if node is not self._current_node:
            return
        self._has_met_messages |= bool(node.message_queue_size)
        if self._nodes_left:
            self._visit_next()
            return
        self._round_count += 1
        if self._has_met_messages and self._round_count < _MAX_ROUNDS:
            self.start()
        else:
            await self._finish()

    def _check_progress(self) -> None:
        """Skip removed widgets, and stop waiting for a widget that is busy for too long."""
        self._check_count += 1
        self._check_timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check_progress)
        if self._check_count == _MAX_CHECKS:
            self._app.call_later(self._finish)
        elif self._current_node is not None and not self._current_node.is_running:
            self._visit_next()

    def stop(self) -> None:
        """Stop following."""
        self._current_node = None
        if self._check_timer is not None:
            self._check_timer.cancel()

    async def _finish(self) -> None:
        if self._current_node is not None:
            self.stop()
            await self._call_done()


class _NodeCallback(NamedTuple):
    """The callback of a followed event at a node."""

    follower: InputEventCompletionTracker
    node: DOMNode

    async def report_handled(self) -> None:
        """Record that the node reached the callback in its queue."""
        await self.follower.record_handled(self.node)
