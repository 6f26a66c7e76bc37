"""The stack of pending proposals: each is based on the disk with all older ones applied."""

from collections.abc import Collection, Iterable

from app.proposals.files.filesystem import ReadableDisk
from app.proposals.overlay.overlay import Contents, Overlay
from app.proposals.values.models import Proposal
from app.proposals.values.pending_paths import parent_folders
from app.proposals.values.proposal_store import ProposalStore


def restack_proposals(
    filesystem: ReadableDisk, contents: Contents, proposals: Iterable[Proposal]
) -> tuple[Overlay, list[Proposal]]:
    """Re-base proposals, oldest first, each on the disk with those before it.

    Returns:
        The overlay of all of them, and those that came out different; their new contents are not yet saved.
    """
    overlay = Overlay(filesystem, contents)
    changed: list[Proposal] = []
    for proposal in proposals:
        moved = _rebased(overlay, proposal)
        if moved != proposal:
            changed.append(moved)
        overlay.pending.add_proposal(moved)
    return overlay, changed


def _rebased(overlay: Overlay, proposal: Proposal) -> Proposal:
    # Loaded once something waits.
    from app.proposals.stack.rebase import rebase

    return rebase(overlay, proposal)


def related_proposals(store: ProposalStore, paths: Collection[str] | None) -> list[Proposal]:
    """Return the pending proposals related to some paths, oldest first; None means all.

    That is each that changes one of them, a folder above or a file below, and each that is tied to such a one by
    another file: what they come to depends on all of these, and on no others.
    """
    if paths is None:
        return list(store.proposals(waiting_only=True))
    found: dict[str, Proposal] = {}
    asked: set[str] = set()
    frontier = set(paths)
    while frontier:
        asked |= frontier
        above = {folder for path in frontier for folder in parent_folders(path)}
        fresh = [each for each in store.waiting_on(frontier, above) if each.id not in found]
        found |= {each.id: each for each in fresh}
        frontier = {path for each in fresh for path in proposal_paths(each)} - asked
    return sorted(found.values(), key=lambda each: int(each.id[1:]))


def proposal_paths(proposal: Proposal) -> set[str]:
    """Return every path that a proposal names."""
    return {path for change in proposal.files for path in (change.path, change.old_path) if path}
