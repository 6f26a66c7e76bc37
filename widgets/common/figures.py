"""Formats counts of tokens and costs, and selects the parts of a line that fit."""

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from app.conversation.token_totals import TokenTotals
from app.text.quantities import format_count


class RankedLinePart(NamedTuple):
    """A part of a line, with its importance for the case that not all parts fit."""

    rank: int
    """Importance; the part with the lowest rank is dropped first."""
    content: Content
    at_right: bool = False


def join_parts(parts: Sequence[RankedLinePart], gap: str) -> Content:
    """Return the parts joined by a gap."""
    return Content(gap).join(part.content for part in parts)


def select_fitting_parts(parts: Sequence[RankedLinePart], width: int, gap: str) -> list[RankedLinePart]:
    """Return as many complete parts as fit, at least the most important one."""
    fitting = list(parts)
    while len(fitting) > 1 and join_parts(fitting, gap).cell_length > width:
        fitting.remove(min(fitting, key=lambda part: part.rank))
    return fitting


def format_short_number(number: int) -> str:
    """Return a short number: `940`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


def format_tokens(spent: TokenTotals) -> str:
    """Return token counts for the user, such as `12.3k in (8.1k cached), 940 out`; empty without tokens."""
    if not spent.input:
        return format_count(spent.output, "token") if spent.output else ""
    cached = f" ({format_short_number(spent.cached)} cached)" if spent.cached else ""
    return f"{format_short_number(spent.input)} in{cached}, {format_short_number(spent.output)} out"


def format_dollars(spent: TokenTotals) -> str:
    """Return the cost for the user, such as `$0.042`; empty without a cost."""
    if not spent.cost:
        return ""
    return f"${spent.cost:.3f}" if spent.cost >= 0.001 else "< $0.001"
