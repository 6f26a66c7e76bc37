"""Where each entry of the transcript lies: heights, exact where it was looked at and estimated elsewhere."""

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from widgets.chat.entries.base import Entry, Growing, Gutter
from widgets.chat.entries.program import InterventionEntry
from widgets.chat.lines import BLANK, Line


class LaidOut(NamedTuple):
    """What a slot had at another width."""

    width: int
    entry: Entry
    opened: bool
    lines: list[Line] | None
    marks: Gutter
    height: int
    exact: bool
    growing: Growing | None


class Slot:
    """One entry, and its rows once somebody looked."""

    __slots__ = ("_before", "_growing", "entry", "exact", "gap", "height", "lines", "marks", "opened")

    def __init__(self, entry: Entry, width: int) -> None:
        """A slot with an estimated height."""
        self.entry = entry
        self.opened = False
        self.lines: list[Line] | None = None
        self.marks = Gutter()
        """As of the time when the rows were laid out."""
        self.gap = 0
        """Empty rows above."""
        self.height = entry.expected_height(width)
        """Rows without the gap; 0 while it is hidden."""
        self.exact = False
        self._growing: Growing | None = None
        self._before: LaidOut | None = None

    def resize(self, old: int, new: int) -> None:
        """Have the rows of the new width, if it is the one before the old, else a guess at their number."""
        now = LaidOut(old, self.entry, self.opened, self.lines, self.marks, self.height, self.exact, self._growing)
        before, self._before = self._before, now
        if before is not None and (before.width, before.opened) == (new, self.opened) and before.entry == self.entry:
            _, _, _, self.lines, self.marks, self.height, self.exact, self._growing = before
        else:
            self.lines, self._growing = None, None
            self.exact, self.height = False, self.entry.expected_height(new)

    def lay_out(self, width: int, deadline: float | None = None) -> bool:
        """Make `lines` and `height` exact; returns False if the deadline came first and some is left to do."""
        done = True
        self._growing = self.entry.growing(self._growing, width, self.opened)
        if self._growing is not None:
            done = self._growing.advance(deadline)
            self.lines = self._growing.lines
        else:
            self.lines = self.entry.rows(width, self.opened)
        self.marks = self.entry.marks(self.opened)
        self.height = max(1, len(self.lines))
        self.exact = done
        return done

    def line(self, offset: int) -> Line:
        """A row, if it was laid out."""
        lines = self.lines or ()
        return lines[offset] if 0 <= offset < len(lines) else BLANK

    def forget(self) -> None:
        """Let go of the rows, keep the height."""
        self.lines = None
        self._growing = None
        self._before = None


class Slots:
    """All slots in order, and the row at which each begins."""

    def __init__(self) -> None:
        self.items: list[Slot] = []
        self.hide_interventions = False
        self._by_key: dict[str, int] = {}
        self._tops: list[int] = [0]
        """Row of each slot's gap, and at the end the number of rows."""
        self._valid = 0
        """How many of `_tops` are right."""

    def __len__(self) -> int:
        return len(self.items)

    @property
    def total(self) -> int:
        """Rows of everything, and one empty row below."""
        self._update()
        return self._tops[-1] + 1 if self.items else 0

    def index_of(self, key: str) -> int | None:
        """The position of an entry."""
        return self._by_key.get(key)

    def top(self, index: int) -> int:
        """The row at which the slot begins, its gap included."""
        self._update()
        return self._tops[index]

    def at(self, row: int) -> int:
        """The index of the slot that holds a row; the last one for a row beyond the end."""
        self._update()
        return max(0, min(len(self.items) - 1, bisect_right(self._tops, row) - 1))

    def place(self, row: int) -> tuple[int, float] | None:
        """The index of the slot that holds a row, and how far down in it that is, from 0 to 1."""
        if not self.items:
            return None
        index = self.at(row)
        slot = self.items[index]
        return index, (row - self.top(index)) / max(1, slot.gap + slot.height)

    def row(self, index: int, part: float) -> int:
        """The row at this `place`."""
        slot = self.items[index]
        return self.top(index) + round(part * (slot.gap + slot.height))

    def append(self, slot: Slot) -> int:
        """Add a slot at the end; returns its index."""
        index = len(self.items)
        self.items.append(slot)
        self._by_key[slot.entry.key] = index
        self._set_gap(index)
        return index

    def replace_entry(self, index: int, entry: Entry) -> None:
        """Show another value in the same place."""
        slot = self.items[index]
        slot.entry = entry
        slot.exact = False
        if index + 1 < len(self.items):
            self._set_gap(index + 1)

    def put(self, index: int, slot: Slot) -> None:
        """Have this slot, with the rows that it has, for the entry here."""
        entry = self.items[index].entry
        if slot.entry != entry:
            slot.entry, slot.exact = entry, False
        self.items[index] = slot
        for touched in range(index, min(index + 2, len(self.items))):
            self._set_gap(touched)

    def remove(self, index: int) -> None:
        """Take a slot away."""
        slot = self.items.pop(index)
        del self._by_key[slot.entry.key]
        for later in range(index, len(self.items)):
            self._by_key[self.items[later].entry.key] = later
        if index < len(self.items):
            self._set_gap(index)
        self.touch(index)

    def touch(self, index: int) -> None:
        """The height or gap of this slot has changed."""
        self._valid = min(self._valid, index)

    def resize(self, old: int, new: int) -> None:
        """The width has changed: heights are exact only of slots that have been laid out for it."""
        for slot in self.items:
            slot.resize(old, new)
            if self.hidden(slot.entry):
                slot.height = 0
        self.touch(0)

    def toggle_interventions(self) -> None:
        """Hide or show what signoff told the model."""
        self.hide_interventions = not self.hide_interventions
        for slot in self.items:
            if isinstance(slot.entry, InterventionEntry):
                slot.forget()
                slot.exact = False
                slot.height = 0 if self.hide_interventions else 1
        for index in range(len(self.items)):
            self._set_gap(index)
        self.touch(0)

    def turn(self, index: int) -> None:
        """Open or fold a slot; an open one stands apart from what follows it."""
        slot = self.items[index]
        slot.opened = not slot.opened
        later = index + 1
        while later < len(self.items) and self.hidden(self.items[later].entry):
            later += 1
        if later < len(self.items):
            self._set_gap(later)

    def hidden(self, entry: Entry) -> bool:
        """Whether the user doesn't want to see this entry."""
        return self.hide_interventions and isinstance(entry, InterventionEntry)

    def _set_gap(self, index: int) -> None:
        slot = self.items[index]
        previous = index - 1
        while previous >= 0 and self.hidden(self.items[previous].entry):
            previous -= 1
        if self.hidden(slot.entry):
            gap = 0
        elif previous < 0:
            gap = 1
        else:
            above = self.items[previous]
            one = type(above.entry) is type(slot.entry) and slot.entry.runs
            gap = 0 if one and not above.opened else 1
        if gap != slot.gap:
            slot.gap = gap
        self.touch(index)

    def _update(self) -> None:
        count = len(self.items)
        if self._valid == count and len(self._tops) == count + 1:
            return
        start = self._valid
        del self._tops[start + 1 :]
        sizes = [slot.gap + slot.height for slot in self.items[start:]]
        self._tops[start:] = accumulate(sizes, initial=self._tops[start])
        self._valid = count
