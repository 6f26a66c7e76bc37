"""Size limits of a response, far above what models write.

What exceeds one is not read on, not kept and not asked for again: the same server would send the same again.
"""

import json
from typing import Any

from pydantic_core import from_json

DEEPEST = 100
"""Levels of objects and lists in each other."""


def parse_json(text: str, *, strict: bool = True) -> Any:
    """Return the parsed text; `strict` as in `json.loads`. Raises ValueError or RecursionError."""
    value = _value(text) if strict else json.loads(text, strict=False)
    # Each level has a bracket of its own: without so many there is nothing to look through.
    if text.count("{") + text.count("[") > DEEPEST and _is_deeper(value, DEEPEST):
        raise ValueError("it is nested too deeply")
    return value


def _value(text: str) -> Any:
    """As `json.loads`, in a quarter of the time for the small objects that a response streams in."""
    try:
        return from_json(text, cache_strings="keys")
    except (ValueError, TypeError):
        # It knows no halves of surrogate pairs, which servers send, and says something else about what is no JSON.
        return json.loads(text)


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return not levels or any(_is_deeper(one, levels - 1) for one in inner)


ERROR = 2**20
"""Bytes of an error's body."""
LISTING = 16 * 2**20
"""Bytes of the list of models."""
RENDERED = 2**20
"""Bytes of an answer that has a rendered prompt of a few hundred words, or its tokens."""
BODY = 256 * 2**20
"""Bytes of a streamed body, framing included; it is not kept."""
EVENT = 8 * 2**20
"""Bytes of one event, of one line, and of whatever else comes without any event: heartbeats, a page, a document."""
RESPONSE = 4 * 2**20
"""Characters of text, reasoning, arguments and opaque fields together."""
CALL = 2 * 2**20
"""Characters of the arguments of one call."""
CALLS = 512
"""Tool calls of one response."""


class ResponseTooLarge(Exception):
    """A response exceeds a limit; the message names the part, as in `an event of more than 8 MiB`."""

    def __init__(self, what: str, limit: int, unit: str = "B") -> None:
        super().__init__(f"{what} of more than {_amount(limit, unit)}")


def _amount(limit: int, unit: str) -> str:
    if limit >= 2**20 and not limit % 2**20:
        return f"{limit // 2**20} Mi{unit}" if unit == "B" else f"{limit // 2**20} million {unit}"
    return f"{limit:,} {'bytes' if unit == 'B' else unit}"
