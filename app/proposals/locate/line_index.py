"""The matching ladder over whole lines: from equal text to equal except for spacing.

Each level searches the whole file and finds every place. The first level that finds any decides: a tolerant match
never wins over an exact one, and several places are refused.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

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
_SPACE_RUN = re.compile(r"[ \t\r\f\v]+")


def strip_trailing_space(line: str) -> str:
    """Return the line without blanks at its end, as `MatchLevel.TRAILING_SPACE` compares it."""
    return line.rstrip(BLANKS)


def normalize_spaces_and_lookalikes(line: str) -> str:
    """Return the line stripped, with single spaces and look-alikes as ASCII, as `MatchLevel.SPACING` compares it."""
    if not line.isascii():
        line = line.translate(_LOOKALIKES)
    return _SPACE_RUN.sub(" ", line.strip(BLANKS))


def leading_whitespace(line: str) -> str:
    """Return the leading spaces and tabs."""
    return line[: len(line) - len(line.lstrip(" \t"))]


class IndentShift(Struct, frozen=True):
    """Difference between the indentation of the model's lines and that of the file's."""

    prefix: str = ""
    """Added to or removed from the start of every line that is not blank."""
    removed: bool = False
    """Whether the prefix is removed."""
    tabs: Literal["", "to spaces", "from spaces"] = ""
    """How tabs in the model's indentation are converted before that."""
    width: int = 4
    """Spaces of one tab in this conversion."""

    def apply(self, line: str) -> str | None:
        """Return the model's line at the file's indentation; None if it has too little to remove."""
        if not line.strip(BLANKS):
            return line
        indentation = leading_whitespace(line)
        rest = line[len(indentation) :]
        indentation = self._convert_tabs(indentation)
        if not self.removed:
            return self.prefix + indentation + rest
        if not indentation.startswith(self.prefix):
            return None
        return indentation[len(self.prefix) :] + rest

    def _convert_tabs(self, indentation: str) -> str:
        if self.tabs == "to spaces":
            return indentation.replace("\t", " " * self.width)
        if self.tabs == "from spaces":
            return indentation.replace(" " * self.width, "\t")
        return indentation


NO_SHIFT = IndentShift()
"""Leaves the indentation as it is."""


def find_indent_shift(pairs: Iterable[tuple[str, str]], indent_size: int) -> IndentShift | None:
    """Return the shift from the indentation of the first line of each pair (the model's) to that of the second (the
    file's); None if no single shift fits all.

    Args:
        pairs: Lines that are equal except for indentation and spacing; blank ones are ignored.
        indent_size: Spaces of one indentation level in the file, for a model that wrote tabs.
    """
    indents = [
        (leading_whitespace(ours), leading_whitespace(theirs))
        for ours, theirs in pairs
        if ours.strip(BLANKS) and theirs.strip(BLANKS)
    ]
    if not indents:
        return IndentShift()
    unconverted_shift = _find_constant_shift(indents, IndentShift())
    if unconverted_shift is not None:
        return unconverted_shift
    shifts = []
    if any("\t" in theirs for _, theirs in indents):
        rewrites = [IndentShift(tabs="from spaces", width=width) for width in (4, 2, 8)]
    else:
        rewrites = [IndentShift(tabs="to spaces", width=indent_size)]
    for rewrite in rewrites:
        shift = _find_constant_shift([(rewrite._convert_tabs(ours), theirs) for ours, theirs in indents], rewrite)
        if shift is not None:
            shifts.append(shift)
    return min(shifts, key=lambda shift: len(shift.prefix), default=None)


def _find_constant_shift(indents: Sequence[tuple[str, str]], rewrite: IndentShift) -> IndentShift | None:
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
    previous_width = 0
    for line in lines:
        if not line.strip(BLANKS):
            continue
        indentation = leading_whitespace(line)
        if "\t" in indentation:
            continue
        step = len(indentation) - previous_width
        previous_width = len(indentation)
        if step in (2, 3, 4, 8):
            steps[step] = steps.get(step, 0) + 1
    return max(steps, key=lambda step: steps[step], default=4)


