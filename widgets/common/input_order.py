"""Delivers keys, pastes and clicks in order: each waits until the one before it has been handled.

Textual posts a key to the queue of whatever has the focus at that moment, and takes the next. What the key does (it
moves the focus, opens a dialog, closes a field) is done later, in other queues, so that keys which come in one read
would all go to the widget that the first of them leaves.

Here each one is followed: a callback goes up from the widget that got it to the app, through the queue of every
widget on the way, and so comes behind the key and behind the messages that the key gave rise to. It goes again until
it has met nothing on its way. There is no time in it but the patience with a handler that does not come back.

A letter after a letter, both for the same field, waits for nothing: it stands behind it in one queue, and where much
is going on it takes ten rounds until nothing is met.

A terminal without bracketed paste delivers a pasted text as keys, and most words have a letter that decides something
in the review. What a person types comes one key at a time, except over a slow link, and there nobody has seen on the
screen what the first of several keys did. So characters that came together in one read are marked
(`mark_joined_keys`): they may move and write, but decide nothing. A key that no text contains, such as F3 or an
arrow, parts them: before and after it they are counted apart. Of a long text, only the first characters are delivered
where nothing is written: each takes milliseconds, and the keys behind it would wait.
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


class OnScreenClock:
    """Knows since when the current state has been on the screen, in the clock of input events."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._gained = asyncio.Event()

    def mark_not_painted(self) -> None:
        """Mark the state as not on the screen: it changed, lost the focus, or is covered."""
        self._since = None
        self._gained.clear()

    def mark_painted(self) -> None:
        """Mark the state as painted now."""
        if self._since is None:
            self._since = time.monotonic()
            self._gained.set()

    async def wait_until_on_screen(self, seconds: float) -> None:
        """Return once the state is on the screen, or after a number of seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gained.wait(), seconds)

    def was_on_screen_at(self, moment: float) -> bool:
        """Return whether the state was on the screen at a moment."""
        return self._since is not None and self._since <= moment


InputEvent = events.InputEvent | events.Paste | events.AppFocus | events.AppBlur
"""Input events; leaving the terminal and coming back count too, since they move the focus."""

_ROUNDS = 12
"""Ways up, at most: more than any key of ours needs, in case that messages of others never cease."""
_LOOK = 0.05
"""Seconds between two looks at whether it still goes on."""
_LOOKS = 20
"""Looks, on a loop that is not held up, after which a handler that has not come back is not waited for."""
_PAINTED = 0.01
"""Seconds after which what the user did is on the screen."""
_HELD_UP = 0.1
"""Seconds after which a large change goes on, however fast somebody types."""
_QUIET = 1.0
"""Seconds without input after which the user pauses."""
_LONGEST_WAIT = 10.0
"""Seconds that work waits for such a pause."""
JOINED_KEYS_MESSAGE = "Several keys came at once, so nothing was decided. Press the key again."
"""Says why a key that decides did nothing."""
_IN_TEXTS = frozenset(("enter", "tab", "ctrl+j"))
"""Keys without a printable character that a pasted text consists of, too."""


_DELIVERED = 64
"""Characters of one read that are delivered outside a text field."""


class JoinedKey(events.Key):
    """A key that arrived in one read with other characters."""

    is_beyond_limit = False
    """Whether so many came before it in this read that it is delivered to a text field only."""


# Textual finds the handlers of a message by this name, which it derives from the name of the class.
JoinedKey.handler_name = events.Key.handler_name


def mark_joined_keys(read_messages: Iterable[Message]) -> list[Message]:
    """Return the events of one read, with joined keys as `JoinedKey`."""
    messages = list(read_messages)
    run: list[tuple[int, events.Key]] = []
    runs = [run]
    for at, message in enumerate(messages):
        if isinstance(message, events.Key) and (message.is_printable or message.key in _IN_TEXTS):
            run.append((at, message))
        elif isinstance(message, events.Key | events.Paste):
            runs.append(run := [])
    for run in runs:
        for number, (at, key) in enumerate(run if len(run) > 1 else ()):
            messages[at] = joined = JoinedKey(key.key, key.character)
            joined.time = key.time
            joined.is_beyond_limit = number >= _DELIVERED
    return messages


class InputOrder:
    """Queues the user's input and delivers each event after the one before it has been handled.

    Args:
        app: Whose input it is.
        deliver: Handles an event in its turn; always called from the app's own task.
    """

    def __init__(self, app: App[Any], deliver: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._deliver = deliver
        self._waiting: deque[events.Event] = deque()
        self._followed: EventFollower | None = None
        self._event: events.Event | None = None
        """The event that is being handled."""
        self._done = asyncio.Event()
        """Set while nothing is in hand."""
        self._done.set()
        self._done_at = -math.inf
        """Since when, in monotonic seconds."""

    @property
    def arrival_time(self) -> float:
        """Return when the current input arrived, in monotonic seconds; now if there is none."""
        return time.monotonic() if self._event is None else self._event.time

    @property
    def is_handling(self) -> bool:
        """Return whether input is being handled."""
        return self._event is not None

    @property
    def is_key_joined(self) -> bool:
        """Return whether the current input is a key that arrived with other characters."""
        return isinstance(self._event, JoinedKey)

    async def wait_until_painted(self) -> None:
        """Return once the effect of the input is on the screen; call it before a large change."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HELD_UP):
                await self._done.wait()
                await asyncio.sleep(self._done_at + _PAINTED - time.monotonic())

    async def wait_for_quiet(self) -> None:
        """Return once there was no input for a second, or after ten seconds of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT):
                while (rest := self._done_at + _QUIET - time.monotonic()) > 0:
                    await asyncio.sleep(rest)
                    await self._done.wait()

    @staticmethod
    def is_undelivered_input(event: events.Event) -> bool:
        """Return whether an event is input that was not delivered yet."""
        return isinstance(event, InputEvent) and not event.is_forwarded

    async def queue_event(self, event: events.Event) -> None:
        """Queue an event; deliver it now or in its turn."""
        self._waiting.append(event)
        await self._begin()

    def press_key(self, key: str) -> None:
        """Press a key as part of the current input, such as a click: before any later input."""
        event = events.Key(key, None)
        event.time = self.arrival_time
        self._waiting.appendleft(event)
        self._app.call_later(self._begin)

    async def _begin(self) -> None:
        if self._followed is None or self._writes_on(self._followed):
            await self._hand_on()

    def _writes_on(self, before: "EventFollower") -> bool:
        """Return whether the next event is a letter for the field that just got one."""
        if not before.ready or not _is_letter(before.event) or not _is_letter(self._waiting[0]):
            return False
        field = self._app.focused if self._app.screen_stack else None
        return isinstance(field, TextArea) and field is before.focused

    def _goes_to_field(self) -> bool:
        """Return whether a key would be written."""
        focused = self._app.focused if self._app.screen_stack else None
        return isinstance(focused, TextArea | InputField)

    async def _hand_on(self) -> None:
        """Deliver the next event; called by the app's own task only."""
        if self._followed is not None:
            self._followed.stop()
        self._followed = None
        while self._waiting:
            event = self._waiting[0]
            if isinstance(event, JoinedKey) and event.is_beyond_limit and not self._goes_to_field():
                self._waiting.popleft()
                continue
            self._event = event
            self._done.clear()
            self._followed = followed = EventFollower(self._app, event, self._hand_on)
            if followed.ready:
                self._waiting.popleft()
                await self._deliver(event)
            if not followed.ready or not isinstance(event, events.MouseMove):
                followed.start()
                if not self._waiting or not self._writes_on(followed):
                    return
                followed.stop()
            self._followed = None
        self._event = None
        self._done_at = time.monotonic()
        self._done.set()


