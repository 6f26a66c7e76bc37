"""Service that stages, decides, undoes and re-bases proposals.

Modules for drafts, decisions and undo are imported where they are used: a session opens without them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.concurrency import iterate_when_event_loop_idle
from app.copies import replace
from app.proposals.files.filesystem import MAX_CHANGED_FILE_BYTES, OPEN_FOLDERS, PosixFilesystem
from app.proposals.files.overlay import ContentStore, Overlay
from app.proposals.stack.locked_proposals import LockedProposalAccess
from app.proposals.stack.stacking import StackCache, proposal_paths
from app.proposals.values.decision_facts import UNKNOWN_CONTEXT, DecisionContext, HunkOutcome, LineComment
from app.proposals.values.models import (
    DecisionResult,
    FileDiff,
    FileVersion,
    Proposal,
    ProposalState,
    compute_state,
    with_state,
)
from app.proposals.values.origin import CommandRecipe, OriginKind, ProposalOrigin
from app.proposals.values.pending_paths import PendingChangesByPath, has_undecided_part
from app.proposals.values.proposal_errors import ChangedSinceShown, NothingToStage, ProposalError
from app.workspace.git_repository import folder_path_in_repository
from app.workspace.paths import Workspace

if TYPE_CHECKING:
    from app.images.image import Image
    from app.proposals.decide.conflicts import ConflictChoice, FileConflict, UnsavedEdit
    from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
    from app.proposals.stack.draft import Draft
    from app.proposals.stack.hunk_splitting import HunkPart, SelectedLines
    from app.proposals.values.record_entries import RecordingStore
    from app.sandbox.captured_changes import PathChange, PendingFiles


class ProposalService:
    """Stages, approves, denies, undoes and re-bases the proposals of one workspace; methods work from any thread.

    Every change of state happens under a lock that other processes respect. Errors are `ProposalError`s with one
    line for the user; after an error everything is as it was before.

    Args:
        lock_path: A file outside the workspace, the same for every process that works on it.
        in_use: Returns whether a command runs directly on the files, which may change again when it ends.
        permit: Called with the changes that an approval is about to write; a ProposalError that it raises prevents
            it.
    """

    def __init__(
        self,
        workspace: Workspace,
        store: "RecordingStore",
        lock_path: Path,
        filesystem: PosixFilesystem | None = None,
        *,
        in_use: Callable[[], bool] = lambda: False,
        permit: "Callable[[Iterable[PathChange]], None]" = lambda changes: None,
    ) -> None:
        self.notify: Callable[[str], None] = lambda line: None
        """Called, on any thread, with a line for the user that is in no result or error."""
        # More than what tools may read: large files that a command changes are stored as a whole.
        limit = max(workspace.read_limit, MAX_CHANGED_FILE_BYTES)
        disk = filesystem or PosixFilesystem(workspace.root, limit, OPEN_FOLDERS)
        self._workspace = workspace
        self._store = store
        self._permit = permit
        self._proposals = LockedProposalAccess(
            workspace, store, disk, lock_path, lambda line: self.notify(line), in_use
        )
        self._contents = self._proposals.contents
        self._reader = PosixFilesystem(workspace.root, limit)
        self._stacks = StackCache(store, disk, self._contents, self._proposals.save)

    # Reading

    def get(self, proposal_id: str) -> Proposal:
        """Return a proposal; raises UnknownProposal."""
        return self._proposals.get(proposal_id)

    def pending(self) -> list[Proposal]:
        """Return the proposals that await a decision, oldest first, including stale ones."""
        return list(self._store.proposals(waiting_only=True))

    def all(self) -> list[Proposal]:
        """Return every proposal, oldest first."""
        return list(self._store.proposals())

    def file_diffs(self, proposal_id: str) -> list[FileDiff]:
        """Return the old and the new text of each file that the proposal changes or has changed."""
        from app.proposals.decide.patch_export import make_review_diff

        proposal = self.get(proposal_id)
        return [
            make_review_diff(self._contents, change, proposal.reasons)
            for change in iterate_when_event_loop_idle(proposal.files)
        ]

    def unified_diff(self, proposal_id: str) -> str:
        """Return the pending changes, or the decided ones, as a patch for git, patch and unidiff."""
        from app.proposals.decide.patch_export import export_patch

        return export_patch(self._contents, self.get(proposal_id))

    def path_changes(self, proposal_id: str) -> "list[PathChange]":
        """Return the pending or decided changes by path with all bytes; a moved file has two entries."""
        from app.proposals.decide.patch_export import exported_path_changes

        return exported_path_changes(self._contents, self.get(proposal_id))

    def versions_to_check(
        self, proposal_id: str, hunks: Collection[str] | None = None
    ) -> "FilesToCheckBeforeAndAfter":
        """Return the versions that checks of a pending proposal compare: with an approval, and without.

        Args:
            hunks: The hunks that the approval would name; None for all pending ones.
        """
        from app.proposals.decide.workspace_versions import proposal_versions_to_check

        # Use a separate content store: contents that exist only for a check must not be saved.
        contents, disk = ContentStore(self._store), self._reader
        return proposal_versions_to_check(
            self._store, contents, disk, self._proposals.get_pending(proposal_id), hunks
        )

    def overlay_with_hunks(self, proposal_id: str, chosen: Collection[str]) -> "PendingFiles":
        """Return the overlay in which only these hunks of a pending proposal are applied.

        Args:
            chosen: Ids of hunks, and paths of files without hunks; empty for the overlay without the proposal.
        """
        from app.proposals.decide.workspace_versions import overlay_with_hunks

        proposal = self._proposals.get_pending(proposal_id)
        return overlay_with_hunks(self._store, ContentStore(self._store), self._reader, proposal, chosen)

    def overlay_of_older_proposals(self, proposal_id: str) -> "PendingFiles":
        """Return the changes of all pending proposals that are older than this one, which need not be staged yet."""
        from app.proposals.files.overlay import read_pending_files

        paths = PendingChangesByPath()
        for proposal in self.pending():
            if proposal.number < int(proposal_id[1:]):
                paths.add_proposal(proposal)
        return read_pending_files(ContentStore(self._store), paths.loaded_paths())

    def draft_versions_to_check(self, draft: "Draft") -> "FilesToCheckBeforeAndAfter":
        """Return the versions that checks of a draft compare, as if it were a proposal."""
        from app.proposals.decide.workspace_versions import draft_versions_to_check

        return draft_versions_to_check(self._store, self._contents, draft)

    # Staging

    def new_draft(self, session_id: str, proposal_id: str = "") -> "Draft":
        """Return an empty draft for the edits of one step; `proposal_id` is an id that was reserved before."""
        from app.proposals.stack.draft import Draft

        reserve = self._store.reserve_proposal_id
        return Draft(session_id, self._workspace, self._contents, self._draft_overlay, reserve, proposal_id)

    def stage(self, draft: "Draft", summary: str, answers: Sequence[str] = ()) -> Proposal:
        """Stage a draft as a pending proposal on top of the others.

        A proposal with the draft's id is replaced: the draft has all of its edits and more.

        Args:
            summary: One line; empty for the model's own words.
            answers: Proposals, denied or pending, whose feedback this one may answer, the likeliest first: it
                supersedes the first one whose files it touches.

        Raises:
            NothingToStage: the edits cancel out.
        """
        from app.proposals.stack.proposal_staging import stage_draft

        with self._proposals.lock_for_writing():
            return stage_draft(self._proposals, self._stacks, draft, summary=summary, answered_proposals=answers)

    def stage_patch(self, text: str, *, include_approved: bool = False) -> Proposal:
        """Stage a patch of the user; if its changes are already on disk, a denial of the proposal reverts them.

        Args:
            include_approved: Whether to include changes on disk that were approved before.

        Raises:
            PatchRefused: the text is not a patch, or does not fit the files.
        """
        from app.proposals.decide.patch_staging import PatchAlreadyApplied, apply_patch_text
        from app.proposals.stack.proposal_staging import stage_draft

        self._proposals.check_not_in_use()
        draft = self.new_draft("")
        folder = folder_path_in_repository(self._workspace.root)
        try:
            report = apply_patch_text(draft, text, folder, self._disk_draft, self._store)
        except PatchAlreadyApplied as found:
            origin = ProposalOrigin(kind=OriginKind.DISK, ref="a patch")
            return self.stage_changes(
                found.changes, origin, "", on_disk=True, without=found.left_out, include_approved=include_approved
            )
        with self._proposals.lock_for_writing():
            return stage_draft(self._proposals, self._stacks, draft, skipped_files=report.left_out)

    def stage_changes(
        self,
        changes: "Sequence[PathChange]",
        origin: ProposalOrigin,
        summary: str,
        *,
        on_disk: bool = False,
        without: Sequence[str] = (),
        include_approved: bool = False,
    ) -> Proposal:
        """Stage changes that were found in git, without hunks that were approved before.

        Args:
            changes: Each path with its content before and after; the change is merged into the present file.
            on_disk: Whether the content after is already on disk; a denial then writes the content before.
            without: Files that were left out of a patch.
            include_approved: Whether to include hunks that were approved before.

        Raises:
            NothingToStage: the changes cancel out, or all of them were approved before or are pending.
            UnsafePath: no tool may touch one of the paths.
        """
        from app.proposals.decide.signed_changes import (
            ChangesAndExcludedHunks,
            exclude_approved_or_pending_hunks,
            explain_nothing_to_stage,
        )
        from app.proposals.stack.proposal_staging import stage_draft

        self._proposals.check_not_in_use()
        for change in changes:
            self._workspace.check_folder_entry(change.path)
        unsigned = ChangesAndExcludedHunks(tuple(changes))
        if not include_approved:
            overlay = None if on_disk else self._draft_overlay()
            unsigned = exclude_approved_or_pending_hunks(self._store, self._contents, changes, overlay)
            if changes and not unsigned.changes:
                raise NothingToStage(explain_nothing_to_stage(unsigned.left_out))
        draft = self.new_draft("")
        draft.origin = origin
        draft.add_changes(unsigned.changes)
        with self._proposals.lock_for_writing():
            return stage_draft(
                self._proposals,
                self._stacks,
                draft,
                summary=summary,
                skipped_files=without,
                excluded_hunks=unsigned.left_out,
                on_disk=on_disk,
            )

    def replace_proposed_text(self, proposal_id: str, path: str, text: str, revision: int | None = None) -> Proposal:
        """Replace the result of a pending proposal for one file by the user's text.

        Args:
            revision: The revision on which the text is based; None for the stored one.

        Raises:
            StaleProposal: the files have changed and cannot be merged.
            ChangedSinceShown: it was re-based since; the text would revert what is new in the file.
            InvalidUserEdit: the file is not text, is not in the proposal, or nothing is left of the change.
        """
        from app.proposals.decide.conflicts import replace_result_by_user_text

        with self._proposals.lock_for_writing():
            proposal = self._get_as_shown(proposal_id, revision, "edit")
            proposal = replace_result_by_user_text(self._contents, proposal, path, text)
            self._proposals.save(proposal)
            self._proposals.rebase_pending(proposal_paths(proposal))
            return self.get(proposal.id)

    def set_summary(self, proposal_id: str, summary: str) -> None:
        """Replace the summary of a pending proposal, unless a part of it was decided."""
        with self._proposals.lock_for_writing():
            proposal = self._proposals.get_pending(proposal_id)
            if proposal.last is None:
                self._proposals.save(proposal.model_copy(update={"summary": summary}))

    def mark_reproduced(self, proposal_id: str, revision: int) -> Proposal:
        """Record that a second run of its command gave this revision of a pending proposal again.

        Raises:
            ChangedSinceShown: it has another revision now.
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
        """Replace the changes of a command's pending proposal by what the command makes of the present files.

        Args:
            revision: The revision that is replaced.
            changes: What the command has changed, without any younger proposals.
            recipe: The command, with the tree on which it ran.

        Returns:
            The proposal in its next revision, not stale any more.

        Raises:
            ChangedSinceShown: it has another revision now.
            NothingToStage: the command changes nothing any more.
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
        self, proposal_id: str, path: str = "", unsaved: "UnsavedEdit | None" = None
    ) -> "FileConflict":
        """Return a file of a stale proposal that conflicts with the disk, as `conflicts.load_file_conflict` does."""
        from app.proposals.decide.conflicts import load_file_conflict

        with self._proposals.lock_for_writing():
            overlay = self._proposals.overlay_of_older_proposals(self._proposals.get_pending(proposal_id))
            return load_file_conflict(overlay, self._proposals.get_pending(proposal_id), path, unsaved)

    def resolve_conflict(
        self, proposal_id: str, path: str, answer: "str | ConflictChoice", seen: FileVersion | None
    ) -> Proposal:
        """Resolve a conflict of a pending proposal with the user's answer.

        The file is then based on the disk; the other files are re-based as usual. The proposal is pending again, or
        stale if other files of it are in conflict. Arguments and exceptions are as for `conflicts.resolve_conflict`.
        """
        from app.proposals.decide.conflicts import resolve_conflict

        with self._proposals.lock_for_writing():
            overlay = self._proposals.overlay_of_older_proposals(self._proposals.get_pending(proposal_id))
            proposal = resolve_conflict(overlay, self._proposals.get_pending(proposal_id), path, answer, seen)
            self._proposals.save(proposal)
            self._proposals.rebase_pending(proposal_paths(proposal))
            return self.get(proposal.id)

    def split_hunks(self, proposal_id: str, lines: "SelectedLines", revision: int) -> "tuple[HunkPart, ...]":
        """Split hunks of a pending proposal so that some lines can be decided separately.

        Raises:
            ChangedSinceShown: the line numbers are those of another revision.
            NoSuchPendingHunk: nothing of that file is pending.
        """
        from app.proposals.stack import hunk_splitting

        with self._proposals.lock_for_writing():
            proposal = self._proposals.get_pending(proposal_id)
            if proposal.revision != revision:
                raise ChangedSinceShown(f"{proposal.id} has changed since it was shown; look at it again.")
            split, parts = hunk_splitting.split_hunks(self._contents, proposal, lines)
            if split is not proposal:
                self._proposals.save(split)
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

        A proposal on top of another pending one can be approved first if it is independent of it: if its hunks fit
        the disk with their context as shown. The other one is then re-based.

        Args:
            hunks: Ids or numbers of hunks, or paths of files; None for all that is pending.
            revision: The revision that was shown; None for the stored one.
            circumstances: What the user had seen, for the record.
            images: What the user attached to the feedback; their bytes are stored.

        Raises:
            StaleProposal: the files have changed and cannot be merged.
            ChangedSinceShown: it was re-based since; the user has to look at the new result first.
            DependsOnPendingProposal: it depends on one that is still pending.
            ApplyFailed: the write failed; every file is as before.
        """
        from app.proposals.decide import decision_outcomes, reopening

        with self._proposals.lock_for_writing():
            proposal = self._get_as_shown(proposal_id, revision, "approve")
            choice = decision_outcomes.make_decision_scope(proposal, hunks)
            if proposal.on_disk:
                outcome = reopening.plan_approval_of_edits_on_disk(self._contents, proposal, choice)
            else:
                records = self._store.journal_records(proposal=proposal.id)
                start_versions = reopening.versions_without_proposal(self._contents, proposal, records)
                outcome = decision_outcomes.plan_approval(
                    self._contents, self._proposals.filesystem, proposal, choice, start_versions
                )
                self._permit(decision_outcomes.load_path_changes(self._contents, outcome.transitions))
            after = with_state(outcome.proposal, compute_state(outcome.proposal))
            decision = "partly_approved" if after.state.is_pending else "approved"
            after = after.with_decision(
                decision, outcome.files, choice.chosen_hunks, feedback, comments, circumstances, images
            )
            self._proposals.apply_decision("apply", proposal, after, outcome.transitions)
            changed = self._proposals.rebase_others(proposal)
            hunk_outcomes: tuple[HunkOutcome, ...] = ()
            with suppress(Exception):
                hunk_outcomes = decision_outcomes.describe_hunk_outcomes(
                    self._contents, self._proposals.filesystem, proposal, choice, choice.hunks
                )
            return DecisionResult(after, tuple(outcome.files), hunk_outcomes, changed)

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
                proposal = self._get_as_shown(proposal_id, revision, "deny")
            return self._deny(proposal, hunks, feedback, comments, circumstances, images)

    def undo(self, proposal_id: str, circumstances: DecisionContext = UNKNOWN_CONTEXT) -> DecisionResult:
        """Undo what a proposal has written: byte for byte, or merged if the files have changed since.

        A partly approved proposal becomes pending again as a whole, and so does a denied one. If hunks were denied
        last while others are pending, only these become pending again. Raises NothingToUndo or UndoConflict.
        """
        from app.proposals.decide.undo import undo_decision

        with self._proposals.lock_for_writing():
            return undo_decision(self._proposals, proposal_id, circumstances)

    def redo(self, proposal_id: str, circumstances: DecisionContext = UNKNOWN_CONTEXT) -> DecisionResult:
        """Write an undone proposal again, or deny one again whose denial was undone.

        Raises NothingToUndo or UndoConflict.
        """
        from app.proposals.decide.undo import redo_decision

        with self._proposals.lock_for_writing():
            proposal = self.get(proposal_id)
            if proposal.reopened and proposal.state.is_pending:
                if proposal.on_disk:
                    proposal = self._proposals.get_rebased(proposal)
                return replace(self._deny(proposal, None, circumstances=circumstances), denial=True)
            return redo_decision(self._proposals, proposal, circumstances)

    # Changes on disk

    def rebase_pending(self, paths: Collection[str] | None = None) -> list[Proposal]:
        """Re-base pending proposals onto the present disk.

        Returns:
            The proposals that have changed.
        """
        with self._proposals.lock_for_writing():
            return self._proposals.rebase_pending(paths)

    def watched_paths(self) -> set[str]:
        """Return the paths that pending proposals depend on."""
        changes = (change for proposal in self.pending() for change in proposal.files if has_undecided_part(change))
        return {path for change in changes for path in change.paths}

    def recover(self) -> list[str]:
        """Finish an interrupted apply; return one line for each that was rolled back or completed."""
        return self._proposals.recover()

    def wait_until_idle(self) -> None:
        """Wait until nothing is being decided or staged here, but not longer than others wait for the lock."""
        self._proposals.lock.wait_until_free()

    # Helpers

    def _draft_overlay(self) -> Overlay:
        return Overlay(self._reader, self._contents, self._stacks.pending_paths())

    def _disk_draft(self) -> "Draft":
        """Return a draft over the disk alone, which is never staged."""
        from app.proposals.stack.draft import Draft

        overlay = Overlay(self._reader, self._contents)
        return Draft("", self._workspace, self._contents, lambda: overlay, str)

    def _get_as_shown(self, proposal_id: str, revision: int | None, verb: str) -> Proposal:
        """Return a pending proposal re-based onto the present files; raise ChangedSinceShown if that changes it."""
        stored = self._proposals.get_pending(proposal_id)
        proposal = self._proposals.get_rebased(stored)
        if proposal.revision != (stored.revision if revision is None else revision):
            raise ChangedSinceShown(f"{proposal.id} has changed since it was shown; look at it again, then {verb}.")
        return proposal

    def _explain_stale(self, proposal: Proposal) -> str:
        """Return why a stale proposal could not be approved, for the model."""
        if proposal.state is not ProposalState.STALE or proposal.on_disk:
            return ""
        from app.proposals.decide.conflicts import explain_stale_to_model

        try:
            return explain_stale_to_model(self._proposals.overlay_of_older_proposals(proposal), proposal)
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
            outcome = reopening.plan_on_disk_denial(self._contents, proposal, choice)
        else:
            records = self._store.journal_records(proposal=proposal.id)
            started = reopening.versions_without_proposal(self._contents, proposal, records)
            outcome = decision_outcomes.plan_denial(self._contents, proposal, choice, started)
        state = compute_state(outcome.proposal)
        if state.is_pending and proposal.state is ProposalState.STALE:
            state = ProposalState.STALE
        after = with_state(outcome.proposal, state, proposal.reason if state is ProposalState.STALE else "")
        all_feedback = "\n".join(filter(None, (proposal.feedback, feedback)))
        after = after.model_copy(update={"feedback": all_feedback})
        stale = self._explain_stale(proposal)
        after = after.with_decision(
            "denied", outcome.files, choice.chosen_hunks, feedback, comments, circumstances, images, stale
        )
        if outcome.transitions:
            self._proposals.apply_decision("apply", proposal, after, outcome.transitions)
        else:
            self._proposals.save(after)
        changed = self._proposals.rebase_others(proposal)
        hunk_outcomes = decision_outcomes.describe_hunk_outcomes(
            self._contents, self._proposals.filesystem, proposal, choice, ()
        )
        return DecisionResult(self.get(proposal.id), tuple(outcome.files), hunk_outcomes, changed)
