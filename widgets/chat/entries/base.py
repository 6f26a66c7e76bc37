"""What all entries of the transcript have: a key, rows, marks, a height to expect, and a text to copy."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from widgets.chat.lines import MUTED, TEXT, Face, Line, Span

MARK_WIDTH = 2
"""Cells that the marks take; rows are laid out for what remains."""

NO_MARK: Span = ("  ", TEXT)
USER_BAR: Span = ("▌ ", Face("user-mark"))
"""Runs along everything that the user wrote."""


class Gutter(NamedTuple):
    """What stands at the left of an entry's first row, and of the others."""

    first: Span = NO_MARK
    rest: Span = NO_MARK
    last: Span | None = None
    """What stands at the last row, if that is not what stands at the others."""

    def at(self, row: int, height: int) -> Span:
        """The mark of a row of an entry."""
        if row == 0:
            return self.first
        return self.last if self.last is not None and row == height - 1 else self.rest


class Growing(Protocol):
    """The rows of a text to which more may come: what is settled of them is not laid out again."""

    @property
    def lines(self) -> list[Line]:
        """The rows as of the last `advance`."""
        ...

    def advance(self, deadline: float | None = None) -> bool:
        """Lay out what has come; returns False if the deadline (in `time.thread_time`) came first."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was said or done. Entries are values: another one with the same key takes the place of this."""

    fill: ClassVar[str] = ""
    """The role whose background lies under the whole entry."""
    runs: ClassVar[bool] = False
    """Neighbours of this kind stand close: they read as one."""

    key: str

    def rows(self, width: int, opened: bool) -> list[Line]:
        """The rows for `width` cells beside the marks; at least one, so long as there is no `growing`."""
        raise NotImplementedError

    def growing(self, former: Growing | None, width: int, opened: bool) -> Growing | None:
        """In place of `rows`, where a text may grow that is too long to be laid out anew each time.

        `former` is what this method has returned for the entry that had this place before, if anything.
        """
        return None

    def marks(self, opened: bool) -> Gutter:
        """The marks at the left; `opened` turns the triangle of an entry that unfolds."""
        return Gutter()

    def expected_height(self, width: int) -> int:
        """About how many rows it will take, without laying it out."""
        return 1

    @property
    def opens(self) -> bool:
        """Whether Enter or a click shows more of it."""
        return False

    @property
    def copied(self) -> str:
        """Its own text, for the clipboard."""
        return ""


@dataclass(frozen=True, slots=True)
class FoldedEntry(Entry):
    """An entry of one line, which opens to show the rest."""

    triangle: ClassVar[Face] = MUTED

    def marks(self, opened: bool) -> Gutter:
        """A triangle."""
        return Gutter(("▾ " if opened else "▸ ", self.triangle))

    @property
    def opens(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, slots=True)
class Put:
    """Show this entry: in the place of the one with the same key, else at the end."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Drop:
    """Take the entry with this key away."""

    key: str


Change = Put | Drop
