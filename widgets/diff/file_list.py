"""The list of changed files above the diff: the operation on each file, and whether the user has seen it."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.keys.actions import make_bindings
from app.proposals.values.models import FileDiff, HunkState
from widgets.diff.diff_view import DiffView
from widgets.diff.file_facts import attention_sign, file_facts, file_name, file_sign, format_first_reason

MIN_LISTED_FILES = 3
"""Minimum number of files for the list, unless the user shows or hides it."""

_MAX_LINES = 8
_LEAST_DIFF = 3
"""Minimum height of the diff, as a multiple of the list's height."""


class FileList(ScrollView, can_focus=True):
    """Lists the files of the shown diff; the file at the cursor is highlighted."""

    BINDINGS: ClassVar[list[BindingType]] = [*make_bindings("files")]
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
        self._shown: Sequence[FileDiff] = ()
        self._marked = 0
        """Cells for the attention signs; 0 if no file has one."""
        self._current = 0
        self._height = 0
        self._drawn: tuple[object, ...] = ()

    # Content

    def update_from_view(self, room: int) -> None:
        """Update the list from the view; `room` is the height of view and list together."""
        files = len(self.view.diffs)
        if self.view.diffs is not self._shown:
            self._shown, self._current = self.view.diffs, 0
            self._marked = 2 * any(attention_sign(diff).strip() for diff in self._shown)
            self.scroll_to(y=0, animate=False, immediate=True)
        shown = files > 0 and (files >= MIN_LISTED_FILES if self.wanted is None else self.wanted)
        height = max(1, min(files, _MAX_LINES, room // (_LEAST_DIFF + 1)))
        if shown != self.has_class("shown"):
            self.set_class(shown, "shown")
        if self._height != height:
            self._height = self.styles.height = height
        self.virtual_size = Size(self.size.width, files)
        before, self._current = self._current, self.view.cursor.file_index
        drawn = (self._shown, self.view.model.render_context.left_out, self.view.seen_recorder.seen.count)
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()
        if before != self._current:
            self.scroll_to_region(Region(0, self._current, 1, 1), animate=False, immediate=True, force=True)
            self.refresh()

    def notify_style_update(self) -> None:
        """Redraw with the new colours."""
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        style = self.view.get_visual_style
        if number >= len(self._shown):
            return Strip.blank(width, self.rich_style)
        diff = self._shown[number]
        change = diff.change
        over = ("diff--cursor" if self.has_focus else "diff--cursor-blurred",) if number == self._current else ()

        def piece(text: str, *classes: str) -> Segment:
            return Segment(text, style(*classes, "diff--listed", *over).rich_style)

        scene = self.view.model.render_context
        missing, of = self.view.seen_recorder.unseen.count_unseen(number)
        seen = not missing
        facts = [(f"  {text}", kind) for text, kind in file_facts(diff, scene)]
        if missing and change.hunks and scene.undecided:
            facts.insert(0, (f"  {missing:,} of {of:,} unseen" if missing < of else "  unseen", "diff--file-warning"))
        taken = sum(cell_len(text) for text, _ in facts) + 6 + self._marked
        for words, kind in format_first_reason(diff):
            # Show the reason only if the complete file name still fits.
            if taken + cell_len(words) + 2 + cell_len(file_name(change, width)) <= width:
                facts.insert(0, (f"  {words}", kind))
                taken += cell_len(words) + 2
        room = max(8, width - taken)
        name = file_name(change, room)
        glyph, kind = file_sign(change)
        segments = [
            piece("›" if over else " ", "diff--file"),
            piece(f"{glyph} ", kind),
            *([piece(f"{attention_sign(diff)} ", "diff--file-warning")] if self._marked else []),
            piece(name, *(() if seen else ("diff--strong",))),
            piece(" " * (room - cell_len(name)), "diff--file-quiet"),
            *(piece(text, kind) for text, kind in facts),
            # "✓" means that the whole file was on screen; on a denied file it would look like an approval.
            piece(" ✗ " if change.state is HunkState.DENIED else " ✓ " if seen else "   ", "diff--file-quiet"),
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    # Keys and mouse

    def action_cursor_down(self) -> None:
        self.view.cursor.go_to_file(min(self._current + 1, len(self._shown) - 1))

    def action_cursor_up(self) -> None:
        self.view.cursor.go_to_file(max(0, self._current - 1))

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
        if offset is not None and offset.y + self.scroll_offset.y < len(self._shown):
            self.view.cursor.go_to_file(offset.y + self.scroll_offset.y)
            self.post_message(self.FocusLeft())

    def on_focus(self) -> None:
        """Highlight the file of the cursor as active."""
        self.refresh()

    def on_blur(self) -> None:
        """Highlight the file of the cursor as inactive."""
        self.refresh()
