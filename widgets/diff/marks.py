"""What is told about single lines beyond added and removed: changed words, whitespace only, moved."""

from collections.abc import Sequence

from app.proposals.models import FileDiff, Hunk
from app.proposals.text.pairing import in_order, only_space_differs, pair_lines
from app.proposals.text.words import changed_words
from widgets.diff.remembering import remembered
from widgets.diff.rows import Side

Ranges = tuple[tuple[int, int], ...]
"""Characters from, to."""

_LONGEST_LINE = 2_000
"""Longer lines are marked from the first to the last difference."""

_REWRITTEN = 0.75
"""From this share of changed characters on both sides, a line counts as rewritten and nothing in it is marked."""

_MOVED_CHARACTERS = 20
"""Letters and digits that a block needs before it counts as moved; shorter ones are coincidence."""

_MOVED_LINES = 200_000
"""Larger changes are not searched for moved lines."""


class Marks:
    """The marks of the lines on view, each computed when it is first drawn."""

    def __init__(self, diffs: Sequence[FileDiff]) -> None:
        self._diffs = diffs
        self._partners: dict[tuple[int, int], dict[tuple[Side, int], int]] = {}
        self.moved: frozenset[tuple[int, Side, int]] = frozenset()
        """Lines that were taken away here and put elsewhere, as far as they have been searched for."""

    def partner(self, file: int, hunk: int, side: Side, line: int) -> int | None:
        """The line of the other side that a changed line is compared with."""
        edit = self._diffs[file].change.hunks[hunk]
        if in_order(edit.old_count, edit.new_count):
            at = line - (edit.old_start if side == "old" else edit.new_start)
            if at >= min(edit.old_count, edit.new_count):
                return None
            return at + (edit.new_start if side == "old" else edit.old_start)
        key = (file, hunk)
        if key not in self._partners:
            self._partners[key] = self._aligned(file, edit)
        return self._partners[key].get((side, line))

    def _aligned(self, file: int, edit: Hunk) -> dict[tuple[Side, int], int]:
        diff = self._diffs[file]
        partners: dict[tuple[Side, int], int] = {}
        for old, new in pair_lines(
            diff.old[edit.old_start : edit.old_start + edit.old_count],
            diff.new[edit.new_start : edit.new_start + edit.new_count],
        ):
            if old is not None and new is not None:
                partners["old", edit.old_start + old] = edit.new_start + new
                partners["new", edit.new_start + new] = edit.old_start + old
        return partners

    def words(self, file: int, hunk: int, side: Side, line: int) -> tuple[Ranges, bool]:
        """The changed characters of a line, and whether only whitespace differs."""
        other = self.partner(file, hunk, side, line)
        if other is None:
            return (), False
        diff = self._diffs[file]
        old, new = (diff.old[line], diff.new[other]) if side == "old" else (diff.old[other], diff.new[line])
        before, after, spaces = compare(old, new)
        return (before if side == "old" else after), spaces


@remembered(2048)
def compare(old: str, new: str) -> tuple[Ranges, Ranges, bool]:
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


def _between(old: str, new: str) -> tuple[Ranges, Ranges]:
    """Everything between the common start and the common end, by bisection."""
    head = _common(old, new)
    rest = min(len(old), len(new)) - head
    tail = min(rest, _common(old[::-1], new[::-1]))
    return _range(head, len(old) - tail), _range(head, len(new) - tail)


def _range(start: int, end: int) -> Ranges:
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


def moved_lines(diffs: Sequence[FileDiff]) -> frozenset[tuple[int, Side, int]]:
    """Blocks of lines that were taken away in one place and added, but for indentation, in another.

    The rule is that of `git diff --color-moved=blocks`: runs of matching lines with enough letters and digits.
    """
    removed, added = _changed(diffs, "old"), _changed(diffs, "new")
    if not removed or not added or len(removed) + len(added) > _MOVED_LINES:
        return frozenset()
    places: dict[str, list[int]] = {}
    for number, (_, _, text) in enumerate(removed):
        if text:
            places.setdefault(text, []).append(number)
    moved: set[tuple[int, Side, int]] = set()
    at = 0
    while at < len(added):
        source, length = _longest(removed, added, at, places.get(added[at][2], ()))
        if length and sum(sum(map(str.isalnum, added[at + step][2])) for step in range(length)) >= _MOVED_CHARACTERS:
            for step in range(length):
                moved.add((added[at + step][0], "new", added[at + step][1]))
                moved.add((removed[source + step][0], "old", removed[source + step][1]))
        at += max(1, length)
    return frozenset(moved)


def _changed(diffs: Sequence[FileDiff], side: Side) -> list[tuple[int, int, str]]:
    """Every removed or added line: file, number, text without indentation."""
    found: list[tuple[int, int, str]] = []
    for file, diff in enumerate(diffs):
        lines = diff.old if side == "old" else diff.new
        for hunk in diff.change.hunks:
            start, count = (hunk.old_start, hunk.old_count) if side == "old" else (hunk.new_start, hunk.new_count)
            found += ((file, line, lines[line].strip()) for line in range(start, start + count))
    return found


def _longest(
    removed: Sequence[tuple[int, int, str]],
    added: Sequence[tuple[int, int, str]],
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
            and removed[source + length][2] == added[at + length][2]
            and removed[source + length][:2] == (removed[source][0], removed[source][1] + length)
            and added[at + length][:2] == (added[at][0], added[at][1] + length)
        ):
            length += 1
        if length > longest:
            best, longest = source, length
    return best, longest
