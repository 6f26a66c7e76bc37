"""The content of the diff preview: what is shown, how it is laid out, and what is found out about it meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from textual import events
from textual.geometry import Size
from textual.message import Message

from app.proposals.models import FileDiff, Proposal, ProposalState
from widgets.diff.arrange import Comment, Shape, arrange
from widgets.diff.layout import Landmarks, Layout
from widgets.diff.marks import Marks, moved_lines
from widgets.diff.notes import proposal_notes, warning_notes
from widgets.diff.painted import Painted, note_line
from widgets.diff.rows import CommentRow, LineRow, NoteRow, Row, Segment, Side
from widgets.diff.scene import Scene
from widgets.diff.seen import Seen
from widgets.diff.surface import DiffSurface
from widgets.diff.syntax import Syntax
from widgets.diff.widths import widest
from widgets.diff.wrapping import rows_of, wrap_words

SPLIT_WIDTH = 140
"""From this many columns on, the two sides stand side by side unless the user chose otherwise."""

_SMALL_CHANGE = 400
"""Changed lines up to which marks and warnings are computed at once rather than in a thread."""

_UNDECIDED = (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)

_SHORT_LINES = 200
"""Characters of such a line, on average."""

_LINES_AT_ONCE = 2_000
"""Terminal lines, at most, that are laid out and measured before the first frame; the rest follows it."""

_SLICE, _PAUSE = 0.004, 0.004
"""Seconds that the rest is laid out for at a time, and seconds left to keys and frames in between."""


class DiffCanvas(DiffSurface):
    """Shows a proposal's file diffs, and notes what of them was on screen."""

    class CameOnScreen(Message):
        """Something came on screen for the first time."""

        def can_replace(self, message: Message) -> bool:
            """The newest stands for all."""
            return isinstance(message, DiffCanvas.CameOnScreen)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.proposal: Proposal | None = None
        self.diffs: tuple[FileDiff, ...] = ()
        self.versions = False
        """Whether the diffs are between two versions of the proposal."""
        self.seen = Seen()
        """What has been on screen."""
        self.shape = Shape()
        self._split_choice: bool | None = None
        self._comments: tuple[Comment, ...] = ()
        self._top: tuple[NoteRow, ...] = ()
        self._extra: tuple[NoteRow, ...] = ()
        self._painted = Painted()
        self._painted_at = 0
        """How far the view was scrolled to the side."""
        self._furthest = 0
        self._place_cursor = False
        self._widest = 0
        self._lexing: Scene | None = None
        self._waiting: dict[str, Callable[[], Awaitable[None]]] = {}
        """Work to start once a frame has been drawn, which it would hold up."""

    # What is shown

    def show(
        self,
        proposal: Proposal,
        diffs: Sequence[FileDiff],
        *,
        extra: Sequence[NoteRow] = (),
        versions: bool = False,
        seen: Seen | None = None,
    ) -> None:
        """Show a change. The place, the folds and what was seen are kept if the same proposal is shown again.

        `extra` are notes that stand above the first file. With `versions`, the change is between two versions of the
        proposal: there is nothing in it to choose or to comment on. `seen` is what of the proposal was on screen
        before; it is added to.
        """
        same = self.proposal is not None and self.proposal.id == proposal.id and bool(self.diffs)
        row, offset = self._mark() if same else (None, 0)
        self.proposal, self.diffs = proposal, tuple(diffs)
        self._message, self.plain_text, self.versions = "", False, versions
        if not same:
            self.forget_place()
        if seen is not None:
            self.seen = seen
        warnings = warning_notes(diff.change for diff in self.diffs)
        self._top, self._extra = (*warnings, *proposal_notes(proposal)), tuple(extra)
        self._look_at_diffs()
        self._rebuild(self._found_again(row), offset)
        if not same:
            self.scroll_to(0, 0, animate=False, immediate=True)
            self._place_cursor = True
            self._go_to_first_hunk()

    def _found_again(self, row: Row | None) -> Row | None:
        """A row of the diffs before as one of the diffs now, in which hunks may have other numbers."""
        if not isinstance(row, LineRow) or row.hunk is None or row.file >= len(self.diffs):
            return row
        for number, hunk in enumerate(self.diffs[row.file].change.hunks):
            old, new = row.old, row.new
            if (new is not None and 0 <= new - hunk.new_start < hunk.new_count) or (
                new is None and old is not None and 0 <= old - hunk.old_start < hunk.old_count
            ):
                return row._replace(hunk=number)
        return row

    def _go_to_first_hunk(self) -> None:
        """Put the cursor on the first hunk of a new change, once there is a layout."""
        if self._place_cursor and self.rows.rows:
            self._place_cursor = False
            while not self.landmarks.hunks and not self.rows.complete:
                self.rows.grow(lines=self.rows.height + _LINES_AT_ONCE)
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
        self.seen = Seen()
        self._comments = ()
        self.shape = Shape(split=self.shape.split)
        self.set_scene(Scene())

    def _show_no_diff(self) -> None:
        self.proposal, self.diffs, self.cursor = None, (), 0
        self._top, self._extra, self._message = (), (), ""
        self.plain_text = self.versions = False
        self.forget_place()

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

    def _look_at_diffs(self) -> None:
        """Make the scene of the diffs, and find out about them at once or, of large ones, after the first frame."""
        assert self.proposal is not None
        diffs = self.diffs
        longest = max((max(len(diff.old), len(diff.new)) for diff in diffs), default=1)
        scene = Scene(
            diffs=diffs,
            marks=Marks(diffs),
            syntax=Syntax(
                lambda file: diffs[file].change.path,
                lambda file, side: diffs[file].old if side == "old" else diffs[file].new,
            ),
            digits=max(3, len(str(longest))),
            left_out=self.scene.left_out,
            undecided=not self.versions and self.proposal.state in _UNDECIDED,
            undone=self.proposal.state is ProposalState.UNDONE,
            query=self.scene.query,
        )
        self.set_scene(scene)
        self._widest = 0
        self._waiting.clear()
        if _is_small(diffs):
            scene.marks.moved = moved_lines(diffs)
        else:
            self._waiting["inspect"] = partial(self._inspect, scene)

    async def _inspect(self, scene: Scene) -> None:
        """Find the moved lines of a large change, in a thread."""
        moved = await asyncio.to_thread(moved_lines, scene.diffs)
        if scene is self.scene and moved:
            scene.marks.moved = moved
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
    def landmarks(self) -> Landmarks:
        """Where hunks and files begin."""
        return self.rows.landmarks

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
            self.rows = Layout()
            return
        self.shape = replace(self.shape, split=self.split)
        scene = self.scene
        scene.width, scene.split, scene.wrap = width, self.split, self._wrap
        scene.collapsed, scene.opened = self.shape.collapsed, self.shape.lines
        self.rows = arrange(
            self.diffs,
            self.shape,
            top=(*self._top, *self._extra),
            comments=self._comments,
            measure=self._measure,
            fits=self._fits if self._wrap else None,
        )
        # What is on view has to be there; some more makes short changes complete, if it doesn't take long.
        self.rows.grow(lines=2 * self.size.height)
        self.rows.grow(lines=_LINES_AT_ONCE, seconds=_SLICE)
        self._painted = Painted()
        if row is not None:
            self.cursor = self.clamped(self.rows.locate(row) or 0)
            if self.rows.rows:
                line = self.rows.line_of(self.cursor)
                self.rows.grow(lines=line + 2 * self.size.height)
                self.fit()
                self.scroll_to(y=max(0, line - offset), animate=False, immediate=True)
        self.cursor = self.clamped(self.cursor)
        self._go_to_first_hunk()
        self._waiting.pop("layout", None)
        if self.rows.complete and self.rows.rows <= _LINES_AT_ONCE:
            self._widest = 0
        else:
            self._waiting["layout"] = partial(self._lay_out_rest, self.rows)
        if self._wrap:
            self._widest = 0
        else:
            first = self.rows.segments_between(0, _LINES_AT_ONCE)
            pieces = (piece.cut(0, min(piece.rows, _LINES_AT_ONCE)) for piece in first)
            self._widest = max(self._widest, widest(self.diffs, pieces))
        self.fit()
        self.repaint()

    async def _lay_out_rest(self, layout: Layout) -> None:
        """Lay out what is not on view yet, a little at a time, and find out how wide all of it is, in a thread."""
        while layout is self.rows and not layout.complete:
            layout.grow(seconds=_SLICE)
            await asyncio.sleep(_PAUSE)
        if layout is not self.rows:
            return
        self.fit()
        self.post_message(self.ViewMoved())
        if not self._wrap:
            cells = await asyncio.to_thread(widest, self.diffs, layout.segments)
            if layout is self.rows and cells > self._widest:
                self._widest = cells
                self.fit()

    def lay_out_all(self) -> None:
        """Lay out at once what is left, for a move that leads there."""
        if not self.rows.complete:
            self.rows.grow()
            self.fit()

    def fit(self) -> None:
        """Let the view be scrolled as far as there are lines, and cells in them."""
        width = self.size.width
        beside = width - self.scene.code_width
        self.virtual_size = Size(max(width, beside + self._widest if self._widest else 0), self.rows.height)

    def _fits(self, segment: Segment) -> bool:
        """Whether no line of a stretch is longer than there is room."""
        return widest(self.diffs, (segment,)) <= self.scene.code_width

    def _measure(self, row: Row) -> int:
        """Terminal lines of a row."""
        scene = self.scene
        match row:
            case LineRow():
                width, heights = scene.code_width, [1]
                if row.new is not None:
                    heights.append(self._wrapped(row, "new", row.new, width))
                if row.old is not None and (scene.split or row.new is None):
                    heights.append(self._wrapped(row, "old", row.old, width))
                return max(heights)
            case NoteRow() | CommentRow():
                return len(wrap_words(row.text, scene.room))
            case _:
                return 1

    def _wrapped(self, row: LineRow, side: Side, number: int, width: int) -> int:
        return rows_of(self.scene.line(row.file, side, number), width, self.scene.kept(row, side, number))

    def on_resize(self, event: events.Resize) -> None:
        """Fit the rows to the new width."""
        if event.size.width != self.scene.width or self.split != self.scene.split:
            self.relayout()

    # After drawing

    def after_drawing(self, first: int, last: int) -> None:
        """Note what was on screen, and start the work that should not hold up the first frame."""
        if self._painted_at != self.scene.scroll:
            self._painted, self._painted_at = Painted(), self.scene.scroll
        if lines := self._painted.add(self, first, last, self.scroll_offset.y):
            self._furthest = max(self._furthest, lines[-1] + 1)
            self._note_seen(lines)
        if self.scene.syntax.wanted and self._lexing is not self.scene:
            self._lexing = self.scene
            self._waiting["syntax"] = partial(self._lex, self.scene)
        if self._waiting and self.rows.rows:
            self.call_later(self._start_waiting)

    def _start_waiting(self) -> None:
        for group, work in self._waiting.items():
            self.run_worker(work, group=group, exclusive=True, exit_on_error=False, description=group)
        self._waiting.clear()

    def _note_seen(self, lines: Sequence[int]) -> None:
        if self.versions or self.proposal is None:
            return
        before = self.seen.count
        for line in lines:
            known = self.seen.lines
            row = note_line(self.seen, self.rows, self.scene, line)
            if row is not None and self.seen.lines > known:
                self.lines_seen(row, self.seen.lines - known)
        if self.seen.count != before:
            self.post_message(self.CameOnScreen())

    def lines_seen(self, row: LineRow, count: int) -> None:
        """So many of the lines on a row of a hunk have been seen now."""

    async def _lex(self, scene: Scene) -> None:
        while scene is self.scene and await scene.syntax.work():
            self.redraw()
        if self._lexing is scene:
            self._lexing = None


def _is_small(diffs: Sequence[FileDiff]) -> bool:
    """Whether everything about a change is found out in a moment."""
    if sum(diff.change.added + diff.change.removed for diff in diffs) > _SMALL_CHANGE:
        return False
    length = sum(
        sum(map(len, diff.old[hunk.old_start : hunk.old_start + hunk.old_count]))
        + sum(map(len, diff.new[hunk.new_start : hunk.new_start + hunk.new_count]))
        for diff in diffs
        for hunk in diff.change.hunks
    )
    return length <= _SMALL_CHANGE * _SHORT_LINES
