"""Kinds of failed requests, and the rules for retries."""

import random
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from app.llm.values.requests_and_updates import ResponseCompleted


class FailureKind(StrEnum):
    """Kind of a failure; the next action depends on it."""

    CONTEXT_FULL = "context_full"
    """The payload exceeds the model's context window: compact, then retry."""
    AUTH = "auth"
    QUOTA = "quota"
    """No credit, or a daily limit is used up: waiting a minute does not help."""
    RATE_LIMITED = "rate_limited"
    MODEL_NOT_FOUND = "model_not_found"
    UNREACHABLE = "unreachable"
    SERVER_ERROR = "server_error"
    INVALID_REQUEST = "invalid_request"
    """The server refused the request and would refuse it again."""
    TOOL_USE_FAILED = "tool_use_failed"
    """The server's own validation of the model's tool calls failed (Groq)."""
    STREAM_BROKEN = "stream_broken"
    UNKNOWN = "unknown"


class Failure(Struct, frozen=True):
    """Why an attempt failed: the kind, a line for the user, and what the response says about a retry."""

    kind: FailureKind
    message: str
    """One line for the user: what happened and what to do."""
    text: str = ""
    """Full text of the server's message, including nested errors; input of the correction rules."""
    status: int | None = None
    """HTTP status, or the status inside an error of the stream."""
    retryable: bool = False
    """The same request may succeed later."""
    retry_after: float | None = None
    """Seconds that the server asks to wait."""
    context_window: int | None = None
    """The model's context window in tokens, if the server names it."""


def remove_retry_advice(message: str) -> str:
    """Return a failure's message without the advice to send the request again."""
    for advice in ("Try again.", "Try again in a moment.", "Wait a little, then continue."):
        message = message.removesuffix(f" {advice}")
    return message


class RequestError(Exception):
    """A request ended without a usable response; `str()` is one line for the user that says what to do."""

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
        """Unix time from which a retry makes sense, if the server names it."""
        self.status = status
        self.context_window = context_window
        """The model's context window in tokens, if the server names it."""
        self.partial = partial
        """The part that the last attempt received before it failed, if any."""


class AttemptFailed(Exception):
    """One attempt of a request failed; internal to the client."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


_BUSY_KINDS = frozenset({FailureKind.RATE_LIMITED, FailureKind.SERVER_ERROR})
_MAX_JITTER_SECONDS = 5.0
"""Maximum number of seconds added at random to the server's retry time: other clients wait for it too."""


class RetryPolicy(Struct, frozen=True):
    """Limits and delays of retries, in seconds."""

    attempts: int = 4
    """Maximum number of attempts of a request after broken connections, without those after profile corrections."""
    base: float = 0.5
    """Upper bound of the first delay after a broken connection; doubles with each attempt."""
    busy_attempts: int = 6
    """Maximum number of attempts of a request to a server that is busy."""
    busy_base: float = 1.5
    cap: float = 20.0
    """Upper bound of every delay that the server did not request."""
    total: float = 120.0
    """No retry starts later than this after the first attempt, unless the server named the delay."""
    longest_hint: float = 900.0
    """Longest delay that a server may request; after that the user decides. During the delay there is a countdown,
    in which the user can retry at once or stop."""
    closing_attempts: int = 2
    closing_total: float = 5.0
    jitter: Callable[[], float] = random.random
    """Returns a random number from 0 up to 1."""

    def delay(self, failure: Failure, attempt: int, elapsed: float, *, closing: bool = False) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is none.

        Args:
            attempt: number of attempts so far.
            elapsed: seconds since the first attempt.
        """
        busy = failure.kind in _BUSY_KINDS
        attempts = self.closing_attempts if closing else self.busy_attempts if busy else self.attempts
        if not failure.retryable or attempt >= attempts:
            return None
        if failure.retry_after is not None:
            wait = failure.retry_after + min(_MAX_JITTER_SECONDS, 0.1 * failure.retry_after) * self.jitter()
            total = self.longest_hint + _MAX_JITTER_SECONDS
        else:
            wait = min(self.cap, (self.busy_base if busy else self.base) * 2 ** (attempt - 1))
            wait *= 0.75 + 0.25 * self.jitter()
            total = self.total
        return wait if elapsed + wait <= (self.closing_total if closing else total) else None


STANDARD_RETRY = RetryPolicy()
NO_RETRY = RetryPolicy(attempts=1, busy_attempts=1, closing_attempts=1)
"""For requests whose user waits for the result and can retry."""
