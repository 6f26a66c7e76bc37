"""What is told about single lines beyond added and removed: changed words, whitespace only, moved, deceptive."""

import re
from collections.abc import Mapping, Sequence

from app.proposals.models import FileDiff, Hunk
from app.proposals.text.pairing import in_order, only_space_differs, pair_lines
from app.proposals.text.words import changed_words
from app.text.homoglyphs import lookalikes
from widgets.common.same_start import same_start
from widgets.diff.cells import DisplayText, Span, Spans
from widgets.diff.moved import Moved
from widgets.diff.remembering import remembered
from widgets.diff.rows import Place, Side, SourceLine, lines_of, text_of, texts_of

_LONGEST_LINE = 2_000
"""Longer lines are marked from the first to the last difference."""

_REWRITTEN = 0.75
"""From this share of changed characters on both sides, a line counts as rewritten and nothing in it is marked."""

_NOT_PLAIN = re.compile(r"[^\x20-\x7e\t]")

_LONGEST_WORD = 500
"""How far beyond the view the letters of a word are looked for."""


class Marks:
    """The marks of the lines on view, each computed when it is first drawn."""

    def __init__(self, diffs: Sequence[FileDiff]) -> None:
        self._diffs = diffs
        self._partners: dict[tuple[int, int], dict[tuple[Side, int], int]] = {}
        self.moved: Moved = {}
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

    def words_since_moved(self, line: SourceLine) -> Spans:
        """What a moved line has, but for indentation, that the one which it was, or has become, doesn't have."""
        here, there = self._text(line), self._text(self.moved[line])
        if here.strip() == there.strip():
            return ()
        before, after, _ = compare(here, there) if line.side == "old" else compare(there, here)
        return tuple(span for span in (before if line.side == "old" else after) if here[slice(*span)].strip())

    def _text(self, line: SourceLine) -> str:
        return text_of(self._diffs[line.file], line.side)[line.line]


@remembered(2048)
def compare(old: str, new: str) -> tuple[Spans, Spans, bool]:
    """The characters that differ between two versions of a line, and whether only whitespace does.

    There are none where the two have too little in common.
    """
    if max(len(old), len(new)) > _LONGEST_LINE:
        return *_between(old, new), False
    spaces = only_space_differs(old, new)
    before, after = changed_words(old, new)
    if _share(old, before) > _REWRITTEN and _share(new, after) > _REWRITTEN:
        return (), (), False
    return tuple((start, end) for start, end in before), tuple((start, end) for start, end in after), spaces


def _share(line: str, ranges: Sequence[tuple[int, int]]) -> float:
    """How much of a line, its whitespace not counted, is in these ranges."""
    letters = len("".join(line.split()))
    return sum(len("".join(line[start:end].split())) for start, end in ranges) / letters if letters else 0.0


def _between(old: str, new: str) -> tuple[Spans, Spans]:
    """Everything between the common start and the common end, by bisection."""
    head = same_start(old, new)
    rest = min(len(old), len(new)) - head
    tail = min(rest, same_start(old[::-1], new[::-1]))
    return _range(head, len(old) - tail), _range(head, len(new) - tail)


def _range(start: int, end: int) -> Spans:
    return ((start, end),) if end > start else ()


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
