"""The diff preview, with its keys and mouse actions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events, on
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from app.copies import replace
from app.keys.actions import make_key_bindings_of_scopes
from app.proposals.values.models import FileDiff, HunkState, Proposal
from app.review.hunk_lines import SeenLines, changed_line_at
from widgets.common.key_hints import MAIN_BUTTON
from widgets.common.text_colours import selection_style
from widgets.common.workbench_bars import HasChangingKeyTitles
from widgets.diff.background_jobs import DiffBackgroundJobs
from widgets.diff.diff_arrangement import DiffComment, DiffFoldState
from widgets.diff.diff_colours import DIFF_COMPONENT_CLASSES, DIFF_CSS
from widgets.diff.diff_cursor import (
    CursorBookmark,
    DiffCursor,
    Job,
    LineRangePicker,
    PickedLines,
    copied_text,
    line_selection_at,
    word_selection_at,
)
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_painter import CachingDiffPainter, ViewportState
from widgets.diff.diff_rows import (
    CommentRow,
    FileRow,
    FoldRow,
    LineRow,
    NoteRow,
    SourceLinePosition,
    WhitespaceHunkRow,
)
from widgets.diff.diff_search import DiffSearch
from widgets.diff.seen_lines import SeenRecorder, go_to_unseen_line

SIDE_SCROLL_CELLS = 8
"""Cells per horizontal scroll step."""

_DIFF_ONLY_ACTIONS = frozenset(
    {
        "next_hunk",
        "previous_hunk",
        "next_file",
        "previous_file",
        "next_unseen",
        "toggle_layout",
        "toggle_white_space",
        "toggle_order",
        "external_diff",
    }
)
"""Actions that need a diff; without one, their keys are hidden."""
_STATE_CELLS = 2
"""Cells before a line that show the state of its hunk."""


class _LatestMessage(Message):
    """A message that replaces waiting messages of the same type."""

    def can_replace(self, message: Message) -> bool:
        """Return whether both messages have the same type."""
        return type(message) is type(self)


class DiffView(ScrollView, HasChangingKeyTitles, can_focus=True):
    """A change over several files, of any size: draws it, and moves, folds, searches and picks lines in it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(DIFF_COMPONENT_CLASSES)
    DEFAULT_CSS = DIFF_CSS
    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("diff")]

    class ViewMoved(_LatestMessage):
        """The cursor, the scroll position, the layout or the search result has changed."""

    class CameOnScreen(_LatestMessage):
        """Some lines were on the screen for the first time."""

    class NothingUnseen(Message):
        """No unseen place is left."""

    @dataclass
    class HunkClicked(Message):
        """The user clicked the state of a hunk."""

        hunk: str

    @dataclass
    class NoteClicked(Message):
        """The user clicked or opened a note that can be toggled."""

        key: str

    @dataclass
    class CommentWanted(Message):
        """The user wants to comment on a line."""

        line: SourceLinePosition

    class NoLineToComment(Message):
        """The user wants to comment, but the cursor is not on a line."""

    class AskWanted(Message):
        """The user wants to ask about the hunk, or to see its thread."""

    class SearchWanted(Message):
        """The user wants to search."""

    class OrderWanted(Message):
        """The user wants to toggle the order of files: by risk or by path."""

    class FilesWanted(Message):
        """The user wants to focus, show or hide the list of files."""

    @dataclass
    class ExternalDiffWanted(Message):
        """The user wants to open a file in an external diff program."""

        proposal: str
        path: str

    class ComparisonWanted(Message):
        """The user wants to compare with the previous version, or to end the comparison."""

    has_external_diff = False
    """Whether an external diff program is configured."""
    _pressed_place: tuple[int, bool] | None = None
    """The row on which the mouse button was pressed, and whether the mouse was on the hunk's state."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.model = DiffModel()
        self.renderer = CachingDiffPainter(self.model, self._look_up_style)
        self.cursor = DiffCursor(self.model, self)
        self.line_selection = LineRangePicker(self.model, self.cursor, self)
        self.search = DiffSearch(self.model, self.cursor, self)
        self.seen_recorder = SeenRecorder(self.model, self)
        self.after_frame: Callable[[], None] = lambda: None
        """Called after each drawn frame."""
        self._background_jobs = DiffBackgroundJobs(self.model, self)
        self._frame: ViewportState | None = None
        self._last_size = Size(0, 0)
        """The last size that was not empty."""
        self._required_row_count = 0
        """Number of plain lines that the user must see."""
        self._must_go_to_hunk = False
        """Whether the cursor moves to the first hunk when the layout is available."""

    # Content

    @property
    def layout_rows(self) -> DiffLayout:
        """Return the layout of the rows."""
        return self.model.rows

    @property
    def diffs(self) -> tuple[FileDiff, ...]:
        """Return the shown file diffs."""
        return self.model.diffs

    @property
    def proposal(self) -> Proposal | None:
        """Return the shown proposal; None if there is none."""
        return self.model.proposal

    @property
    def visible_lines(self) -> int:
        """Return the number of visible terminal lines; while the view is hidden, the last known number."""
        return self.scrollable_content_region.height or self._last_size.height

    @property
    def is_split(self) -> bool:
        """Return whether the two sides are side by side."""
        return self.model.is_split(self.size.width)

    @property
    def first_unread_line(self) -> int | None:
        """Return the first terminal line of the required plain lines that is unseen; None if there is none."""
        if not self.model.plain_text:
            return None
        rows, count = self.layout_rows, self._required_row_count
        end = rows.first_line_of_row(count) if count < rows.row_count else rows.height
        return self.seen_recorder.first_unseen_line(max(1, end))

    def show_change(
        self,
        proposal: Proposal,
        diffs: Sequence[FileDiff],
        *,
        extra: Sequence[NoteRow] = (),
        versions: bool = False,
        seen: SeenLines | None = None,
    ) -> None:
        """Show a change; if the same proposal is shown already, keep position, folds, search and seen lines.

        Args:
            extra: Notes above the first file.
            versions: Whether the change is between two versions of the proposal; then the user can neither choose
                hunks nor comment.
            seen: The lines of the proposal that were on screen before; newly seen lines are added to it.
        """
        is_same_proposal = self.model.is_showing(proposal)
        bookmark = self.cursor.bookmark() if is_same_proposal else CursorBookmark(None, 0)
        hunk = self.cursor.hunk
        if not is_same_proposal:
            self._forget_change()
        self.model.show_change(proposal, diffs, versions=versions)
        if not is_same_proposal and not versions:
            self.model.fold_generated()
        self.model.notes = tuple(extra)
        self.seen_recorder.start_recording_change(self.seen_recorder.seen if seen is None else seen)
        self._background_jobs.find_moved_lines()
        self._lay_out_at(bookmark._replace(row=self.model.row_in_new_diffs(bookmark.row, hunk)))
        if not is_same_proposal:
            self.scroll_to(0, 0, animate=False, immediate=True)
            self._must_go_to_hunk = True
            self._go_to_first_hunk()
        self.refresh_bindings()
        if self.search.query:
            self.search.start(self.search.query)

    def show_message(self, message: str = "") -> None:
        """Show only a message in the middle."""
        self.model.show_message(message)
        self._reset_to_no_diff()

    def show_text(self, notes: Sequence[NoteRow], required_row_count: int) -> None:
        """Show plain lines, for example a command; the user must see the first `required_row_count` of them."""
        self._required_row_count = required_row_count
        self.model.show_message(plain_text=notes)
        self._reset_to_no_diff()
        self.scroll_to(0, 0, animate=False, immediate=True)

    def _reset_to_no_diff(self) -> None:
        self.cursor.number = 0
        self._forget_change()
        self._lay_out_at(CursorBookmark(None, 0))

    def _forget_change(self) -> None:
        self.model.forget_view_state()
        self.search.clear()
        self.line_selection.start = None
        self.seen_recorder.start_recording_change()
        self.refresh_bindings()

    def _go_to_first_hunk(self) -> None:
        if self._must_go_to_hunk and self.layout_rows.row_count:
            self._must_go_to_hunk = False
            self.cursor.number = self.model.first_hunk_row()

    def go_to_pending_hunk(self) -> None:
        """Move the cursor to the next pending hunk, unless it is on one; wrap around at the end."""
        hunk = self.cursor.hunk
        if hunk is not None and hunk.state is HunkState.PENDING:
            return
        positions = [
            (file, number)
            for file, diff in enumerate(self.diffs)
            for number, hunk_of_file in enumerate(diff.change.hunks)
            if hunk_of_file.state is HunkState.PENDING
        ]
        rows = [row for position in positions if (row := self.layout_rows.row_of_hunk(*position)) is not None]
        if rows:
            self.cursor.go_to(next((row for row in rows if row > self.cursor.number), rows[0]))

    def set_left_out(self, hunks: frozenset[str]) -> None:
        """Mark the hunks that an approval would not write."""
        self.model.render_context.left_out = hunks
        self.seen_recorder.update_counted_lines()
        self.redraw_and_report_position()

    def set_comments(self, comments: Sequence[DiffComment]) -> None:
        """Show these comments at their lines."""
        if tuple(comments) != self.model.comments:
            self.model.comments = tuple(comments)
            self.relayout()

    def set_notes_above(self, notes: Sequence[NoteRow]) -> None:
        """Replace the notes above the first file."""
        at_top = not self.scroll_offset.y
        self.model.notes = tuple(notes)
        self.relayout()
        if at_top and self.cursor.number < self.visible_lines:
            self.scroll_to(y=0, animate=False, immediate=True)

    def set_split(self, split: bool | None) -> None:
        """Show the sides side by side or not; None means that the width decides."""
        self.model.split_wanted = split
        self.relayout()

    def set_wrap(self, wrap: bool) -> None:
        """Wrap long lines, or scroll them."""
        self.model.wrap = wrap
        self.scroll_to(x=0, animate=False, immediate=True)
        self.relayout()

    def set_white_space(self, shown: bool) -> None:
        """Show all white space changes, or hide those without meaning."""
        self.model.shows_white_space = shown
        self.model.fold_state = replace(self.model.fold_state, spaces=frozenset())
        self._background_jobs.find_space_changes()
        self.relayout()

    # Layout

    def apply_fold_state(self, fold_state: DiffFoldState) -> None:
        """Fold and open parts of the change, and lay out again."""
        self.model.fold_state = fold_state
        self.relayout()

    def reveal_space_changes(self, file: int, hunk: int) -> None:
        """Show the white space changes of a hunk, by its indices."""
        self.apply_fold_state(self.model.fold_state.reveal_spaces(self.diffs[file].change.hunks[hunk].id))

    def relayout(self) -> None:
        """Lay out again; keep the cursor on the same line at the same height."""
        self._lay_out_at(self.cursor.bookmark())

    def _lay_out_at(self, bookmark: CursorBookmark) -> None:
        self.line_selection.start = None
        # While hidden, keep the last width: the view comes back with it, and keys that follow at once find their
        # rows.
        size = self.size if self.size.width else self._last_size
        number = self.model.lay_out(size, bookmark.row)
        self.seen_recorder.reset_layout()
        self.cursor.number = self.layout_rows.nearest_row(self.cursor.number if bookmark.row is None else number)
        if bookmark.row is not None and self.layout_rows.row_count:
            self.update_scroll_range()
            line = self.layout_rows.first_line_of_row(self.cursor.number)
            self.scroll_to(y=max(0, line - bookmark.above), animate=False, immediate=True)
        self._go_to_first_hunk()
        self._background_jobs.finish_layout()
        self.model.measure_line_widths()
        self.update_scroll_range()
        self.redraw_and_report_position()

    def update_scroll_range(self) -> None:
        """Update the scroll range to the current lines and their width."""
        self.virtual_size = self.model.size

    def handle_layout_growth(self) -> None:
        """Update the scroll range after the layout got more or wider lines."""
        self.update_scroll_range()
        self.post_message(self.ViewMoved())

    def on_resize(self, event: events.Resize) -> None:
        """Lay out again if the width has changed; keep the cursor in view."""
        was_visible = self.cursor.is_within(self._last_size.height)
        self._last_size = event.size
        self._lay_out_for_width()
        if was_visible and not self.cursor.is_within(self.visible_lines):
            self.cursor.scroll_into_view()

    def _lay_out_for_width(self) -> None:
        if self.size.width != self.model.render_context.width:
            self.relayout()

    # Drawing

    def _look_up_style(self, classes: tuple[str, ...]) -> Style:
        if classes[-1] == "screen--selection":
            return self.renderer.style(classes[:-1]) + selection_style(self)
        return self.get_visual_style(*classes).rich_style

    def notify_style_update(self) -> None:
        """Drop the drawn rows if the colours have changed."""
        super().notify_style_update()
        self.renderer.recheck_styles()

    def redraw_lines(self) -> None:
        """Redraw every line."""
        self.renderer.clear_strips()
        self.refresh()

    def redraw_and_report_position(self) -> None:
        """Redraw everything, and report the position."""
        self.redraw_lines()
        self.post_message(self.ViewMoved())

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows of a region, and record which lines were on the screen."""
        is_width_current = self.size.width == self.model.render_context.width
        if not is_width_current:
            # Textual paints before the Resize, and sends none to a widget whose region was queried before the layout.
            self.call_later(self._lay_out_for_width)
        self._frame = frame = self._make_frame()
        try:
            strips = super().render_lines(crop)
        finally:
            self._frame = None
        if crop.height and is_width_current:  # else the ends of lines may be cut off
            self._handle_drawn_lines(frame.top + crop.y, frame.top + crop.y + crop.height)
        return strips

    def _make_frame(self) -> ViewportState:
        """Return the state for the next lines to draw."""
        (x, y), (width, height) = self.scroll_offset, self.size
        self.model.render_context.scroll = 0 if self.model.wrap else x
        cursor = "" if self.model.plain_text else "diff--cursor" if self.has_focus else "diff--cursor-blurred"
        return ViewportState(
            y, width, height, self.cursor.number, cursor, self.line_selection.picked_rows, self.text_selection
        )

    def render_line(self, y: int) -> Strip:
        """Return one line of the view; outside of a frame, its segments carry text positions for the mouse."""
        if self._frame is None:
            return self.renderer.render_line(y, self._make_frame(), offsets=True)
        return self.renderer.render_line(y, self._frame)

    def _handle_drawn_lines(self, first: int, last: int) -> None:
        """Record the drawn lines, and start work that must not delay the first frame."""
        if self.seen_recorder.record_frame(first, last, self.scroll_offset.y):
            self.post_message(self.CameOnScreen())
        if self._background_jobs.has_work_after_frame():
            self.call_later(self._background_jobs.start_waiting_work)
        self.after_frame()

    def selection_updated(self, selection: Selection | None) -> None:
        self.redraw_lines()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected source text, without line numbers and signs."""
        return copied_text(self.layout_rows, self.model.render_context, selection), "\n"

    def run_job(self, name: str, job: Job) -> None:
        """Run a job; cancel a running job with the same name."""
        self.run_worker(job, group=name, exclusive=True, exit_on_error=False, description=name)

    # Cursor

    def handle_cursor_moved(self) -> None:
        """Redraw the picked lines, and report the new position."""
        if self.line_selection.start is not None:
            self.redraw_lines()
        self.post_message(self.ViewMoved())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.ViewMoved())

    @on(events.Focus)
    @on(events.Blur)
    def _redraw_cursor(self) -> None:
        self.cursor.redraw_row()

    # Search

    def handle_search_change(self) -> None:
        """Show the state of the search, and go to the requested match."""
        self.redraw_and_report_position()
        if not self.search.running and self.search.wanted_step:
            self.go_to_match(self.search.wanted_step)

    def go_to_match(self, step: int) -> None:
        """Go to the next match, or to the previous one with -1; unfold it if needed."""
        match = self.search.next_match(step)
        if match is None:
            return
        if match.hunk is not None and self.model.is_hidden_space_change(match.line, match.hunk):
            self.reveal_space_changes(match.line.file, match.hunk)
        row = self.cursor.find_row(match.row)
        shown_row = None if row is None else self.layout_rows.row_at(row)
        if not (isinstance(shown_row, LineRow) and match.line.line in (shown_row.old, shown_row.new)):
            fold_state = self.model.fold_state.unfold_file(match.line.file)
            if match.hunk is None:
                hunks = self.diffs[match.line.file].change.hunks
                fold_state = fold_state.reveal_unchanged_line(match.line, hunks)
            self.apply_fold_state(fold_state)
            row = self.cursor.find_row(match.row)
        self.redraw_and_report_position()
        if row is not None:
            self.cursor.go_to(row)

    # Moving

    def action_cursor_down(self) -> None:
        self.cursor.move_row(1)

    def action_cursor_up(self) -> None:
        self.cursor.move_row(-1)

    def action_page_down(self) -> None:
        self.cursor.move_page(1)

    def action_page_up(self) -> None:
        self.cursor.move_page(-1)

    def action_top(self) -> None:
        self.cursor.move_to_top()

    def action_bottom(self) -> None:
        self.cursor.move_to_end()

    def action_next_hunk(self) -> None:
        self.cursor.go_to_next("hunks", 1)

    def action_previous_hunk(self) -> None:
        self.cursor.go_to_next("hunks", -1)

    def action_next_file(self) -> None:
        self.cursor.go_to_next("files", 1)

    def action_previous_file(self) -> None:
        self.cursor.go_to_next("files", -1)

    def action_next_unseen(self) -> None:
        """Go to the next place that was never on screen; after the last one, to the first."""
        if self.first_unread_line is not None:
            self.scroll_to(y=self.first_unread_line, animate=False, immediate=True)
            return
        model, unseen = self.model, self.seen_recorder.unseen
        is_reviewing = bool(model.diffs) and not model.is_comparing_versions
        place = next(unseen.iterate_from(self.cursor.file_index, self.cursor.row), None) if is_reviewing else None
        if place is None:
            self.post_message(self.NothingUnseen())
            return
        if place.file in model.fold_state.collapsed:
            self.apply_fold_state(model.fold_state.unfold_file(place.file))
        if place.hunk < 0:
            self.cursor.go_to_file(place.file)
            return
        side, line = changed_line_at(self.diffs[place.file].change.hunks[place.hunk], place.number)
        if model.is_hidden_space_change(SourceLinePosition(place.file, side, line), place.hunk):
            self.reveal_space_changes(place.file, place.hunk)
        go_to_unseen_line(place, self.seen_recorder.seen, model, self.cursor, self)

    def action_scroll_code_left(self) -> None:
        self.scroll_to(x=max(0, self.scroll_offset.x - SIDE_SCROLL_CELLS), animate=False, immediate=True)

    def action_scroll_code_right(self) -> None:
        self.scroll_to(x=self.scroll_offset.x + SIDE_SCROLL_CELLS, animate=False, immediate=True)

    # Folds and layout

    def action_toggle_layout(self) -> None:
        """Toggle between unified and side-by-side view."""
        self.set_split(not self.is_split)

    def action_toggle_wrap(self) -> None:
        """Toggle between wrapping and scrolling long lines."""
        self.set_wrap(not self.model.wrap)

    def action_toggle_white_space(self) -> None:
        """Hide changes of white space without meaning, or show them."""
        self.set_white_space(not self.model.shows_white_space)

    def action_toggle_folds(self) -> None:
        """Open or fold the unchanged stretch at the cursor; on a hunk, open or fold all stretches."""
        fold_state, gap = self.model.fold_state, self.cursor.gap
        self.apply_fold_state(fold_state.toggle_all() if gap is None else fold_state.toggle_gap(*gap))

    def action_toggle_all_folds(self) -> None:
        """Toggle between whole files and only the hunks with their context."""
        self.apply_fold_state(self.model.fold_state.toggle_all())

    def action_open(self) -> None:
        """Open or close the item under the cursor: a fold, a long line, a file, a note, a comment."""
        fold_state = self.model.fold_state
        match self.cursor.row:
            case FoldRow():
                self.action_toggle_folds()
            case LineRow() as row:
                if lines := self.model.long_lines_of(row):
                    self.apply_fold_state(fold_state.toggle_long_lines(lines))
            case WhitespaceHunkRow(file=file, hunk=hunk):
                self.reveal_space_changes(file, hunk)
            case FileRow(file=file):
                self.apply_fold_state(fold_state.toggle_file(file))
            case NoteRow(key=key) if key:
                self.post_message(self.NoteClicked(key))
            case CommentRow(kind="comment"):
                self.action_comment()
            case CommentRow(kind="asked"):
                self.post_message(self.AskWanted())
            case _:
                pass

    # Requests to the pane

    def action_comment(self) -> None:
        if self._accepts_comments:
            line = self.cursor.source_line
            self.post_message(self.NoLineToComment() if line is None else self.CommentWanted(line))

    @property
    def _accepts_comments(self) -> bool:
        """Return whether the user can comment: on a pending proposal, but not on a comparison of versions."""
        return self.proposal is not None and self.proposal.state.is_pending and not self.model.is_comparing_versions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible now, so that only useful keys are shown."""
        if action == "comment":
            return self._accepts_comments
        return (
            action not in _DIFF_ONLY_ACTIONS
            or bool(self.diffs)
            or (action == "next_unseen" and self.first_unread_line is not None)
        )

    def action_toggle_files(self) -> None:
        """Show, focus or hide the list of files."""
        self.post_message(self.FilesWanted())

    def action_toggle_order(self) -> None:
        """Sort the files by risk, or by path."""
        self.post_message(self.OrderWanted())

    def action_external_diff(self) -> None:
        """Open the file at the cursor in the external diff program."""
        if self.proposal is not None and self.diffs:
            path = self.diffs[self.cursor.file_index].change.path
            self.post_message(self.ExternalDiffWanted(self.proposal.id, path))

    def title_of(self, action: str) -> str | None:
        """Return a special title of an action; None if the action is not available."""
        return None if action == "external_diff" and not self.has_external_diff else ""

    def action_toggle_versions(self) -> None:
        """Compare with the previous version, or end the comparison."""
        self.post_message(self.ComparisonWanted())

    # Search

    def action_search(self) -> None:
        if self.diffs:
            self.post_message(self.SearchWanted())

    def action_search_next(self) -> None:
        self.go_to_match(1)

    def action_search_previous(self) -> None:
        self.go_to_match(-1)

    # Picking lines

    def action_pick_lines(self) -> None:
        self.line_selection.toggle()

    def action_pick_down(self) -> None:
        self.line_selection.extend(1)

    def action_pick_up(self) -> None:
        self.line_selection.extend(-1)

    def picked_lines(self) -> PickedLines | None:
        """Return the changed lines that are picked by key, or selected with the mouse."""
        return self.line_selection.picked_lines(self.text_selection)

    def end_picking(self) -> None:
        """Clear the picked lines and the mouse selection."""
        self.line_selection.set_pick_start(None)
        if self.text_selection is not None:
            self.screen.clear_selection()

    def on_key(self, event: events.Key) -> None:
        """Stop picking lines on Escape."""
        if event.key == "escape" and self.line_selection.start is not None:
            event.stop()
            event.prevent_default()
            self.end_picking()

    # Mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed_place = self._place_under_mouse(event)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to a line, toggle a hunk on its state, or open a fold, a file, a note or a comment.

        A click must begin and end on the same row; dragging over several lines selects text. A double click selects a
        word, a triple click a line.
        """
        event.prevent_default()
        pressed_place, self._pressed_place = self._pressed_place, None
        if pressed_place is None or event.button != MAIN_BUTTON or pressed_place != self._place_under_mouse(event):
            return
        number, is_on_state = pressed_place
        row = self.layout_rows.row_at(number)
        is_line = isinstance(row, LineRow)
        if event.chain > 1 and is_line and not is_on_state:
            self._select_at_click(event)
            return
        if not is_on_state and self.text_selection is not None:
            return
        self.cursor.move_to(number, above=0)
        if not is_line and not (is_on_state and isinstance(row, WhitespaceHunkRow)):
            self.action_open()
        elif is_on_state and (hunk := self.cursor.hunk) is not None and hunk.state is HunkState.PENDING:
            self.post_message(self.HunkClicked(hunk.id))

    def _select_at_click(self, event: events.Click) -> None:
        _, offset = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
        if offset is not None:
            find_selection = word_selection_at if event.chain == 2 else line_selection_at
            selection = find_selection(self.layout_rows, self.model.render_context, offset)
            self.screen.selections = {} if selection is None else {self: selection}

    def _place_under_mouse(self, event: events.MouseEvent) -> tuple[int, bool] | None:
        """Return the row under the mouse and whether the mouse is on the hunk's state; None outside of all rows."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y + self.scroll_offset.y >= self.layout_rows.height:
            return None
        return self.layout_rows.part_at(offset.y + self.scroll_offset.y).number, offset.x < _STATE_CELLS
