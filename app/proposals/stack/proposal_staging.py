"""Turn a draft into a pending proposal: one transition per path, renames detected, hunks numbered."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from app.concurrency import iterate_when_event_loop_idle
from app.copies import replace
from app.proposals.files.file_changes import (
    describe_file_attributes,
    describe_link_change,
    describe_replacement_losses,
    make_file_change,
    next_hunk_number,
)
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.files.overlay import ContentStore, Overlay, is_same_version
from app.proposals.risk.change_summary import default_proposal_summary, is_default_command_summary
from app.proposals.risk.risk_reasons import add_risk_reasons_and_reading_order
from app.proposals.stack.draft import Draft
from app.proposals.stack.draft_files import DraftFile
from app.proposals.stack.locked_proposals import LockedProposalAccess
from app.proposals.stack.rebase import rebase_proposal
from app.proposals.stack.stacking import (
    StackCache,
    proposal_paths,
    related_pending_proposals,
    restack_and_list_changed,
)
from app.proposals.text.hunks import set_state_of_pending_hunks
from app.proposals.values.decision_facts import HunksNotProposed
from app.proposals.values.models import (
    FileChange,
    FileVersion,
    HunkState,
    Proposal,
    ProposalState,
    excluded_binary_files_note,
    with_state,
)
from app.proposals.values.origin import CommandRecipe, OriginKind
from app.proposals.values.pending_paths import abbreviate_proposal_ids, has_undecided_part
from app.proposals.values.proposal_errors import NothingToStage
from app.proposals.values.proposal_store import ProposalStore

_MAX_SUMMARY_CHARACTERS = 200
_MAX_COMMAND_CHARACTERS = 1_000
"""Maximum characters of a summary that is a command."""


def stage_draft(
    proposals: LockedProposalAccess,
    stacks: StackCache,
    draft: Draft,
    *,
    summary: str = "",
    answered_proposals: Iterable[str] = (),
    skipped_files: Sequence[str] = (),
    excluded_hunks: Sequence[HunksNotProposed] = (),
    on_disk: bool = False,
) -> Proposal:
    """Stage a draft as a pending proposal, within `LockedProposalAccess.lock_for_writing`.

    Args:
        summary: One line; empty for the model's own words, or for a computed summary of a patch.
        answered_proposals: Ids of proposals; it supersedes the first one whose files it touches.
        skipped_files: Files that were left out of a patch.
        excluded_hunks: Hunks that were left out, with the reasons.
        on_disk: Whether the draft's results are already on disk, and its bases are what was there before.

    Raises:
        NothingToStage: the edits cancel out.
    """
    contents, store = proposals.contents, proposals.store
    staged = store.proposal(draft.proposal_id) if draft.proposal_id else None
    old = _find_revised_proposal(map(proposals.get, answered_proposals), draft) if staged is None else None
    paths = draft.changed_paths.keys() | (proposal_paths(old) if old else set())
    stack = stacks.get_stack(paths)
    if replaced := staged or old:
        replaced = proposals.get(replaced.id)
        others = [other for other in related_pending_proposals(store, paths) if other.id != replaced.id]
        overlay, _ = restack_and_list_changed(proposals.filesystem, contents, others)
        denied: Sequence[Proposal] = [*others, replaced]
    else:
        overlay, denied = Overlay(stack.disk, contents, stacks.pending_paths()), stack.denied
    draft_files, recipe = draft.changed_paths, None if staged else draft.recipe
    if old and old.state.is_pending:
        draft_files, recipe = _merge_superseded_changes(contents, old, overlay, draft_files), None
    changes = _add_notes_from_disk(proposals.filesystem, make_file_changes(contents, draft_files), on_disk=on_disk)
    if not summary and draft.origin.kind in (OriginKind.PATCH, OriginKind.DISK):
        summary = _make_patch_summary(changes, skipped_files)
    proposal = _make_proposal(draft, changes, proposals.workspace.name, summary)
    proposal = proposal.model_copy(update={"recipe": recipe, "left_out": tuple(excluded_hunks)})
    if old:
        successor = {"supersedes": old.id, "version": old.version + 1}
        proposal = _mark_taken_over_changes(proposal, old).model_copy(update=successor)
    proposal = _mark_hunks_denied_before(
        rebase_proposal(overlay, proposal), [*store.decided_on_paths(paths), *denied]
    )
    if staged and comparable_change_results(staged.files) == comparable_change_results(proposal.files):
        return staged
    if all(change.already_applied for change in proposal.files):
        pending = [other.id for other in related_pending_proposals(store, paths) if other.id != proposal.id]
        with_pending = f", with {abbreviate_proposal_ids(pending)} still pending," if pending else ""
        raise NothingToStage(f"The workspace{with_pending} has all of this already: there is nothing to propose.")
    superseded = [*([old] if old else []), *(_find_redundant_proposals(store, proposal) if on_disk else ())]
    # A draft that is refused must not use up a number.
    update: dict[str, object] = {"id": draft.ensure_proposal_id(), "revision": 1}
    if staged:
        update |= {"revision": staged.revision + 1, "created": staged.created}
    proposal = add_risk_reasons_and_reading_order(
        contents, proposal.model_copy(update=update), draft.request, draft.read_history
    )
    proposals.save(*(_mark_superseded(other, proposal.id) for other in superseded), proposal)
    if not replaced:
        stacks.add_staged(stack, proposal)
        return proposal
    # Re-base the proposals above the replaced one onto this one, or onto the disk.
    proposals.rebase_pending(paths)
    return proposals.get(proposal.id)


def replace_command_changes(
    proposals: LockedProposalAccess, proposal: Proposal, draft: Draft, recipe: CommandRecipe
) -> Proposal:
    """Return the next revision of a command's pending proposal, with a draft's changes in place of the former ones.

    Args:
        draft: What the command has made of the present files, without the proposal.

    Raises:
        NothingToStage: nothing is left.
    """
    files = make_file_changes(proposals.contents, draft.changed_paths)
    files = _add_notes_from_disk(proposals.filesystem, files, on_disk=False)
    replaced = proposal.next_revision(files, recipe=recipe, order=())
    replaced = rebase_proposal(proposals.overlay_of_older_proposals(proposal), replaced)
    return add_risk_reasons_and_reading_order(proposals.contents, replaced)


def make_file_changes(contents: ContentStore, draft_files: Mapping[str, DraftFile]) -> tuple[FileChange, ...]:
    """Return the changes of a draft, by path, compared with its bases.

    Edits that cancel out are left out. A file that disappears and whose content appears at a free path is a rename;
    moves in a cycle, or onto a path that had a file, are changes of content.

    Raises:
        NothingToStage: nothing is left.
    """
    new_paths: dict[str, str] = {}
    for path, entry in sorted(draft_files.items()):
        source = draft_files.get(entry.source)
        if entry.data is not None and entry.base is None and source and source.base and source.data is None:
            new_paths.setdefault(entry.source, path)
    changes: list[FileChange] = []
    number = 1
    for path, entry in iterate_when_event_loop_idle(sorted(draft_files.items())):
        if entry.data is None and (entry.base is None or path in new_paths):
            continue
        old_path = entry.source if new_paths.get(entry.source) == path else ""
        origin = draft_files[old_path] if old_path else entry
        base = origin.base
        result = None if entry.data is None else contents.add(entry.data, entry.mode)
        if not old_path and is_same_version(base, result):
            continue
        before = origin.base_data or b""
        if base:
            contents.add_known_version(base, before)
        if any(version is not None and version.is_link for version in (base, result)):
            notes = describe_link_change(contents, base, result)
        else:
            notes = [
                *entry.notes,
                *describe_file_attributes(before, entry.data or b"", base.mode if base else None),
            ]
        changes.append(
            make_file_change(
                contents,
                path,
                base,
                result,
                old_path=old_path,
                next_number=number,
                matches=entry.matches,
                notes=dict.fromkeys(notes),
            )
        )
        number = max(number, next_hunk_number(changes[-1:]))
    if not changes:
        raise NothingToStage("The edits cancel out: there is nothing to propose.")
    return tuple(changes)


def _add_notes_from_disk(
    disk: PosixFilesystem, changes: Iterable[FileChange], *, on_disk: bool
) -> tuple[FileChange, ...]:
    """Return the changes with `on_disk` set, and with notes about other names and the owner of each replaced file."""
    noted: list[FileChange] = []
    for change in iterate_when_event_loop_idle([*changes]):
        node = None if change.involves_link else disk.stat_node(change.path if on_disk else change.paths[0])
        notes = describe_replacement_losses(node, change, on_disk=on_disk) if node else ()
        noted.append(change.model_copy(update={"on_disk": on_disk, "notes": (*change.notes, *notes)}))
    return tuple(noted)


def _merge_superseded_changes(
    contents: ContentStore, old: Proposal, overlay: Overlay, draft_files: dict[str, DraftFile]
) -> dict[str, DraftFile]:
    """Return the draft's changes together with those of a pending proposal that it supersedes.

    The draft was made on top of the old proposal. The new proposal replaces that, so its changes are relative to the
    files without it.

    Args:
        old: The superseded proposal.
        overlay: The workspace without it.
    """
    merged: dict[str, DraftFile] = {}
    for change in old.files:
        if change.state is not HunkState.PENDING:
            continue
        if change.old_path and change.old_path not in draft_files:
            merged[change.old_path] = _make_draft_file(overlay, change.old_path, None, change)
        if change.path not in draft_files:
            data = None if change.result is None else contents.get(change.result)
            merged[change.path] = _make_draft_file(overlay, change.path, data, change)
            merged[change.path].source = change.old_path
            merged[change.path].matches = list(change.matches)
    for path, file in draft_files.items():
        merged[path] = replace(file, base=overlay.version(path), base_data=overlay.content(path))
    return merged


def _mark_taken_over_changes(proposal: Proposal, old: Proposal) -> Proposal:
    """Return the proposal; changes that it took over from another one and that its model did not write are marked."""
    foreign = [change for change in old.files if old.sole_author_session(change) != proposal.session]
    paths = {path for change in foreign for path in change.paths}
    files = [
        change.model_copy(update={"taken_over": not paths.isdisjoint(change.paths)}) for change in proposal.files
    ]
    return proposal.model_copy(update={"files": tuple(files)})


def _find_revised_proposal(denied: Iterable[Proposal], draft: Draft) -> Proposal | None:
    """Return the first of the denied proposals that changes one of the draft's files: the draft revises it."""
    touched = {path for path, file in draft.changed_paths.items() if file.has_changes}
    for proposal in denied:
        if any(touched & {change.path, change.old_path} for change in proposal.files):
            return proposal
    return None


