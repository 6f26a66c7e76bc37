"""The two versions of the workspace that a check compares: with a proposal approved, and without it."""

import sys
from collections.abc import Collection, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from app.copies import replace
from app.proposals.decide import decision_outcomes
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.files.overlay import ContentStore, is_same_version, read_pending_files
from app.proposals.stack.draft import Draft
from app.proposals.stack.stacking import proposal_paths
from app.proposals.text.hunks import has_changed_lines
from app.proposals.values.models import FileChange, Proposal
from app.proposals.values.pending_paths import PendingChangesByPath, has_undecided_part, parent_folders
from app.proposals.values.proposal_errors import DependsOnPendingProposal
from app.proposals.values.proposal_store import ProposalStore
from app.sandbox.captured_changes import FileOrLink, PendingFiles


class HunkRangeInCheckedFile(NamedTuple):
    """The id of a hunk, and the range of its new lines in the checked file, which excluded hunks shift."""

    id: str
    start: int
    """Its first line in the checked file, from 0."""
    length: int


class FilesToCheckBeforeAndAfter(Struct, frozen=True):
    """The files of the workspace that checks compare: with a proposal or a part of it, and without it."""

    after: PendingFiles
    before: PendingFiles
    files: tuple[str, ...]
    """Paths of the proposal's files that exist after it."""
    old_files: tuple[str, ...]
    """Paths of the proposal's files that exist before it."""
    hunks: Mapping[str, tuple[HunkRangeInCheckedFile, ...]] = field(default_factory=dict)
    """The chosen hunks by path, for files whose content is exactly what the diff shows."""


def proposal_versions_to_check(
    store: ProposalStore,
    contents: ContentStore,
    filesystem: PosixFilesystem,
    proposal: Proposal,
    hunks: Collection[str] | None = None,
) -> FilesToCheckBeforeAndAfter:
    """Return the versions for a pending proposal; if it needs pending proposals below it, both versions include
    these.

    Args:
        contents: The file contents; that of a partly chosen file is added.
        filesystem: Read for files on which older proposals still have pending edits.
        hunks: Ids or numbers of hunks, or paths of files, to which the approval is limited; None for all pending
            ones.

    Raises:
        MissingContent: the store has lost the bytes of a file.
        NoSuchPendingHunk: a hunk does not exist, or was decided.
    """
    choice = decision_outcomes.make_decision_scope(proposal, hunks)
    changes = [change for change in proposal.files if has_undecided_part(change) and choice.touches(change)]
    if proposal.on_disk:
        versions = _on_disk_versions(contents, changes)
        ranges = {}
        for change in changes:
            file = filesystem.read(change.path)
            if file is not None and is_same_version(file.version, change.result):
                ranges[change.path] = _chosen_line_ranges(change, {hunk.id for hunk in change.hunks})
        return replace(versions, hunks=ranges)
    try:
        transitions = decision_outcomes.plan_approval(contents, filesystem, proposal, choice, {}).transitions
        before: PendingFiles = {}
        after = {step.path: contents.load_file(step.after) for step in transitions}
    except DependsOnPendingProposal:
        older = _older_pending_proposals(store, proposal_paths(proposal), proposal.number)
        files = tuple(
            change.model_copy(update={"result": decision_outcomes.version_after_approval(contents, change, choice)})
            for change in changes
        )
        before = _pending_contents(contents, older)
        after = _pending_contents(contents, [*older, proposal.model_copy(update={"files": files})])
    return FilesToCheckBeforeAndAfter(
        after=after,
        before=before,
        files=tuple(change.path for change in changes if after.get(change.path, change.result) is not None),
        old_files=tuple(change.old_path or change.path for change in changes if change.base is not None),
        hunks={
            change.path: _chosen_line_ranges(change, choice.hunks)
            for change in changes
            if (content := after.get(change.path)) is not None
            and (shown_version := decision_outcomes.version_after_approval(contents, change, choice)) is not None
            and content == contents.load_file(shown_version)
        },
    )


