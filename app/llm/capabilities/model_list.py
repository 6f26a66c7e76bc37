"""Read an endpoint's list of models, in the formats in use, and the facts in it."""

from dataclasses import dataclass
from typing import Any

from app.config.config_tables import LEAST_WINDOW, Price
from app.llm.values.prices import listed_price

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
NO_IMAGES = "The model takes no images, as the server lists it: it goes on without, and is told so."
_PLAUSIBLE = range(LEAST_WINDOW, 100_000_000)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One model of the list."""

    id: str
    context_window: int | None = None
    """Tokens, where the list says so."""
    price: Price | None = None
    takes_images: bool | None = None
    """None where the list does not say."""


def read_models(body: Any) -> list[ListedModel] | None:
    """Return the models of a `/models` response; None if it is not a list of models."""
    entries = body.get("data", body.get("models")) if isinstance(body, dict) else body
    if not isinstance(entries, list):
        return None
    named = [(entry.get("id") or entry.get("name"), entry) for entry in entries if isinstance(entry, dict)]
    return [
        ListedModel(name, _window(entry), listed_price(entry), _takes_images(entry))
        for name, entry in named
        if isinstance(name, str)
    ]


def listed_facts(models: list[ListedModel], name: str) -> dict[str, Any]:
    """Return what the list says of this model, as fields of a profile."""
    model = next((model for model in models if model.id == name), None)
    facts: dict[str, Any] = {}
    if model is not None and model.context_window is not None:
        facts["context_window"] = model.context_window
    if model is not None and model.price is not None:
        facts["price"] = model.price.model_dump(exclude_none=True)
    if model is not None and model.takes_images is not None:
        facts["images_supported"] = model.takes_images
    return facts


_MODALITIES = ("input_modalities", "supported_input_modalities", "modalities")
_SEEING = ("vision", "image_input", "supports_vision", "supports_image_input")
"""What servers call it: a list of what goes in (OpenRouter, GitHub), or one capability (Mistral, Anthropic)."""


def _takes_images(entry: dict[str, Any]) -> bool | None:
    """What the list says of images; None where it says nothing."""
    places = [entry, *(inner for key in (*_INSIDE, "architecture") if isinstance(inner := entry.get(key), dict))]
    for place in places:
        for key in _MODALITIES:
            if isinstance(kinds := place.get(key), list) and kinds:
                return any(str(kind).lower() in ("image", "images", "vision") for kind in kinds)
        for key in _SEEING:
            said = place.get(key)
            if isinstance(said, dict):
                said = said.get("supported")
            if isinstance(said, bool):
                return said
    return None


def _window(entry: dict[str, Any]) -> int | None:
    places = [inner for key in _INSIDE if isinstance(inner := entry.get(key), dict)]
    for place in (*places, entry):
        for key in _WINDOW:
            value = place.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value in _PLAUSIBLE:
                return value
    return None
