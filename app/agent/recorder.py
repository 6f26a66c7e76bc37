"""Writes what the calls of one response bring to the log: quick ones together, as each write waits for the disk."""

import asyncio
import time

from app.conversation.events import Event
from app.conversation.log import EventLog

_GATHERED = 0.1
"""Seconds for which events may be held, so that a thousand reads cost some dozens of writes and not two thousand."""


class Recorder:
    """The way of one batch of calls into the log. Events are written in the order in which they were given."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._held: list[Event] = []
        self._written = 0.0
        self._writing = asyncio.Lock()
        self._due: asyncio.Task[None] | None = None

    async def now(self, *events: Event) -> None:
        """Write what is held, and these, in one transaction; raises what the store raises."""
        async with self._writing:
            batch, self._held = [*self._held, *events], []
            await self._log.append(*batch)
            self._written = time.monotonic()

    async def soon(self, *events: Event) -> None:
        """Write these within a tenth of a second: for what leaves nothing behind if the process dies before."""
        self._held += events
        left = self._written + _GATHERED - time.monotonic()
        if left <= 0:
            await self.now()
        elif self._due is None:
            self._due = asyncio.create_task(self._write_in(left), name="record calls")

    async def close(self) -> None:
        """Write what is held."""
        if self._due is not None:
            self._due.cancel()
        await self.now()

    async def _write_in(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._due = None
        async with self._writing:
            batch, self._held = self._held, []
            try:
                await self._log.append(*batch)
            except Exception:
                # Whoever writes next hears of it.
                self._held = [*batch, *self._held]
