"""Puts a reply into the shapes of the Chat Completions API: one object, or the chunks of a stream."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from app.demo.reply import Reply
from app.demo.requests import MODEL_ID, ChatRequest

_CHARACTERS_PER_TOKEN = 4
_PIECES = re.compile(r"\s*\S{1,12}|\s+")
"""Text is streamed in pieces about as long as tokens are."""
_ARGUMENT_PIECE = 24
"""Characters of a call's arguments in one chunk."""


@dataclass(frozen=True, slots=True)
class TimedChunk:
    """A chunk of a stream and how many tokens it stands for."""

    data: dict[str, Any]
    tokens: float


class Completion:
    """The response to one request."""

    def __init__(self, request: ChatRequest, reply: Reply) -> None:
        self._reply = reply
        self._wants_usage = bool(request.stream_options and request.stream_options.include_usage)
        self._calls: list[dict[str, Any]] = [
            {
                "id": f"call_{uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in reply.calls
        ]
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{uuid4().hex[:24]}",
            "created": int(time.time()),
            "model": MODEL_ID,
        }
        self._finish_reason = "tool_calls" if reply.calls else "stop"
        asked = request.model_dump_json(include={"messages", "tools"}, exclude_none=True)
        said = reply.text + "".join(call["function"]["name"] + call["function"]["arguments"] for call in self._calls)
        prompt_tokens = _estimated_tokens(asked)
        completion_tokens = _estimated_tokens(said)
        self._usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }

    def whole(self) -> dict[str, Any]:
        """The response as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": self._reply.text or None, "refusal": None}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def chunks(self) -> Iterator[TimedChunk]:
        """The response as a stream; usage comes last, in a chunk without choices, if it was asked for."""
        yield self._chunk({"role": "assistant", "content": ""}, 0)
        for piece in _PIECES.findall(self._reply.text):
            yield self._chunk({"content": piece}, 1)
        for index, call in enumerate(self._calls):
            name = {"name": call["function"]["name"], "arguments": ""}
            yield self._chunk({"tool_calls": [{**call, "index": index, "function": name}]}, 1)
            arguments = call["function"]["arguments"]
            for start in range(0, len(arguments), _ARGUMENT_PIECE):
                piece = arguments[start : start + _ARGUMENT_PIECE]
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, 1)
        yield self._chunk({}, 0, self._finish_reason)
        if self._wants_usage:
            yield TimedChunk(
                {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}, 0
            )

    def _chunk(self, delta: dict[str, Any], tokens: float, finish_reason: str | None = None) -> TimedChunk:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        data: dict[str, Any] = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        if self._wants_usage:
            data["usage"] = None
        return TimedChunk(data, tokens)


def _estimated_tokens(text: str) -> int:
    """About as many tokens as a real model would count, at four characters each."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
