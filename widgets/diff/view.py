"""The diff preview: a change over several files, of any size, drawn line by line as it is looked at."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from app.actions import bindings
from app.proposals.models import FileDiff, Hunk, HunkState, Proposal
from widgets.diff.arrange import Comment, Shape, arrange
from widgets.diff.cells import display, width_of
from widgets.diff.colours import COMPONENTS, DIFF_CSS
from widgets.diff.copying import copied_text
from widgets.diff.marks import Marks, moved_lines
from widgets.diff.notes import proposal_notes
from widgets.diff.paint import Painter, Scene, comment_lines
from widgets.diff.places import Found, Landmarks, count_matches, locate, row_of_hunk, search
from widgets.diff.rows import BlankRow, CommentRow, FileRow, FoldRow, Layout, LineRow, NoteRow, Row, Side, Single
from widgets.diff.syntax import Syntax
from widgets.diff.warnings import character_warnings
from widgets.diff.widths import widest

SPLIT_WIDTH = 140
"""From this many columns on, the two sides stand side by side unless the user chose otherwise."""

MARGIN = 3
"""Lines kept visible above and below the cursor."""

_SMALL_CHANGE = 400
"""Changed lines up to which marks and warnings are computed at once rather than in a thread."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line that a comment can stand on."""

    file: int
    side: Side
    line: int
    """From 0."""


