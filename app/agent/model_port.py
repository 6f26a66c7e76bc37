"""What a turn needs of a model client."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from app.llm.capabilities.profile import Profile
from app.llm.types import Endpoint, Payload, StreamUpdate


class ModelPort(Protocol):
    """A client for one endpoint and model; `app.llm.client.ModelClient` is one."""

    endpoint: Endpoint

    @property
    def profile(self) -> Profile:
        """What the endpoint honours, as far as it is known."""
        ...

    def stream(self, build: Callable[[Profile], Payload], *, closing: bool = False) -> AsyncIterator[StreamUpdate]:
        """Make one request; raises `app.llm.failures.errors.RequestFailed`."""
        ...
