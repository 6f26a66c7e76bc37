"""The matching ladder over whole lines: from equal text to equal except for spacing.

Each level searches the whole file and finds every place. The first level that finds any decides: a tolerant match
never wins over an exact one, and several places are refused.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from app.proposals.text.document import Document
from app.proposals.values.models import MatchLevel

BLANKS = " \t\r\f\v"
"""Characters that count as trailing space; other Unicode spaces are text."""

_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_RUN = re.compile(r"[ \t\r\f\v]+")


def strip_trailing_space(line: str) -> str:
    """Return the line as `MatchLevel.TRAILING_SPACE` compares it."""
    return line.rstrip(BLANKS)


def strip_surrounding_whitespace(line: str) -> str:
    """Return the line as `MatchLevel.INDENTATION` compares it: without blanks at its ends; indentation is checked
    apart.
    """
    return line.strip(BLANKS)


def normalize_spacing(line: str) -> str:
    """Return the line as `MatchLevel.SPACING` compares it: look-alike characters replaced, each run of space as
    one.
    """
    if not line.isascii():
        line = line.translate(_LOOKALIKES)
    return _RUN.sub(" ", line.strip(BLANKS))


def leading_whitespace(line: str) -> str:
    """Return the leading spaces and tabs."""
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class IndentShift:
    """Difference between the indentation of the model's lines and that of the file's."""

    prefix: str = ""
    """Added to or removed from the start of every line that is not blank."""
    removed: bool = False
    """Whether the prefix is removed."""
    tabs: Literal["", "to spaces", "from spaces"] = ""
    """How tabs in the model's indentation are converted before that."""
    width: int = 4
    """Spaces of one tab in this conversion."""

    @property
    def is_zero(self) -> bool:
        """Return whether lines stay as they are."""
        return not self.prefix and not self.tabs

    def apply(self, line: str) -> str | None:
        """Return the model's line at the file's indentation; None if it has too little to remove."""
        if self.is_zero or not line.strip(BLANKS):
            return line
        own = leading_whitespace(line)
        rest = line[len(own) :]
        own = self._converted(own)
        if not self.removed:
            return self.prefix + own + rest
        if not own.startswith(self.prefix):
            return None
        return own[len(self.prefix) :] + rest

    def _converted(self, own: str) -> str:
        if self.tabs == "to spaces":
            return own.replace("\t", " " * self.width)
        if self.tabs == "from spaces":
            return own.replace(" " * self.width, "\t")
        return own


NO_SHIFT = IndentShift()
"""Leaves the indentation as it is."""


def find_indent_shift(pairs: Iterable[tuple[str, str]], unit: int) -> IndentShift | None:
    """Return the shift from the indentation of the first line of each pair (the model's) to that of the second (the
    file's); None if no single shift fits all.

    Args:
        pairs: Lines that are equal except for indentation and spacing; blank ones are ignored.
        unit: Spaces of one indentation level in the file, for a model that wrote tabs.
    """
    indents = [
        (leading_whitespace(ours), leading_whitespace(theirs))
        for ours, theirs in pairs
        if ours.strip(BLANKS) and theirs.strip(BLANKS)
    ]
    if not indents:
        return IndentShift()
    plain = _constant(indents, IndentShift())
    if plain is not None:
        return plain
    found = []
    if any("\t" in theirs for _, theirs in indents):
        rewrites = [IndentShift(tabs="from spaces", width=width) for width in (4, 2, 8)]
    else:
        rewrites = [IndentShift(tabs="to spaces", width=unit)]
    for rewrite in rewrites:
        shift = _constant([(rewrite._converted(ours), theirs) for ours, theirs in indents], rewrite)
        if shift is not None:
            found.append(shift)
    return min(found, key=lambda shift: len(shift.prefix), default=None)


def _constant(indents: Sequence[tuple[str, str]], rewrite: IndentShift) -> IndentShift | None:
    ours, theirs = indents[0]
    removed = len(ours) > len(theirs)
    longer, shorter = (ours, theirs) if removed else (theirs, ours)
    prefix = longer[: len(longer) - len(shorter)]
    for ours, theirs in indents:
        longer, shorter = (ours, theirs) if removed else (theirs, ours)
        if longer != prefix + shorter:
            return None
    return IndentShift(prefix, removed, rewrite.tabs, rewrite.width)


def indentation_unit(lines: Iterable[str]) -> int:
    """Return the number of spaces of one indentation level, from the steps between lines; 4 if there are no steps."""
    steps: dict[int, int] = {}
    before = 0
    for line in lines:
        if not line.strip(BLANKS):
            continue
        own = leading_whitespace(line)
        if "\t" in own:
            continue
        step = len(own) - before
        before = len(own)
        if step in (2, 3, 4, 8):
            steps[step] = steps.get(step, 0) + 1
    return max(steps, key=lambda step: steps[step], default=4)


