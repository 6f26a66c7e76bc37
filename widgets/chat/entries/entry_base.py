"""Base of the transcript's entries: a key, rows, marks, an expected height, and text to copy."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from app.images.image import Image
from widgets.chat.markdown.styled_lines import (
    MUTED_STYLE,
    TEXT_STYLE,
    Span,
    StyledLine,
    TextStyle,
    cell_width,
    fit_path_end,
    make_safe_text,
    shorten_text,
)

_SIGN = "▣ "
_SHORTEST_NAME = 12
"""Cells that the name of an image keeps, however narrow it is."""


def image_line(image: Image, width: int, prefix: tuple[Span, ...] = ()) -> StyledLine:
    """Return the line of an image after `prefix`; the name is shortened to fit the width."""
    room = width - sum(cell_width(text) for text, _ in prefix) - len(_SIGN)
    facts = shorten_text(image.size_label, room - _SHORTEST_NAME - 2)
    name = fit_path_end(make_safe_text(image.name), max(_SHORTEST_NAME, room - 2 - len(facts)))
    return StyledLine(
        (*prefix, (_SIGN, TextStyle("user-mark")), (name, TextStyle("user")), (f"  {facts}", MUTED_STYLE))
    )


MARK_WIDTH = 2
"""Cells that the marks take; rows are laid out for what remains."""

NO_MARK: Span = ("  ", TEXT_STYLE)
USER_BAR: Span = ("▌ ", TextStyle("user-mark"))
"""Runs along everything that the user wrote."""


class EntryMarks(NamedTuple):
    """The marks left of an entry's first row and of the others."""

    first: Span = NO_MARK
    rest: Span = NO_MARK
    last: Span | None = None
    """The mark of the last row; None for the same as the other rows."""

    def mark_at(self, row: int, height: int) -> Span:
        """Return the mark of a row of an entry."""
        if row == 0:
            return self.first
        return self.last if self.last is not None and row == height - 1 else self.rest


class GrowingRows(Protocol):
    """Rows of a growing text: finished rows are not laid out again."""

    @property
    def lines(self) -> list[StyledLine]:
        """Return the rows as of the last `advance`."""
        ...

    def advance(self, deadline: float | None = None) -> bool:
        """Lay out new text; return False if the deadline (in `time.thread_time`) came first."""
        ...


@dataclass(frozen=True, slots=True)
class TranscriptEntry(ABC):
    """Something that was said or done. Entries are values: a new one with the same key replaces it."""

    fill: ClassVar[str] = ""
    """The role whose background lies under the whole entry."""
    is_compact: ClassVar[bool] = False
    """Neighbours of this kind stand close: they read as one."""

    key: str

    @abstractmethod
    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the rows for `width` cells beside the marks; at least one, so long as there is no `growing_rows`."""

    def growing_rows(self, former: GrowingRows | None, width: int, opened: bool) -> GrowingRows | None:
        """Return rows that grow, for a growing text that is too long to lay out again each time; None otherwise.

        `former` is what this method has returned for the entry that had this place before, if anything.
        """
        return None

    def marks(self, opened: bool) -> EntryMarks:
        """Return the marks at the left; `opened` turns the triangle of an entry that unfolds."""
        return EntryMarks()

    def expected_height(self, width: int) -> int:
        """Return an estimate of the number of rows, without laying them out."""
        return 1

    @property
    def can_open(self) -> bool:
        """Return whether Enter or a click shows more of it."""
        return False

    @property
    def copy_text(self) -> str:
        """Return its text for the clipboard."""
        return ""


@dataclass(frozen=True, slots=True)
class FoldedEntry(TranscriptEntry):
    """An entry of one line, which opens to show the rest."""

    triangle: ClassVar[TextStyle] = MUTED_STYLE

    def marks(self, opened: bool) -> EntryMarks:
        return EntryMarks(("▾ " if opened else "▸ ", self.triangle))

    @property
    def can_open(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class EntryAddedOrReplaced:
    """Show an entry: in place of the one with the same key, else at the end."""

    entry: TranscriptEntry


@dataclass(frozen=True, slots=True)
class EntryRemoved:
    """Remove the entry with this key."""

    key: str


EntryChange = EntryAddedOrReplaced | EntryRemoved
