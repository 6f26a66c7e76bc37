"""Stretches of a line that lie over each other, as runs of equal looks that don't."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

Stretch = tuple[int, int, str]
"""Characters from, to, and a component class. Those of a line are in order and don't overlap."""

Flagged = tuple[int, int, int]
"""Characters from, to, and marks, one a bit; in any order, over each other and over stretches."""

Run = tuple[int, int, str, int]
"""Characters from, to, the class of the stretch that they are in or nothing, and their marks."""


def clipped(stretches: Sequence[Stretch], first: int, last: int) -> list[Stretch]:
    """What of these is between two characters."""
    return [
        (max(begin, first), min(end, last), name) for begin, end, name in stretches if begin < last and end > first
    ]


def overlaid(stretches: Sequence[Stretch], upper: Sequence[tuple[int, int]], name: str) -> list[Stretch]:
    """Stretches with others, all of one class, laid over them."""
    found: list[Stretch] = []
    at = 0
    for begin, end in upper:
        found += clipped(stretches, at, begin)
        found.append((begin, end, name))
        at = end
    if stretches:
        found += clipped(stretches, at, stretches[-1][1])
    return found


def runs(length: int, stretches: Sequence[Stretch], flags: Sequence[Flagged]) -> Iterator[Run]:
    """A line of so many characters, in order, from one place where its looks change to the next."""
    edges = sorted({edge for begin, end, _ in flags for edge in (begin, end)})
    for start, end, name, _ in _plain_runs(length, stretches):
        cuts = [start, *(edge for edge in edges if start < edge < end), end]
        for low, high in pairwise(cuts):
            marked = 0
            for begin, stop, flag in flags:
                if begin <= low < stop:
                    marked |= flag
            yield low, high, name, marked


def _plain_runs(length: int, stretches: Sequence[Stretch]) -> Iterator[Run]:
    at = 0
    for begin, end, name in stretches:
        if begin > at:
            yield at, begin, "", 0
        yield begin, end, name, 0
        at = end
    if at < length:
        yield at, length, "", 0
