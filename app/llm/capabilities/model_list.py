"""The list of models that an endpoint gives, in the shapes in use, with what it says of their context windows."""

from dataclasses import dataclass
from typing import Any

from app.config import Price
from app.llm.prices import listed_price

_WINDOW = (
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
"""What servers call the window, the one in force before the one that is possible."""
_INSIDE = ("top_provider", "meta", "limits", "capabilities")
"""Where they put it: OpenRouter, llama.cpp, and others."""
_PLAUSIBLE = range(256, 100_000_000)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One model of the list."""

    id: str
    context_window: int | None = None
    """Tokens, where the list says so."""
    price: Price | None = None


def read_models(body: Any) -> list[ListedModel] | None:
    """The models in the answer of `/models`; None if that is no list of models."""
    entries = body.get("data", body.get("models")) if isinstance(body, dict) else body
    if not isinstance(entries, list):
        return None
    named = [(entry.get("id") or entry.get("name"), entry) for entry in entries if isinstance(entry, dict)]
    return [ListedModel(name, _window(entry), listed_price(entry)) for name, entry in named if isinstance(name, str)]


def listed_facts(models: list[ListedModel], name: str) -> dict[str, Any]:
    """What the list says of the model of this name, as fields of a profile."""
    model = next((model for model in models if model.id == name), None)
    facts: dict[str, Any] = {}
    if model is not None and model.context_window is not None:
        facts["context_window"] = model.context_window
    if model is not None and model.price is not None:
        facts["price"] = model.price.model_dump(exclude_none=True)
    return facts


def _window(entry: dict[str, Any]) -> int | None:
    places = [inner for key in _INSIDE if isinstance(inner := entry.get(key), dict)]
    for place in (*places, entry):
        for key in _WINDOW:
            value = place.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value in _PLAUSIBLE:
                return value
    return None
