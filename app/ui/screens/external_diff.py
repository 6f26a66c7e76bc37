"""A file of a proposal as the user's own diff program shows it: to read and to search, nothing else.

What is on screen here counts for nothing: the program may leave out what it likes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from app.git.external_diff import Printed
from app.ui.screens.dialog import Dialog
from widgets.common.coloured_text import coloured_lines
from widgets.common.key_hints import KeyHint
from widgets.common.text_view import Line, TextView
from widgets.diff.search_bar import SearchBar

Run = Callable[[str, int], Awaitable[Printed]]
"""Runs the program on a file, by its path, for so many columns."""


class ExternalDiffScreen(Dialog[None]):
    """One file at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search"),
        Binding("full_stop", "match(1)", "Next match"),
        Binding("comma", "match(-1)", "Previous match"),
        Binding("right_curly_bracket", "file(1)", "Next file"),
        Binding("left_curly_bracket", "file(-1)", "Previous file"),
    ]
    KEYS = (
        KeyHint("slash", "search"),
        KeyHint("full_stop,comma", "next, previous match"),
        KeyHint("right_curly_bracket,left_curly_bracket", "files"),
        KeyHint("g,G", "top, end"),
        KeyHint("escape", "close"),
    )
    DEFAULT_CSS = """
    ExternalDiffScreen {
        TextView { height: 1fr; }
    }
    """

    def __init__(self, name: str, paths: Sequence[str], at: int, run: Run) -> None:
        """Show the files of `paths` from the one `at` on; `name` is what they are of, and by which program."""
        super().__init__(classes="-large")
        self._about = name
        self._paths = paths
        self._at = at
        self._run = run

    def heading(self) -> str:
        """What it is of."""
        return self._about

    def body(self) -> Iterable[Widget]:
        """The text, and where one types what is looked for."""
        yield TextView()
        yield SearchBar()

    def on_mount(self) -> None:
        """Show the first."""
        self.query_one(TextView).focus()
        self.call_after_refresh(self._load)

    @work(group="load", exclusive=True, exit_on_error=False, description="run the diff program")
    async def _load(self) -> None:
        view, path = self.query_one(TextView), self._paths[self._at]
        place = f"{path} · file {self._at + 1} of {len(self._paths)}" if len(self._paths) > 1 else path
        self.say(f"{place} …")
        printed = await self._run(path, max(20, view.size.width - 3))
        lines = await asyncio.to_thread(coloured_lines, printed.output)
        if not printed.output.strip():
            lines = [] if printed.problem else [Line((("It shows no difference.", "quiet"),))]
        if printed.problem:
            lines = [Line(((printed.problem, ""),), mark="important"), *lines]
        view.set_lines(lines)
        self.say(place)

    def action_file(self, by: int) -> None:
        """The next file, or the one before."""
        self._at = (self._at + by) % len(self._paths)
        self._load()

    def action_search(self) -> None:
        """Let the user type what is looked for."""
        self.query_one(SearchBar).open()

    def action_match(self, by: int) -> None:
        """Go to the next line that matches, or to the one before."""
        found, of = self.query_one(TextView).go_to_match(by)
        if self.query_one(TextView).query_text:
            self.say(f"match {found} of {of}" if of else "no match")

    @on(SearchBar.Typed)
    def _look_for(self, event: SearchBar.Typed) -> None:
        self.query_one(TextView).look_for(event.query)

    @on(SearchBar.Finished)
    def _end_search(self, event: SearchBar.Finished) -> None:
        view = self.query_one(TextView)
        view.focus()
        view.look_for(event.query)
        if event.query:
            self.action_match(1)
