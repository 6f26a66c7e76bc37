"""Layout of the transcript: visible entries are laid out exactly, the heights of the others are estimates."""

import time
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple, Self

from widgets.chat.entries.entry_base import (
    EntryAddedOrReplaced,
    EntryChange,
    EntryGutterMarks,
    EntryRemoved,
    GrowingTextRows,
    TranscriptEntry,
)
from widgets.chat.entries.message_entries import ModelAnswerEntry, ProgramMessageToModelEntry
from widgets.chat.markdown.styled_lines import BLANK_LINE, StyledLine


class SlotLayoutBeforeResize(NamedTuple):
    """The layout of a slot for the width before the last resize, kept to restore it."""

    width: int
    entry: TranscriptEntry
    opened: bool
    lines: list[StyledLine]
    marks: EntryGutterMarks
    height: int
    is_exact: bool
    growing_rows: GrowingTextRows | None


_NO_ENTRY_MARKS = EntryGutterMarks()


class EntrySlot:
    """A place in the transcript: an entry with its rows, which are laid out when they are first needed."""

    __slots__ = ("_growing_rows", "_previous", "entry", "gap", "height", "is_exact", "lines", "marks", "opened")

    def __init__(self, entry: TranscriptEntry, width: int) -> None:
        self.entry = entry
        self.opened = False
        self.lines: list[StyledLine] | None = None
        self.marks = _NO_ENTRY_MARKS
        """The marks at the latest layout."""
        self.gap = 0
        """Empty rows above."""
        self.height = entry.expected_height(width)
        """Rows without the gap; 0 while the entry is hidden."""
        self.is_exact = False
        self._growing_rows: GrowingTextRows | None = None
        self._previous: SlotLayoutBeforeResize | None = None

    def resize(self, old: int, new: int) -> None:
        """Switch to a new width: restore the previous layout if it has this width, else estimate the height."""
        before, self._previous = self._previous, None
        if self.lines is not None:
            self._previous = SlotLayoutBeforeResize(
                old, self.entry, self.opened, self.lines, self.marks, self.height, self.is_exact, self._growing_rows
            )
        if before is not None and (before.width, before.opened) == (new, self.opened) and before.entry == self.entry:
            _, _, _, self.lines, self.marks, self.height, self.is_exact, self._growing_rows = before
        else:
            self.lines, self._growing_rows = None, None
            self.is_exact, self.height = False, self.entry.expected_height(new)

    def lay_out(self, width: int, deadline: float | None = None) -> bool:
        """Make `lines` and `height` exact; return False if the deadline was reached first."""
        done = True
        self._growing_rows = self.entry.growing_rows(self._growing_rows, width, self.opened)
        if self._growing_rows is not None:
            done = self._growing_rows.advance(deadline)
            self.lines = self._growing_rows.lines
        else:
            self.lines = self.entry.rows(width, self.opened)
        self.marks = self.entry.marks(self.opened)
        self.height = max(1, len(self.lines))
        self.is_exact = done
        return done

    def line(self, offset: int) -> StyledLine:
        """Return a row; a blank one if it is not laid out."""
        lines = self.lines or ()
        return lines[offset] if 0 <= offset < len(lines) else BLANK_LINE

    def drop_rows(self) -> None:
        """Drop the rows, keep the height."""
        self.lines = None
        self.marks = _NO_ENTRY_MARKS
        self._growing_rows = None
        self._previous = None


