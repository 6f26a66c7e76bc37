"""What the user of the command line has to look at before it is approved: what has changed since it was shown.

Kept apart: a promise of its own, which showing and deciding share.
"""

from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import ChangedSinceSeen
from app.runtime.open_workspace import OpenWorkspace

_SETTING = "look_needed"


def refresh(runtime: OpenWorkspace) -> None:
    """Re-base what waits onto the disk as it is now, and note what has to be looked at again for that."""
    seen = {each.id: each.revision for each in runtime.service.pending()}
    for changed in runtime.service.refresh():
        if seen.get(changed.id) != changed.revision:
            look_needed(runtime, changed)


def look_needed(runtime: OpenWorkspace, proposal: Proposal) -> None:
    """Note that nobody was shown what the proposal would write now."""
    runtime.sessions.set_setting(f"{_SETTING}:{proposal.id}", str(proposal.revision))


def looked_at(runtime: OpenWorkspace, proposal_id: str) -> None:
    """Note that it was shown, or that it needs no look any more."""
    if runtime.sessions.setting(f"{_SETTING}:{proposal_id}") is not None:
        runtime.sessions.set_setting(f"{_SETTING}:{proposal_id}", None)


def check_looked_at(runtime: OpenWorkspace, proposal: Proposal) -> None:
    """Raise ChangedSinceSeen if the proposal has changed and was not shown since."""
    if runtime.sessions.setting(f"{_SETTING}:{proposal.id}") is not None:
        raise ChangedSinceSeen(
            f"{proposal.id} has changed since it was shown: `signoff show {proposal.id}` shows what it is now, "
            "and --force decides on it unseen."
        )
