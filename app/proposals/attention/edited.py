"""A file of a proposal as it is looked through: its changed lines, and these without strings and comments."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from app.proposals.attention.reason import MOST_PLACES, Place, Reason, ReasonKind
from app.proposals.models import FileChange, Hunk
from app.proposals.text.hunks import in_force

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_LEXED = 300_000
"""Characters that are lexed for one proposal, at most; of files after that only the changed lines are, or nothing."""


_LONGEST = 2_000
"""Characters of a line, at most, that is lexed: on longer ones lexers may take their time. They stay as they are."""


class Line(NamedTuple):
    """A line that was added or removed."""

    number: int
    """In its text, from 0."""
    text: str
    hunk: str
    """The id of its hunk."""
    side: Literal["old", "new"]
    offset: int
    """Lines below the first of its hunk on that side."""

    @property
    def place(self) -> Place:
        """Where it is, as it is kept with a proposal."""
        return Place(hunk=self.hunk, side=self.side, offset=self.offset)


class LexingBudget:
    """How much is lexed for one proposal: a change all over a repository is staged in no more than a second."""

    def __init__(self) -> None:
        self._left = _LEXED

    def blanked(self, path: str, lines: Sequence[str]) -> Sequence[str] | None:
        """The lines with blanks for strings and comments; None if they are more than what is left."""
        size = sum(map(len, lines))
        if size > self._left:
            return None
        self._left -= size
        return blanked(path, lines)


class EditedFile:
    """One file of a proposal with both its texts."""

    def __init__(
        self, change: FileChange, old: Sequence[str], new: Sequence[str], budget: LexingBudget | None = None
    ) -> None:
        self._budget = budget or LexingBudget()
        self.change = change
        self.path = change.path
        self.old = old
        self.new = new
        hunks = [hunk for hunk in change.hunks if in_force(hunk)]
        self.removed = [line for hunk in hunks for line in _lines(hunk, "old", old)]
        self.added = [line for hunk in hunks for line in _lines(hunk, "new", new)]

    @cached_property
    def added_text(self) -> str:
        """All added lines, for a quick look whether there can be anything in them."""
        return "\n".join(line.text for line in self.added)

    @cached_property
    def removed_text(self) -> str:
        """All removed lines."""
        return "\n".join(line.text for line in self.removed)

    @cached_property
    def added_code(self) -> Sequence[Line]:
        """The added lines with blanks for strings and comments."""
        return self._coded(self.path, self._new_code, self.added)

    @cached_property
    def removed_code(self) -> Sequence[Line]:
        """The removed lines with blanks for strings and comments."""
        path = self.change.old_path or self.path
        return self._coded(path, self._budget.blanked(path, self.old), self.removed)

    @property
    def new_code(self) -> Sequence[str]:
        """All of the new text with blanks for strings and comments."""
        return self.new if self._new_code is None else self._new_code

    @cached_property
    def _new_code(self) -> Sequence[str] | None:
        return self._budget.blanked(self.path, self.new)

    def _coded(self, path: str, whole: Sequence[str] | None, lines: Sequence[Line]) -> Sequence[Line]:
        """These lines out of the blanked text, or blanked by themselves where that was too long."""
        if whole is not None:
            return [line._replace(text=whole[line.number]) for line in lines]
        apart = self._budget.blanked(path, [line.text for line in lines])
        if apart is None:
            return lines
        return [line._replace(text=code) for line, code in zip(lines, apart, strict=True)]

    def reason(self, kind: ReasonKind, lines: Iterable[Line], names: Iterable[str] = ()) -> Reason:
        """A reason that was found in these lines."""
        found = list(lines)
        places = tuple(line.place for line in found[:MOST_PLACES])
        # Bytes that are no text stand as lone surrogates in a line, which no store takes.
        names = (name.encode(errors="replace").decode() for name in names)
        return Reason(kind=kind, path=self.path, names=tuple(dict.fromkeys(names)), count=len(found), places=places)


def _lines(hunk: Hunk, side: Literal["old", "new"], text: Sequence[str]) -> Iterator[Line]:
    start, count = (hunk.old_start, hunk.old_count) if side == "old" else (hunk.new_start, hunk.new_count)
    for offset, line in enumerate(text[start : start + count]):
        yield Line(start + offset, line, hunk.id, side, offset)


def blanked(path: str, lines: Sequence[str]) -> Sequence[str]:
    """The lines with blanks for strings and comments; as they are if nobody knows the language well enough."""
    lexer = _lexer_for(path.rpartition("/")[2])
    if lexer is None:
        return lines
    from pygments.token import Comment, String, is_token_subtype

    text = "\n".join(line if len(line) <= _LONGEST else "" for line in lines)
    pieces: list[str] = []
    at = 0
    for start, kind, value in lexer.get_tokens_unprocessed(text):
        if start < at or not text.startswith(value, start):
            # A lexer that counts wrongly, as that of Fortran does, would have code taken for a comment.
            return lines
        pieces.append(text[at:start])
        hidden = is_token_subtype(kind, Comment) or (
            is_token_subtype(kind, String) and not is_token_subtype(kind, String.Interpol)
        )
        pieces.append("".join("\n" if each == "\n" else " " for each in value) if hidden else value)
        at = start + len(value)
    pieces.append(text[at:])
    found = "".join(pieces).split("\n")
    return [code if len(line) <= _LONGEST else line for line, code in zip(lines, found, strict=True)]


@cache
def _lexer_for(name: str) -> "Lexer | None":
    # Imported when the first file is looked through in which a cheap search has found something.
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(name)
    except ClassNotFound:
        return None
