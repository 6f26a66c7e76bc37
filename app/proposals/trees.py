"""The two workspaces that a check of a proposal compares: with it, and without."""

import hashlib
import sys
from collections.abc import Collection
from dataclasses import dataclass

from app.proposals.draft import Draft
from app.proposals.laying import leaves
from app.proposals.models import Proposal
from app.proposals.overlay import Contents
from app.proposals.pending_paths import PendingPaths, parents, undecided
from app.proposals.stacking import paths_of
from app.proposals.store import ProposalStore
from app.sandbox.changes import Leaf, Pending


@dataclass(frozen=True, slots=True)
class Trees:
    """What lies over the disk with a proposal and what it stacks on, and what without the proposal."""

    after: Pending
    before: Pending
    files: tuple[str, ...]
    """Of what the proposal changes, the files that there are after it."""
    old_files: tuple[str, ...]
    """And those that there are before it."""

    @property
    def key(self) -> str:
        """The same for the same content at the same paths."""
        digest = hashlib.sha256()
        for over in (self.after, self.before):
            for path, leaf in sorted(over.items()):
                content = "" if leaf is None else f"{leaf.mode:o} {hashlib.sha256(leaf.data).hexdigest()}"
                digest.update(f"{path}\0{content}\0".encode("utf-8", "surrogateescape"))
            digest.update(b"\0")
        return digest.hexdigest()


def trees_of(store: ProposalStore, contents: Contents, proposal: Proposal) -> Trees:
    """Of what still waits of a proposal. Raises MissingContent."""
    if proposal.on_disk:
        return _trees_of_disk(contents, proposal)
    below = stacked_below(store, paths_of(proposal), int(proposal.id[1:]))
    changes = [change for change in proposal.files if undecided(change)]
    return Trees(
        after=_leaves(contents, [*below, proposal]),
        before=_leaves(contents, below),
        files=tuple(change.path for change in changes if change.result is not None),
        old_files=tuple(change.old_path or change.path for change in changes if change.base is not None),
    )


def _trees_of_disk(contents: Contents, proposal: Proposal) -> Trees:
    """Of what is on disk already: nothing has to lie over it with the proposal, and the bases without."""
    changes = [change for change in proposal.files if undecided(change)]
    before: dict[str, Leaf | None] = {change.path: None for change in changes}
    for change in changes:
        if change.base is not None:
            before[change.old_path or change.path] = Leaf(contents.get(change.base), change.base.mode)
    return Trees(
        after={},
        before=before,
        files=tuple(change.path for change in changes if change.result is not None),
        old_files=tuple(change.old_path or change.path for change in changes if change.base is not None),
    )


def trees_of_draft(store: ProposalStore, contents: Contents, draft: Draft) -> Trees:
    """Of a draft that is not a proposal yet. Raises MissingContent."""
    held = {path: one for path, one in draft.held.items() if one.changed}
    before = _leaves(contents, stacked_below(store, held.keys(), sys.maxsize))
    edits = {path: None if one.data is None else Leaf(one.data, one.mode) for path, one in held.items()}
    return Trees(
        after={**before, **edits},
        before=before,
        files=tuple(path for path, one in held.items() if one.data is not None),
        old_files=tuple(path for path, one in held.items() if one.base is not None),
    )


def stacked_below(store: ProposalStore, paths: Collection[str], number: int) -> list[Proposal]:
    """The waiting proposals that an edit of these paths stacks on, oldest first: and those that they stack on.

    Args:
        store: Where they are.
        paths: What the edit changes.
        number: Of the proposal with the edit; younger ones are not below it.
    """
    found: dict[int, Proposal] = {}
    frontier = [(set(paths), number)]
    while frontier:
        asked, above_it = frontier.pop()
        for each in store.waiting_on(asked, {folder for path in asked for folder in parents(path)}):
            its_number = int(each.id[1:])
            if its_number < above_it and its_number not in found:
                found[its_number] = each
                frontier.append((paths_of(each), its_number))
    return [found[its_number] for its_number in sorted(found)]


def _leaves(contents: Contents, proposals: Collection[Proposal]) -> dict[str, Leaf | None]:
    pending = PendingPaths()
    for proposal in proposals:
        pending.put(proposal)
    return leaves(contents, pending.known())
