"""Service in which proposals are staged, decided, undone and kept in step with the disk.

What drafts, decides and undoes is imported where it is used: a session opens without it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.concurrency import iterate_cooperatively
from app.proposals.files.filesystem import MAX_CHANGED_FILE_BYTES, OPEN_FOLDERS, Filesystem, PosixFilesystem
from app.proposals.files.overlay import ContentStore, Overlay
from app.proposals.stack.locked_proposals import LockedProposals
from app.proposals.stack.stacking import StackCache, proposal_paths
from app.proposals.values.decision_facts import UNKNOWN_CONTEXT, DecisionContext, HunkOutcome, LineComment
from app.proposals.values.models import (
    DecisionResult,
    FileDiff,
    FileVersion,
    Proposal,
    ProposalState,
    compute_state,
    set_state,
)
from app.proposals.values.origin import CommandRecipe, Origin, OriginKind
from app.proposals.values.pending_paths import PendingPaths, is_undecided
from app.proposals.values.proposal_errors import ChangedSinceShown, NothingStaged, ProposalError
from app.workspace.git_repository import folder_in_repository
from app.workspace.paths import Workspace

if TYPE_CHECKING:
    from app.images.image import Image
    from app.proposals.decide.conflicts import ConflictSide, FileConflict, UnsavedText
    from app.proposals.decide.workspace_versions import WorkspaceVersions
    from app.proposals.stack.draft import Draft
    from app.proposals.stack.hunk_splitting import HunkPart, SelectedLines
    from app.proposals.values.record_entries import RecordingStore
    from app.sandbox.captured_changes import PathChange, PendingFiles


class ProposalService:
    """All proposals of one workspace. Synchronous; methods may be called from any thread.

    Every change of state happens under a lock that other processes respect. Errors are `ProposalError`s with one
    line for the user; after an error everything is as it was before.

    Args:
        lock_path: A file outside the workspace, the same for every process that works on it.
        in_use: Whether a command runs directly on the files, so that they are not what they will be after it.
        permit: Called with what an approval is about to write; a ProposalError that it raises prevents that.
    """

    def __init__(
        self,
        workspace: Workspace,
        store: "RecordingStore",
        lock_path: Path,
        filesystem: Filesystem | None = None,
        *,
        in_use: Callable[[], bool] = lambda: False,
        permit: "Callable[[Iterable[PathChange]], None]" = lambda changes: None,
    ) -> None:
        self.notify: Callable[[str], None] = lambda line: None
        """Called, on whatever thread, with a line for the user that no result or error carries."""
        # More than what tools may read: what a command makes of a large file is kept as a whole.
        limit = max(workspace.read_limit, MAX_CHANGED_FILE_BYTES)
        disk = filesystem or PosixFilesystem(workspace.root, limit, OPEN_FOLDERS)
        self._workspace = workspace
        self._store = store
        self._permit = permit
        self._proposals = LockedProposals(workspace, store, disk, lock_path, lambda line: self.notify(line), in_use)
        self._contents = self._proposals.contents
        self._reader = PosixFilesystem(workspace.root, limit)
        self._stacks = StackCache(store, disk, self._contents, self._proposals.save)

    # Reading

    def get(self, proposal_id: str) -> Proposal:
        """Return a proposal; raises UnknownProposal."""
        return self._proposals.get(proposal_id)

    def pending(self) -> list[Proposal]:
        """Return the proposals that await a decision, oldest first; stale ones too."""
        return list(self._store.proposals(waiting_only=True))

    def all(self) -> list[Proposal]:
        """Return every proposal, oldest first."""
        return list(self._store.proposals())

    def file_diffs(self, proposal_id: str) -> list[FileDiff]:
        """Return both texts of each file by path: what a decision is about, or was about."""
        from app.proposals.decide.patch_export import make_file_diff

        proposal = self.get(proposal_id)
        return [
            make_file_diff(self._contents, change, proposal.reasons)
            for change in iterate_cooperatively(proposal.files)
        ]

    def unified_diff(self, proposal_id: str) -> str:
        """Return the pending changes, or the decided ones, as a patch for git, patch and unidiff."""
        from app.proposals.decide.patch_export import export_patch

        return export_patch(self._contents, self.get(proposal_id))

    def path_changes(self, proposal_id: str) -> "list[PathChange]":
        """Return the pending or decided changes by path with all bytes; a moved file has two entries."""
        from app.proposals.decide.patch_export import export_changes

        return export_changes(self._contents, self.get(proposal_id))

    def versions_to_check(self, proposal_id: str, hunks: Collection[str] | None = None) -> "WorkspaceVersions":
        """Return the trees for the checks of a waiting proposal: with an approval, and without.

        Args:
            hunks: Those that the approval would name; None for all that is pending.
        """
        from app.proposals.decide.workspace_versions import make_proposal_versions

        # What is composed of chosen hunks for a check alone is not to be stored.
        contents, disk = ContentStore(self._store), self._reader
        return make_proposal_versions(self._store, contents, disk, self._proposals.get_pending(proposal_id), hunks)

    def overlay_with_hunks(self, proposal_id: str, chosen: Collection[str]) -> "PendingFiles":
        """Return the overlay in which only these hunks of a waiting proposal are applied.

        Args:
            proposal_id: A waiting one.
            chosen: Ids of hunks, and paths of files without hunks; with none, it is as without the proposal.
        """
        from app.proposals.decide.workspace_versions import overlay_with_hunks

        proposal = self._proposals.get_pending(proposal_id)
        return overlay_with_hunks(self._store, ContentStore(self._store), self._reader, proposal, chosen)

    def overlay_of_older_proposals(self, proposal_id: str) -> "PendingFiles":
        """Return the changes of all proposals that wait and are older than this one, which need not be staged yet."""
        from app.proposals.files.overlay import pending_files

        paths = PendingPaths()
        for each in self.pending():
            if int(each.id[1:]) < int(proposal_id[1:]):
                paths.add_proposal(each)
        return pending_files(ContentStore(self._store), paths.loaded_paths())

    def draft_versions_to_check(self, draft: "Draft") -> "WorkspaceVersions":
        """Return the trees for the checks of a draft, as if it were a proposal."""
        from app.proposals.decide.workspace_versions import make_draft_versions

        return make_draft_versions(self._store, self._contents, draft)

    # Staging

    def new_draft(self, session_id: str, proposal_id: str = "") -> "Draft":
        """Return an empty draft for the edits of one step; `proposal_id` if it was reserved already."""
        from app.proposals.stack.draft import Draft

        reserve = self._store.reserve_proposal_id
        return Draft(session_id, self._workspace, self._contents, self._view, reserve, proposal_id)

    def stage(self, draft: "Draft", summary: str, answers: Sequence[str] = ()) -> Proposal:
        """Make a draft a pending proposal, stacked on the waiting ones.

        A proposal with the draft's id is replaced: the draft holds all of its edits and more.

        Args:
            summary: One line; empty for the model's own words.
            answers: Proposals, denied or still waiting, whose feedback this one may answer, the likeliest first: it
                stands in for the first of them whose files it touches.

        Raises:
            NothingStaged: the edits cancel out.
        """
        from app.proposals.stack.proposal_staging import stage_draft

        with self._proposals.lock_for_writing():
            return stage_draft(self._proposals, self._stacks, draft, summary=summary, answers=answers)

    def stage_patch(self, text: str, *, include_approved: bool = False) -> Proposal:
        """Stage a patch from elsewhere; a patch of changes already on disk becomes a proposal that a denial reverts.

        Args:
            include_approved: Of what is on disk, also what was approved before.

        Raises:
            PatchRefused: it is no patch, or one for another tree.
        """
        from app.proposals.decide.patch_staging import PatchAlreadyApplied, stage_patch_text
        from app.proposals.stack.proposal_staging import stage_draft

        self._proposals.check_not_in_use()
        draft = self.new_draft("")
        folder = folder_in_repository(self._workspace.root)
        try:
            report = stage_patch_text(draft, text, folder, self._disk_draft, self._store)
        except PatchAlreadyApplied as found:
            origin = Origin(kind=OriginKind.DISK, ref="a patch")
            return self.stage_changes(
                found.changes, origin, "", on_disk=True, without=found.left_out, include_approved=include_approved
            )
        with self._proposals.lock_for_writing():
            return stage_draft(self._proposals, self._stacks, draft, without=report.left_out)

    def stage_changes(
        self,
        changes: "Sequence[PathChange]",
        origin: Origin,
        summary: str,
        *,
        on_disk: bool = False,
        without: Sequence[str] = (),
        include_approved: bool = False,
    ) -> Proposal:
        """Stage changes that were found in git, without hunks that were approved before.

        Args:
            changes: Each path as it was and as it is to be; what is there now may be another, and is merged with it.
            on_disk: What the paths are to be is on disk already, and what they were is what a denial writes.
            without: Files that were left out of a patch.
            include_approved: Also what was approved before.

        Raises:
            NothingStaged: they cancel out, or all of it was approved before or waits.
            UnsafePath: no tool may touch one of the paths.
        """
        from app.proposals.decide.signed_changes import UnsignedChanges, exclude_approved_hunks, explain_all_excluded
        from app.proposals.stack.proposal_staging import stage_draft

        self._proposals.check_not_in_use()
        for change in changes:
            self._workspace.check_folder_entry(change.path)
        left = UnsignedChanges(tuple(changes))
        if not include_approved:
            left = exclude_approved_hunks(self._store, self._contents, changes, None if on_disk else self._view())
            if changes and not left.changes:
                raise NothingStaged(explain_all_excluded(left.left_out))
        draft = self.new_draft("")
        draft.origin = origin
        draft.add_changes(left.changes)
        with self._proposals.lock_for_writing():
            return stage_draft(
                self._proposals,
                self._stacks,
                draft,
                summary=summary,
                without=without,
                left_out=left.left_out,
                on_disk=on_disk,
            )

    def replace_proposed_text(self, proposal_id: str, path: str, text: str, revision: int | None = None) -> Proposal:
        """Replace what a waiting proposal would write to a file with the user's text.

        Args:
            revision: The one that the text was made of; None for the one that is stored.

        Raises:
            StaleProposal: the files have moved on in a way that can't be merged.
            ChangedSinceShown: it was re-based since; the text would take back what is new in the file.
            InvalidUserText: the file is not text, is not in the proposal, or nothing is left of the change.
        """
        from app.proposals.decide.conflicts import replace_result_text

        with self._proposals.lock_for_writing():
            proposal = self._as_seen(proposal_id, revision, "edit")
            proposal = replace_result_text(self._contents, proposal, path, text)
            self._proposals.save(proposal)
            self._proposals.rebase_pending(proposal_paths(proposal))
            return self.get(proposal.id)

    def set_summary(self, proposal_id: str, summary: str) -> None:
        """Replace the summary of a waiting proposal; leave it as it is once a part was decided on."""
        with self._proposals.lock_for_writing():
            proposal = self._proposals.get_pending(proposal_id)
            if proposal.last is None:
                self._proposals.save(proposal.model_copy(update={"summary": summary}))

    def mark_reproduced(self, proposal_id: str, revision: int) -> Proposal:
        """Record that a second run of its command gave this revision of a waiting proposal again.

        Raises:
            ChangedSinceShown: it has another revision by now.
        """
        with self._proposals.lock_for_writing():
            proposal = self._proposals.get_pending(proposal_id)
            if proposal.recipe is None or proposal.revision != revision:
                raise ChangedSinceShown(f"{proposal.id} has changed meanwhile.")
            recipe = proposal.recipe.model_copy(update={"reproduced": revision})
            self._proposals.save(proposal.model_copy(update={"recipe": recipe}))
            return self.get(proposal_id)

    def replace_command_changes(
        self, proposal_id: str, revision: int, changes: "Sequence[PathChange]", recipe: CommandRecipe
    ) -> Proposal:
        """Replace a waiting proposal of a command by what the command makes of the present files.

        Args:
            revision: The one that is replaced.
            changes: What the command has changed, below all younger proposals.
            recipe: The command, with the tree on which it ran.

        Returns:
            The proposal in its next revision, stale no more.

        Raises:
            ChangedSinceShown: it has another revision by now.
            NothingStaged: the command changes nothing any more.
        """
        from app.proposals.stack.proposal_staging import replace_command_changes

        with self._proposals.lock_for_writing():
            proposal = self._proposals.get_pending(proposal_id)
            if proposal.revision != revision:
                raise ChangedSinceShown(f"{proposal.id} has changed meanwhile.")
            draft = self.new_draft(proposal.session, proposal_id)
            draft.add_changes(changes)
            replaced = replace_command_changes(self._proposals, proposal, draft, recipe)
            self._proposals.save(replaced)
            self._proposals.rebase_pending(proposal_paths(proposal) | proposal_paths(replaced))
            return self.get(proposal_id)

    def load_file_conflict(
        self, proposal_id: str, path: str = "", unsaved: "UnsavedText | None" = None
    ) -> "FileConflict":
        """Return a file of a stale proposal that conflicts with the disk.

        Args:
            path: The file to prefer, if it is among them.
            unsaved: The user's text for that file, to be merged with what is there now, whether it fits or not.

        Raises:
            ChangedSinceShown: all of it fits.
            InvalidUserText: it is nothing that can be resolved by hand; the message says why.
        """
        from app.proposals.decide.conflicts import load_file_conflict

        with self._proposals.lock_for_writing():
            overlay = self._proposals.overlay_of_older_proposals(self._proposals.get_pending(proposal_id))
            return load_file_conflict(overlay, self._proposals.get_pending(proposal_id), path, unsaved)

    def resolve_conflict(
        self, proposal_id: str, path: str, answer: "str | ConflictSide", seen: FileVersion | None
    ) -> Proposal:
        """Resolve a conflict of a waiting proposal with the user's answer.

        The file is then based on the disk; the other files are re-based as usual.

        Args:
            answer: Its whole text, or the side that is taken as a whole.
            seen: What was there when the user was shown the conflict (`FileConflict.disk`).

        Returns:
            The proposal: pending again, or stale if other files of it are in conflict.

        Raises:
            ChangedSinceShown: something else is there now.
            InvalidUserText: the text can't be written as that file is, or nothing is left of the proposal.
        """
        from app.proposals.decide.conflicts import resolve_conflict

        with self._proposals.lock_for_writing():
            overlay = self._proposals.overlay_of_older_proposals(self._proposals.get_pending(proposal_id))
            proposal = resolve_conflict(overlay, self._proposals.get_pending(proposal_id), path, answer, seen)
            self._proposals.save(proposal)
            self._proposals.rebase_pending(proposal_paths(proposal))
            return self.get(proposal.id)

    def split_hunks(self, proposal_id: str, lines: "SelectedLines", revision: int) -> "tuple[HunkPart, ...]":
        """Cut the hunks of a waiting proposal so that some lines can be decided on by themselves.

        Raises:
            ChangedSinceShown: the numbers of the lines are those of another revision.
            UnknownHunk: nothing of that file waits.
        """
        from app.proposals.stack import hunk_splitting

        with self._proposals.lock_for_writing():
            proposal = self._proposals.get_pending(proposal_id)
            if proposal.revision != revision:
                raise ChangedSinceShown(f"{proposal.id} has changed since it was shown; look at it again.")
            cut, parts = hunk_splitting.split_hunks(self._contents, proposal, lines)
            if cut is not proposal:
                self._proposals.save(cut)
            return parts

    # Deciding

    def approve(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        revision: int | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        circumstances: DecisionContext = UNKNOWN_CONTEXT,
        images: "Sequence[Image]" = (),
    ) -> DecisionResult:
        """Write a proposal, or a part of it, to disk: exactly what was shown, or nothing.

        A proposal that stacks on another that still waits can be approved first if it is independent of it: if its
        hunks fit the disk with their context as shown. The other one is then re-based.

        Args:
            hunks: Ids or numbers of hunks, or paths of files; None for all that is pending.
            revision: The one that was shown; None for the one that is stored.
            circumstances: What the user had before them, for the record.
            images: What the user attached to the words; their bytes are stored.

        Raises:
            StaleProposal: the files have moved on in a way that can't be merged.
            ChangedSinceShown: it was re-based since; what it would write now has to be looked at first.
            StackedProposal: it depends on one that still waits.
            ApplyFailed: the disk would not take it; every file is as before.
        """
        from app.proposals.decide import decision_outcomes, reopening

        with self._proposals.lock_for_writing():
            proposal = self._as_seen(proposal_id, revision, "approve")
            choice = decision_outcomes.make_decision_scope(proposal, hunks)
            if proposal.on_disk:
                outcome = reopening.plan_keep_on_disk(self._contents, proposal, choice)
            else:
                records = self._proposals.journal_records(proposal)
                started = reopening.versions_without_proposal(self._contents, proposal, records)
                outcome = decision_outcomes.plan_approval(
                    self._contents, self._proposals.filesystem, proposal, choice, started
                )
                self._permit(decision_outcomes.to_path_changes(self._contents, outcome.transitions))
            after = set_state(outcome.proposal, compute_state(outcome.proposal))
            word = "partly_approved" if after.state.is_pending else "approved"
            after = after.with_decision(
                word, outcome.files, choice.chosen_hunks, feedback, comments, circumstances, images
            )
            self._proposals.apply_decision("apply", proposal, after, outcome.transitions)
            changed = self._proposals.rebase_others(proposal)
            facts: tuple[HunkOutcome, ...] = ()
            with suppress(Exception):
                facts = decision_outcomes.describe_hunk_outcomes(
                    self._contents, self._proposals.filesystem, proposal, choice, choice.hunks
                )
            return DecisionResult(after, tuple(outcome.files), facts, changed)

    def deny(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        circumstances: DecisionContext = UNKNOWN_CONTEXT,
        revision: int | None = None,
        images: "Sequence[Image]" = (),
    ) -> DecisionResult:
        """Deny a proposal, or a part of it; proposals stacked on it are re-based.

        Nothing on disk changes, unless the proposal is about changes already on disk: they are reverted exactly as
        shown, or nothing is. The arguments and exceptions are those of `approve`.
        """
        with self._proposals.lock_for_writing():
            proposal = self._proposals.get_pending(proposal_id)
            if proposal.on_disk:
                proposal = self._as_seen(proposal_id, revision, "deny")
            return self._deny(proposal, hunks, feedback, comments, circumstances, images)

    def undo(self, proposal_id: str, circumstances: DecisionContext = UNKNOWN_CONTEXT) -> DecisionResult:
        """Undo what a proposal has written, byte for byte, or merged where the files changed elsewhere.

        What was partly approved becomes pending again as a whole, and so does what was denied. Hunks that were denied
        last, while others wait, become pending again first.

        Raises:
            NothingToUndo: it has written nothing, or was undone; or another waits in its stead.
            UndoConflict: a file has changed in the same places.
        """
        from app.proposals.decide.undo import undo_decision

        with self._proposals.lock_for_writing():
            return undo_decision(self._proposals, proposal_id, circumstances)

    def redo(self, proposal_id: str, circumstances: DecisionContext = UNKNOWN_CONTEXT) -> DecisionResult:
        """Write an undone proposal again; or deny again one whose denial was undone.

        Raises:
            NothingToUndo: it is not undone.
            UndoConflict: a file has changed in the same places.
        """
        from app.proposals.decide.undo import redo_decision

        with self._proposals.lock_for_writing():
            proposal = self.get(proposal_id)
            if proposal.reopened and proposal.state.is_pending:
                if proposal.on_disk:
                    proposal = self._proposals.get_rebased(proposal)
                return replace(self._deny(proposal, None, circumstances=circumstances), denial=True)
            return redo_decision(self._proposals, proposal, circumstances)

    # The world

    def rebase_pending(self, paths: Collection[str] | None = None) -> list[Proposal]:
        """Re-base pending proposals onto the present disk.

        Returns:
            The proposals that are different now.
        """
        with self._proposals.lock_for_writing():
            return self._proposals.rebase_pending(paths)

    def watched_paths(self) -> set[str]:
        """Return the paths that pending proposals depend on."""
        return {
            path
            for proposal in self.pending()
            for change in proposal.files
            for path in (change.path, change.old_path)
            if path and is_undecided(change)
        }

    def recover(self) -> list[str]:
        """Finish an interrupted apply; return one line for each that was rolled back or forward."""
        return self._proposals.recover()

    def wait_until_idle(self) -> None:
        """Return once nothing is being decided or staged here; in any case after as long as others wait for that."""
        self._proposals.wait_until_idle()

    # Inside

    def _view(self) -> Overlay:
        """The overlay for drafts, over the disk as it is now."""
        return Overlay(self._reader, self._contents, self._stacks.pending_paths())

    def _disk_draft(self) -> "Draft":
        """A draft over the disk alone, which becomes no proposal."""
        from app.proposals.stack.draft import Draft

        overlay = Overlay(self._reader, self._contents)
        return Draft("", self._workspace, self._contents, lambda: overlay, str)

    def _as_seen(self, proposal_id: str, revision: int | None, verb: str) -> Proposal:
        """Return a pending proposal re-based on the present; raises ChangedSinceShown if that changes it."""
        stored = self._proposals.get_pending(proposal_id)
        proposal = self._proposals.get_rebased(stored)
        if proposal.revision != (stored.revision if revision is None else revision):
            raise ChangedSinceShown(f"{proposal.id} has changed since it was shown; look at it again, then {verb}.")
        return proposal

    def _stale_words(self, proposal: Proposal) -> str:
        """Return why a stale proposal could not be approved, for the model."""
        if proposal.state is not ProposalState.STALE or proposal.on_disk:
            return ""
        from app.proposals.decide.conflicts import stale_explanation

        try:
            return stale_explanation(self._proposals.overlay_of_older_proposals(proposal), proposal)
        except (OSError, ProposalError):
            return f"{proposal.id} was stale and could not be approved: {proposal.reason}."

    def _deny(
        self,
        proposal: Proposal,
        hunks: Collection[str] | None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        circumstances: DecisionContext = UNKNOWN_CONTEXT,
        images: "Sequence[Image]" = (),
    ) -> DecisionResult:
        from app.proposals.decide import decision_outcomes, reopening

        choice = decision_outcomes.make_decision_scope(proposal, hunks)
        if proposal.on_disk:
            outcome = reopening.plan_disk_revert(self._contents, proposal, choice)
        else:
            records = self._proposals.journal_records(proposal)
            started = reopening.versions_without_proposal(self._contents, proposal, records)
            outcome = decision_outcomes.plan_denial(self._contents, proposal, choice, started)
        state = compute_state(outcome.proposal)
        if state.is_pending and proposal.state is ProposalState.STALE:
            state = ProposalState.STALE
        after = set_state(outcome.proposal, state, proposal.reason if state is ProposalState.STALE else "")
        said = "\n".join(filter(None, (proposal.feedback, feedback)))
        after = after.model_copy(update={"feedback": said})
        stale = self._stale_words(proposal)
        after = after.with_decision(
            "denied", outcome.files, choice.chosen_hunks, feedback, comments, circumstances, images, stale
        )
        if outcome.transitions:
            self._proposals.apply_decision("apply", proposal, after, outcome.transitions)
        else:
            self._proposals.save(after)
        changed = self._proposals.rebase_others(proposal)
        facts = decision_outcomes.describe_hunk_outcomes(
            self._contents, self._proposals.filesystem, proposal, choice, ()
        )
        return DecisionResult(self.get(proposal.id), tuple(outcome.files), facts, changed)
