"""The diff preview: a change over several files, of any size, with a cursor, folds, a search and the mouse."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from app.actions import bindings
from app.proposals.models import FileDiff, HunkState, Proposal
from widgets.common.key_hints import MAIN_BUTTON
from widgets.diff.cursor import Anchor
from widgets.diff.layout import Landmarks
from widgets.diff.picking import LinePicking
from widgets.diff.rows import BlankRow, CommentRow, Context, FileRow, FoldRow, LineRow, NoteRow, Side
from widgets.diff.search import Found, count_matches, first_from, search
from widgets.diff.seen import Seen
from widgets.diff.selecting import line_at, word_at

SEARCHED_AT_ONCE = 20_000
"""Lines up to which a search is done at once rather than in a thread."""

SIDE_STEP = 8
"""Cells scrolled to the side at a time."""

_NO_LINES = 20
"""More rows than ever follow each other without a line of a file among them: heads, folds, notes."""
_NEEDS_DIFF = frozenset({"next_hunk", "previous_hunk", "next_file", "previous_file", "next_unseen", "toggle_layout"})
"""Of the actions that the footer offers, those that mean nothing before there is a diff."""
_MARK_CELLS = 2
"""Cells before a line that stand for its hunk."""


class DiffView(LinePicking):
    """Shows a proposal's file diffs; moves, folds, searches and points at them by key and mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("diff")]

    @dataclass
    class HunkClicked(Message):
        """The state mark of a hunk was clicked."""

        hunk: str

    @dataclass
    class NoteClicked(Message):
        """A note that can be ticked off was clicked or opened."""

        key: str

    @dataclass
    class CommentWanted(Message):
        """The user wants to remark on a line."""

        anchor: Anchor

    class SearchWanted(Message):
        """The user wants to search."""

    class FilesWanted(Message):
        """The user wants to go to the list of files, or to see it or not."""

    class VersionsWanted(Message):
        """The user wants to see the earlier version against this one, or to go back."""

    @dataclass
    class SearchDone(Message):
        """A search has its result."""

        query: str
        matches: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.search_text = ""
        self.found: list[Found] = []
        """Lines that match the search."""
        self.matches = 0
        """Occurrences on them."""
        self.searching = False
        """Whether a search is under way in a thread."""
        self.current_match: int | None = None
        """Which of the lines that match the cursor was sent to last."""
        self.drawn: Callable[[], None] | None = None
        """Called whenever some of it has been painted."""
        self._steps = 0
        self._held: tuple[int, bool] | None = None

    def show(
        self,
        proposal: Proposal,
        diffs: Sequence[FileDiff],
        *,
        extra: Sequence[NoteRow] = (),
        versions: bool = False,
        seen: Seen | None = None,
    ) -> None:
        """Show a change, and keep a search in the same proposal."""
        super().show(proposal, diffs, extra=extra, versions=versions, seen=seen)
        self.refresh_bindings()
        if self.search_text:
            self.search(self.search_text)

    def forget_place(self) -> None:
        """Forget the search, too."""
        super().forget_place()
        self.search_text, self.found, self.matches, self.current_match = "", [], 0, None
        self.searching, self._steps = False, 0
        self.refresh_bindings()

    def after_drawing(self, first: int, last: int) -> None:
        """Tell that it was painted."""
        super().after_drawing(first, last)
        if self.drawn is not None:
            self.drawn()

    # Keys

    def action_cursor_down(self) -> None:
        """Next row; a row taller than the view is scrolled through first."""
        if self.plain_text:
            self.scroll_relative(y=1, animate=False, immediate=True)
            return
        if self.rows.rows:
            bottom = self.rows.line_of(self.cursor) + self.rows.height_of(self.cursor)
            if bottom > self.scroll_offset.y + self.scrollable_content_region.height:
                self.scroll_relative(y=1, animate=False, immediate=True)
                return
        self.move_to(self.cursor + 1)

    def action_cursor_up(self) -> None:
        """Previous row."""
        if self.plain_text:
            self.scroll_relative(y=-1, animate=False, immediate=True)
            return
        if self.rows.rows and self.rows.line_of(self.cursor) < self.scroll_offset.y:
            self.scroll_relative(y=-1, animate=False, immediate=True)
            return
        self.move_to(self.cursor - 1)

    def action_page_down(self) -> None:
        """Next page."""
        self._page(1)

    def action_page_up(self) -> None:
        """Previous page."""
        self._page(-1)

    def _page(self, direction: int) -> None:
        if not self.rows.rows:
            return
        view = self.scrollable_content_region.height
        step = max(1, view - 2) * direction
        line = self.rows.line_of(self.cursor) + step
        self.scroll_relative(y=step, animate=False, immediate=True)
        if self.plain_text:
            return
        # The cursor goes along. The view stays where the page has come to also if the row begins above it.
        first = self.scroll_offset.y
        line = max(first, min(line, first + view - 1, self.rows.height - 1))
        self.put_cursor(self.rows.at(line).number)

    def action_top(self) -> None:
        """First row."""
        self.scroll_to(y=0, animate=False, immediate=True)
        self.move_to(0)

    def action_bottom(self) -> None:
        """Last row."""
        self.lay_out_all()
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)
        self.move_to(self.rows.rows - 1)

    def action_next_hunk(self) -> None:
        """Next hunk."""
        self._jump(lambda marks: Landmarks.after(marks.hunks, self.cursor))

    def action_previous_hunk(self) -> None:
        """Previous hunk."""
        self._jump(lambda marks: Landmarks.before(marks.hunks, self.cursor))

    def action_next_file(self) -> None:
        """Next file."""
        self._jump(lambda marks: Landmarks.after(marks.files, self.cursor), at_top=True)

    def action_previous_file(self) -> None:
        """Previous file."""
        self._jump(lambda marks: Landmarks.before(marks.files, self.cursor), at_top=True)

    def _jump(self, find: Callable[[Landmarks], int | None], *, at_top: bool = False) -> None:
        row = find(self.landmarks)
        if row is None and not self.rows.complete:
            self.lay_out_all()
            row = find(self.landmarks)
        if row is not None:
            self.go_to(row, at_top=at_top)

    def action_toggle_layout(self) -> None:
        """Unified or side by side."""
        self.set_split(not self.split)

    def action_toggle_wrap(self) -> None:
        """Wrap long lines or scroll them."""
        self.set_wrap(not self.wrap)

    def action_toggle_folds(self) -> None:
        """Open or close the unchanged stretch at the cursor; from a hunk, all of them."""
        row = self.row_at_cursor
        gap = None
        if isinstance(row, FoldRow):
            gap = (row.file, row.gap)
        elif isinstance(row, LineRow) and row.hunk is None:
            segment = self.rows.segments[self.rows.segment_of(self.cursor)]
            gap = (segment.file, segment.gap) if isinstance(segment, Context) else None
        if gap is None:
            self.action_toggle_all_folds()
            return
        self.reshape(replace(self.shape, opened=self.shape.opened ^ {gap}))

    def action_toggle_all_folds(self) -> None:
        """Show the whole files, or only what is around the hunks."""
        self.reshape(replace(self.shape, whole=not self.shape.whole, opened=frozenset()))

    def action_open(self) -> None:
        """Open or close what the cursor stands on: a fold, a file, a remark, a comment."""
        match self.row_at_cursor:
            case FoldRow():
                self.action_toggle_folds()
            case LineRow() as row:
                self._open_line(row)
            case FileRow(file=file):
                self.reshape(replace(self.shape, collapsed=self.shape.collapsed ^ {file}))
            case NoteRow(key=key) if key:
                self.post_message(self.NoteClicked(key))
            case CommentRow():
                self.action_comment()
            case _:
                pass

    def _open_line(self, row: LineRow) -> None:
        """Show what is left out of a long line, or leave it out again."""
        sides: tuple[tuple[Side, int | None], ...] = (("old", row.old), ("new", row.new))
        keys = {(row.file, side, number) for side, number in sides if number is not None}
        opened = self.shape.lines & keys
        if opened or any(self.scene.kept(row, side, number) for _, side, number in keys):
            self.reshape(replace(self.shape, lines=self.shape.lines - keys if opened else self.shape.lines | keys))

    def action_scroll_code_left(self) -> None:
        """Show the beginning of long lines."""
        self.scroll_to(x=max(0, self.scroll_offset.x - SIDE_STEP), animate=False, immediate=True)

    def action_scroll_code_right(self) -> None:
        """Show the end of long lines."""
        self.scroll_to(x=self.scroll_offset.x + SIDE_STEP, animate=False, immediate=True)

    def action_comment(self) -> None:
        """Remark on the line at the cursor."""
        anchor = self.anchor_at_cursor
        if anchor is not None and self._takes_comments:
            self.post_message(self.CommentWanted(anchor))

    @property
    def _takes_comments(self) -> bool:
        """Whether the model will get to read them: on what waits, and as it is, not on what changed in it."""
        return self.proposal is not None and self.proposal.state.waiting and not self.versions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are offered where they do something."""
        if action == "comment":
            return self._takes_comments
        return action not in _NEEDS_DIFF or bool(self.diffs)

    def action_toggle_files(self) -> None:
        """The list of files."""
        self.post_message(self.FilesWanted())

    def action_toggle_versions(self) -> None:
        """The earlier version against this one."""
        self.post_message(self.VersionsWanted())

    # Search

    def action_search(self) -> None:
        """Search in the diff."""
        if self.diffs:
            self.post_message(self.SearchWanted())

    def search(self, query: str) -> None:
        """Highlight what matches, everywhere in the files; nothing for an empty query."""
        self.search_text = self.scene.query = query
        self.scene.found = None
        self.current_match, self._steps = None, 0
        self.searching = bool(query) and sum(len(diff.new) for diff in self.diffs) > SEARCHED_AT_ONCE
        if not self.searching:
            self._take_found(search(self.diffs, query), query)
            return
        self.found, self.matches = [], 0
        work: Callable[[], Awaitable[None]] = partial(self._search, self.diffs, query)
        self.run_worker(work, group="search", exclusive=True, exit_on_error=False, description="search")
        self.repaint()

    async def _search(self, diffs: Sequence[FileDiff], query: str) -> None:
        """Search in a thread, which ends early if something else is searched for meanwhile."""

        def wanted() -> bool:
            return self.searching and self.search_text == query and self.diffs is diffs

        found, matches = await asyncio.to_thread(_found_and_counted, diffs, query, wanted)
        if wanted():
            self.searching = False
            self._take_found(found, query, matches)
            if self._steps:
                self._step_search(self._steps)

    def _take_found(self, found: list[Found], query: str, matches: int | None = None) -> None:
        self.found = found
        self.matches = count_matches(self.diffs, found, query) if matches is None else matches
        self.repaint()
        self.post_message(self.SearchDone(query, self.matches))

    def action_search_next(self) -> None:
        """Next match."""
        self._step_search(1)

    def action_search_previous(self) -> None:
        """Previous match."""
        self._step_search(-1)

    def _step_search(self, step: int) -> None:
        if self.searching:
            self._steps = step
        if not self.found:
            return
        self.current_match = (
            (self.current_match + step) % len(self.found) if self.current_match is not None else self._first()
        )
        hit = self.found[self.current_match]
        self.scene.found = (hit.file, hit.side, hit.line)
        row = self._row_of(hit)
        shown = None if row is None else self.rows.row(row)
        if not (isinstance(shown, LineRow) and hit.line in (shown.old, shown.new)):
            self._reveal(hit)
            row = self._row_of(hit)
        self.repaint()
        if row is not None:
            self.go_to(row)

    def _first(self) -> int:
        """The first match from the cursor on."""
        below = (self.rows.row(row) for row in range(self.cursor, min(self.rows.rows, self.cursor + _NO_LINES)))
        line = next((row for row in below if isinstance(row, LineRow)), None)
        return first_from(self.found, self.diffs, line) if line is not None else 0

    def _row_of(self, hit: Found) -> int | None:
        row = self.rows.locate(hit.row)
        self.fit()
        return row

    def _reveal(self, hit: Found) -> None:
        """Open the file and the fold that hide a line."""
        hunks = self.diffs[hit.file].change.hunks
        gap = sum(hunk.new_start <= hit.line for hunk in hunks)
        opened = self.shape.opened
        if hit.hunk is None:
            opened = opened - {(hit.file, gap)} if self.shape.whole else opened | {(hit.file, gap)}
        self.reshape(replace(self.shape, opened=opened, collapsed=self.shape.collapsed - {hit.file}))

    # Mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where a click begins."""
        self._held = self._place_of(event)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a line; toggle a hunk by its mark; open a fold, a file or a comment.

        What a click does, it does where it began and ended; to drag from one line to another selects text. A double
        click selects the word, a triple click the line.
        """
        event.prevent_default()
        place, self._held = self._held, None
        if place is None or event.button != MAIN_BUTTON or place != self._place_of(event):
            return
        number, on_mark = place
        row = self.rows.row(number)
        if event.chain > 1 and isinstance(row, LineRow) and not on_mark:
            self._select(event)
            return
        if not on_mark and self.text_selection is not None:
            return
        self.move_to(number, above=0)
        hunk = self.hunk_at_cursor
        if isinstance(row, LineRow) and hunk is not None and on_mark:
            if hunk.state is HunkState.PENDING:
                self.post_message(self.HunkClicked(hunk.id))
        elif isinstance(row, FoldRow | FileRow | NoteRow | CommentRow | BlankRow):
            self.action_open()

    def _select(self, event: events.Click) -> None:
        _, place = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
        if place is not None:
            selection = (word_at if event.chain == 2 else line_at)(self.rows, self.scene, place)
            self.screen.selections = {} if selection is None else {self: selection}

    def _place_of(self, event: events.MouseEvent) -> tuple[int, bool] | None:
        """The row under the mouse, and whether its mark is."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y + self.scroll_offset.y >= self.rows.height:
            return None
        return self.rows.at(offset.y + self.scroll_offset.y)[0], offset.x < _MARK_CELLS


def _found_and_counted(diffs: Sequence[FileDiff], query: str, wanted: Callable[[], bool]) -> tuple[list[Found], int]:
    found = search(diffs, query, wanted)
    return found, count_matches(diffs, found, query)