def _find_redundant_proposals(store: ProposalStore, proposal: Proposal) -> list[Proposal]:
    """Return the pending proposals of changes on disk that a newer one includes.

    Raises:
        NothingToStage: one of them has exactly the same changes.
    """
    earlier = [each for each in related_pending_proposals(store, proposal_paths(proposal)) if each.on_disk]
    new_keys = {_change_key(change) for change in proposal.files}
    for each in earlier:
        if {_change_key(change) for change in each.files if has_undecided_part(change)} == new_keys:
            raise NothingToStage(
                f"{each.id} is already pending with the same changes; `signoff show {each.id}` shows it."
            )
    return [each for each in earlier if are_pending_changes_within(each, proposal_paths(proposal))]


def are_pending_changes_within(proposal: Proposal, paths: Collection[str]) -> bool:
    """Return whether everything pending of a proposal is in these files."""
    return all(
        change.already_applied or change.path in paths for change in proposal.files if has_undecided_part(change)
    )


def _make_proposal(draft: Draft, changes: tuple[FileChange, ...], workspace: str, summary: str) -> Proposal:
    """Return a pending proposal of these changes."""
    text = summary or (draft.summaries or [""])[0]
    if is_default_command_summary(text):
        text = text[:_MAX_COMMAND_CHARACTERS]
    else:
        text = (" ".join(text.split()) or default_proposal_summary(changes))[:_MAX_SUMMARY_CHARACTERS]
    return Proposal(
        id=draft.proposal_id,
        workspace=workspace,
        session=draft.session,
        origin=draft.origin,
        ignored=tuple(draft.ignored),
        created=time.time(),
        summary=text,
        files=changes,
    )


