"""Which response of the model a call belongs to, and in Gemini which prompt: agents tell that in their transcripts.

Calls of one response belong to one proposal. What a transcript does not tell is empty, and what is empty is the same
as nothing else: then a call counts as a new response.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.workspace.reading import read_end

_TAIL = 4 * 1024 * 1024
"""Bytes of a transcript that are looked at: its end."""


class Response(NamedTuple):
    """What a transcript tells of a response; what it does not tell is empty."""

    id: str = ""
    model: str = ""
    prompt: str = ""


def claude_response(path: str, call: str) -> Response:
    """The message that the call is a part of."""
    for line in reversed(_lines(path, call)):
        message = line.get("message")
        if line.get("type") == "assistant" and isinstance(message, dict):
            blocks = message.get("content")
            if isinstance(blocks, list) and any(isinstance(each, dict) and each.get("id") == call for each in blocks):
                return Response(_name(message, "id"), _name(message, "model"))
    return Response()


def codex_response(path: str, call: str) -> Response:
    """Named for the first call of the response; those of one response follow each other, before any result."""
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


def gemini_response(path: str) -> Response:
    """The model's last response, to the user's last prompt."""
    found = Response()
    for line in _lines(path, '"type"'):
        if line.get("type") == "gemini":
            found = found._replace(id=_name(line, "id"), model=_name(line, "model"))
        elif line.get("type") == "user" and "functionResponse" not in json.dumps(line.get("content")):
            found = found._replace(prompt=_name(line, "id"))
    return found


def _name(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _lines(path: str, mark: str) -> list[dict[str, Any]]:
    """The objects in the last part of a file that have a text in them; none if it can't be read."""
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
