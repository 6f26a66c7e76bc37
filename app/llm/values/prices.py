"""Cost of a request where its server does not state it: by the user's prices, else by the server's list."""

from collections.abc import Mapping
from typing import Any

from app.config.config_tables import Price, matching_patterns
from app.llm.values.types import Usage

_MILLION = 1_000_000
_LISTED = {
    "input": ("prompt", "input"),
    "output": ("completion", "output"),
    "cached": ("input_cache_read", "cache_read"),
    "cache_write": ("input_cache_write", "cache_write"),
}
"""What lists of models call each price (OpenRouter's names first), in US dollars per token."""
_DEAREST = 0.001
"""US dollars per token; what is more is no price per token."""


def price_for(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model: by its own name, else by the most specific pattern that fits it (`claude-*`)."""
    found = matching_patterns(model, prices)
    return prices[found[0]] if found else None


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """Return the usage with its cost; the server's own statement takes precedence."""
    if usage.cost is not None or price is None:
        return usage
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    written = min(usage.cache_write_tokens, usage.prompt_tokens - cached)
    parts = (
        (usage.prompt_tokens - cached - written, price.input),
        (cached, price.input if price.cached is None else price.cached),
        (written, price.input if price.cache_write is None else price.cache_write),
        (usage.completion_tokens, price.output),
    )
    return usage.model_copy(update={"cost": sum(tokens * dollars for tokens, dollars in parts) / _MILLION})


def listed_price(entry: Mapping[str, Any]) -> Price | None:
    """Return the price in an entry of a model list, or None if it does not state both directions."""
    pricing = entry.get("pricing")
    if not isinstance(pricing, dict):
        return None
    found: dict[str, float] = {}
    for kind, names in _LISTED.items():
        for name in names:
            if kind not in found and (dollars := _per_token(pricing.get(name))) is not None:
                found[kind] = round(dollars * _MILLION, 9)
    return Price(**found) if {"input", "output"} <= found.keys() else None


def _per_token(value: Any) -> float | None:
    """US dollars, from a number or its digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        dollars = float(value)
    except (ValueError, OverflowError):
        return None
    return dollars if 0 <= dollars <= _DEAREST else None
