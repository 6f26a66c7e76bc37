"""Reconstruct from the journal how a proposal's files started, and make decided parts pending again."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from app.proposals.decide.decision_outcomes import (
    DecisionScope,
    PlannedDecision,
    apply_hunks,
    decide_each_file,
    path_transitions,
    version_after_approval,
)
from app.proposals.files.file_changes import (
    decide_hunks,
    make_file_change,
    make_file_diff_stat,
    next_hunk_number,
    recompute_hunks_keeping_decided,
    replace_versions_keeping_hunks,
)
from app.proposals.files.filesystem import make_file_version
from app.proposals.files.overlay import ContentStore, is_same_version
from app.proposals.journal.journal import PathTransition, effective_records
from app.proposals.stack.rebase import merge_bytes
from app.proposals.text.hunks import has_changed_lines, set_state_of_pending_hunks
from app.proposals.values.decision_facts import FileDiffStat
from app.proposals.values.models import (
    FileChange,
    FileOperation,
    FileVersion,
    Hunk,
    HunkState,
    OnDiskChangeDecision,
    Proposal,
    ProposalState,
    with_state,
)
from app.proposals.values.proposal_errors import NothingToUndo
from app.proposals.values.proposal_store import JournalEntry, JournalRecord

Versions = Mapping[str, FileVersion | None]


def versions_without_proposal(
    contents: ContentStore, proposal: Proposal, records: Sequence[JournalRecord]
) -> Versions:
    """Return the content that each file would have without this proposal's writes, as far back as the journal goes.

    If nothing else has changed the file, this is its content before the first write. Otherwise the writes are merged
    out of the change's present base, which includes the pending edits that the proposal builds on.

    Args:
        records: All journal records of the proposal, newest first.
    """
    versions: dict[str, FileVersion | None] = {}
    records_in_effect = effective_records(records)
    for change in proposal.files:
        version = change.base
        for record in records_in_effect:
            for entry in record.entries:
                if entry.path == change.path and version is not None:
                    version = _remove_write(contents, version, entry)
        versions[change.path] = version
    return versions


def _remove_write(contents: ContentStore, version: FileVersion, entry: JournalEntry) -> FileVersion:
    """Return a version without a written part; unchanged if that has changed since, or is the whole file."""
    if entry.before is None or entry.after is None:
        return version
    mode = version.mode if entry.before_mode is None else entry.before_mode
    before = contents.get(FileVersion(sha256=entry.before, size=0, mode=mode))
    if entry.after == version.sha256:
        return make_file_version(before, mode)
    after = contents.get(FileVersion(sha256=entry.after, size=0))
    merged, merge = merge_bytes(after, contents.get(version), before)
    return version if merge.conflicts else contents.add(merged, version.mode)


def reopen_approved_part(
    contents: ContentStore, proposal: Proposal, records: Sequence[JournalRecord], before: Versions, after: Versions
) -> Proposal:
    """Return a partly approved proposal with its approved part pending again.

    Args:
        records: The records that are reverted, newest first.
        before: The files on disk now.
        after: The files once the records are reverted.
    """
    moved_from = {entry.new_path: entry.path for record in records for entry in record.entries if entry.new_path}

    def reopen(change: FileChange) -> FileChange | None:
        if not change.has_applied_part or change.path not in after:
            return None
        old_path = moved_from.get(change.path, "")
        base = after[old_path or change.path]
        # The journal stores no sizes.
        base = base and make_file_version(contents.get(base), base.mode)
        result = before[change.path] if change.state is HunkState.APPLIED else change.result
        hunks = _reopen_hunks(change.hunks, lambda hunk: hunk.state is HunkState.APPLIED)
        return replace_versions_keeping_hunks(change, base, result, old_path, state=HunkState.PENDING, hunks=hunks)

    return _reopen_files(contents, proposal, reopen)


def _reopen_files(
    contents: ContentStore, proposal: Proposal, reopen: Callable[[FileChange], FileChange | None]
) -> Proposal:
    """Return the next revision with reopened files and their new hunks; `reopen` returns None for other files."""
    number = next_hunk_number(proposal.files)
    files: list[FileChange] = []
    for change in proposal.files:
        reopened = reopen(change)
        files.append(
            change if reopened is None else recompute_hunks_keeping_decided(contents, reopened, next_number=number)
        )
        number = max(number, next_hunk_number(files[-1:]))
    return proposal.next_revision(files)


def reopen_denied_proposal(proposal: Proposal) -> Proposal:
    """Return a denied proposal with the part that was denied last pending again, without its feedback.

    Hunks that were denied individually before are not in any result any more and stay as marks of their place.
    """
    files: list[FileChange] = []
    for change in proposal.files:
        update = {
            "state": HunkState.PENDING,
            "hunks": _reopen_hunks(change.hunks, _is_whole_denial),
            "denied": tuple(part for part in change.denied if not is_same_version(part.before, part.after)),
        }
        files.append(change.model_copy(update=update))
    return with_state(proposal.next_revision(files, feedback="", reopened=True), ProposalState.PENDING)


def _is_whole_denial(hunk: Hunk) -> bool:
    """Return whether a hunk was denied with the whole proposal: it is still in the result."""
    return hunk.state is HunkState.DENIED and has_changed_lines(hunk)


def _reopen_hunks(hunks: Iterable[Hunk], is_reopened: Callable[[Hunk], bool]) -> tuple[Hunk, ...]:
    """Return the hunks; those for which `is_reopened` is true are pending again."""
    return tuple(
        hunk.model_copy(update={"state": HunkState.PENDING}) if is_reopened(hunk) else hunk for hunk in hunks
    )


def reopen_last_denied_hunks(contents: ContentStore, proposal: Proposal) -> Proposal:
    """Return a pending proposal with the hunks that were denied last pending again, at their present place.

    Args:
        proposal: One with a denied part.

    Raises:
        NothingToUndo: the proposed text has changed in the same places since.
    """
    latest = max(denied.decision for change in proposal.files for denied in change.denied)

    def reopen(change: FileChange) -> FileChange | None:
        denied = change.denied[-1] if change.denied else None
        if denied is None or denied.decision != latest:
            return None
        result = change.result
        if not is_same_version(denied.before, denied.after):
            if is_same_version(result, denied.after):
                result = denied.before
            elif result is not None:
                merged, merge = merge_bytes(*map(contents.get, (denied.after, result, denied.before)))
                if merge.conflicts:
                    raise NothingToUndo(
                        f"The proposed text of {change.path} has changed where the denied hunks were."
                    )
                result = contents.add(merged, result.mode)
        update = {
            "state": HunkState.PENDING,
            "denied": change.denied[:-1],
            "hunks": _reopen_hunks(change.hunks, lambda hunk: hunk.id in denied.hunks),
        }
        if result is change.result:
            return change.model_copy(update=update)
        return replace_versions_keeping_hunks(change, change.base, result, change.old_path, **update)

    return _reopen_files(contents, proposal, reopen)


def count_undo_redo_lines(
    contents: ContentStore, proposal: Proposal, transitions: Sequence[PathTransition], *, backwards: bool
) -> tuple[FileDiffStat, ...]:
    """Return the counts of lines that an undo or redo wrote.

    Args:
        proposal: Has the counts already; files that have changed since are compared again.
    """
    known = {}
    for change in proposal.files:
        ends = (change.result, change.base) if backwards else (change.base, change.result)
        counts = (change.removed, change.added) if backwards else (change.added, change.removed)
        known[change.path] = (*ends, *counts)
    stats, steps = _separate_renames(contents, proposal, transitions)
    for step in steps:
        before, after, added, removed = known.get(step.path, (None, None, 0, 0))
        if before and after and is_same_version(before, step.before) and is_same_version(after, step.after):
            stats.append(FileDiffStat(path=step.path, op=FileOperation.EDIT, added=added, removed=removed))
            continue
        stats.append(make_file_change(contents, step.path, step.before, step.after).stat)
    return tuple(stats)


def _separate_renames(
    contents: ContentStore, proposal: Proposal, transitions: Sequence[PathTransition]
) -> tuple[list[FileDiffStat], list[PathTransition]]:
    """Return the counts of each rename as one file, and the transitions that are not renames."""
    stats, rest = [], list(transitions)
    for change in proposal.files:
        pair = [step for step in rest if change.old_path and step.path in (change.path, change.old_path)]
        removal = next((step for step in pair if step.after is None), None)
        creation = next((step for step in pair if step.before is None), None)
        if removal is None or creation is None:
            continue
        rest = [step for step in rest if step is not removal and step is not creation]
        stats.append(make_file_diff_stat(contents, change.path, removal.before, creation.after, FileOperation.RENAME))
    return stats, rest


def plan_approval_of_edits_on_disk(
    contents: ContentStore, proposal: Proposal, choice: DecisionScope
) -> PlannedDecision:
    """Return the outcome of approving the chosen part of edits that are on disk already; nothing is written."""

    def keep_file(change: FileChange, outcome: PlannedDecision, number: int) -> FileChange:
        kept = version_after_approval(contents, change, choice)
        hunks = set_state_of_pending_hunks(change.hunks, HunkState.APPLIED, choice.hunks)
        update = {"hunks": hunks, "decisions": (*change.decisions, _new_decision(proposal, change, choice, kept))}
        outcome.files.append(make_file_diff_stat(contents, change.path, change.base, kept, change.op))
        if choice.covers(change):
            approved = {"base": _base_before_decisions(change), "state": HunkState.APPLIED}
            decided = change.model_copy(update=update | approved)
            return recompute_hunks_keeping_decided(contents, decided, next_number=number, state=HunkState.APPLIED)
        # From now on, the rest is compared with a base that includes the kept part.
        changed = replace_versions_keeping_hunks(change, kept, change.result, "", **update)
        return decide_hunks(contents, changed, choice.hunks, HunkState.APPLIED, next_number=number)

    return decide_each_file(proposal, choice, keep_file)


def plan_on_disk_denial(contents: ContentStore, proposal: Proposal, choice: DecisionScope) -> PlannedDecision:
    """Return the writes that revert the chosen part on disk, and the proposal afterwards."""

    def revert_file(change: FileChange, outcome: PlannedDecision, number: int) -> FileChange:
        covers = choice.covers(change)
        kept_hunks = {hunk.id for hunk in change.pending_hunks} - choice.hunks
        result = change.base if covers else apply_hunks(contents, change, kept_hunks)
        path = change.old_path if covers and change.old_path else change.path
        if not change.already_applied:
            outcome.transitions += path_transitions(change.path, path, change.result, result)
        outcome.files.append(make_file_diff_stat(contents, change.path, result, change.result, change.op))
        hunks = set_state_of_pending_hunks(change.hunks, HunkState.DENIED, choice.hunks)
        update = {
            "hunks": hunks,
            "decisions": (*change.decisions, _new_decision(proposal, change, choice, change.base)),
        }
        if not covers:
            changed = replace_versions_keeping_hunks(change, change.base, result, change.old_path, **update)
            return decide_hunks(contents, changed, choice.hunks, HunkState.DENIED, next_number=number)
        if any(hunk.state is HunkState.APPLIED for hunk in hunks):
            approved = {"base": _base_before_decisions(change), "result": result, "state": HunkState.APPLIED}
            decided = change.model_copy(update=update | approved)
            return recompute_hunks_keeping_decided(contents, decided, next_number=number, state=HunkState.APPLIED)
        return change.model_copy(update=update | {"state": HunkState.DENIED})

    return decide_each_file(proposal, choice, revert_file)


def latest_decision_number(proposal: Proposal) -> int:
    """Return the number of the latest decision in force; raise NothingToUndo if there is none."""
    latest = max((part.decision for change in proposal.files for part in change.decisions[-1:]), default=0)
    if not latest:
        raise NothingToUndo(f"Nothing of {proposal.id} was decided; there is nothing to undo.")
    return latest


def reopen_decision(contents: ContentStore, proposal: Proposal, decision_number: int) -> Proposal:
    """Return the proposal as it was before its latest decision; the caller re-bases it onto the disk."""

    def reopen(change: FileChange) -> FileChange | None:
        undone = change.decisions[-1] if change.decisions else None
        if undone is None or undone.decision != decision_number:
            return None
        hunks = _reopen_hunks(change.hunks, lambda hunk: hunk.id in undone.hunks)
        update = {"state": HunkState.PENDING, "decisions": change.decisions[:-1], "hunks": hunks}
        return replace_versions_keeping_hunks(change, undone.base, undone.result, undone.old_path, **update)

    return _reopen_files(contents, proposal, reopen)


def _new_decision(
    proposal: Proposal, change: FileChange, choice: DecisionScope, base_after: FileVersion | None
) -> OnDiskChangeDecision:
    return OnDiskChangeDecision(
        decision=proposal.next_decision_number,
        hunks=tuple(hunk.id for hunk in change.pending_hunks if hunk.id in choice.hunks),
        old_path=change.old_path,
        base=change.base,
        result=change.result,
        left=base_after,
    )


def _base_before_decisions(change: FileChange) -> FileVersion | None:
    """Return the first base from which decisions lead to the present one without a re-base between them."""
    version = change.base
    for part in reversed(change.decisions):
        if not is_same_version(part.left, version):
            break
        version = part.base
    return version
