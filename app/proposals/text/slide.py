"""Sliding the groups of a diff to the canonical place.

A group of inserted (or deleted) lines can move down by one when the line after it equals its first, and up when the
line before it equals its last: both describe the same two texts. Each group is moved up as far as it goes, which
joins it to the groups it meets, then down as far as it goes, and back up to the last place where it stood beside a
change of the other side. This is the rule that git's diff follows without its indent heuristic, and two diffs from
the same base must follow one rule for a three-way merge to see that their changes touch.
"""

from collections.abc import Hashable, Iterator, Sequence


def canonical_groups(
    old: Sequence[Hashable], new: Sequence[Hashable], old_changed: bytearray, new_changed: bytearray
) -> Iterator[tuple[int, int, int, int]]:
    """The changes `(old_start, old_end, new_start, new_end)` that the flags describe, slid and joined, in order.

    A group is kept as the number of unchanged lines before it, which is the same number on both sides, and its
    length.
    """
    old_groups = _groups(old_changed)
    new_groups = _groups(new_changed)
    old_groups = _compacted(old, old_groups, {key for key, _ in new_groups})
    new_groups = _compacted(new, new_groups, {key for key, _ in old_groups})
    deleted, inserted = dict(old_groups), dict(new_groups)
    removed_before = added_before = 0
    for key in sorted(deleted.keys() | inserted.keys()):
        removed, added = deleted.get(key, 0), inserted.get(key, 0)
        old_start, new_start = key + removed_before, key + added_before
        yield old_start, old_start + removed, new_start, new_start + added
        removed_before += removed
        added_before += added


def _groups(flags: bytearray) -> list[tuple[int, int]]:
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


def _compacted(lines: Sequence[Hashable], groups: list[tuple[int, int]], other: set[int]) -> list[tuple[int, int]]:
    """The groups of one side after sliding; `other` has the keys at which the other side has a group."""
    done: list[tuple[int, int]] = []
    changed_before = 0
    waiting = groups[::-1]
    while waiting:
        key, length = waiting.pop()
        while True:
            size = length
            start = key + changed_before
            while start and lines[start - 1] == lines[start + length - 1]:
                start -= 1
                key -= 1
                if done and done[-1][0] == key:
                    length += done[-1][1]
                    changed_before -= done[-1][1]
                    start -= done.pop()[1]
            highest = key
            beside = key if key in other else -1
            while start + length < len(lines) and lines[start] == lines[start + length]:
                start += 1
                key += 1
                if waiting and waiting[-1][0] == key:
                    length += waiting.pop()[1]
                if key in other:
                    beside = key
            if length == size:
                break
        if highest < key and beside >= 0:
            key = beside
        done.append((key, length))
        changed_before += length
    return done
