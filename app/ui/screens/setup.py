"""The first screen where no model is set up: what is missing, what is there, and what to do."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.text.safe_text import visible
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint

if TYPE_CHECKING:
    from app.llm.capabilities.discovery import LocalServer

DEMO = ("", "demo")
"""The result that stands for the demo model."""
WRITTEN = ("", "written")
"""The result that stands for a key or an address that the user is about to write."""

_KINDS = {"ollama": "Ollama", "lmstudio": "LM Studio", "llama.cpp": "llama.cpp", "vllm": "vLLM", "unknown": "server"}


class SetupScreen(Dialog[tuple[str, str]]):
    """Offers local servers that answer on loopback, to write a key or an address, and the demo.

    Returns base URL and model of the endpoint that the user picked, `WRITTEN`, `DEMO`, or None for neither.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "look", "Look again")]
    HEADING = "Welcome to signoff"
    KEYS = (
        KeyHint("up,down", "choose"),
        KeyHint("enter", "start"),
        KeyHint("r", "look again"),
        KeyHint("escape", "go on without a model"),
    )

    DEFAULT_CSS = """
    SetupScreen {
        & > #dialog { width: 88; }
        OptionList { height: auto; max-height: 9; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self, missing: str, picked_before: Callable[[str], str] = lambda base_url: "") -> None:
        """Nothing is looked for yet.

        Args:
            missing: says in one line what is not set up.
            picked_before: tells which model was picked at an address the last time.
        """
        super().__init__(classes="-small")
        self._missing = missing
        self._picked_before = picked_before
        self._servers: list[LocalServer] = []
        self._choices = [WRITTEN, DEMO]

    def body(self) -> Iterable[Widget]:
        """What is missing, what is there, what to do."""
        yield Static("The model proposes changes to this folder; you sign them off, or not.", classes="text")
        yield Static(Content(visible(self._missing, keep="")), classes="text gap warning")
        yield Static(Content.styled("Pick a model", "bold $text-primary"), classes="text gap")
        yield OptionList(_written(), _demo(), markup=False)
        yield Static(how_to(), classes="text gap")

    def on_mount(self) -> None:
        """Begin to look."""
        options = self.query_one(OptionList)
        options.highlighted = self._choices.index(DEMO)
        options.focus()
        self.action_look()

    @work(group="look", exclusive=True, exit_on_error=False, description="looking for local servers")
    async def action_look(self) -> None:
        """Ask the usual ports of this machine."""
        from app.llm.capabilities import discovery

        self.say("looking for models on this machine …")
        self._servers = await discovery.local_servers(discovery.USUAL_PORTS)
        found = [(server, model) for server in self._servers for model in server.models]
        before = await asyncio.to_thread(self._before, found)
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([*(Option(_label(server, model)) for server, model in found), _written(), _demo()])
        self._choices = [*((server.base_url, model) for server, model in found), WRITTEN, DEMO]
        options.highlighted = before if found else self._choices.index(DEMO)
        count = len(found)
        self.say(
            f"{count} model{'s' if count > 1 else ''} on this machine" if found else "no model server on this machine"
        )

    def _before(self, found: "Sequence[tuple[LocalServer, str]]") -> int:
        """Which of them the user picked the last time, else the first."""
        picked = (model == self._picked_before(server.base_url) for server, model in found)
        return next((number for number, before in enumerate(picked) if before), 0)

    @on(OptionList.OptionSelected)
    def pick(self, event: OptionList.OptionSelected) -> None:
        """Hand the choice back."""
        event.stop()
        self.dismiss(self._choices[event.option_index])


def how_to() -> Content:
    """The ways to name a model that is not on this machine."""
    return Content.assemble(
        ("Or set one, and start again\n", "bold $text-primary"),
        ("hosted     ", "$foreground 65%"),
        ("export OPENAI_API_KEY=…", "$text-accent"),
        ("  or ", "$foreground 65%"),
        ("ANTHROPIC_API_KEY=…\n", "$text-accent"),
        ("elsewhere  ", "$foreground 65%"),
        ("export OPENAI_BASE_URL=https://…/v1", "$text-accent"),
    )


def _label(server: "LocalServer", model: str) -> Content:
    kind = _KINDS.get(server.kind, server.kind)
    return Content.assemble(
        ("● ", "$text-success"),
        (visible(model, keep="").ljust(36), "bold"),
        (visible(f" {kind} · {server.base_url}", keep=""), "$foreground 65%"),
    )


def _written() -> Option:
    return Option(
        Content.assemble(
            ("○ ", "$text-secondary"),
            ("Another model".ljust(36), "bold"),
            (" write its key or its address", "$foreground 65%"),
        )
    )


def _demo() -> Option:
    return Option(
        Content.assemble(
            ("○ ", "$text-secondary"),
            ("The demo model".ljust(36), "bold"),
            (" no key, no network, on this machine", "$foreground 65%"),
        )
    )
