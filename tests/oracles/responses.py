"""Rules of OpenAI's Responses API, with its error messages where they are known."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracles.request_types import faults, request_type

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SYSTEM_ROLES = ("system", "developer")


def violations(body: Mapping[str, Any], *, mid_system: bool = True) -> list[str]:
    """Return the errors of a request; `mid_system`: the model accepts system messages after the first message."""
    errors = faults(
        dict(body), request_type("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming")
    )
    if body.get("store") is not False:
        errors.append("the request leaves a copy on the server")
    if "tool_choice" in body and not body.get("tools"):
        errors.append("Tool choices other than 'auto' require 'tools'.")
    items = body["input"]
    errors += _pairing(items)
    for position, item in enumerate(items):
        role = item.get("role")
        if role is not None and not str(item["content"]).strip():
            errors.append(f"input[{position}]: empty {role} message")
        if role in _SYSTEM_ROLES and not mid_system:
            errors.append(f"input[{position}]: System message must be at the beginning.")
    return errors


def _pairing(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each call has one output, before other items except calls, outputs and reasoning; reasoning precedes its
    result.
    """
    errors: list[str] = []
    awaited: set[str] = set()
    seen: set[str] = set()
    for position, item in enumerate(items):
        kind = item.get("type", "message")
        match kind:
            case "function_call":
                errors += _call(item, seen)
                seen.add(item["call_id"])
                awaited.add(item["call_id"])
            case "function_call_output" if item["call_id"] not in awaited:
                errors.append(f"No tool call found for function call output with call_id {item['call_id']}.")
            case "function_call_output":
                awaited.discard(item["call_id"])
            case "reasoning":
                following = items[position + 1] if position + 1 < len(items) else {}
                following_type = following.get("type", "message")
                if not (following_type in ("function_call", "reasoning") or following.get("role") == "assistant"):
                    errors.append(f"Item '{item['id']}' of type 'reasoning' was provided without its following item.")
                if not item.get("encrypted_content"):
                    errors.append(
                        f"Item with id '{item['id']}' not found. Items are not persisted when store is false."
                    )
            case _ if awaited:
                errors.append(f"input[{position}]: {kind} before the outputs of {sorted(awaited)}")
    return errors + [f"No tool output found for function call {call_id}." for call_id in sorted(awaited)]


def _call(item: Mapping[str, Any], seen: set[str]) -> list[str]:
    errors = []
    if item["call_id"] in seen:
        errors.append(f"Duplicate call_id {item['call_id']}")
    if not 0 < len(item["call_id"]) <= 64:
        errors.append(f"call_id: string too long or empty ({len(item['call_id'])})")
    if not _NAME.fullmatch(item["name"]):
        errors.append(f"name: {item['name']!r} does not match the pattern")
    if not isinstance(json.loads(item["arguments"]), dict):
        errors.append("arguments: no object")
    return errors
