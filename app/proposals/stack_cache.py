"""What waits, laid over the disk, kept from one staging to the next: a hundredth edit of a file costs no more than
the second.

Where a proposal stands depends on the stored proposals and on what was found on disk, and on nothing else. So it need
not be worked out again for as long as the store has had no other write and the disk is as it was found.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import RLock

from app.proposals.disk.filesystem import Readable
from app.proposals.disk.observed import Observed
from app.proposals.models import HunkState, Proposal
from app.proposals.overlay import Contents
from app.proposals.pending_paths import PendingPaths
from app.proposals.stacking import paths_of, related, restack
from app.proposals.store import ProposalStore


@dataclass(frozen=True, slots=True)
class Stack:
    """Waiting proposals that have to do with each other, each of which fits the disk with those before it."""

    paths: frozenset[str]
    """Every path that one of them names, or that was asked for."""
    disk: Observed
    """What they were found to fit."""
    denied: tuple[Proposal, ...] = ()
    """Those of them of which the user has denied a part."""


class StackCache:
    """The stacks of one workspace; used under its lock, but for `pending`, which any thread may call."""

    def __init__(
        self, store: ProposalStore, filesystem: Readable, contents: Contents, save: Callable[..., None]
    ) -> None:
        """Nothing is read yet.

        Args:
            store: Has what waits.
            filesystem: The disk.
            contents: Where the bytes are.
            save: Called with the proposals that had to be re-based.
        """
        self._store = store
        self._filesystem = filesystem
        self._contents = contents
        self._save = save
        self._lock = RLock()
        self._generation: tuple[int, ...] = ()
        self._pending = PendingPaths()
        self._stacks: dict[str, Stack] = {}
        """By each path that one is about."""

    def pending(self) -> PendingPaths:
        """What the waiting proposals put at each path, as they are stored now."""
        with self._lock:
            generation = self._store.generation()
            if generation != self._generation:
                self._pending = PendingPaths(lambda paths: related(self._store, paths))
                self._stacks = {}
                self._generation = generation
            return self._pending

    def stack(self, paths: Collection[str]) -> Stack:
        """What waits and has to do with some paths, each re-based on the disk with those before it, and saved."""
        if known := self._known(paths):
            return known
        disk = Observed(self._filesystem)
        proposals = related(self._store, paths)
        _, moved = restack(disk, self._contents, proposals)
        if moved:
            self._save(*moved)
            proposals = related(self._store, paths)
        every = frozenset(path for each in proposals for path in paths_of(each)).union(paths)
        self.pending().know(every)
        denied = (each for each in proposals if any(hunk.state is HunkState.DENIED for hunk in each.hunks))
        return Stack(every, disk, tuple(denied))

    def _known(self, paths: Collection[str]) -> Stack | None:
        """The stack on some paths that was worked out before, if the disk is still as it was then."""
        self.pending()
        if not paths or not all(path in self._stacks for path in paths):
            return None
        stacks = {id(stack): stack for stack in map(self._stacks.__getitem__, paths)}.values()
        if not all(stack.disk.holds() for stack in stacks):
            return None
        first, *others = stacks
        for other in others:
            first.disk.take_over(other.disk)
        every = frozenset(path for stack in stacks for path in stack.paths)
        return Stack(every, first.disk, tuple(each for stack in stacks for each in stack.denied))

    def staged(self, stack: Stack, proposal: Proposal) -> None:
        """Take in a proposal that fits on top of a stack and was stored just now: the only write since."""
        longer = Stack(stack.paths | paths_of(proposal), stack.disk, stack.denied)
        with self._lock:
            self._generation = self._store.generation()
            # Unless another thread has asked meanwhile, and all was forgotten, these are known.
            self._pending.know(longer.paths)
            self._pending.put(proposal)
            self._stacks |= dict.fromkeys(longer.paths, longer)
