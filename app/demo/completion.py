"""Puts a reply into the shapes of the Chat Completions API: one object, or the chunks of a stream."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from app.demo.conversation import content_text
from app.demo.words import MODEL_ID, Reply

_CHARACTERS_PER_TOKEN = 4
_PIECES = re.compile(r"\s*\S{1,12}|\s+")
"""Text is streamed in pieces about as long as tokens are."""
_ARGUMENT_PIECE = re.compile(r".{1,24}", re.DOTALL)
"""A call's arguments in one chunk."""


class Completion:
    """The response to one request."""

    def __init__(self, request: dict[str, Any], reply: Reply) -> None:
        self._text = reply.text
        self._wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        self._calls = [
            (f"call_{uuid4().hex[:24]}", call.name, json.dumps(call.arguments, ensure_ascii=False))
            for call in reply.calls
        ]
        self._head = {"id": f"chatcmpl-{uuid4().hex[:24]}", "created": int(time.time()), "model": MODEL_ID}
        # Of a message with images it reads the text alone.
        read = [{**message, "content": content_text(message.get("content"))} for message in request["messages"]]
        asked = len(json.dumps([read, request.get("tools")])) // _CHARACTERS_PER_TOKEN
        said = len(json.dumps([reply.text, self._calls])) // _CHARACTERS_PER_TOKEN
        self._usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        self._finish_reason = "tool_calls" if reply.calls else "stop"

    def whole(self) -> dict[str, Any]:
        """The response as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": self._text or None, "refusal": None}
        if self._calls:
            message["tool_calls"] = [_call(*call) for call in self._calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The response as a stream, about a token each; usage comes last, if it was asked for."""
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in _PIECES.findall(self._text):
            yield self._chunk({"content": piece})
        for index, (identity, name, arguments) in enumerate(self._calls):
            yield self._chunk({"tool_calls": [{"index": index, **_call(identity, name, "")}]})
            for piece in _ARGUMENT_PIECE.findall(arguments):
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self._chunk({}, self._finish_reason)
        if self._wants_usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def _call(identity: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
