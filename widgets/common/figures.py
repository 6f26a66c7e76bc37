"""Numbers of tokens and what they cost, in few words.

Kept apart: the status bar and the ends of turns say it alike.
"""

from app.conversation.spent import Spent
from app.text.plural import plural


def thousands(number: int) -> str:
    """`940`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


def tokens(spent: Spent) -> str:
    """`12.3k in (8.1k cached), 940 out`; empty if there are none."""
    if not spent.input:
        return plural(spent.output, "token") if spent.output else ""
    cached = f" ({thousands(spent.cached)} cached)" if spent.cached else ""
    return f"{thousands(spent.input)} in{cached}, {thousands(spent.output)} out"


def dollars(spent: Spent) -> str:
    """`$0.042`; empty if no price is known or nothing was to be paid."""
    if not spent.cost:
        return ""
    return f"${spent.cost:.3f}" if spent.cost >= 0.001 else "< $0.001"