class EntrySlots:
    """The slots of all entries in order, with the first row of each."""

    def __init__(self) -> None:
        self.items: list[EntrySlot] = []
        self.hide_interventions = False
        self._by_key: dict[str, int] = {}
        self._tops: list[int] = [0]
        """First row of each slot, its gap included; the last item is the number of rows."""
        self._valid_top_count = 0
        """Number of valid items in `_tops`."""

    def __len__(self) -> int:
        return len(self.items)

    @property
    def total_rows(self) -> int:
        """Return the number of rows of all entries, plus an empty one below."""
        self._update_tops()
        return self._tops[-1] + 1 if self.items else 0

    def index_of_key(self, key: str) -> int | None:
        """Return the index of the slot with this key; None if there is none."""
        return self._by_key.get(key)

    def first_row(self, index: int) -> int:
        """Return the first row of a slot, its gap included."""
        self._update_tops()
        return self._tops[index]

    def index_at_row(self, row: int) -> int:
        """Return the index of the slot that contains a row; the last one for a row beyond the end."""
        self._update_tops()
        return max(0, min(len(self.items) - 1, bisect_right(self._tops, row) - 1))

    def relative_position(self, row: int) -> tuple[int, float] | None:
        """Return the index of the slot at a row, and the relative position in it from 0 to 1; None if empty."""
        if not self.items:
            return None
        index = self.index_at_row(row)
        slot = self.items[index]
        return index, (row - self.first_row(index)) / max(1, slot.gap + slot.height)

    def row_at_position(self, index: int, fraction: float) -> int:
        """Return the row for a `relative_position`."""
        slot = self.items[index]
        return self.first_row(index) + round(fraction * (slot.gap + slot.height))

    def append(self, slot: EntrySlot) -> int:
        """Add a slot at the end; return its index."""
        index = len(self.items)
        self.items.append(slot)
        self._by_key[slot.entry.key] = index
        self._set_gap(index)
        return index

    def replace_entry(self, index: int, entry: TranscriptEntry) -> None:
        """Replace the entry of a slot."""
        slot = self.items[index]
        slot.entry = entry
        slot.is_exact = False
        if index + 1 < len(self.items):
            self._set_gap(index + 1)

    def replace_slot(self, index: int, slot: EntrySlot) -> None:
        """Replace the slot of an entry; keep the rows of the new slot if its entry is equal."""
        entry = self.items[index].entry
        if slot.entry != entry:
            slot.entry, slot.is_exact = entry, False
        self.items[index] = slot
        for touched in range(index, min(index + 2, len(self.items))):
            self._set_gap(touched)

    def remove(self, index: int) -> None:
        """Remove a slot."""
        slot = self.items.pop(index)
        del self._by_key[slot.entry.key]
        for later in range(index, len(self.items)):
            self._by_key[self.items[later].entry.key] = later
        if index < len(self.items):
            self._set_gap(index)
        self.mark_changed(index)

    def mark_changed(self, index: int) -> None:
        """Record that the height or gap of a slot has changed."""
        self._valid_top_count = min(self._valid_top_count, index)

    def resize(self, old: int, new: int) -> None:
        """Adapt to a new width: only the heights of slots that were laid out for it are exact."""
        for slot in self.items:
            slot.resize(old, new)
            if self.is_hidden(slot.entry):
                slot.height = 0
        self.mark_changed(0)

    def toggle_interventions(self) -> None:
        """Hide or show signoff's messages to the model."""
        self.hide_interventions = not self.hide_interventions
        for slot in self.items:
            if isinstance(slot.entry, ProgramMessageToModelEntry):
                slot.drop_rows()
                slot.is_exact = False
                slot.height = 0 if self.hide_interventions else 1
        for index in range(len(self.items)):
            self._set_gap(index)
        self.mark_changed(0)

    def toggle_open(self, index: int) -> None:
        """Open or fold a slot; an open one has a gap below."""
        slot = self.items[index]
        slot.opened = not slot.opened
        later = index + 1
        while later < len(self.items) and self.is_hidden(self.items[later].entry):
            later += 1
        if later < len(self.items):
            self._set_gap(later)

    def is_hidden(self, entry: TranscriptEntry) -> bool:
        """Return whether the user has hidden this kind of entry."""
        return self.hide_interventions and isinstance(entry, ProgramMessageToModelEntry)

    def _set_gap(self, index: int) -> None:
        slot = self.items[index]
        previous = index - 1
        while previous >= 0 and self.is_hidden(self.items[previous].entry):
            previous -= 1
        if self.is_hidden(slot.entry):
            gap = 0
        elif previous < 0:
            gap = 1
        else:
            above = self.items[previous]
            is_same_group = type(above.entry) is type(slot.entry) and slot.entry.is_compact
            gap = 0 if is_same_group and not above.opened else 1
        slot.gap = gap
        self.mark_changed(index)

    def _update_tops(self) -> None:
        count = len(self.items)
        if self._valid_top_count == count and len(self._tops) == count + 1:
            return
        start = self._valid_top_count
        del self._tops[start + 1 :]
        sizes = [slot.gap + slot.height for slot in self.items[start:]]
        self._tops[start:] = accumulate(sizes, initial=self._tops[start])
        self._valid_top_count = count


