"""The stack of waiting proposals: each stands on the disk with all older ones in place."""

from collections.abc import Iterable

from app.proposals.filesystem import Filesystem
from app.proposals.models import Proposal
from app.proposals.overlay import Contents, Overlay
from app.proposals.rebase import rebase


def restack(
    filesystem: Filesystem, contents: Contents, proposals: Iterable[Proposal]
) -> tuple[Overlay, list[Proposal]]:
    """Re-base proposals, oldest first, each on the disk with those before it.

    Returns:
        The overlay of all of them, and those that came out different; their new contents are not yet saved.
    """
    overlay = Overlay(filesystem, contents)
    changed: list[Proposal] = []
    for proposal in proposals:
        moved = rebase(overlay, proposal)
        if moved != proposal:
            changed.append(moved)
        overlay.put(moved)
    return overlay, changed
