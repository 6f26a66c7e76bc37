"""What the test server can send: a `Turn` is what the model says, a `Reply` is the bytes that go out.

A `Turn` is rendered by `Turn.reply` in the ordinary shape of the streaming Chat Completions protocol. Everything
else (broken framing, odd chunks, errors, cuts, silence) is written as a `Reply` directly:

    stream(chunk(text="Hel"), b": comment\\n\\n", chunk(text="lo"), chunk(finish="stop"), DONE)
    stream(chunk(text="Hel"), CUT)                  the connection is reset
    stream(chunk(text="Hel"), STALL)                nothing more comes; the connection stays open
    error(429, "slow down", headers={"retry-after": "2"})
    document("<html>", content_type="text/html")    any body with any status
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Action(Enum):
    CUT = "cut"
    """Reset the connection."""
    STALL = "stall"
    """Send nothing more and keep the connection open until the client leaves or the server stops."""
    BREAK = "break"
    """Let the bytes so far reach the client as a piece of their own."""
    END = "end"
    """End the body here, in good order."""


CUT, STALL, BREAK, END = Action.CUT, Action.STALL, Action.BREAK, Action.END
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Reply:
    parts: tuple[bytes | Action, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    chunked: bool = True
    """False: no length and no chunks, the body ends with the connection."""
    delay: float = 0.0
    """Seconds before the status line."""


def event(data: Any) -> bytes:
    """One server-sent event; a str is sent as it is, anything else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def chunk(
    text: Any = None,
    *,
    finish: str | None = None,
    reasoning: str | None = None,
    calls: Sequence[Any] | None = None,
    usage: Any = None,
    **fields: Any,
) -> dict[str, Any]:
    """A chunk in the ordinary shape; `fields` are put into the delta."""
    delta: dict[str, Any] = dict(fields)
    if text is not None:
        delta["content"] = text
    if reasoning is not None:
        delta["reasoning_content"] = reasoning
    if calls is not None:
        delta["tool_calls"] = list(calls)
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "test-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage is not None:
        body["usage"] = usage
    return body


def call_delta(
    index: Any = 0, *, call_id: Any = None, name: Any = None, arguments: Any = None, **extra: Any
) -> dict[str, Any]:
    """One element of `delta.tool_calls`; what is None is left out (pass `index=None` to leave that out)."""
    delta: dict[str, Any] = dict(extra)
    if index is not None:
        delta["index"] = index
    if call_id is not None:
        delta["id"] = call_id
    function = {}
    if name is not None:
        function["name"] = name
    if arguments is not None:
        function["arguments"] = arguments
    if function:
        delta["type"] = "function"
        delta["function"] = function
    return delta


def stream(*parts: Any, status: int = 200, headers: Mapping[str, str] | None = None, **options: Any) -> Reply:
    """A streamed reply of dicts and strings (sent as events), bytes (sent as they are) and actions."""
    rendered = tuple(part if isinstance(part, bytes | Action) else event(part) for part in parts)
    return Reply(rendered, status=status, headers=headers or {}, **options)


def document(body: Any, *, status: int = 200, content_type: str = "application/json", **options: Any) -> Reply:
    """A reply that is not a stream: bytes and str as they are, anything else as JSON."""
    if isinstance(body, bytes):
        content = body
    elif isinstance(body, str):
        content = body.encode()
    else:
        content = json.dumps(body).encode()
    return Reply((content,), status=status, content_type=content_type, **options)


def error(
    status: int,
    message: str = "",
    *,
    code: Any = None,
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Reply:
    body = {"error": {"message": message, "type": kind, "param": None, "code": code, **fields}}
    return document(body, status=status, headers=headers or {})


@dataclass(frozen=True)
class Call:
    """A tool call of the scripted model."""

    name: str
    arguments: dict[str, Any] | str
    """A str goes out as it is, valid JSON or not."""
    id: str | None = None

    @property
    def raw(self) -> str:
        """The arguments as the wire carries them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Turn:
    """One response of the scripted model, in its own terms."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str | None = "default"
    """`default`: `tool_calls` or `stop`, as fits."""
    prompt_tokens: int = 10
    completion_tokens: int = 5
    pieces: int = 3
    """Number of deltas that the text and the arguments are cut into."""

    def reply(self, number: int = 0, *, usage: bool = True) -> Reply:
        """The ordinary rendering; `number` makes the ids of the calls unique in a session."""
        finish = self.finish if self.finish != "default" else ("tool_calls" if self.calls else "stop")
        parts: list[Any] = [chunk("", role="assistant")]
        parts += [chunk(reasoning=piece) for piece in pieces(self.reasoning, self.pieces)]
        parts += [chunk(piece) for piece in pieces(self.text, self.pieces)]
        for index, call in enumerate(self.calls):
            identity = call.id if call.id is not None else f"call_{number}_{index}"
            parts.append(chunk(calls=[call_delta(index, call_id=identity, name=call.name, arguments="")]))
            parts += [chunk(calls=[call_delta(index, arguments=piece)]) for piece in pieces(call.raw, self.pieces)]
        parts.append(chunk(finish=finish))
        if usage:
            parts.append({**chunk(), "choices": [], "usage": self._usage()})
        return stream(*parts, DONE)

    def completion(self, number: int = 0) -> dict[str, Any]:
        """The same as one JSON document, for a request without `stream`."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id if call.id is not None else f"call_{number}_{index}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.raw},
                }
                for index, call in enumerate(self.calls)
            ]
        finish = self.finish if self.finish != "default" else ("tool_calls" if self.calls else "stop")
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "test-model",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": self._usage(),
        }

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


def pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, count)))
    return [text[start : start + size] for start in range(0, len(text), size)]
