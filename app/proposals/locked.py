"""The proposals of a workspace under its lock: looked up, re-based, saved, and carried out on disk."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from app.proposals.disk.apply import Applier, reason_of
from app.proposals.disk.filesystem import Filesystem
from app.proposals.disk.journal import Action, Transition, last_modes, plan
from app.proposals.disk.locking import WorkspaceLock
from app.proposals.disk.preflight import check
from app.proposals.disk.recovery import recover, tidied
from app.proposals.errors import DiskFailed, NotWaiting, StaleProposal, UnknownProposal, WorkspaceBusy
from app.proposals.models import Proposal, ProposalState
from app.proposals.overlay import Contents, Overlay
from app.proposals.stacking import paths_of, related, restack
from app.proposals.states import words
from app.proposals.store import JournalRecord, ProposalStore
from app.workspace.paths import Workspace


class LockedProposals:
    """What staging, deciding and undoing share. Whatever changes something is called within `writing`."""

    def __init__(
        self,
        workspace: Workspace,
        store: ProposalStore,
        filesystem: Filesystem,
        lock_path: Path,
        tell: Callable[[str], None],
        in_use: Callable[[], bool],
    ) -> None:
        """Nothing is read or written yet.

        Args:
            workspace: Whose proposals.
            store: Where they are kept.
            filesystem: The disk.
            lock_path: The same for every process that works on the workspace.
            tell: Called with a line for the user that no result or error carries.
            in_use: Whether a command runs directly on the files.
        """
        self.workspace = workspace
        self.store = store
        self.contents = Contents(store)
        self.filesystem = filesystem
        self._lock = WorkspaceLock(lock_path)
        self._applier = Applier(filesystem, store, self.contents)
        self._tell = tell
        self._in_use = in_use
        self._told: set[str] = set()
        """What a recovery came to and was said: what can't be put right yet is tried often, and said once."""

    # The lock

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock, with nothing left unfinished by a process that died."""
        with self._lock.held():
            if self.store.journal(state="open"):
                for line in recover(self.store, self._applier.rollback):
                    if line not in self._told:
                        self._told.add(line)
                        self._tell(line)
            try:
                yield
            except OSError as error:
                raise DiskFailed(f"The disk would not answer: {reason_of(error)}; nothing has changed.") from error
            finally:
                self.filesystem.close()

    def recover(self) -> list[str]:
        """Finish what broke off; one line for each apply that was rolled back or forward."""
        with self._lock.held():
            try:
                lines = recover(self.store, self._applier.rollback)
                self._told.update(lines)
                return lines
            finally:
                self.filesystem.close()

    def wait_until_written(self) -> None:
        """Return once nothing is being decided or staged here; in any case after as long as others wait for that."""
        self._lock.wait_until_free()

    def check_free(self) -> None:
        """Raise WorkspaceBusy while the files are a command's, and are going to be put back."""
        if self._in_use():
            raise WorkspaceBusy(
                "A command is running directly on your files: decide once it has ended. Nothing has changed."
            )

    # Looking up

    def get(self, proposal_id: str) -> Proposal:
        """One proposal; raises UnknownProposal."""
        found = self.store.proposal(proposal_id)
        if found is None:
            raise UnknownProposal(
                f"There is no proposal {proposal_id} in this workspace; `signoff proposals --all` lists them."
            )
        return found

    def waiting(self, proposal_id: str) -> Proposal:
        """One that awaits a decision, stale or not; raises NotWaiting or UnknownProposal."""
        proposal = self.get(proposal_id)
        if not proposal.state.waiting:
            why = f": {proposal.reason}" if proposal.reason else ""
            raise NotWaiting(f"{proposal.id} is {words(proposal.state)} already{why}; there is nothing to decide.")
        return proposal

    def fresh(self, proposal: Proposal) -> Proposal:
        """One that awaits a decision as it is once it is re-based onto the present; raises StaleProposal."""
        self.restack(paths_of(proposal))
        proposal = self.get(proposal.id)
        if proposal.state is ProposalState.STALE:
            what = "deny it, ask for a new one, or resolve it in the review"
            if proposal.on_disk:
                what = "`signoff stage --worktree` again"
            raise StaleProposal(f"{proposal.id} is stale: {proposal.reason}; {what}.")
        return proposal

    def records(self, proposal: Proposal) -> Sequence[JournalRecord]:
        """What was ever written of a proposal or taken back, newest first."""
        return self.store.journal(proposal=proposal.id)

    # Keeping

    def save(self, *proposals: Proposal) -> None:
        """Store proposals, with the contents that they name."""
        self.contents.save()
        self.store.save_proposal(*proposals)

    def restack(self, paths: Collection[str] | None = None) -> list[Proposal]:
        """Re-base what waits, oldest first, each on the disk with those before it, and save what changed.

        With `paths`, only the proposals that have to do with these are looked at; the others are independent of them.
        While a command runs directly on the files nothing is re-based onto what they are meanwhile.
        """
        if self._in_use():
            return []
        _, changed = restack(self.filesystem, self.contents, related(self.store, paths))
        if changed:
            self.save(*changed)
        return changed

    def below(self, proposal: Proposal) -> Overlay:
        """The disk as it is now, with the older proposals that wait and have to do with the files of this one."""
        self.check_free()
        number = int(proposal.id[1:])
        older = [each for each in related(self.store, paths_of(proposal)) if int(each.id[1:]) < number]
        return restack(self.filesystem, self.contents, older)[0]

    def settle(self, decided: Proposal) -> tuple[Proposal, ...]:
        """Re-base the others after a decision, which stands whatever happens here; those that changed."""
        with suppress(Exception):
            return tuple(each for each in self.restack(paths_of(decided)) if each.id != decided.id)
        return ()

    def carry_out(
        self,
        action: Action,
        before: Proposal,
        after: Proposal,
        transitions: Sequence[Transition],
        dropped_folders: set[str] | None = None,
    ) -> None:
        """Carry out a decision on disk and save it, in one piece."""
        self.check_free()
        self.contents.save()
        if not transitions and (action == "apply" or before.on_disk):
            self.store.save_proposal(after)
            return
        modes = {} if action == "apply" else last_modes(self.records(before))
        record = plan(self.filesystem, action, after, transitions, dropped_folders, modes)
        record = check(self.workspace, self.filesystem, self.contents, record, transitions)
        for line in (*tidied(self.store, self._applier.rollback), *self._applier.run(record, after, before)):
            self._tell(line)
