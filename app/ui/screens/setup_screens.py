"""Screens to set up a model if none is configured."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr
from textual import on, work
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from app.llm.capabilities.model_list import ListedModel
from app.llm.failures.request_errors import RequestError
from app.llm.values.endpoint import find_url_fault, host_and_port
from app.text.quantities import format_count
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import Dialog, DialogKey, display_path, safe_content
from widgets.common.search_list import ListChoice, SearchList

if TYPE_CHECKING:
    from app.config.settings import Settings
    from app.llm.endpoint_doctor import DetectedLocalServer


class ModelPickerScreen(Dialog[str]):
    """A list of model names; the user may also type one, since not every endpoint lists all its models.

    Args:
        load: Asks the endpoint for its models; may raise RequestError.
    """

    HEADING = "Model"
    KEYS = (
        DialogKey("", "type to search, or a name"),
        DialogKey("up,down", "choose"),
        DialogKey("enter", "select"),
        DialogKey("ctrl+e", "its settings", "settings", priority=True),
        DialogKey("escape", "close"),
    )

    DEFAULT_CSS = """
    ModelPickerScreen {
        & > #dialog { width: 84; height: 28; }
        #model-state { margin-bottom: 1; }
    }
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[Sequence[ListedModel]]],
        address: str,
        current: str,
        make_settings_screen: Callable[[ListedModel], Screen[None]],
    ) -> None:
        super().__init__()
        self._make_settings_screen = make_settings_screen
        self._listed_models: dict[str, ListedModel] = {}
        self._load_models = load
        self._address = address
        self._current = current

    def compose_body(self) -> Iterable[Widget]:
        yield Static(
            Content(f"Asking {escape_unsafe(self._address, keep='')} …"), id="model-state", classes="text quiet"
        )
        yield SearchList(
            "Search, or write a name",
            empty_text="Type the name of a model, as the endpoint calls it.",
            no_match_text="The endpoint lists no such model. Enter uses the name that you typed; it has no spaces.",
        )

    def on_mount(self) -> None:
        self._list_models()

    @work(group="models", exclusive=True, exit_on_error=False, description="list models")
    async def _list_models(self) -> None:
        start = time.monotonic()
        state = self.query_one("#model-state", Static)
        try:
            self._listed_models = {model.id: model for model in await self._load_models()}
        except RequestError as error:
            state.set_class(True, "warning")
            state.update(safe_content(f"{error.message} You can still type a name; /settings changes the address."))
            self.query_one(SearchList).set_choices(())
            return
        names = sorted(self._listed_models, key=str.casefold)
        seconds = time.monotonic() - start
        state.update(safe_content(self._address))
        self.show_status(f"{format_count(len(names), 'model')} · {seconds * 1000:.0f} ms")
        choices = [
            ListChoice(
                name,
                Content.assemble(
                    ("● " if name == self._current else "  ", "$text-accent"), escape_unsafe(name, keep="")
                ),
                name,
            )
            for name in names
        ]
        self.query_one(SearchList).set_choices(choices, self._current)

    @on(SearchList.Picked)
    def return_model(self, event: SearchList.Picked) -> None:
        """Close with the picked or typed name."""
        name = event.choice.key if event.choice is not None else event.text
        if event.choice is None and len(name.split()) > 1:
            # Probably a message to the model, typed before this screen was shown.
            self.show_status("a name that is not listed has no spaces")
        elif name:
            self.dismiss(name)

    def action_settings(self) -> None:
        """Open the settings of the highlighted or typed model."""
        choices = self.query_one(SearchList)
        if name := choices.highlighted.key if choices.highlighted is not None else choices.typed_text:
            self.app.push_screen(self._make_settings_screen(self._listed_models.get(name) or ListedModel(name)))
        else:
            self.show_status("write the name of a model first")


SettingChanges = dict[str, str | SecretStr]
"""New values of settings by their keys."""

_ANTHROPIC_KEY_PREFIX, _ANTHROPIC_HOST = "sk-ant-", "api.anthropic.com"


