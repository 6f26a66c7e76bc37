"""Records what was decided and not recorded while the app runs: a full disk need not wait for the next start."""

import asyncio
from collections.abc import Awaitable, Callable

from app.runtime.recovery import PATIENCE, record_left_over
from app.runtime.workspace import Runtime
from app.storage.errors import StorageError

_LONGEST_PAUSE = 60.0
"""Seconds between two attempts, once many have failed."""


class LeftOver:
    """Decisions of any process that stand without a record. Nothing tells when a store works again: it is tried."""

    def __init__(self, runtime: Runtime, here: Callable[[], str], patience: float = PATIENCE) -> None:
        """Nothing is looked for yet.

        Args:
            runtime: the open workspace.
            here: the session whose model is told of proposals that come from none.
            patience: seconds that a living process has between a decision and its record.
        """
        self._runtime = runtime
        self._here = here
        self._patience = patience
        self._decided = asyncio.Event()

    def look(self) -> None:
        """Something may have been decided."""
        self._decided.set()

    async def record(self, recorded: Callable[[list[str]], Awaitable[None]]) -> None:
        """Record what is left over, whenever anything is, and say so, a line for each."""
        while True:
            await self._decided.wait()
            self._decided.clear()
            pause = self._patience
            while await asyncio.to_thread(self._is_any):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                if lines := await asyncio.to_thread(self._try):
                    await recorded(lines)

    def _is_any(self) -> bool:
        try:
            return bool(self._runtime.proposals.unrecorded())
        except StorageError:
            return True

    def _try(self) -> list[str]:
        try:
            return record_left_over(self._runtime, patience=self._patience, here=self._here())
        except StorageError:
            return []
