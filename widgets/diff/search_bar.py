"""The line in which a search is typed."""

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static


class SearchBar(Horizontal):
    """Searches while typing; Enter goes to the first match from the cursor on, Escape ends the search."""

    DEFAULT_CSS = """
    SearchBar {
        display: none;
        height: 1;
        background: $boost;
        &.shown { display: block; }
        Static { width: auto; padding: 0 1; }
        #search-keys { color: $foreground 60%; }
        Input {
            width: 1fr;
            height: 1;
            border: none;
            padding: 0;
            background: $foreground 7%;
            &:focus { border: none; background: $foreground 10%; background-tint: 0%; }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "End search", show=False)]

    @dataclass
    class Typed(Message):
        """The query changed."""

        query: str

    class Finished(Message):
        """Back to the diff; `query` is empty if the search is over."""

        def __init__(self, query: str) -> None:
            super().__init__()
            self.query = query

    def compose(self) -> ComposeResult:
        """What it is, where one types, and the ways out."""
        yield Static(Content.styled("Search", "bold $text-accent"))
        yield Input(select_on_focus=True)
        yield Static(Content("Enter goes there · Esc ends"), id="search-keys")

    @property
    def field(self) -> Input:
        """Where the query is typed."""
        return self.query_one(Input)

    def open(self) -> None:
        """Let the user type."""
        self.add_class("shown")
        self.screen.set_focus(self.field)

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(SearchBar.Typed(event.value))

    @on(Input.Submitted)
    def _finish(self, event: Input.Submitted) -> None:
        event.stop()
        self.remove_class("shown")
        self.post_message(SearchBar.Finished(event.value))

    def action_leave(self) -> None:
        """End the search."""
        self.remove_class("shown")
        self.field.value = ""
        self.post_message(SearchBar.Finished(""))
