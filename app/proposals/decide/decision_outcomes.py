"""Plan what an approval or denial writes, and how it leaves the proposal."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from msgspec import Struct, field

from app.proposals.files.file_changes import (
    decide_hunks,
    next_hunk_number,
    recompute_hunks_keeping_decided,
    replace_versions_keeping_hunks,
)
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.files.overlay import ContentStore, is_same_version
from app.proposals.journal.journal import PathTransition
from app.proposals.stack.rebase import merge_bytes, merge_mode_preferring_theirs
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import Document
from app.proposals.text.hunks import (
    Lines,
    apply_hunks_to_lines,
    format_hunk_header,
    has_changed_lines,
    set_state_of_pending_hunks,
    split_document_lines,
)
from app.proposals.values.decision_facts import FileDiffStat, HunkOutcome
from app.proposals.values.models import FileChange, FileVersion, HunkState, Proposal, ReopenableHunkDenial
from app.proposals.values.pending_paths import abbreviate_proposal_ids, has_undecided_part
from app.proposals.values.proposal_errors import DependsOnPendingProposal, NoSuchPendingHunk
from app.sandbox.captured_changes import PathChange
from app.text.quantities import join_first
from app.workspace.secrets import secret_reason

_CONTEXT_LINES = 3
"""Lines around a hunk that must be the same on disk as in the shown diff."""
_MAX_EXCERPT_LINES = 40


class DecisionScope(Struct, frozen=True):
    """The part of a proposal that a decision is about."""

    hunks: frozenset[str]
    """Ids of pending hunks."""
    paths: frozenset[str]
    """Paths of changes without hunks."""
    is_everything: bool
    """Whether it includes everything that the proposal ever had."""

    @property
    def chosen_hunks(self) -> frozenset[str]:
        """Return its hunks; empty if it is everything."""
        return frozenset() if self.is_everything else self.hunks

    def covers(self, change: FileChange) -> bool:
        """Return whether the decision leaves nothing of the change pending."""
        pending = [hunk.id for hunk in change.pending_hunks]
        return self.hunks.issuperset(pending) if pending else change.path in self.paths

    def touches(self, change: FileChange) -> bool:
        """Return whether the decision includes any part of the change."""
        return change.path in self.paths or any(hunk.id in self.hunks for hunk in change.hunks)


EMPTY_SCOPE = DecisionScope(frozenset(), frozenset(), is_everything=False)
"""No part of a proposal."""


class PlannedDecision(Struct):
    """What a decision will write: the path transitions, the proposal afterwards, and the line counts by file."""

    proposal: Proposal
    transitions: list[PathTransition] = field(default_factory=list)
    files: list[FileDiffStat] = field(default_factory=list)


def make_decision_scope(proposal: Proposal, wanted: Collection[str] | None) -> DecisionScope:
    """Return the scope of a decision on the named pending hunks and files.

    Args:
        wanted: Hunk ids or numbers, or paths of files; None for everything that is pending.

    Raises:
        NoSuchPendingHunk: a name is unknown or decided already, or none is given.
    """
    pending = {hunk.id: hunk for hunk in proposal.pending_hunks}
    whole_files = {
        change.path for change in proposal.files if has_undecided_part(change) and not change.pending_hunks
    }
    if wanted is None:
        hunks, paths = set(pending), set(whole_files)
    else:
        hunks, paths = set(), set()
        by_number = {str(hunk.number): hunk.id for hunk in proposal.hunks}
        files = {change.path: change for change in proposal.files}
        numbers = map(str, sorted(hunk.number for hunk in pending.values()))
        choices = f"those that wait are {join_first([*numbers, *sorted(whole_files)], 12)}"
        for name in wanted:
            if name in pending:
                hunks.add(name)
            elif by_number.get(name) in pending:
                hunks.add(by_number[name])
            elif name in files and has_undecided_part(files[name]):
                hunks |= {hunk.id for hunk in files[name].pending_hunks}
                paths |= {name} & whole_files
            else:
                number = next((hunk.number for hunk in proposal.hunks if hunk.id == name), name)
                raise NoSuchPendingHunk(f"{proposal.id} has no hunk {number} that waits; {choices}.")
        if not hunks and not paths:
            raise NoSuchPendingHunk(f"No hunk of {proposal.id} was chosen; {choices}.")
    is_whole = len(hunks) == len(proposal.hunks) and all(has_undecided_part(change) for change in proposal.files)
    is_rest = len(hunks) == len(pending) and paths == whole_files
    return DecisionScope(frozenset(hunks), frozenset(paths), is_whole and is_rest)


def decide_each_file(
    proposal: Proposal, choice: DecisionScope, decide: Callable[[FileChange, PlannedDecision, int], FileChange]
) -> PlannedDecision:
    """Apply `decide` to each undecided file in a decision's scope, and return the outcome; other files stay.

    Args:
        decide: Returns a file after the decision, and adds its writes and counts to the outcome; its last argument is
            the number of the next new hunk.
    """
    outcome = PlannedDecision(proposal)
    number = next_hunk_number(proposal.files)
    changes: list[FileChange] = []
    for change in proposal.files:
        if has_undecided_part(change) and choice.touches(change):
            change = decide(change, outcome, number)
            number = max(number, next_hunk_number([change]))
        changes.append(change)
    outcome.proposal = proposal.next_revision(changes, reopened=False)
    return outcome


def plan_approval(
    contents: ContentStore,
    filesystem: PosixFilesystem,
    proposal: Proposal,
    choice: DecisionScope,
    versions_before_proposal: Mapping[str, FileVersion | None],
) -> PlannedDecision:
    """Return what to write for the chosen part, and the proposal afterwards.

    Args:
        filesystem: Read for files on which older proposals still have pending edits.
        proposal: Re-based onto the present files, not stale.
        versions_before_proposal: The version of each file before the first write of this proposal, where known.

    Raises:
        DependsOnPendingProposal: an older proposal has to be decided first.
    """

    def approve_file(change: FileChange, outcome: PlannedDecision, number: int) -> FileChange:
        chosen = version_after_approval(contents, change, choice)
        base, result = change.base, chosen
        if change.stacked_on:
            base, result = _versions_on_disk(contents, filesystem, proposal, change, chosen)
        if not change.already_applied:
            outcome.transitions += path_transitions(change.old_path or change.path, change.path, base, result)
        outcome.files.append(_count_file_lines(contents, change, base, result, number))
        hunks = set_state_of_pending_hunks(change.hunks, HunkState.APPLIED, choice.hunks)
        if choice.covers(change):
            start = versions_before_proposal.get(change.path, base) if not change.old_path else base
            update = {"base": start, "result": result, "state": HunkState.APPLIED, "hunks": hunks}
            approved = change.model_copy(update=update)
            if is_same_version(start, change.base) and is_same_version(result, change.result):
                return approved
            return recompute_hunks_keeping_decided(contents, approved, next_number=number, state=HunkState.APPLIED)
        remaining = replace_versions_keeping_hunks(change, chosen, change.result, "", rebased=False)
        return decide_hunks(contents, remaining, choice.hunks, HunkState.APPLIED, next_number=number)

    return decide_each_file(proposal, choice, approve_file)


def plan_denial(
    contents: ContentStore,
    proposal: Proposal,
    choice: DecisionScope,
    versions_before_proposal: Mapping[str, FileVersion | None],
) -> PlannedDecision:
    """Return the proposal without the chosen part; nothing is written."""

    def deny_file(change: FileChange, outcome: PlannedDecision, number: int) -> FileChange:
        denied = [hunk for hunk in change.hunks if hunk.id in choice.hunks]
        added, removed = sum(hunk.new_count for hunk in denied), sum(hunk.old_count for hunk in denied)
        outcome.files.append(FileDiffStat(path=change.path, op=change.op, added=added, removed=removed))
        hunks = set_state_of_pending_hunks(change.hunks, HunkState.DENIED, choice.hunks)
        if not choice.covers(change):
            kept = {hunk.id for hunk in change.pending_hunks} - choice.hunks
            result = apply_hunks(contents, change, kept)
            denied_hunks = (*change.denied, _make_denied_hunks(proposal, change, result, choice))
            remaining = replace_versions_keeping_hunks(
                change, change.base, result, change.old_path, denied=denied_hunks
            )
            return decide_hunks(contents, remaining, choice.hunks, HunkState.DENIED, next_number=number)
        if any(hunk.state is HunkState.APPLIED for hunk in hunks):
            start = versions_before_proposal.get(change.path, change.base)
            versions = {"base": start, "result": change.base, "conflicts": ()}
            approved = change.model_copy(update={**versions, "state": HunkState.APPLIED, "hunks": hunks})
            return recompute_hunks_keeping_decided(contents, approved, next_number=number, state=HunkState.APPLIED)
        denied_hunks = (*change.denied, _make_denied_hunks(proposal, change, change.result, choice))
        update = {"hunks": hunks, "state": HunkState.DENIED, "denied": denied_hunks}
        return change.model_copy(update=update)

    return decide_each_file(proposal, choice, deny_file)


def describe_hunk_outcomes(
    contents: ContentStore,
    filesystem: PosixFilesystem,
    before: Proposal,
    choice: DecisionScope,
    written_hunks: Collection[str],
) -> tuple[HunkOutcome, ...]:
    """Return the outcome of each pending hunk, for the model; empty if the decision was on the whole proposal.

    Args:
        written_hunks: Ids of the hunks that were written.
    """
    if choice.is_everything:
        return ()
    facts: list[HunkOutcome] = []
    for change in filter(has_undecided_part, before.files):
        now = _read_quotable(filesystem, change)
        shift = 0
        for hunk in change.pending_hunks:
            is_landed = hunk.id in written_hunks
            is_there = is_landed or (change.on_disk and hunk.id not in choice.hunks)
            count = hunk.new_count if is_there else hunk.old_count
            reason = "" if is_landed else "denied" if hunk.id in choice.hunks else "still awaits a decision"
            facts.append(
                HunkOutcome(
                    path=change.path,
                    hunk=hunk.id,
                    header=format_hunk_header(hunk),
                    landed=is_landed,
                    reason=reason,
                    excerpt="" if now is None else _quote_lines(now, hunk.old_start + shift, count),
                )
            )
            if is_there:
                shift += hunk.new_count - hunk.old_count
    return tuple(facts)


def version_after_approval(contents: ContentStore, change: FileChange, choice: DecisionScope) -> FileVersion | None:
    """Return the version of a file after an approval of the chosen hunks; None for no file."""
    return change.result if choice.covers(change) else apply_hunks(contents, change, choice.hunks)


def _make_denied_hunks(
    proposal: Proposal, change: FileChange, result: FileVersion | None, choice: DecisionScope
) -> ReopenableHunkDenial:
    """Return the data to make the denied hunks pending again later; `result` is the version without them."""
    hunks = tuple(hunk.id for hunk in change.pending_hunks if hunk.id in choice.hunks)
    return ReopenableHunkDenial(
        decision=proposal.next_decision_number, hunks=hunks, before=change.result, after=result
    )


def apply_hunks(contents: ContentStore, change: FileChange, chosen: Collection[str]) -> FileVersion | None:
    """Return the base with the chosen pending hunks applied."""
    pending = [hunk for hunk in change.pending_hunks if has_changed_lines(hunk)]
    base, result = split_document_lines(contents.get(change.base)), split_document_lines(contents.get(change.result))
    mode = (change.result or change.base or FileVersion(sha256="", size=0)).mode
    return contents.add(b"".join(apply_hunks_to_lines(base, result, pending, chosen)), mode)


def _versions_on_disk(
    contents: ContentStore,
    filesystem: PosixFilesystem,
    proposal: Proposal,
    change: FileChange,
    written: FileVersion | None,
) -> tuple[FileVersion | None, FileVersion | None]:
    """Return the base and the result on disk of the chosen part, without the pending edits below it.

    Raises:
        DependsOnPendingProposal: the hunks, with their context as shown, do not fit the file on disk.
    """
    refusal = DependsOnPendingProposal(
        f"{proposal.id} builds on {abbreviate_proposal_ids(change.stacked_on)} in {change.old_path or change.path}; "
        f"decide {change.stacked_on[0]} first."
    )
    disk = filesystem.read(change.path)
    current = disk.version if disk else None
    if is_same_version(current, change.base):
        return current, written
    if disk is None or change.base is None or written is None or change.old_path or change.binary:
        raise refusal
    base, wanted = contents.get(change.base), contents.get(written)
    merged, merge = merge_bytes(base, disk.data, wanted)
    if merge.conflicts or _changes_with_context(base, wanted) != _changes_with_context(disk.data, merged):
        raise refusal
    contents.add(disk.data, disk.version.mode)
    return disk.version, contents.add(merged, merge_mode_preferring_theirs(change.base, disk.version, written))


def _changes_with_context(old: bytes, new: bytes) -> list[tuple[Lines, Lines, Lines, Lines]]:
    before, after = split_document_lines(old), split_document_lines(new)
    return [
        (
            before[max(change.old_start - _CONTEXT_LINES, 0) : change.old_start],
            before[change.old_start : change.old_end],
            after[change.new_start : change.new_end],
            before[change.old_end : change.old_end + _CONTEXT_LINES],
        )
        for change in diff_lines(before, after)
    ]


def load_path_changes(contents: ContentStore, transitions: Iterable[PathTransition]) -> Iterator[PathChange]:
    """Yield each transition as a PathChange with the file's bytes before and after it."""
    for transition in transitions:
        before, after = contents.load_file(transition.before), contents.load_file(transition.after)
        yield PathChange(transition.path, before, after)