def _chosen_line_ranges(change: FileChange, chosen: Collection[str]) -> tuple[HunkRangeInCheckedFile, ...]:
    """Return the chosen hunks of a file that contains the base with only these applied."""
    ranges, shift = [], 0
    for hunk in change.pending_hunks:
        if hunk.id in chosen and has_changed_lines(hunk):
            ranges.append(HunkRangeInCheckedFile(hunk.id, hunk.old_start + shift, hunk.new_count))
            shift += hunk.new_count - hunk.old_count
    return tuple(ranges)


def overlay_with_hunks(
    store: ProposalStore,
    contents: ContentStore,
    filesystem: PosixFilesystem,
    proposal: Proposal,
    chosen: Collection[str],
) -> PendingFiles:
    """Return the overlay in which only these parts of a pending proposal are applied; may be empty.

    Raises as `proposal_versions_to_check` does.

    Args:
        proposal: A pending one, on disk already or not.
        chosen: Ids of hunks, and paths of files that are decided as a whole.
    """
    if not chosen:
        return proposal_versions_to_check(store, contents, filesystem, proposal).before
    if not proposal.on_disk:
        return proposal_versions_to_check(store, contents, filesystem, proposal, chosen).after
    choice = decision_outcomes.make_decision_scope(proposal, chosen)
    changes = [change for change in proposal.files if has_undecided_part(change)]
    overlay = dict(_on_disk_versions(contents, changes).before)
    for change in changes:
        if choice.touches(change):
            version = decision_outcomes.version_after_approval(contents, change, choice)
            if change.old_path and change.old_path != change.path:
                overlay[change.old_path] = None
            overlay[change.path] = contents.load_file(version)
    return overlay


def _on_disk_versions(contents: ContentStore, changes: Collection[FileChange]) -> FilesToCheckBeforeAndAfter:
    """Return the versions for changes already on disk: the disk itself with them, their bases without."""
    before: dict[str, FileOrLink | None] = {change.path: None for change in changes}
    for change in changes:
        if change.base is not None:
            before[change.old_path or change.path] = contents.load_file(change.base)
    return FilesToCheckBeforeAndAfter(
        after={},
        before=before,
        files=tuple(change.path for change in changes if change.result is not None),
        old_files=tuple(change.old_path or change.path for change in changes if change.base is not None),
    )


def draft_versions_to_check(store: ProposalStore, contents: ContentStore, draft: Draft) -> FilesToCheckBeforeAndAfter:
    """Return the workspace's files with and without a draft's edits, for checks. Raises MissingContent."""
    draft_files = {path: file for path, file in draft.changed_paths.items() if file.has_changes}
    before = _pending_contents(contents, _older_pending_proposals(store, draft_files.keys(), sys.maxsize))
    edits = {path: file.content for path, file in draft_files.items()}
    return FilesToCheckBeforeAndAfter(
        after={**before, **edits},
        before=before,
        files=tuple(path for path, file in draft_files.items() if file.data is not None),
        old_files=tuple(path for path, file in draft_files.items() if file.base is not None),
    )


def _older_pending_proposals(store: ProposalStore, paths: Collection[str], number: int) -> list[Proposal]:
    """Return the pending proposals that an edit of these paths builds on, oldest first.

    Args:
        paths: The paths that the edit changes.
        number: Number of the proposal with the edit; younger ones are not below it.
    """
    found: dict[int, Proposal] = {}
    frontier = [(set(paths), number)]
    while frontier:
        asked, upper = frontier.pop()
        for proposal in store.pending_on_paths(asked, {folder for path in asked for folder in parent_folders(path)}):
            if proposal.number < upper and proposal.number not in found:
                found[proposal.number] = proposal
                frontier.append((proposal_paths(proposal), proposal.number))
    return [found[its_number] for its_number in sorted(found)]


def _pending_contents(contents: ContentStore, proposals: Collection[Proposal]) -> dict[str, FileOrLink | None]:
    pending = PendingChangesByPath()
    for proposal in proposals:
        pending.add_proposal(proposal)
    return read_pending_files(contents, pending.loaded_paths())