class EndpointScreen(Dialog[bool]):
    """Asks for a key, an address, or both; the result is True once they are saved.

    A key is never shown. Message handlers of this screen do not take it as an argument either, because a crash report
    contains the values of arguments.

    Args:
        save: Saves the changed settings; raises ConfigError.
    """

    HEADING = "Set up a model"
    KEYS = (
        DialogKey("enter", "save and go on"),
        DialogKey("tab", "next field"),
        DialogKey("down,up", "", "app.focus_next"),
        DialogKey("escape", "back"),
    )

    DEFAULT_CSS = """
    EndpointScreen {
        & > #dialog { width: 88; }
        Horizontal { height: 1; margin-top: 1; padding: 0 1; }
        Label { width: 10; color: $foreground 65%; }
        Input { width: 1fr; }
    }
    """

    def __init__(self, settings: "Settings", config_file: Path, save: Callable[[SettingChanges], None]) -> None:
        super().__init__(classes="-small")
        self._settings = settings
        self._config_file = config_file
        self._save = save

    def compose_body(self) -> Iterable[Widget]:
        yield Static("The key of a hosted model, the address of a server, or both.", classes="text")
        with Horizontal():
            yield Label("Key")
            yield Input(
                id="endpoint-key", password=True, placeholder="sk-… of OpenAI or Anthropic, or of your server"
            )
        with Horizontal():
            yield Label("Address")
            yield Input(id="endpoint-address", placeholder="https://host/v1; empty for OpenAI or Anthropic")
        yield Static(id="endpoint-host", classes="text gap")
        saved_in = f"Will be saved in {display_path(self._config_file)}, which only you can read."
        yield Static(safe_content(saved_in), classes="text quiet")

    def on_mount(self) -> None:
        self.query_one("#endpoint-key", Input).focus()
        self.show_host()

    @property
    def _entered_settings(self) -> SettingChanges:
        """The settings that the fields contain."""
        key, address = (self.query_one(f"#endpoint-{name}", Input).value.strip() for name in ("key", "address"))
        changes: SettingChanges = {"base_url": address} if address else {}
        if key:
            anthropic = key.startswith(_ANTHROPIC_KEY_PREFIX) and host_and_port(address or _ANTHROPIC_HOST) in (
                "",
                _ANTHROPIC_HOST,
            )
            changes["anthropic_api_key" if anthropic else "api_key"] = SecretStr(key)
        return changes

    def _find_fault(self, changes: SettingChanges) -> str:
        """Return why these settings cannot be saved; empty if they can."""
        address = changes.get("base_url")
        if isinstance(address, str) and (fault := find_url_fault(address)):
            return f"The address cannot be used: {fault}."
        return "" if changes else "Write a key, an address, or both."

    @on(Input.Changed)
    def show_host(self) -> None:
        """Show the host that would get requests and the key."""
        from app.runtime.model_connection import find_base_url

        entered = self._entered_settings
        if not entered or self._find_fault(entered):
            self._show_line("Requests go nowhere yet.")
        else:
            self._show_line(
                f"Requests go to {host_and_port(find_base_url(self._settings.model_copy(update=entered)))}."
            )

    @on(Input.Submitted)
    def save_endpoint(self) -> None:
        """Save the entered key and address."""
        changes = self._entered_settings
        if fault := self._find_fault(changes):
            self._show_line(fault, problem=True)
        else:
            self._save_changes(changes)

    @work(group="write", exclusive=True, exit_on_error=False, description="keeping the endpoint")
    async def _save_changes(self, changes: SettingChanges) -> None:
        from app.config.settings import ConfigError

        try:
            await asyncio.to_thread(partial(self._save, changes))
        except ConfigError as error:
            self._show_line(str(error), problem=True)
            return
        self.dismiss(True)

    def _show_line(self, text: str, *, problem: bool = False) -> None:
        line = self.query_one("#endpoint-host", Static)
        line.set_class(problem, "warning")
        line.update(safe_content(text))


DEMO_CHOICE = ("", "demo")
"""Result that means the demo model."""
ENTER_ENDPOINT_CHOICE = ("", "written")
"""Result that means that the user wants to enter a key or an address."""

_SERVER_NAMES = {
    "ollama": "Ollama",
    "lmstudio": "LM Studio",
    "llama.cpp": "llama.cpp",
    "vllm": "vLLM",
    "unknown": "server",
}


