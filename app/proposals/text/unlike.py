"""Which lines of a text are in none of the versions that somebody knows of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.proposals.text.diff import Change


@dataclass(frozen=True, slots=True)
class Span:
    """Lines `start` to `end` of a text, from 0; where the two are equal, lines are gone before `start`."""

    start: int
    end: int


def unlike(known: Sequence[Sequence[Change]]) -> tuple[Span, ...]:
    """The lines that differ from every known version: what comes from one or another of them is no news.

    Args:
        known: for each version the changes that lead from it to the text, in order.
    """
    if not known:
        return ()
    spans = [Span(change.new_start, change.new_end) for change in known[0]]
    for changes in known[1:]:
        spans = _in_both(spans, [Span(change.new_start, change.new_end) for change in changes])
    return tuple(spans)


def _in_both(ours: Sequence[Span], theirs: Sequence[Span]) -> list[Span]:
    """What lies in spans of both; a place where lines are gone lies in a span that it touches."""
    found: list[Span] = []
    one = other = 0
    while one < len(ours) and other < len(theirs):
        mine, their = ours[one], theirs[other]
        start, end = max(mine.start, their.start), min(mine.end, their.end)
        if start < end or (start == end and (mine.start == mine.end or their.start == their.end)):
            found.append(Span(start, end))
        if mine.end < their.end:
            one += 1
        else:
            other += 1
    return found
