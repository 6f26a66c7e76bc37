"""Undo and redo decisions: file writes are reverted or repeated, denied hunks become pending again.

The caller holds `LockedProposalAccess.lock_for_writing`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, field

from app.proposals.decide import reopening
from app.proposals.decide.decision_outcomes import EMPTY_SCOPE, describe_hunk_outcomes
from app.proposals.decide.reopening import (
    count_undo_redo_lines,
    reopen_approved_part,
    reopen_denied_proposal,
    reopen_last_denied_hunks,
)
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.files.overlay import ContentStore, is_same_version
from app.proposals.journal.apply import describe_os_error
from app.proposals.journal.journal import PathTransition, effective_records, records_reverted_by_last_undo
from app.proposals.stack.locked_proposals import LockedProposalAccess
from app.proposals.stack.rebase import merge_bytes, merge_mode_preferring_theirs
from app.proposals.stack.stacking import proposal_paths
from app.proposals.text.document import Document
from app.proposals.values.decision_facts import DecisionContext, FileDiffStat
from app.proposals.values.models import (
    DecisionResult,
    FileVersion,
    Proposal,
    ProposalState,
    compute_state,
    describe_state,
    with_state,
)
from app.proposals.values.pending_paths import has_undecided_part
from app.proposals.values.proposal_errors import NothingToUndo, UndoConflict
from app.proposals.values.proposal_store import JournalRecord


class _UndoRedoStep(Struct, frozen=True):
    """A step of an undo or redo for one file: from `expected` at `source` to `target` at `path`."""

    source: str
    path: str
    expected: FileVersion | None
    target: FileVersion | None


class _UndoRedoSimulation(Struct):
    """Applies steps in memory to the contents of the disk."""

    filesystem: PosixFilesystem
    contents: ContentStore
    before: dict[str, FileVersion | None] = field(default_factory=dict)
    """The version on disk of each path that was read."""
    after: dict[str, FileVersion | None] = field(default_factory=dict)

    def run(self, steps: Iterable[_UndoRedoStep]) -> list[PathTransition]:
        """Return the transitions that result from the steps.

        Raises:
            UndoConflict: a file has changed in the same places, or is not where it should be.
        """
        moves: dict[str, str] = {}
        for step in steps:
            target = self._apply_step(step)
            if step.source != step.path:
                if self._present_version(step.path) is not None:
                    raise UndoConflict(f"there is another {step.path} now; move it away first")
                self.after[step.source] = None
                moves[step.source] = step.path
            self.after[step.path] = target
        return [
            PathTransition(path, before, self.after[path], moves.get(path, "") if self.after[path] is None else "")
            for path, before in self.before.items()
            if not is_same_version(before, self.after[path])
        ]

    def _present_version(self, path: str) -> FileVersion | None:
        if path not in self.after:
            try:
                file = self.filesystem.read(path)
            except OSError as error:
                raise UndoConflict(f"{path} can't be read ({describe_os_error(error)})") from error
            version = self.contents.add(file.data, file.version.mode) if file else None
            self.before[path] = self.after[path] = version
        return self.after[path]

    def _apply_step(self, step: _UndoRedoStep) -> FileVersion | None:
        """Return the present file with the step applied."""
        present, expected, target = self._present_version(step.source), step.expected, step.target
        if is_same_version(present, expected):
            return target
        if present is None:
            if target is None:
                return None
            raise UndoConflict(f"{step.source} is gone; put it back first")
        if expected is None:
            if target and present.sha256 == target.sha256:
                return present
            raise UndoConflict(f"there is another {step.source} now; move it away first")
        if target is None:
            if present.sha256 == expected.sha256:
                return None
            raise UndoConflict(
                f"{step.source} was changed since, and would be deleted; delete it yourself if you want that"
            )
        if present.is_link != expected.is_link or (present.is_link and present.sha256 != expected.sha256):
            raise UndoConflict(f"{step.source} is another link than it was, or none; put it back first")
        mode = merge_mode_preferring_theirs(expected, present, target)
        if present.sha256 == expected.sha256:
            return target.model_copy(update={"mode": mode})
        if expected.sha256 == target.sha256 or present.sha256 == target.sha256:
            return present.model_copy(update={"mode": mode})
        return self._merge(step.source, expected, present, target, mode)

    def _merge(
        self, path: str, expected: FileVersion, present: FileVersion, target: FileVersion, mode: int
    ) -> FileVersion:
        base, ours, theirs = (self.contents.get(version) for version in (expected, present, target))
        if any(Document(data).is_binary for data in (base, ours, theirs)):
            raise UndoConflict(f"{path} is binary and was changed since")
        merged, merge = merge_bytes(base, ours, theirs)
        if merge.conflicts:
            line = merge.conflicts[0].ours_start + 1
            raise UndoConflict(f"{path} was changed since at line {line}, in the same place; undo that change first")
        return self.contents.add(merged, mode)


def _undo_steps(records: Sequence[JournalRecord]) -> Iterator[_UndoRedoStep]:
    """Yield the steps that undo these records, which come newest first."""
    for record in records:
        for source, path, before, after in _file_versions(record):
            yield _UndoRedoStep(path, source, after, before)


def _redo_steps(records: Sequence[JournalRecord]) -> Iterator[_UndoRedoStep]:
    """Yield the steps that redo these records, which come newest first."""
    for record in reversed(records):
        for source, path, before, after in _file_versions(record):
            yield _UndoRedoStep(source, path, before, after)


def _file_versions(record: JournalRecord) -> Iterator[tuple[str, str, FileVersion | None, FileVersion | None]]:
    """Yield source, path, and the versions before and after of each file; the two entries of a rename become one."""
    targets = {entry.new_path: entry for entry in record.entries if entry.new_path}
    by_path = {entry.path: entry for entry in record.entries}
    for entry in record.entries:
        before = _version(entry.before, entry.before_mode)
        if entry.new_path and entry.new_path in by_path:
            after = by_path[entry.new_path]
            yield entry.path, entry.new_path, before, _version(after.after, after.after_mode)
        elif not (entry.path in targets and entry.before is None):
            yield entry.path, entry.path, before, _version(entry.after, entry.after_mode)


def _version(sha256: str | None, mode: int | None) -> FileVersion | None:
    """Return a version without its size, which the journal does not store and undo does not need."""
    return None if sha256 is None else FileVersion(sha256=sha256, size=0, mode=0o644 if mode is None else mode)


def undo_decision(
    proposals: LockedProposalAccess, proposal_id: str, circumstances: DecisionContext
) -> DecisionResult:
    """Undo the last decision on a proposal: its writes, or the denial of it or of its hunks.

    Raises:
        NothingToUndo: it has written nothing, was undone already, or the proposal that supersedes it is pending.
        UndoConflict: a file has changed in the same places, or is not where it should be.
    """
    proposals.rebase_pending(proposal_paths(proposals.get(proposal_id)))
    proposal = proposals.get(proposal_id)
    if proposal.on_disk:
        return _reopen_on_disk(proposals, proposal, circumstances)
    if proposal.state is ProposalState.DENIED:
        return _reopen_denied(proposals, proposal, circumstances)
    records = effective_records(proposals.store.journal_records(proposal=proposal.id))
    latest_decision = proposal.last.decision if proposal.last else ""
    if proposal.has_denied_part and (not records or latest_decision in ("denied", "reopened")):
        return _reopen_part(proposals, proposal, circumstances)
    if proposal.state is ProposalState.STALE and records:
        raise NothingToUndo(f"{proposal.id} has a part that no longer fits; deny that first, then undo the rest.")
    if proposal.state not in (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED) or not records:
        raise NothingToUndo(f"{proposal.id} is {describe_state(proposal.state)}; there is nothing to undo.")
    simulation, transitions = _simulate(proposals, proposal, _undo_steps(records), "undone")
    if proposal.state is ProposalState.APPLIED:
        after = with_state(proposal, ProposalState.UNDONE)
    else:
        reopened = reopen_approved_part(proposals.contents, proposal, records, simulation.before, simulation.after)
        after = with_state(reopened, ProposalState.PENDING)
    after = after.with_decision("undone", circumstances=circumstances)
    folders = {folder for record in records for folder in record.made_folders}
    proposals.apply_decision("undo", proposal, after, transitions, folders)
    return _finish(proposals, proposal, after, transitions, backwards=True)


def redo_decision(
    proposals: LockedProposalAccess, proposal: Proposal, circumstances: DecisionContext
) -> DecisionResult:
    """Write an undone proposal again.

    Raises:
        NothingToUndo: it is not undone.
        UndoConflict: a file has changed in the same places, or is not where it should be.
    """
    records = records_reverted_by_last_undo(proposals.store.journal_records(proposal=proposal.id))
    if proposal.state is not ProposalState.UNDONE or not records:
        raise NothingToUndo(f"{proposal.id} is {describe_state(proposal.state)}; there is nothing to redo.")
    _, transitions = _simulate(proposals, proposal, _redo_steps(records), "redone")
    folders = {folder for record in records for folder in record.dropped_folders}
    after = with_state(proposal, ProposalState.APPLIED).with_decision("redone", circumstances=circumstances)
    proposals.apply_decision("redo", proposal, after, transitions, folders)
    return _finish(proposals, proposal, after, transitions, backwards=False)


def _reopen_denied(
    proposals: LockedProposalAccess, proposal: Proposal, circumstances: DecisionContext
) -> DecisionResult:
    """Make a denied proposal pending again, re-based onto the present files; stale if it does not fit any more."""
    _check_successor(proposals, proposal)
    reopened = reopen_denied_proposal(proposal).with_decision("reopened", circumstances=circumstances)
    proposals.save(reopened)
    changed = proposals.rebase_others(proposal)
    pending_files = tuple(change.stat for change in reopened.files)
    return DecisionResult(proposals.get(proposal.id), pending_files, (), changed, denial=True)


def _check_successor(proposals: LockedProposalAccess, proposal: Proposal) -> None:
    """Raise NothingToUndo if the proposal that supersedes it is still pending."""
    successor = proposals.store.proposal(proposal.superseded_by) if proposal.superseded_by else None
    if successor is not None and successor.state.is_pending:
        raise NothingToUndo(f"{successor.id} replaces {proposal.id} and is still pending; decide on that first.")


def _reopen_part(
    proposals: LockedProposalAccess, proposal: Proposal, circumstances: DecisionContext
) -> DecisionResult:
    """Make the hunks that were denied last pending again."""
    reopened = reopen_last_denied_hunks(proposals.contents, proposal)
    hunk_ids = _newly_pending_hunks(proposal, reopened)
    reopened = reopened.with_decision("reopened", hunks=hunk_ids, circumstances=circumstances)
    proposals.save(reopened)
    changed = proposals.rebase_others(proposal)
    outcomes = describe_hunk_outcomes(proposals.contents, proposals.filesystem, reopened, EMPTY_SCOPE, ())
    reopened_outcomes = tuple(fact for fact in outcomes if fact.hunk in hunk_ids)
    return DecisionResult(proposals.get(proposal.id), (), reopened_outcomes, changed, denial=True)


def _reopen_on_disk(
    proposals: LockedProposalAccess, proposal: Proposal, circumstances: DecisionContext
) -> DecisionResult:
    """Make the last decision on a change already on disk pending again; reverted files come back."""
    _check_successor(proposals, proposal)
    decision = reopening.latest_decision_number(proposal)
    reopened = reopening.reopen_decision(proposals.contents, proposal, decision)
    hunk_ids = _newly_pending_hunks(proposal, reopened)
    is_whole = len(hunk_ids) == len(reopened.hunks)
    record = next(
        (each for each in proposals.store.journal_records(proposal=proposal.id) if _is_record_of(each, decision)),
        None,
    )
    reopened = reopened.model_copy(update={"reopened": is_whole and record is not None})
    reopened = with_state(reopened, compute_state(reopened)).with_decision(
        "reopened", hunks=[] if is_whole else hunk_ids, circumstances=circumstances
    )
    transitions: list[PathTransition] = []
    if record is not None:
        _, transitions = _simulate(proposals, proposal, _undo_steps([record]), "undone")
    proposals.apply_decision("undo", proposal, reopened, transitions, set(record.made_folders) if record else None)
    changed = proposals.rebase_others(proposal)
    after = proposals.get(proposal.id)
    outcomes = describe_hunk_outcomes(proposals.contents, proposals.filesystem, after, EMPTY_SCOPE, hunk_ids)
    files = tuple(change.stat for change in after.files if has_undecided_part(change)) if is_whole else ()
    return DecisionResult(
        after,
        files,
        () if is_whole else tuple(fact for fact in outcomes if fact.hunk in hunk_ids),
        changed,
        denial=True,
    )


def _newly_pending_hunks(before: Proposal, after: Proposal) -> list[str]:
    pending_before = {hunk.id for hunk in before.pending_hunks}
    return [hunk.id for hunk in after.pending_hunks if hunk.id not in pending_before]


def _is_record_of(record: JournalRecord, decision: int) -> bool:
    if record.state != "done" or record.action != "apply":
        return False
    last = Proposal.model_validate_json(record.after_proposal).last
    return last is not None and last.number == decision


def _simulate(
    proposals: LockedProposalAccess, proposal: Proposal, steps: Iterator[_UndoRedoStep], verb: str
) -> tuple[_UndoRedoSimulation, list[PathTransition]]:
    simulation = _UndoRedoSimulation(proposals.filesystem, proposals.contents)
    try:
        return simulation, simulation.run(steps)
    except UndoConflict as conflict:
        raise UndoConflict(f"{proposal.id} can't be {verb}: {conflict}.") from None


def _finish(
    proposals: LockedProposalAccess,
    before: Proposal,
    after: Proposal,
    transitions: Sequence[PathTransition],
    *,
    backwards: bool,
) -> DecisionResult:
    """Re-base other proposals and return the result of an undo or redo; errors in counting lines are ignored."""
    changed = proposals.rebase_others(after)
    files: tuple[FileDiffStat, ...] = ()
    with suppress(Exception):
        files = count_undo_redo_lines(proposals.contents, before, transitions, backwards=backwards)
        after = proposals.get(after.id)
    return DecisionResult(after, files, (), changed)