class DiffView(ScrollView, can_focus=True):
    """Shows a proposal's file diffs; keeps what the user has seen, folded, searched and pointed at."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    DEFAULT_CSS = DIFF_CSS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("diff")]

    class ViewMoved(Message):
        """The cursor, the scroll position or the layout changed."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, DiffView.ViewMoved)

    class Seen(Message):
        """Hunks came on screen for the first time."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, DiffView.Seen)

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

    class VersionsWanted(Message):
        """The user wants to see the earlier version against this one, or to go back."""

    @dataclass
    class SearchDone(Message):
        """A search has its result."""

        query: str
        matches: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.proposal: Proposal | None = None
        self.diffs: tuple[FileDiff, ...] = ()
        self.layout_rows = Layout()
        self.landmarks = Landmarks(self.layout_rows)
        self.cursor = 0
        """The row that the keys act on."""
        self.seen: set[str] = set()
        """Hunk ids, and paths of files without hunks, that have been on screen."""
        self.found: list[Found] = []
        self.search_text = ""
        self.matches = 0
        self._current: int | None = None
        self._shape = Shape()
        self._split_choice: bool | None = None
        self._wrap = False
        self._scene = Scene()
        self._painter = Painter(self._scene, self._style)
        self._comments: tuple[Comment, ...] = ()
        self._top: tuple[NoteRow, ...] = ()
        self._warnings: tuple[NoteRow, ...] = ()
        self._extra: tuple[NoteRow, ...] = ()
        self._message = ""
        self._plain_text = False
        self._strips: LRUCache[tuple[object, ...], Strip] = LRUCache(1024)
        self._styles: dict[tuple[str, ...], Style] = {}
        self._selection_style = Style()
        self._seen_lines: tuple[int, int] = (0, 0)
        self._lexing: Scene | None = None

    # What is shown

    def show(self, proposal: Proposal, diffs: Sequence[FileDiff], *, extra: Sequence[NoteRow] = ()) -> None:
        """Show a change. The place, the folds and what was seen are kept if the same proposal is shown again.

        `extra` are notes that stand above the first file.
        """
        same = self.proposal is not None and self.proposal.id == proposal.id and bool(self.diffs)
        anchor = self.row_at_cursor if same else None
        offset = self.layout_rows.line_of(self.cursor) - self.scroll_offset.y if anchor is not None else 0
        self.proposal, self.diffs = proposal, tuple(diffs)
        self._message, self._plain_text = "", False
        if not same:
            self.seen = set()
            self._comments = ()
            self._shape = Shape(split=self._shape.split)
            self._scene.left_out = frozenset()
            self._stop_search()
        self._top = tuple(proposal_notes(proposal))
        self._extra = tuple(extra)
        self._prepare_scene()
        self._rebuild(anchor, offset)
        if not same:
            self.cursor = self.landmarks.hunks[0] if self.landmarks.hunks else 0
            self.scroll_to(0, 0, animate=False, immediate=True)
        if same and self.search_text:
            self.search(self.search_text)

    def clear(self, message: str = "") -> None:
        """Show nothing but a line of words in the middle."""
        self._forget()
        self._message = message
        self._rebuild(None, 0)

    def show_text(self, notes: Sequence[NoteRow]) -> None:
        """Show plain lines instead of a diff, wrapped (a command that asks to be run)."""
        self._forget()
        self._plain_text = True
        self._extra = tuple(notes)
        self._rebuild(None, 0)
        self.scroll_to(0, 0, animate=False, immediate=True)

    def _forget(self) -> None:
        self.proposal, self.diffs, self.seen = None, (), set()
        self._comments, self._top, self._warnings, self._extra, self._message = (), (), (), (), ""
        self._plain_text = False
        self._stop_search()
        self._scene = Scene()
        self._painter = Painter(self._scene, self._style)
        self.cursor = 0

    def set_left_out(self, hunks: frozenset[str]) -> None:
        """Say which hunks an approval would not write."""
        self._scene.left_out = hunks
        self._repaint()

    def set_comments(self, comments: Sequence[Comment]) -> None:
        """Show these remarks under their lines."""
        self._comments = tuple(comments)
        self._scene.comments = [comment.text for comment in comments]
        self._relayout()

    def set_extra(self, notes: Sequence[NoteRow]) -> None:
        """Replace the notes above the first file."""
        self._extra = tuple(notes)
        self._relayout()

    def _prepare_scene(self) -> None:
        assert self.proposal is not None
        diffs = self.diffs
        longest = max((max(len(diff.old), len(diff.new)) for diff in diffs), default=1)
        self._scene = Scene(
            diffs=diffs,
            marks=Marks(diffs),
            syntax=Syntax(
                [diff.change.path for diff in diffs],
                lambda file, side: diffs[file].old if side == "old" else diffs[file].new,
            ),
            digits=max(3, len(str(longest))),
            left_out=self._scene.left_out,
            undecided=self.proposal.state.waiting,
            comments=[comment.text for comment in self._comments],
            query=self.search_text,
        )
        self._painter = Painter(self._scene, self._style)
        self._warnings = ()
        if sum(diff.change.added + diff.change.removed for diff in diffs) <= _SMALL_CHANGE:
            self._scene.marks.moved = moved_lines(diffs)
            self._warnings = tuple(character_warnings(diffs))
        else:
            work: Callable[[], Awaitable[None]] = partial(self._inspect, self._scene)
            self.run_worker(work, group="inspect", exclusive=True, exit_on_error=False, description="inspect")

    async def _inspect(self, scene: Scene) -> None:
        """Find moved lines and dangerous characters of a large change, in a thread."""
        warnings = tuple(await asyncio.to_thread(lambda: list(character_warnings(scene.diffs))))
        moved = await asyncio.to_thread(moved_lines, scene.diffs)
        if scene is self._scene:
            scene.marks.moved = moved
            self._warnings = warnings
            self._relayout()

    # Layout

    @property
    def split(self) -> bool:
        """Whether the two sides stand side by side."""
        return self.size.width >= SPLIT_WIDTH if self._split_choice is None else self._split_choice

    @property
    def wrap(self) -> bool:
        """Whether long lines take several rows."""
        return self._wrap

    def _relayout(self) -> None:
        """Lay out again, with the cursor on the same line at the same height."""
        row = self.row_at_cursor
        offset = self.layout_rows.line_of(self.cursor) - self.scroll_offset.y if row is not None else 0
        self._rebuild(row, offset)

    def _rebuild(self, row: Row | None, offset: int) -> None:
        width = self.size.width
        self._shape = replace(self._shape, split=self.split)
        scene = self._scene
        scene.width, scene.split, scene.collapsed = max(1, width), self.split, self._shape.collapsed
        self.layout_rows = arrange(
            self.diffs,
            self._shape,
            top=(*self._warnings, *self._top, *self._extra),
            comments=self._comments,
            measure=self._measure,
            wrap=self._wrap,
        )
        self.landmarks = Landmarks(self.layout_rows)
        self._seen_lines = (0, 0)
        room = width if self._wrap or not self.diffs else scene.width - scene.code_width + self._widest()
        self.virtual_size = Size(max(width, room), self.layout_rows.height)
        if row is not None:
            self.cursor = self._clamped(locate(self.layout_rows, row) or 0)
            if self.layout_rows.rows:
                top = self.layout_rows.line_of(self.cursor) - offset
                self.scroll_to(y=max(0, top), animate=False, immediate=True)
        self.cursor = self._clamped(self.cursor)
        self._repaint()

    def _widest(self) -> int:
        """Cells of the longest line that is shown."""
        return widest(self.diffs, self.layout_rows)

    def _clamped(self, row: int) -> int:
        return max(0, min(row, self.layout_rows.rows - 1))

    def _measure(self, row: Row) -> int:
        """Terminal lines of a row."""
        scene = self._scene
        match row:
            case LineRow():
                sides: list[tuple[Side, int | None]] = [("old", row.old), ("new", row.new)]
                if not scene.split and row.new is not None:
                    sides = sides[1:]
                width = scene.code_width
                return max(
                    max(1, -(-width_of(scene.line(row.file, side, line)) // width))
                    for side, line in sides
                    if line is not None
                )
            case NoteRow():
                indent = 2 if row.file < 0 else 4
                return max(1, -(-width_of(row.text) // max(1, scene.width - indent - 2)))
            case CommentRow():
                return len(comment_lines(row.text, scene.width - min(scene.gutter, 12) - 2))
            case _:
                return 1

    def on_resize(self, event: events.Resize) -> None:
        """Fit the rows to the new width."""
        if event.size.width != self._scene.width or self.split != self._scene.split:
            self._relayout()

    # Drawing

    def _style(self, classes: tuple[str, ...]) -> Style:
        style = self._styles.get(classes)
        if style is None:
            if classes and classes[-1] == "screen--selection":
                style = self._style(classes[:-1]) + self.screen.get_component_rich_style("screen--selection")
            else:
                style = self.get_visual_style(*classes).rich_style
            self._styles[classes] = style
        return style

    def notify_style_update(self) -> None:
        """Forget everything that was drawn with the old colours."""
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def _repaint(self) -> None:
        self._strips.clear()
        self.refresh()
        self.post_message(self.ViewMoved())

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selected text."""
        self._strips.clear()
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw, and remember which hunks were drawn."""
        strips = super().render_lines(crop)
        top = self.scroll_offset.y + crop.y
        lines = (top, top + crop.height)
        if lines != self._seen_lines and crop.height:
            self._seen_lines = lines
            self._note_seen(*lines)
        if self._scene.syntax.wanted:
            self.call_later(self._start_lexing)
        return strips

    def _note_seen(self, first: int, last: int) -> None:
        new: set[str] = set()
        for segment in self.layout_rows.segments_between(first, last):
            if segment.hunk is not None:
                new.add(self.diffs[segment.file].change.hunks[segment.hunk].id)
            elif isinstance(segment, Single) and isinstance(segment.content, FileRow):
                change = self.diffs[segment.file].change
                if not change.hunks:
                    new.add(change.path)
        if not new <= self.seen:
            self.seen |= new
            self.post_message(self.Seen())

    def _start_lexing(self) -> None:
        if self._lexing is not self._scene:
            self._lexing = self._scene
            work: Callable[[], Awaitable[None]] = partial(self._lex, self._scene)
            self.run_worker(work, group="syntax", exclusive=True, exit_on_error=False, description="lex")

    async def _lex(self, scene: Scene) -> None:
        while scene is self._scene and await scene.syntax.work():
            self._strips.clear()
            self.refresh()
        if self._lexing is scene:
            self._lexing = None

    def render_line(self, y: int) -> Strip:
        """Draw one terminal line of the viewport."""
        width = self.size.width
        line = y + self.scroll_offset.y
        if self._message and y == self.size.height // 2:
            return self._centred(self._message)
        if line >= self.layout_rows.height:
            return Strip.blank(width, self._style(("diff--plain",)))
        self._scene.scroll = 0 if self._wrap else self.scroll_offset.x
        number, row, part = self.layout_rows.at(line)
        cursor = ""
        if number == self.cursor and not self._plain_text:
            cursor = "diff--cursor" if self.has_focus else "diff--cursor-blurred"
        selection = self.text_selection
        key = (line, self._scene.scroll, width, cursor)
        strip = self._strips.get(key) if selection is None else None
        if strip is None:
            strip = self._painter.paint(row, part, line, cursor=cursor, selection=selection)
            self._strips[key] = strip
        return strip

    def _centred(self, message: str) -> Strip:
        text = display(message).text
        painted = self._style(("diff--plain", "diff--message"))
        from rich.segment import Segment

        left = max(0, (self.size.width - width_of(message)) // 2)
        return Strip([Segment(" " * left + text, painted)]).adjust_cell_length(self.size.width, painted)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected source text, without line numbers and signs."""
        return copied_text(self.layout_rows, self._scene, selection), "\n"

    # Where the cursor is

    @property
    def row_at_cursor(self) -> Row | None:
        """What the cursor stands on."""
        return self.layout_rows.row(self.cursor) if self.cursor < self.layout_rows.rows else None

    @property
    def hunk_at_cursor(self) -> Hunk | None:
        """The hunk that the cursor is in."""
        if not self.layout_rows.rows:
            return None
        segment = self.layout_rows.segments[self.layout_rows.segment_of(self.cursor)]
        return None if segment.hunk is None else self.diffs[segment.file].change.hunks[segment.hunk]

    @property
    def file_at_cursor(self) -> int:
        """The index of the file that the cursor is in."""
        row = self.row_at_cursor
        return 0 if row is None else max(0, row.file)

    @property
    def anchor_at_cursor(self) -> Anchor | None:
        """The line that a comment would stand on."""
        row = self.row_at_cursor
        if not isinstance(row, LineRow):
            return None
        if row.new is not None:
            return Anchor(row.file, "new", row.new)
        return None if row.old is None else Anchor(row.file, "old", row.old)

    def move_to(self, row: int, *, above: int = MARGIN) -> None:
        """Put the cursor on a row and scroll as little as needed, with `above` lines of margin."""
        if not self.layout_rows.rows:
            return
        previous, self.cursor = self.cursor, self._clamped(row)
        top, height = self.layout_rows.line_of(self.cursor), self.layout_rows.height_of(self.cursor)
        view, first = self.scrollable_content_region.height, self.scroll_offset.y
        margin = min(above, max(0, (view - height) // 2))
        if top - margin < first:
            self.scroll_to(y=max(0, top - margin), animate=False, immediate=True)
        elif top + min(height, view) + margin > first + view:
            self.scroll_to(y=top + min(height, view) + margin - view, animate=False, immediate=True)
        self._refresh_row(previous)
        self._refresh_row(self.cursor)
        self.post_message(self.ViewMoved())

    def go_to(self, row: int) -> None:
        """Put the cursor on a landmark, a few lines under the top if it has to be scrolled to."""
        if not self.layout_rows.rows:
            return
        line, view = self.layout_rows.line_of(row), self.scrollable_content_region.height
        first = self.scroll_offset.y
        segment = self.layout_rows.segments[self.layout_rows.segment_of(row)]
        if not (first + 1 <= line and line + min(segment.height, view - 2) <= first + view):
            self.scroll_to(y=max(0, line - min(MARGIN + 1, view // 4)), animate=False, immediate=True)
        self.move_to(row, above=1)

    def go_to_hunk(self, hunk_id: str) -> None:
        """Put the cursor on a hunk."""
        for file, diff in enumerate(self.diffs):
            for number, hunk in enumerate(diff.change.hunks):
                if hunk.id == hunk_id and (row := row_of_hunk(self.layout_rows, file, number)) is not None:
                    self.go_to(row)
                    return

    def _refresh_row(self, row: int) -> None:
        if row < self.layout_rows.rows:
            self.refresh_lines(self.layout_rows.line_of(row), self.layout_rows.height_of(row))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell who draws the position."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.ViewMoved())

    def on_focus(self) -> None:
        """Show the cursor as active."""
        self._refresh_row(self.cursor)

    def on_blur(self) -> None:
        """Show the cursor as resting."""
        self._refresh_row(self.cursor)

    # Keys

    def action_cursor_down(self) -> None:
        """Next row; a row taller than the view is scrolled through first."""
        if self._plain_text:
            self.scroll_relative(y=1, animate=False, immediate=True)
            return
        if self.layout_rows.rows:
            bottom = self.layout_rows.line_of(self.cursor) + self.layout_rows.height_of(self.cursor)
            if bottom > self.scroll_offset.y + self.scrollable_content_region.height:
                self.scroll_relative(y=1, animate=False, immediate=True)
                return
        self.move_to(self.cursor + 1)

    def action_cursor_up(self) -> None:
        """Previous row."""
        if self._plain_text:
            self.scroll_relative(y=-1, animate=False, immediate=True)
            return
        if self.layout_rows.rows and self.layout_rows.line_of(self.cursor) < self.scroll_offset.y:
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
        if not self.layout_rows.rows:
            return
        step = max(1, self.scrollable_content_region.height - 2) * direction
        line = self.layout_rows.line_of(self.cursor) + step
        self.scroll_relative(y=step, animate=False, immediate=True)
        if self._plain_text:
            return
        self.move_to(self.layout_rows.at(max(0, min(line, self.layout_rows.height - 1))).number)

    def action_top(self) -> None:
        """First row."""
        self.scroll_to(y=0, animate=False, immediate=True)
        self.move_to(0)

    def action_bottom(self) -> None:
        """Last row."""
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)
        self.move_to(self.layout_rows.rows - 1)

    def action_next_hunk(self) -> None:
        """Next hunk."""
        self._jump(Landmarks.after(self.landmarks.hunks, self.cursor))

    def action_previous_hunk(self) -> None:
        """Previous hunk."""
        self._jump(Landmarks.before(self.landmarks.hunks, self.cursor))

    def action_next_file(self) -> None:
        """Next file."""
        self._jump(Landmarks.after(self.landmarks.files, self.cursor))

    def action_previous_file(self) -> None:
        """Previous file."""
        self._jump(Landmarks.before(self.landmarks.files, self.cursor))

    def _jump(self, row: int | None) -> None:
        if row is not None:
            self.go_to(row)

    def action_toggle_layout(self) -> None:
        """Unified or side by side."""
        self._split_choice = not self.split
        self._relayout()

    def action_toggle_wrap(self) -> None:
        """Wrap long lines or scroll them."""
        self._wrap = not self._wrap
        self.scroll_to(x=0, animate=False, immediate=True)
        self._relayout()

    def action_toggle_folds(self) -> None:
        """Open or close the unchanged stretch at the cursor; from a hunk, all of them."""
        row = self.row_at_cursor
        gap = None
        if isinstance(row, FoldRow):
            gap = (row.file, row.gap)
        elif isinstance(row, LineRow) and row.hunk is None:
            segment = self.layout_rows.segments[self.layout_rows.segment_of(self.cursor)]
            gap = (segment.file, getattr(segment, "gap", 0))
        if gap is None:
            self.action_toggle_all_folds()
            return
        self._shape = replace(self._shape, opened=self._shape.opened ^ {gap})
        self._relayout()

    def action_toggle_all_folds(self) -> None:
        """Show the whole files, or only what is around the hunks."""
        self._shape = replace(self._shape, whole=not self._shape.whole, opened=frozenset())
        self._relayout()

    def action_open(self) -> None:
        """Open or close what the cursor stands on: a fold, a file, a remark."""
        match self.row_at_cursor:
            case FoldRow():
                self.action_toggle_folds()
            case FileRow(file=file):
                self._shape = replace(self._shape, collapsed=self._shape.collapsed ^ {file})
                self._relayout()
            case NoteRow(key=key) if key:
                self.post_message(self.NoteClicked(key))
            case _:
                pass

    def action_scroll_code_left(self) -> None:
        """Show the beginning of long lines."""
        self.scroll_to(x=max(0, self.scroll_offset.x - 8), animate=False, immediate=True)

    def action_scroll_code_right(self) -> None:
        """Show the end of long lines."""
        self.scroll_to(x=self.scroll_offset.x + 8, animate=False, immediate=True)

    def action_comment(self) -> None:
        """Remark on the line at the cursor."""
        anchor = self.anchor_at_cursor
        if anchor is not None and self.proposal is not None and self.proposal.state.waiting:
            self.post_message(self.CommentWanted(anchor))

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
        self.search_text = self._scene.query = query
        self._scene.found = None
        self._current = None
        self.found = search(self.diffs, query)
        self.matches = count_matches(self.diffs, self.found, query) if query else 0
        self._repaint()
        self.post_message(self.SearchDone(query, self.matches))

    def _stop_search(self) -> None:
        self.search_text, self.found, self.matches, self._current = "", [], 0, None
        self._scene.query, self._scene.found = "", None

    def action_search_next(self) -> None:
        """Next match."""
        self._step_search(1)

    def action_search_previous(self) -> None:
        """Previous match."""
        self._step_search(-1)

    def _step_search(self, step: int) -> None:
        if not self.found:
            return
        self._current = 0 if self._current is None else (self._current + step) % len(self.found)
        hit = self.found[self._current]
        self._scene.found = (hit.file, hit.side, hit.line)
        row = locate(self.layout_rows, hit.row)
        shown = None if row is None else self.layout_rows.row(row)
        if not (isinstance(shown, LineRow) and hit.line in (shown.old, shown.new)):
            self._reveal(hit)
            row = locate(self.layout_rows, hit.row)
        self._repaint()
        if row is not None:
            self.go_to(row)

    def _reveal(self, hit: Found) -> None:
        """Open the file and the fold that hide a line."""
        hunks = self.diffs[hit.file].change.hunks
        gap = sum(hunk.new_start <= hit.line for hunk in hunks)
        opened = self._shape.opened
        if hit.hunk is None:
            opened = opened - {(hit.file, gap)} if self._shape.whole else opened | {(hit.file, gap)}
        self._shape = replace(self._shape, opened=opened, collapsed=self._shape.collapsed - {hit.file})
        self._relayout()

    # Mouse

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a line; toggle a hunk by its mark; open a fold or a file."""
        offset = event.get_content_offset(self)
        if offset is None or self.text_selection is not None:
            return
        line = offset.y + self.scroll_offset.y
        if line >= self.layout_rows.height:
            return
        number, row, _ = self.layout_rows.at(line)
        self.move_to(number, above=0)
        hunk = self.hunk_at_cursor
        if isinstance(row, LineRow) and hunk is not None and offset.x < 2:
            if hunk.state is HunkState.PENDING:
                self.post_message(self.HunkClicked(hunk.id))
        elif isinstance(row, FoldRow | FileRow | NoteRow | BlankRow):
            self.action_open()
