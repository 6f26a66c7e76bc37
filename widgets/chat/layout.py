"""Which entries of the transcript are laid out: those on screen exactly, the others when somebody gets there."""

import time
from collections.abc import Iterable
from typing import Self

from widgets.chat.entries.base import Change, Drop, Put
from widgets.chat.entries.words import AnswerEntry
from widgets.chat.lines import Line
from widgets.chat.slots import Slot, Slots

_LAID_OUT = 128
"""Slots far from the view that may keep their rows; more are forgotten, their heights kept."""
_BUDGET = 0.004
"""Seconds of work between two looks at the keyboard while text streams in."""
_LEAST_WIDTH, _FIRST_WIDTH = 10, 77


class Layout:
    """The slots of all entries, laid out for a width as far as they are looked at."""

    def __init__(self) -> None:
        """Nothing is shown."""
        self.slots = Slots()
        self._width = _FIRST_WIDTH
        self._laid_out: dict[int, Slot] = {}
        """Slots that hold rows, by identity, the least lately laid out first."""
        self._unfinished: set[str] = set()
        """Keys of entries whose layout did not fit into the time that there was for it."""

    @property
    def laid_out_count(self) -> int:
        """How many entries hold rows."""
        return len(self._laid_out)

    @property
    def behind(self) -> bool:
        """Whether some layout is left to `catch_up` with."""
        return bool(self._unfinished)

    def another(self) -> Self:
        """An empty one as large as this."""
        other = type(self)()
        other.conform_to(self)
        return other

    def conform_to(self, other: Self) -> None:
        """Have the width of the other, and hide what it hides."""
        if self._width != other._width:
            self.resize(other._width)
        if self.slots.hide_interventions != other.slots.hide_interventions:
            self.slots.toggle_interventions()

    def take_over(self, other: Self, row: int) -> tuple[int, int]:
        """Have the entries of the other, which is not used any more, laid out and opened as they are there.

        Returns how many entries and rows further down that lies here which is at `row` there.
        """
        if not len(other.slots) or not len(self.slots):
            return 0, 0
        held = other.slots.at(row)
        key, top = other.slots.items[held].entry.key, other.slots.top(held)
        for slot in other.slots.items:
            if (index := self.slots.index_of(slot.entry.key)) is not None:
                self.slots.put(index, slot)
                if slot.lines is not None:
                    self._laid_out[id(slot)] = slot
        self._unfinished |= other._unfinished
        here = self.slots.index_of(key)
        if here is None:
            # In a turn of which but the end was shown, the keys are others: what is as far from the end is it.
            here = max(0, len(self.slots) - len(other.slots) + held)
        return here - held, self.slots.top(here) - top

    def resize(self, width: int) -> None:
        """Lay out for so many cells beside the marks.

        The rows for the width before are kept, since the review comes and goes: nothing wraps anew then. All other
        heights are guessed.
        """
        old, self._width = self._width, max(_LEAST_WIDTH, width)
        if old == self._width:
            return
        self._unfinished.clear()
        self.slots.resize(old, self._width)
        self._laid_out = {id(slot): slot for slot in self.slots.items if slot.lines is not None}

    def take(self, change: Change) -> int | None:
        """Take a change; returns the index of the entry that is new or different, None if one is gone."""
        match change:
            case Put(entry):
                index = self.slots.index_of(entry.key)
                if index is not None:
                    self.slots.replace_entry(index, entry)
                    return index
                slot = Slot(entry, self._width)
                if self.slots.hidden(entry):
                    slot.height, slot.exact = 0, True
                return self.slots.append(slot)
            case Drop(key):
                index = self.slots.index_of(key)
                if index is not None:
                    self._laid_out.pop(id(self.slots.items[index]), None)
                    self.slots.remove(index)
                return None

    def lay_out(self, index: int, deadline: float | None = None) -> None:
        """Make the rows of a slot exact, or as many as there is time for."""
        slot = self.slots.items[index]
        if self.slots.hidden(slot.entry):
            slot.height, slot.exact, slot.lines = 0, True, []
        elif not slot.lay_out(self._width, deadline):
            self._unfinished.add(slot.entry.key)
        self.slots.touch(index)
        self._laid_out.pop(id(slot), None)
        self._laid_out[id(slot)] = slot
        if len(self._laid_out) > _LAID_OUT:
            oldest = next(iter(self._laid_out))
            self._laid_out.pop(oldest).forget()

    def update(self, indices: Iterable[int], near: range) -> None:
        """Lay out what has changed in the rows `near` the view, as much as there is time for at once.

        What is elsewhere is laid out when it comes into view.
        """
        deadline = time.thread_time() + _BUDGET
        late = False
        for index in sorted(indices):
            if index >= len(self.slots):
                continue
            slot = self.slots.items[index]
            if late:
                self._unfinished.add(slot.entry.key)
            elif slot.lines is not None or isinstance(slot.entry, AnswerEntry) or self.slots.top(index) in near:
                self.lay_out(index, deadline)
                late = time.thread_time() > deadline

    def catch_up(self, near: range) -> bool:
        """Go on with what did not fit into its time; returns whether nothing is left of it."""
        indices = [index for key in self._unfinished if (index := self.slots.index_of(key)) is not None]
        self._unfinished.clear()
        self.update(indices, near)
        return not self.behind

    def show_end(self, height: int) -> None:
        """Make the last `height` rows exact."""
        rows = 0
        for index in range(len(self.slots) - 1, -1, -1):
            self.make_exact(index)
            slot = self.slots.items[index]
            rows += slot.gap + slot.height
            if rows > height:
                return

    def show_from(self, row: int, height: int, anchor: int | None = None) -> int:
        """Make the screen that begins at `row` exact; returns the row at which it begins then.

        Heights that were guesses may move everything below them; the slot `anchor` (the one at the top, if not
        given) stays where it is on the screen, so nobody sees a jump.
        """
        if not len(self.slots):
            return row
        for _ in range(16):
            first = self.slots.at(row)
            held = first if anchor is None else anchor
            before = self.slots.top(held)
            for index in range(max(0, first - 1), self.slots.at(row + height) + 1):
                self.make_exact(index)
            shift = self.slots.top(held) - before
            if not shift:
                break
            row = max(0, row + shift)
        return row

    def held(self, row: int) -> tuple[str, int] | None:
        """The key of the entry at a row, and where that begins."""
        if not len(self.slots):
            return None
        index = self.slots.at(row)
        return self.slots.items[index].entry.key, self.slots.top(index)

    def shift(self, held: tuple[str, int]) -> int:
        """By how many rows an entry that was `held` has moved down; 0 if it is gone."""
        index = self.slots.index_of(held[0])
        return self.slots.top(index) - held[1] if index is not None else 0

    def make_exact(self, index: int) -> None:
        """Lay out a slot, unless it is."""
        slot = self.slots.items[index]
        if slot.lines is None or not (slot.exact or slot.entry.key in self._unfinished):
            self.lay_out(index)

    def at(self, row: int) -> tuple[int, int]:
        """The index of the slot that holds a row, and which of its rows it is: negative in the gap above it."""
        index = self.slots.at(row)
        slot = self.slots.items[index]
        if slot.lines is None:
            self.lay_out(index)
        return index, row - self.slots.top(index) - slot.gap

    def line(self, row: int) -> Line:
        """What a row says."""
        index, offset = self.at(row)
        return self.slots.items[index].line(offset)

    def turn(self, index: int) -> None:
        """Open or fold an entry."""
        self.slots.turn(index)
        self.lay_out(index)
