"""Inputs of a request and its payload, built once per profile.

Building the payload of a long history takes half a second, so both the turn (which records the request) and the
client (which sends it) call it on a thread to keep the event loop free.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from app.agent.ports import ModelPort
from app.conversation.events import (
    ContentPruned,
    Event,
    HistoryCompacted,
    ProposalDecided,
    ToolResult,
    UserAnswer,
    UserMessage,
    UserNotice,
)
from app.conversation.payload.image_attachment import image_unsent_reason_code
from app.conversation.payload.projection import PayloadInputs
from app.images.image import Image, indexes_over_request_limits, join_quoted_names
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire_registry import RequestInputs
from app.tools.tool_registry import ToolSet


class NextRequestImagesFold:
    """Fold over the images that the next request contains; their bytes are cached in memory.

    Args:
        read: Returns the bytes of an image by SHA-256, or raises KeyError; without it no image is sent.
    """

    def __init__(self, read: Callable[[str], bytes] | None) -> None:
        self._read_image = read
        self._images: dict[int, Sequence[Image]] = {}
        """Images that payloads may still contain, by event id."""
        self._tool_event_ids: set[int] = set()
        """Ids of the events in `_images` that are tool results."""
        self._base64_by_hash: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        match event:
            case UserMessage() | UserAnswer() | ProposalDecided() | ToolResult() if event.images:
                self._images[event.id] = event.images
                if isinstance(event, ToolResult):
                    self._tool_event_ids.add(event.id)
            case ContentPruned():
                for number in event.images:
                    self._images.pop(number, None)
            case HistoryCompacted():
                self._images = {number: images for number, images in self._images.items() if number > event.upto}

    async def load(self, profile: EndpointProfile) -> Mapping[str, str]:
        """Return the images of a request as base64, by SHA-256; images missing in the store are left out."""
        newest_first = [
            image
            for number, images in reversed(self._images.items())
            for image in reversed(images)
            if not image_unsent_reason_code(image, profile, from_tool=number in self._tool_event_ids)
        ]
        excess = set(indexes_over_request_limits(newest_first))
        wanted = {image.sha256 for position, image in enumerate(newest_first) if position not in excess}
        missing = wanted - self._base64_by_hash.keys()
        encoded = {name: data for name, data in self._base64_by_hash.items() if name in wanted}
        if missing:
            encoded |= await asyncio.to_thread(self._read_and_encode, missing)
        self._base64_by_hash = encoded
        return encoded

    def _read_and_encode(self, names: set[str]) -> dict[str, str]:
        encoded: dict[str, str] = {}
        if (read := self._read_image) is not None:
            for name in sorted(names):
                with suppress(KeyError):
                    encoded[name] = base64.b64encode(read(name)).decode("ascii")
        return encoded


def unseen_images_notice(images: Sequence[Image], model: str) -> UserNotice:
    """Return a notice that the model does not see the images that the user attached."""
    names = join_quoted_names(images)
    text = f"{model} accepts no images here, so it is only told their names: {names}. /model changes the model."
    return UserNotice(text=text, level="warning")


class RequestPayloadCache:
    """Builds a request's payload for a profile, and caches the last one; not safe on several threads at a time.

    Args:
        sent: Called with each request that is sent, on the thread that builds it.
    """

    def __init__(
        self, make: Callable[[EndpointProfile], Payload], model: str, sent: Callable[[RequestInputs], None]
    ) -> None:
        self._build_payload = make
        self._model = model
        self._on_sent = sent
        self._cached: tuple[EndpointProfile, Payload] | None = None

    def payload(self, profile: EndpointProfile) -> Payload:
        """Return the payload for a profile."""
        if self._cached is None or self._cached[0] != profile:
            self._cached = profile, self._build_payload(profile)
        return self._cached[1]

    def build_for_sending(self, profile: EndpointProfile) -> Payload:
        """Return the payload for a profile and report it to `sent`."""
        payload = self.payload(profile)
        self._on_sent(RequestInputs(self._model, profile, payload))
        return payload


class RequestFactory:
    """Prepares the requests of a session from prompt, tools and images; `last_sent` is the request sent last."""

    def __init__(self, tools: ToolSet, images: NextRequestImagesFold, system_prompt: Callable[[], str]) -> None:
        self._tools = tools
        self._images = images
        self._system_prompt = system_prompt
        self.last_sent: RequestInputs | None = None

    async def payload_inputs(self, model: ModelPort, *, closing: bool = False) -> PayloadInputs:
        """Return all inputs of a payload except the log and the profile."""
        prompt = self._system_prompt()
        images = await self._images.load(model.profile)
        # The first access builds the schemas, which takes time.
        schemas = await asyncio.to_thread(lambda: self._tools.schemas)
        endpoint = model.endpoint
        return PayloadInputs(
            prompt, schemas, closing, endpoint.base_url, endpoint.model, endpoint.options, images=images
        )

    def prepare(self, make: Callable[[EndpointProfile], Payload], model: str) -> RequestPayloadCache:
        """Return the request whose payload `make` builds for a profile; `make` is pure and runs on a thread."""
        return RequestPayloadCache(make, model, self._remember_request)

    def _remember_request(self, request: RequestInputs) -> None:
        self.last_sent = request
