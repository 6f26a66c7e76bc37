"""How many examples a property is tried with, where one of them takes long."""

from hypothesis import settings

STANDARD = 40
"""Examples of any other property, unless the profile of this run says otherwise."""


def at_most(count: int) -> int:
    """So many, as few as the profile of this run has for all properties, or so many times more as it has."""
    examples = settings().max_examples
    return min(count, examples) if examples <= STANDARD else count * examples // STANDARD
