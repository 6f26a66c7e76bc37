"""Lines that were signed among others: approvals carried over unsigned changes, and what is still there of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.proposals.text.diff import Change, diff

Lines = Sequence[bytes]
LineChanges = Sequence[Change]


def carried(base: Lines, signed: Lines, onto: Lines, git: Lines) -> list[bytes]:
    """The lines of `onto` with what an approval has made of `base`, which differs from them by unsigned changes.

    Args:
        base: What the approval was about.
        signed: What it has left.
        onto: What was signed before it.
        git: What git has. A line of it that an unsigned change has removed is not signed away by an approval of what
            stands in its place.
    """
    own = [False] * len(onto)
    for change in diff(git, onto):
        own[change.new_start : change.new_end] = [True] * change.added

    def is_overwritten(change: Change, theirs: LineChanges) -> bool:
        """Whether what unsigned changes have made of signed lines is all replaced, and no line of git's was there."""
        within = any(each.old_start <= change.old_start and change.old_end <= each.old_end for each in theirs)
        return within and all(own[change.new_start : change.new_end])

    def resolved(region: _Region) -> Lines:
        if not region.our_part or region.ours == region.theirs:
            return region.theirs
        if not region.their_part:
            return region.ours
        if not region.base:
            # Each has only put lines in.
            return [*region.ours, *region.theirs]
        if not all(is_overwritten(change, region.their_part) for change in region.our_part if change.added):
            return region.ours
        unsigned = {at for change in region.our_part for at in range(change.old_start, change.old_end)}
        found: list[bytes] = []
        at = region.start
        for change in region.their_part:
            found += [base[line] for line in range(at, change.old_start) if line not in unsigned]
            found += signed[change.new_start : change.new_end]
            at = change.old_end
        end = region.start + len(region.base)
        return [*found, *(base[line] for line in range(at, end) if line not in unsigned)]

    return _combined(base, onto, signed, resolved)


def still_there(git: Lines, signed: Lines, there: Lines, *, connected: bool) -> list[bytes]:
    """The signed lines without what the user has put back since to what git has.

    Args:
        git: What git has.
        signed: The same with all that was signed.
        there: What there is.
        connected: Whether an approval began or ended with what git has. If none did, the older ones may have been
            committed and changed since: then signed lines that neither has are none.
    """

    def resolved(region: _Region) -> Lines:
        if not region.our_part or not region.their_part:
            return region.base
        if region.ours == region.theirs:
            return region.theirs
        if connected:
            return region.base
        added = {at for theirs in region.their_part for at in range(theirs.old_start, theirs.old_end)}
        gone = {at for ours in region.our_part for at in range(ours.old_start, ours.old_end)}
        return [line for at, line in enumerate(region.base, region.start) if at not in added & gone]

    return _combined(signed, there, git, resolved)


def made(old: Lines, new: Lines) -> set[tuple[int, int, tuple[bytes, ...]]]:
    """What each hunk replaces, and by which lines."""
    return {(each.old_start, each.old_end, tuple(new[each.new_start : each.new_end])) for each in diff(old, new)}


@dataclass(frozen=True, slots=True)
class _Region:
    """Lines that either side has changed, with no line between that both have kept."""

    start: int
    """The first line of it in the base."""
    base: Lines
    ours: Lines
    theirs: Lines
    our_part: LineChanges
    their_part: LineChanges


def _combined(base: Lines, ours: Lines, theirs: Lines, resolve: Callable[[_Region], Lines]) -> list[bytes]:
    """The lines of `base` that both sides have kept, with what `resolve` makes of each region that one changed."""
    found: list[bytes] = []
    at = our_shift = their_shift = 0
    for our_part, their_part in _grouped(diff(base, ours), diff(base, theirs)):
        parts = (*our_part, *their_part)
        start, end = min(part.old_start for part in parts), max(part.old_end for part in parts)
        found += base[at:start]
        at = end
        our_start, their_start = start + our_shift, start + their_shift
        our_shift += sum(part.added - part.removed for part in our_part)
        their_shift += sum(part.added - part.removed for part in their_part)
        region = _Region(
            start,
            base[start:end],
            ours[our_start : end + our_shift],
            theirs[their_start : end + their_shift],
            our_part,
            their_part,
        )
        found += resolve(region)
    return [*found, *base[at:]]


def _grouped(ours: LineChanges, theirs: LineChanges) -> Iterator[tuple[list[Change], list[Change]]]:
    """The changes of both sides in order, those together that overlap or put lines in at one place."""
    waiting = sorted(
        [*((change, 0) for change in ours), *((change, 1) for change in theirs)],
        key=lambda each: (each[0].old_start, each[0].old_end, each[1]),
    )
    group: tuple[list[Change], list[Change]] = ([], [])
    start = end = -1
    for change, side in waiting:
        overlaps = change.old_start < end or (change.old_start, change.old_end) == (start, end)
        if not overlaps and end >= 0:
            yield group
            group = ([], [])
        if not overlaps:
            start = change.old_start
        end = max(end, change.old_end) if overlaps else change.old_end
        group[side].append(change)
    if end >= 0:
        yield group
