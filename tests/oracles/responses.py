"""What OpenAI's Responses API refuses, in its words where they are known."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracles.request_types import faults, request_type

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SYSTEM = ("system", "developer")


def violations(body: Mapping[str, Any], *, mid_system: bool = True) -> list[str]:
    """What is wrong with a request, one line each; `mid_system`: the model takes system messages among the others."""
    found = faults(
        dict(body), request_type("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming")
    )
    if body.get("store") is not False:
        found.append("the request leaves a copy on the server")
    if "tool_choice" in body and not body.get("tools"):
        found.append("Tool choices other than 'auto' require 'tools'.")
    items = body["input"]
    found += _pairing(items)
    for position, item in enumerate(items):
        role = item.get("role")
        if role is not None and not str(item["content"]).strip():
            found.append(f"input[{position}]: empty {role} message")
        if role in _SYSTEM and not mid_system:
            found.append(f"input[{position}]: System message must be at the beginning.")
    return found


def _pairing(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each call has one output, before anything but other calls, outputs and reasoning; reasoning has led to one."""
    found: list[str] = []
    awaited: set[str] = set()
    seen: set[str] = set()
    for position, item in enumerate(items):
        kind = item.get("type", "message")
        match kind:
            case "function_call":
                found += _call(item, seen)
                seen.add(item["call_id"])
                awaited.add(item["call_id"])
            case "function_call_output" if item["call_id"] not in awaited:
                found.append(f"No tool call found for function call output with call_id {item['call_id']}.")
            case "function_call_output":
                awaited.discard(item["call_id"])
            case "reasoning":
                following = items[position + 1] if position + 1 < len(items) else {}
                led_to = following.get("type", "message")
                if not (led_to in ("function_call", "reasoning") or following.get("role") == "assistant"):
                    found.append(f"Item '{item['id']}' of type 'reasoning' was provided without its following item.")
                if not item.get("encrypted_content"):
                    found.append(
                        f"Item with id '{item['id']}' not found. Items are not persisted when store is false."
                    )
            case _ if awaited:
                found.append(f"input[{position}]: {kind} before the outputs of {sorted(awaited)}")
    return found + [f"No tool output found for function call {one}." for one in sorted(awaited)]


def _call(item: Mapping[str, Any], seen: set[str]) -> list[str]:
    found = []
    if item["call_id"] in seen:
        found.append(f"Duplicate call_id {item['call_id']}")
    if not 0 < len(item["call_id"]) <= 64:
        found.append(f"call_id: string too long or empty ({len(item['call_id'])})")
    if not _NAME.fullmatch(item["name"]):
        found.append(f"name: {item['name']!r} does not match the pattern")
    if not isinstance(json.loads(item["arguments"]), dict):
        found.append("arguments: no object")
    return found
