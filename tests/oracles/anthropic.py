"""Rules of Anthropic's API, with its error messages where they are known."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracles.request_types import faults, request_type

_MAX_IMAGE_BYTES = 5 * 1024 * 1024
_ID_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def violations(body: Mapping[str, Any], *, mid_system: bool = True) -> list[str]:
    """Return the errors of a request; `mid_system`: the model accepts system messages after the first message."""
    errors = faults(dict(body), request_type("anthropic.types.message_create_params", "MessageCreateParamsStreaming"))
    messages = body["messages"]
    errors += _order([str(message["role"]) for message in messages], mid_system=mid_system)
    errors += _pairing(messages)
    for position, message in enumerate(messages):
        errors += [f"messages.{position}: {fault}" for fault in _blocks(message)]
    if _breakpoints(body) > 4:
        errors.append("A maximum of 4 blocks with cache_control may be provided.")
    if "tool_choice" in body and not body.get("tools"):
        errors.append("tool_choice may only be specified while providing tools")
    return errors


def _order(roles: Sequence[str], *, mid_system: bool) -> list[str]:
    if not roles:
        return ["messages: at least one message is required"]
    errors = []
    if roles[0] == "assistant":
        errors.append("messages: first message must use the user role")
    if roles[0] == "system":
        errors.append("messages.0: use the top-level 'system' parameter for the initial system prompt")
    if roles[-1] == "assistant":
        errors.append("This model does not support assistant message prefill.")
    for position, (role, before, after) in enumerate(zip(roles, ["", *roles], [*roles[1:], ""], strict=False)):
        if role == "system":
            if not mid_system:
                errors.append(f"messages.{position}: role 'system' is not supported on this model")
            if before != "user":
                errors.append(f"messages.{position}: role 'system' must follow a 'user' message")
            if after not in ("assistant", ""):
                errors.append(
                    f"messages.{position}: role 'system' must precede an 'assistant' message or end the array"
                )
        elif role == before:
            errors.append(f'messages.{position}: roles must alternate between "user" and "assistant"')
    return errors


def _pairing(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each call has one result, at the beginning of the next message."""
    errors: list[str] = []
    awaited: list[str] = []
    seen: set[str] = set()
    for position, message in enumerate(messages):
        blocks = _content(message)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(awaited):
            errors.append(
                f"messages.{position}: `tool_use` ids were found without `tool_result` blocks immediately after, or "
                f"unexpected `tool_use_id`: {sorted(set(results) ^ set(awaited))}"
            )
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            errors.append(f"messages.{position}: tool results must come first")
        awaited = [block["id"] for block in blocks if block["type"] == "tool_use"]
        errors += [f"`tool_use` ids must be unique: {call_id}" for call_id in awaited if call_id in seen]
        seen.update(awaited)
    return errors + ([f"messages: no results for {awaited}"] if awaited else [])


def _blocks(message: Mapping[str, Any]) -> list[str]:
    errors = []
    blocks = _content(message)
    if not blocks:
        errors.append("all messages must have non-empty content")
    for block in blocks:
        match block["type"]:
            case "text" if not block["text"].strip():
                errors.append("text content blocks must contain non-whitespace text")
            case "tool_use" if not _ID_PATTERN.fullmatch(block["id"]):
                errors.append("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            case "image" if not block["source"]["data"]:
                errors.append("image cannot be empty")
            case "image" if len(block["source"]["data"]) > _MAX_IMAGE_BYTES:
                errors.append(f"image exceeds 5 MB maximum: {len(block['source']['data'])} bytes")
            case "thinking" if not block.get("signature"):
                errors.append("thinking.signature: Field required")
    if message["role"] == "assistant" and blocks and "thinking" in blocks[-1]["type"]:
        errors.append("The final block in an assistant message cannot be `thinking`.")
    allowed = {"user": {"text", "image", "tool_result"}, "system": {"text"}}
    kinds = {str(block["type"]) for block in blocks}
    if message["role"] in allowed and not kinds <= allowed[message["role"]]:
        errors.append(f"{sorted(kinds)} in a message of {message['role']}")
    return errors


def _content(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _breakpoints(value: Any) -> int:
    match value:
        case Mapping():
            return ("cache_control" in value) + sum(_breakpoints(item) for item in value.values())
        case list():
            return sum(_breakpoints(item) for item in value)
    return 0
