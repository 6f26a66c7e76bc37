"""Work on threads that gives priority to the event loop, and waits that the user can interrupt.

Python runs one thread at a time and lets the waiting threads take turns. Beside a thread that computes, a repaint or
a key takes twice as long. So work on threads is split into pieces, and waits between two pieces while the loop is
busy. For an import of many modules, each module is a piece. In commands without an event loop, no
work waits.

Cancelling a whole turn could separate an effect from its record. So Escape cancels only the awaitable that the turn
is waiting for (the stream, a tool, a countdown); the turn itself continues and records what happened.
"""

import asyncio
import selectors
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

_MAX_WAIT_SECONDS = 0.01
"""Longest wait of a piece in seconds, so that work continues even if the loop is never idle."""
_MAX_IMPORT_WAIT_SECONDS = 0.002
"""Longest wait before a module; shorter, since there are hundreds and the loop may need one of them."""

_Piece = TypeVar("_Piece")

_loop_is_idle = threading.Event()
_loop_is_idle.set()


def wait_while_event_loop_busy() -> None:
    """Make a thread wait while the event loop is busy, at most 10 ms; call it between short pieces of work."""
    _wait_for_loop(_MAX_WAIT_SECONDS)


def _wait_for_loop(max_seconds: float) -> None:
    if not _loop_is_idle.is_set() and threading.current_thread() is not threading.main_thread():
        _loop_is_idle.wait(max_seconds)


def iterate_when_event_loop_idle(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield the items; before each, make a thread wait while the event loop is busy, at most 10 ms."""
    for piece in pieces:
        wait_while_event_loop_busy()
        yield piece


class _ImportDelay:
    """A meta path finder that finds no module, but delays the imports on threads."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Wait while the loop is busy."""
        _wait_for_loop(_MAX_IMPORT_WAIT_SECONDS)


def delay_thread_imports_while_loop_busy() -> None:
    """Make imports on threads wait before each module while the loop is busy.

    The loop must not import modules that a thread may be importing: it would wait for the thread.
    """
    sys.meta_path.insert(0, _ImportDelay())


class IdleTrackingSelector(selectors.DefaultSelector):
    """Selector of an event loop that tells threads whether the loop is idle."""

    def __init__(self) -> None:
        super().__init__()
        _loop_is_idle.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Mark the loop as idle while it waits for events."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        _loop_is_idle.set()
        try:
            return super().select(timeout)
        finally:
            _loop_is_idle.clear()

    def close(self) -> None:
        """Close the selector; threads no longer wait."""
        super().close()
        _loop_is_idle.set()


_Result = TypeVar("_Result")


class WaitInterrupted(Exception):
    """A wait ended early: the user stopped it, or another awaited event came first."""


class Interrupter:
    """Lets the user stop a turn or a side question: cancels the work that it waits for."""

    def __init__(self) -> None:
        self._stop_requested = asyncio.Event()
        self.user_input_arrived = asyncio.Event()
        """Set when the user has sent or decided something since the turn began."""

    @property
    def is_stopped(self) -> bool:
        """Return whether the user has asked to stop."""
        return self._stop_requested.is_set()

    def stop(self) -> None:
        """Request the stop, at once and for the rest of the turn."""
        self._stop_requested.set()

    async def wait_for(
        self, work: Coroutine[Any, Any, _Result], until: Callable[[], Coroutine[Any, Any, Any]] | None = None
    ) -> _Result:
        """Await `work`; if the user stops the turn, cancel it and wait for its clean-up.

        Args:
            until: Returns a second coroutine; when it ends, the wait ends as if the user had stopped.

        Raises:
            WaitInterrupted: the wait ended before `work` was done; its result is discarded.
        """
        if self.is_stopped:
            work.close()
            raise WaitInterrupted
        task = asyncio.ensure_future(work)
        interrupting_tasks: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._stop_requested.wait())}
        if until is not None:
            interrupting_tasks.add(asyncio.ensure_future(until()))
        try:
            await asyncio.wait({task, *interrupting_tasks}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise WaitInterrupted
            return task.result()
        finally:
            for interrupting_task in interrupting_tasks:
                interrupting_task.cancel()
            if not task.done():
                # The user has stopped the turn, or this task is cancelled because the program exits.
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()
