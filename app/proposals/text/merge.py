"""Three-way merge of line sequences (diff3).

Two changes that touch or overlap in the base form one region. Where both sides made of it the same, it is taken once;
otherwise it is a conflict. This is what `git merge-file` does, and wherever that merges cleanly the result here is
the same. S. Khanna, K. Kunal, B. Pierce, "A Formal Investigation of Diff3" (2007), has the theory.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.proposals.text.diff import LineChange, diff_lines

Line = TypeVar("Line", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MergeConflict(Generic[Line]):
    """A region that both sides changed, each in its own way."""

    base_start: int
    """First line of the region in the base, from 0."""
    ours_start: int
    """First line of the region in ours, from 0."""
    theirs_start: int
    """First line of the region in theirs, from 0."""
    merged_start: int
    """First line of the region in the merged lines, from 0."""
    base: tuple[Line, ...]
    ours: tuple[Line, ...]
    theirs: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class MergeResult(Generic[Line]):
    """The merged lines; where there is a conflict they hold our side, unless theirs was asked for."""

    lines: tuple[Line, ...]
    conflicts: tuple[MergeConflict[Line], ...]
    ours_changes: tuple[LineChange, ...]
    """From base to ours."""
    theirs_changes: tuple[LineChange, ...]
    """From base to theirs."""


def merge_lines(
    base: Sequence[Line], ours: Sequence[Line], theirs: Sequence[Line], *, favour_theirs: bool = False
) -> MergeResult[Line]:
    """Merge the changes that `ours` and `theirs` made to `base`. Lines are compared by equality and must be hashable.

    With `favour_theirs` the lines hold their side where there is a conflict.
    """
    ours_changes = diff_lines(base, ours, anchored=False)
    theirs_changes = diff_lines(base, theirs, anchored=False)
    merged: list[Line] = []
    conflicts: list[MergeConflict[Line]] = []
    at = our_shift = their_shift = 0
    for start, end, our_part, their_part in _regions(ours_changes, theirs_changes):
        merged += base[at:start]
        at = end
        our_start, their_start = start + our_shift, start + their_shift
        our_shift += sum(change.added - change.removed for change in our_part)
        their_shift += sum(change.added - change.removed for change in their_part)
        our_lines = list(ours[our_start : end + our_shift])
        their_lines = list(theirs[their_start : end + their_shift])
        conflict = our_part and their_part and our_lines != their_lines
        if conflict:
            conflicts.append(
                MergeConflict(
                    base_start=start,
                    ours_start=our_start,
                    theirs_start=their_start,
                    merged_start=len(merged),
                    base=tuple(base[start:end]),
                    ours=tuple(our_lines),
                    theirs=tuple(their_lines),
                )
            )
        merged += our_lines if our_part and not (conflict and favour_theirs) else their_lines
    merged += base[at:]
    return MergeResult(tuple(merged), tuple(conflicts), tuple(ours_changes), tuple(theirs_changes))


def _regions(
    ours: Sequence[LineChange], theirs: Sequence[LineChange]
) -> Iterator[tuple[int, int, list[LineChange], list[LineChange]]]:
    """Base ranges that hold changes which touch or overlap each other, with the changes of either side in them."""
    our_next = their_next = 0
    while our_next < len(ours) or their_next < len(theirs):
        our_first, their_first = our_next, their_next
        start = min(
            changes[at].old_start for changes, at in ((ours, our_next), (theirs, their_next)) if at < len(changes)
        )
        end = start
        grown = True
        while grown:
            grown = False
            while our_next < len(ours) and ours[our_next].old_start <= end:
                end = max(end, ours[our_next].old_end)
                our_next += 1
                grown = True
            while their_next < len(theirs) and theirs[their_next].old_start <= end:
                end = max(end, theirs[their_next].old_end)
                their_next += 1
                grown = True
        yield start, end, list(ours[our_first:our_next]), list(theirs[their_first:their_next])
