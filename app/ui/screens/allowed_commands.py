"""The forms of commands that run in this project without a question, each to be revoked with a key."""

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from app.storage.allowed_commands import AllowedCommandStore
from app.storage.errors import StorageError
from app.text.safe_text import visible
from app.tools.tool_form import ToolForm, load_form
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint
from widgets.common.search_list import Choice, SearchList

_NONE = "Nothing runs without a question here. When a command asks, you can allow others of its form, too."


class AllowedCommandsScreen(Dialog[None]):
    """A list to search, and to take from."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+d", "revoke", "Revoke", priority=True)]
    HEADING = "Commands allowed in this project"
    KEYS = (
        KeyHint("", "type to search"),
        KeyHint("up,down", "choose"),
        KeyHint("ctrl+d", "revoke"),
        KeyHint("escape", "close"),
    )
    DEFAULT_CSS = "AllowedCommandsScreen > #dialog { height: 20; }"

    def __init__(self, store: AllowedCommandStore) -> None:
        """Where they are kept."""
        super().__init__()
        self._store = store

    def body(self) -> Iterable[Widget]:
        """The list."""
        yield SearchList("Search the commands", empty=_NONE)

    def on_mount(self) -> None:
        """Load the list."""
        self._load()

    @work(group="list", exclusive=True, exit_on_error=False, description="list allowed commands")
    async def _load(self) -> None:
        try:
            texts = await asyncio.to_thread(self._store.forms)
        except StorageError as error:
            self.say(str(error))
            return
        self.query_one(SearchList).set_choices([_choice(text) for text in texts])
        self.say(f"{len(texts)} allowed" if texts else "")

    def action_revoke(self) -> None:
        """Ask again from now on, in every window."""
        if (choice := self.query_one(SearchList).choice) is not None:
            self._revoke(choice.key)

    @work(group="revoke", exclusive=True, exit_on_error=False, description="revoke an allowed command")
    async def _revoke(self, form: str) -> None:
        try:
            await asyncio.to_thread(self._store.remove, form)
        except StorageError as error:
            self.say(str(error))
            return
        self._load()


def _choice(text: str) -> Choice:
    form = load_form(text)
    said = visible(str(form), keep="")
    if isinstance(form, ToolForm):
        follows = "whatever its arguments"
    else:
        follows = "and whatever follows" if form.open else "just this"
    return Choice(text, Content.assemble(said, (f"   {follows}", "$foreground 65%")), said)
