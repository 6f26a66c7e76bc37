"""Whether the user can have seen what a key decides: on the screen, as it is now, with the focus.

Kept apart: the one clock by which both the review and the dialogs tell whether a key came before its picture.
"""

import asyncio
import contextlib
import time


class Sight:
    """Knows since when something stands on the screen as it is, by the clock that input is stamped with."""

    def __init__(self) -> None:
        """It was never on the screen."""
        self._since: float | None = None
        self._gained = asyncio.Event()

    def lose(self) -> None:
        """It is not on the screen as it is now: it has changed, or something else has the focus or covers it."""
        self._since = None
        self._gained.clear()

    def gain(self) -> None:
        """It was painted just now."""
        if self._since is None:
            self._since = time.monotonic()
            self._gained.set()

    async def wait(self, seconds: float) -> None:
        """Return once it is on the screen, or after so long all the same."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gained.wait(), seconds)

    def had(self, moment: float) -> bool:
        """Whether it was on the screen at that moment."""
        return self._since is not None and self._since <= moment
