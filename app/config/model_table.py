"""The `[models."NAME"]` tables of the configuration: what is set for some models alone, by name or pattern.

Kept apart: the configuration parses them, and the words that they share with it are here.
"""

import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Effort = Literal["off", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much the model is to reason: `off` says nothing of it, `none` asks for none."""
ChosenWire = Literal["auto", "chat", "anthropic", "responses"]
"""The protocol: chat completions, Anthropic messages or Responses; `auto` is the one that fits the address."""
LEAST_WINDOW = 1_000
"""Tokens; in less there is no conversation."""
_ENDING = re.compile(r"\[([^][]*\])\Z")


class Price(BaseModel):
    """What a model's tokens cost, in US dollars per million: one entry of the `[price]` table."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    input: float = Field(ge=0)
    """Tokens that the model reads."""
    output: float = Field(ge=0)
    """Tokens that the model writes."""
    cached: float | None = Field(default=None, ge=0)
    """Input that came from a cache; as `input` if it is left out."""
    cache_write: float | None = Field(default=None, ge=0)
    """Input that was written to a cache; as `input` if it is left out."""


OWN_FIELDS = frozenset(
    {
        "messages",
        "input",
        "system",
        "instructions",
        "prompt",
        "conversation",
        "previous_response_id",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "stream",
    }
)
"""Fields of a request that are signoff's on one wire or another: what is said in it, and what may be called."""


def _addable(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields that may be added to a request."""
    if own := sorted(fields.keys() & OWN_FIELDS):
        raise ValueError(f"{own[0]} is signoff's own field of a request; take it out")
    if also := sorted(fields.keys() & {"model", "reasoning_effort"}):
        raise ValueError(f"{also[0]} is a setting of its own; write it above the tables")
    try:
        json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("a request holds no dates, and no numbers that are none") from error
    return fields


RequestFields = Annotated[dict[str, Any], AfterValidator(_addable)]
"""The `[request]` table."""


class ModelTable(BaseModel):
    """What is set for the models of one name or pattern, in the words of the general settings; None says nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    reasoning_effort: Effort | None = None
    """As the general setting."""
    context_window: int | None = Field(default=None, ge=LEAST_WINDOW)
    """Tokens, as the general setting."""
    wire: ChosenWire | None = None
    """As the general setting."""
    price: Price | None = None
    """The price of these models: `input`, `output`, `cached`, `cache_write`."""
    request: RequestFields = Field(default_factory=dict)
    """Overrides the general `[request]`, field by field."""
    profile: dict[str, Any] = Field(default_factory=dict)
    """Overrides the general `[profile]`, field by field."""


def fitting(model: str, patterns: Iterable[str]) -> list[str]:
    """The patterns that fit a model's name, the most specific first: its own name, then the longest words.

    They are those of `fnmatch`, but that brackets at the end stand for themselves: names of models end so (`[1m]`).
    """
    found = [
        pattern for pattern in patterns if pattern == model or fnmatchcase(model, _ENDING.sub(r"[[]\1", pattern))
    ]
    return sorted(found, key=lambda pattern: (pattern != model, -_letters(pattern)))


def is_pattern(name: str) -> bool:
    """Whether it stands for more than the model of this very name."""
    return _letters(name) < len(name)


def table_of(model: str, tables: Mapping[str, ModelTable]) -> ModelTable:
    """What is set for a model: by all tables that fit its name, of which the more specific goes over the other."""
    said: dict[str, Any] = {}
    for pattern in reversed(fitting(model, tables)):
        for key in tables[pattern].model_fields_set:
            value = getattr(tables[pattern], key)
            if value is not None:
                said[key] = merged(said.get(key, {}), value) if isinstance(value, Mapping) else value
    return ModelTable.model_construct(**said)


def merged(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with more of them; of two tables of the same name one is made, else the later value counts."""
    result = dict(fields)
    for name, value in more.items():
        before = result.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merged(before, value)
        result[name] = value
    return result


def _letters(pattern: str) -> int:
    return len(re.sub(r"[*?]", "", pattern))
