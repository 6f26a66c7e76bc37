"""The model picker: what the endpoint itself lists, or any name that is typed."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from textual import on, work
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.llm.failures.errors import RequestError
from app.plural import plural
from app.safe_text import visible
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint
from widgets.common.search_list import Choice, SearchList


class ModelScreen(Dialog[str]):
    """Names of models; what is typed counts too, since not every endpoint lists all that it has."""

    HEADING = "Model"
    KEYS = (
        KeyHint("", "type to search, or a name"),
        KeyHint("up,down", "choose"),
        KeyHint("enter", "take it"),
        KeyHint("escape", "close"),
    )

    DEFAULT_CSS = """
    ModelScreen {
        & > #dialog { width: 84; height: 28; }
        #model-state { margin-bottom: 1; }
    }
    """

    def __init__(self, load: Callable[[], Awaitable[Sequence[str]]], address: str, current: str) -> None:
        """Make the picker.

        Args:
            load: asks the endpoint for its models; may raise RequestError.
            address: the endpoint, to say whose models these are.
            current: the model in use.
        """
        super().__init__()
        self._load = load
        self._address = address
        self._current = current

    def body(self) -> Iterable[Widget]:
        """Whose models, and the list."""
        yield Static(Content(f"Asking {visible(self._address, keep='')} …"), id="model-state", classes="text quiet")
        yield SearchList(
            "Search, or write a name",
            empty="Type the name of a model, as the endpoint calls it.",
            unmatched="The endpoint lists no such model. Enter takes the name as you typed it.",
        )

    def on_mount(self) -> None:
        """Ask the endpoint."""
        self._ask()

    @work(group="models", exclusive=True, exit_on_error=False, description="list models")
    async def _ask(self) -> None:
        begun = time.monotonic()
        state = self.query_one("#model-state", Static)
        try:
            names = sorted(set(await self._load()), key=str.casefold)
        except RequestError as failed:
            state.set_class(True, "warning")
            state.update(Content(visible(f"{failed.message} A name can be typed all the same.", keep="")))
            self.query_one(SearchList).set_choices(())
            return
        took = time.monotonic() - begun
        state.update(Content(visible(self._address, keep="")))
        self.say(f"{plural(len(names), 'model')} · {took * 1000:.0f} ms")
        choices = [
            Choice(
                name,
                Content.assemble(("● " if name == self._current else "  ", "$text-accent"), visible(name, keep="")),
                name,
            )
            for name in names
        ]
        self.query_one(SearchList).set_choices(choices, self._current)

    @on(SearchList.Picked)
    def pick(self, event: SearchList.Picked) -> None:
        """Take it."""
        name = event.choice.key if event.choice is not None else event.text
        if name:
            self.dismiss(name)
