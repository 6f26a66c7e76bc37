"""Build chat completion chunks from the events of other protocols."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.llm.wires.items import OPAQUE_BLOCKS

_MOST_TOKENS = 10**9
"""More than any model reads or writes."""


def make_chunk(delta: Mapping[str, Any] | None = None, *, finish: str = "", **more: Any) -> dict[str, Any]:
    """Return a chunk; `more` are fields beside `choices` (`model`, `usage`)."""
    choice: dict[str, Any] = {"index": 0, "delta": dict(delta or {})}
    if finish:
        choice["finish_reason"] = finish
    return {"choices": [choice], **{name: value for name, value in more.items() if value}}


def call_delta(index: int, *, identity: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:
    """Return a delta with (a piece of) one tool call."""
    return {"tool_calls": [{"index": index, "id": identity, "function": {"name": name, "arguments": arguments}}]}


def usage_fields(prompt: int, completion: int, cached: int, *, written: int = 0, cost: Any = None) -> dict[str, Any]:
    """Return a usage object; `prompt` counts the tokens read from or written to a cache, too."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "cost": cost,
    }


def token_count(value: Any) -> int:
    """Return a number of tokens; 0 for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value < _MOST_TOKENS else 0


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of a response; empty if it is something else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return an array of a response; empty if it is something else."""
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