def _make_patch_summary(changes: Sequence[FileChange], left_out: Sequence[str]) -> str:
    """Return the summary of a patch or of changes on disk; a file named twice counts once."""
    name = changes[0].path if len(changes) == 1 else f"{len(changes)} files"
    kind = "On disk" if changes[0].on_disk else "Patch"
    return f"{kind}: {name}{excluded_binary_files_note(left_out)}"


def comparable_change_results(changes: Iterable[FileChange]) -> set[tuple[str, str, str]]:
    """Return the result of changes in a comparable form: each path, its old path and its new content."""
    return {
        (change.path, change.old_path, change.origin_result.sha256 if change.origin_result else "")
        for change in changes
    }


def _change_key(change: FileChange) -> tuple[str, str, str, str]:
    base, result = (version.sha256 if version else "" for version in (change.base, change.result))
    return change.path, change.old_path, base, result


def _mark_superseded(old: Proposal, by: str) -> Proposal:
    """Return the proposal with its successor; its pending part is marked as denied."""
    old = old.model_copy(update={"superseded_by": by})
    if not old.state.is_pending:
        return old
    applied = any(hunk.state is HunkState.APPLIED for hunk in old.hunks)
    files = tuple(
        change.model_copy(
            update={"hunks": set_state_of_pending_hunks(change.hunks, HunkState.DENIED), "state": HunkState.DENIED}
        )
        if has_undecided_part(change)
        else change
        for change in old.files
    )
    state = ProposalState.APPLIED if applied else ProposalState.SUPERSEDED
    return with_state(old.model_copy(update={"files": files}), state, f"superseded by {by}")


def _mark_hunks_denied_before(proposal: Proposal, earlier: Iterable[Proposal]) -> Proposal:
    """Return the proposal; hunks that the user has denied before are marked."""
    denied = {hunk.id: other.id for other in earlier for hunk in other.hunks if hunk.state is HunkState.DENIED}
    if not denied:
        return proposal
    files: list[FileChange] = []
    for change in proposal.files:
        hunks = (hunk.model_copy(update={"repeat_of": denied.get(hunk.id, "")}) for hunk in change.hunks)
        files.append(change.model_copy(update={"hunks": tuple(hunks)}))
    return proposal.model_copy(update={"files": tuple(files)})


def _make_draft_file(overlay: Overlay, path: str, data: bytes | None, change: FileChange) -> DraftFile:
    base = overlay.version(path)
    mode = (change.result or base or FileVersion(sha256="", size=0)).mode
    return DraftFile(base, overlay.content(path), data, mode)
