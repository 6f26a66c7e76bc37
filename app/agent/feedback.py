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
        self.latest = 0
        """Id of the event that has it."""
        self._unanswered: list[str] = []

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The denied proposals whose feedback a next one may answer, the latest first."""
        return tuple(reversed(self._unanswered))

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case ProposalDecided():
                self._decided(event)
            case RequestSent(closing=False):
                # In the closing request the model reads the feedback but can do nothing about it.
                self.undelivered = False
            case ProposalStaged() if event.supersedes in self._unanswered:
                self._unanswered.remove(event.supersedes)
            case TurnStarted(cause="message") if not self.undelivered:
                self._unanswered.clear()

    def _decided(self, event: ProposalDecided) -> None:
        speaks = bool(event.feedback.strip() or event.comments)
        if speaks:
            self.undelivered, self.latest = True, event.id
        # A denied one that was reopened stands for itself again; what the user said stays said.
        if event.proposal in self._unanswered and (speaks or event.decision is Decision.REOPENED):
            self._unanswered.remove(event.proposal)
        if speaks and event.decision is Decision.DENIED:
            self._unanswered.append(event.proposal)
