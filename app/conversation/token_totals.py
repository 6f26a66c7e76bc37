"""Tokens and cost of several requests."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from app.llm.values.requests_and_updates import TokenUsage


class TokenTotals(NamedTuple):
    """Tokens of several requests, as their servers counted them, and their cost."""

    input: int = 0
    """Tokens read, those from a cache too."""
    cached: int = 0
    """Those of them that came from a cache."""
    output: int = 0
    """Tokens written, reasoning too."""
    cost: float | None = None
    """US dollars, as far as a price is known; None if none is."""

    def add(self, usage: "TokenUsage | None") -> "TokenTotals":
        """Return the totals with one more request."""
        if usage is None:
            return self
        cost = self.cost if usage.cost is None else (self.cost or 0.0) + usage.cost
        return TokenTotals(
            self.input + usage.prompt_tokens,
            self.cached + usage.cached_tokens,
            self.output + usage.completion_tokens,
            cost,
        )