def _is_letter(event: events.Event) -> bool:
    # A digit may choose from a list, whose next key is for what comes of that.
    return isinstance(event, events.Key) and event.is_printable and not event.key.isdigit()


class OrderedApp(App[None]):
    """An app that delivers input through an `InputOrder`."""

    def __init__(self) -> None:
        super().__init__()
        self.input = InputOrder(self, super().on_event)

    async def on_event(self, event: events.Event) -> None:
        """Queue the user's input; handle all other events at once."""
        if isinstance(event, InputEvent) and not self.screen_stack:
            # A key that comes when the screens are already closed is nobody's, nor one that a widget passes on then.
            return
        if self.input.is_undelivered_input(event):
            await self.input.queue_event(event)
        else:
            await super().on_event(event)

    def simulate_key(self, key: str) -> None:
        """Press a key for the user, who clicked its hint."""
        self.input.press_key(key)


def input_arrival_time(app: App[Any]) -> float:
    """Return when the input that the app is handling arrived, in monotonic seconds."""
    return app.input.arrival_time if isinstance(app, OrderedApp) else time.monotonic()


def is_joined_input(app: App[Any]) -> bool:
    """Return whether the key that the app is handling arrived with other characters."""
    return isinstance(app, OrderedApp) and app.input.is_key_joined


