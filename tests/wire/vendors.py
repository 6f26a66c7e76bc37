"""The wires as the test server speaks them: each takes only what its vendor takes, and answers as its vendor does."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.oracles import anthropic, responses
from tests.wire.replies import Reply, Turn, document, error, pieces, stream

Body = Mapping[str, Any]


def named(data: Mapping[str, Any]) -> bytes:
    """One server-sent event with its type as its name, as both vendors send them."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def anthropic_error(status: int, message: str, kind: str = "invalid_request_error", **options: Any) -> Reply:
    return document({"type": "error", "error": {"type": kind, "message": message}}, status=status, **options)


def anthropic_reply(turn: Turn, number: int) -> Reply:
    usage = {"input_tokens": turn.prompt_tokens, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "test-model", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": {**usage, "output_tokens": 1}}},
        {"type": "ping"},
    ]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if turn.reasoning:
        thoughts = [{"type": "thinking_delta", "thinking": one} for one in pieces(turn.reasoning, turn.pieces)]
        signature = {"type": "signature_delta", "signature": f"signed {turn.reasoning}"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]))
    if turn.text:
        deltas = [{"type": "text_delta", "text": one} for one in pieces(turn.text, turn.pieces)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for at, call in enumerate(turn.calls):
        identity = call.id if call.id is not None else f"toolu_{number}_{at}"
        arguments = [
            {"type": "input_json_delta", "partial_json": one} for one in ["", *pieces(call.raw, turn.pieces)]
        ]
        blocks.append(({"type": "tool_use", "id": identity, "name": call.name, "input": {}}, arguments))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = turn.finish if turn.finish != "default" else ("tool_use" if turn.calls else "end_turn")
    if reason is not None:
        delta = {"stop_reason": reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": turn.completion_tokens}})
    events.append({"type": "message_stop"})
    return stream(*[named(one) for one in events])


def responses_reply(turn: Turn, number: int) -> Reply:
    head: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "model": "test-model",
        "output": [],
        "error": None,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**head, "status": "in_progress"}},
        {"type": "response.in_progress", "response": {**head, "status": "in_progress"}},
    ]
    place = 0
    if turn.reasoning:
        item = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        events.append({"type": "response.output_item.added", "output_index": place, "item": item})
        delta = {"type": "response.reasoning_summary_text.delta", "output_index": place, "summary_index": 0}
        events += [{**delta, "delta": one} for one in pieces(turn.reasoning, turn.pieces)]
        summary = [{"type": "summary_text", "text": turn.reasoning}]
        whole = {**item, "summary": summary, "encrypted_content": f"sealed {turn.reasoning}"}
        events.append({"type": "response.output_item.done", "output_index": place, "item": whole})
        place += 1
    if turn.text:
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": []}
        events.append({"type": "response.output_item.added", "output_index": place, "item": item})
        delta = {"type": "response.output_text.delta", "output_index": place, "content_index": 0}
        events += [{**delta, "delta": one} for one in pieces(turn.text, turn.pieces)]
        whole = {**item, "content": [{"type": "output_text", "text": turn.text}]}
        events.append({"type": "response.output_item.done", "output_index": place, "item": whole})
        place += 1
    for at, call in enumerate(turn.calls, start=place):
        identity = call.id if call.id is not None else f"call_{number}_{at}"
        item = {"type": "function_call", "id": f"fc_{at}", "call_id": identity, "name": call.name, "arguments": ""}
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        delta = {"type": "response.function_call_arguments.delta", "output_index": at}
        events += [{**delta, "delta": one} for one in pieces(call.raw, turn.pieces)]
        events.append({**delta, "type": "response.function_call_arguments.done", "arguments": call.raw})
        whole = {**item, "arguments": call.raw}
        events.append({"type": "response.output_item.done", "output_index": at, "item": whole})
    usage = {
        "input_tokens": turn.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": turn.completion_tokens,
    }
    if turn.finish == "default":
        events.append({"type": "response.completed", "response": {**head, "status": "completed", "usage": usage}})
    elif turn.finish is not None:
        cut = {**head, "status": "incomplete", "incomplete_details": {"reason": turn.finish}, "usage": usage}
        events.append({"type": "response.incomplete", "response": cut})
    return stream(*[named(one) for one in events])


@dataclass(frozen=True)
class Vendor:
    """How one wire is spoken."""

    name: str
    path: str
    """How the path of its requests ends."""
    reply: Callable[[Turn, int], Reply]
    error: Callable[..., Reply]
    violations: Callable[..., list[str]]
    too_long: str
    """Its reason to stop for length."""

    def refusal(self, body: Body, *, mid_system: bool) -> Reply | None:
        """The vendor's 400 if there is anything wrong with a request."""
        found = self.violations(body, mid_system=mid_system)
        return self.error(400, found[0]) if found else None


VENDORS = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            "anthropic", "/v1/messages", anthropic_reply, anthropic_error, anthropic.violations, too_long="max_tokens"
        ),
        Vendor("responses", "/responses", responses_reply, error, responses.violations, too_long="max_output_tokens"),
    )
}
ONLY_RESPONSES = error(
    404,
    "This model is only supported in v1/responses and not in v1/chat/completions.",
    kind="invalid_request_error",
    code="model_not_supported",
)
"""What OpenAI answers on chat completions for its models that do not speak it."""
NOT_THERE = document({"detail": "Not Found"}, status=404)
