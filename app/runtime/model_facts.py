"""What holds for one model, and where it is from: what the settings screen of a model shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.config.model_table import Price, fitting
from app.config.settings import WORKSPACE_FILE, ConfigError, Settings, read_file
from app.llm.address import take_apart
from app.llm.capabilities.beliefs import Belief, believed
from app.llm.capabilities.model_list import ListedModel
from app.llm.capabilities.profiles import seed
from app.llm.prices import price_for
from app.runtime.connection import LearnedProfiles, address_of
from app.runtime.workspace import Runtime

IMAGES = ("profile", "images_supported")


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that can be set for a model."""

    value: Any
    """What is in force; None if it is not known."""
    origin: str
    """Where it is from, in words."""
    own: Any = None
    """What the user's file sets for this very model; None if nothing."""


def facts_of(runtime: Runtime, settings: Settings, model: ListedModel) -> dict[tuple[str, ...], Fact]:
    """What holds for a model with these settings, by its place in the model's table.

    Args:
        runtime: has the files, and what was learned.
        settings: those in force.
        model: with what the list of the endpoint says of it.
    """
    settings = settings.model_copy(update={"model": model.id})
    origins = _Origins(runtime, settings)
    known = _Known(runtime, settings, model)
    effective = settings.of_its_model
    general = {
        ("reasoning_effort",): settings.reasoning_effort if settings.reasoning_effort != "off" else None,
        ("context_window",): settings.context_window,
        ("wire",): settings.wire if settings.wire != "auto" else None,
        ("price",): price_for(model.id, settings.price),
        ("request",): settings.request or None,
        IMAGES: settings.profile.get(IMAGES[-1]),
    }
    in_force = {
        ("reasoning_effort",): effective.reasoning_effort,
        ("context_window",): effective.context_window,
        ("wire",): effective.wire,
        ("price",): price_for(model.id, effective.price),
        ("request",): effective.request,
        IMAGES: effective.profile.get(IMAGES[-1]),
    }
    found: dict[tuple[str, ...], Fact] = {}
    for path, value in in_force.items():
        own = _inside(origins.file, ("models", model.id, *path))
        if said := origins.of_table(path):
            found[path] = Fact(value, said, own)
        elif general[path] is not None:
            found[path] = Fact(value, origins.of_general(path, value), own)
        else:
            found[path] = Fact(*known.of(path), own)
    return found


class _Origins:
    """Where the user or the workspace says something."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self._runtime = runtime
        self._settings = settings
        try:
            self.file = read_file(runtime.places.config_file)
        except ConfigError:
            self.file = {}

    def of_table(self, path: Sequence[str]) -> str:
        """Where a table for this model says it; empty if none does."""
        tables = {name: table.model_dump(exclude_unset=True) for name, table in self._settings.models.items()}
        for name in fitting(self._settings.model, tables):
            if _inside(tables[name], path) is None:
                continue
            whose = "yours" if _inside(self.file, ("models", name, *path)) is not None else WORKSPACE_FILE
            return f"{whose}, for {'this model' if name == self._settings.model else name}"
        return ""

    def of_general(self, path: Sequence[str], value: Any) -> str:
        """Where it is set for all models."""
        origin = self._runtime.origin_of(path[0])
        same = _inside(self.file, path) == value or path[0] in ("price", "request")
        if origin == self._runtime.places.config_file.name:
            return "yours, for all models" if same else "yours, in this session"
        return f"from {origin}" if origin else "yours, in this session"


class _Known:
    """What is known where nobody has said anything."""

    def __init__(self, runtime: Runtime, settings: Settings, model: ListedModel) -> None:
        address = take_apart(address_of(settings)).url
        self._seed = seed(address, model.id)
        self._beliefs: dict[str, Belief] = {
            belief.field: belief for belief in believed(LearnedProfiles(runtime.sessions), address, model.id)
        }
        self._listed = {
            "context_window": model.context_window,
            "price": model.price,
            "images_supported": model.takes_images,
        }

    def of(self, path: Sequence[str]) -> tuple[Any, str]:
        """Value and origin."""
        field = path[-1]
        listed = self._listed.get(field)
        if (belief := self._beliefs.get(field)) is not None:
            value = Price.model_validate(belief.value) if field == "price" and belief.value else belief.value
            return value, "the server's list" if value == listed else "learned of the server"
        if listed is not None:
            return listed, "the server's list"
        value = "off" if field == "reasoning_effort" else getattr(self._seed, field, None)
        return value, "built in" if value is not None else ""


def _inside(table: Any, path: Sequence[str]) -> Any:
    """What is in tables below each other; None if it is not there."""
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    return table
