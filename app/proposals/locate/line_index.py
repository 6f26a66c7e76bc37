"""The matching ladder over whole lines: from equal text to equal except for spacing.

Each rung looks through the whole file and finds every place; the first rung that has any decides, so a tolerant match
can never win against an exact one, and several places are a refusal, never a choice.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.proposals.locate.equivalence import (
    BLANKS,
    NO_SHIFT,
    IndentShift,
    find_indent_shift,
    fold_spacing,
    indentation,
    indentation_unit,
    without_indentation,
    without_trailing_space,
)
from app.proposals.text.document import Document
from app.proposals.values.models import MatchLevel

_KEYS: dict[MatchLevel, Callable[[str], str]] = {
    MatchLevel.TRAILING_SPACE: without_trailing_space,
    MatchLevel.INDENTATION: without_indentation,
    MatchLevel.SPACING: fold_spacing,
}


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Place of a block of lines in the file."""

    rung: MatchLevel
    start: int
    """First line, from 0."""
    end: int
    """One past the last line."""
    alignment: tuple[int | None, ...]
    """For each line of the block, the line of the file that it stands for."""
    shift: IndentShift = NO_SHIFT
    unlike: frozenset[int] = frozenset()
    """Lines of the block that stand for one of the file that is only like them."""


class TextIndex:
    """The lines of a document as each rung compares them; built lazily, shared by all edits of a call."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.texts: Sequence[str] = document.texts
        self._keys: dict[MatchLevel, Sequence[str]] = {MatchLevel.EXACT: self.texts}
        self._positions: dict[MatchLevel, dict[str, list[int]]] = {}

    def keys(self, rung: MatchLevel) -> Sequence[str]:
        """Return the compared form of each line on this rung."""
        if rung not in self._keys:
            key = _KEYS[rung]
            self._keys[rung] = [key(text) for text in self.texts]
        return self._keys[rung]

    def positions(self, rung: MatchLevel) -> dict[str, list[int]]:
        """The lines, from 0, that have each key."""
        if rung not in self._positions:
            positions: dict[str, list[int]] = {}
            for index, key in enumerate(self.keys(rung)):
                positions.setdefault(key, []).append(index)
            self._positions[rung] = positions
        return self._positions[rung]

    @cached_property
    def non_blank(self) -> tuple[list[int], list[str]]:
        """The lines, from 0, that are not blank, and what of them is left when spacing does not count."""
        keys = self.keys(MatchLevel.SPACING)
        lines = [at for at, key in enumerate(keys) if key]
        return lines, [keys[at] for at in lines]

    @cached_property
    def indentation_unit(self) -> int:
        """Spaces of one level of indentation."""
        return indentation_unit(self.texts)

    @cached_property
    def offsets(self) -> list[int]:
        """Return the start offset of each line in `document.text`, and of one line more."""
        offsets = [0]
        for text in self.texts:
            offsets.append(offsets[-1] + len(text) + 1)
        return offsets

    @cached_property
    def block_ends(self) -> list[int]:
        """For each line, the one at which the deeper indented block under it ends; closing brackets belong to it."""
        ends = [0] * len(self.texts)
        depths: list[int] = []
        lines: list[int] = []
        for at in range(len(self.texts) - 1, -1, -1):
            text = self.texts[at]
            stripped = text.strip(BLANKS)
            depth = len(indentation(text).expandtabs(8))
            # What is on the stack has ever less depth towards its bottom, and comes ever later in the file.
            found = bisect_right(depths, depth)
            ends[at] = lines[found - 1] if found else len(self.texts)
            if stripped and stripped[0] not in ")]}{":
                while depths and depths[-1] >= depth:
                    depths.pop()
                    lines.pop()
                depths.append(depth)
                lines.append(at)
        return ends

    def line_at(self, offset: int) -> int:
        """The line, from 0, that holds the character at `offset`."""
        return min(bisect_right(self.offsets, offset), len(self.texts)) - 1


def matches_at(index: TextIndex, block: Sequence[str], start: int) -> bool:
    """Return whether the block matches exactly at line `start` (from 0)."""
    return start >= 0 and tuple(index.texts[start : start + len(block)]) == tuple(block)


def count_candidates(index: TextIndex, block: Sequence[str]) -> int:
    """Return how many places have to be looked at to find the block: how often its rarest line occurs."""
    positions = index.positions(MatchLevel.EXACT)
    return min((len(positions.get(line, ())) for line in block), default=0)


def find_places(index: TextIndex, block: Sequence[str], rung: MatchLevel) -> list[BlockPlace]:
    """Return every place that matches by this rung (one of exact, trailing space, indentation, spacing)."""
    key = _KEYS.get(rung)
    wanted = [key(line) for line in block] if key else list(block)
    found = []
    for start in _starts(index, wanted, rung):
        end = start + len(block)
        shift: IndentShift | None = NO_SHIFT
        if rung in (MatchLevel.INDENTATION, MatchLevel.SPACING):
            shift = find_indent_shift(zip(block, index.texts[start:end], strict=True), index.indentation_unit)
        if shift is not None:
            found.append(BlockPlace(rung, start, end, tuple(range(start, end)), shift))
    return found


def find_like_place(index: TextIndex, start: int, end: int) -> int | None:
    """Return the first line (from 0) of another place that differs from `start` to `end` only in white space."""
    lines, keys = index.non_blank
    first, last = bisect_left(lines, start), bisect_left(lines, end)
    wanted = keys[first:last]
    if not wanted:
        return None
    positions = index.positions(MatchLevel.SPACING)
    rarest = min(range(len(wanted)), key=lambda at: len(positions[wanted[at]]))
    for line in positions[wanted[rarest]]:
        at = bisect_left(lines, line) - rarest
        if at >= 0 and at != first and keys[at : at + len(wanted)] == wanted:
            return lines[at]
    return None


def _starts(index: TextIndex, wanted: list[str], rung: MatchLevel) -> list[int]:
    positions = index.positions(rung)
    keys = index.keys(rung)
    rarest: list[int] | None = None
    offset = 0
    for at, key in enumerate(wanted):
        occurrences = positions.get(key)
        if occurrences is None:
            return []
        if rarest is None or len(occurrences) < len(rarest):
            rarest, offset = occurrences, at
    last = len(keys) - len(wanted)
    wanted_slice = wanted if isinstance(keys, list) else tuple(wanted)
    return [
        occurrence - offset
        for occurrence in rarest or ()
        if 0 <= occurrence - offset <= last
        and keys[occurrence - offset : occurrence - offset + len(wanted)] == wanted_slice
    ]
