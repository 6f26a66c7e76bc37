"""Search in the shown change."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from app.proposals.values.models import FileDiff
from app.review.hunk_lines import Side
from widgets.diff.diff_cursor import DiffCursor, DiffViewInterface
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import LineRow, SourceLinePosition, row_of_line


class SearchBar(Horizontal):
    """Search field: searches while typing; Enter goes to the first match after the cursor, Escape ends the search."""

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
        """The user returns to the diff; `query` is empty if the search is over."""

        def __init__(self, query: str) -> None:
            super().__init__()
            self.query = query

    def compose(self) -> ComposeResult:
        """Compose the label, the field and the key hints."""
        yield Static(Content.styled("Search", "bold $text-accent"))
        yield Input(select_on_focus=True)
        yield Static(Content("Enter goes there · Esc ends"), id="search-keys")

    @property
    def field(self) -> Input:
        """Return the text field of the query."""
        return self.query_one(Input)

    def open(self) -> None:
        """Show the field and focus it."""
        self.add_class("shown")
        self.screen.set_focus(self.field)

    @on(Input.Changed)
    def _post_query(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(SearchBar.Typed(event.value))

    @on(Input.Submitted)
    def _post_finished(self, event: Input.Submitted) -> None:
        event.stop()
        self.remove_class("shown")
        self.post_message(SearchBar.Finished(event.value))

    def action_leave(self) -> None:
        self.remove_class("shown")
        self.field.value = ""
        self.post_message(SearchBar.Finished(""))


MAX_LINES_WITHOUT_THREAD = 20_000
"""Maximum number of lines that are searched at once, without a thread."""


class MatchingLine(NamedTuple):
    """A line that matches a query."""

    line: SourceLinePosition
    hunk: int | None

    @property
    def row(self) -> LineRow:
        """Return a row that shows the match."""
        return row_of_line(self.line, self.hunk)


def _first_match_index(matches: Sequence[MatchingLine], diffs: Sequence[FileDiff], row: LineRow) -> int:
    """Return the index of the first match at or below a row; 0 if there is none."""

    def order(match: MatchingLine) -> tuple[int, int, bool, int]:
        # Removed lines are shown above the new lines of their hunk.
        file, side, line = match.line
        is_new = side == "new"
        return file, line if is_new else diffs[file].change.hunks[match.hunk or 0].new_start, is_new, line

    return bisect_left(matches, order(MatchingLine(row.newest, row.hunk)), key=order) % len(matches)


def find_matches(
    diffs: Sequence[FileDiff], query: str, is_wanted: Callable[[], bool] = lambda: True
) -> list[MatchingLine]:
    """Return the lines that contain a query, in display order; context lines count once.

    `is_wanted` is called before each hunk; if it returns False, the search stops with the matches so far.
    """
    matches: list[MatchingLine] = []
    if not query:
        return matches
    ignores_case = query == query.lower()

    def scan(file: int, hunk: int | None, side: Side, lines: Sequence[str], start: int, end: int) -> None:
        matches.extend(
            MatchingLine(SourceLinePosition(file, side, line), hunk)
            for line in range(start, end)
            if query in (lines[line].lower() if ignores_case else lines[line])
        )

    for file, diff in enumerate(diffs):
        line_after_hunk = 0
        for number, hunk in enumerate(diff.change.hunks):
            if not is_wanted():
                return matches
            scan(file, None, "new", diff.new, line_after_hunk, hunk.new_start)
            line_after_hunk = hunk.new_start + hunk.new_count
            scan(file, number, "old", diff.old, hunk.old_start, hunk.old_start + hunk.old_count)
            scan(file, number, "new", diff.new, hunk.new_start, line_after_hunk)
        scan(file, None, "new", diff.new, line_after_hunk, len(diff.new))
    return matches


class DiffSearch:
    """The query, its matches, and the match to which the cursor last moved."""

    def __init__(self, model: DiffModel, cursor: DiffCursor, view: DiffViewInterface) -> None:
        self._model = model
        self._cursor = cursor
        self._view = view
        self.clear()

    def clear(self) -> None:
        """Clear the search."""
        self.query = ""
        self.matches: list[MatchingLine] = []
        self.running = False
        """Whether a search runs in a thread."""
        self.current: int | None = None
        """Index of the match to which the cursor last moved."""
        self.wanted_step = 0
        """The step that the user requested before the result was available."""

    def start(self, query: str) -> None:
        """Search all files for a query; clear the search if it is empty."""
        self.clear()
        diffs, context = self._model.diffs, self._model.render_context
        self.query = context.query = query
        context.current_match = None
        self.running = bool(query) and sum(len(diff.new) for diff in diffs) > MAX_LINES_WITHOUT_THREAD
        if self.running:
            self._view.run_job("search", partial(self._search_in_thread, diffs, query))
        else:
            self.matches = find_matches(diffs, query)
        self._view.handle_search_change()

    async def _search_in_thread(self, diffs: Sequence[FileDiff], query: str) -> None:
        """Search in a thread; the thread stops early if the query or the diffs change."""

        def is_wanted() -> bool:
            return self.running and self.query == query and self._model.diffs is diffs

        matches = await asyncio.to_thread(find_matches, diffs, query, is_wanted)
        if is_wanted():
            self.running, self.matches = False, matches
            self._view.handle_search_change()

    def next_match(self, step: int) -> MatchingLine | None:
        """Return the next match, or the previous one with -1; the first call searches from the cursor."""
        self.wanted_step = step if self.running else 0
        if not self.matches:
            return None
        if self.current is not None:
            self.current = (self.current + step) % len(self.matches)
        else:
            line = self._cursor.find_line_at_or_below()
            self.current = 0 if line is None else _first_match_index(self.matches, self._model.diffs, line)
        match = self.matches[self.current]
        self._model.render_context.current_match = match.line
        return match
