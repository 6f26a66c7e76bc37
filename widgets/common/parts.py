"""A line of parts that matter more or less: where there is no room for all, those that matter least go, whole.

Kept apart: the line above the diff and the status bar are both made of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content


class Part(NamedTuple):
    """One thing that a line says."""

    rank: int
    """How much it matters; the least goes first where there is no room."""
    content: Content
    at_right: bool = False


def line_of(parts: Sequence[Part], gap: str) -> Content:
    """The parts one after the other, with a gap between two."""
    return Content(gap).join(part.content for part in parts)


def fitting(parts: Sequence[Part], width: int, gap: str) -> list[Part]:
    """As many as there is room for, at least the one that matters most; none is ever cut in two."""
    kept = list(parts)
    while len(kept) > 1 and line_of(kept, gap).cell_length > width:
        kept.remove(min(kept, key=lambda part: part.rank))
    return kept
