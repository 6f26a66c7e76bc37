"""The pending content of each path, read from the store when it is needed."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from threading import RLock

from msgspec import Struct

from app.proposals.values.models import FileChange, FileVersion, HunkState, Proposal, ProposalState

_MAX_OLDEST_IDS = 4
"""Maximum oldest proposals of a path that are named, besides the latest: each stores the ids below it."""


class PendingPath(Struct, frozen=True):
    """A path that a pending proposal has changed."""

    version: FileVersion | None
    """None if the file is deleted or moved away."""
    by: tuple[str, ...]
    """Ids of the proposals, oldest first; of many only the oldest few, to be decided first, and the latest."""
    names: tuple[str, ...] = ()
    """Every path that the content has had, oldest first."""
    authors: frozenset[str] = frozenset()
    """The sessions whose models wrote it; an empty one for a patch or an edit by the user."""
    since: float = 0.0
    """Unix time when the latest of them was staged."""


Related = Callable[[Collection[str] | None], Iterable[Proposal]]
"""Returns the pending proposals that are related to some paths (None: all), oldest first."""


class PendingChangesByPath:
    """Pending changes by path; its methods may be called from any thread.

    Args:
        related: Returns the proposals to load; None if all are added one by one.
    """

    def __init__(self, related: Related | None = None) -> None:
        self._related = related
        self._lock = RLock()
        self._paths: dict[str, PendingPath] = {}
        self._folders: Counter[str] = Counter()
        """Number of pending files below each folder."""
        self._loaded: set[str] = set()
        self._added_ids: set[str] = set()

    def load(self, paths: Collection[str] | None = None) -> None:
        """Load the pending proposals at these paths at once; None for all."""
        if self._related is None:
            return
        with self._lock:
            wanted = None if paths is None else set(paths) - self._loaded
            if wanted is not None and not wanted:
                return
            # Related proposals are loaded together, so the order of two groups does not matter.
            for proposal in self._related(wanted):
                self.add_proposal(proposal)
            if wanted is None:
                self._related = None
            else:
                self._loaded |= wanted

    def add_proposal(self, proposal: Proposal) -> None:
        """Add the undecided part of a proposal to the pending paths; a stale or decided one changes nothing."""
        with self._lock:
            if proposal.id in self._added_ids:
                return
            self._added_ids.add(proposal.id)
            if proposal.state not in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED):
                return
            changes = [
                change
                for change in proposal.files
                if has_undecided_part(change) and not change.already_applied and not change.on_disk
            ]
            previous = {change.path: self._paths.get(change.old_path or change.path, _NOTHING) for change in changes}
            for change in changes:
                if change.old_path:
                    source = self._paths.get(change.old_path, _NOTHING)
                    self._set(change.old_path, PendingPath(None, _append_id(source, proposal)))
            for change in changes:
                self._set(change.path, _pending_after(previous[change.path], proposal, change))

    def get(self, path: str) -> PendingPath | None:
        """Return the pending content at a path; None if there is none."""
        self.load((path,))
        return self._paths.get(path)

    def has_file(self, path: str) -> bool:
        """Return whether there is a pending file at a path."""
        pending = self.get(path)
        return pending is not None and pending.version is not None

    def has_file_below(self, folder: str) -> bool:
        """Return whether there is a pending file below a folder."""
        self.load((folder,))
        return self._folders[folder] > 0

    def all(self) -> dict[str, PendingPath]:
        """Return every path with a pending change."""
        self.load()
        return self.loaded_paths()

    def loaded_paths(self) -> dict[str, PendingPath]:
        """Return the paths that were loaded so far."""
        with self._lock:
            return dict(self._paths)

    def _set(self, path: str, pending: PendingPath) -> None:
        before = self._paths.get(path)
        had_file, has_file = before is not None and before.version is not None, pending.version is not None
        self._paths[path] = pending
        if had_file != has_file:
            for folder in parent_folders(path):
                self._folders[folder] += 1 if has_file else -1


_NOTHING = PendingPath(None, ())


def _pending_after(below: PendingPath, proposal: Proposal, change: FileChange) -> PendingPath:
    names = dict.fromkeys((*below.names, change.old_path or change.path, change.path))
    authors = below.authors | {proposal.sole_author_session(change)}
    return PendingPath(change.result, _append_id(below, proposal), tuple(names), authors, proposal.created)


def _append_id(below: PendingPath, proposal: Proposal) -> tuple[str, ...]:
    return (*below.by[:_MAX_OLDEST_IDS], proposal.id)


def abbreviate_proposal_ids(ids: Sequence[str]) -> str:
    """Return proposal ids as text: `P1, P2` or `P1, P2, P3, P4 … P99`."""
    oldest = ", ".join(ids[:_MAX_OLDEST_IDS])
    return f"{oldest} … {', '.join(ids[_MAX_OLDEST_IDS:])}" if len(ids) > _MAX_OLDEST_IDS else oldest


def has_undecided_part(change: FileChange) -> bool:
    """Return whether a part of the change still awaits a decision."""
    return change.state is HunkState.PENDING


def parent_folders(path: str) -> list[str]:
    """Return the folders above a path, outermost first, without the root."""
    names = path.split("/")[:-1]
    return ["/".join(names[: end + 1]) for end in range(len(names))]
