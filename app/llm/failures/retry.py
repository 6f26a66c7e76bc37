"""When to send a request again.

Exponential back-off with full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015),
unless the server says how long to wait: then never earlier than that.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from app.llm.failures.errors import Failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits and delays, in seconds."""

    attempts: int = 4
    """Sends of one request, corrections of the profile not counted."""
    total: float = 120.0
    """From the first send on, no retry begins later than this."""
    base: float = 0.5
    """Upper bound of the first delay; it doubles from attempt to attempt."""
    cap: float = 8.0
    """Upper bound of every delay that is not the server's wish."""
    longest_hint: float = 60.0
    """A server that wants more patience than this gets none: the user decides."""
    closing_attempts: int = 2
    closing_total: float = 5.0
    jitter: Callable[[], float] = random.random
    """A number from 0 up to 1."""

    def delay(self, failure: Failure, attempt: int, elapsed: float, *, closing: bool = False) -> float | None:
        """Seconds to wait before the next send, or None if there is none.

        `attempt` counts the sends so far, `elapsed` the seconds since the first.
        """
        attempts, total = (self.closing_attempts, self.closing_total) if closing else (self.attempts, self.total)
        if not failure.retryable or attempt >= attempts:
            return None
        if failure.retry_after is not None:
            if failure.retry_after > self.longest_hint:
                return None
            wait = failure.retry_after * (1 + 0.1 * self.jitter())
        else:
            wait = self.jitter() * min(self.cap, self.base * 2 ** (attempt - 1))
        return wait if elapsed + wait <= total else None


STANDARD = RetryPolicy()
