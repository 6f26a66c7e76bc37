"""A view over thousands of entries that lays out and draws only what is on screen."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from widgets.chat.colours import COMPONENT_CLASSES, Palette, component_css
from widgets.chat.entries import AnswerEntry, Change, Drop, Entry, Put
from widgets.chat.lines import Line, Span
from widgets.chat.marks import MARK_WIDTH, marks_of
from widgets.chat.painting import RIGHT_MARGIN, copied, row_strip, slot_line
from widgets.chat.slots import Slot, Slots
from widgets.common.selection import selection_style

_LAID_OUT = 400
"""Slots far from the view that may keep their rows; more are forgotten, their heights kept."""
_LAYOUT_BUDGET = 0.004
"""Seconds of work on layout between two looks at the keyboard while text streams in."""
_BEHIND_INTERVAL = 0.1
"""Seconds between two paints while layout lags behind a flood of text."""


class TranscriptView(ScrollView):
    """Entries one below the other; follows the end unless the user has scrolled up."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES
    DEFAULT_CSS = """
    TranscriptView {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-color: $foreground 15%;
        scrollbar-color-hover: $foreground 30%;
        scrollbar-color-active: $foreground 40%;
        background: $background;
    }
    """ + component_css("TranscriptView")

    @dataclass
    class FollowChanged(Message):
        """The transcript follows its end, or has stopped because the user scrolled up."""

        following: bool
        unseen: int
        """Entries that came since."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        """An empty transcript."""
        super().__init__(id=id)
        self._slots = Slots()
        self._strips: LRUCache[tuple[int, Span, int, bool], tuple[Line, Strip]] = LRUCache(1024)
        self._palette_cache: Palette | None = None
        self._width = 0
        self._cursor: int | None = None
        self._following = True
        self._moving = False
        self._unseen = 0
        self._laid_out: dict[int, Slot] = {}
        """Slots that hold rows, by identity, the least lately laid out first."""
        self._painted = 0.0
        self._selection: Selection | None = None
        self._flood = False
        self._greeting: Sequence[Content] = ()
        self._unfinished: set[str] = set()
        """Keys of entries whose layout did not fit into one budget."""

    # What is shown.

    @property
    def following(self) -> bool:
        """Whether new text scrolls into view."""
        return self._following

    @property
    def entries(self) -> list[Entry]:
        """All entries in order."""
        return [slot.entry for slot in self._slots.items]

    @property
    def laid_out_count(self) -> int:
        """How many entries hold rows."""
        return len(self._laid_out)

    def greet(self, lines: Sequence[Content]) -> None:
        """Show these in the middle while there is no entry; none of them is wrapped."""
        self._greeting = lines
        if not len(self._slots):
            self.refresh()

    def load(self, changes: Iterable[Change]) -> None:
        """Show a whole session, from the end; nothing above the screen is laid out."""
        self._slots.clear()
        self._laid_out.clear()
        self._unfinished.clear()
        self._strips.clear()
        self._cursor = None
        self._unseen = 0
        self._following = True
        for change in changes:
            self._take(change)
        self._settle()

    def apply(self, changes: Iterable[Change], *, flood: bool = False) -> bool:
        """Show changes; returns False while some layout is left for `work_on`.

        In a `flood` of text, what is shown cannot be selected: it is gone before anyone could.
        """
        self._flood = flood
        if not self._width:
            for change in changes:
                self._take(change)
            return True
        deadline = time.thread_time() + _LAYOUT_BUDGET
        count = len(self._slots)
        changed: set[int] = set()
        for change in changes:
            index = self._take(change)
            if index is not None:
                changed.add(index)
        added = len(self._slots) - count
        self._work_on_indices(changed, deadline)
        if added > 0 and not self._following:
            self._unseen += added
            self.post_message(self.FollowChanged(False, self._unseen))
        self._settle_unless_behind()
        return not self._unfinished

    def work_on(self) -> bool:
        """Go on with layout that did not fit into its budget; returns True when nothing is left."""
        indices = {index for key in self._unfinished if (index := self._slots.index_of(key)) is not None}
        self._unfinished.clear()
        self._work_on_indices(indices, time.thread_time() + _LAYOUT_BUDGET)
        self._settle_unless_behind()
        return not self._unfinished

    def _settle_unless_behind(self) -> None:
        """Paint, but not after every slice of work: a paint costs more than a slice."""
        now = time.monotonic()
        if not self._unfinished or now - self._painted > _BEHIND_INTERVAL:
            self._painted = now
            self._settle()

    def _work_on_indices(self, indices: set[int], deadline: float) -> None:
        for index in sorted(indices):
            if index >= len(self._slots):
                continue
            slot = self._slots.items[index]
            # Rows far above are laid out when they come into view.
            if slot.lines is not None or isinstance(slot.entry, AnswerEntry) or self._is_near(index):
                self._lay_out(index, deadline)

    def _is_near(self, index: int) -> bool:
        top = self._slots.top(index)
        return top - 2 * self.size.height <= self.scroll_offset.y + self.size.height

    def _take(self, change: Change) -> int | None:
        match change:
            case Put(entry):
                index = self._slots.index_of(entry.key)
                if index is not None:
                    self._slots.replace_entry(index, entry)
                    return index
                slot = Slot(entry, self._row_width)
                if self._slots.hidden(entry):
                    slot.height, slot.exact = 0, True
                return self._slots.append(slot)
            case Drop(key):
                index = self._slots.index_of(key)
                if index is not None:
                    self._laid_out.pop(id(self._slots.items[index]), None)
                    self._slots.remove(index)
                    if self._cursor is not None and self._cursor > index:
                        self._cursor -= 1
                return None

    # Layout.

    @property
    def _row_width(self) -> int:
        return max(10, (self._width or 80) - MARK_WIDTH - RIGHT_MARGIN)

    def _lay_out(self, index: int, deadline: float | None = None) -> None:
        slot = self._slots.items[index]
        if self._slots.hidden(slot.entry):
            slot.height, slot.exact, slot.lines = 0, True, []
        elif not slot.lay_out(self._row_width, deadline):
            self._unfinished.add(slot.entry.key)
        self._slots.touch(index)
        self._laid_out.pop(id(slot), None)
        self._laid_out[id(slot)] = slot
        if len(self._laid_out) > _LAID_OUT:
            oldest = next(iter(self._laid_out))
            self._laid_out.pop(oldest).forget()

    def _settle(self) -> None:
        """Make what is on screen exact, keeping it in place, and follow the end if that is wanted."""
        if not self._width or not self.size.height:
            return
        if self._following:
            self._lay_out_end()
            self._set_height()
            self._move_to(self._slots.total - self.size.height)
        else:
            self._lay_out_around(self.scroll_offset.y)
            self._set_height()
        self.refresh()

    def _set_height(self) -> None:
        height = self._slots.total
        if height != self.virtual_size.height or self.virtual_size.width != self.size.width:
            self.virtual_size = Size(self.size.width, height)

    def _lay_out_end(self) -> None:
        rows = 0
        for index in range(len(self._slots) - 1, -1, -1):
            slot = self._slots.items[index]
            if (not slot.exact or slot.lines is None) and slot.entry.key not in self._unfinished:
                self._lay_out(index)
            rows += slot.gap + slot.height
            if rows > self.size.height:
                return

    def _lay_out_around(self, row: int, anchor: int | None = None) -> None:
        """Make the screen that begins at `row` exact.

        Heights that were guesses may move everything below them; the slot `anchor` (the one at the top, if not
        given) stays where it is on the screen, so nobody sees a jump.
        """
        if not len(self._slots):
            return
        for _ in range(16):
            first = self._slots.at(row)
            held = first if anchor is None else anchor
            before = self._slots.top(held)
            last = self._slots.at(row + self.size.height)
            for index in range(max(0, first - 1), last + 1):
                slot = self._slots.items[index]
                if not (slot.exact and slot.lines is not None) and slot.entry.key not in self._unfinished:
                    self._lay_out(index)
            shift = self._slots.top(held) - before
            if not shift:
                return
            row = max(0, row + shift)
            self._set_height()
            self._move_to(row)

    def _move_to(self, row: int) -> None:
        self._moving = True
        try:
            self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)
        finally:
            self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Lay out what came into view; scrolling up stops following, reaching the end resumes it."""
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        at_end = new_value >= self.max_scroll_y
        if at_end != self._following:
            self._set_following(at_end)
        near = abs(new_value - old_value) <= 2 * self.size.height and len(self._slots)
        self._lay_out_around(round(new_value), self._slots.at(round(old_value)) if near else None)
        self._set_height()

    def _set_following(self, following: bool) -> None:
        self._following = following
        self._unseen = 0
        self.post_message(self.FollowChanged(following, 0))

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._set_following(True)
        self._settle()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new width; the same text stays at the top, or the end at the bottom."""
        if event.size.width == self._width:
            self._settle()
            return
        row = self.scroll_offset.y
        first = self._slots.at(row) if len(self._slots) else 0
        part = 0.0
        if len(self._slots):
            slot = self._slots.items[first]
            part = (row - self._slots.top(first)) / max(1, slot.gap + slot.height)
        self._width = event.size.width
        self._strips.clear()
        self._laid_out.clear()
        self._unfinished.clear()
        self._slots.estimate_all(self._row_width)
        if not self._following and len(self._slots):
            self._lay_out(first)
            slot = self._slots.items[first]
            self._set_height()
            self._move_to(self._slots.top(first) + round(part * (slot.gap + slot.height)))
        self._settle()

    # Drawing.

    @property
    def _palette(self) -> Palette:
        if self._palette_cache is None:
            self._palette_cache = Palette(self)
        return self._palette_cache

    def notify_style_update(self) -> None:
        """The theme has changed: strips and styles are made again, rows stay."""
        super().notify_style_update()
        self._palette_cache = None
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a region of the screen."""
        # Finding the selection walks up to the screen: once for a paint, not for each row.
        self._selection = self.text_selection
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        row = self.scroll_offset.y + y
        width = self.size.width
        if not len(self._slots):
            return self._greeting_row(y, width)
        if row >= self._slots.total:
            return Strip.blank(width, self._palette.base)
        index = self._slots.at(row)
        slot = self._slots.items[index]
        offset = row - self._slots.top(index) - slot.gap
        if offset < 0 or offset >= slot.height:
            return Strip.blank(width, self._palette.base).apply_offsets(0, row)
        if slot.lines is None:
            self._lay_out(index)
        cursor = index == self._cursor and self.has_focus
        selection = self._selection
        span = selection.get_span(row) if selection is not None else None
        if span is not None:
            strip = row_strip(self._palette, slot, offset, width, cursor, span, selection_style(self))
            return strip.apply_offsets(0, row)
        strip = self._cached_strip(slot, offset, width, cursor)
        # Offsets are for selecting text, and cost as much as the row.
        return strip if self._flood or self._unfinished else strip.apply_offsets(0, row)

    def _greeting_row(self, y: int, width: int) -> Strip:
        """A row of the greeting, which stands as one block in the middle."""
        top = max(0, (self.size.height - len(self._greeting)) // 2)
        if not 0 <= y - top < len(self._greeting):
            return Strip.blank(width, self._palette.base)
        left = max(2, (width - max(line.cell_length for line in self._greeting)) // 2)
        line = Content(" " * left) + self._greeting[y - top]
        return Strip(line.render_segments(self.visual_style)).adjust_cell_length(width, self._palette.base)

    def _cached_strip(self, slot: Slot, offset: int, width: int, cursor: bool) -> Strip:
        """The strip of a row, kept while the row is the same object, as settled rows of a growing answer are."""
        line = slot_line(slot, offset)
        marks = marks_of(slot.entry, slot.opened)
        key = (id(line), marks.at(offset, slot.height), width, cursor)
        cached = self._strips.get(key)
        if cached is not None and cached[0] is line:
            return cached[1]
        strip = row_strip(self._palette, slot, offset, width, cursor)
        self._strips[key] = (line, strip)
        return strip

    # Selecting and copying.

    @property
    def allow_select(self) -> bool:
        """Text can be selected with the mouse."""
        return True

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it was written: without marks, and wrapped rows joined again."""
        if not len(self._slots):
            return None
        start = selection.start.y if selection.start is not None else 0
        end = selection.end.y if selection.end is not None else self._slots.total - 1
        parts: list[str] = []
        for row in range(max(0, start), min(end, self._slots.total - 1) + 1):
            span = selection.get_span(row)
            if span is None:
                continue
            line = self._line_at(row)
            text = copied(line, *span)
            if parts:
                parts.append("\n" if line.joint is None else line.joint)
            parts.append(text)
        return "".join(parts), "\n"

    def _line_at(self, row: int) -> Line:
        index = self._slots.at(row)
        slot = self._slots.items[index]
        if slot.lines is None:
            self._lay_out(index)
        return slot_line(slot, row - self._slots.top(index) - slot.gap)
