"""The surface of the diff preview: what is shown, how it is laid out, and its lines, drawn as they are looked at."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from app.proposals.models import FileDiff, Proposal, ProposalState
from widgets.diff.arrange import Comment, Shape, arrange
from widgets.diff.cells import display
from widgets.diff.colours import COMPONENTS, DIFF_CSS
from widgets.diff.copying import copied_text
from widgets.diff.marks import Marks, moved_lines
from widgets.diff.notes import proposal_notes
from widgets.diff.paint import Painter
from widgets.diff.places import Landmarks, locate
from widgets.diff.rows import CommentRow, FileRow, Layout, LineRow, NoteRow, Row, Single
from widgets.diff.rows import Segment as Stretch
from widgets.diff.scene import Scene
from widgets.diff.syntax import Syntax
from widgets.diff.warnings import character_warnings
from widgets.diff.widths import widest
from widgets.diff.wrapping import rows_of, wrap_words

SPLIT_WIDTH = 140
"""From this many columns on, the two sides stand side by side unless the user chose otherwise."""

_SMALL_CHANGE = 400
"""Changed lines up to which marks and warnings are computed at once rather than in a thread."""

_SHORT_LAYOUT = 4_000
"""Rows up to which the widest line is looked for at once rather than in a thread."""

_KEPT_STRIPS = 1024


class DiffCanvas(ScrollView):
    """Draws a proposal's file diffs, and remembers which hunks were drawn."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    DEFAULT_CSS = DIFF_CSS

    class ViewMoved(Message):
        """The cursor, the scroll position or the layout changed."""

        def can_replace(self, message: Message) -> bool:
            """The newest stands for all."""
            return isinstance(message, DiffCanvas.ViewMoved)

    class Seen(Message):
        """Hunks came on screen for the first time."""

        def can_replace(self, message: Message) -> bool:
            """The newest stands for all."""
            return isinstance(message, DiffCanvas.Seen)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.proposal: Proposal | None = None
        self.diffs: tuple[FileDiff, ...] = ()
        self.rows = Layout()
        self.landmarks = Landmarks(self.rows)
        self.cursor = 0
        """The row that the keys act on."""
        self.seen: set[str] = set()
        """Hunk ids, and paths of files without hunks, that have been on screen."""
        self.shape = Shape()
        self.scene = Scene()
        self.plain_text = False
        """Whether plain lines are shown, without a cursor."""
        self._painter = Painter(self.scene, self._style)
        self._split_choice: bool | None = None
        self._wrap = False
        self._comments: tuple[Comment, ...] = ()
        self._top: tuple[NoteRow, ...] = ()
        self._warnings: tuple[NoteRow, ...] = ()
        self._extra: tuple[NoteRow, ...] = ()
        self._message = ""
        self._strips: LRUCache[tuple[int, int, int, str], Strip] = LRUCache(_KEPT_STRIPS)
        self._styles: dict[tuple[str, ...], Style] = {}
        self._seen_lines = (0, 0)
        self._furthest = 0
        self._place_cursor = False
        self._widest = 0
        self._lexing: Scene | None = None
        self._drawing = False

    # What is shown

    def show(self, proposal: Proposal, diffs: Sequence[FileDiff], *, extra: Sequence[NoteRow] = ()) -> None:
        """Show a change. The place, the folds and what was seen are kept if the same proposal is shown again.

        `extra` are notes that stand above the first file.
        """
        same = self.proposal is not None and self.proposal.id == proposal.id and bool(self.diffs)
        row, offset = self._mark() if same else (None, 0)
        self.proposal, self.diffs = proposal, tuple(diffs)
        self._message, self.plain_text = "", False
        if not same:
            self.forget_place()
        self._top, self._extra = tuple(proposal_notes(proposal)), tuple(extra)
        self._set_scene()
        self._rebuild(row, offset)
        if not same:
            self.scroll_to(0, 0, animate=False, immediate=True)
            self._place_cursor = True
            self._go_to_first_hunk()

    def _go_to_first_hunk(self) -> None:
        """Put the cursor on the first hunk of a new change, once there is a layout."""
        if self._place_cursor and self.rows.rows:
            self._place_cursor = False
            self.cursor = self.landmarks.hunks[0] if self.landmarks.hunks else 0

    def clear(self, message: str = "") -> None:
        """Show nothing but a line of words in the middle."""
        self._show_no_diff()
        self._message = message
        self._rebuild(None, 0)

    def show_text(self, notes: Sequence[NoteRow]) -> None:
        """Show plain lines instead of a diff (a command that asks to be run)."""
        self._show_no_diff()
        self.plain_text, self._extra, self._furthest = True, tuple(notes), 0
        self._rebuild(None, 0)
        self.scroll_to(0, 0, animate=False, immediate=True)

    @property
    def read_to_end(self) -> bool:
        """Whether the last of the plain lines has been on screen."""
        return self._furthest >= self.rows.height

    def forget_place(self) -> None:
        """Forget everything that belongs to the change that was shown before."""
        self.seen = set()
        self._comments = ()
        self.shape = Shape(split=self.shape.split)
        self.scene = Scene()

    def _show_no_diff(self) -> None:
        self.proposal, self.diffs, self.cursor = None, (), 0
        self._top, self._warnings, self._extra, self._message = (), (), (), ""
        self.plain_text = False
        self.forget_place()
        self._painter = Painter(self.scene, self._style)

    def set_left_out(self, hunks: frozenset[str]) -> None:
        """Say which hunks an approval would not write."""
        self.scene.left_out = hunks
        self.repaint()

    def set_comments(self, comments: Sequence[Comment]) -> None:
        """Show these remarks under their lines."""
        if tuple(comments) != self._comments:
            self._comments = tuple(comments)
            self.relayout()

    def set_extra(self, notes: Sequence[NoteRow]) -> None:
        """Replace the notes above the first file."""
        self._extra = tuple(notes)
        self.relayout()

    def _set_scene(self) -> None:
        assert self.proposal is not None
        diffs = self.diffs
        longest = max((max(len(diff.old), len(diff.new)) for diff in diffs), default=1)
        self.scene = Scene(
            diffs=diffs,
            marks=Marks(diffs),
            syntax=Syntax(
                [diff.change.path for diff in diffs],
                lambda file, side: diffs[file].old if side == "old" else diffs[file].new,
            ),
            digits=max(3, len(str(longest))),
            left_out=self.scene.left_out,
            undecided=self.proposal.state in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED),
            query=self.scene.query,
        )
        self._painter = Painter(self.scene, self._style)
        self._warnings, self._widest = (), 0
        if sum(diff.change.added + diff.change.removed for diff in diffs) <= _SMALL_CHANGE:
            self.scene.marks.moved = moved_lines(diffs)
            self._warnings = tuple(character_warnings(diffs))
        else:
            self._work_after_paint("inspect", partial(self._inspect, self.scene))

    def _work_after_paint(self, group: str, work: Callable[[], Awaitable[None]]) -> None:
        """Start work for a thread once what there is has been drawn, which the thread would hold up."""
        self.call_after_refresh(
            self.run_worker, work, group=group, exclusive=True, exit_on_error=False, description=group
        )

    async def _inspect(self, scene: Scene) -> None:
        """Find dangerous characters and moved lines of a large change, in a thread."""
        warnings = tuple(await asyncio.to_thread(lambda: tuple(character_warnings(scene.diffs))))
        moved = await asyncio.to_thread(moved_lines, scene.diffs)
        if scene is self.scene:
            scene.marks.moved = moved
            self._warnings = warnings
            if warnings:
                self.relayout()
            elif moved:
                self.repaint()

    # Layout

    @property
    def split(self) -> bool:
        """Whether the two sides stand side by side."""
        return self.size.width >= SPLIT_WIDTH if self._split_choice is None else self._split_choice

    def set_split(self, split: bool | None) -> None:
        """Stand side by side or not, whatever the width; None goes by the width."""
        self._split_choice = split
        self.relayout()

    @property
    def wrap(self) -> bool:
        """Whether long lines take several rows."""
        return self._wrap

    def set_wrap(self, wrap: bool) -> None:
        """Wrap long lines, or scroll them."""
        self._wrap = wrap
        self.scroll_to(x=0, animate=False, immediate=True)
        self.relayout()

    def reshape(self, shape: Shape) -> None:
        """Show other folds or files."""
        self.shape = shape
        self.relayout()

    @property
    def row_at_cursor(self) -> Row | None:
        """What the cursor stands on."""
        return self.rows.row(self.cursor) if self.cursor < self.rows.rows else None

    def clamped(self, row: int) -> int:
        """The nearest row that exists."""
        return max(0, min(row, self.rows.rows - 1))

    def _mark(self) -> tuple[Row | None, int]:
        """The row at the cursor and its distance from the top of the view, to come back to."""
        row = self.row_at_cursor
        return row, self.rows.line_of(self.cursor) - self.scroll_offset.y if row is not None else 0

    def relayout(self) -> None:
        """Lay out again, with the cursor on the same line at the same height."""
        self._rebuild(*self._mark())

    def _rebuild(self, row: Row | None, offset: int) -> None:
        width = self.size.width
        if not width:
            # There is nothing to draw on yet; the first resize lays out.
            self.rows, self.landmarks = Layout(), Landmarks(Layout())
            return
        self.shape = replace(self.shape, split=self.split)
        scene = self.scene
        scene.width, scene.split, scene.wrap = width, self.split, self._wrap
        scene.collapsed = self.shape.collapsed
        self.rows = arrange(
            self.diffs,
            self.shape,
            top=(*self._warnings, *self._top, *self._extra),
            comments=self._comments,
            measure=self._measure,
            fits=self._fits if self._wrap else None,
        )
        self.landmarks = Landmarks(self.rows)
        self._seen_lines = (0, 0)
        self._measure_width()
        if row is not None:
            self.cursor = self.clamped(locate(self.rows, row) or 0)
            if self.rows.rows:
                top = self.rows.line_of(self.cursor) - offset
                self.scroll_to(y=max(0, top), animate=False, immediate=True)
        self.cursor = self.clamped(self.cursor)
        self._go_to_first_hunk()
        self.repaint()

    def _measure_width(self) -> None:
        """Find out how far the code can be scrolled to the side; in a long layout, in a thread."""
        if self._wrap or not self.diffs:
            self._widest = 0
        elif self.rows.rows <= _SHORT_LAYOUT:
            self._widest = widest(self.diffs, self.rows.segments)
        else:
            top = self.rows.segments_between(0, self.size.height)
            self._widest = max(self._widest, widest(self.diffs, top))
            self._work_after_paint("width", partial(self._measure_whole_width, self.rows))
        self._fit()

    async def _measure_whole_width(self, layout: Layout) -> None:
        cells = await asyncio.to_thread(widest, self.diffs, layout.segments)
        if layout is self.rows and cells != self._widest:
            self._widest = cells
            self._fit()

    def _fit(self) -> None:
        """Let the view be scrolled as far as there are lines, and cells in them."""
        width = self.size.width
        beside = width - self.scene.code_width
        self.virtual_size = Size(max(width, beside + self._widest if self._widest else 0), self.rows.height)

    def _fits(self, segment: Stretch) -> bool:
        """Whether no line of a stretch is longer than there is room."""
        return widest(self.diffs, (segment,)) <= self.scene.code_width

    def _measure(self, row: Row) -> int:
        """Terminal lines of a row."""
        scene = self.scene
        match row:
            case LineRow():
                width, heights = scene.code_width, [1]
                if row.new is not None:
                    heights.append(rows_of(scene.line(row.file, "new", row.new), width))
                if row.old is not None and (scene.split or row.new is None):
                    heights.append(rows_of(scene.line(row.file, "old", row.old), width))
                return max(heights)
            case NoteRow() | CommentRow():
                return len(wrap_words(row.text, scene.room))
            case _:
                return 1

    def on_resize(self, event: events.Resize) -> None:
        """Fit the rows to the new width."""
        if event.size.width != self.scene.width or self.split != self.scene.split:
            self.relayout()

    # Drawing

    def _style(self, classes: tuple[str, ...]) -> Style:
        style = self._styles.get(classes)
        if style is None:
            if classes[-1] == "screen--selection":
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

    def repaint(self) -> None:
        """Draw everything anew."""
        self._strips.clear()
        self.refresh()
        self.post_message(self.ViewMoved())

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selected text."""
        self._strips.clear()
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected source text, without line numbers and signs."""
        return copied_text(self.rows, self.scene, selection), "\n"

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw, and remember which hunks were drawn."""
        self._drawing = True
        try:
            strips = super().render_lines(crop)
        finally:
            self._drawing = False
        top = self.scroll_offset.y + crop.y
        lines = (top, top + crop.height)
        if lines != self._seen_lines and crop.height:
            self._seen_lines = lines
            self._furthest = max(self._furthest, lines[1])
            self._note_seen(*lines)
        if self.scene.syntax.wanted and self._lexing is not self.scene:
            self.call_later(self._start_lexing)
        return strips

    def _note_seen(self, first: int, last: int) -> None:
        new: set[str] = set()
        for segment in self.rows.segments_between(first, last):
            change = self.diffs[segment.file].change if segment.file >= 0 else None
            if change is None:
                continue
            if segment.hunk is not None:
                new.add(change.hunks[segment.hunk].id)
            elif not change.hunks and isinstance(segment, Single) and isinstance(segment.content, FileRow):
                new.add(change.path)
        if not new <= self.seen:
            self.seen |= new
            self.post_message(self.Seen())

    def _start_lexing(self) -> None:
        if self._lexing is not self.scene:
            self._lexing = self.scene
            self._work_after_paint("syntax", partial(self._lex, self.scene))

    async def _lex(self, scene: Scene) -> None:
        while scene is self.scene and await scene.syntax.work():
            self._strips.clear()
            self.refresh()
        if self._lexing is scene:
            self._lexing = None

    def render_line(self, y: int) -> Strip:
        """One terminal line of the viewport; outside of drawing, as the mouse asks, its pieces tell their places."""
        width = self.size.width
        line = y + self.scroll_offset.y
        if self._message and y == self.size.height // 2:
            return self._centred(display(self._message).text)
        if line >= self.rows.height:
            return Strip.blank(width, self._style(("diff--plain",)))
        self.scene.scroll = 0 if self._wrap else self.scroll_offset.x
        number, row, part = self.rows.at(line)
        cursor = ""
        if number == self.cursor and not self.plain_text:
            cursor = "diff--cursor" if self.has_focus else "diff--cursor-blurred"
        selection = self.text_selection
        key = (line, self.scene.scroll, width, cursor)
        if not self._drawing:
            return self._painter.paint(row, part, line, cursor=cursor, selection=selection, offsets=True)
        strip = self._strips.get(key) if selection is None else None
        if strip is None:
            strip = self._painter.paint(row, part, line, cursor=cursor, selection=selection)
            if selection is None:
                self._strips[key] = strip
        return strip

    def _centred(self, message: str) -> Strip:
        style = self._style(("diff--plain", "diff--message"))
        text = Strip([Segment(message, style)])
        return (
            text.text_align(self.size.width, "center").adjust_cell_length(self.size.width, style).apply_style(style)
        )
