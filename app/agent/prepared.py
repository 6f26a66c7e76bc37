"""What a request is made of, and its payload, made once for each profile that it is tried with.

Of a long history that takes half a second, in which nothing else on the event loop would move: it is asked for on a
thread, by the turn that records what it sends as by the client that sends it.
"""

import asyncio
from collections.abc import Callable

from app.agent.image_contents import ImageContents
from app.agent.ports import ModelPort
from app.conversation.payload.projection import Facts
from app.llm.capabilities.profile import Profile
from app.llm.types import Payload
from app.llm.wires.registry import SentRequest
from app.tools.registry import ToolSet


class PreparedRequest:
    """Keeps the payload that was made last; to be used on one thread at a time."""

    def __init__(self, make: Callable[[Profile], Payload], model: str, sent: Callable[[SentRequest], None]) -> None:
        """Nothing is made yet.

        Args:
            make: makes the payload; pure.
            model: that the request is for.
            sent: takes each request as it goes out; called on the thread that builds it.
        """
        self._make = make
        self._model = model
        self._sent = sent
        self._made: tuple[Profile, Payload] | None = None

    def payload(self, profile: Profile) -> Payload:
        """The payload for a profile."""
        if self._made is None or self._made[0] != profile:
            self._made = profile, self._make(profile)
        return self._made[1]

    def build(self, profile: Profile) -> Payload:
        """The same, as what goes out now."""
        payload = self.payload(profile)
        self._sent(SentRequest(self._model, profile, payload))
        return payload


async def facts_of(
    model: ModelPort, system_prompt: str, tools: ToolSet, images: ImageContents, *, closing: bool = False
) -> Facts:
    """What every request of a session depends on besides its log and the profile."""
    contents = await images.load(model.profile)
    # They are made for the first request.
    schemas = await asyncio.to_thread(lambda: tools.schemas)
    endpoint = model.endpoint
    return Facts(
        system_prompt,
        schemas,
        closing,
        endpoint.base_url,
        endpoint.model,
        endpoint.wishes,
        images=contents,
    )
