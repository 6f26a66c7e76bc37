"""The stack of pending proposals, each based on the disk with all older ones applied, and a cache for it."""

from collections.abc import Callable, Collection, Iterable
from threading import RLock

from msgspec import Struct

from app.proposals.files.filesystem import DiskFile, Kind, ReadableDisk
from app.proposals.files.overlay import ContentStore, Overlay
from app.proposals.values.models import FileVersion, HunkState, Proposal
from app.proposals.values.pending_paths import PendingChangesByPath, parent_folders
from app.proposals.values.proposal_store import ProposalStore


def restack_and_list_changed(
    filesystem: ReadableDisk, contents: ContentStore, proposals: Iterable[Proposal]
) -> tuple[Overlay, list[Proposal]]:
    """Re-base proposals, oldest first, each on the disk with those before it.

    Returns:
        The overlay of all of them, and the changed ones; their new contents are not yet saved.
    """
    overlay = Overlay(filesystem, contents)
    changed: list[Proposal] = []
    for proposal in proposals:
        rebased = _rebase(overlay, proposal)
        if rebased != proposal:
            changed.append(rebased)
        overlay.pending.add_proposal(rebased)
    return overlay, changed


def _rebase(overlay: Overlay, proposal: Proposal) -> Proposal:
    # Imported at first use: it is not needed while nothing is pending.
    from app.proposals.stack.rebase import rebase_proposal

    return rebase_proposal(overlay, proposal)


def related_pending_proposals(store: ProposalStore, paths: Collection[str] | None) -> list[Proposal]:
    """Return the pending proposals related to some paths, oldest first; None means all.

    A proposal is related if it changes one of the paths, a folder above or a file below, or if it shares another file
    with a related one. The results of related proposals depend on each other, and on no others.
    """
    if paths is None:
        return list(store.proposals(waiting_only=True))
    found: dict[str, Proposal] = {}
    searched: set[str] = set()
    frontier = set(paths)
    while frontier:
        searched |= frontier
        above = {folder for path in frontier for folder in parent_folders(path)}
        fresh = [each for each in store.pending_on_paths(frontier, above) if each.id not in found]
        found |= {each.id: each for each in fresh}
        frontier = {path for each in fresh for path in proposal_paths(each)} - searched
    return sorted(found.values(), key=lambda each: each.number)


def proposal_paths(proposal: Proposal) -> set[str]:
    """Return every path that a proposal names."""
    return {path for change in proposal.files for path in change.paths}


class RecordingDiskReader:
    """Reads the disk and records the first result of each read."""

    def __init__(self, disk: ReadableDisk) -> None:
        self._disk = disk
        self._kinds: dict[str, Kind] = {}
        self._versions: dict[str, FileVersion | None] = {}
        self._names: dict[str, list[str]] = {}
        self._unreadable = False

    def kind(self, path: str) -> Kind:
        """Return the kind of a path."""
        kind = self._disk.kind(path)
        self._kinds.setdefault(path, kind)
        return kind

    def read(self, path: str, limit: int | None = None) -> DiskFile | None:
        """Return the file; None if there is none."""
        try:
            file = self._disk.read(path, limit)
        except OSError:
            self._unreadable = True
            raise
        self._versions.setdefault(path, file.version if file else None)
        return file

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        names = self._disk.list_names(folder)
        self._names.setdefault(folder, sorted(names))
        return names

    def is_current(self) -> bool:
        """Return whether every recorded read would give the same result now."""
        try:
            return not self._unreadable and (
                all(self._disk.kind(path) == kind for path, kind in self._kinds.items())
                and all(self._read_version(path) == version for path, version in self._versions.items())
                and all(sorted(self._disk.list_names(folder)) == names for folder, names in self._names.items())
            )
        except OSError:
            return False

    def add_reads_of(self, other: "RecordingDiskReader") -> None:
        """Add the recorded reads of another reader of the same disk."""
        self._kinds |= other._kinds
        self._versions |= other._versions
        self._names |= other._names
        self._unreadable |= other._unreadable

    def _read_version(self, path: str) -> FileVersion | None:
        file = self._disk.read(path)
        return file.version if file else None


class ProposalStack(Struct, frozen=True):
    """Related pending proposals, each re-based onto the disk with those before it."""

    paths: frozenset[str]
    """Every path that one of them names, and the paths for which the stack was made."""
    disk: RecordingDiskReader
    """The reads of the disk on which they are based."""
    denied: tuple[Proposal, ...] = ()
    """Those of which the user has denied a part."""


class StackCache:
    """Caches the stacks of one workspace from one staging to the next.

    A re-base depends only on the stored proposals and on what was read from disk. So it is valid for as long as the
    store has had no other write and the disk is unchanged. Used under the lock of the workspace, except
    `pending_paths`, which any thread may call.
    """

    def __init__(
        self, store: ProposalStore, filesystem: ReadableDisk, contents: ContentStore, save: Callable[..., None]
    ) -> None:
        self._store = store
        self._filesystem = filesystem
        self._contents = contents
        self._save = save
        self._lock = RLock()
        self._change_counter: tuple[int, ...] = ()
        self._pending = PendingChangesByPath()
        self._stacks: dict[str, ProposalStack] = {}
        """By each of their paths."""

    def pending_paths(self) -> PendingChangesByPath:
        """Return the pending content of each path, by the proposals that are stored now."""
        with self._lock:
            counter = self._store.change_counter()
            if counter != self._change_counter:
                self._pending = PendingChangesByPath(lambda paths: related_pending_proposals(self._store, paths))
                self._stacks = {}
                self._change_counter = counter
            return self._pending

    def get_stack(self, paths: Collection[str]) -> ProposalStack:
        """Return the re-based pending proposals that are related to some paths; changed ones are saved."""
        if cached := self._cached_stack(paths):
            return cached
        disk = RecordingDiskReader(self._filesystem)
        proposals = related_pending_proposals(self._store, paths)
        _, rebased = restack_and_list_changed(disk, self._contents, proposals)
        if rebased:
            self._save(*rebased)
            proposals = related_pending_proposals(self._store, paths)
        all_paths = frozenset(path for each in proposals for path in proposal_paths(each)).union(paths)
        self.pending_paths().load(all_paths)
        denied = (each for each in proposals if any(hunk.state is HunkState.DENIED for hunk in each.hunks))
        return ProposalStack(all_paths, disk, tuple(denied))

    def _cached_stack(self, paths: Collection[str]) -> ProposalStack | None:
        """Return the cached stack of some paths; None if there is none or the disk has changed since."""
        self.pending_paths()
        if not paths or not all(path in self._stacks for path in paths):
            return None
        stacks = {id(stack): stack for stack in map(self._stacks.__getitem__, paths)}.values()
        if not all(stack.disk.is_current() for stack in stacks):
            return None
        first, *others = stacks
        for other in others:
            first.disk.add_reads_of(other.disk)
        all_paths = frozenset(path for stack in stacks for path in stack.paths)
        return ProposalStack(all_paths, first.disk, tuple(each for stack in stacks for each in stack.denied))

    def add_staged(self, stack: ProposalStack, proposal: Proposal) -> None:
        """Add a proposal on top of a stack; it was stored just now, and nothing else was stored since."""
        extended = ProposalStack(stack.paths | proposal_paths(proposal), stack.disk, stack.denied)
        with self._lock:
            self._change_counter = self._store.change_counter()
            # These are loaded already, unless another thread has reset the cache meanwhile.
            self._pending.load(extended.paths)
            self._pending.add_proposal(proposal)
            self._stacks |= dict.fromkeys(extended.paths, extended)