_LINE_FORMS: dict[MatchLevel, Callable[[str], str]] = {
    MatchLevel.TRAILING_SPACE: strip_trailing_space,
    MatchLevel.INDENTATION: lambda line: line.strip(BLANKS),
    MatchLevel.SPACING: normalize_spaces_and_lookalikes,
}


class BlockPlace(Struct, frozen=True):
    """A place of a block in the file: the match level, the line range, and which line matches which."""

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
    """The lines of a document in the form that each match level compares, and where each form occurs."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.texts: Sequence[str] = document.line_texts
        self._compared_lines: dict[MatchLevel, Sequence[str]] = {MatchLevel.EXACT: self.texts}
        self._positions_by_line: dict[MatchLevel, dict[str, list[int]]] = {}

    def compared_lines(self, level: MatchLevel) -> Sequence[str]:
        """Return the compared form of each line on this level."""
        if level not in self._compared_lines:
            compared_form = _LINE_FORMS[level]
            self._compared_lines[level] = [compared_form(text) for text in self.texts]
        return self._compared_lines[level]

    def positions_by_line(self, level: MatchLevel) -> dict[str, list[int]]:
        """Return the lines, from 0, by their compared form."""
        if level not in self._positions_by_line:
            positions: dict[str, list[int]] = {}
            for index, compared_line in enumerate(self.compared_lines(level)):
                positions.setdefault(compared_line, []).append(index)
            self._positions_by_line[level] = positions
        return self._positions_by_line[level]

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
            shallower_count = bisect_right(depths, depth)
            ends[at] = lines[shallower_count - 1] if shallower_count else len(self.texts)
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


def count_rarest_line_occurrences(index: LineIndex, block: Sequence[str]) -> int:
    """Return how often the block's rarest line is in the file: the block can have no more exact places than that."""
    positions = index.positions_by_line(MatchLevel.EXACT)
    return min((len(positions.get(line, ())) for line in block), default=0)


def find_block_places(index: LineIndex, block: Sequence[str], level: MatchLevel) -> list[BlockPlace]:
    """Return every place that matches on this level (one of exact, trailing space, indentation, spacing)."""
    compared_form = _LINE_FORMS.get(level)
    compared_block = [compared_form(line) for line in block] if compared_form else list(block)
    places = []
    for start in _find_exact_starts(index, compared_block, level):
        end = start + len(block)
        shift: IndentShift | None = NO_SHIFT
        if level in (MatchLevel.INDENTATION, MatchLevel.SPACING):
            shift = find_indent_shift(zip(block, index.texts[start:end], strict=True), index.indentation_unit)
        if shift is not None:
            places.append(BlockPlace(level, start, end, tuple(range(start, end)), shift))
    return places


def find_duplicate_ignoring_whitespace(index: LineIndex, start: int, end: int) -> int | None:
    """Return the first line (from 0) of another place that differs from `start` to `end` only in white space."""
    lines, compared = index.non_blank_lines
    first, last = bisect_left(lines, start), bisect_left(lines, end)
    compared_block = compared[first:last]
    if not compared_block:
        return None
    positions = index.positions_by_line(MatchLevel.SPACING)
    rarest = min(range(len(compared_block)), key=lambda at: len(positions[compared_block[at]]))
    for line in positions[compared_block[rarest]]:
        at = bisect_left(lines, line) - rarest
        if at >= 0 and at != first and compared[at : at + len(compared_block)] == compared_block:
            return lines[at]
    return None


def _find_exact_starts(index: LineIndex, compared_block: list[str], level: MatchLevel) -> list[int]:
    positions = index.positions_by_line(level)
    file_lines = index.compared_lines(level)
    rarest: list[int] | None = None
    offset = 0
    for at, line in enumerate(compared_block):
        occurrences = positions.get(line)
        if occurrences is None:
            return []
        if rarest is None or len(occurrences) < len(rarest):
            rarest, offset = occurrences, at
    last = len(file_lines) - len(compared_block)
    wanted_slice = compared_block if isinstance(file_lines, list) else tuple(compared_block)
    return [
        occurrence - offset
        for occurrence in rarest or ()
        if 0 <= occurrence - offset <= last
        and file_lines[occurrence - offset : occurrence - offset + len(compared_block)] == wanted_slice
    ]
