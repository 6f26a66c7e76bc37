"""Measure a session: working time of its calls without waits for the user, and tokens."""

import time
from collections.abc import Awaitable, Callable

from app.conversation.events import AssistantMessage, Compacted, Event, SideAnswer
from app.conversation.token_totals import TokenTotals
from app.tools.base.contract import Confirmation, ConfirmationAnswer


class Stopwatch:
    """Measures time from its creation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self.waited = 0.0
        """Seconds that went by in `exclude_waiting`."""

    @property
    def working_seconds(self) -> float:
        """Return seconds since its creation without waits for the user."""
        return max(0.0, self._clock() - self._started - self.waited)

    def exclude_waiting(
        self, ask: Callable[[Confirmation], Awaitable[ConfirmationAnswer]]
    ) -> Callable[[Confirmation], Awaitable[ConfirmationAnswer]]:
        """Wrap a question to the user so that the wait for the answer is not counted."""

        async def timed(confirmation: Confirmation) -> ConfirmationAnswer:
            asked = self._clock()
            try:
                return await ask(confirmation)
            finally:
                self.waited += self._clock() - asked

        return timed


class SpendingMeter:
    """Fold: tokens and cost of the session."""

    def __init__(self) -> None:
        self.total = TokenTotals()
        """Over all requests."""

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        if isinstance(event, AssistantMessage | Compacted | SideAnswer):
            self.total = self.total.add(event.usage)
