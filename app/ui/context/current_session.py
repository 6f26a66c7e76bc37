"""The session on the screen, which opens after the screen is shown and typed into."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from app.ui.context.app_context import Job

if TYPE_CHECKING:
    from app.agent.session import Session
    from app.agent.updates import Update
    from app.runtime.session_host import SessionHost
    from app.storage.session_store import SessionStore


_SLICE = 0.004
"""Seconds of work on updates after which keys go first."""
_REST = 0.004
"""Seconds for them."""


class UpdateBuffer:
    """Updates of a session that the screen has not processed yet.

    A model or a command may send thousands of updates in a second. As single messages they would delay every key in
    the app's queue. So the screen gets one message and takes as many updates as time allows.

    Args:
        wake_reader: Says that there is something to take, and returns whether it will be heard.
    """

    def __init__(self, wake_reader: Callable[[], bool]) -> None:
        self._tell = wake_reader
        self._told = False
        self._held = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._updates: list[Update] = []
        self._taken: deque[Update] = deque()
        """Merged updates, of which a slice was shown."""

    def put(self, update: "Update") -> None:
        """Add an update, from any task of the session."""
        self._updates.append(update)
        if not self._told:
            self._tell_screen()

    def take_updates(self) -> "Iterator[Update]":
        """Return the updates in order, merged, and no more than there is time for at once."""
        from app.agent.updates import merge_updates

        self._taken.extend(merge_updates(self._updates))
        self._updates = []
        end = time.thread_time() + _SLICE
        while self._taken and not self._held and time.thread_time() < end:
            yield self._taken.popleft()
        if not self._held:
            self._go_on()

    def wrap_to_pause_updates(self, job: Job) -> Job:
        """Return no more updates before `job` is done: later ones build on it.

        The app does not wait for it in its message queue, where keys would wait, too. Returns the job to start.
        """
        self._held = True

        async def do() -> None:
            try:
                await job()
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

    async def wait_until_empty(self) -> None:
        """Wait until every update is shown, or nobody processes them any more."""
        await self._idle.wait()


class ClosedSession(NamedTuple):
    """A session that the user has left."""

    id: str
    waiting: int
    """How many proposals wait."""
    is_latest: bool = True

    def with_latest_flag(self, sessions: "SessionStore") -> "ClosedSession":
        """Return the session with whether it is the latest in the store. Blocks on the disk."""
        from app.storage import StorageError

        with suppress(StorageError):
            latest = sessions.latest()
            return self._replace(is_latest=latest is None or latest.id == self.id)
        return self


class CurrentSession:
    """Holder of the open session; empty until a workspace and a session are open."""

    def __init__(self) -> None:
        self.demo = False
        """The model is the demo's."""
        self.ready = asyncio.Event()
        """Set once a workspace is attached; a session may still lack a model."""
        self.asked = asyncio.Event()
        """Set once a session is on the screen, or a question to the user stands before it."""
        self._host: SessionHost | None = None
        self._choose: Callable[[], Awaitable[None]] | None = None

    def attach(self, host: "SessionHost", choose_model: Callable[[], Awaitable[None]]) -> None:
        """Attach the workspace with its session, and a function that lets the user choose a missing model."""
        self._host, self._choose = host, choose_model
        self.ready.set()

    @property
    def host(self) -> "SessionHost":
        """Return the workspace with its session, once it is there."""
        assert self._host is not None
        return self._host

    @property
    def current(self) -> "Session | None":
        """Return the open session, if there is one."""
        return self._host.session if self._host is not None else None

    def require_session(self) -> "Session":
        """Return the open session; raises NotConnected."""
        if (session := self.current) is None:
            from app.runtime.model_connection import NotConnected

            raise NotConnected("No session is open yet: choose a model first, with /model or in /settings.")
        return session

    async def wait_until_open(self) -> None:
        """Return once a session is on the screen, or a question to the user before it."""
        await self.ready.wait()
        await self.asked.wait()

    async def wait_for_session(self) -> "Session":
        """Return the open session once there is one; the user chooses a missing model. Raises NotConnected."""
        await self.wait_until_open()
        if self.current is None and self._choose is not None:
            await self._choose()
        return self.require_session()
