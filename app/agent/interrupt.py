"""Interrupts the waits of a turn without cancelling its own records.

A turn that is cancelled as a whole can be cut between an effect and its record. So Escape cancels only the
awaitable that the turn waits for at that moment (the stream, a tool, a count-down); the turn itself goes on to
write down what happened.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

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
            work: what is awaited.
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
                await _cancelled(task)


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
