"""Where no model is set up: a key or an address is written here, and kept in the user's configuration."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import SecretStr
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from app.llm.address import fault_of, host_of
from app.text.safe_text import visible
from app.ui.screens.dialog import Dialog, shown_path
from widgets.common.key_hints import KeyHint

if TYPE_CHECKING:
    from app.config.settings import Settings

Changes = dict[str, str | SecretStr]
"""Settings by their keys."""

_ANTHROPIC_KEY, _ANTHROPIC_HOST = "sk-ant-", "api.anthropic.com"


class EndpointScreen(Dialog[bool]):
    """Takes a key, an address, or both. Returns True once they are kept.

    A key is neither shown nor part of a message that a handler here takes: what ends the app shows their values.
    """

    HEADING = "Set up a model"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("down,up", "app.focus_next", show=False)]
    KEYS = (KeyHint("enter", "keep and go on"), KeyHint("tab", "next field"), KeyHint("escape", "back"))

    DEFAULT_CSS = """
    EndpointScreen {
        & > #dialog { width: 88; }
        Horizontal { height: 1; margin-top: 1; padding: 0 1; }
        Label { width: 10; color: $foreground 65%; }
        Input { width: 1fr; }
    }
    """

    def __init__(self, settings: "Settings", config_file: Path, save: Callable[[Changes], None]) -> None:
        """Nothing is written yet.

        Args:
            settings: those in force.
            config_file: where the settings are kept.
            save: keeps them there; raises ConfigError.
        """
        super().__init__(classes="-small")
        self._settings = settings
        self._config_file = config_file
        self._save = save

    def body(self) -> Iterable[Widget]:
        """Both fields, where requests go, where it is kept."""
        yield Static("The key of a hosted model, the address of a server, or both.", classes="text")
        with Horizontal():
            yield Label("Key")
            yield Input(
                id="endpoint-key", password=True, placeholder="sk-… of OpenAI or Anthropic, or of your server"
            )
        with Horizontal():
            yield Label("Address")
            yield Input(id="endpoint-address", placeholder="https://host/v1; not for a key alone")
        yield Static(id="endpoint-host", classes="text gap")
        kept = f"Kept in {shown_path(self._config_file)}, which only you can read."
        yield Static(Content(visible(kept, keep="")), classes="text quiet")

    def on_mount(self) -> None:
        """Begin with the key."""
        self.query_one("#endpoint-key", Input).focus()
        self.show_host()

    @property
    def _changes(self) -> Changes:
        """The settings that are written in the fields."""
        key, address = (self.query_one(f"#endpoint-{name}", Input).value.strip() for name in ("key", "address"))
        changes: Changes = {"base_url": address} if address else {}
        if key:
            anthropic = key.startswith(_ANTHROPIC_KEY) and host_of(address or _ANTHROPIC_HOST) in (
                "",
                _ANTHROPIC_HOST,
            )
            changes["anthropic_api_key" if anthropic else "api_key"] = SecretStr(key)
        return changes

    def _fault(self, changes: Changes) -> str:
        """Why these can't be kept; empty if they can."""
        address = changes.get("base_url")
        if isinstance(address, str) and (fault := fault_of(address)):
            return f"The address cannot be used: {fault}."
        return "" if changes else "Write a key, an address, or both."

    @on(Input.Changed)
    def show_host(self) -> None:
        """Say where requests would go, and the key with them."""
        from app.runtime.connection import address_of

        changes = self._changes
        if not changes or self._fault(changes):
            self._say("Requests go nowhere yet.")
        else:
            self._say(f"Requests go to {host_of(address_of(self._settings.model_copy(update=changes)))}.")

    @on(Input.Submitted)
    def keep(self) -> None:
        """Keep what is written."""
        changes = self._changes
        if fault := self._fault(changes):
            self._say(fault, problem=True)
        else:
            self._write(changes)

    @work(group="write", exclusive=True, exit_on_error=False, description="keeping the endpoint")
    async def _write(self, changes: Changes) -> None:
        from app.config.settings import ConfigError

        try:
            await asyncio.to_thread(partial(self._save, changes))
        except ConfigError as error:
            self._say(str(error), problem=True)
            return
        self.dismiss(True)

    def _say(self, text: str, *, problem: bool = False) -> None:
        line = self.query_one("#endpoint-host", Static)
        line.set_class(problem, "warning")
        line.update(Content(visible(text, keep="")))
