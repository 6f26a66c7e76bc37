"""How alike two lines are."""

MAX_CHARACTERS = 2_000
"""Longer lines are compared by this many first characters."""


def common_length(first: str, second: str) -> int:
    """The length of the longest common subsequence of characters.

    Bit-parallel, one row in one integer: M. Crochemore et al., "A fast and practical bit-vector algorithm for the
    longest common subsequence problem" (2001).
    """
    masks: dict[str, int] = {}
    for index, character in enumerate(first):
        masks[character] = masks.get(character, 0) | 1 << index
    everything = (1 << len(first)) - 1
    row = everything
    for character in second:
        matched = row & masks.get(character, 0)
        row = ((row + matched) | (row - matched)) & everything
    return len(first) - row.bit_count()


def alike(first: str, second: str, least: float) -> bool:
    """Whether the lines have a similarity (twice the common length over both lengths) of at least `least`."""
    if first == second:
        return True
    first, second = first[:MAX_CHARACTERS], second[:MAX_CHARACTERS]
    total = len(first) + len(second)
    if 2 * min(len(first), len(second)) < least * total:
        return False
    return 2 * common_length(first, second) >= least * total
