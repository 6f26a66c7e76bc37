"""What a session costs: the time that its calls work, apart from the wait for the user, and tokens."""

import time
from collections.abc import Awaitable, Callable

from app.conversation.events import AssistantMessage, Compacted, Event, SideAnswer
from app.conversation.token_totals import TokenTotals
from app.tools.base.contract import Confirmation, ConfirmationAnswer


class Stopwatch:
    """Runs from the moment it is made."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self.waited = 0.0
        """Seconds that went by in `while_asking`."""

    @property
    def worked(self) -> float:
        """Seconds since it was made, without those that it waited."""
        return max(0.0, self._clock() - self._started - self.waited)

    def while_asking(
        self, ask: Callable[[Confirmation], Awaitable[ConfirmationAnswer]]
    ) -> Callable[[Confirmation], Awaitable[ConfirmationAnswer]]:
        """The same question to the user, with the wait for the answer measured."""

        async def timed(confirmation: Confirmation) -> ConfirmationAnswer:
            asked = self._clock()
            try:
                return await ask(confirmation)
            finally:
                self.waited += self._clock() - asked

        return timed


class SpendingMeter:
    """Fold: attach it to the log."""

    def __init__(self) -> None:
        self.total = TokenTotals()
        """Over all requests."""

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        if isinstance(event, AssistantMessage | Compacted | SideAnswer):
            self.total = self.total.plus(event.usage)
