"""Tokens and cost of several requests."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from app.llm.values.requests_and_updates import TokenUsage


class TokenTotals(NamedTuple):
    """Sum of the tokens of several requests, as counted by their servers, and of their cost."""

    input: int = 0
    """Tokens read, including cached ones."""
    cached: int = 0
    """Tokens read from a cache."""
    output: int = 0
    """Tokens written, including reasoning."""
    cost: float | None = None
    """US dollars of the requests with a known price; None if there is none."""

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
