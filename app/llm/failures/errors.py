"""How a request can fail."""

from dataclasses import dataclass
from enum import StrEnum

from app.llm.types import Completed

COMPACT = "Compact it."
"""What to do about a conversation that is too long, as long as that has not been tried."""


class FailureKind(StrEnum):
    """What a failure means for what to do next."""

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
    """One failed attempt, as far as it is understood."""

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
        partial: Completed | None = None,
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
    """Inside the client: one attempt failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
