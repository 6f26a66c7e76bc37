"""What Anthropic's API refuses, in its words where they are known."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracles.request_types import faults, request_type

_LARGEST_IMAGE = 5 * 1024 * 1024
_WORD = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def violations(body: Mapping[str, Any], *, mid_system: bool = True) -> list[str]:
    """What is wrong with a request, one line each; `mid_system`: the model takes system messages among the others."""
    found = faults(dict(body), request_type("anthropic.types.message_create_params", "MessageCreateParamsStreaming"))
    messages = body["messages"]
    found += _order([str(message["role"]) for message in messages], mid_system=mid_system)
    found += _pairing(messages)
    for position, message in enumerate(messages):
        found += [f"messages.{position}: {fault}" for fault in _blocks(message)]
    if _breakpoints(body) > 4:
        found.append("A maximum of 4 blocks with cache_control may be provided.")
    if "tool_choice" in body and not body.get("tools"):
        found.append("tool_choice may only be specified while providing tools")
    return found


def _order(roles: Sequence[str], *, mid_system: bool) -> list[str]:
    if not roles:
        return ["messages: at least one message is required"]
    found = []
    if roles[0] == "assistant":
        found.append("messages: first message must use the user role")
    if roles[0] == "system":
        found.append("messages.0: use the top-level 'system' parameter for the initial system prompt")
    if roles[-1] == "assistant":
        found.append("This model does not support assistant message prefill.")
    for position, (role, before, after) in enumerate(zip(roles, ["", *roles], [*roles[1:], ""], strict=False)):
        if role == "system":
            if not mid_system:
                found.append(f"messages.{position}: role 'system' is not supported on this model")
            if before != "user":
                found.append(f"messages.{position}: role 'system' must follow a 'user' message")
            if after not in ("assistant", ""):
                found.append(
                    f"messages.{position}: role 'system' must precede an 'assistant' message or end the array"
                )
        elif role == before:
            found.append(f'messages.{position}: roles must alternate between "user" and "assistant"')
    return found


def _pairing(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each call has one result, in the next message and before anything else in it."""
    found: list[str] = []
    awaited: list[str] = []
    seen: set[str] = set()
    for position, message in enumerate(messages):
        blocks = _content(message)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(awaited):
            found.append(
                f"messages.{position}: `tool_use` ids were found without `tool_result` blocks immediately after, or "
                f"unexpected `tool_use_id`: {sorted(set(results) ^ set(awaited))}"
            )
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            found.append(f"messages.{position}: tool results must come first")
        awaited = [block["id"] for block in blocks if block["type"] == "tool_use"]
        found += [f"`tool_use` ids must be unique: {one}" for one in awaited if one in seen]
        seen.update(awaited)
    return found + ([f"messages: no results for {awaited}"] if awaited else [])


def _blocks(message: Mapping[str, Any]) -> list[str]:
    found = []
    blocks = _content(message)
    if not blocks:
        found.append("all messages must have non-empty content")
    for block in blocks:
        match block["type"]:
            case "text" if not block["text"].strip():
                found.append("text content blocks must contain non-whitespace text")
            case "tool_use" if not _WORD.fullmatch(block["id"]):
                found.append("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            case "image" if not block["source"]["data"]:
                found.append("image cannot be empty")
            case "image" if len(block["source"]["data"]) > _LARGEST_IMAGE:
                found.append(f"image exceeds 5 MB maximum: {len(block['source']['data'])} bytes")
            case "thinking" if not block.get("signature"):
                found.append("thinking.signature: Field required")
    if message["role"] == "assistant" and blocks and "thinking" in blocks[-1]["type"]:
        found.append("The final block in an assistant message cannot be `thinking`.")
    allowed = {"user": {"text", "image", "tool_result"}, "system": {"text"}}
    kinds = {str(block["type"]) for block in blocks}
    if message["role"] in allowed and not kinds <= allowed[message["role"]]:
        found.append(f"{sorted(kinds)} in a message of {message['role']}")
    return found


def _content(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _breakpoints(value: Any) -> int:
    match value:
        case Mapping():
            return ("cache_control" in value) + sum(_breakpoints(one) for one in value.values())
        case list():
            return sum(_breakpoints(one) for one in value)
    return 0
