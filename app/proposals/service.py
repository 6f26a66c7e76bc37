"""The proposal service: where proposals are staged, decided, undone and kept in step with the disk."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from app.proposals import outcomes, splitting
from app.proposals.disk.apply import Applier, reason_of
from app.proposals.disk.filesystem import OPEN_FOLDERS, Filesystem, PosixFilesystem
from app.proposals.disk.journal import Action, Transition, effective, plan, undone
from app.proposals.disk.locking import WorkspaceLock
from app.proposals.disk.preflight import check
from app.proposals.disk.recovery import recover
from app.proposals.disk.replay import Replay, Step, backward, forward
from app.proposals.draft import Draft
from app.proposals.editing import with_text
from app.proposals.errors import (
    ChangedSinceSeen,
    DiskFailed,
    NothingToUndo,
    NotWaiting,
    StaleProposal,
    UndoConflict,
    UnknownProposal,
)
from app.proposals.facts import FileStat, HunkFact, LineComment
from app.proposals.laying import alone
from app.proposals.models import FileDiff, HunkState, Proposal, ProposalState
from app.proposals.overlay import Contents, Overlay, undecided
from app.proposals.patch.exporting import as_patch, file_diff
from app.proposals.patch.parts import ReadPatch
from app.proposals.patch.staging import taken, waiting_with
from app.proposals.rebase import rebase
from app.proposals.reopening import reopened, starts, transition_stats, undenied, undenied_part
from app.proposals.reports import DecisionResult
from app.proposals.splitting import Lines, Part
from app.proposals.stack_cache import StackCache
from app.proposals.stacking import paths_of, related, restack
from app.proposals.staging import (
    answered,
    compile_changes,
    folded_into,
    make_proposal,
    patch_summary,
    superseded,
    with_authors,
    with_repeats,
)
from app.proposals.states import advance, state_of, words
from app.proposals.store import ProposalStore
from app.sandbox.changes import Leaf
from app.workspace.git import folder_in_repository
from app.workspace.paths import Workspace


class ProposalService:
    """All proposals of one workspace. Synchronous; methods may be called from any thread.

    Every change of state happens under a lock that other processes respect. Errors are `ProposalError`s with one
    line for the user; after an error everything is as it was before.
    """

    def __init__(
        self, workspace: Workspace, store: ProposalStore, lock_path: Path, filesystem: Filesystem | None = None
    ) -> None:
        """Open the proposal service; nothing is read or written yet.

        Args:
            workspace: Whose proposals.
            store: Where they are kept.
            lock_path: A file outside the workspace, the same for every process that works on it.
            filesystem: The disk, if not the real one.
        """
        self._workspace = workspace
        self._store = store
        self._lock = WorkspaceLock(lock_path)
        self._contents = Contents(store)
        self._reader = PosixFilesystem(workspace.root, workspace.read_limit)
        self._filesystem = filesystem or PosixFilesystem(workspace.root, workspace.read_limit, OPEN_FOLDERS)
        self._applier = Applier(self._filesystem, store, self._contents)
        self._stacks = StackCache(store, self._filesystem, self._contents, self._save)
        self.tell: Callable[[str], None] = lambda line: None
        """Called, on whatever thread, with a line for the user that no result or error carries."""
        self._told: set[str] = set()
        """What a recovery came to and was said: what can't be put right yet is tried often, and said once."""

    # Reading

    def get(self, proposal_id: str) -> Proposal:
        """One proposal; raises UnknownProposal."""
        found = self._store.proposal(proposal_id)
        if found is None:
            raise UnknownProposal(
                f"There is no proposal {proposal_id} in this workspace; `signoff proposals --all` lists them."
            )
        return found

    def waiting(self) -> list[Proposal]:
        """Those that await a decision, oldest first; stale ones too."""
        return list(self._store.proposals(waiting_only=True))

    def all(self) -> list[Proposal]:
        """Every proposal, oldest first."""
        return list(self._store.proposals())

    def diffs(self, proposal_id: str) -> list[FileDiff]:
        """Both texts of each file: what a decision is about, or, once decided, what it was about."""
        return [file_diff(self._contents, change) for change in self.get(proposal_id).files]

    def as_unified_diff(self, proposal_id: str) -> str:
        """What is pending (or, once decided, what was decided on) as a patch that git, patch and unidiff take."""
        return as_patch(self._contents, self.get(proposal_id))

    def laid_over(self, proposal_id: str) -> dict[str, Leaf | None]:
        """What lies over the disk with just this waiting proposal and those that it stacks on, for a sandbox."""
        return alone(self._contents, self._store, self._waiting(proposal_id))

    # Staging

    def draft(self, session_id: str) -> Draft:
        """An empty draft for the edits of one step."""
        return Draft(session_id, self._workspace, self._contents, self._view, self._store.next_proposal_id)

    def stage(self, draft: Draft, summary: str, answers: Sequence[str] = ()) -> Proposal:
        """Make a draft a pending proposal, stacked on those that wait.

        Args:
            draft: With edits.
            summary: One line; empty for the model's own words.
            answers: Proposals, denied or still waiting, whose feedback this one may answer, the likeliest first: it
                stands in for the first of them whose files it touches.

        Raises:
            NothingStaged: the edits cancel out.
        """
        return self._stage(draft, summary, answers, "model" if draft.session else "patch")

    def stage_patch(self, text: str) -> Proposal:
        """Make a patch from elsewhere a proposal.

        Raises:
            PatchRefused: it is no patch, or one for another tree.
        """
        draft = self.draft("")
        report = taken(draft, text, folder_in_repository(self._workspace.root), self._waits_already)
        return self._stage(draft, "", (), "patch", report.left_out)

    def replace_result(self, proposal_id: str, path: str, text: str) -> Proposal:
        """Put the user's text in the place of what a waiting proposal would write to a file.

        Raises:
            EditRejected: the file is not text, is not in the proposal, or nothing is left of the change.
        """
        with self._writing():
            self._restack(paths_of(self._waiting(proposal_id)))
            proposal = self._fresh(self._waiting(proposal_id))
            proposal = with_text(self._contents, proposal, path, text)
            self._save(proposal)
            self._restack(paths_of(proposal))
            return self.get(proposal.id)

    def split(self, proposal_id: str, lines: Lines, revision: int) -> tuple[Part, ...]:
        """Cut the hunks of a waiting proposal so that some lines can be decided on by themselves.

        Args:
            proposal_id: A waiting one.
            lines: Those lines.
            revision: The one that was shown.

        Raises:
            ChangedSinceSeen: the numbers of the lines are those of another revision.
            UnknownHunk: nothing of that file waits.
        """
        with self._writing():
            proposal = self._waiting(proposal_id)
            if proposal.revision != revision:
                raise ChangedSinceSeen(f"{proposal.id} has changed since it was shown; look at it again.")
            cut, parts = splitting.split(self._contents, proposal, lines)
            if cut is not proposal:
                self._save(cut)
            return parts

    # Deciding

    def approve(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        revision: int | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
    ) -> DecisionResult:
        """Write a proposal, or a part of it, to disk: exactly what was shown, or nothing.

        A proposal that stacks on another that still waits can be approved first if it is independent of it: if its
        hunks fit the disk with their context as shown. The other one is then re-based.

        Args:
            proposal_id: A waiting one.
            hunks: Ids or numbers of hunks, or paths of files; None for all that is pending.
            revision: The one that was shown; None for the one that is stored.
            feedback: The user's words, kept in one piece with the decision.
            comments: The user's words on single lines.

        Raises:
            StaleProposal: the files have moved on in a way that can't be merged.
            ChangedSinceSeen: it was re-based since; what it would write now has to be looked at first.
            StackedProposal: it depends on one that still waits.
            ApplyFailed: the disk would not take it; every file is as before.
        """
        with self._writing():
            stored = self._waiting(proposal_id)
            seen = stored.revision if revision is None else revision
            self._restack(paths_of(stored))
            proposal = self._fresh(self.get(proposal_id))
            if proposal.revision != seen:
                raise ChangedSinceSeen(
                    f"{proposal.id} has changed since it was shown; look at it again, then approve."
                )
            choice = outcomes.choose(proposal, hunks)
            started = starts(self._contents, proposal, effective(self._store.journal(proposal=proposal.id)))
            outcome = outcomes.approve(self._contents, self._filesystem, proposal, choice, started)
            after = advance(outcome.proposal, state_of(outcome.proposal))
            word = "partly_approved" if after.state.waiting else "approved"
            after = after.decided(word, outcome.files, choice.part, feedback, comments)
            self._write("apply", proposal, after, outcome.transitions, None)
            changed = self._settle(proposal)
            facts: tuple[HunkFact, ...] = ()
            with suppress(Exception):
                facts = outcomes.hunk_facts(self._contents, self._filesystem, proposal, choice, choice.hunks)
            return DecisionResult(after, tuple(outcome.files), facts, changed)

    def deny(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
    ) -> DecisionResult:
        """Discard a proposal, or a part of it; nothing on disk changes. Those stacked on it are re-based."""
        with self._writing():
            return self._deny(self._waiting(proposal_id), hunks, feedback, comments)

    def undo(self, proposal_id: str) -> DecisionResult:
        """Take back what a proposal has written, byte for byte, or merged where the files changed elsewhere.

        What was partly approved becomes pending again as a whole, and so does what was denied. Hunks that were denied
        last, while others wait, become pending again first.

        Raises:
            NothingToUndo: it has written nothing, or was undone; or another waits in its stead.
            UndoConflict: a file has changed in the same places.
        """
        with self._writing():
            self._restack(paths_of(self.get(proposal_id)))
            proposal = self.get(proposal_id)
            if proposal.state is ProposalState.DENIED:
                return self._reopen(proposal)
            records = effective(self._store.journal(proposal=proposal.id))
            latest = proposal.last.decision if proposal.last else ""
            if proposal.denied_part and (not records or latest in ("denied", "reopened")):
                return self._reopen_part(proposal)
            if proposal.state is ProposalState.STALE and records:
                raise NothingToUndo(
                    f"{proposal.id} has a part that no longer fits; deny that first, then undo the rest."
                )
            if proposal.state not in (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED) or not records:
                raise NothingToUndo(f"{proposal.id} is {words(proposal.state)}; there is nothing to undo.")
            replay, transitions = self._replay(proposal, backward(records), "undone")
            if proposal.state is ProposalState.APPLIED:
                after = advance(proposal, ProposalState.UNDONE)
            else:
                after = advance(
                    reopened(self._contents, proposal, records, replay.before, replay.after), ProposalState.PENDING
                )
            after = after.decided("undone")
            folders = {folder for record in records for folder in record.made_folders}
            self._write("undo", proposal, after, transitions, folders)
            return self._after_replay(proposal, after, transitions, backwards=True)

    def redo(self, proposal_id: str) -> DecisionResult:
        """Write an undone proposal again; or deny again one whose denial was undone.

        Raises:
            NothingToUndo: it is not undone.
            UndoConflict: a file has changed in the same places.
        """
        with self._writing():
            proposal = self.get(proposal_id)
            if proposal.reopened and proposal.state.waiting:
                return replace(self._deny(proposal, None), denial=True)
            records = undone(self._store.journal(proposal=proposal.id))
            if proposal.state is not ProposalState.UNDONE or not records:
                raise NothingToUndo(f"{proposal.id} is {words(proposal.state)}; there is nothing to redo.")
            _, transitions = self._replay(proposal, forward(records), "redone")
            folders = {folder for record in records for folder in record.dropped_folders}
            after = advance(proposal, ProposalState.APPLIED).decided("redone")
            self._write("redo", proposal, after, transitions, folders)
            return self._after_replay(proposal, after, transitions)

    # The world

    def refresh(self, paths: Collection[str] | None = None) -> list[Proposal]:
        """Re-base what waits onto the disk as it is now.

        Args:
            paths: What changed; None for anything.

        Returns:
            The proposals that are different now.
        """
        with self._writing():
            return self._restack(paths)

    def watched(self) -> set[str]:
        """Paths whose change on disk matters to a waiting proposal."""
        return {
            path
            for proposal in self.waiting()
            for change in proposal.files
            for path in (change.path, change.old_path)
            if path and undecided(change)
        }

    def recover(self) -> list[str]:
        """Finish what a crash broke off; one line for each apply that was rolled back or forward."""
        with self._lock.held():
            try:
                lines = recover(self._store, self._applier.rollback)
                self._told.update(lines)
                return lines
            finally:
                self._filesystem.close()

    def wait_until_written(self) -> None:
        """Return once nothing is being decided or staged here; in any case after as long as others wait for that."""
        self._lock.wait_until_free()

    # Inside

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock, with nothing left unfinished by a process that died."""
        with self._lock.held():
            if self._store.journal(state="open"):
                for line in recover(self._store, self._applier.rollback):
                    if line not in self._told:
                        self._told.add(line)
                        self.tell(line)
            try:
                yield
            except OSError as error:
                raise DiskFailed(f"The disk would not answer: {reason_of(error)}; nothing has changed.") from error
            finally:
                self._filesystem.close()

    def _view(self) -> Overlay:
        """The overlay for drafts, over the disk as it is now."""
        return Overlay(self._reader, self._contents, self._stacks.pending())

    def _restack(self, paths: Collection[str] | None = None) -> list[Proposal]:
        """Re-base what waits, oldest first, each on the disk with those before it, and save what changed.

        With `paths`, only the proposals that have to do with these are looked at; the others are independent of them.
        """
        _, changed = restack(self._filesystem, self._contents, related(self._store, paths))
        if changed:
            self._save(*changed)
        return changed

    def _settle(self, decided: Proposal) -> tuple[Proposal, ...]:
        """Re-base the others after a decision. The decision stands whatever happens here."""
        with suppress(Exception):
            return tuple(each for each in self._restack(paths_of(decided)) if each.id != decided.id)
        return ()

    def _save(self, *proposals: Proposal) -> None:
        self._contents.save()
        self._store.save_proposal(*proposals)

    def _waits_already(self, patch: ReadPatch) -> str:
        overlay = Overlay(self._reader, self._contents)
        draft = Draft("", self._workspace, self._contents, lambda: overlay, str)
        return waiting_with(self._store, self._contents, draft, patch)

    def _stage(
        self, draft: Draft, summary: str, answers: Sequence[str], origin: str, without: Sequence[str] = ()
    ) -> Proposal:
        with self._writing():
            old = answered(map(self.get, answers), draft)
            paths = draft.held.keys() | (paths_of(old) if old else set())
            stack = self._stacks.stack(paths)
            if old:
                old = self.get(old.id)
                others = [each for each in related(self._store, paths) if each.id != old.id]
                overlay, _ = restack(self._filesystem, self._contents, others)
                denied: Sequence[Proposal] = [*others, old]
            else:
                overlay, denied = Overlay(stack.disk, self._contents, self._stacks.pending()), stack.denied
            held = draft.held
            if old and old.state.waiting:
                held = folded_into(self._contents, old, overlay, held)
            changes = compile_changes(self._contents, held)
            if origin == "patch" and not summary:
                summary = patch_summary(changes, without)
            proposal = make_proposal(draft, changes, str(self._workspace.root), summary)
            proposal = with_authors(proposal, old) if old else proposal
            proposal = proposal.model_copy(
                update={
                    "origin": origin,
                    "supersedes": old.id if old else "",
                    "version": old.version + 1 if old else 1,
                }
            )
            proposal = with_repeats(rebase(overlay, proposal), [*self._store.decided_on(paths), *denied])
            proposal = proposal.model_copy(update={"revision": 1})
            self._save(*([superseded(old, proposal.id)] if old else []), proposal)
            if not old:
                self._stacks.staged(stack, proposal)
            return proposal

    def _waiting(self, proposal_id: str) -> Proposal:
        proposal = self.get(proposal_id)
        if not proposal.state.waiting:
            why = f": {proposal.reason}" if proposal.reason else ""
            raise NotWaiting(f"{proposal.id} is {words(proposal.state)} already{why}; there is nothing to decide.")
        return proposal

    def _fresh(self, proposal: Proposal) -> Proposal:
        if proposal.state is ProposalState.STALE:
            raise StaleProposal(f"{proposal.id} is stale: {proposal.reason}; deny it, or ask for a new one.")
        return proposal

    def _deny(
        self,
        proposal: Proposal,
        hunks: Collection[str] | None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
    ) -> DecisionResult:
        choice = outcomes.choose(proposal, hunks)
        started = starts(self._contents, proposal, effective(self._store.journal(proposal=proposal.id)))
        outcome = outcomes.deny(self._contents, proposal, choice, started)
        state = state_of(outcome.proposal)
        if state.waiting and proposal.state is ProposalState.STALE:
            state = ProposalState.STALE
        after = advance(outcome.proposal, state, proposal.reason if state is ProposalState.STALE else "")
        said = "\n".join(filter(None, (proposal.feedback, feedback)))
        after = after.model_copy(update={"feedback": said})
        after = after.decided("denied", outcome.files, choice.part, feedback, comments)
        self._save(after)
        changed = self._settle(proposal)
        facts = outcomes.hunk_facts(self._contents, self._filesystem, proposal, choice, ())
        return DecisionResult(self.get(proposal.id), tuple(outcome.files), facts, changed)

    def _reopen(self, proposal: Proposal) -> DecisionResult:
        """Have a denied proposal wait again, re-based onto the present; stale if it does not fit any more."""
        successor = self._store.proposal(proposal.superseded_by) if proposal.superseded_by else None
        if successor is not None and successor.state.waiting:
            raise NothingToUndo(f"{successor.id} stands in for {proposal.id} and still waits; decide on that first.")
        again = undenied(proposal).decided("reopened")
        self._save(again)
        changed = self._settle(proposal)
        waits = tuple(change.stat for change in again.files)
        return DecisionResult(self.get(proposal.id), waits, (), changed, denial=True)

    def _reopen_part(self, proposal: Proposal) -> DecisionResult:
        """Have the hunks wait again that were denied last."""
        again = undenied_part(self._contents, proposal)
        waited = {hunk.id for hunk in proposal.hunks if hunk.state is HunkState.PENDING}
        back = [hunk.id for hunk in again.hunks if hunk.state is HunkState.PENDING and hunk.id not in waited]
        again = again.decided("reopened", hunks=back)
        self._save(again)
        changed = self._settle(proposal)
        facts = outcomes.hunk_facts(self._contents, self._filesystem, again, outcomes.NOTHING, ())
        reopened = tuple(fact for fact in facts if fact.hunk in back)
        return DecisionResult(self.get(proposal.id), (), reopened, changed, denial=True)

    def _write(
        self,
        action: Action,
        before: Proposal,
        after: Proposal,
        transitions: Sequence[Transition],
        dropped_folders: set[str] | None,
    ) -> None:
        """Carry out a decision on disk and save it, in one piece."""
        self._contents.save()
        if not transitions and action == "apply":
            self._store.save_proposal(after)
            return
        record = plan(self._filesystem, action, after, transitions, dropped_folders)
        record = check(self._workspace, self._filesystem, self._contents, record, transitions)
        for line in self._applier.run(record, after, before):
            self.tell(line)

    def _replay(self, proposal: Proposal, steps: Iterator[Step], word: str) -> tuple[Replay, list[Transition]]:
        replay = Replay(self._filesystem, self._contents)
        try:
            return replay, replay.run(steps)
        except UndoConflict as conflict:
            raise UndoConflict(f"{proposal.id} can't be {word}: {conflict}.") from None

    def _after_replay(
        self, before: Proposal, after: Proposal, transitions: Sequence[Transition], *, backwards: bool = False
    ) -> DecisionResult:
        """What an undo or redo came to; like `_settle`, it never fails."""
        changed = self._settle(after)
        files: tuple[FileStat, ...] = ()
        with suppress(Exception):
            files = transition_stats(self._contents, before, transitions, backwards=backwards)
            after = self.get(after.id)
        return DecisionResult(after, files, (), changed)
