"""Gets the app a model: connects to what is configured, or lets the user choose what is missing."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.demo.process import DemoServerFailed
from app.runtime.connection import OPENAI_URL, NotConnected

if TYPE_CHECKING:
    from app.config import Settings
    from app.storage.sessions import SessionRecord
    from app.ui.app import SignoffApp

NO_MODEL = "No model yet: send anything to choose one"


class Connector:
    """The way from settings to an open session."""

    def __init__(self, app: "SignoffApp") -> None:
        self._app = app
        self._record: SessionRecord | None = None
        self._choosing = asyncio.Lock()
        self.asked = asyncio.Event()
        """Set once a session is on the screen, or a question to the user stands before it."""

    async def begin(self, record: "SessionRecord | None") -> None:
        """Connect and open a session; ask for what is missing."""
        self._record = record
        try:
            await self.choose()
        finally:
            self.asked.set()

    async def choose(self) -> None:
        """Connect with the settings as they are, or let the user choose; raises NotConnected.

        Whoever comes while another is at it waits, and takes what that one brought: a message that is sent before
        the session is open must not open a second one.
        """
        others = self._choosing.locked()
        async with self._choosing:
            if not others and self._app.host.session is None:
                await self._choose()

    async def _choose(self) -> None:
        settings = self._app.settings
        if (settings.base_url or settings.api_key) and not settings.model:
            name = await self.pick_model(settings)
            if not name:
                self._app.workbench.composer.set_placeholder(NO_MODEL)
                return
            settings = settings.model_copy(update={"model": name})
        try:
            await self.use(settings)
        except NotConnected as error:
            await self._set_up(str(error))
            return
        await self._app.open_session(self._record)

    async def use(self, settings: "Settings") -> None:
        """Talk to the endpoint and model of these settings from the next request on; raises NotConnected."""
        await self._app.host.connect(settings)
        self._app.preferences.change(**{key: getattr(settings, key) for key in ("base_url", "model", "api_key")})

    async def pick_model(self, settings: "Settings") -> str | None:
        """Let the user choose among the endpoint's models, or write a name."""
        from app.ui.screens.models import ModelScreen

        async def load() -> Sequence[str]:
            return await self._app.host.list_models(settings)

        self.asked.set()
        address = settings.base_url or OPENAI_URL
        return await self._app.push_screen_wait(ModelScreen(load, address, settings.model))

    async def _set_up(self, missing: str) -> None:
        from app.ui.screens.setup import DEMO, SetupScreen

        self.asked.set()
        choice = await self._app.push_screen_wait(SetupScreen(missing, self._app.runtime.places.config_file))
        if choice is None:
            self._app.workbench.composer.set_placeholder(NO_MODEL)
            return
        if choice == DEMO:
            try:
                choice = await self._app.host.start_demo()
            except DemoServerFailed as error:
                raise NotConnected(str(error)) from error
            self._app.demo = True
        base_url, model = choice
        await self.use(self._app.settings.model_copy(update={"base_url": base_url, "model": model}))
        await self._app.open_session(self._record)