_KEYS: dict[MatchLevel, Callable[[str], str]] = {
    MatchLevel.TRAILING_SPACE: strip_trailing_space,
    MatchLevel.INDENTATION: strip_surrounding_whitespace,
    MatchLevel.SPACING: normalize_spacing,
}


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Place of a block of lines in the file."""

    level: MatchLevel
    start: int
    """First line, from 0."""
    end: int
    """One past the last line."""
    alignment: tuple[int | None, ...]
    """For each line of the block, its line in the file; None if it has none."""
    shift: IndentShift = NO_SHIFT
    similar_only: frozenset[int] = frozenset()
    """Lines of the block that are only similar to their line in the file."""


class LineIndex:
    """The lines of a document as each level compares them; computed when needed, shared by all edits of a call."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.texts: Sequence[str] = document.line_texts
        self._keys: dict[MatchLevel, Sequence[str]] = {MatchLevel.EXACT: self.texts}
        self._positions: dict[MatchLevel, dict[str, list[int]]] = {}

    def compared_lines(self, level: MatchLevel) -> Sequence[str]:
        """Return the compared form of each line on this level."""
        if level not in self._keys:
            key = _KEYS[level]
            self._keys[level] = [key(text) for text in self.texts]
        return self._keys[level]

    def positions_by_line(self, level: MatchLevel) -> dict[str, list[int]]:
        """Return the lines, from 0, by their compared form."""
        if level not in self._positions:
            positions: dict[str, list[int]] = {}
            for index, key in enumerate(self.compared_lines(level)):
                positions.setdefault(key, []).append(index)
            self._positions[level] = positions
        return self._positions[level]

    @cached_property
    def non_blank_lines(self) -> tuple[list[int], list[str]]:
        """Return the lines, from 0, that are not blank, and their form on `MatchLevel.SPACING`."""
        keys = self.compared_lines(MatchLevel.SPACING)
        lines = [at for at, key in enumerate(keys) if key]
        return lines, [keys[at] for at in lines]

    @cached_property
    def indentation_unit(self) -> int:
        """Return the number of spaces of one indentation level."""
        return indentation_unit(self.texts)

    @cached_property
    def offsets(self) -> list[int]:
        """Return the start offset of each line in `document.text`, and the offset after the last line."""
        offsets = [0]
        for text in self.texts:
            offsets.append(offsets[-1] + len(text) + 1)
        return offsets

    @cached_property
    def block_ends(self) -> list[int]:
        """Return for each line the line at which the deeper indented block under it ends, closing brackets
        included.
        """
        ends = [0] * len(self.texts)
        depths: list[int] = []
        lines: list[int] = []
        for at in range(len(self.texts) - 1, -1, -1):
            text = self.texts[at]
            stripped = text.strip(BLANKS)
            depth = len(leading_whitespace(text).expandtabs(8))
            # Towards the bottom of the stack, depths decrease and line numbers increase.
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
        """Return the line, from 0, that holds the character at `offset`."""
        return min(bisect_right(self.offsets, offset), len(self.texts)) - 1


def is_exact_match_at(index: LineIndex, block: Sequence[str], start: int) -> bool:
    """Return whether the block matches exactly at line `start` (from 0)."""
    return start >= 0 and tuple(index.texts[start : start + len(block)]) == tuple(block)


def count_candidate_places(index: LineIndex, block: Sequence[str]) -> int:
    """Return the number of candidate places of the block: the occurrences of its rarest line."""
    positions = index.positions_by_line(MatchLevel.EXACT)
    return min((len(positions.get(line, ())) for line in block), default=0)


def find_block_places(index: LineIndex, block: Sequence[str], level: MatchLevel) -> list[BlockPlace]:
    """Return every place that matches on this level (one of exact, trailing space, indentation, spacing)."""
    key = _KEYS.get(level)
    wanted = [key(line) for line in block] if key else list(block)
    found = []
    for start in _starts(index, wanted, level):
        end = start + len(block)
        shift: IndentShift | None = NO_SHIFT
        if level in (MatchLevel.INDENTATION, MatchLevel.SPACING):
            shift = find_indent_shift(zip(block, index.texts[start:end], strict=True), index.indentation_unit)
        if shift is not None:
            found.append(BlockPlace(level, start, end, tuple(range(start, end)), shift))
    return found


def find_place_differing_in_whitespace(index: LineIndex, start: int, end: int) -> int | None:
    """Return the first line (from 0) of another place that differs from `start` to `end` only in white space."""
    lines, keys = index.non_blank_lines
    first, last = bisect_left(lines, start), bisect_left(lines, end)
    wanted = keys[first:last]
    if not wanted:
        return None
    positions = index.positions_by_line(MatchLevel.SPACING)
    rarest = min(range(len(wanted)), key=lambda at: len(positions[wanted[at]]))
    for line in positions[wanted[rarest]]:
        at = bisect_left(lines, line) - rarest
        if at >= 0 and at != first and keys[at : at + len(wanted)] == wanted:
            return lines[at]
    return None


def _starts(index: LineIndex, wanted: list[str], level: MatchLevel) -> list[int]:
    positions = index.positions_by_line(level)
    keys = index.compared_lines(level)
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
