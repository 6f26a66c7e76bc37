"""Which removed line became which added line: for changed words, and for rows that stand side by side."""

import re
from collections.abc import Sequence

Pair = tuple[int | None, int | None]
"""An old and a new line, by their number in the hunk; None where a line has no counterpart."""

ALIGN_LIMIT = 900
"""The most comparisons that one hunk is worth; beyond it lines are paired in order."""

_SIMILAR = 0.4
"""The share of common words from which two lines count as one line, changed."""

_WORD = re.compile(r"\w+|[^\w\s]")


def in_order(old_count: int, new_count: int) -> bool:
    """Whether a hunk of this size is paired line by line, without a look at its text."""
    return old_count == new_count or not old_count or not new_count or old_count * new_count > ALIGN_LIMIT


def pair_lines(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """Pair the lines of a hunk, in order, so that the most similar ones meet.

    Hunks with as many old as new lines are paired one to one. Others are aligned by the common words of their
    lines (a longest common subsequence, weighted by similarity), and what is left between two pairs shares rows.
    """
    if in_order(len(old), len(new)):
        return _in_order(0, len(old), 0, len(new))
    anchors = _anchors([set(_WORD.findall(line)) for line in old], [set(_WORD.findall(line)) for line in new])
    pairs: list[Pair] = []
    from_old = from_new = 0
    for at_old, at_new in [*anchors, (len(old), len(new))]:
        pairs += _in_order(from_old, at_old, from_new, at_new)
        if at_old < len(old):
            pairs.append((at_old, at_new))
        from_old, from_new = at_old + 1, at_new + 1
    return pairs


def are_similar(old: str, new: str) -> bool:
    """Whether two lines count as one line, changed."""
    return _similarity(set(_WORD.findall(old)), set(_WORD.findall(new))) > 0


def only_space_differs(old: str, new: str) -> bool:
    """Whether two different lines are the same without their whitespace."""
    return old != new and "".join(old.split()) == "".join(new.split())


def _in_order(from_old: int, to_old: int, from_new: int, to_new: int) -> list[Pair]:
    rows = max(to_old - from_old, to_new - from_new)
    return [
        (
            from_old + row if from_old + row < to_old else None,
            from_new + row if from_new + row < to_new else None,
        )
        for row in range(rows)
    ]


def _anchors(old: list[set[str]], new: list[set[str]]) -> list[tuple[int, int]]:
    """The chain of similar lines with the greatest sum of similarities."""
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    alike = [[_similarity(left, right) for right in new] for left in old]
    for row in range(len(old) - 1, -1, -1):
        for column in range(len(new) - 1, -1, -1):
            without = max(best[row + 1][column], best[row][column + 1])
            likeness = alike[row][column]
            best[row][column] = max(likeness + best[row + 1][column + 1], without) if likeness else without
    chain: list[tuple[int, int]] = []
    row = column = 0
    while row < len(old) and column < len(new):
        if alike[row][column] and best[row][column] == alike[row][column] + best[row + 1][column + 1]:
            chain.append((row, column))
            row, column = row + 1, column + 1
        elif best[row + 1][column] >= best[row][column + 1]:
            row += 1
        else:
            column += 1
    return chain


def _similarity(left: set[str], right: set[str]) -> float:
    """The share of common words (Jaccard index), 0 below the threshold."""
    smaller, larger = sorted((len(left), len(right)))
    if smaller < _SIMILAR * larger or not larger:
        return 0.0
    common = len(left & right)
    share = common / (smaller + larger - common)
    return share if share >= _SIMILAR else 0.0
