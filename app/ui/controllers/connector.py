"""Connects to the configured model, or lets the user choose missing settings."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.runtime.model_connection import (
    ModelNotConfigured,
    endpoint_url_without_credentials,
    list_models,
    read_picked_model,
    save_picked_model,
)
from app.ui.context.app_context import AppContext, ChatActions
from app.ui.context.current_session import CurrentSession
from app.ui.context.preferences import LiveSettings

if TYPE_CHECKING:
    from pydantic import SecretStr

    from app.config.settings import Settings
    from app.llm.capabilities.model_list import ListedModel
    from app.runtime.open_workspace import OpenWorkspace
    from app.storage.session_store import SessionRecord
    from app.ui.screens.model_settings_screen import ModelSettingsScreen

_CONNECTION_SETTINGS = ("base_url", "model", "api_key", "reasoning_effort", "models")
"""Settings that a connection may change."""
_NO_MODEL_HINT = "No model yet: send anything to choose one"


class ModelConnector:
    """Connects to the configured model or lets the user choose one, and then opens the session."""

    def __init__(
        self,
        session: CurrentSession,
        preferences: LiveSettings,
        app_context: AppContext,
        chat: ChatActions,
        runtime: "OpenWorkspace",
    ) -> None:
        self._session = session
        self._preferences = preferences
        self._push_screen, self._run_work = app_context.push_screen, app_context.run
        self._chat = chat
        self._store = runtime.sessions
        self._config_file = runtime.dirs.config_file
        self._record: SessionRecord | None = None
        self._choose_lock = asyncio.Lock()

    async def open_session(self, record: "SessionRecord | None") -> None:
        """Connect and open a session; ask the user for missing settings."""
        self._record = record
        try:
            await self.connect_or_choose()
        finally:
            self._session.session_or_question_shown.set()

    async def connect_or_choose(self) -> None:
        """Connect with the current settings, or let the user choose. Raises ModelNotConfigured.

        A call during another one only waits for it: a message that is sent while the session opens must not open a
        second one.
        """
        is_choosing = self._choose_lock.locked()
        async with self._choose_lock:
            if not is_choosing and self._session.current is None:
                await self._connect_or_set_up()

    async def _connect_or_set_up(self) -> None:
        settings = self._preferences.settings
        if settings.has_endpoint and not settings.model:
            name = await asyncio.to_thread(read_picked_model, self._store, endpoint_url_without_credentials(settings))
            name = name or await self.pick_model(settings) or ""
            if not name:
                self._chat.show_hint(_NO_MODEL_HINT)
                return
            # Reload: the picker may have changed settings of models.
            settings = self._preferences.settings.model_copy(update={"model": name})
        try:
            await self.switch_model(settings)
        except ModelNotConfigured as error:
            await self._show_setup(str(error))
            return
        await self._chat.open_session(self._record)

    async def switch_model(self, settings: "Settings") -> None:
        """Use the endpoint and model of these settings from the next turn on. Raises ModelNotConfigured."""
        await self._session.host.connect(settings)
        self._preferences.apply_for_this_run(**{key: getattr(settings, key) for key in _CONNECTION_SETTINGS})

    def reconnect(self, settings: "Settings") -> None:
        """Use these settings from the next turn on, if a session is open."""
        if self._session.current is not None:
            self._run_work(partial(self.switch_model, settings))

    async def change_model(self, name: str) -> str:
        """Use another model from the next turn on; let the user pick one if `name` is empty.

        Returns:
            The name of the model; empty if the user picked none.

        Raises:
            ModelNotConfigured: the model cannot be used.
        """
        settings = self._preferences.settings
        if not settings.has_endpoint:
            await self.connect_or_choose()
            return ""
        if name:
            await self._save_picked_model(settings, name)
        else:
            name = await self.pick_model(settings) or ""
        if name:
            await self.switch_model(self._preferences.settings.model_copy(update={"model": name}))
        return name

    async def _save_picked_model(self, settings: "Settings", name: str) -> None:
        await asyncio.to_thread(save_picked_model, self._store, endpoint_url_without_credentials(settings), name)

    async def pick_model(self, settings: "Settings") -> str | None:
        """Let the user pick one of the endpoint's models or type a name; store and return it, None if cancelled."""
        from app.ui.screens.setup_screens import ModelPickerScreen

        models: list[ListedModel] = []

        async def load() -> "Sequence[ListedModel]":
            models[:] = await list_models(self._session.host.runtime, settings)
            return models

        self._session.session_or_question_shown.set()
        name = await self._push_screen(
            ModelPickerScreen(
                load, endpoint_url_without_credentials(settings), settings.model, self.model_settings_screen
            )
        )
        if name and (not models or any(model.id == name for model in models)):
            await self._save_picked_model(settings, name)
        return name

    def model_settings_screen(self, model: "ListedModel") -> "ModelSettingsScreen":
        """Return the screen with the settings of one model."""
        from app.ui.screens.model_settings_screen import ModelSettingsScreen

        runtime = self._session.host.runtime
        return ModelSettingsScreen(model, preferences=self._preferences, runtime=runtime, reconnect=self.reconnect)

    async def _show_setup(self, missing: str) -> None:
        from app.ui.screens.setup_screens import DEMO_CHOICE, ENTER_ENDPOINT_CHOICE, ModelSetupScreen

        self._session.session_or_question_shown.set()
        choice = await self._push_screen(ModelSetupScreen(missing, partial(read_picked_model, self._store)))
        if choice is None:
            self._chat.show_hint(_NO_MODEL_HINT)
            return
        if choice == ENTER_ENDPOINT_CHOICE:
            await self._ask_for_endpoint(missing)
            return
        if choice == DEMO_CHOICE:
            from app.demo.demo_server import DemoServerCannotListen

            try:
                choice = await self._session.host.start_demo()
            except DemoServerCannotListen as error:
                raise ModelNotConfigured(str(error)) from error
            self._session.is_demo = True
        base_url, model = choice
        settings = self._preferences.settings.model_copy(update={"base_url": base_url, "model": model})
        await self.switch_model(settings)
        if not self._session.is_demo:
            await self._save_picked_model(settings, model)
        await self._chat.open_session(self._record)

    async def _ask_for_endpoint(self, missing: str) -> None:
        """Let the user enter a key or an address, and connect; if they cancel, show the setup screen again."""
        from app.config.settings import ConfigError
        from app.ui.screens.setup_screens import EndpointScreen

        def save(changes: "Mapping[str, str | SecretStr]") -> None:
            self._preferences.save(**changes)

        if not await self._push_screen(EndpointScreen(self._preferences.settings, self._config_file, save)):
            await self._show_setup(missing)
            return
        try:
            await self._preferences.reload()
        except ConfigError as error:
            raise ModelNotConfigured(str(error)) from error
        await self._connect_or_set_up()
