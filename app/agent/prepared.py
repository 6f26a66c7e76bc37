"""The payload of one request, made on a thread: of a long history that takes half a second, in which nothing else on
the event loop would move."""

import asyncio
from collections.abc import Callable

from app.llm.capabilities.profile import Profile
from app.llm.types import Payload
from app.llm.wires.registry import SentRequest


class PreparedRequest:
    """Makes the payload once for each profile that the request is tried with."""

    def __init__(self, make: Callable[[Profile], Payload], model: str, sent: Callable[[SentRequest], None]) -> None:
        """Nothing is made yet.

        Args:
            make: makes the payload; pure.
            model: that the request is for.
            sent: takes each request as it goes out.
        """
        self._make = make
        self._model = model
        self._sent = sent
        self._made: tuple[Profile, Payload] | None = None

    async def payload(self, profile: Profile) -> Payload:
        """The payload for a profile."""
        return await asyncio.to_thread(self._once, profile)

    def build(self, profile: Profile) -> Payload:
        """The same without a thread, as what goes out now: quick for the profile that `payload` was asked for."""
        payload = self._once(profile)
        self._sent(SentRequest(self._model, profile, payload))
        return payload

    def _once(self, profile: Profile) -> Payload:
        if self._made is None or self._made[0] != profile:
            self._made = profile, self._make(profile)
        return self._made[1]