def path_transitions(
    source: str, path: str, before: FileVersion | None, after: FileVersion | None
) -> list[PathTransition]:
    """Return the transitions that lead from a version at `source` to one at `path`; empty if they are the same."""
    if source != path:
        return [PathTransition(source, before, None, path), PathTransition(path, None, after)]
    return [] if is_same_version(before, after) else [PathTransition(path, before, after)]


def _count_file_lines(
    contents: ContentStore, change: FileChange, base: FileVersion | None, result: FileVersion | None, number: int
) -> FileDiffStat:
    if is_same_version(base, change.base) and is_same_version(result, change.result):
        return change.stat
    counted = recompute_hunks_keeping_decided(
        contents, change.model_copy(update={"base": base, "result": result}), next_number=number, previous=()
    )
    return counted.stat


def _read_quotable(filesystem: PosixFilesystem, change: FileChange) -> Document | None:
    """Return the file for quotes to the model; None if there is none, or it looks like a secret."""
    with suppress(OSError):
        file = filesystem.read(change.path)
        if file and not any(secret_reason(name, file.data) for name in (change.path, change.old_path)):
            return Document(file.data)
    return None


def _quote_lines(document: Document, start: int, count: int) -> str:
    """Return the numbered lines around a place; undecodable bytes become `\\udce9`: records are UTF-8."""
    if document.is_binary:
        return ""
    texts = document.line_texts
    first = max(start - _CONTEXT_LINES, 0)
    last = min(start + count + _CONTEXT_LINES, len(texts), first + _MAX_EXCERPT_LINES)
    excerpt = "\n".join(f"{index + 1}\t{texts[index]}" for index in range(first, last))
    return excerpt.encode(errors="backslashreplace").decode()
