"""Proposals that must be shown before the command line may approve them: they changed since they were shown."""

from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import ChangedSinceSeen
from app.runtime.open_workspace import OpenWorkspace

_SETTING = "look_needed"


def refresh_proposals(runtime: OpenWorkspace) -> None:
    """Re-base waiting proposals onto the disk, and note those that changed by it."""
    seen = {each.id: each.revision for each in runtime.service.pending()}
    for changed in runtime.service.refresh():
        if seen.get(changed.id) != changed.revision:
            mark_unseen(runtime, changed)


def mark_unseen(runtime: OpenWorkspace, proposal: Proposal) -> None:
    """Record that the current text of a proposal was not shown to anybody."""
    runtime.sessions.set_setting(f"{_SETTING}:{proposal.id}", str(proposal.revision))


def mark_seen(runtime: OpenWorkspace, proposal_id: str) -> None:
    """Record that a proposal was shown, or need not be shown any more."""
    if runtime.sessions.setting(f"{_SETTING}:{proposal_id}") is not None:
        runtime.sessions.set_setting(f"{_SETTING}:{proposal_id}", None)


def check_seen(runtime: OpenWorkspace, proposal: Proposal) -> None:
    """Raise `ChangedSinceSeen` if the proposal has changed since it was shown."""
    if runtime.sessions.setting(f"{_SETTING}:{proposal.id}") is not None:
        raise ChangedSinceSeen(
            f"{proposal.id} has changed since it was shown: `signoff show {proposal.id}` shows what it is now, "
            "and --force decides on it unseen."
        )
