"""The first screen where no model is set up: what is missing, what is there, and what to do."""

from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

if TYPE_CHECKING:
    from app.llm.discovery import LocalServer
from app.safe_text import visible

Choice = tuple[str, str] | None
"""Base URL and model of the endpoint that the user picked; ("", "demo") for the demo; None for neither."""

DEMO: Choice = ("", "demo")

_HOW_TO = """\
A hosted model     export OPENAI_API_KEY=…       then start signoff with --model NAME
Another endpoint   export OPENAI_BASE_URL=…/v1   or --base-url URL
For good           write base_url, model and api_key to the configuration file:"""


class SetupScreen(ModalScreen[Choice]):
    """Offers local servers that answer on loopback, the demo, and how to set a key."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Later")]

    DEFAULT_CSS = """
    SetupScreen {
        align: center middle;
        background: $background 70%;

        #setup {
            width: 84;
            max-width: 95%;
            height: auto;
            max-height: 90%;
            padding: 1 2;
            background: $surface;
            border: tall $primary;
        }
        .title { text-style: bold; color: $text-accent; }
        .part { margin-top: 1; }
        .quiet { color: $text-muted; }
        OptionList { margin-top: 1; height: auto; max-height: 10; }
    }
    """

    def __init__(self, missing: str, config_file: str) -> None:
        """`missing` says in one line what is not set up; `config_file` is where settings are kept."""
        super().__init__()
        self._missing = missing
        self._config_file = config_file
        self._servers: list[LocalServer] = []

    def compose(self) -> ComposeResult:
        """What is missing, what is there, what to do."""
        with VerticalScroll(id="setup"):
            yield Static("Welcome to signoff", classes="title")
            yield Static(Content(self._missing), classes="part")
            yield Static("Looking for models on this machine …", id="found", classes="part")
            yield OptionList(Option("Try the demo model: no key, no network", id="demo"))
            yield Static(Content(_HOW_TO), classes="part quiet")
            yield Static(Content(f"  {self._config_file}"), classes="quiet")
            yield Static("Enter picks · Esc goes on without a model", classes="part quiet")

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one(OptionList).focus()
        self._look()

    @work(exclusive=True, description="looking for local servers")
    async def _look(self) -> None:
        from app.llm.discovery import local_servers

        self._servers = await local_servers()
        found = self.query_one("#found", Static)
        if not self._servers:
            found.update("No local server answers (Ollama, LM Studio, llama.cpp, vLLM).")
            return
        found.update("Found on this machine:")
        options = self.query_one(OptionList)
        choices = [
            Option(Content(visible(f"{server.kind}: {model}  ({server.base_url})")), id=f"{number}:{model}")
            for number, server in enumerate(self._servers)
            for model in server.models
        ]
        demo = options.get_option("demo")
        options.clear_options()
        options.add_options([*choices, demo])
        options.highlighted = 0

    @on(OptionList.OptionSelected)
    def pick(self, event: OptionList.OptionSelected) -> None:
        """Hand the choice back."""
        event.stop()
        if event.option.id == "demo" or event.option.id is None:
            self.dismiss(DEMO)
            return
        number, _, model = event.option.id.partition(":")
        self.dismiss((self._servers[int(number)].base_url, model))
