"""The model that the user picked at an endpoint the last time: it is used there wherever none is named."""

from contextlib import suppress

from app.config.settings import Settings
from app.llm.address import take_apart
from app.runtime.connection import address_of
from app.runtime.workspace import Runtime
from app.storage.errors import StorageError
from app.storage.sessions import SessionStore

_SETTING = "picked_model "


def endpoint_name(settings: Settings) -> str:
    """The endpoint as it is shown and remembered: without credentials."""
    return take_apart(address_of(settings)).url


def picked_model(store: SessionStore, endpoint: str) -> str:
    """The model that was picked at an endpoint, in any workspace; empty if none was, or that can't be read."""
    with suppress(StorageError):
        return store.setting(f"{_SETTING}{endpoint}", shared=True) or ""
    return ""


def keep_picked_model(store: SessionStore, endpoint: str, model: str) -> None:
    """Remember it; at worst it is asked for again."""
    with suppress(StorageError):
        store.set_setting(f"{_SETTING}{endpoint}", model, shared=True)


def with_picked_model(runtime: Runtime) -> Settings:
    """The settings in force; where they name an endpoint and no model, with the one that was picked there."""
    settings = runtime.settings
    if settings.model or not settings.names_an_endpoint:
        return settings
    return settings.model_copy(update={"model": picked_model(runtime.sessions, endpoint_name(settings))})


def model_from(runtime: Runtime, settings: Settings) -> str:
    """Where the model in these settings is from, as the user knows it."""
    if settings.model == runtime.settings.model:
        return runtime.origin_of("model")
    return "your last pick in the app"
