"""The entry that the keys work on."""

from widgets.chat.entries.base import Entry
from widgets.chat.slots import Slot, Slots

_STEP = 3
"""Rows by which an entry that is higher than the screen is gone through."""


class EntryCursor:
    """A place among the slots; nowhere as long as nobody has looked."""

    def __init__(self, slots: Slots) -> None:
        """Nowhere."""
        self._slots = slots
        self.index: int | None = None

    @property
    def slot(self) -> Slot | None:
        """The slot at the cursor."""
        here = self.index
        return self._slots.items[here] if here is not None and here < len(self._slots) else None

    @property
    def entry(self) -> Entry | None:
        """The entry at the cursor."""
        return self.slot.entry if self.slot is not None else None

    def start(self, row: int) -> None:
        """If it is nowhere, go to the entry at this row, or to the last."""
        if self.index is None and len(self._slots):
            self.index = self._slots.at(row)

    def dropped(self, index: int) -> None:
        """The slot at this index is gone: stay with the one that the cursor is at."""
        if self.index is not None and self.index > index:
            self.index -= 1

    def next(self, direction: int) -> int | None:
        """The nearest index above (-1) or below (1) that is not hidden; None at the end."""
        if self.index is None:
            return None
        index = self.index + direction
        while 0 <= index < len(self._slots) and self._slots.hidden(self._slots.items[index].entry):
            index += direction
        return index if 0 <= index < len(self._slots) else None

    def row_through(self, direction: int, row: int, height: int) -> int | None:
        """Where to scroll to within an entry that reaches beyond the screen; None if it is time to leave it."""
        if self.index is None or (slot := self.slot) is None:
            return None
        top = self._slots.top(self.index)
        beyond = top + slot.gap + slot.height > row + height if direction > 0 else top < row
        return row + _STEP * direction if beyond and slot.height > height // 2 else None

    def row_to_show(self, row: int, height: int) -> int | None:
        """Where to scroll to from `row` so that the entry is on screen; None if it is."""
        if self.index is None or (slot := self.slot) is None:
            return None
        top = self._slots.top(self.index) + slot.gap
        bottom = top + slot.height
        if bottom > row + height:
            return min(bottom - height, top)
        if top < row:
            return max(top - slot.gap, bottom - height) if slot.height > height else top - slot.gap
        return None
