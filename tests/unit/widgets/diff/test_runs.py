"""Runs of equal looks: every character once, with the uppermost stretch and all marks that are on it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from widgets.diff.syntax_tokens import Flagged, Stretch, clipped, overlaid, runs

LENGTH = 30

RANGE = st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted).filter(lambda ends: ends[0] < ends[1])


@st.composite
def apart(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ranges in order that don't overlap."""
    ends = sorted(draw(st.sets(st.integers(0, LENGTH), max_size=10)))
    return [(begin, end) for number, (begin, end) in enumerate(pairwise(ends)) if number % 2 == 0]


@given(apart(), apart(), st.lists(st.tuples(RANGE, st.sampled_from([1, 2, 4])), max_size=4))
def test_each_character_has_the_looks_of_what_lies_on_it(
    tokens: list[tuple[int, int]], words: list[tuple[int, int]], flags: list[tuple[list[int], int]]
) -> None:
    under: list[Stretch] = [(begin, end, f"token {begin}") for begin, end in tokens]
    marks: list[Flagged] = [(begin, end, bit) for (begin, end), bit in flags]
    looks: list[tuple[str, int]] = []
    for start, end, name, marked in runs(LENGTH, overlaid(under, words, "word"), marks):
        assert start == len(looks) < end
        looks += [(name, marked)] * (end - start)
    assert len(looks) == LENGTH
    for at, (name, marked) in enumerate(looks):
        token = next((name for begin, end, name in under if begin <= at < end), "")
        assert name == ("word" if any(begin <= at < end for begin, end in words) else token)
        expected = 0
        for begin, end, bit in marks:
            expected |= bit if begin <= at < end else 0
        assert marked == expected


@given(apart(), RANGE)
def test_what_is_clipped_lies_within(tokens: list[tuple[int, int]], window: list[int]) -> None:
    first, last = window
    found = clipped([(begin, end, "") for begin, end in tokens], first, last)
    shown = {at for begin, end, _ in found for at in range(begin, end)}
    assert shown == {at for begin, end in tokens for at in range(begin, end) if first <= at < last}