class ModelSetupScreen(Dialog[tuple[str, str]]):
    """Sets up a model: offers local servers that answer, the form for a key or address, and the demo.

    The result is base URL and model of the picked endpoint, `ENTER_ENDPOINT_CHOICE`, `DEMO_CHOICE`, or None if the
    user cancels.

    Args:
        missing: One line on the missing setting.
        load_picked_model: Returns the model that was last picked for a base URL.
    """

    HEADING = "Welcome to signoff"
    KEYS = (
        DialogKey("up,down", "choose"),
        DialogKey("enter", "start"),
        DialogKey("r", "look again", "look"),
        DialogKey("escape", "go on without a model"),
    )

    DEFAULT_CSS = """
    ModelSetupScreen {
        & > #dialog { width: 88; }
        OptionList { height: auto; max-height: 9; text-wrap: nowrap; text-overflow: ellipsis; }
        &.-very-short {
            & > #dialog { height: 100%; padding: 0 1; }
            .gap, WrappedKeyHints { margin-top: 0; }
            OptionList { height: 1fr; }
        }
    }
    """
    VERTICAL_BREAKPOINTS = [(0, "-very-short"), (24, "-short"), (30, "-tall")]  # noqa: RUF012

    def __init__(self, missing: str, load_picked_model: Callable[[str], str] = lambda base_url: "") -> None:
        super().__init__(classes="-small")
        self._missing_setting = missing
        self._load_picked_model = load_picked_model
        self._servers: list[DetectedLocalServer] = []
        self._choices = [ENTER_ENDPOINT_CHOICE, DEMO_CHOICE]

    def compose_body(self) -> Iterable[Widget]:
        yield Static("The model proposes changes to this folder; you sign them off, or not.", classes="text")
        yield Static(safe_content(self._missing_setting), classes="text gap warning")
        yield OptionList(*_fixed_options(), markup=False, classes="gap")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = self._choices.index(DEMO_CHOICE)
        options.focus()
        self.action_look()

    @work(group="look", exclusive=True, exit_on_error=False, description="looking for local servers")
    async def action_look(self) -> None:
        """Look for model servers on the usual ports of this machine."""
        from app.llm import endpoint_doctor

        self.show_status("looking for models on this machine …")
        self._servers = await endpoint_doctor.find_local_servers(endpoint_doctor.USUAL_PORTS)
        models = [(server, model) for server in self._servers for model in server.models]
        picked_index = await asyncio.to_thread(self._picked_index, models)
        options = self.query_one(OptionList)
        options.clear_options()
        width = min(36, max([14, *(len(model) for _, model in models)]))
        for server, model in models:
            place = f"{_SERVER_NAMES.get(server.kind, server.kind)} · {server.base_url}"
            options.add_option(_setup_option("●", "$text-success", model, place, width))
        options.add_options(_fixed_options(width))
        self._choices = [*((server.base_url, model) for server, model in models), ENTER_ENDPOINT_CHOICE, DEMO_CHOICE]
        options.highlighted = picked_index if models else self._choices.index(DEMO_CHOICE)
        count = format_count(len(models), "model") if models else "no model server"
        self.show_status(f"{count} on this machine")

    def _picked_index(self, models: "Sequence[tuple[DetectedLocalServer, str]]") -> int:
        """Return the index of the model that the user picked the last time; 0 if there is none."""
        picked = (model == self._load_picked_model(server.base_url) for server, model in models)
        return next((number for number, is_picked in enumerate(picked) if is_picked), 0)

    @on(OptionList.OptionSelected)
    def return_choice(self, event: OptionList.OptionSelected) -> None:
        """Close with the chosen endpoint."""
        event.stop()
        self.dismiss(self._choices[event.option_index])


def _setup_option(mark: str, colour: str, name: str, explanation: str, name_width: int) -> Option:
    """Return an option: a mark in its colour, the name, and its explanation, aligned for names of this width."""
    return Option(
        Content.assemble(
            (f"{mark} ", colour),
            (escape_unsafe(name, keep="").ljust(name_width), "bold"),
            (escape_unsafe(f"  {explanation}", keep=""), "$foreground 65%"),
        )
    )


def _fixed_options(name_width: int = 14) -> Iterator[Option]:
    """Yield the options for `ENTER_ENDPOINT_CHOICE` and `DEMO_CHOICE`."""
    yield _setup_option("○", "$text-secondary", "Another model", "enter its key or its address", name_width)
    yield _setup_option("○", "$text-secondary", "The demo model", "no key, no network, on this machine", name_width)
