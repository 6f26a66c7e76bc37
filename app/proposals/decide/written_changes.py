"""Decisions on changes that are on disk already: keep a part of them, or revert it.

It is the mirror of a proposal that is yet to be written. There the base is on disk, an approval writes, and a denial
leaves the file alone; here the result is, a denial writes, and an approval leaves it alone. Either way the base moves
towards the result by what is approved, and the result towards the base by what is denied.
"""

from app.proposals.decide.decision_outcomes import (
    ChosenFiles,
    DecisionOutcome,
    compose_hunks,
    decide_each_file,
    pending_hunks,
    settled_change,
)
from app.proposals.journal.journal import Transition
from app.proposals.overlay.file_changes import (
    compare_again,
    count_lines,
    decide_in_part,
    file_operation,
    next_hunk_number,
)
from app.proposals.overlay.overlay import Contents, same_version
from app.proposals.text.hunks import set_states
from app.proposals.values.decision_facts import FileStat
from app.proposals.values.models import FileChange, FileVersion, HunkState, PartDecision, Proposal
from app.proposals.values.proposal_errors import NothingToUndo


def keep_part(contents: Contents, proposal: Proposal, choice: ChosenFiles) -> DecisionOutcome:
    """Return the proposal with the chosen part kept; nothing is written."""

    def kept(change: FileChange, outcome: DecisionOutcome, number: int) -> FileChange:
        covers = choice.covers(change)
        left = change.result if covers else compose_hunks(contents, change, choice.hunks)
        hunks = set_states(change.hunks, HunkState.APPLIED, choice.hunks)
        update = {"hunks": hunks, "decisions": (*change.decisions, _decision(proposal, change, choice, left))}
        outcome.files.append(_stat(contents, change, change.base, left))
        if covers:
            landed = {"base": _start(change), "state": HunkState.APPLIED}
            return settled_change(contents, change.model_copy(update=update | landed), hunks, number)
        # What is kept is part of what the rest is compared with from here on.
        moved = {
            "base": left,
            "old_path": "",
            "op": file_operation("", left, change.result),
            "origin_base": left,
            "origin_result": change.result,
        }
        changed = change.model_copy(update=update | moved)
        return decide_in_part(contents, changed, choice.hunks, HunkState.APPLIED, next_number=number)

    return decide_each_file(proposal, choice, kept)


def take_back_part(contents: Contents, proposal: Proposal, choice: ChosenFiles) -> DecisionOutcome:
    """Return what is to be written to take the chosen part off the disk, and the proposal afterwards."""

    def taken_back(change: FileChange, outcome: DecisionOutcome, number: int) -> FileChange:
        covers = choice.covers(change)
        rest = {hunk.id for hunk in pending_hunks(change)} - choice.hunks
        result = change.base if covers else compose_hunks(contents, change, rest)
        path = change.old_path if covers and change.old_path else change.path
        if not change.already_applied:
            outcome.transitions += _transitions(change, path, result)
        outcome.files.append(_stat(contents, change, result, change.result))
        hunks = set_states(change.hunks, HunkState.DENIED, choice.hunks)
        update = {"hunks": hunks, "decisions": (*change.decisions, _decision(proposal, change, choice, change.base))}
        if not covers:
            moved = {
                "result": result,
                "op": file_operation(change.old_path, change.base, result),
                "origin_base": change.base,
                "origin_result": result,
            }
            changed = change.model_copy(update=update | moved)
            return decide_in_part(contents, changed, choice.hunks, HunkState.DENIED, next_number=number)
        if any(hunk.state is HunkState.APPLIED for hunk in hunks):
            landed = {"base": _start(change), "result": result, "state": HunkState.APPLIED}
            return settled_change(contents, change.model_copy(update=update | landed), hunks, number)
        return change.model_copy(update=update | {"state": HunkState.DENIED})

    return decide_each_file(proposal, choice, taken_back)


def last_standing_decision(proposal: Proposal) -> int:
    """Return the number of the latest decision in force. Raises NothingToUndo."""
    latest = max((part.decision for change in proposal.files for part in change.decisions[-1:]), default=0)
    if not latest:
        raise NothingToUndo(f"Nothing of {proposal.id} was decided; there is nothing to undo.")
    return latest


def reopen_decision(contents: Contents, proposal: Proposal, decision: int) -> Proposal:
    """Return the proposal as it was before its latest decision, to be re-based onto the disk."""
    number = next_hunk_number(proposal.files)
    files: list[FileChange] = []
    for change in proposal.files:
        part = change.decisions[-1] if change.decisions else None
        if part is None or part.decision != decision:
            files.append(change)
            continue
        hunks = tuple(
            hunk.model_copy(update={"state": HunkState.PENDING}) if hunk.id in part.hunks else hunk
            for hunk in change.hunks
        )
        update = {
            "old_path": part.old_path,
            "op": file_operation(part.old_path, part.base, part.result),
            "base": part.base,
            "result": part.result,
            "origin_base": part.base,
            "origin_result": part.result,
            "state": HunkState.PENDING,
            "decisions": change.decisions[:-1],
        }
        files.append(compare_again(contents, change.model_copy(update=update), next_number=number, previous=hunks))
        number = max(number, next_hunk_number(files[-1:]))
    return proposal.model_copy(update={"files": tuple(files), "revision": proposal.revision + 1})


def _decision(proposal: Proposal, change: FileChange, choice: ChosenFiles, left: FileVersion | None) -> PartDecision:
    return PartDecision(
        decision=proposal.last.number + 1 if proposal.last else 1,
        hunks=tuple(hunk.id for hunk in pending_hunks(change) if hunk.id in choice.hunks),
        old_path=change.old_path,
        base=change.base,
        result=change.result,
        left=left,
    )


def _start(change: FileChange) -> FileVersion | None:
    """Return the first base of the change, as far back as no re-base came between."""
    version = change.base
    for part in reversed(change.decisions):
        if not same_version(part.left, version):
            break
        version = part.base
    return version


def _stat(contents: Contents, change: FileChange, before: FileVersion | None, after: FileVersion | None) -> FileStat:
    added, removed = count_lines(contents, before, after)
    return FileStat(path=change.path, op=change.op, added=added, removed=removed)


def _transitions(change: FileChange, path: str, result: FileVersion | None) -> list[Transition]:
    """Return the transitions from the disk to `result` at `path`."""
    if path != change.path:
        return [Transition(change.path, change.result, None, path), Transition(path, None, result)]
    return [] if same_version(change.result, result) else [Transition(path, change.result, result)]
