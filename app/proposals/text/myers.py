"""Shortest edit script between two runs of integers, within a budget of steps.

E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986), the linear-space variation:
find the middle of a shortest path from both ends, then do the same in the two halves. Among equally short scripts the
choice follows the order in which git walks the diagonals, so that a merge built on it agrees with git's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.proposals.text.anchors import Gap, trimmed

_UNREACHED = 1 << 60
_HOPELESS, _FAIR, _FREQUENT = 0, 1, 2
_KEEP = bytes([0, 1, 1]) + bytes(253)
_WINDOW = 100
"""How far around a frequent line its surroundings are looked at."""


@dataclass(slots=True)
class Budget:
    """How many more steps may be spent; below zero the rest is marked as changed without looking closer."""

    steps: int

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.steps < 0


def mark_changes(
    old: Sequence[int], new: Sequence[int], old_changed: bytearray, new_changed: bytearray, budget: Budget
) -> None:
    """Set the flags of the elements that a shortest script deletes from `old` and inserts from `new`.

    The flags are as long as the sequences and start at 0. When the budget runs out, what is left is marked whole.
    """
    stack = [(0, len(old), 0, len(new))]
    diagonals = len(old) + len(new) + 3
    forward = [0] * diagonals
    backward = [0] * diagonals
    while stack:
        old_start, old_end, new_start, new_end = box = trimmed(old, new, stack.pop())
        if old_start == old_end or new_start == new_end or budget.spent:
            split = None
        else:
            split = _middle(old, new, box, forward, backward, budget)
        if split is None:
            old_changed[old_start:old_end] = b"\1" * (old_end - old_start)
            new_changed[new_start:new_end] = b"\1" * (new_end - new_start)
            continue
        old_middle, new_middle = split
        stack.append((old_middle, old_end, new_middle, new_end))
        stack.append((old_start, old_middle, new_start, new_middle))


def _middle(  # noqa: PLR0912, PLR0915 - two mirrored sweeps over shared arrays; calls would cost more than the work
    old: Sequence[int],
    new: Sequence[int],
    box: Gap,
    forward: list[int],
    backward: list[int],
    budget: Budget,
) -> tuple[int, int] | None:
    """A point on a shortest path through the box where the searches from both corners meet, or None out of budget.

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


def worth_comparing(lines: Sequence[int], other_counts: Mapping[int, int], limit: int) -> bytearray:
    """Flags (1 = keep) of the lines worth comparing.

    A line that the other side lacks is out. A line that the other side has `limit` times or more is out when it
    stands among lines that are out: matching it would tie a block to an unrelated place (the idea is xdiff's).
    """
    counts = [other_counts.get(line, 0) for line in lines]
    kinds = bytearray([_HOPELESS if not count else _FREQUENT if count >= limit else _FAIR for count in counts])
    keep = bytearray(kinds.translate(_KEEP))
    if _HOPELESS not in kinds:
        return keep
    index = kinds.find(_FREQUENT)
    while index >= 0:
        if _adrift(kinds, index):
            keep[index] = 0
        index = kinds.find(_FREQUENT, index + 1)
    return keep


def _adrift(kinds: bytearray, index: int) -> bool:
    """Whether a frequent line stands between hopeless ones, with few frequent ones among them."""
    hopeless = 0
    frequent = 2
    for around in (kinds[max(index - _WINDOW, 0) : index][::-1], kinds[index + 1 : index + _WINDOW + 1]):
        end = around.find(_FAIR)
        near = around if end < 0 else around[:end]
        found = near.count(_HOPELESS)
        if not found:
            return False
        hopeless += found
        frequent += near.count(_FREQUENT)
    return frequent * 4 < frequent + hopeless
