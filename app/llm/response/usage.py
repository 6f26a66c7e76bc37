"""Token counts, wherever and under whatever name a server reports them."""

from collections.abc import Mapping
from typing import Any

from app.llm.types import Usage


def read_usage(holder: Mapping[str, Any]) -> Usage | None:
    """The usage in a chunk or a choice, or None if it has none that says anything.

    Groq puts it under `x_groq`, Moonshot into the choice, DeepSeek names cached tokens its own way, and OpenRouter
    adds the cost in US dollars.
    """
    usage = holder.get("usage")
    if not isinstance(usage, dict) and isinstance(groq := holder.get("x_groq"), dict):
        usage = groq.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt = _count(usage.get("prompt_tokens")) or _count(usage.get("input_tokens"))
    completion = _count(usage.get("completion_tokens")) or _count(usage.get("output_tokens"))
    if not prompt and not completion:
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    cached = cached or _count(usage.get("prompt_cache_hit_tokens")) or _count(usage.get("cached_tokens"))
    cost = usage.get("cost")
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        cost=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(0, int(value)) if value == value and value != float("inf") else 0
