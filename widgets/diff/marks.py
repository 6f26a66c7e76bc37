"""What is told about single lines beyond added and removed: changed words, whitespace only, moved, deceptive."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.homoglyphs import lookalikes
from app.proposals.models import FileDiff, Hunk
from app.proposals.text.pairing import in_order, only_space_differs, pair_lines
from app.proposals.text.words import changed_words
from widgets.diff.cells import DisplayText, Span, Spans
from widgets.diff.remembering import remembered
from widgets.diff.rows import Place, Side, SourceLine, lines_of, texts_of

_LONGEST_LINE = 2_000
"""Longer lines are marked from the first to the last difference."""

_REWRITTEN = 0.75
"""From this share of changed characters on both sides, a line counts as rewritten and nothing in it is marked."""

_MOVED_CHARACTERS = 20
"""Letters and digits that a block needs before it counts as moved; shorter ones are coincidence."""

_MOVED_LINES = 200_000
"""Larger changes are not searched for moved lines."""

_NOT_PLAIN = re.compile(r"[^\x20-\x7e\t]")

_LONGEST_WORD = 500
"""How far beyond the view the letters of a word are looked for."""


class Marks:
    """The marks of the lines on view, each computed when it is first drawn."""

    def __init__(self, diffs: Sequence[FileDiff]) -> None:
        self._diffs = diffs
        self._partners: dict[tuple[int, int], dict[tuple[Side, int], int]] = {}
        self.moved: frozenset[SourceLine] = frozenset()
        """Lines that were taken away here and put elsewhere, as far as they have been searched for."""
        self._parts: Mapping[tuple[int, int], Sequence[Place]] = {}

    def show_parts(self, parts: Mapping[tuple[int, int], Sequence[Place]]) -> None:
        """Only these parts of some hunks are shown as changed, and a line is compared with one of its own part."""
        if parts != self._parts:
            self._parts = parts
            self._partners.clear()

    def partner(self, file: int, hunk: int, side: Side, line: int) -> int | None:
        """The line of the other side that a changed line is compared with."""
        edit = self._diffs[file].change.hunks[hunk]
        if (file, hunk) not in self._parts and in_order(edit.old_count, edit.new_count):
            here, there = lines_of(edit, side), lines_of(edit, "new" if side == "old" else "old")
            at = line - here.start
            return there[at] if at < len(there) else None
        key = (file, hunk)
        if key not in self._partners:
            self._partners[key] = self._aligned(file, self._parts.get(key, (edit,)))
        return self._partners[key].get((side, line))

    def _aligned(self, file: int, parts: Sequence[Hunk | Place]) -> dict[tuple[Side, int], int]:
        partners: dict[tuple[Side, int], int] = {}
        for part in parts:
            for old, new in pair_lines(*texts_of(self._diffs[file], part)):
                if old is not None and new is not None:
                    partners["old", part.old_start + old] = part.new_start + new
                    partners["new", part.new_start + new] = part.old_start + old
        return partners

    def words(self, file: int, hunk: int, side: Side, line: int) -> tuple[Spans, bool]:
        """The changed characters of a line, and whether only whitespace differs."""
        other = self.partner(file, hunk, side, line)
        if other is None:
            return (), False
        diff = self._diffs[file]
        old, new = (diff.old[line], diff.new[other]) if side == "old" else (diff.old[other], diff.new[line])
        before, after, spaces = compare(old, new)
        return (before if side == "old" else after), spaces


@remembered(2048)
def compare(old: str, new: str) -> tuple[Spans, Spans, bool]:
    """The characters that differ between two versions of a line, and whether only whitespace does.

    There are none where the two have too little in common.
    """
    if max(len(old), len(new)) > _LONGEST_LINE:
        return *_between(old, new), False
    spaces = only_space_differs(old, new)
    before, after = changed_words(old, new)
    if not spaces and _share(old, before) > _REWRITTEN and _share(new, after) > _REWRITTEN:
        return (), (), False
    return tuple((start, end) for start, end in before), tuple((start, end) for start, end in after), spaces


def _share(line: str, ranges: Sequence[tuple[int, int]]) -> float:
    """How much of a line, its whitespace not counted, is in these ranges."""
    letters = len("".join(line.split()))
    return sum(len("".join(line[start:end].split())) for start, end in ranges) / letters if letters else 0.0


def _between(old: str, new: str) -> tuple[Spans, Spans]:
    """Everything between the common start and the common end, by bisection."""
    head = _common(old, new)
    rest = min(len(old), len(new)) - head
    tail = min(rest, _common(old[::-1], new[::-1]))
    return _range(head, len(old) - tail), _range(head, len(new) - tail)


def _range(start: int, end: int) -> Spans:
    return ((start, end),) if end > start else ()


def _common(left: str, right: str) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def moved_lines(diffs: Sequence[FileDiff]) -> frozenset[SourceLine]:
    """Blocks of lines that were taken away in one place and added, but for indentation, in another.

    The rule is that of `git diff --color-moved=blocks`: runs of matching lines with enough letters and digits.
    """
    removed, added = _changed(diffs, "old"), _changed(diffs, "new")
    if not removed or not added or len(removed) + len(added) > _MOVED_LINES:
        return frozenset()
    sources: dict[str, list[int]] = {}
    for number, (_, text) in enumerate(removed):
        if text:
            sources.setdefault(text, []).append(number)
    moved: set[SourceLine] = set()
    at = 0
    while at < len(added):
        source, length = _longest(removed, added, at, sources.get(added[at].text, ()))
        if (
            length
            and sum(sum(map(str.isalnum, added[at + step].text)) for step in range(length)) >= _MOVED_CHARACTERS
        ):
            for step in range(length):
                moved.add(added[at + step].line)
                moved.add(removed[source + step].line)
        at += max(1, length)
    return frozenset(moved)


class _Changed(NamedTuple):
    """A removed or added line."""

    line: SourceLine
    text: str
    """Without indentation."""

    def is_below(self, other: "_Changed", lines: int) -> bool:
        """Whether it stands so many lines below another."""
        return self.line.line == other.line.line + lines and self.line[:2] == other.line[:2]


def _changed(diffs: Sequence[FileDiff], side: Side) -> list[_Changed]:
    """Every removed or added line."""
    found: list[_Changed] = []
    for file, diff in enumerate(diffs):
        lines = diff.old if side == "old" else diff.new
        for hunk in diff.change.hunks:
            found += (_Changed(SourceLine(file, side, line), lines[line].strip()) for line in lines_of(hunk, side))
    return found


def _longest(
    removed: Sequence[_Changed],
    added: Sequence[_Changed],
    at: int,
    sources: Sequence[int],
) -> tuple[int, int]:
    """The longest run of removed lines equal to those from `at` on: where it begins, and its length."""
    best, longest = 0, 0
    for source in sources[:8]:
        length = 0
        while (
            source + length < len(removed)
            and at + length < len(added)
            and removed[source + length].text == added[at + length].text
            and removed[source + length].is_below(removed[source], length)
            and added[at + length].is_below(added[at], length)
        ):
            length += 1
        if length > longest:
            best, longest = source, length
    return best, longest


def suspects(line: str, shown: DisplayText, first: int, last: int) -> list[Span]:
    """What a reader has to look at twice: glyphs for characters that don't show, and words with look-alike letters.

    They are stretches of the drawn text, among those between two drawn characters or reaching into them: only what is
    on view is looked at, so that a line of any length costs the same.
    """
    start, end = shown.source(first), shown.source(last)
    if line[start:end].isascii() and line[start:end].isprintable():
        return []
    found: list[Span] = []
    for match in _NOT_PLAIN.finditer(line, start, end):
        at = shown.drawn(match.start())
        if shown.text[at] != match[0]:
            found.append((at, at + 1))
    low = max(0, start - _LONGEST_WORD)
    found += (
        (shown.drawn(low + begin), shown.drawn(low + stop))
        for begin, stop in lookalikes(line[low : end + _LONGEST_WORD])
    )
    return [span for span in found if not any(begin <= span[0] < stop for begin, stop in shown.gaps)]
