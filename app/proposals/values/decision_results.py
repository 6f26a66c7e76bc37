"""Results of an edit and of a decision."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.proposals.values.decision_facts import FileStat, HunkFact
from app.proposals.values.models import Proposal

_NAMED_FILES = 3
"""Files that one line names as left out."""


@dataclass(frozen=True, slots=True)
class EditReport:
    """The effect of an edit on the draft."""

    files: tuple[FileStat, ...]
    text: str
    """For the model: the new version of each file, and how a place was found where it was not exact."""
    summary: str
    """One line for the user."""
    left_out: tuple[str, ...] = ()
    """Files whose part of a patch was passed over."""


def binary_note(paths: Sequence[str]) -> str:
    """Return what to add to a summary for the binary files that were left out of a patch."""
    if not paths:
        return ""
    more = f" and {len(paths) - _NAMED_FILES} more" if len(paths) > _NAMED_FILES else ""
    return f", without {', '.join(paths[:_NAMED_FILES])}{more} (binary)"


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """Result of a decision."""

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
