"""Count the tokens of a payload: estimated from its size, calibrated by the server's counts."""

import json
from itertools import accumulate
from math import ceil
from operator import is_
from typing import Any

from app.conversation.events import AssistantMessage, Event, RequestSent
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire import IMAGE_PARTS

_CLAUDE_SIDE, _CLAUDE_PATCH, _CLAUDE_MOST = 2_576, 28, 4_784
"""Claude's largest: fitted to a side, counted in patches, up to a limit."""
_GPT_PATCH, _GPT_PATCHES, _GPT_FACTOR = 32, 1_536, 1.62
"""GPT's later models: patches, up to a number of them, and what one of them counts in the smaller models."""
_TILE, _TILES_FIT, _TILES_SHORT, _TILES_BASE, _TILES_EACH = 512, 2_048, 768, 85, 170
"""GPT-4o: fitted to a square, then to a short side, counted in tiles."""


def estimate_image_tokens(width: int, height: int) -> int:
    """Tokens of a picture of this size in pixels."""
    return max(_claude(width, height), _gpt_patches(width, height), _gpt_tiles(width, height))


def _claude(width: int, height: int) -> int:
    scale = min(1.0, _CLAUDE_SIDE / max(width, height))
    return min(_CLAUDE_MOST, ceil(width * scale / _CLAUDE_PATCH) * ceil(height * scale / _CLAUDE_PATCH))


def _gpt_patches(width: int, height: int) -> int:
    return ceil(min(_GPT_PATCHES, ceil(width / _GPT_PATCH) * ceil(height / _GPT_PATCH)) * _GPT_FACTOR)


def _gpt_tiles(width: int, height: int) -> int:
    scale = min(1.0, _TILES_FIT / max(width, height))
    scale = min(scale, _TILES_SHORT / min(width, height))
    return _TILES_BASE + _TILES_EACH * ceil(width * scale / _TILE) * ceil(height * scale / _TILE)


BYTES_PER_TOKEN = 3.6
"""For text and code in UTF-8, over common vocabularies; the meter corrects it per model."""
MESSAGE_TOKENS = 4
"""What the chat template adds to a message."""
_SMALLEST_FACTOR = 0.5
"""A server that silently cuts the front of a long prompt reports too few tokens: not believed below this."""
_LARGEST_FACTOR = 4.0


def estimate_text_tokens(text: str) -> int:
    """Tokens of a text, uncalibrated."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return int(size / BYTES_PER_TOKEN) + 1


def _tokens_beside(payload: Payload) -> int:
    """Tokens of all of a payload but its messages, uncalibrated."""
    system = estimate_message_tokens({"content": payload.system}) if payload.system else 0
    images = sum(estimate_image_tokens(image.width, image.height) for image in payload.images)
    return system + images + (estimate_text_tokens(json.dumps(payload.tools, default=str)) if payload.tools else 0)


def estimate_message_tokens(message: dict[str, Any]) -> int:
    """Tokens of one wire message without its images, uncalibrated."""
    tokens = MESSAGE_TOKENS
    for key, value in message.items():
        if key == "role":
            continue
        value = _without_images(value)
        tokens += estimate_text_tokens(value if isinstance(value, str) else json.dumps(value, default=str))
    return tokens


def _without_images(value: Any) -> Any:
    """The parts of a message but its images, which may be in a tool's result among them."""
    if isinstance(value, list):
        kept = [part for part in value if not (isinstance(part, dict) and part.get("type") in IMAGE_PARTS)]
        return [_without_images(part) for part in kept]
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        return {**value, "content": _without_images(value["content"])}
    return value


class TokenMeter:
    """Fold: learns from the log how the server's counts compare with the estimate.

    Attach it to the log; `RequestSent.estimated_tokens` must be what `count_tokens` gave for that payload then.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        """Server's count over uncalibrated estimate, from the last response that came with a count."""
        self._estimated = 0.0
        """Uncalibrated estimate of the request that is out."""
        self._counted: tuple[list[dict[str, Any]], list[int]] = [], [0]
        """The messages of the payload before but the first, which is the system prompt, made anew each time; and the
        tokens of the first of them, by how many they are. Replaced as a whole, so that any thread may count."""

    def count_tokens(self, payload: Payload) -> int:
        """The best estimate of a payload's tokens; messages that are the same objects as before are counted once.

        Of a long payload it takes a tenth of a second at the first time: to be called on a thread.
        """
        first, messages = payload.messages[:1], payload.messages[1:]
        before, sums = self._counted
        same = list(map(is_, messages, before))
        start = same.index(False) if False in same else len(same)
        sums = [*sums[:start], *accumulate(map(estimate_message_tokens, messages[start:]), initial=sums[start])]
        self._counted = messages, sums
        return int((sum(map(estimate_message_tokens, first)) + sums[-1] + _tokens_beside(payload)) * self.factor)

    def apply(self, event: Event) -> None:
        """Update the state from the next event."""
        match event:
            case RequestSent():
                self._estimated = event.estimated_tokens / self.factor
            case AssistantMessage() if event.usage is not None and event.usage.prompt_tokens > 0:
                if self._estimated > 0:
                    ratio = event.usage.prompt_tokens / self._estimated
                    self.factor = min(max(ratio, _SMALLEST_FACTOR), _LARGEST_FACTOR)
