"""Tool call arguments as models write them and servers forward them, made into an object or a clear complaint."""

import json
from collections.abc import Mapping
from typing import Any

from app.llm.response.nesting import decoded

EXCERPT = 60
"""Characters of the arguments around the fault that the complaint quotes."""


def as_text(arguments: Any) -> str:
    """The arguments of one delta as text: a string as it is, None as nothing, anything else as JSON."""
    match arguments:
        case None:
            return ""
        case str():
            return arguments
        case _:
            return json.dumps(arguments, ensure_ascii=False)


def parse_arguments(raw: str) -> tuple[dict[str, Any] | None, str]:
    """The arguments as an object and an empty complaint, or None and what is wrong with them.

    Nothing at all and `null` are an object without fields, and an object that was encoded twice is decoded twice.
    Nothing is guessed or completed: what is cut off or followed by junk does not run.
    """
    if raw.strip() in ("", "null"):
        return {}, ""
    try:
        value = _decode(raw)
        if isinstance(value, str):
            value = _decode(value) if value.strip() else {}
    except json.JSONDecodeError as fault:
        return None, _complaint(fault)
    except (ValueError, RecursionError) as fault:
        return None, f"The arguments are not usable JSON: {fault}."
    if not isinstance(value, Mapping):
        return None, f"The arguments must be a JSON object, not {_kind(value)}."
    if not _is_encodable(value):
        return None, "The arguments contain half of a surrogate pair, which is not a character."
    return dict(value), ""


def is_complete(raw: str) -> bool:
    """Whether the text so far is a whole JSON object."""
    try:
        return isinstance(_decode(raw), dict)
    except (ValueError, RecursionError):
        return False


def _decode(text: str) -> Any:
    # Not strict: a line break that stands unescaped in a string has only one possible meaning.
    return decoded(text, strict=False)


def _complaint(fault: json.JSONDecodeError) -> str:
    if fault.msg == "Extra data":
        junk = fault.doc[fault.pos : fault.pos + EXCERPT]
        return f"The arguments are not one JSON object: it ends at character {fault.pos}, and {junk!r} follows."
    before = fault.doc[max(0, fault.pos - EXCERPT) : fault.pos]
    if fault.pos >= len(fault.doc.rstrip()) or fault.msg.startswith("Unterminated"):
        return f"The arguments are not complete JSON: they break off after {fault.doc[-EXCERPT:]!r}."
    return f"The arguments are not valid JSON: {fault.msg} at character {fault.pos}, after {before!r}."


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"


def _is_encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
