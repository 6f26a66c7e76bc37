"""Finds in an agent's transcript the model response that a call belongs to, and where it is told, the prompt.

Calls of one response belong to one proposal. A call without a response id counts as a new response.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.workspace.reading import read_end

_TAIL = 4 * 1024 * 1024
"""Bytes that are read from the end of a transcript."""


class Response(NamedTuple):
    """A response in a transcript; fields that the transcript lacks are empty."""

    id: str = ""
    model: str = ""
    prompt: str = ""


def claude_response(path: str, call: str) -> Response:
    """Return the message that contains the call."""
    for line in reversed(_lines(path, call)):
        message = line.get("message")
        if line.get("type") == "assistant" and isinstance(message, dict):
            blocks = message.get("content")
            if isinstance(blocks, list) and any(isinstance(each, dict) and each.get("id") == call for each in blocks):
                return Response(_name(message, "id"), _name(message, "model"))
    return Response()


def codex_response(path: str, call: str) -> Response:
    """Return the response of a call; its id is that of its first call. Results come after all calls of a response."""
    first = ""
    for line in _lines(path, "_call"):
        item = line.get("payload")
        if not isinstance(item, dict) or not isinstance(item.get("call_id"), str):
            continue
        kind = str(item.get("type", ""))
        if kind.endswith("_call_output"):
            first = ""
        elif kind.endswith("_call"):
            first = first or item["call_id"]
            if item["call_id"] == call:
                return Response(first)
    return Response()


def gemini_response(path: str, call: str) -> Response:
    """Return the model's last response, with the id of the user's last prompt."""
    found = Response()
    for line in _lines(path, '"type"'):
        if line.get("type") == "gemini":
            found = found._replace(id=_name(line, "id"), model=_name(line, "model"))
        elif line.get("type") == "user" and "functionResponse" not in json.dumps(line.get("content")):
            found = found._replace(prompt=_name(line, "id"))
    return found


def qwen_response(path: str, call: str) -> Response:
    """Return the model's last response. Its prompts have ids in the payload."""
    found = Response()
    for line in _lines(path, '"type"'):
        if line.get("type") == "assistant":
            found = Response(_name(line, "uuid"), _name(line, "model"))
    return found


def droid_response(path: str, call: str) -> Response:
    """Return the model's last response, with the id of the user's last prompt."""
    found = Response()
    for line in _lines(path, '"message"'):
        message = line.get("message")
        if line.get("type") != "message" or not isinstance(message, dict):
            continue
        blocks = message.get("content")
        kinds = {each.get("type") for each in blocks if isinstance(each, dict)} if isinstance(blocks, list) else set()
        if message.get("role") == "assistant":
            found = found._replace(id=_name(line, "id"), model=_name(message, "modelId"))
        elif "text" in kinds and "tool_result" not in kinds and not _name(line, "id").startswith("context-"):
            found = found._replace(prompt=_name(line, "id"))
    return found


def copilot_response(session: str) -> Response:
    """Return the model's last response, with the id of the user's prompt, from the events of a session.

    The payload does not name the file.
    """
    found = Response()
    if "/" in session:
        return found
    home = os.environ.get("COPILOT_HOME") or f"{os.environ.get('HOME', '')}/.copilot"
    for line in _lines(f"{home}/session-state/{session}/events.jsonl", '"assistant.message"'):
        data = line.get("data")
        if line.get("type") == "assistant.message" and isinstance(data, dict):
            found = Response(_name(data, "messageId"), _name(data, "model"), _name(data, "originatingMessageId"))
    return found


def _name(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _lines(path: str, mark: str) -> list[dict[str, Any]]:
    """The JSON lines at the end of a file that contain `mark`; none if it can't be read."""
    return list(_parsed(path, mark.encode()))


def _parsed(path: str, mark: bytes) -> Iterator[dict[str, Any]]:
    try:
        lines = read_end(path, _TAIL).split(b"\n")
    except (OSError, ValueError):
        return
    for line in lines:
        if mark in line:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found
