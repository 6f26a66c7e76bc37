"""The session on the screen, which opens after the first paint and the first input."""

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


_SLICE_SECONDS = 0.004
"""Seconds of work on updates before waiting keys are handled."""
_PAUSE_SECONDS = 0.004
"""Seconds until the next slice of updates."""


class UpdateBuffer:
    """Updates of a session that the screen has not processed yet.

    A model or a command may send thousands of updates in a second. As single messages they would delay every key in
    the app's queue. So the screen gets one message and takes as many updates as time allows.

    Args:
        wake_reader: Posts the message that there are updates; returns whether it will be handled.
    """

    def __init__(self, wake_reader: Callable[[], bool]) -> None:
        self._wake_reader = wake_reader
        self._is_paused = False
        self._reader_asleep = asyncio.Event()
        self._reader_asleep.set()
        self._updates: list[Update] = []
        self._merged_updates: deque[Update] = deque()
        """Merged updates that are not shown yet."""

    def put(self, update: "Update") -> None:
        """Add an update; wake the screen if it is not awake."""
        self._updates.append(update)
        if self._reader_asleep.is_set():
            self._wake_screen()

    def take_updates(self) -> "Iterator[Update]":
        """Yield merged updates in order, until the time slice is used up or a job pauses the buffer."""
        from app.agent.updates import merge_updates

        self._merged_updates.extend(merge_updates(self._updates))
        self._updates = []
        end = time.thread_time() + _SLICE_SECONDS
        while self._merged_updates and not self._is_paused and time.thread_time() < end:
            yield self._merged_updates.popleft()
        if not self._is_paused:
            self._schedule_next_slice()

    def wrap_to_pause_updates(self, job: Job) -> Job:
        """Pause the buffer now, and return `job` wrapped to resume it at its end: later updates depend on the job.

        Do not await the result in a message handler, where it would delay keys; start it in the background.
        """
        self._is_paused = True

        async def run_and_resume() -> None:
            try:
                await job()
            finally:
                self._is_paused = False
                self._schedule_next_slice()

        return run_and_resume

    def _schedule_next_slice(self) -> None:
        if self._merged_updates or self._updates:
            asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._wake_screen)
        else:
            self._reader_asleep.set()

    def _wake_screen(self) -> None:
        if self._wake_reader():
            self._reader_asleep.clear()
        else:
            self._reader_asleep.set()

    async def wait_until_empty(self) -> None:
        """Return once every update is shown, or the screen no longer processes updates."""
        await self._reader_asleep.wait()


class ExitedSession(NamedTuple):
    """A session that the user has left: its id, and how many of its proposals wait."""

    id: str
    waiting: int
    """Number of proposals that wait."""
    is_latest: bool = True

    def with_latest_flag(self, sessions: "SessionStore") -> "ExitedSession":
        """Return a copy that knows whether it is the latest session of the store. Blocks on the disk."""
        from app.storage import StorageError

        with suppress(StorageError):
            latest = sessions.latest()
            return self._replace(is_latest=latest is None or latest.id == self.id)
        return self


class CurrentSession:
    """Holder of the open session; empty until a workspace and a session are open."""

    def __init__(self) -> None:
        self.is_demo = False
        """Whether the demo model answers."""
        self.workspace_attached = asyncio.Event()
        """Set once a workspace is attached; a session may still be missing."""
        self.session_or_question_shown = asyncio.Event()
        """Set once a session, or a question to the user that precedes it, is on the screen."""
        self._host: SessionHost | None = None
        self._choose_model: Callable[[], Awaitable[None]] | None = None

    def attach(self, host: "SessionHost", choose_model: Callable[[], Awaitable[None]]) -> None:
        """Attach the workspace with its session, and a function that lets the user choose a missing model."""
        self._host, self._choose_model = host, choose_model
        self.workspace_attached.set()

    @property
    def host(self) -> "SessionHost":
        """Return the host of the session; `attach` must have been called."""
        assert self._host is not None
        return self._host

    @property
    def current(self) -> "Session | None":
        """Return the open session, if there is one."""
        return self._host.session if self._host is not None else None

    def require_session(self) -> "Session":
        """Return the open session; raises ModelNotConfigured."""
        if (session := self.current) is None:
            from app.runtime.model_connection import NO_SESSION, ModelNotConfigured

            raise ModelNotConfigured(NO_SESSION)
        return session

    async def wait_until_open(self) -> None:
        """Return once a session, or a question to the user that precedes it, is on the screen."""
        await self.workspace_attached.wait()
        await self.session_or_question_shown.wait()

    async def wait_for_session(self) -> "Session":
        """Return the session once it is open; let the user choose a missing model. Raises ModelNotConfigured."""
        await self.wait_until_open()
        if self.current is None and self._choose_model is not None:
            await self._choose_model()
        return self.require_session()
