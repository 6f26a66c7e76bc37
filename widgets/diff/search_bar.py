"""The line in which a search is typed."""

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class SearchBar(Input):
    """Searches while typing; Enter goes to the first match, Escape ends the search."""

    DEFAULT_CSS = """
    SearchBar {
        display: none;
        height: 1;
        border: none;
        padding: 0 1;
        background: $boost;
        &:focus { border: none; }
        &.shown { display: block; }
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

    def __init__(self) -> None:
        super().__init__(placeholder="search in the diff · enter goes there · esc ends", select_on_focus=True)

    def open(self) -> None:
        """Let the user type."""
        self.add_class("shown")
        self.screen.set_focus(self)

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
        self.value = ""
        self.post_message(SearchBar.Finished(""))
