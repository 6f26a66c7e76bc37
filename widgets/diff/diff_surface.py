"""The drawing part of the diff preview: holds the shown diff and its parts, and keeps them in step.

What keys and the mouse do to them is `DiffView`'s.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from app.proposals.values.models import FileDiff, HunkState, Proposal
from widgets.common.text_colours import selection_style
from widgets.diff.background_jobs import BackgroundJobs
from widgets.diff.diff_arrangement import Comment, DiffShape
from widgets.diff.diff_colours import COMPONENTS, DIFF_CSS
from widgets.diff.diff_cursor import CursorBookmark, DiffCursor
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_messages import CameOnScreen, ViewMoved
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_painter import FrameState, LineRenderer
from widgets.diff.diff_rows import LineRow, NoteRow
from widgets.diff.diff_search import DiffSearch, Job
from widgets.diff.line_selection import LineSelection, copied_text
from widgets.diff.seen_lines import SeenLines, SeenRecorder


class DiffSurface(ScrollView):
    """Shows a proposal's file diffs with the cursor in view."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    DEFAULT_CSS = DIFF_CSS

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.sheet = DiffModel()
        self.canvas = LineRenderer(self.sheet, self._look_up)
        self.cursor = DiffCursor(self.sheet, self)
        self.picking = LineSelection(self.sheet, self.cursor, self.repaint)
        self.search = DiffSearch(self.sheet, self.cursor, partial(self._run, "search"), self._search_changed)
        self.on_screen = SeenRecorder(self.sheet, self)
        self.drawn: Callable[[], None] = lambda: None
        """Called whenever some of it has been painted."""
        self._background = BackgroundJobs(self.sheet, self._run, self.redraw, self._grown, self.relayout)
        self._frame: FrameState | None = None
        self._size_in_sight = Size(0, 0)
        """What it had when it had any."""
        self._to_read = 0
        """How many of the plain lines have to be read."""
        self._goes_to_hunk = False
        """Whether the cursor is to go to the first hunk once there is a layout."""

    # What is shown

    @property
    def rows(self) -> DiffLayout:
        """Return the layout of the rows."""
        return self.sheet.rows

    @property
    def diffs(self) -> tuple[FileDiff, ...]:
        """Return the shown file diffs."""
        return self.sheet.diffs

    @property
    def proposal(self) -> Proposal | None:
        """The proposal that is shown."""
        return self.sheet.proposal

    @property
    def room(self) -> int:
        """Terminal lines on view; out of sight, as many as there were."""
        return self.scrollable_content_region.height or self._size_in_sight.height

    @property
    def split(self) -> bool:
        """Return whether the two sides are side by side."""
        return self.sheet.is_split(self.size.width)

    @property
    def unread(self) -> int | None:
        """The first terminal line that was never on screen, of the plain lines that have to be read."""
        if not self.sheet.plain_text:
            return None
        last = self.rows.line_of(self._to_read) if self._to_read < self.rows.rows else self.rows.height
        return self.on_screen.first_unpainted(max(1, last))

    def show(
        self,
        proposal: Proposal,
        diffs: Sequence[FileDiff],
        *,
        extra: Sequence[NoteRow] = (),
        versions: bool = False,
        seen: SeenLines | None = None,
    ) -> None:
        """Show a change. Position, folds, search and seen lines are kept if the same proposal is shown.

        `extra` are notes that stand above the first file. With `versions`, the change is between two versions of the
        proposal: there is nothing in it to choose or to comment on. `seen` is what of the proposal was on screen
        before; it is added to.
        """
        same = self.sheet.shows(proposal)
        bookmark = self.cursor.bookmark() if same else CursorBookmark(None, 0)
        if not same:
            self._forget()
        self.sheet.show(proposal, diffs, versions=versions)
        if not same and not versions:
            self.sheet.fold_generated()
        self.sheet.notes = tuple(extra)
        self.on_screen.begin(self.on_screen.seen if seen is None else seen)
        self._background.find_moved_lines()
        self._lay_out(bookmark._replace(row=self.sheet.row_in_new_diffs(bookmark.row)))
        if not same:
            self.scroll_to(0, 0, animate=False, immediate=True)
            self._goes_to_hunk = True
            self._go_to_first_hunk()
        self.refresh_bindings()
        if self.search.query:
            self.search.start(self.search.query)

    def clear(self, message: str = "") -> None:
        """Show nothing but a line of words in the middle."""
        self.sheet.clear(message)
        self._show_no_diff()

    def show_text(self, notes: Sequence[NoteRow], to_read: int) -> None:
        """Show plain lines instead of a diff (a command that asks to be run); `to_read` of them must be seen."""
        self._to_read = to_read
        self.sheet.clear(plain_text=notes)
        self._show_no_diff()
        self.scroll_to(0, 0, animate=False, immediate=True)

    def _show_no_diff(self) -> None:
        self.cursor.number = 0
        self._forget()
        self._lay_out(CursorBookmark(None, 0))

    def _forget(self) -> None:
        """Forget everything that belongs to the change that was shown before."""
        self.sheet.forget()
        self.search.forget()
        self.picking.start = None
        self.on_screen.begin()
        self.refresh_bindings()

    def _go_to_first_hunk(self) -> None:
        if self._goes_to_hunk and self.rows.rows:
            self._goes_to_hunk = False
            self.cursor.number = self.sheet.first_hunk()

    def go_to_waiting(self) -> None:
        """Put the cursor on the next hunk that waits, unless it is on one; from the end on to the first."""
        hunk = self.cursor.hunk
        if hunk is not None and hunk.state is HunkState.PENDING:
            return
        places = [
            (file, number)
            for file, diff in enumerate(self.diffs)
            for number, one in enumerate(diff.change.hunks)
            if one.state is HunkState.PENDING
        ]
        rows = [row for place in places if (row := self.rows.row_of_hunk(*place)) is not None]
        if rows:
            self.cursor.go_to(next((row for row in rows if row > self.cursor.number), rows[0]))

    def set_left_out(self, hunks: frozenset[str]) -> None:
        """Mark the hunks that an approval would not write."""
        self.sheet.scene.left_out = hunks
        self.on_screen.count_anew()
        self.repaint()

    def set_comments(self, comments: Sequence[Comment]) -> None:
        """Show these remarks under their lines."""
        if tuple(comments) != self.sheet.comments:
            self.sheet.comments = tuple(comments)
            self.relayout()

    def set_extra(self, notes: Sequence[NoteRow]) -> None:
        """Replace the notes above the first file."""
        at_top = not self.scroll_offset.y
        self.sheet.notes = tuple(notes)
        self.relayout()
        if at_top and self.cursor.number < self.room:
            self.scroll_to(y=0, animate=False, immediate=True)

    def set_split(self, split: bool | None) -> None:
        """Show the sides side by side or not, whatever the width; None decides by the width."""
        self.sheet.split_wanted = split
        self.relayout()

    def set_wrap(self, wrap: bool) -> None:
        """Wrap long lines, or scroll them."""
        self.sheet.wrap = wrap
        self.scroll_to(x=0, animate=False, immediate=True)
        self.relayout()

    def set_white_space(self, shown: bool) -> None:
        """Show whitespace-only changes, or hide those without meaning."""
        self.sheet.white_space = shown
        self.sheet.shape = replace(self.sheet.shape, spaces=frozenset())
        self._background.find_space_changes()
        self.relayout()

    # Layout

    def reshape(self, shape: DiffShape) -> None:
        """Show more of the change, or less."""
        self.sheet.shape = shape
        self.relayout()

    def show_spaces(self, file: int, hunk: int) -> None:
        """Show a hunk whole that is without its white space, by its indices."""
        self.reshape(self.sheet.shape.with_spaces(self.diffs[file].change.hunks[hunk].id))

    def relayout(self) -> None:
        """Lay out again, with the cursor on the same line at the same height."""
        self._lay_out(self.cursor.bookmark())

    def _lay_out(self, bookmark: CursorBookmark) -> None:
        self.picking.start = None
        # Out of sight it is laid out as it was: it comes back with that width, and keys right behind find their rows.
        size = self.size if self.size.width else self._size_in_sight
        number = self.sheet.lay_out(size, bookmark.row)
        self.on_screen.reset()
        self.cursor.number = self.rows.nearest(self.cursor.number if bookmark.row is None else number)
        if bookmark.row is not None and self.rows.rows:
            self.fit()
            line = self.rows.line_of(self.cursor.number)
            self.scroll_to(y=max(0, line - bookmark.above), animate=False, immediate=True)
        self._go_to_first_hunk()
        self._background.finish_layout()
        self.sheet.measure()
        self.fit()
        self.repaint()

    def fit(self) -> None:
        """Set the scroll range to the present lines and their width."""
        self.virtual_size = self.sheet.size

    def _grown(self) -> None:
        self.fit()
        self.post_message(ViewMoved())

    def on_resize(self, event: events.Resize) -> None:
        """Fit the rows to the new width."""
        self._size_in_sight = event.size
        if event.size.width != self.sheet.scene.width:
            self.relayout()

    # Drawing

    def _look_up(self, classes: tuple[str, ...]) -> Style:
        if classes[-1] == "screen--selection":
            return self.canvas.style(classes[:-1]) + selection_style(self)
        return self.get_visual_style(*classes).rich_style

    def notify_style_update(self) -> None:
        """Drop drawn rows after a change of colours."""
        super().notify_style_update()
        self.canvas.recheck_styles()

    def redraw(self) -> None:
        """Redraw every line."""
        self.canvas.clear_strips()
        self.refresh()

    def repaint(self) -> None:
        """Redraw everything, and report the position."""
        self.redraw()
        self.post_message(ViewMoved())

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw, and record what was on the screen."""
        self._frame = frame = self._look()
        try:
            strips = super().render_lines(crop)
        finally:
            self._frame = None
        if crop.height:
            self._after_drawing(frame.top + crop.y, frame.top + crop.y + crop.height)
        return strips

    def _look(self) -> FrameState:
        """The state that the next lines are drawn in."""
        (x, y), (width, height) = self.scroll_offset, self.size
        self.sheet.scene.scroll = 0 if self.sheet.wrap else x
        cursor = "" if self.sheet.plain_text else "diff--cursor" if self.has_focus else "diff--cursor-blurred"
        return FrameState(y, width, height, self.cursor.number, cursor, self.picking.lit, self.text_selection)

    def render_line(self, y: int) -> Strip:
        """Return one terminal line of the view; for the mouse, outside of drawing, its segments carry their
        positions."""
        if self._frame is None:
            return self.canvas.render_line(y, self._look(), offsets=True)
        return self.canvas.render_line(y, self._frame)

    def _after_drawing(self, first: int, last: int) -> None:
        """Record what was on the screen, and start work that must not delay the first frame."""
        if self.on_screen.note(first, last, self.scroll_offset.y):
            self.post_message(CameOnScreen())
        if self._background.after_frame():
            self.call_later(self._background.start)
        self.drawn()

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selected text."""
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected source text, without line numbers and signs."""
        return copied_text(self.rows, self.sheet.scene, selection), "\n"

    def _run(self, name: str, job: Job) -> None:
        self.run_worker(job, group=name, exclusive=True, exit_on_error=False, description=name)

    # Cursor

    def cursor_moved(self) -> None:
        """Redraw the selection up to the cursor, and report the new position."""
        if self.picking.start is not None:
            self.redraw()
        self.post_message(ViewMoved())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report the new position."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(ViewMoved())

    def on_focus(self) -> None:
        """Show the cursor as active."""
        self.cursor.refresh()

    def on_blur(self) -> None:
        """Show the cursor as resting."""
        self.cursor.refresh()

    # Search

    def _search_changed(self) -> None:
        self.repaint()
        if not self.search.running and self.search.wanted_step:
            self.go_to_match(self.search.wanted_step)

    def go_to_match(self, by: int) -> None:
        """Go to the next line that was found (1), or to the one before (-1)."""
        hit = self.search.step(by)
        if hit is None:
            return
        if hit.hunk is not None and self.sheet.is_left_out(hit.line, hit.hunk):
            self.show_spaces(hit.line.file, hit.hunk)
        row = self.cursor.find(hit.row)
        shown = None if row is None else self.rows.row(row)
        if not (isinstance(shown, LineRow) and hit.line.line in (shown.old, shown.new)):
            hunks, shape = self.diffs[hit.line.file].change.hunks, self.sheet.shape
            self.reshape(
                shape.with_file(hit.line.file) if hit.hunk is not None else shape.with_unchanged(hit.line, hunks)
            )
            row = self.cursor.find(hit.row)
        self.repaint()
        if row is not None:
            self.cursor.go_to(row)
