"""Fold: the pending proposals of a session, and how the last decisions went."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.conversation.decision_words import format_files
from app.conversation.events import Decision, Event, ProposalChanged, ProposalDecided, ProposalStaged
from app.proposals.values.decision_facts import FileStat

_OVER = frozenset({"applied", "denied", "superseded", "undone", "failed"})


@dataclass(frozen=True, slots=True)
class PendingProposal:
    """A proposal that the user has not finished deciding."""

    id: str
    summary: str
    files: tuple[FileStat, ...]
    partly_decided: bool = False
    state: str = "pending"
    """`stale` where the file has moved on."""
    reason: str = ""

    def describe(self) -> str:
        """Return one line for the model."""
        notes = [self.state] if self.state != "pending" else []
        notes += ["some hunks decided"] if self.partly_decided else []
        notes += [self.reason] if self.reason else []
        note = f" ({'; '.join(notes)})" if notes else ""
        return f"{self.id}{note}: {self.summary or 'no summary'} [{format_files(self.files)}]"


class PendingProposals:
    """Fold: the proposals that await a decision, oldest first, and the denials since the last approval."""

    def __init__(self) -> None:
        self._waiting: dict[str, PendingProposal] = {}
        self._denied: dict[str, PendingProposal] = {}
        """As they were before they were denied."""
        self._row: frozenset[str] = frozenset()
        """Ids of the proposals that were denied since the user last approved anything."""
        self.proposed: set[str] = set()
        """Ids of all that the model has proposed, as far as this log knows."""

    @property
    def denials_in_row(self) -> int:
        """Return how many whole proposals of the model were denied since the last approval; patches of the user don't
        count."""
        return len(self._row)

    @property
    def pending(self) -> tuple[PendingProposal, ...]:
        """Return the proposals that the user has still to decide."""
        return tuple(self._waiting.values())

    def count_denials_after(self, events: Iterable[Event]) -> int:
        """Return `denials_in_row` as it will be once these events are recorded too."""
        row = self._row
        for event in events:
            if isinstance(event, ProposalDecided):
                row = self._row_after(row, event)
        return len(row)

    def _row_after(self, row: frozenset[str], decided: ProposalDecided) -> frozenset[str]:
        """The proposals denied in a row, once this is decided too."""
        if decided.proposal not in self.proposed:
            return row
        match decided.decision:
            case Decision.APPROVED | Decision.PARTLY_APPROVED:
                return frozenset()
            case Decision.DENIED if not decided.still_pending:
                return row | {decided.proposal}
            case Decision.REOPENED:
                return row - {decided.proposal}
        return row

    def apply(self, event: Event) -> None:
        """Update the state from the next event."""
        match event:
            case ProposalStaged():
                self.proposed.add(event.proposal)
                self._waiting[event.proposal] = PendingProposal(event.proposal, event.summary, event.files)
                self._waiting.pop(event.supersedes, None)
            case ProposalDecided():
                self._decided(event)
            case ProposalChanged() if event.state in _OVER:
                self._waiting.pop(event.proposal, None)
            case ProposalChanged():
                if known := self._waiting.get(event.proposal):
                    self._waiting[event.proposal] = replace(known, state=event.state, reason=event.reason)

    def _decided(self, decided: ProposalDecided) -> None:
        self._row = self._row_after(self._row, decided)
        match decided.decision:
            case Decision.DENIED if not decided.still_pending:
                if known := self._waiting.get(decided.proposal):
                    self._denied[decided.proposal] = known
            case Decision.REOPENED:
                if known := self._denied.pop(decided.proposal, None):
                    self._waiting[decided.proposal] = known
                return
            case Decision.EDITED:
                return
        known = self._waiting.pop(decided.proposal, None)
        if known is not None and decided.still_pending:
            self._waiting[decided.proposal] = replace(known, partly_decided=True)
