"""What each rung of the ladder treats as equal lines, and how indentation is transferred."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

BLANKS = " \t\r\f\v"
"""What counts as trailing space; other Unicode spaces are text."""

_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_RUN = re.compile(r"[ \t\r\f\v]+")


def without_trailing_space(line: str) -> str:
    """The line as the second rung compares it."""
    return line.rstrip(BLANKS)


def without_indentation(line: str) -> str:
    """The line as the third rung compares it; the shift of the indentation is checked apart."""
    return line.strip(BLANKS)


def fold_spacing(line: str) -> str:
    """Return the line as the fourth rung compares it: look-alike marks made plain, runs of space made one."""
    if not line.isascii():
        line = line.translate(_LOOKALIKES)
    return _RUN.sub(" ", line.strip(BLANKS))


def indentation(line: str) -> str:
    """The leading spaces and tabs."""
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class IndentShift:
    """Difference between the indentation of the model's lines and that of the file's."""

    prefix: str = ""
    """Added to or taken from every line that is not blank."""
    removed: bool = False
    """Whether the prefix is taken away."""
    tabs: Literal["", "to spaces", "from spaces"] = ""
    """Whether the model's indentation is rewritten first."""
    width: int = 4
    """Spaces of one tab in that."""

    @property
    def is_none(self) -> bool:
        """Whether lines stay as they are."""
        return not self.prefix and not self.tabs

    def apply(self, line: str) -> str | None:
        """Return the model's line at the file's indentation, or None if it has too little to remove."""
        if self.is_none or not line.strip(BLANKS):
            return line
        own = indentation(line)
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
"""The indentation is as it is."""


def find_indent_shift(pairs: Iterable[tuple[str, str]], unit: int) -> IndentShift | None:
    """The one shift that takes every first line of the pairs (the model's) to the indentation of the second (the
    file's).

    Args:
        pairs: Lines that are equal but for indentation and spacing; blank ones are ignored.
        unit: Spaces of one level in the file, for a model that wrote tabs.
    """
    indents = [
        (indentation(ours), indentation(theirs))
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
    """Return the number of spaces of one indentation level, from the steps between lines; 4 if nothing tells."""
    steps: dict[int, int] = {}
    before = 0
    for line in lines:
        if not line.strip(BLANKS):
            continue
        own = indentation(line)
        if "\t" in own:
            continue
        step = len(own) - before
        before = len(own)
        if step in (2, 3, 4, 8):
            steps[step] = steps.get(step, 0) + 1
    return max(steps, key=lambda step: steps[step], default=4)
