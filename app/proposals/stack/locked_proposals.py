"""The proposals of a workspace under its lock: read, re-base, save and apply them."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.files.overlay import ContentStore, Overlay
from app.proposals.journal.apply import (
    JournalApplier,
    check_record_and_add_identities,
    describe_os_error,
    recover_records,
    remove_crash_leftovers,
)
from app.proposals.journal.journal import Action, PathTransition, folder_modes_from_records, plan_journal_record
from app.proposals.stack.stacking import proposal_paths, related_pending_proposals, restack_and_list_changed
from app.proposals.values.models import Proposal, ProposalState, describe_state
from app.proposals.values.proposal_errors import DiskFailed, NotPending, StaleProposal, UnknownProposal, WorkspaceBusy
from app.proposals.values.proposal_store import ProposalStore
from app.workspace.paths import Workspace

WAIT_SECONDS = 15.0
"""Maximum wait for another process; an apply of a thousand files takes about a second."""
_RETRY_SECONDS = 0.02
"""Pause between two attempts: `flock` cannot wait with a timeout."""


class WorkspaceLock:
    """The lock with which one process at a time changes a workspace's proposals; it ends when the process dies."""

    def __init__(self, path: Path, wait_seconds: float = WAIT_SECONDS) -> None:
        self._path = path
        self._wait_seconds = wait_seconds
        self._thread_lock = threading.RLock()
        self._depth = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            WorkspaceBusy: another process has held it for too long, or the lock file cannot be created.
        """
        with self._thread_lock:
            if self._depth:
                yield
                return
            descriptor = self._open_locked()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                flock(descriptor, LOCK_UN)
                os.close(descriptor)

    def wait_until_free(self) -> None:
        """Wait until no other thread of this process holds the lock, but not longer than others wait for it."""
        if self._thread_lock.acquire(timeout=self._wait_seconds):
            self._thread_lock.release()

    def _open_locked(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                self._lock_descriptor(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise WorkspaceBusy(f"{self._path} can't be locked ({error.strerror}); check its folder.") from error
        return descriptor

    def _lock_descriptor(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                flock(descriptor, LOCK_EX | LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise WorkspaceBusy(
                        "Another signoff is writing in this workspace; try again in a moment."
                    ) from error
            time.sleep(_RETRY_SECONDS)


class LockedProposalAccess:
    """Reads, saves, re-bases and applies proposals under the workspace's lock, for staging, deciding and undoing.

    Changes are made within `lock_for_writing`.

    Args:
        lock_path: The same for every process that works on the workspace.
        notify: Called with a line for the user that is in no result or error.
        in_use: Returns whether a command runs directly on the files.
    """

    def __init__(
        self,
        workspace: Workspace,
        store: ProposalStore,
        filesystem: PosixFilesystem,
        lock_path: Path,
        notify: Callable[[str], None],
        in_use: Callable[[], bool],
    ) -> None:
        self.workspace = workspace
        self.store = store
        self.contents = ContentStore(store)
        self.filesystem = filesystem
        self.lock = WorkspaceLock(lock_path)
        self._applier = JournalApplier(filesystem, store, self.contents)
        self._notify = notify
        self._is_in_use = in_use
        self._reported: set[str] = set()
        """Reported results of recoveries: what cannot be finished yet is tried often, and reported once."""

    # The lock

    @contextmanager
    def lock_for_writing(self) -> Iterator[None]:
        """Hold the lock, after finishing the work of dead processes; an OSError in the block becomes DiskFailed."""
        with self.lock.hold():
            if self.store.journal_records(state="open"):
                for line in recover_records(self.store, self._applier.rollback):
                    if line not in self._reported:
                        self._reported.add(line)
                        self._notify(line)
            try:
                yield
            except OSError as error:
                raise DiskFailed(
                    f"The disk can't be used: {describe_os_error(error)}; nothing has changed."
                ) from error
            finally:
                self.filesystem.close()

    def recover(self) -> list[str]:
        """Finish interrupted work; return one line for each apply that was rolled back or completed."""
        with self.lock.hold():
            try:
                lines = recover_records(self.store, self._applier.rollback)
                self._reported.update(lines)
                return lines
            finally:
                self.filesystem.close()

    def check_not_in_use(self) -> None:
        """Raise WorkspaceBusy while a command runs directly on the files, which will be restored."""
        if self._is_in_use():
            raise WorkspaceBusy(
                "A command is running directly on your files: decide once it has ended. Nothing has changed."
            )

    # Lookup

    def get(self, proposal_id: str) -> Proposal:
        """Return a proposal. Raises `UnknownProposal`."""
        proposal = self.store.proposal(proposal_id)
        if proposal is None:
            raise UnknownProposal(
                f"There is no proposal {proposal_id} in this workspace; `signoff proposals --all` lists them."
            )
        return proposal

    def get_pending(self, proposal_id: str) -> Proposal:
        """Return a proposal that awaits a decision, stale or not; raises NotPending or UnknownProposal."""
        proposal = self.get(proposal_id)
        if not proposal.state.is_pending:
            why = f": {proposal.reason}" if proposal.reason else ""
            raise NotPending(
                f"{proposal.id} is {describe_state(proposal.state)} already{why}; there is nothing to decide."
            )
        return proposal

    def get_rebased(self, proposal: Proposal) -> Proposal:
        """Return a pending proposal re-based onto the present files; raise StaleProposal if it does not fit."""
        self.rebase_pending(proposal_paths(proposal))
        proposal = self.get(proposal.id)
        if proposal.state is ProposalState.STALE:
            advice = "deny it, ask for a new one, or resolve it in the review"
            if proposal.on_disk:
                advice = "`signoff stage --worktree` again"
            raise StaleProposal(f"{proposal.id} is stale: {proposal.reason}; {advice}.")
        return proposal

    # Saving

    def save(self, *proposals: Proposal) -> None:
        """Store proposals, with the contents to which they refer."""
        self.contents.save()
        self.store.save_proposal(*proposals)

    def rebase_pending(self, paths: Collection[str] | None = None) -> list[Proposal]:
        """Re-base pending proposals, oldest first, each on those before it; save and return the changed ones.

        With `paths`, only proposals that are related to these are re-based; the others are independent of them. While
        a command runs directly on the files, nothing is re-based.
        """
        if self._is_in_use():
            return []
        _, changed = restack_and_list_changed(
            self.filesystem, self.contents, related_pending_proposals(self.store, paths)
        )
        if changed:
            self.save(*changed)
        return changed

    def overlay_of_older_proposals(self, proposal: Proposal) -> Overlay:
        """Return the present disk with the older related pending proposals applied."""
        self.check_not_in_use()
        related = related_pending_proposals(self.store, proposal_paths(proposal))
        older = [other for other in related if other.number < proposal.number]
        return restack_and_list_changed(self.filesystem, self.contents, older)[0]

    def rebase_others(self, decided: Proposal) -> tuple[Proposal, ...]:
        """Re-base the other proposals after a decision, ignoring errors; return the changed ones."""
        with suppress(Exception):
            return tuple(other for other in self.rebase_pending(proposal_paths(decided)) if other.id != decided.id)
        return ()

    def apply_decision(
        self,
        action: Action,
        before: Proposal,
        after: Proposal,
        transitions: Sequence[PathTransition],
        dropped_folders: set[str] | None = None,
    ) -> None:
        """Carry out a decision on disk and save it, both or neither."""
        self.check_not_in_use()
        self.contents.save()
        if not transitions and (action == "apply" or before.on_disk):
            self.store.save_proposal(after)
            return
        modes = {} if action == "apply" else folder_modes_from_records(self.store.journal_records(proposal=before.id))
        record = plan_journal_record(self.filesystem, action, after, transitions, dropped_folders, modes)
        names_were_there = action == "undo" or before.on_disk
        record = check_record_and_add_identities(
            self.workspace, self.filesystem, self.contents, record, transitions, names_were_there=names_were_there
        )
        for line in (
            *remove_crash_leftovers(self.store, self._applier.rollback),
            *self._applier.apply_record(record, after, before),
        ):
            self._notify(line)
