"""Line diff of the review, the merge and the patch writer.

Equal ends are trimmed, and the rest is cut at patience anchors. Each gap gets a shortest edit script within a budget
of steps; beyond the budget, it becomes one coarse replacement, which is still a correct diff. Finally, changes slide
to the canonical place that git chooses.

Anchors are lines that occur once in each text, in the longest common order (Bram Cohen's patience diff). If no such
line has moved, which is nearly always the case, the gaps are found without a look at each equal line: equal runs are
compared as slices, in C.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

from msgspec import Struct

Gap = tuple[int, int, int, int]
"""`old[a:b]` against `new[c:d]`."""


def find_gaps_between_anchors(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Gap] | None:
    """Return the gaps between lines that occur once on each side, in the same order; None without such a line.

    The two sides must differ in their first line and in their last; otherwise the whole could be its own gap.
    """
    old_counts, new_counts = Counter(old), Counter(new)
    if not any(count == 1 and new_counts.get(line) == 1 for line, count in old_counts.items()):
        return None
    gaps = _find_gaps_without_moves(old, new, old_counts, new_counts)
    return _find_gaps_with_moves(old, new, old_counts, new_counts) if gaps is None else gaps


def count_equal_lines(old: Sequence[Hashable], new: Sequence[Hashable], old_start: int, new_start: int) -> int:
    """Return the number of equal lines from here on; runs of them are compared as slices."""
    limit = min(len(old) - old_start, len(new) - new_start)
    length, step = 0, 1

    def is_next_step_equal() -> bool:
        old_at, new_at = old_start + length, new_start + length
        return length + step <= limit and old[old_at : old_at + step] == new[new_at : new_at + step]

    while is_next_step_equal():
        length += step
        step *= 2
    while step > 1:
        step //= 2
        if is_next_step_equal():
            length += step
    return length


def trim_gap(old: Sequence[Hashable], new: Sequence[Hashable], gap: Gap) -> Gap:
    """Return a gap without the equal elements at its start and then at its end."""
    old_start, old_end, new_start, new_end = gap
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start += 1
        new_start += 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end -= 1
        new_end -= 1
    return old_start, old_end, new_start, new_end


def _find_gaps_without_moves(
    old: Sequence[Hashable],
    new: Sequence[Hashable],
    old_counts: Mapping[Hashable, int],
    new_counts: Mapping[Hashable, int],
) -> list[Gap] | None:
    """Return the gaps if all anchors have the same order on both sides; None otherwise."""

    def next_anchor(lines: Sequence[Hashable], at: int) -> int:
        while at < len(lines) and not (old_counts.get(lines[at]) == 1 == new_counts.get(lines[at])):
            at += 1
        return at

    gaps: list[Gap] = []
    old_at = new_at = 0
    while True:
        run = count_equal_lines(old, new, old_at, new_at)
        old_at += run
        new_at += run
        if old_at == len(old) and new_at == len(new):
            return gaps
        old_end, new_end = next_anchor(old, old_at), next_anchor(new, new_at)
        if old[old_end : old_end + 1] != new[new_end : new_end + 1]:
            return None
        gaps.append((old_at, old_end, new_at, new_end))
        old_at, new_at = old_end, new_end


def _find_gaps_with_moves(
    old: Sequence[Hashable],
    new: Sequence[Hashable],
    old_counts: Mapping[Hashable, int],
    new_counts: Mapping[Hashable, int],
) -> list[Gap]:
    """Return the gaps between as many anchors as possible."""
    new_index = {line: index for index, line in enumerate(new) if new_counts[line] == 1}
    pairs = [
        (index, new_index[line]) for index, line in enumerate(old) if line in new_index and old_counts[line] == 1
    ]
    gaps: list[Gap] = []
    old_at = new_at = 0
    for old_anchor, new_anchor in [*_find_longest_increasing(pairs), (len(old), len(new))]:
        if old_anchor > old_at or new_anchor > new_at:
            gaps.append((old_at, old_anchor, new_at, new_anchor))
        old_at, new_at = old_anchor + 1, new_anchor + 1
    return gaps


def _find_longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs, in order of the first numbers, whose second numbers grow (patience
    sorting)."""
    tops: list[int] = []
    top_pairs: list[int] = []
    predecessors: list[int] = []
    for index, (_, position) in enumerate(pairs):
        pile = len(tops) if not tops or position > tops[-1] else bisect_left(tops, position)
        predecessors.append(top_pairs[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(position)
            top_pairs.append(index)
        else:
            tops[pile] = position
            top_pairs[pile] = index
    result = []
    index = top_pairs[-1]
    while index >= 0:
        result.append(pairs[index])
        index = predecessors[index]
    result.reverse()
    return result


def compact_change_groups(
    old: Sequence[Hashable], new: Sequence[Hashable], old_changed: bytearray, new_changed: bytearray
) -> Iterator[tuple[int, int, int, int]]:
    """Slide and join the flagged changes as git does; yield `(old_start, old_end, new_start, new_end)` in order.

    A group is stored as the number of unchanged lines before it, which is equal on both sides, and its length.
    """
    old_groups = _group_flags(old_changed)
    new_groups = _group_flags(new_changed)
    old_groups = _slide_groups(old, old_groups, {key for key, _ in new_groups})
    new_groups = _slide_groups(new, new_groups, {key for key, _ in old_groups})
    deleted, inserted = dict(old_groups), dict(new_groups)
    removed_before = added_before = 0
    for key in sorted(deleted.keys() | inserted.keys()):
        removed, added = deleted.get(key, 0), inserted.get(key, 0)
        old_start, new_start = key + removed_before, key + added_before
        yield old_start, old_start + removed, new_start, new_start + added
        removed_before += removed
        added_before += added


def _group_flags(flags: bytearray) -> list[tuple[int, int]]:
    groups = []
    changed_before = 0
    start = flags.find(1)
    while start >= 0:
        end = flags.find(0, start)
        if end < 0:
            end = len(flags)
        groups.append((start - changed_before, end - start))
        changed_before += end - start
        start = flags.find(1, end)
    return groups


def _slide_groups(
    lines: Sequence[Hashable], groups: list[tuple[int, int]], other_keys: set[int]
) -> list[tuple[int, int]]:
    """Return the groups of one side after sliding; `other_keys` are those of the other side's groups."""
    slid: list[tuple[int, int]] = []
    changed_before = 0
    remaining = groups[::-1]
    while remaining:
        key, length = remaining.pop()
        while True:
            size = length
            start = key + changed_before
            while start and lines[start - 1] == lines[start + length - 1]:
                start -= 1
                key -= 1
                if slid and slid[-1][0] == key:
                    length += slid[-1][1]
                    changed_before -= slid[-1][1]
                    start -= slid.pop()[1]
            first_key = key
            key_beside_other = key if key in other_keys else -1
            while start + length < len(lines) and lines[start] == lines[start + length]:
                start += 1
                key += 1
                if remaining and remaining[-1][0] == key:
                    length += remaining.pop()[1]
                if key in other_keys:
                    key_beside_other = key
            if length == size:
                break
        if first_key < key and key_beside_other >= 0:
            key = key_beside_other
        slid.append((key, length))
        changed_before += length
    return slid


_UNREACHED = 1 << 60
_UNMATCHED, _COMPARABLE, _FREQUENT = 0, 1, 2
_KEEP_BY_KIND = bytes([0, 1, 1]) + bytes(253)
_WINDOW_LINES = 100
"""Number of lines that are examined before and after a frequent line."""


class DiffStepBudget(Struct):
    """Remaining steps of a diff; below zero, the rest is marked as changed without comparison."""

    steps: int

    @property
    def is_spent(self) -> bool:
        """Return whether the budget is exceeded."""
        return self.steps < 0


def mark_changed_lines(
    old: Sequence[int], new: Sequence[int], old_changed: bytearray, new_changed: bytearray, budget: DiffStepBudget
) -> None:
    """Set the flags of the elements that a shortest script deletes from `old` and inserts from `new`.

    The flags are as long as the sequences and start at 0. Once the budget is spent, the rest is marked completely.
    """
    stack = [(0, len(old), 0, len(new))]
    diagonals = len(old) + len(new) + 3
    forward = [0] * diagonals
    backward = [0] * diagonals
    while stack:
        old_start, old_end, new_start, new_end = box = trim_gap(old, new, stack.pop())
        if old_start == old_end or new_start == new_end or budget.is_spent:
            split = None
        else:
            split = _find_middle(old, new, box, forward, backward, budget)
        if split is None:
            old_changed[old_start:old_end] = b"\1" * (old_end - old_start)
            new_changed[new_start:new_end] = b"\1" * (new_end - new_start)
            continue
        old_middle, new_middle = split
        stack.append((old_middle, old_end, new_middle, new_end))
        stack.append((old_start, old_middle, new_start, new_middle))


def _find_middle(  # noqa: PLR0912, PLR0915 - two mirrored sweeps over shared arrays; calls would cost more than the work
    old: Sequence[int], new: Sequence[int], box: Gap, forward: list[int], backward: list[int], budget: DiffStepBudget
) -> tuple[int, int] | None:
    """Return a point on a shortest path through the box where the searches from both corners meet; None if the budget
    is spent.

    `forward[d]` and `backward[d]` hold the furthest old position reached on diagonal d = old - new; Python's negative
    indices give each diagonal its own cell.
    """
    old_start, old_end, new_start, new_end = box
    lowest, highest = old_start - new_end, old_end - new_start
    start_diagonal, end_diagonal = old_start - new_start, old_end - new_end
    odd = (start_diagonal - end_diagonal) & 1
    forward[start_diagonal] = old_start
    backward[end_diagonal] = old_end
    forward_low = forward_high = start_diagonal
    backward_low = backward_high = end_diagonal
    steps = budget.steps
    while steps >= 0:
        if forward_low > lowest:
            forward_low -= 1
            forward[forward_low - 1] = -1
        else:
            forward_low += 1
        if forward_high < highest:
            forward_high += 1
            forward[forward_high + 1] = -1
        else:
            forward_high -= 1
        for diagonal in range(forward_high, forward_low - 1, -2):
            below, above = forward[diagonal - 1], forward[diagonal + 1]
            at = begin = below + 1 if below >= above else above
            new_at = at - diagonal
            while at < old_end and new_at < new_end and old[at] == new[new_at]:
                at += 1
                new_at += 1
            steps -= 1 + at - begin
            forward[diagonal] = at
            if odd and backward_low <= diagonal <= backward_high and backward[diagonal] <= at:
                budget.steps = steps
                return at, new_at
        if backward_low > lowest:
            backward_low -= 1
            backward[backward_low - 1] = _UNREACHED
        else:
            backward_low += 1
        if backward_high < highest:
            backward_high += 1
            backward[backward_high + 1] = _UNREACHED
        else:
            backward_high -= 1
        for diagonal in range(backward_high, backward_low - 1, -2):
            below, above = backward[diagonal - 1], backward[diagonal + 1]
            at = begin = below if below < above else above - 1
            new_at = at - diagonal
            while at > old_start and new_at > new_start and old[at - 1] == new[new_at - 1]:
                at -= 1
                new_at -= 1
            steps -= 1 + begin - at
            backward[diagonal] = at
            if not odd and forward_low <= diagonal <= forward_high and at <= forward[diagonal]:
                budget.steps = steps
                return at, new_at
    budget.steps = steps
    return None


def flag_comparable_lines(lines: Sequence[int], other_counts: Mapping[int, int], limit: int) -> bytearray:
    """Return flags (1 = keep) for the lines that are worth comparing.

    A line that the other side lacks is dropped. A line that the other side has `limit` times or more is dropped among
    dropped lines: a match would tie a block to an unrelated place (the idea is xdiff's).
    """
    counts = [other_counts.get(line, 0) for line in lines]
    kinds = bytearray([_UNMATCHED if not count else _FREQUENT if count >= limit else _COMPARABLE for count in counts])
    keep = bytearray(kinds.translate(_KEEP_BY_KIND))
    if _UNMATCHED not in kinds:
        return keep
    index = kinds.find(_FREQUENT)
    while index >= 0:
        if _is_among_unmatched(kinds, index):
            keep[index] = 0
        index = kinds.find(_FREQUENT, index + 1)
    return keep


def _is_among_unmatched(kinds: bytearray, index: int) -> bool:
    """Return whether a frequent line is between lines without a match, with few frequent ones among them."""
    unmatched = 0
    frequent = 2
    for around in (kinds[max(index - _WINDOW_LINES, 0) : index][::-1], kinds[index + 1 : index + _WINDOW_LINES + 1]):
        end = around.find(_COMPARABLE)
        neighbours = around if end < 0 else around[:end]
        unmatched_nearby = neighbours.count(_UNMATCHED)
        if not unmatched_nearby:
            return False
        unmatched += unmatched_nearby
        frequent += neighbours.count(_FREQUENT)
    return frequent * 4 < frequent + unmatched


TOTAL_STEPS = 3_000_000
"""Maximum steps of the shortest-script search in one diff."""
GAP_STEPS = 1_500_000
"""Maximum steps of it in one gap between anchors."""
UNANCHORED_STEPS = 400_000
"""Maximum steps of a diff without anchors before it falls back to anchors."""

Line = TypeVar("Line")


class LineChange(Struct, frozen=True):
    """Lines `old[old_start:old_end]` become `new[new_start:new_end]`; from 0, one of the ranges may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def removed(self) -> int:
        """Return the number of removed lines."""
        return self.old_end - self.old_start

    @property
    def added(self) -> int:
        """Return the number of added lines."""
        return self.new_end - self.new_start


def diff_lines(old: Sequence[Hashable], new: Sequence[Hashable], *, anchored: bool = True) -> list[LineChange]:
    """Return the changes that turn `old` into `new`, in order, with at least one equal line between any two.

    With `anchored=False`, the shortest script for the whole is searched first, as `git merge-file` does; anchors are
    used only if that takes too long. A diff with anchors is easier to read; one without gives the same merges as git.
    """
    if not isinstance(old, list):
        old = list(old)
    if not isinstance(new, list):
        new = list(new)
    head = count_equal_lines(old, new, 0, 0)
    tail = count_equal_lines(old[head:][::-1], new[head:][::-1], 0, 0)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    old_flags, new_flags = bytearray(len(old_middle)), bytearray(len(new_middle))
    if not old_middle or not new_middle:
        old_flags, new_flags = bytearray(b"\1" * len(old_middle)), bytearray(b"\1" * len(new_middle))
    elif anchored or not _diff_unanchored(old_middle, new_middle, old_flags, new_flags, (old, new)):
        old_flags, new_flags = bytearray(len(old_middle)), bytearray(len(new_middle))
        _diff_anchored(old_middle, new_middle, old_flags, new_flags)
    old_changed = bytearray(head) + old_flags + bytearray(tail)
    new_changed = bytearray(head) + new_flags + bytearray(tail)
    return [LineChange(*group) for group in compact_change_groups(old, new, old_changed, new_changed)]


def _diff_unanchored(
    old: list[Hashable],
    new: list[Hashable],
    old_flags: bytearray,
    new_flags: bytearray,
    whole_files: tuple[list[Hashable], list[Hashable]],
) -> bool:
    """Set the flags by one shortest script for the whole; return False if the budget was not enough.

    Lines are counted in the whole files, with the trimmed ends: the number of occurrences decides whether a line is
    worth comparing.
    """
    old_ids, new_ids, numbers = _number_lines(old, new)
    old_counts, new_counts = (Counter(map(numbers.get, lines, repeat(-1))) for lines in whole_files)
    budget = DiffStepBudget(UNANCHORED_STEPS)
    _mark_shortest_script(
        (old_ids, flag_comparable_lines(old_ids, new_counts, _frequent_count(len(whole_files[0]))), old_flags),
        (new_ids, flag_comparable_lines(new_ids, old_counts, _frequent_count(len(whole_files[1]))), new_flags),
        budget,
    )
    return not budget.is_spent


def _number_lines(old: list[Hashable], new: list[Hashable]) -> tuple[list[int], list[int], dict[Hashable, int]]:
    """Return the lines of both sides as numbers, equal lines with equal numbers, and the number of each line."""
    numbers: dict[Hashable, int] = {}
    old_ids = [numbers.setdefault(line, len(numbers)) for line in old]
    new_ids = [numbers.setdefault(line, len(numbers)) for line in new]
    return old_ids, new_ids, numbers


def _frequent_count(lines: int) -> int:
    """Return the number of occurrences from which a line is frequent: about the square root of the number of lines,
    as a power of two (as in xdiff).
    """
    return min(1 << ((lines.bit_length() + 1) // 2), 1024)


_ScriptSide = tuple[list[int], bytearray, bytearray]
"""Numbers of the lines, flags of those to compare, and the flags to set."""


def _mark_shortest_script(
    old: _ScriptSide, new: _ScriptSide, budget: DiffStepBudget, old_offset: int = 0, new_offset: int = 0
) -> None:
    """Flag the lines that a shortest script changes; lines not worth comparing count as changed."""
    old_ids, old_keep, old_flags = old
    new_ids, new_keep, new_flags = new
    old_at = [index for index, keep in enumerate(old_keep) if keep]
    new_at = [index for index, keep in enumerate(new_keep) if keep]
    old_changed, new_changed = bytearray(len(old_at)), bytearray(len(new_at))
    mark_changed_lines(
        [old_ids[at] for at in old_at], [new_ids[at] for at in new_at], old_changed, new_changed, budget
    )
    for ids, at, changed, flags, offset in (
        (old_ids, old_at, old_changed, old_flags, old_offset),
        (new_ids, new_at, new_changed, new_flags, new_offset),
    ):
        flags[offset : offset + len(ids)] = b"\1" * len(ids)
        for index, is_changed in zip(at, changed, strict=True):
            flags[offset + index] = is_changed


def _diff_anchored(old: list[Hashable], new: list[Hashable], old_flags: bytearray, new_flags: bytearray) -> None:
    """Cut at anchors, repeat that in each gap, and compare the parts without anchors."""
    budget = TOTAL_STEPS
    gaps = [(0, len(old), 0, len(new))]
    while gaps:
        old_start, old_end, new_start, new_end = trim_gap(old, new, gaps.pop())
        old_gap, new_gap = old[old_start:old_end], new[new_start:new_end]
        if set(old_gap).isdisjoint(new_gap):
            old_flags[old_start:old_end] = b"\1" * len(old_gap)
            new_flags[new_start:new_end] = b"\1" * len(new_gap)
            continue
        inner_gaps = find_gaps_between_anchors(old_gap, new_gap)
        if inner_gaps is not None:
            gaps.extend((old_start + a, old_start + b, new_start + c, new_start + d) for a, b, c, d in inner_gaps)
            continue
        old_ids, new_ids, _ = _number_lines(old_gap, new_gap)
        gap_budget = DiffStepBudget(min(GAP_STEPS, budget))
        gap_steps = gap_budget.steps
        old_side = (old_ids, flag_comparable_lines(old_ids, Counter(new_ids), 1024), old_flags)
        new_side = (new_ids, flag_comparable_lines(new_ids, Counter(old_ids), 1024), new_flags)
        _mark_shortest_script(old_side, new_side, gap_budget, old_start, new_start)
        budget -= gap_steps - gap_budget.steps
