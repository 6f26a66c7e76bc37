"""When to send a request again.

Exponential back-off with some jitter: each gap is longer than the one before, whatever the dice say. What is broken
is tried again soon and given up soon; a server that is busy gets half a minute at least. Where the server says how
long to wait, never earlier than that.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from app.llm.failures.errors import Failure, FailureKind

_BUSY = frozenset({FailureKind.RATE_LIMITED, FailureKind.SERVER_ERROR})
_LATEST = 5.0
"""Seconds after the time that a server names, at most: others wait for it, too."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits and delays, in seconds."""

    attempts: int = 4
    """Sends of one request where something broke, corrections of the profile not counted."""
    base: float = 0.5
    """Upper bound of the first delay then; it doubles from attempt to attempt."""
    busy_attempts: int = 6
    """Sends of one request to a server that answers that it can't just now."""
    busy_base: float = 1.5
    cap: float = 20.0
    """Upper bound of every delay that is not the server's wish."""
    total: float = 120.0
    """From the first send on, no retry of our own accord begins later than this."""
    longest_hint: float = 900.0
    """Nor one that a server asks for later than this: then the user decides. Until then there is a count-down, which
    the user can end either way."""
    closing_attempts: int = 2
    closing_total: float = 5.0
    jitter: Callable[[], float] = random.random
    """A number from 0 up to 1."""

    def delay(self, failure: Failure, attempt: int, elapsed: float, *, closing: bool = False) -> float | None:
        """Seconds to wait before the next send, or None if there is none.

        `attempt` counts the sends so far, `elapsed` the seconds since the first.
        """
        busy = failure.kind in _BUSY
        attempts = self.closing_attempts if closing else self.busy_attempts if busy else self.attempts
        if not failure.retryable or attempt >= attempts:
            return None
        if failure.retry_after is not None:
            wait = failure.retry_after + min(_LATEST, 0.1 * failure.retry_after) * self.jitter()
            total = self.longest_hint + _LATEST
        else:
            wait = min(self.cap, (self.busy_base if busy else self.base) * 2 ** (attempt - 1))
            wait *= 0.75 + 0.25 * self.jitter()
            total = self.total
        return wait if elapsed + wait <= (self.closing_total if closing else total) else None


STANDARD = RetryPolicy()
ONCE = RetryPolicy(attempts=1, busy_attempts=1, closing_attempts=1)
"""Whoever waits is there, and asks again or not."""