async def wait_until_input_painted(app: App[Any]) -> None:
    """Return once the effect of the user's input is on the screen; call it before a large change."""
    if isinstance(app, OrderedApp):
        await app.input.wait_until_painted()


async def wait_for_typing_pause(app: App[Any]) -> None:
    """Return once the user of an app pauses; call it before work that takes the processor."""
    if isinstance(app, OrderedApp):
        await app.input.wait_for_quiet()


def is_handling_input(app: App[Any]) -> bool:
    """Return whether an app is handling input."""
    return isinstance(app, OrderedApp) and app.input.is_handling


class EventFollower:
    """Follows one event until everything that it caused is done.

    Args:
        done: Called once, from the app's own task.
    """

    def __init__(self, app: App[Any], event: events.Event, done: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._done = done
        self.event = event
        self.focused = app.focused if app.screen_stack else None
        """The widget that had the focus when the event arrived."""
        self._pointer = (event.x, event.y) if isinstance(event, events.MouseEvent) else None
        self._concerned = dict.fromkeys(self._targets())
        self._rest: list[DOMNode] = []
        self._at: DOMNode | None = app
        """Where it is on its way up; None at the end."""
        self._met = False
        self._rounds = self._looks = 0
        self._look: asyncio.TimerHandle | None = None
        self.ready = all(not isinstance(node, Widget) or node.is_mounted for node in self._concerned)
        """Whether the event has somewhere to go: a screen may be in front before it has its widgets."""

    def _targets(self) -> Iterator[DOMNode]:
        """Return the receivers of an event: the focused widget, or the one under the mouse."""
        with contextlib.suppress(ScreenStackError, NoWidget):
            yield self._app.focused or self._app.screen
            if self._pointer is not None:
                yield self._app.mouse_captured or self._app.get_widget_at(*self._pointer)[0]

    def start(self) -> None:
        """Start at the node, and again at the focused widget."""
        self._concerned |= dict.fromkeys(self._targets())
        paths = [path for node in self._concerned if (path := node.ancestors_with_self)[-1] is self._app]
        depths = {node: depth for path in paths for depth, node in enumerate(reversed(path))}
        self._rest = sorted(depths, key=depths.__getitem__) or [self._app]
        self._met = False
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_after)
        self._go_on()

    def _go_on(self) -> None:
        while self._rest:
            self._at = node = self._rest.pop()
            self._met |= bool(node.message_queue_size)
            # Of what `call_later` wraps Textual looks through the signature, at each node of each key.
            if node.post_message(events.Callback(_Visit(self, node).over)):
                return

    async def record_handled(self, node: DOMNode) -> None:
        """Record that a node has handled the event, or its messages."""
        if node is not self._at:
            return
        self._met |= bool(node.message_queue_size)
        if self._rest:
            self._go_on()
            return
        self._rounds += 1
        if self._met and self._rounds < _ROUNDS:
            self.start()
        else:
            await self._end()

    def _look_after(self) -> None:
        """Skip removed widgets, and give up on one that is busy for too long."""
        self._looks += 1
        self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_after)
        if self._looks == _LOOKS:
            self._app.call_later(self._end)
        elif self._at is not None and not self._at.is_running:
            self._go_on()

    def stop(self) -> None:
        """Stop following."""
        self._at = None
        if self._look is not None:
            self._look.cancel()

    async def _end(self) -> None:
        if self._at is not None:
            self.stop()
            await self._done()


class _Visit(NamedTuple):
    """An event that is followed, at a node."""

    followed: EventFollower
    node: DOMNode

    async def over(self) -> None:
        """The node has come to it."""
        await self.followed.record_handled(self.node)
