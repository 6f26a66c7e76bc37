"""What a session says faster than the screen can show it: kept until the screen takes it, slice by slice."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from app.ui.means import Job

if TYPE_CHECKING:
    from app.agent.updates import Update

_SLICE = 0.004
"""Seconds of work on updates after which keys go first."""
_REST = 0.004
"""Seconds for them."""


class Inbox:
    """The updates of a session that the screen has not taken yet.

    A model or a command may say thousands of things in a second. Were each a message of its own, a key would stand
    behind all of them in the app's queue. So the screen is told once that there is something, and takes what there is
    time for.
    """

    def __init__(self, tell: Callable[[], bool]) -> None:
        """`tell` says that there is something to take, and returns whether it will be heard."""
        self._tell = tell
        self._told = False
        self._held = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._updates: list[Update] = []
        self._taken: deque[Update] = deque()
        """Those of which a slice was shown, what belongs together in one."""

    def put(self, update: "Update") -> None:
        """Add an update, from whichever of the session's tasks."""
        self._updates.append(update)
        if not self._told:
            self._tell_screen()

    def take(self) -> "Iterator[Update]":
        """The updates in their order, what belongs together in one, and no more than there is time for at once."""
        from app.agent.updates import joined

        self._taken.extend(joined(self._updates))
        self._updates = []
        end = time.thread_time() + _SLICE
        while self._taken and not self._held and time.thread_time() < end:
            yield self._taken.popleft()
        if not self._held:
            self._go_on()

    def hold(self, meanwhile: Job) -> Job:
        """Give no more before something is done: what is said later builds on it.

        The app does not wait for it in its queue, where keys would wait, too. Returns what has to be begun for that.
        """
        self._held = True

        async def do() -> None:
            try:
                await meanwhile()
            finally:
                self._held = False
                self._go_on()

        return do

    def _go_on(self) -> None:
        if self._taken or self._updates:
            asyncio.get_running_loop().call_later(_REST, self._tell_screen)
        else:
            self._told = False
            self._idle.set()

    def _tell_screen(self) -> None:
        self._told = self._tell()
        if self._told:
            self._idle.clear()
        else:
            self._idle.set()

    async def emptied(self) -> None:
        """Return once all that was said is shown, or nobody hears it any more."""
        await self._idle.wait()
