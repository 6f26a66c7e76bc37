"""The model picker: what the endpoint itself lists, or any name that is typed."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from app.llm.capabilities.model_list import ListedModel
from app.llm.failures.errors import RequestError
from app.text.plural import plural
from app.text.safe_text import visible
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint
from widgets.common.search_list import Choice, SearchList


class ModelScreen(Dialog[str]):
    """Names of models; what is typed counts too, since not every endpoint lists all that it has."""

    HEADING = "Model"
    # Over the field's own key, which End is too.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+e", "settings", "Its settings", priority=True)]
    KEYS = (
        KeyHint("", "type to search, or a name"),
        KeyHint("up,down", "choose"),
        KeyHint("enter", "take it"),
        KeyHint("ctrl+e", "its settings"),
        KeyHint("escape", "close"),
    )

    DEFAULT_CSS = """
    ModelScreen {
        & > #dialog { width: 84; height: 28; }
        #model-state { margin-bottom: 1; }
    }
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[Sequence[ListedModel]]],
        address: str,
        current: str,
        settings_of: Callable[[ListedModel], Screen[None]],
    ) -> None:
        """Make the picker.

        Args:
            load: asks the endpoint for its models; may raise RequestError.
            address: the endpoint, to say whose models these are.
            current: the model in use.
            settings_of: makes the screen of what is set for a model alone.
        """
        super().__init__()
        self._settings_of = settings_of
        self._listed: dict[str, ListedModel] = {}
        self._load = load
        self._address = address
        self._current = current

    def body(self) -> Iterable[Widget]:
        """Whose models, and the list."""
        yield Static(Content(f"Asking {visible(self._address, keep='')} …"), id="model-state", classes="text quiet")
        yield SearchList(
            "Search, or write a name",
            empty="Type the name of a model, as the endpoint calls it.",
            unmatched="The endpoint lists no such model. Enter takes a name without blanks as you typed it.",
        )

    def on_mount(self) -> None:
        """Ask the endpoint."""
        self._ask()

    @work(group="models", exclusive=True, exit_on_error=False, description="list models")
    async def _ask(self) -> None:
        begun = time.monotonic()
        state = self.query_one("#model-state", Static)
        try:
            self._listed = {model.id: model for model in await self._load()}
        except RequestError as failed:
            state.set_class(True, "warning")
            state.update(Content(visible(f"{failed.message} A name can be typed all the same.", keep="")))
            self.query_one(SearchList).set_choices(())
            return
        names = sorted(self._listed, key=str.casefold)
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
        if event.choice is None and len(name.split()) > 1:
            # Words that were meant for the model, typed before this came up.
            self.say("a name that is not listed has no blanks")
        elif name:
            self.dismiss(name)

    def action_settings(self) -> None:
        """What is set for the model under the cursor, or for the name that is written."""
        choices = self.query_one(SearchList)
        if name := choices.choice.key if choices.choice is not None else choices.text:
            self.app.push_screen(self._settings_of(self._listed.get(name) or ListedModel(name)))
        else:
            self.say("write the name of a model first")
