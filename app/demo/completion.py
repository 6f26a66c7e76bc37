"""Puts a reply into the shapes of the Chat Completions API: one object, or the chunks of a stream."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from app.demo.reply import Reply
from app.demo.requests import MODEL_ID, ChatRequest

_CHARACTERS_PER_TOKEN = 4
_PIECES = re.compile(r"\s*\S{1,12}|\s+")
"""Text is streamed in pieces about as long as tokens are."""
_ARGUMENT_PIECE = 24
"""Characters of a call's arguments in one chunk."""


class Completion:
    """The response to one request."""

    def __init__(self, request: ChatRequest, reply: Reply) -> None:
        self._reply = reply
        self._wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        self._calls: list[dict[str, Any]] = [
            {
                "id": f"call_{uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in reply.calls
        ]
        self._head = {"id": f"chatcmpl-{uuid4().hex[:24]}", "created": int(time.time()), "model": MODEL_ID}
        self._finish_reason = "tool_calls" if reply.calls else "stop"
        asked = len(json.dumps([request["messages"], request.get("tools")])) // _CHARACTERS_PER_TOKEN
        said = len(json.dumps([reply.text, self._calls])) // _CHARACTERS_PER_TOKEN
        self._usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}

    def whole(self) -> dict[str, Any]:
        """The response as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": self._reply.text or None, "refusal": None}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The response as a stream, about a token each; usage comes last, if it was asked for."""
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in _PIECES.findall(self._reply.text):
            yield self._chunk({"content": piece})
        for index, call in enumerate(self._calls):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            yield self._chunk({"tool_calls": [{**call, "index": index, "function": {"name": name, "arguments": ""}}]})
            for start in range(0, len(arguments), _ARGUMENT_PIECE):
                piece = arguments[start : start + _ARGUMENT_PIECE]
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self._chunk({}, self._finish_reason)
        if self._wants_usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if self._wants_usage else {}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], **usage}
