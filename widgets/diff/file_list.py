"""The list of changed files above the diff: the operation on each file, and whether the user has seen it."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events, on
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.keys.actions import make_key_bindings_of_scopes
from app.proposals.values.models import FileDiff, HunkState
from widgets.diff.diff_view import DiffView
from widgets.diff.file_facts import (
    attention_sign,
    file_heading_facts,
    file_operation_sign,
    format_file_name,
    format_main_attention_reason,
)

MIN_LISTED_FILES = 3
"""Minimum number of files for the list, unless the user shows or hides it."""

_MAX_LIST_LINES = 8
_MIN_DIFF_LINES = 3
"""Minimum height of the diff, as a multiple of the list's height."""


class FileList(ScrollView, can_focus=True):
    """Lists the files of the shown diff; the file at the cursor is highlighted."""

    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("files")]
    DEFAULT_CSS = """
    FileList {
        height: 4;
        display: none;
        background: $surface;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;

        &.shown { display: block; }
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    class FocusLeft(Message):
        """The user returns to the diff."""

    def __init__(self, view: DiffView) -> None:
        super().__init__(id="files")
        self.view = view
        self.wanted: bool | None = None
        """Whether the user wants the list; None means that the number of files decides."""
        self._shown_diffs: Sequence[FileDiff] = ()
        self._sign_cells = 0
        """Cells for the attention signs; 0 if no file has one."""
        self._current_file = 0
        self._list_height = 0
        self._drawn_state: tuple[object, ...] = ()

    # Content

    def update_from_view(self, height_of_both: int) -> None:
        """Update the list from the view; `height_of_both` is the height of view and list together."""
        file_count = len(self.view.diffs)
        if self.view.diffs is not self._shown_diffs:
            self._shown_diffs, self._current_file = self.view.diffs, 0
            self._sign_cells = 2 * any(attention_sign(diff).strip() for diff in self._shown_diffs)
            self.scroll_to(y=0, animate=False, immediate=True)
        is_shown = file_count > 0 and (file_count >= MIN_LISTED_FILES if self.wanted is None else self.wanted)
        height = max(1, min(file_count, _MAX_LIST_LINES, height_of_both // (_MIN_DIFF_LINES + 1)))
        self.set_class(is_shown, "shown")
        if self._list_height != height:
            self._list_height = self.styles.height = height
        self.virtual_size = Size(self.size.width, file_count)
        previous, self._current_file = self._current_file, self.view.cursor.file_index
        state = (self._shown_diffs, self.view.model.render_context.left_out, self.view.seen_recorder.seen.count)
        if state != self._drawn_state:
            self._drawn_state = state
            self.refresh()
        if previous != self._current_file:
            self.scroll_to_region(Region(0, self._current_file, 1, 1), animate=False, immediate=True, force=True)
            self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        style = self.view.get_visual_style
        if number >= len(self._shown_diffs):
            return Strip.blank(width, self.rich_style)
        diff = self._shown_diffs[number]
        change = diff.change
        cursor_classes = (
            ("diff--cursor" if self.has_focus else "diff--cursor-blurred",) if number == self._current_file else ()
        )

        def piece(text: str, *classes: str) -> Segment:
            return Segment(text, style(*classes, "diff--listed", *cursor_classes).rich_style)

        context = self.view.model.render_context
        missing, total = self.view.seen_recorder.unseen.count_unseen(number)
        is_seen = not missing
        facts = [(f"  {text}", kind) for text, kind in file_heading_facts(diff, context)]
        if missing and change.hunks and context.undecided:
            facts.insert(
                0, (f"  {missing:,} of {total:,} unseen" if missing < total else "  unseen", "diff--file-warning")
            )
        taken_cells = sum(cell_len(text) for text, _ in facts) + 6 + self._sign_cells
        for reason, kind in format_main_attention_reason(diff):
            # Show the reason only if the complete file name still fits.
            if taken_cells + cell_len(reason) + 2 + cell_len(format_file_name(change, width)) <= width:
                facts.insert(0, (f"  {reason}", kind))
                taken_cells += cell_len(reason) + 2
        name_cells = max(8, width - taken_cells)
        name = format_file_name(change, name_cells)
        glyph, kind = file_operation_sign(change)
        segments = [
            piece("›" if cursor_classes else " ", "diff--file"),
            piece(f"{glyph} ", kind),
            *([piece(f"{attention_sign(diff)} ", "diff--file-warning")] if self._sign_cells else []),
            piece(name, *(() if is_seen else ("diff--strong",))),
            piece(" " * (name_cells - cell_len(name)), "diff--file-quiet"),
            *(piece(text, kind) for text, kind in facts),
            # "✓" means that the whole file was on screen; on a denied file it would look like an approval.
            piece(" ✗ " if change.state is HunkState.DENIED else " ✓ " if is_seen else "   ", "diff--file-quiet"),
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    # Keys and mouse

    def action_cursor_down(self) -> None:
        self.view.cursor.go_to_file(min(self._current_file + 1, len(self._shown_diffs) - 1))

    def action_cursor_up(self) -> None:
        self.view.cursor.go_to_file(max(0, self._current_file - 1))

    def action_hide(self) -> None:
        """Hide the list until the user shows it again."""
        self.wanted = False
        self.post_message(self.FocusLeft())

    def action_leave(self) -> None:
        """Focus the diff of the file."""
        self.post_message(self.FocusLeft())

    def on_click(self, event: events.Click) -> None:
        """Focus the diff of the clicked file."""
        offset = event.get_content_offset(self)
        number = -1 if offset is None else offset.y + self.scroll_offset.y
        if 0 <= number < len(self._shown_diffs):
            self.view.cursor.go_to_file(number)
            self.post_message(self.FocusLeft())

    @on(events.Focus)
    @on(events.Blur)
    def _redraw_highlight(self) -> None:
        self.refresh()
