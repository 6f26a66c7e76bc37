"""Feedback that the user gave with a decision: whether the model has yet to act on it, and what answers it."""

from app.conversation.events import (
    Decision,
    Event,
    ProposalDecided,
    ProposalStaged,
    RequestSent,
    TurnStarted,
)


class Feedback:
    """Fold: attach it to the log."""

    def __init__(self) -> None:
        self.undelivered = False
        """No request in which the model may act has carried the latest feedback."""
        self.proposal = ""
        """The denied proposal whose feedback the next proposal answers; empty if there is none."""

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case ProposalDecided() if event.feedback.strip() or event.comments:
                self.undelivered = True
                if event.decision is Decision.DENIED:
                    self.proposal = event.proposal
            case ProposalDecided(decision=Decision.REOPENED) if event.proposal == self.proposal:
                # It stands for itself again; what the user said stays said.
                self.proposal = ""
            case RequestSent(closing=False):
                # In the closing request the model reads the feedback but can do nothing about it.
                self.undelivered = False
            case ProposalStaged():
                self.proposal = ""
            case TurnStarted(cause="message") if not self.undelivered:
                self.proposal = ""
