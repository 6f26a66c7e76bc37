"""How many tokens a payload is: estimated from its size, calibrated by what the server has counted."""

import json
from itertools import accumulate
from operator import is_
from typing import Any

from app.conversation.events import AssistantMessage, Event, RequestSent
from app.images.tokens import image_tokens
from app.llm.types import Payload
from app.llm.wires.items import IMAGE_PARTS

BYTES_PER_TOKEN = 3.6
"""For text and code in UTF-8, over common vocabularies; the meter corrects it per model."""
MESSAGE_TOKENS = 4
"""What the chat template adds to a message."""
_SMALLEST_FACTOR = 0.5
"""A server that silently cuts the front of a long prompt reports too few tokens: not believed below this."""
_LARGEST_FACTOR = 4.0


def text_tokens(text: str) -> int:
    """Tokens of a text, uncalibrated."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return int(size / BYTES_PER_TOKEN) + 1


def _tokens_beside(payload: Payload) -> int:
    """Tokens of all of a payload but its messages, uncalibrated."""
    system = message_tokens({"content": payload.system}) if payload.system else 0
    images = sum(image_tokens(image.width, image.height) for image in payload.images)
    return system + images + _tool_tokens(payload.tools)


def message_tokens(message: dict[str, Any]) -> int:
    """Tokens of one wire message without its images, uncalibrated."""
    tokens = MESSAGE_TOKENS
    for key, value in message.items():
        if key == "role":
            continue
        value = _without_images(value)
        tokens += text_tokens(value if isinstance(value, str) else json.dumps(value, default=str))
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

    Attach it to the log; `RequestSent.estimated_tokens` must be what `tokens` said of that payload at that time.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        """Server's count over uncalibrated estimate, from the last response that came with a count."""
        self._estimated = 0.0
        """Uncalibrated estimate of the request that is out."""
        self._counted: tuple[list[dict[str, Any]], list[int]] = [], [0]
        """The messages of the payload before but the first, which is the system prompt, made anew each time; and the
        tokens of the first of them, by how many they are. Replaced as a whole, so that any thread may count."""

    def tokens(self, payload: Payload) -> int:
        """The best estimate of a payload's tokens; messages that are the same objects as before are counted once.

        Of a long payload it takes a tenth of a second at the first time: to be called on a thread.
        """
        first, messages = payload.messages[:1], payload.messages[1:]
        before, sums = self._counted
        same = list(map(is_, messages, before))
        start = same.index(False) if False in same else len(same)
        sums = [*sums[:start], *accumulate(map(message_tokens, messages[start:]), initial=sums[start])]
        self._counted = messages, sums
        return int((sum(map(message_tokens, first)) + sums[-1] + _tokens_beside(payload)) * self.factor)

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case RequestSent():
                self._estimated = event.estimated_tokens / self.factor
            case AssistantMessage() if event.usage is not None and event.usage.prompt_tokens > 0:
                if self._estimated > 0:
                    ratio = event.usage.prompt_tokens / self._estimated
                    self.factor = min(max(ratio, _SMALLEST_FACTOR), _LARGEST_FACTOR)


def _tool_tokens(tools: list[dict[str, Any]]) -> int:
    return text_tokens(json.dumps(tools, default=str)) if tools else 0
