"""The line diff of the review, the merge and the patch writer.

Equal ends are trimmed; the rest is cut at patience anchors (lines that occur once on each side, in the longest common
order: Bram Cohen's patience diff); each gap gets a shortest script within a budget of steps, and past the budget one
coarse replacement, which is still a correct diff. The result is slid to the canonical place that git chooses.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeVar

from app.proposals.myers import Budget, mark_changes, worth_comparing
from app.proposals.slide import canonical_groups

TOTAL_STEPS = 3_000_000
"""Steps of the shortest-script search in one diff."""
GAP_STEPS = 1_500_000
"""Steps of it in one gap between anchors."""
UNANCHORED_STEPS = 400_000
"""Steps that a diff without anchors may take before it falls back to anchors."""

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class Change:
    """Lines `old[old_start:old_end]` become `new[new_start:new_end]`; from 0, one of the two may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def removed(self) -> int:
        """Lines taken away."""
        return self.old_end - self.old_start

    @property
    def added(self) -> int:
        """Lines put in."""
        return self.new_end - self.new_start


def diff(old: Sequence[Hashable], new: Sequence[Hashable], *, anchored: bool = True) -> list[Change]:
    """The changes that turn `old` into `new`, in order, with at least one equal line between any two.

    With `anchored=False` the shortest script is looked for over the whole first, as `git merge-file` does; anchors
    are used only when that takes too long. Anchors give the more readable diff, the other the same merges as git.
    """
    if not isinstance(old, list):
        old = list(old)
    if not isinstance(new, list):
        new = list(new)
    head = _common_prefix(old, new)
    tail = _common_suffix(old, new, head)
    numbers: dict[Hashable, int] = {}
    old_ids = [numbers.setdefault(line, len(numbers)) for line in old[head : len(old) - tail]]
    new_ids = [numbers.setdefault(line, len(numbers)) for line in new[head : len(new) - tail]]
    old_flags, new_flags = bytearray(len(old_ids)), bytearray(len(new_ids))
    if not old_ids or not new_ids:
        old_flags, new_flags = bytearray(b"\1" * len(old_ids)), bytearray(b"\1" * len(new_ids))
    elif anchored or not _unanchored(old_ids, new_ids, old_flags, new_flags, (old, new, numbers)):
        old_flags, new_flags = bytearray(len(old_ids)), bytearray(len(new_ids))
        _anchored(old_ids, new_ids, old_flags, new_flags)
    old_changed = bytearray(head) + old_flags + bytearray(tail)
    new_changed = bytearray(head) + new_flags + bytearray(tail)
    return [Change(*group) for group in canonical_groups(old, new, old_changed, new_changed)]


def take(old: Sequence[Line], new: Sequence[Line], changes: Iterable[Change]) -> list[Line]:
    """`old` with only these changes made; they are any subset, in order, of `diff(old, new)`."""
    result: list[Line] = []
    at = 0
    for change in changes:
        result += old[at : change.old_start]
        result += new[change.new_start : change.new_end]
        at = change.old_end
    result += old[at:]
    return result


