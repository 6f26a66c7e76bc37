"""A model that answers by a script: on the wires of Anthropic's messages, Responses, chat completions and Gemini.

A step of the script is the list of calls of one response; once it is used up, the answer is "Done.".
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

Json = dict[str, Any]


class ScriptedCall(NamedTuple):
    """A call of a tool."""

    name: str
    """On the wire of Responses with its namespace, if it has one: `mcp__signoff::propose_edit`."""
    arguments: Json
    free: str = ""
    """The text of a tool that takes no JSON."""


class ScriptedModel:
    """The server; use it as a context manager."""

    def __init__(self) -> None:
        self.script: list[Sequence[ScriptedCall]] = []
        self.ready: Callable[[], object] = lambda: None
        """Called before each answer; what it waits for, the agent waits for, too."""
        self.made = 0
        """Responses with calls."""
        self.requests: list[Json] = []
        """The bodies of those that offered tools."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next_calls(self, body: Json) -> Sequence[ScriptedCall]:
        """Return the calls that answer a request; only requests that offer tools advance the script."""
        if not body.get("tools"):
            return ()
        self.requests.append(body)
        self.ready()
        if not self.script:
            return ()
        self.made += 1
        return self.script.pop(0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(b'{"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []}')

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body: Json = json.loads(raw) if raw.startswith(b"{") else {}
        path = self.path.split("?")[0]
        if path.endswith("/messages"):
            calls = self.model.next_calls(body)
            message = _message(calls, len(self.model.requests))
            self._send(*((_events(_anthropic(message))) if body.get("stream") else (json.dumps(message).encode(),)))
        elif path.endswith("/chat/completions"):
            calls = self.model.next_calls(body)
            self._send(*_events(_chat(calls, len(self.model.requests))))
        elif path.endswith("/responses"):
            calls = self.model.next_calls(body)
            self._send(*_events(_responses(calls, len(self.model.requests))))
        elif path.endswith("streamGenerateContent"):
            self._send(*_events([_gemini(self.model.next_calls(body))]))
        elif path.endswith("generateContent"):
            said = json.dumps({"reasoning": "x", "next_speaker": "user", "model_choice": "pro"})
            self._send(json.dumps(_candidate([{"text": said}])).encode())
        else:
            self._send(b'{"input_tokens": 10}')

    def _send(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _events(each: Sequence[Json] | Iterator[Json]) -> tuple[bytes, str]:
    text = "".join(
        (f"event: {one['type']}\n" if "type" in one else "") + f"data: {json.dumps(one)}\n\n" for one in each
    )
    return text.encode(), "text/event-stream"


def _message(calls: Sequence[ScriptedCall], number: int) -> Json:
    blocks: list[Json] = [
        {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": call.name, "input": call.arguments}
        for at, call in enumerate(calls)
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-scripted",
        "content": blocks or [{"type": "text", "text": "Done."}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _anthropic(message: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for at, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _responses(calls: Sequence[ScriptedCall], number: int) -> Iterator[Json]:
    items: list[Json] = []
    for at, call in enumerate(calls):
        namespace, _, name = call.name.rpartition("::")
        common = {"call_id": f"call_{number}_{at}", "name": name, "status": "completed"}
        common |= {"namespace": namespace} if namespace else {}
        if call.free:
            items.append({"type": "custom_tool_call", "id": f"ctc_{number}_{at}", "input": call.free, **common})
        else:
            text = json.dumps(call.arguments)
            items.append({"type": "function_call", "id": f"fc_{number}_{at}", "arguments": text, **common})
    if not items:
        said = [{"type": "output_text", "text": "Done.", "annotations": []}]
        items = [
            {"type": "message", "id": f"m_{number}", "role": "assistant", "status": "completed", "content": said}
        ]
    response = {"id": f"resp_{number}", "object": "response"}
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    for at, item in enumerate(items):
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": items, "usage": usage},
    }


def _chat(calls: Sequence[ScriptedCall], number: int) -> Iterator[Json]:
    functions: list[Json] = [
        {
            "index": at,
            "id": f"call_{number}_{at}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for at, call in enumerate(calls)
    ]
    common = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    said = {"role": "assistant", **({"tool_calls": functions} if functions else {"content": "Done."})}
    yield {**common, "choices": [{"index": 0, "delta": said, "finish_reason": None}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    ending = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if functions else "stop"}
    yield {**common, "choices": [ending], "usage": usage}


def _gemini(calls: Sequence[ScriptedCall]) -> Json:
    return _candidate(
        [{"functionCall": {"name": call.name, "args": call.arguments}} for call in calls] or [{"text": "Done."}]
    )


def _candidate(parts: Sequence[Json]) -> Json:
    answer = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    counts = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [answer], "usageMetadata": counts}
