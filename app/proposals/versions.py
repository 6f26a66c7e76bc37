"""What changed from one version of a proposal to the next: the diff between what either would write."""

from app.proposals.changes import make_change, next_number
from app.proposals.errors import UnknownProposal
from app.proposals.models import FileChange, FileDiff, FileVersion, Proposal
from app.proposals.overlay import Contents
from app.proposals.patch.exporting import file_diff
from app.proposals.store import ProposalStore


def version_diffs(store: ProposalStore, proposal_id: str) -> list[FileDiff]:
    """The files in which a proposal and the one that it supersedes differ, each with what either would write.

    A file that only one of the two touches is compared with what the workspace held for the other.

    Raises:
        UnknownProposal: one of the two does not exist; or the proposal supersedes none.
    """
    new = store.proposal(proposal_id)
    old = store.proposal(new.supersedes) if new is not None and new.supersedes else None
    if new is None or old is None:
        raise UnknownProposal(f"There is no earlier version of {proposal_id} to compare with.")
    contents = Contents(store)
    changes: list[FileChange] = []
    number = 1
    for path in dict.fromkeys((*_paths(old), *_paths(new))):
        before, after = _result(old, path, new), _result(new, path, old)
        if before == after:
            continue
        change = make_change(contents, path, before, after, next_number=number)
        changes.append(change)
        number = max(number, next_number([change]))
    return [file_diff(contents, change) for change in changes]


def _paths(proposal: Proposal) -> list[str]:
    """The files that exist before or after it."""
    return [path for change in proposal.files for path in (change.old_path, change.path) if path]


def _result(proposal: Proposal, path: str, other: Proposal) -> FileVersion | None:
    """What is at the path once the proposal is written."""
    for change in proposal.files:
        if change.path == path:
            return change.result
        if change.old_path == path:
            return None
    for change in other.files:
        if path in (change.old_path, change.path):
            # Untouched here, so it stays what the other found: a rename's base is at its old name.
            return change.base if path == (change.old_path or change.path) else None
    return None
