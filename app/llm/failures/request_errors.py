"""Kinds of failed requests, and when to retry them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from app.llm.values.requests_and_updates import ResponseCompleted

COMPACT = "Compact it."
"""What to do about a conversation that is too long, as long as that has not been tried."""


class FailureKind(StrEnum):
    """Kind of a failure, on which the next action depends."""

    CONTEXT_FULL = "context_full"
    """The payload does not fit the model's window: compact, then send again."""
    AUTH = "auth"
    QUOTA = "quota"
    """No credit, or a daily limit: waiting a minute does not help."""
    RATE_LIMITED = "rate_limited"
    MODEL_NOT_FOUND = "model_not_found"
    UNREACHABLE = "unreachable"
    SERVER_ERROR = "server_error"
    INVALID_REQUEST = "invalid_request"
    """The server understood and refused: the same request will be refused again."""
    TOOL_USE_FAILED = "tool_use_failed"
    """The server's own check of the model's tool calls failed (Groq)."""
    STREAM_BROKEN = "stream_broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt, as far as it is understood."""

    kind: FailureKind
    message: str
    """One line for the user: what happened and what to do."""
    text: str = ""
    """All that the server said, with whatever was nested in it, on which corrections are decided."""
    status: int | None = None
    """HTTP status, or the one that an error inside a stream names."""
    retryable: bool = False
    """The same request may succeed if it is sent again."""
    retry_after: float | None = None
    """Seconds the server asks to wait."""
    context_window: int | None = None
    """Tokens that the model takes, where the server says so."""


class RequestError(Exception):
    """A request ended without a usable response; `str()` is one line that the user can act on."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        retry_at: float | None = None,
        *,
        status: int | None = None,
        context_window: int | None = None,
        partial: ResponseCompleted | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_at = retry_at
        """Unix time from which it is worth another try, where the server said so."""
        self.status = status
        self.context_window = context_window
        """Tokens that the model takes, where the server said so."""
        self.partial = partial
        """What the last attempt had streamed before it failed, if anything."""


class AttemptFailed(Exception):
    """One attempt of a request failed; internal to the client."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


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
        """Return the seconds to wait before the next attempt, or None if there is none.

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


STANDARD_RETRY = RetryPolicy()
NO_RETRY = RetryPolicy(attempts=1, busy_attempts=1, closing_attempts=1)
"""Whoever waits is there, and asks again or not."""
