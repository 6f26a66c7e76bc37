"""What lies over the disk, as a command is to find it there.

Kept apart: a draft and the service both give it, and neither is what the other is made of.
"""

from collections.abc import Mapping

from app.proposals.models import Proposal
from app.proposals.overlay import Contents
from app.proposals.pending_paths import Pending, PendingPaths
from app.proposals.stacking import paths_of, related
from app.proposals.store import ProposalStore
from app.sandbox.changes import Leaf


def leaves(contents: Contents, pending: Mapping[str, Pending]) -> dict[str, Leaf | None]:
    """The files of pending changes with their bytes, None for what is gone. Raises MissingContent."""
    found: dict[str, Leaf | None] = {}
    for path, entry in pending.items():
        version = entry.version
        found[path] = None if version is None else Leaf(contents.get(version), version.mode, entry.since)
    return found


def alone(contents: Contents, store: ProposalStore, proposal: Proposal) -> dict[str, Leaf | None]:
    """What lies over the disk with one waiting proposal and the older ones that it stacks on, and no others.

    Raises:
        MissingContent: a content is neither in memory nor in the store.
    """
    older = [each for each in related(store, paths_of(proposal)) if int(each.id[1:]) < int(proposal.id[1:])]
    stack, paths = [proposal], paths_of(proposal)
    for each in reversed(older):
        if not paths.isdisjoint(paths_of(each)):
            stack.append(each)
            paths |= paths_of(each)
    pending = PendingPaths()
    for each in reversed(stack):
        pending.put(each)
    return leaves(contents, pending.known())
