"""Work beside the event loop that gives it priority, and waits on it that the user can interrupt.

Work on threads waits between two pieces while the loop is busy. An import of many modules is such work: each module
is a piece. Python runs one thread at a time and lets those that want to run take turns. Beside a thread that
computes, a picture takes twice as long, and so does a key that waits for it. Where no loop is watched, as in a
command, nothing waits.

A turn that is cancelled as a whole can be cut between an effect and its record. So Escape cancels only the awaitable
that the turn waits for at that moment (the stream, a tool, a count-down); the turn itself goes on to write down what
happened.
"""

import asyncio
import selectors
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

_PATIENCE = 0.01
"""Seconds that a piece waits at most: it has its turn beside a loop that is never idle."""
_IMPORT_PATIENCE = 0.002
"""The same of a module: there are hundreds, and the loop may need one of them."""

_Piece = TypeVar("_Piece")

_free = threading.Event()
_free.set()


def yield_to_event_loop() -> None:
    """Wait while the event loop is busy; for threads, between two pieces of work of a millisecond or less."""
    _wait_for_loop(_PATIENCE)


def _wait_for_loop(patience: float) -> None:
    if not _free.is_set() and threading.current_thread() is not threading.main_thread():
        _free.wait(patience)


def iterate_cooperatively(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield the items; before each, wait while the event loop is busy."""
    for piece in pieces:
        yield_to_event_loop()
        yield piece


class _GivesWay:
    """Finds no module, but is asked first for each."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Wait while the loop is at work."""
        _wait_for_loop(_IMPORT_PATIENCE)


def make_imports_cooperative() -> None:
    """Have imports on threads wait, before each module, while the loop is at work.

    What a thread may be importing, the loop should not import: it would wait for that thread.
    """
    sys.meta_path.insert(0, _GivesWay())


class IdleTrackingSelector(selectors.DefaultSelector):
    """Selector of the event loop that has the right of way: tells when the loop waits for work."""

    def __init__(self) -> None:
        super().__init__()
        _free.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait, unless there is more to do at once."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        _free.set()
        try:
            return super().select(timeout)
        finally:
            _free.clear()

    def close(self) -> None:
        """Close the selector with its loop, after which threads no longer wait."""
        super().close()
        _free.set()


T = TypeVar("T")


class Interrupted(Exception):
    """The user interrupted the wait."""


class Interrupter:
    """Stop signal of the user for one turn."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()
        self.spoken = asyncio.Event()
        """The user has said or decided something since the turn began."""

    @property
    def is_stopped(self) -> bool:
        """Return whether the user has asked to stop."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Ask to stop: takes effect at once and lasts for the turn."""
        self._stopped.set()

    async def wait_for(
        self, work: Coroutine[Any, Any, T], until: Callable[[], Coroutine[Any, Any, Any]] | None = None
    ) -> T:
        """Await `work`; cancel it, and wait for its clean-up, as soon as the user stops the turn.

        Args:
            until: ends the wait, too, when it returns.

        Raises:
            Interrupted: the user stopped before `work` was done; its result, if it came all the same, is void.
        """
        if self.is_stopped:
            work.close()
            raise Interrupted
        task = asyncio.ensure_future(work)
        ends: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._stopped.wait())}
        if until is not None:
            ends.add(asyncio.ensure_future(until()))
        try:
            await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Interrupted
            return task.result()
        finally:
            for end in ends:
                end.cancel()
            if not task.done():
                # Stopped by the user, or this very task is cancelled because the program ends.
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()