def _common_prefix(old: list[Hashable], new: list[Hashable]) -> int:
    """How many first lines are equal; slices are compared in C, halving the doubtful range."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(old: list[Hashable], new: list[Hashable], head: int) -> int:
    low, high = 0, min(len(old), len(new)) - head
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _unanchored(
    old_ids: list[int],
    new_ids: list[int],
    old_flags: bytearray,
    new_flags: bytearray,
    whole: tuple[list[Hashable], list[Hashable], dict[Hashable, int]],
) -> bool:
    """Set the flags by one shortest script over all; False if the budget was not enough.

    Lines are counted over the whole files, trimmed ends included: how often a line occurs decides whether it is worth
    comparing.
    """
    old, new, numbers = whole
    old_counts = Counter(map(numbers.get, old, repeat(-1)))
    new_counts = Counter(map(numbers.get, new, repeat(-1)))
    budget = Budget(UNANCHORED_STEPS)
    _script(
        (old_ids, worth_comparing(old_ids, new_counts, _often(len(old))), old_flags),
        (new_ids, worth_comparing(new_ids, old_counts, _often(len(new))), new_flags),
        budget,
    )
    return not budget.spent


def _often(lines: int) -> int:
    """How often makes a line frequent: about the square root of the lines, a power of two, as in xdiff."""
    return min(1 << ((lines.bit_length() + 1) // 2), 1024)


_Side = tuple[list[int], bytearray, bytearray]
"""Numbers of the lines, which of them to compare, and the flags to set."""


def _script(old: _Side, new: _Side, budget: Budget, old_offset: int = 0, new_offset: int = 0) -> None:
    """Flag what a shortest script changes; lines not worth comparing are changed."""
    old_ids, old_keep, old_flags = old
    new_ids, new_keep, new_flags = new
    old_at = [index for index, keep in enumerate(old_keep) if keep]
    new_at = [index for index, keep in enumerate(new_keep) if keep]
    old_changed, new_changed = bytearray(len(old_at)), bytearray(len(new_at))
    mark_changes([old_ids[at] for at in old_at], [new_ids[at] for at in new_at], old_changed, new_changed, budget)
    for ids, at, changed, flags, offset in (
        (old_ids, old_at, old_changed, old_flags, old_offset),
        (new_ids, new_at, new_changed, new_flags, new_offset),
    ):
        flags[offset : offset + len(ids)] = b"\1" * len(ids)
        for index, is_changed in zip(at, changed, strict=True):
            flags[offset + index] = is_changed


def _anchored(old_ids: list[int], new_ids: list[int], old_flags: bytearray, new_flags: bytearray) -> None:
    """Cut at anchors, the gaps again at the anchors within them, and compare what has none."""
    budget = TOTAL_STEPS
    gaps = [(0, len(old_ids), 0, len(new_ids))]
    while gaps:
        old_start, old_end, new_start, new_end = gaps.pop()
        while old_start < old_end and new_start < new_end and old_ids[old_start] == new_ids[new_start]:
            old_start += 1
            new_start += 1
        while old_start < old_end and new_start < new_end and old_ids[old_end - 1] == new_ids[new_end - 1]:
            old_end -= 1
            new_end -= 1
        if old_start == old_end or new_start == new_end:
            old_flags[old_start:old_end] = b"\1" * (old_end - old_start)
            new_flags[new_start:new_end] = b"\1" * (new_end - new_start)
            continue
        old_gap, new_gap = old_ids[old_start:old_end], new_ids[new_start:new_end]
        inner = _gaps_between_anchors(old_gap, new_gap)
        if inner is not None:
            gaps.extend((old_start + a, old_start + b, new_start + c, new_start + d) for a, b, c, d in inner)
            continue
        gap_budget = Budget(min(GAP_STEPS, budget))
        allowed = gap_budget.steps
        old_side = (old_gap, worth_comparing(old_gap, Counter(new_gap), 1024), old_flags)
        new_side = (new_gap, worth_comparing(new_gap, Counter(old_gap), 1024), new_flags)
        _script(old_side, new_side, gap_budget, old_start, new_start)
        budget -= allowed - gap_budget.steps


def _gaps_between_anchors(old: list[int], new: list[int]) -> list[tuple[int, int, int, int]] | None:
    """The stretches between lines that occur once on each side, in the same order; None without such a line."""
    old_counts, new_counts = Counter(old), Counter(new)
    new_at = {line: index for index, line in enumerate(new) if new_counts[line] == 1}
    pairs = [(index, new_at[line]) for index, line in enumerate(old) if line in new_at and old_counts[line] == 1]
    if not pairs:
        return None
    gaps = []
    old_at = new_next = 0
    for old_anchor, new_anchor in _longest_increasing(pairs):
        if old_anchor > old_at or new_anchor > new_next:
            gaps.append((old_at, old_anchor, new_next, new_anchor))
        old_at, new_next = old_anchor + 1, new_anchor + 1
    if old_at < len(old) or new_next < len(new):
        gaps.append((old_at, len(old), new_next, len(new)))
    return gaps


def _longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, in order of the first, whose second numbers grow (patience sorting)."""
    tops: list[int] = []
    top_pairs: list[int] = []
    before: list[int] = []
    for index, (_, position) in enumerate(pairs):
        pile = len(tops) if not tops or position > tops[-1] else bisect_left(tops, position)
        before.append(top_pairs[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(position)
            top_pairs.append(index)
        else:
            tops[pile] = position
            top_pairs[pile] = index
    if len(tops) == len(pairs):
        return pairs
    result = []
    index = top_pairs[-1]
    while index >= 0:
        result.append(pairs[index])
        index = before[index]
    result.reverse()
    return result
