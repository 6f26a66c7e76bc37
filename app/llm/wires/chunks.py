"""Chunks of chat completions, made from the events of the other wires."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.llm.wires.items import OPAQUE_BLOCKS

_MOST_TOKENS = 10**9
"""More than any model reads or writes."""


def chunk(delta: Mapping[str, Any] | None = None, *, finish: str = "", **more: Any) -> dict[str, Any]:
    """One chunk; `more` are fields beside `choices` (`model`, `usage`)."""
    choice: dict[str, Any] = {"index": 0, "delta": dict(delta or {})}
    if finish:
        choice["finish_reason"] = finish
    return {"choices": [choice], **{name: value for name, value in more.items() if value}}


def call_delta(index: int, *, identity: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:
    """A delta with (a piece of) one tool call."""
    return {"tool_calls": [{"index": index, "id": identity, "function": {"name": name, "arguments": arguments}}]}


def usage_fields(prompt: int, completion: int, cached: int, *, written: int = 0, cost: Any = None) -> dict[str, Any]:
    """A usage object; `prompt` counts the tokens in that came from a cache or were written to one."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "cost": cost,
    }


def count(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value < _MOST_TOKENS else 0


def mapping(value: Any) -> Mapping[str, Any]:
    """An object in an answer; an empty one where something else stands."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> Sequence[Any]:
    """A list in an answer; an empty one where something else stands."""
    return value if isinstance(value, list) else ()


class OpaqueBlocks:
    """Notes where in a response each block stood that goes back as it came; see `items.OPAQUE_BLOCKS`."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._index = 0
        self._at = 0

    def text(self) -> None:
        """Text has come."""
        self._at = max(self._at, 1)

    def call(self) -> None:
        """A call has come."""
        self._at = max(self._at, 1) + 1

    def delta(self, block: Mapping[str, Any]) -> dict[str, Any]:
        """The delta that keeps a block."""
        self._index += 1
        entry = {"wire": self._wire, "index": self._index, "at": self._at, "block": dict(block)}
        return {OPAQUE_BLOCKS: [entry]}
