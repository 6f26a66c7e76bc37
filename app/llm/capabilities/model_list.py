"""Parse an endpoint's list of models in the known formats, with prices, and compute the cost of a request."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from app.config.config_tables import MIN_WINDOW_TOKENS, PriceTable, matching_model_patterns
from app.llm.values.requests_and_updates import TokenUsage

_MILLION = 1_000_000
_PRICE_NAMES = {
    "input": ("prompt", "input"),
    "output": ("completion", "output"),
    "cached": ("input_cache_read", "cache_read"),
    "cache_write": ("input_cache_write", "cache_write"),
}
"""Field names of each price in lists of models (OpenRouter's first), in US dollars per token."""
_MAX_DOLLARS_PER_TOKEN = 0.001
"""Highest plausible price in US dollars per token; larger values are ignored."""


def find_price(model: str, prices: Mapping[str, PriceTable]) -> PriceTable | None:
    """Return the price of a model: by its name, else by the most specific pattern that matches it (`claude-*`)."""
    found = matching_model_patterns(model, prices)
    return prices[found[0]] if found else None


def add_cost(usage: TokenUsage, price: PriceTable | None) -> TokenUsage:
    """Return the usage with its cost; a cost that the server reported takes precedence."""
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


def parse_listed_price(entry: Mapping[str, Any]) -> PriceTable | None:
    """Return the price in an entry of a model list; None if it does not have prices for both input and output."""
    pricing = entry.get("pricing")
    if not isinstance(pricing, dict):
        return None
    found: dict[str, float] = {}
    for kind, names in _PRICE_NAMES.items():
        for name in names:
            if kind not in found and (dollars := _parse_dollars_per_token(pricing.get(name))) is not None:
                found[kind] = round(dollars * _MILLION, 9)
    return PriceTable(**found) if {"input", "output"} <= found.keys() else None


def _parse_dollars_per_token(value: Any) -> float | None:
    """Return US dollars from a number or a numeric string; None if it is not a plausible price."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        dollars = float(value)
    except (ValueError, OverflowError):
        return None
    return dollars if 0 <= dollars <= _MAX_DOLLARS_PER_TOKEN else None


_WINDOW_NAMES = (
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_model_len",
    "max_context_length",
    "max_input_tokens",
    "inputTokenLimit",
    "n_ctx",
    "n_ctx_train",
)
"""Field names of the context window; the size in use comes before the possible size."""
_NESTED_NAMES = ("top_provider", "meta", "limits", "capabilities")
"""Objects inside an entry that may have the window (OpenRouter, llama.cpp and others)."""
NO_IMAGES = "The model accepts no images, as the server says: they are left out, and it is told."
_PLAUSIBLE_WINDOW_TOKENS = range(MIN_WINDOW_TOKENS, 100_000_000)


class ListedModel(Struct, frozen=True):
    """A model in an endpoint's list."""

    id: str
    context_window: int | None = None
    """Tokens; None if the list does not have it."""
    price: PriceTable | None = None
    takes_images: bool | None = None
    """None if the list does not say it."""


def parse_model_list(body: Any) -> list[ListedModel] | None:
    """Return the models of a `/models` response; None if it is not a list of models."""
    entries = body.get("data", body.get("models")) if isinstance(body, dict) else body
    if not isinstance(entries, list):
        return None
    named = [(entry.get("id") or entry.get("name"), entry) for entry in entries if isinstance(entry, dict)]
    return [
        ListedModel(name, _find_context_window(entry), parse_listed_price(entry), _find_image_support(entry))
        for name, entry in named
        if isinstance(name, str)
    ]


def profile_fields_from_list(models: list[ListedModel], model_id: str) -> dict[str, Any]:
    """Return the facts about this model in the list, as fields of a profile."""
    model = next((model for model in models if model.id == model_id), None)
    if model is None:
        return {}
    price = model.price.model_dump(exclude_none=True) if model.price is not None else None
    facts = {"context_window": model.context_window, "price": price, "images_supported": model.takes_images}
    return {field: value for field, value in facts.items() if value is not None}


_MODALITY_NAMES = ("input_modalities", "supported_input_modalities", "modalities")
_VISION_NAMES = ("vision", "image_input", "supports_vision", "supports_image_input")
"""Fields about image support: a list of input types (OpenRouter, GitHub), or one capability (Mistral, Anthropic)."""


def _find_image_support(entry: dict[str, Any]) -> bool | None:
    """Return whether the model accepts images according to its entry; None if the entry does not say it."""
    nested = [entry.get(key) for key in (*_NESTED_NAMES, "architecture")]
    parts = [entry, *(part for part in nested if isinstance(part, dict))]
    for part in parts:
        for key in _MODALITY_NAMES:
            if isinstance(kinds := part.get(key), list) and kinds:
                return any(str(kind).lower() in ("image", "images", "vision") for kind in kinds)
        for key in _VISION_NAMES:
            value = part.get(key)
            if isinstance(value, dict):
                value = value.get("supported")
            if isinstance(value, bool):
                return value
    return None


def _find_context_window(entry: dict[str, Any]) -> int | None:
    parts = [inner for key in _NESTED_NAMES if isinstance(inner := entry.get(key), dict)]
    for part in (*parts, entry):
        for key in _WINDOW_NAMES:
            value = part.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value in _PLAUSIBLE_WINDOW_TOKENS:
                return value
    return None
