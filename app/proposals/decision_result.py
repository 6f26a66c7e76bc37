"""What a decision came to, for those who record it and those who tell of it."""

from dataclasses import dataclass

from app.proposals.facts import FileStat, HunkFact
from app.proposals.models import Proposal


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What a decision came to."""

    proposal: Proposal
    """As it stands now."""
    files: tuple[FileStat, ...] = ()
    """The files that the decision was about, with the lines that it wrote or discarded."""
    hunks: tuple[HunkFact, ...] = ()
    """Every hunk that was pending, if the decision was not on the whole proposal."""
    changed: tuple[Proposal, ...] = ()
    """Other proposals that were re-based or turned stale because of it."""
    denial: bool = False
    """Whether what was undone or redone is a denial."""
