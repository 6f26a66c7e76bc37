"""The bytes of a session's images, read from the store when a request needs them."""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence

from app.conversation.events import Answer, Compacted, Event, Notice, ProposalDecided, Pruned, ToolResult, UserMessage
from app.conversation.payload.attached import unsent
from app.images.image import Image, names_of
from app.images.limits import too_many
from app.llm.capabilities.profile import Profile


class ImageContents:
    """Fold: attach it to the log. In memory are those that the next request carries, and no others."""

    def __init__(self, read: Callable[[str], bytes] | None) -> None:
        """`read` gives the bytes by their SHA-256, or raises KeyError; without it there are none."""
        self._read = read
        self._images: dict[int, Sequence[Image]] = {}
        """By event; those that payloads may still show."""
        self._of_tools: set[int] = set()
        """Those of the events that are results of tools."""
        self._encoded: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        """Take in the next event."""
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
        """What a request by this profile carries: base64 by SHA-256. What the store does not have is missing."""
        newest_first = [
            image
            for number, images in reversed(self._images.items())
            for image in reversed(images)
            if not unsent(image, profile, of_tool=number in self._of_tools)
        ]
        excess = set(too_many(newest_first))
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


def unseen(images: Sequence[Image], model: str) -> Notice:
    """Tells the user that a model does not see what they attached."""
    text = (
        f"{model} takes no images here, so it is only told their names: {names_of(images)}. /model changes the model."
    )
    return Notice(text=text, level="warning")
