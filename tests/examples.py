"""Scale the number of examples and steps to the hypothesis profile of the run."""

from hypothesis import settings

STANDARD = 40
"""Examples of a property in CI; an ordinary run has a quarter of them, `quick` has five, `soak` has 120."""


def scale_examples(count: int) -> int:
    """Return the number of examples in this profile for a slow test that has `count` examples in CI."""
    return max(2, count * settings().max_examples // STANDARD)


def scale_step(distance: int) -> int:
    """Return the step width in this profile for a test that tries scale_step `distance`th step in CI."""
    return max(1, distance * STANDARD // settings().max_examples)
