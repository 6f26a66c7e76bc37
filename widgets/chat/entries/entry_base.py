"""Base of the transcript's entries: a key, rows, marks, an expected height, and text to copy."""

from abc import ABCMeta, abstractmethod
from typing import ClassVar, NamedTuple, Protocol

from msgspec import Struct, StructMeta

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
    shorten_to_one_line,
)

_IMAGE_SIGN = "▣ "
_MIN_NAME_CELLS = 12
"""Minimum cells for the name of an image."""


def image_line(image: Image, width: int, prefix: tuple[Span, ...] = ()) -> StyledLine:
    """Return the line of an image after `prefix`; the name is shortened to fit the width."""
    room = width - sum(cell_width(text) for text, _ in prefix) - len(_IMAGE_SIGN)
    facts = shorten_to_one_line(image.size_label, room - _MIN_NAME_CELLS - 2)
    name = fit_path_end(make_safe_text(image.name), max(_MIN_NAME_CELLS, room - 2 - len(facts)))
    return StyledLine(
        (*prefix, (_IMAGE_SIGN, TextStyle("user-mark")), (name, TextStyle("user")), (f"  {facts}", MUTED_STYLE))
    )


MARK_WIDTH = 2
"""Cells of the marks; rows are laid out for the remaining width."""

NO_MARK: Span = ("  ", TEXT_STYLE)
USER_BAR: Span = ("▌ ", TextStyle("user-mark"))
"""The mark beside everything that the user wrote."""


class EntryGutterMarks(NamedTuple):
    """The marks (bar, triangle or bullet) to the left of an entry's rows."""

    first: Span = NO_MARK
    rest: Span = NO_MARK
    last: Span | None = None
    """The mark of the last row; None for the same as the other rows."""

    def mark_at(self, row: int, height: int) -> Span:
        """Return the mark of a row of an entry."""
        if row == 0:
            return self.first
        return self.last if self.last is not None and row == height - 1 else self.rest


class GrowingTextRows(Protocol):
    """Rows of a growing text: finished rows are not laid out again."""

    @property
    def lines(self) -> list[StyledLine]:
        """Return the rows after the last `advance`."""
        ...

    def advance(self, deadline: float | None = None) -> bool:
        """Lay out new text; return False if the deadline (in `time.thread_time`) was reached first."""
        ...


class _AbstractStructMeta(StructMeta, ABCMeta):
    """Metaclass of structs with abstract methods."""


class TranscriptEntry(Struct, metaclass=_AbstractStructMeta, frozen=True):
    """An item of the transcript. Entries are values: a new one with the same key replaces it."""

    fill: ClassVar[str] = ""
    """The role whose background the whole entry has."""
    is_compact: ClassVar[bool] = False
    """Whether neighbours of this kind have no gap between them."""

    key: str

    @abstractmethod
    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the rows for `width` cells beside the marks; at least one, unless `growing_rows` returns rows."""

    def growing_rows(self, former: GrowingTextRows | None, width: int, opened: bool) -> GrowingTextRows | None:
        """Return rows for a growing text that is too long to lay out again each time; else None.

        `former` is the previous result of this method for the same place; None if there is none.
        """
        return None

    def marks(self, opened: bool) -> EntryGutterMarks:
        """Return the marks at the left; `opened` selects the triangle of an entry that can open."""
        return EntryGutterMarks()

    def expected_height(self, width: int) -> int:
        """Return an estimate of the number of rows, without laying them out."""
        return 1

    @property
    def can_open(self) -> bool:
        """Return whether Enter or a click opens the entry."""
        return False

    @property
    def copy_text(self) -> str:
        """Return the text for the clipboard; empty if there is none."""
        return ""


class FoldedEntry(TranscriptEntry, frozen=True):
    """An entry of one line that opens to show the rest."""

    triangle: ClassVar[TextStyle] = MUTED_STYLE

    def marks(self, opened: bool) -> EntryGutterMarks:
        return EntryGutterMarks(("▾ " if opened else "▸ ", self.triangle))

    @property
    def can_open(self) -> bool:
        return True


class EntryAddedOrReplaced(Struct, frozen=True):
    """A change of the transcript: an entry that is new, or replaces the one with the same key."""

    entry: TranscriptEntry


class EntryRemoved(Struct, frozen=True):
    """A change of the transcript: the entry with this key was removed."""

    key: str


EntryChange = EntryAddedOrReplaced | EntryRemoved
