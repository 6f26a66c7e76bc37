"""Inputs of a request and its payload, made once for each profile that is tried.

Of a long history that takes half a second, in which nothing else on the event loop would move: it is asked for on a
thread, by the turn that records what it sends as by the client that sends it.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence

from app.agent.ports import ModelPort
from app.conversation.events import Answer, Compacted, Event, Notice, ProposalDecided, Pruned, ToolResult, UserMessage
from app.conversation.payload.image_attachment import image_unsent_reason
from app.conversation.payload.projection import PayloadInputs
from app.images.image import Image, positions_over_limit, quote_names
from app.llm.values.endpoint import Profile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire_registry import SentRequest
from app.tools.tool_registry import ToolSet


class NextRequestImages:
    """Fold: the images that the next request carries, kept in memory.

    Args:
        read: Gives the bytes by their SHA-256, or raises KeyError; without it there are none.
    """

    def __init__(self, read: Callable[[str], bytes] | None) -> None:
        self._read = read
        self._images: dict[int, Sequence[Image]] = {}
        """By event; those that payloads may still show."""
        self._of_tools: set[int] = set()
        """Those of the events that are results of tools."""
        self._encoded: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        """Update the state from the next event."""
        match event:
            case UserMessage() | Answer() | ProposalDecided() | ToolResult() if event.images:
                self._images[event.id] = event.images
                if isinstance(event, ToolResult):
                    self._of_tools.add(event.id)
            case Pruned():
                for number in event.images:
                    self._images.pop(number, None)
            case Compacted():
                self._images = {number: images for number, images in self._images.items() if number > event.upto}

    async def load(self, profile: Profile) -> Mapping[str, str]:
        """Return the images of a request by SHA-256, as base64; images that the store lost are missing."""
        newest_first = [
            image
            for number, images in reversed(self._images.items())
            for image in reversed(images)
            if not image_unsent_reason(image, profile, of_tool=number in self._of_tools)
        ]
        excess = set(positions_over_limit(newest_first))
        wanted = {image.sha256 for place, image in enumerate(newest_first) if place not in excess}
        missing = wanted - self._encoded.keys()
        kept = {name: data for name, data in self._encoded.items() if name in wanted}
        if missing:
            kept |= await asyncio.to_thread(self._load, missing)
        self._encoded = kept
        return kept

    def _load(self, names: set[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in sorted(names):
            try:
                data = self._read(name) if self._read is not None else None
            except KeyError:
                data = None
            if data is not None:
                found[name] = base64.b64encode(data).decode("ascii")
        return found


def unseen_images_notice(images: Sequence[Image], model: str) -> Notice:
    """Tell the user that a model does not see the images that they attached."""
    names = quote_names(images)
    text = f"{model} takes no images here, so it is only told their names: {names}. /model changes the model."
    return Notice(text=text, level="warning")


class PreparedRequest:
    """Builds the payload of a request and keeps the last one; to be used on one thread at a time.

    Args:
        sent: Takes each request as it goes out; called on the thread that builds it.
    """

    def __init__(self, make: Callable[[Profile], Payload], model: str, sent: Callable[[SentRequest], None]) -> None:
        self._make = make
        self._model = model
        self._sent = sent
        self._made: tuple[Profile, Payload] | None = None

    def payload(self, profile: Profile) -> Payload:
        """Return the payload for a profile."""
        if self._made is None or self._made[0] != profile:
            self._made = profile, self._make(profile)
        return self._made[1]

    def build_for_sending(self, profile: Profile) -> Payload:
        """Return the payload for a profile, and keep it as the last one sent."""
        payload = self.payload(profile)
        self._sent(SentRequest(self._model, profile, payload))
        return payload


class RequestFactory:
    """Prepares the requests of a session from its prompt, tools and images, and keeps the one that went out last."""

    def __init__(self, tools: ToolSet, images: NextRequestImages, system_prompt: Callable[[], str]) -> None:
        self._tools = tools
        self._images = images
        self._system_prompt = system_prompt
        self.last_sent: SentRequest | None = None

    async def payload_inputs(self, model: ModelPort, *, closing: bool = False) -> PayloadInputs:
        """Return the inputs of a payload besides the log and the profile."""
        prompt = self._system_prompt()
        images = await self._images.load(model.profile)
        # They are made for the first request.
        schemas = await asyncio.to_thread(lambda: self._tools.schemas)
        endpoint = model.endpoint
        return PayloadInputs(
            prompt, schemas, closing, endpoint.base_url, endpoint.model, endpoint.options, images=images
        )

    def prepare(self, make: Callable[[Profile], Payload], model: str) -> PreparedRequest:
        """Return the request whose payload `make` builds for a profile; `make` is pure and runs on a thread."""
        return PreparedRequest(make, model, self._keep)

    def _keep(self, request: SentRequest) -> None:
        self.last_sent = request
