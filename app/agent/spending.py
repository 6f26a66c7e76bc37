"""What a session has used, as its servers counted it."""

from app.conversation.events import AssistantMessage, Event


class Spending:
    """Fold: attach it to the log."""

    def __init__(self) -> None:
        self.tokens = 0
        """Tokens in and out, over all requests."""
        self.cost = 0.0
        """US dollars, where servers said so."""

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        if isinstance(event, AssistantMessage) and event.usage is not None:
            self.tokens += event.usage.prompt_tokens + event.usage.completion_tokens
            self.cost += event.usage.cost or 0.0