_MAX_LAID_OUT_SLOTS = 128
"""Maximum number of slots that keep their rows; the oldest ones keep only their heights."""
_LAYOUT_SLICE_SECONDS = 0.004
"""Seconds of layout work between two checks for keys while text streams in."""
_MIN_WIDTH, _INITIAL_WIDTH = 10, 77


class TranscriptLayout:
    """The slots of all entries, laid out for a width where needed."""

    def __init__(self) -> None:
        self.slots = EntrySlots()
        self._width = _INITIAL_WIDTH
        self._laid_out: dict[int, EntrySlot] = {}
        """Slots that have rows, by identity; the least recently laid out first."""
        self._unfinished: set[str] = set()
        """Keys of entries whose layout exceeded its time."""

    @property
    def laid_out_entry_count(self) -> int:
        """Return how many entries have rows."""
        return len(self._laid_out)

    @property
    def has_unfinished_layout(self) -> bool:
        """Return whether work is left for `continue_layout`."""
        return bool(self._unfinished)

    def empty_copy(self) -> Self:
        """Return an empty layout with the same settings."""
        other = type(self)()
        other.copy_settings(self)
        return other

    def copy_settings(self, other: Self) -> None:
        """Copy the width and the hidden kinds of another layout."""
        if self._width != other._width:
            self.resize(other._width)
        if self.slots.hide_interventions != other.slots.hide_interventions:
            self.slots.toggle_interventions()

    def adopt_layouts(self, other: Self, row: int) -> tuple[int, int]:
        """Reuse the layouts and open states of the other's entries; `other` must not be used afterwards.

        Returns:
            How many entries and rows the entry at `row` of the other layout is further down in this one.
        """
        if not len(other.slots) or not len(self.slots):
            return 0, 0
        other_index = other.slots.index_at_row(row)
        key, top = other.slots.items[other_index].entry.key, other.slots.first_row(other_index)
        for slot in other.slots.items:
            if (index := self.slots.index_of_key(slot.entry.key)) is not None:
                self.slots.replace_slot(index, slot)
                if slot.lines is not None:
                    self._laid_out[id(slot)] = slot
        self._unfinished |= other._unfinished
        own_index = self.slots.index_of_key(key)
        if own_index is None:
            # If only the end of a turn was shown, the keys differ: use the entry with the same distance to the end.
            own_index = max(0, len(self.slots) - len(other.slots) + other_index)
        return own_index - other_index, self.slots.first_row(own_index) - top

    def resize(self, width: int) -> None:
        """Set the width in cells, without the marks.

        The rows for the previous width are kept: when the review opens and closes, nothing is wrapped again. All
        other heights are estimates.
        """
        old, self._width = self._width, max(_MIN_WIDTH, width)
        if old == self._width:
            return
        self._unfinished.clear()
        self.slots.resize(old, self._width)
        self._laid_out = {id(slot): slot for slot in self.slots.items if slot.lines is not None}

    def apply_change(self, change: EntryChange) -> int | None:
        """Apply a change; return the index of the new or changed entry, None if an entry was removed."""
        match change:
            case EntryAddedOrReplaced(entry):
                index = self.slots.index_of_key(entry.key)
                if index is not None:
                    self.slots.replace_entry(index, entry)
                    return index
                slot = EntrySlot(entry, self._width)
                if self.slots.is_hidden(entry):
                    slot.height, slot.is_exact = 0, True
                return self.slots.append(slot)
            case EntryRemoved(key):
                index = self.slots.index_of_key(key)
                if index is not None:
                    self._laid_out.pop(id(self.slots.items[index]), None)
                    self.slots.remove(index)
                return None

    def lay_out(self, index: int, deadline: float | None = None) -> None:
        """Lay out a slot, as far as the deadline allows."""
        slot = self.slots.items[index]
        if self.slots.is_hidden(slot.entry):
            slot.height, slot.is_exact, slot.lines = 0, True, []
        elif not slot.lay_out(self._width, deadline):
            self._unfinished.add(slot.entry.key)
        self.slots.mark_changed(index)
        self._laid_out.pop(id(slot), None)
        self._laid_out[id(slot)] = slot
        if len(self._laid_out) > _MAX_LAID_OUT_SLOTS:
            oldest = next(iter(self._laid_out))
            self._laid_out.pop(oldest).drop_rows()

    def lay_out_changed(self, indices: Iterable[int], visible_rows: range) -> None:
        """Lay out the changed entries near `visible_rows` and all answers, as far as time allows.

        Other entries are laid out when they become visible.
        """
        deadline = time.thread_time() + _LAYOUT_SLICE_SECONDS
        is_late = False
        for index in sorted(indices):
            if index >= len(self.slots):
                continue
            slot = self.slots.items[index]
            if is_late:
                self._unfinished.add(slot.entry.key)
            elif (
                slot.lines is not None
                or isinstance(slot.entry, ModelAnswerEntry)
                or self.slots.first_row(index) in visible_rows
            ):
                self.lay_out(index, deadline)
                is_late = time.thread_time() > deadline

    def continue_layout(self, visible_rows: range) -> bool:
        """Continue unfinished layout; return whether nothing is left."""
        indices = [index for key in self._unfinished if (index := self.slots.index_of_key(key)) is not None]
        self._unfinished.clear()
        self.lay_out_changed(indices, visible_rows)
        return not self.has_unfinished_layout

    def lay_out_end(self, height: int) -> None:
        """Make the last `height` rows exact."""
        rows = 0
        for index in range(len(self.slots) - 1, -1, -1):
            self.lay_out_exactly(index)
            slot = self.slots.items[index]
            rows += slot.gap + slot.height
            if rows > height:
                return

    def lay_out_screen_from(self, row: int, height: int, anchor: int | None = None) -> int:
        """Make the screen that begins at `row` exact; return the row at which it begins then.

        Exact heights may move all rows below. The slot `anchor` (by default the one at the top) keeps its position on
        the screen, which avoids a visible jump.
        """
        if not len(self.slots):
            return row
        for _ in range(16):
            first = self.slots.index_at_row(row)
            anchor_index = first if anchor is None else anchor
            before = self.slots.first_row(anchor_index)
            for index in range(max(0, first - 1), self.slots.index_at_row(row + height) + 1):
                self.lay_out_exactly(index)
            shift = self.slots.first_row(anchor_index) - before
            if not shift:
                break
            row = max(0, row + shift)
        return row

    def anchor_at(self, row: int) -> tuple[str, int] | None:
        """Return the key of the entry at a row, and its first row; None if there are no entries."""
        if not len(self.slots):
            return None
        index = self.slots.index_at_row(row)
        return self.slots.items[index].entry.key, self.slots.first_row(index)

    def rows_moved_since(self, anchor: tuple[str, int]) -> int:
        """Return how many rows the entry of an anchor has moved down; 0 if it is gone."""
        index = self.slots.index_of_key(anchor[0])
        return self.slots.first_row(index) - anchor[1] if index is not None else 0

    def lay_out_exactly(self, index: int) -> None:
        """Lay out a slot, unless its rows are exact."""
        slot = self.slots.items[index]
        if slot.lines is None or not (slot.is_exact or slot.entry.key in self._unfinished):
            self.lay_out(index)

    def slot_at_row(self, row: int) -> tuple[int, int]:
        """Return the index of the slot that contains a row, and the row in the slot: negative in the gap above it."""
        index = self.slots.index_at_row(row)
        slot = self.slots.items[index]
        if slot.lines is None:
            self.lay_out(index)
        return index, row - self.slots.first_row(index) - slot.gap

    def line(self, row: int) -> StyledLine:
        """Return the content of a row."""
        index, offset = self.slot_at_row(row)
        return self.slots.items[index].line(offset)

    def toggle_open(self, index: int) -> None:
        """Open or fold an entry."""
        self.slots.toggle_open(index)
        self.lay_out(index)
