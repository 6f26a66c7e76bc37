"""How many examples a property is tried with, where one of them takes long."""

from hypothesis import settings


def at_most(count: int) -> int:
    """So many, or as few as the profile of this run has for all properties."""
    return min(count, settings().max_examples)
