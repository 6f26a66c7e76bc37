"""Anchors of a diff: lines that occur once in each text, in the longest common order.

This is Bram Cohen's patience diff. Where no such line has moved, which is nearly always, the stretches that differ
are found without a look at each line that is equal: equal runs are compared as slices, in C.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

Gap = tuple[int, int, int, int]
"""`old[a:b]` against `new[c:d]`."""


def gaps_between_anchors(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Gap] | None:
    """The stretches between lines that occur once on each side, in the same order; None without such a line.

    The two must differ in their first line and in their last, else the whole could be its own gap.
    """
    old_counts, new_counts = Counter(old), Counter(new)
    if not any(count == 1 and new_counts.get(line) == 1 for line, count in old_counts.items()):
        return None
    gaps = _gaps_in_order(old, new, old_counts, new_counts)
    return _gaps_with_moves(old, new, old_counts, new_counts) if gaps is None else gaps


def count_equal(old: Sequence[Hashable], new: Sequence[Hashable], old_start: int, new_start: int) -> int:
    """Return how many lines from here on are equal."""
    limit = min(len(old) - old_start, len(new) - new_start)
    length, step = 0, 1

    def goes_on() -> bool:
        at, other = old_start + length, new_start + length
        return length + step <= limit and old[at : at + step] == new[other : other + step]

    while goes_on():
        length += step
        step *= 2
    while step > 1:
        step //= 2
        if goes_on():
            length += step
    return length


def trim_gap(old: Sequence[Hashable], new: Sequence[Hashable], gap: Gap) -> Gap:
    """Return a gap without the equal elements at its start, then without those at its end."""
    old_start, old_end, new_start, new_end = gap
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start += 1
        new_start += 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end -= 1
        new_end -= 1
    return old_start, old_end, new_start, new_end


def _gaps_in_order(
    old: Sequence[Hashable],
    new: Sequence[Hashable],
    old_counts: Mapping[Hashable, int],
    new_counts: Mapping[Hashable, int],
) -> list[Gap] | None:
    """The gaps if all anchors come in the same order on both sides, else None."""

    def next_anchor(lines: Sequence[Hashable], at: int) -> int:
        while at < len(lines) and not (old_counts.get(lines[at]) == 1 == new_counts.get(lines[at])):
            at += 1
        return at

    gaps: list[Gap] = []
    old_at = new_at = 0
    while True:
        run = count_equal(old, new, old_at, new_at)
        old_at += run
        new_at += run
        if old_at == len(old) and new_at == len(new):
            return gaps
        old_end, new_end = next_anchor(old, old_at), next_anchor(new, new_at)
        if old[old_end : old_end + 1] != new[new_end : new_end + 1]:
            return None
        gaps.append((old_at, old_end, new_at, new_end))
        old_at, new_at = old_end, new_end


def _gaps_with_moves(
    old: Sequence[Hashable],
    new: Sequence[Hashable],
    old_counts: Mapping[Hashable, int],
    new_counts: Mapping[Hashable, int],
) -> list[Gap]:
    """The gaps between as many anchors as possible."""
    new_index = {line: index for index, line in enumerate(new) if new_counts[line] == 1}
    pairs = [
        (index, new_index[line]) for index, line in enumerate(old) if line in new_index and old_counts[line] == 1
    ]
    gaps: list[Gap] = []
    old_at = new_at = 0
    for old_anchor, new_anchor in [*_longest_increasing(pairs), (len(old), len(new))]:
        if old_anchor > old_at or new_anchor > new_at:
            gaps.append((old_at, old_anchor, new_at, new_anchor))
        old_at, new_at = old_anchor + 1, new_anchor + 1
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
    result = []
    index = top_pairs[-1]
    while index >= 0:
        result.append(pairs[index])
        index = before[index]
    result.reverse()
    return result
