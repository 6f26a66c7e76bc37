"""The line diff of the review, the merge and the patch writer.

Equal ends are trimmed; the rest is cut at patience anchors; each gap gets a shortest script within a budget of steps,
and past the budget one coarse replacement, which is still a correct diff. The result is slid to the canonical place
that git chooses.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeVar

from app.proposals.text.anchors import equal_run, gaps_between_anchors, trimmed
from app.proposals.text.myers import Budget, mark_changes, worth_comparing
from app.proposals.text.slide import canonical_groups

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
    head = equal_run(old, new, 0, 0)
    tail = _common_suffix(old, new, head)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    old_flags, new_flags = bytearray(len(old_middle)), bytearray(len(new_middle))
    if not old_middle or not new_middle:
        old_flags, new_flags = bytearray(b"\1" * len(old_middle)), bytearray(b"\1" * len(new_middle))
    elif anchored or not _unanchored(old_middle, new_middle, old_flags, new_flags, (old, new)):
        old_flags, new_flags = bytearray(len(old_middle)), bytearray(len(new_middle))
        _anchored(old_middle, new_middle, old_flags, new_flags)
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
    old: list[Hashable],
    new: list[Hashable],
    old_flags: bytearray,
    new_flags: bytearray,
    whole: tuple[list[Hashable], list[Hashable]],
) -> bool:
    """Set the flags by one shortest script over all; False if the budget was not enough.

    Lines are counted over the whole files, trimmed ends included: how often a line occurs decides whether it is worth
    comparing.
    """
    old_ids, new_ids, numbers = _numbered(old, new)
    old_counts, new_counts = (Counter(map(numbers.get, lines, repeat(-1))) for lines in whole)
    budget = Budget(UNANCHORED_STEPS)
    _script(
        (old_ids, worth_comparing(old_ids, new_counts, _often(len(whole[0]))), old_flags),
        (new_ids, worth_comparing(new_ids, old_counts, _often(len(whole[1]))), new_flags),
        budget,
    )
    return not budget.spent


def _numbered(old: list[Hashable], new: list[Hashable]) -> tuple[list[int], list[int], dict[Hashable, int]]:
    """The lines as numbers, equal ones with the same."""
    numbers: dict[Hashable, int] = {}
    old_ids = [numbers.setdefault(line, len(numbers)) for line in old]
    new_ids = [numbers.setdefault(line, len(numbers)) for line in new]
    return old_ids, new_ids, numbers


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


def _anchored(old: list[Hashable], new: list[Hashable], old_flags: bytearray, new_flags: bytearray) -> None:
    """Cut at anchors, the gaps again at the anchors within them, and compare what has none."""
    budget = TOTAL_STEPS
    gaps = [(0, len(old), 0, len(new))]
    while gaps:
        old_start, old_end, new_start, new_end = trimmed(old, new, gaps.pop())
        old_gap, new_gap = old[old_start:old_end], new[new_start:new_end]
        if set(old_gap).isdisjoint(new_gap):
            old_flags[old_start:old_end] = b"\1" * len(old_gap)
            new_flags[new_start:new_end] = b"\1" * len(new_gap)
            continue
        inner = gaps_between_anchors(old_gap, new_gap)
        if inner is not None:
            gaps.extend((old_start + a, old_start + b, new_start + c, new_start + d) for a, b, c, d in inner)
            continue
        old_ids, new_ids, _ = _numbered(old_gap, new_gap)
        gap_budget = Budget(min(GAP_STEPS, budget))
        allowed = gap_budget.steps
        old_side = (old_ids, worth_comparing(old_ids, Counter(new_ids), 1024), old_flags)
        new_side = (new_ids, worth_comparing(new_ids, Counter(old_ids), 1024), new_flags)
        _script(old_side, new_side, gap_budget, old_start, new_start)
        budget -= allowed - gap_budget.steps
