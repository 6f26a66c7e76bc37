"""Numbers of tokens and what they cost, in few words.

Kept apart: the status bar and the ends of turns say it alike.
"""

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from app.conversation.token_totals import TokenTotals
from app.text.plural import plural


class LinePart(NamedTuple):
    """One thing that a line says."""

    rank: int
    """How much it matters; the least goes first where there is no room."""
    content: Content
    at_right: bool = False


def line_of(parts: Sequence[LinePart], gap: str) -> Content:
    """The parts one after the other, with a gap between two."""
    return Content(gap).join(part.content for part in parts)


def fitting(parts: Sequence[LinePart], width: int, gap: str) -> list[LinePart]:
    """As many as there is room for, at least the one that matters most; none is ever cut in two."""
    kept = list(parts)
    while len(kept) > 1 and line_of(kept, gap).cell_length > width:
        kept.remove(min(kept, key=lambda part: part.rank))
    return kept


def thousands(number: int) -> str:
    """`940`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


def tokens(spent: TokenTotals) -> str:
    """`12.3k in (8.1k cached), 940 out`; empty if there are none."""
    if not spent.input:
        return plural(spent.output, "token") if spent.output else ""
    cached = f" ({thousands(spent.cached)} cached)" if spent.cached else ""
    return f"{thousands(spent.input)} in{cached}, {thousands(spent.output)} out"


def dollars(spent: TokenTotals) -> str:
    """`$0.042`; empty if no price is known or nothing was to be paid."""
    if not spent.cost:
        return ""
    return f"${spent.cost:.3f}" if spent.cost >= 0.001 else "< $0.001"
