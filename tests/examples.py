"""How much of what could be tried is tried: the profile of a run says how many examples a property has."""

from hypothesis import settings

STANDARD = 40
"""Examples of a property in CI; a quarter in an ordinary run, five while somebody works, 120 at length."""


def at_most(count: int) -> int:
    """So many examples in CI, where one of them takes long, and in the other profiles in proportion."""
    return max(2, count * settings().max_examples // STANDARD)


def every(distance: int) -> int:
    """How far what is tried of a long row lies apart: this far in CI, and in the other profiles in proportion."""
    return max(1, distance * STANDARD // settings().max_examples)
