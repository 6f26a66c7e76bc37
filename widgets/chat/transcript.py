"""The transcript: lays out and draws only the visible ones of thousands of entries."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Offset, Region
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from app.keys.actions import make_key_bindings_of_scopes
from widgets.chat.entries.entry_base import MARK_WIDTH, EntryChange, EntryRemoved, TranscriptEntry
from widgets.chat.entries.tool_entries import ProposalEntry
from widgets.chat.markdown.highlighted_code import load_lexers
from widgets.chat.markdown.styled_lines import StyledLine, make_safe_text, slice_spans
from widgets.chat.transcript_layout import EntrySlot, EntrySlots, TranscriptLayout
from widgets.chat.transcript_painter import COMPONENT_CLASSES, RIGHT_MARGIN, TranscriptPainter, transcript_css
from widgets.common.containers import CachedStripView
from widgets.common.text_colours import selection_style

_ROWS_PER_STEP = 3
"""Rows per step through an entry that is taller than the screen."""


class EntryCursor:
    """Cursor over the entries; not set until the user moves it."""

    def __init__(self, slots: EntrySlots) -> None:
        self._slots = slots
        self.index: int | None = None

    @property
    def slot(self) -> EntrySlot | None:
        """Return the slot at the cursor; None if the cursor is not set."""
        here = self.index
        return self._slots.items[here] if here is not None and here < len(self._slots) else None

    @property
    def entry(self) -> TranscriptEntry | None:
        """Return the entry at the cursor; None if the cursor is not set."""
        return self.slot.entry if self.slot is not None else None

    def place_at_row(self, row: int) -> None:
        """If the cursor is not set, put it on the entry at this row, or on the last entry."""
        if self.index is None and len(self._slots):
            self.index = self._slots.index_at_row(row)

    def on_removed(self, index: int) -> None:
        """Keep the cursor at its entry when the entry at this index is removed."""
        if self.index is not None and self.index > index:
            self.index -= 1

    def find_next_index(self, direction: int) -> int | None:
        """Return the nearest index above (-1) or below (1) that is not hidden; None at the end."""
        if self.index is None:
            return None
        index = self.index + direction
        while 0 <= index < len(self._slots) and self._slots.is_hidden(self._slots.items[index].entry):
            index += direction
        return index if 0 <= index < len(self._slots) else None

    def scroll_row_within_entry(self, direction: int, row: int, height: int) -> int | None:
        """Return the row to scroll to within an entry taller than the screen; None to leave the entry."""
        if self.index is None or (slot := self.slot) is None:
            return None
        top = self._slots.first_row(self.index)
        beyond = top + slot.gap + slot.height > row + height if direction > 0 else top < row
        return row + _ROWS_PER_STEP * direction if beyond and slot.height > height // 2 else None

    def scroll_row_to_show(self, row: int, height: int) -> int | None:
        """Return the row to scroll to from `row` to show the entry; None if it is shown."""
        if self.index is None or (slot := self.slot) is None:
            return None
        top = self._slots.first_row(self.index) + slot.gap
        bottom = top + slot.height
        if bottom > row + height:
            return min(bottom - height, top)
        if top < row:
            return max(top - slot.gap, bottom - height) if slot.height > height else top - slot.gap
        return None


_WORD_PATTERN = re.compile(r"[\w./:@-]+|\S")


def selected_text(layout: TranscriptLayout, selection: Selection) -> str:
    """Return the selected text as it was written: without marks, and with wrapped rows joined."""
    last = layout.slots.total_rows - 1
    start = selection.start.y if selection.start is not None else 0
    end = selection.end.y if selection.end is not None else last
    spans = ((row, selection.get_span(row)) for row in range(max(0, start), min(end, last) + 1))
    return _join_rows((layout.line(row), span) for row, span in spans if span is not None)


def word_selection_at(layout: TranscriptLayout, row: int, column: int) -> Selection | None:
    """Return the selection of the word at a column of a row; None if there is none."""
    text = " " * MARK_WIDTH + layout.line(row).text
    word = next((match for match in _WORD_PATTERN.finditer(text) if match.start() <= column < match.end()), None)
    return Selection(Offset(word.start(), row), Offset(word.end(), row)) if word is not None else None


def entry_selection_at(layout: TranscriptLayout, row: int) -> Selection:
    """Return the selection of the whole entry that contains a row."""
    index = layout.slots.index_at_row(row)
    slot = layout.slots.items[index]
    top = layout.slots.first_row(index) + slot.gap
    last = top + slot.height - 1
    return Selection(Offset(0, top), Offset(MARK_WIDTH + len(layout.line(last).text), last))


def _join_rows(rows: Iterable[tuple[StyledLine, tuple[int, int]]]) -> str:
    parts: list[str] = []
    for line, span in rows:
        if parts:
            parts.append("\n" if line.joint is None else line.joint)
        parts.append(_copied_row(line, *span))
    return "".join(parts)


def _copied_row(line: StyledLine, start: int, end: int) -> str:
    """Return the text of a row between two characters of its strip (-1 for the end), without decoration."""
    begin = max(line.gutter, start - MARK_WIDTH)
    stop = len(line.text) if end < 0 else end - MARK_WIDTH
    return "".join(text for text, _ in slice_spans(line.spans, begin, stop)) if stop > begin else ""


def shift_selection(selection: Selection, rows: int) -> Selection:
    """Return the selection of the same text after it moved down by some rows."""
    return Selection(*(end if end is None else end + Offset(0, rows) for end in selection))


class Transcript(CachedStripView, can_focus=True):
    """Scrolling list of entries that can be opened and copied; follows its end unless the user has scrolled up."""

    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("chat")]
    # After a click that unfolds an entry, the focus stays in the composer.
    FOCUS_ON_CLICK: ClassVar[bool] = False
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES
    DEFAULT_CSS = transcript_css("Transcript")

    @dataclass
    class FollowChanged(Message):
        """The transcript follows its end, or stopped because the user scrolled up."""

        following: bool
        unseen: int
        """Number of entries added since then."""

    @dataclass
    class ProposalOpened(Message):
        """The user wants to review a proposal."""

        proposal_id: str

    @dataclass
    class LinkOpened(Message):
        """The user clicked a link in the model's text; `href` is untrusted."""

        href: str

    def __init__(self) -> None:
        super().__init__()
        self._layout = TranscriptLayout()
        self._slots = self._layout.slots
        self._cursor = EntryCursor(self._slots)
        self._current_painter: TranscriptPainter | None = None
        self._width = 0
        self.is_following = True
        """Whether the transcript follows its end."""
        self._is_moving = False
        self._unseen_count = 0
        self._selection: Selection | None = None
        self._link_under_mouse: object = None
        self._is_drawing = False
        self._greeting: Sequence[Content] = ()
        self._is_loading_lexers = False

    @property
    def entries(self) -> list[TranscriptEntry]:
        """Return all entries in order."""
        return [slot.entry for slot in self._slots.items]

    @property
    def laid_out_entry_count(self) -> int:
        """Return how many entries have rows."""
        return self._layout.laid_out_entry_count

    @property
    def cursor_entry(self) -> TranscriptEntry | None:
        """Return the entry at the cursor; None if the cursor is not set."""
        return self._cursor.entry

    def show_greeting(self, lines: Sequence[Content]) -> None:
        """Show these lines in the middle while there are no entries."""
        self._greeting = lines
        if not len(self._slots):
            self.refresh()

    def make_empty_layout(self) -> TranscriptLayout:
        """Return an empty layout with the current settings, to fill and show later."""
        return self._layout.empty_copy()

    def show_layout(self, layout: TranscriptLayout) -> None:
        """Show a whole session instead of another, from the end; nothing above the screen is laid out."""
        layout.copy_settings(self._layout)
        self._set_layout(layout)
        self._unseen_count, self.is_following = 0, True
        self._settle_visible_rows()

    def extend_layout(self, layout: TranscriptLayout) -> None:
        """Show a whole session whose end is already shown, without moving the visible part."""
        layout.copy_settings(self._layout)
        cursor, selection = self._cursor.index, self.text_selection
        entries, rows = layout.adopt_layouts(self._layout, self.scroll_offset.y)
        self._set_layout(layout)
        self._cursor.index = cursor + entries if cursor is not None else None
        self._update_height()
        self._move_to_row(self.scroll_offset.y + rows)
        if selection is not None:
            self.screen.selections = {**self.screen.selections, self: shift_selection(selection, rows)}
        self._settle_visible_rows()

    def _set_layout(self, layout: TranscriptLayout) -> None:
        self._layout, self._slots, self._cursor = layout, layout.slots, EntryCursor(layout.slots)
        self._current_painter = None

    def apply_changes(self, changes: Iterable[EntryChange], *, is_streaming: bool = False) -> bool:
        """Apply changes; return False while layout work is left for `continue_layout`.

        In that case, the screen is refreshed when that work is done, or at the next changes: once for each group of
        changes. While text `is_streaming`, few rows change, and only these are drawn.
        """
        was_unfinished = self._layout.has_unfinished_layout
        count, anchor = len(self._slots), None if self.is_following else self._layout.anchor_at(self.scroll_offset.y)
        changed = {index for change in changes if (index := self._apply_change(change)) is not None}
        if not self._width:
            return True
        self._layout.lay_out_changed(changed, self._nearby_rows)
        if anchor is not None and (shift := self._layout.rows_moved_since(anchor)):
            self._update_height()
            self._move_to_row(self.scroll_offset.y + shift)
        if (added := len(self._slots) - count) > 0 and not self.is_following:
            self._unseen_count += added
            self.post_message(self.FollowChanged(False, self._unseen_count))
        if was_unfinished or not self._layout.has_unfinished_layout:
            self._settle_visible_rows(is_streaming_text=is_streaming)
        return not self._layout.has_unfinished_layout

    def continue_layout(self) -> bool:
        """Continue layout that exceeded its time budget; return True when nothing is left."""
        if self._layout.has_unfinished_layout and self._layout.continue_layout(self._nearby_rows):
            self._settle_visible_rows(is_streaming_text=True)
        return not self._layout.has_unfinished_layout

    def _apply_change(self, change: EntryChange) -> int | None:
        if isinstance(change, EntryRemoved) and (index := self._slots.index_of_key(change.key)) is not None:
            self._cursor.on_removed(index)
        return self._layout.apply_change(change)

    @property
    def _nearby_rows(self) -> range:
        """Return the rows that are laid out at once: those on the screen and nearby."""
        row, height = self.scroll_offset.y, self.size.height
        return range(row - height, row + 3 * height)

    def _settle_visible_rows(self, *, is_streaming_text: bool = False) -> None:
        """Make the visible rows exact without moving them; if the transcript follows its end, scroll there."""
        if not self._width:
            return
        if self.is_following:
            self._layout.lay_out_end(self.size.height)
            self._update_height()
            self._move_to_row(self._slots.total_rows - self.size.height)
        else:
            self._show_from(self.scroll_offset.y)
        if is_streaming_text:
            self.refresh_changed()
        else:
            self.refresh()

    def _show_from(self, row: int, anchor: int | None = None) -> None:
        """Make the screen that begins at `row` exact; the slot `anchor` keeps its position on the screen."""
        first_row = self._layout.lay_out_screen_from(row, self.size.height, anchor)
        self._update_height()
        if first_row != row:
            self._move_to_row(first_row)

    def _update_height(self) -> None:
        height = self._slots.total_rows
        if height != self.virtual_size.height or self.virtual_size.width != self.size.width:
            self.set_height(height)

    def _move_to_row(self, row: int) -> None:
        self._is_moving = True
        try:
            self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)
        finally:
            self._is_moving = False

    def _scroll_to_row(self, row: int) -> None:
        self.scroll_to(y=row, animate=False, immediate=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Lay out rows that became visible; scrolling up stops following, reaching the end resumes it."""
        super().watch_scroll_y(old_value, new_value)
        if self._is_moving or round(old_value) == round(new_value):
            return
        if (at_end := new_value >= self.max_scroll_y) != self.is_following:
            self._set_following(at_end)
        is_near = abs(new_value - old_value) <= 2 * self.size.height and len(self._slots)
        self._show_from(round(new_value), self._slots.index_at_row(round(old_value)) if is_near else None)

    def _set_following(self, following: bool) -> None:
        self.is_following = following
        self._unseen_count = 0
        self.post_message(self.FollowChanged(following, 0))

    def follow_end(self) -> None:
        """Scroll to the end and follow it."""
        self._set_following(True)
        self._settle_visible_rows()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new width; keep the same text at the top, or the end at the bottom."""
        if event.size.width == self._width:
            self._settle_visible_rows()
            return
        position = self._slots.relative_position(self.scroll_offset.y)
        self._width = event.size.width
        self._current_painter = None
        self._layout.resize(self._width - MARK_WIDTH - RIGHT_MARGIN)
        if not self.is_following and position is not None:
            self._layout.lay_out_exactly(position[0])
            self._update_height()
            self._move_to_row(self._slots.row_at_position(*position))
        self._settle_visible_rows()

    @property
    def _painter(self) -> TranscriptPainter:
        if self._current_painter is None:
            self._current_painter = TranscriptPainter(self)
        return self._current_painter

    def notify_style_update(self) -> None:
        """Discard strips and styles after a change of theme; the layout stays."""
        super().notify_style_update()
        self._current_painter = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows of a region of the screen."""
        # Finding the selection needs a walk up to the screen: do it once per frame, not for each row.
        self._selection = self.text_selection
        self._is_drawing = True
        try:
            strips = super().render_lines(crop)
        finally:
            self._is_drawing = False
        if self._painter.missing_lexers and not self._is_loading_lexers:
            self._is_loading_lexers = True
            self.run_worker(self._load_lexers(), exit_on_error=False, description="lexers")
        return strips

    async def _load_lexers(self) -> None:
        """Load the lexers for visible code in a thread, and paint again."""
        try:
            await asyncio.to_thread(load_lexers, frozenset(self._painter.missing_lexers))
        finally:
            self._is_loading_lexers = False
        self._current_painter = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one row of the screen; outside of drawing, its segments carry text positions for the mouse."""
        row, size = self.scroll_offset.y + y, self.size
        if not len(self._slots):
            return self._painter.paint_greeting(self._greeting, y, size.width, size.height)
        span = self._selection.get_span(row) if self._selection is not None else None
        selected = (span, selection_style(self)) if span is not None else None
        cursor = self._cursor.index if self.has_focus else None
        strip = self._painter.paint_row(self._layout, row, size.width, cursor, selected)
        # Offsets double the cost of a row, and each is a style that Rich and Textual cache.
        return strip if self._is_drawing or row >= self._slots.total_rows else strip.apply_offsets(0, row)

    @property
    def allow_select(self) -> bool:
        """Return True, so that the user can select text with the mouse."""
        return True

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it was written."""
        return (selected_text(self._layout, selection), "\n") if len(self._slots) else None

    def on_focus(self) -> None:
        """Put the cursor on the lowest visible entry, if it is not set."""
        self._cursor.place_at_row(self.scroll_offset.y + self.size.height - 1)
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def move_cursor(self, index: int) -> None:
        """Put the cursor on an entry and scroll it into view."""
        self._cursor.index = index = max(0, min(len(self._slots) - 1, index))
        self._show_from(self._slots.first_row(index))
        row = self._cursor.scroll_row_to_show(self.scroll_offset.y, self.size.height)
        if row is not None:
            self._scroll_to_row(row)
        self.refresh()

    def go_to_entry(self, key: str) -> None:
        """Focus the transcript and put the cursor on an entry, if it exists."""
        if (index := self._slots.index_of_key(key)) is not None:
            self._cursor.index = index
            self.focus()
            self.move_cursor(index)

    def _move_by_entry(self, direction: int) -> None:
        """Move to the next entry; scroll through an entry taller than the screen in small steps."""
        if self._cursor.slot is None:
            self.on_focus()
            return
        row = self._cursor.scroll_row_within_entry(direction, self.scroll_offset.y, self.size.height)
        if row is not None:
            self._scroll_to_row(row)
        elif (index := self._cursor.find_next_index(direction)) is not None:
            self.move_cursor(index)
        elif direction > 0:
            self.follow_end()

    def action_cursor_up(self) -> None:
        self._move_by_entry(-1)

    def action_cursor_down(self) -> None:
        self._move_by_entry(1)

    def action_page_up(self) -> None:
        self._move_by_page(-1)

    def action_page_down(self) -> None:
        self._move_by_page(1)

    def _move_by_page(self, direction: int) -> None:
        self._scroll_to_row(self.scroll_offset.y + direction * max(1, self.size.height - 2))
        row_on_screen = self.size.height - 1 if direction > 0 else 1
        self._cursor.index = self._slots.index_at_row(self.scroll_offset.y + row_on_screen)
        self.refresh()

    def action_top(self) -> None:
        self._scroll_to_row(0)
        self.move_cursor(0)

    def action_bottom(self) -> None:
        """Scroll to the end and follow it."""
        self._cursor.index = max(0, len(self._slots) - 1)
        self.follow_end()

    def action_open(self) -> None:
        """Open or fold the entry under the cursor; for a proposal's card, open the review."""
        if self._cursor.index is not None and self._cursor.slot is not None:
            self._toggle_entry(self._cursor.index)

    def action_copy_entry(self) -> None:
        """Copy the text of the entry under the cursor as it was written."""
        if (entry := self.cursor_entry) is not None and (text := entry.copy_text):
            self.app.copy_to_clipboard(text)
            self.notify("Copied.", timeout=2)

    def action_toggle_interventions(self) -> None:
        """Hide or show signoff's messages to the model."""
        self._slots.toggle_interventions()
        self._settle_visible_rows()

    def _toggle_entry(self, index: int) -> None:
        entry = self._slots.items[index].entry
        if isinstance(entry, ProposalEntry):
            self.post_message(self.ProposalOpened(entry.proposal))
        elif entry.can_open:
            if self.is_following:
                # Keep the opened entry in place, although it pushes the end out of view.
                self._set_following(False)
            self._layout.toggle_open(index)
            self._settle_visible_rows()
            if self.scroll_offset.y >= self.max_scroll_y:
                self._set_following(True)

    def on_click(self, event: events.Click) -> None:
        """Open a link, open or fold an entry, or review the proposal of a card.

        A double click selects the word, a triple click the entry. A click after dragging keeps the selection.
        """
        event.prevent_default()
        offset = event.get_content_offset(self)
        row = self.scroll_offset.y + offset.y if offset is not None else self._slots.total_rows
        if row >= self._slots.total_rows:
            return
        if event.chain > 1:
            self._select_at_click(event, row)
            return
        selection = self.text_selection
        if selection is not None and selection.start != selection.end:
            return
        if href := event.style.meta.get("href"):
            event.stop()
            self.post_message(self.LinkOpened(str(href)))
            return
        self._cursor.index = index = self._slots.index_at_row(row)
        self.refresh()
        if self._layout.line(row).action or isinstance(self.cursor_entry, ProposalEntry):
            event.stop()
            self._toggle_entry(index)

    def _select_at_click(self, event: events.Click, row: int) -> None:
        _, offset = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
        column = offset.x if offset is not None else 0
        layout = self._layout
        selection = word_selection_at(layout, row, column) if event.chain == 2 else entry_selection_at(layout, row)
        if selection is not None:
            self.screen.selections = {self: selection}

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show the address of the link under the mouse."""
        href = event.style.meta.get("href")
        if href != self._link_under_mouse:
            self._link_under_mouse = href
            self.tooltip = Content(make_safe_text(str(href))) if href else None
