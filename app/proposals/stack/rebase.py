"""Re-base a proposal onto the current files.

Every re-base starts from the versions of the original edit (`origin_base`, `origin_result`), not from the last
re-base. So if a file changes and changes back, the proposal is again as it was.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from app.concurrency import iterate_when_event_loop_idle
from app.proposals.files.file_changes import file_operation, next_hunk_number, recompute_hunks_keeping_decided
from app.proposals.files.overlay import Overlay, is_same_version
from app.proposals.journal.apply import describe_os_error
from app.proposals.journal.journal import fold_case_and_unicode_form
from app.proposals.text.document import Document, decode_surrogateescape
from app.proposals.text.line_edits import MergeResult, merge_lines
from app.proposals.values.models import (
    ConflictingLines,
    FileChange,
    FileVersion,
    Proposal,
    ProposalState,
    compute_state,
    with_state,
)
from app.proposals.values.pending_paths import has_undecided_part
from app.proposals.values.proposal_errors import MissingContent
from app.sandbox.captured_changes import FileOrLink
from app.text.quantities import format_count

_MAX_CONFLICT_LINES = 60
"""Maximum lines of each side that a conflict stores for display."""


@dataclass(slots=True)
class RebaseConflict(Exception):
    """A change does not fit the current file."""

    reason: str
    conflicts: tuple[ConflictingLines, ...] = field(default=())


def rebase_proposal(overlay: Overlay, proposal: Proposal) -> Proposal:
    """Return the proposal re-based onto `overlay`, which has the disk and all older pending proposals.

    Returns the same object if nothing is different; a higher revision if an approval would write something else; a
    stale proposal, with the reason and the conflicting lines, if a change does not fit. New contents are added to the
    overlay's `contents`, not yet saved.
    """
    if proposal.on_disk:
        # A change on disk is below all pending proposals.
        overlay = overlay.disk_only()
    if not proposal.state.is_pending or _is_current(overlay, proposal):
        return proposal
    changes: list[FileChange] = []
    reasons: list[str] = []
    number = next_hunk_number(proposal.files)
    leaving = removed_paths(proposal)
    for change in iterate_when_event_loop_idle(proposal.files):
        if not has_undecided_part(change):
            changes.append(change)
            continue
        try:
            rebased = _rebase_change(overlay, change, number, leaving)
            number = max(number, next_hunk_number([rebased]))
        except RebaseConflict as conflict:
            reasons.append(conflict.reason)
            stacked_on = overlay.pending_proposals_at(change.old_path or change.path)
            rebased = change.model_copy(update={"conflicts": conflict.conflicts, "stacked_on": stacked_on})
        changes.append(rebased)
    if reasons:
        # Keep the last good base and result: the review still shows them.
        kept = [
            old.model_copy(update={"conflicts": new.conflicts, "stacked_on": new.stacked_on})
            for old, new in zip(proposal.files, changes, strict=True)
        ]
        if proposal.state is not ProposalState.STALE or proposal.reason != reasons[0] or kept != list(proposal.files):
            stale = with_state(proposal, ProposalState.STALE, reasons[0])
            return stale.model_copy(update={"files": tuple(kept)})
        return proposal
    is_different = any(_differs(old, new) for old, new in zip(proposal.files, changes, strict=True))
    if not is_different and proposal.state is not ProposalState.STALE and changes == list(proposal.files):
        return proposal
    rebased_proposal = proposal.model_copy(
        update={"files": tuple(changes), "revision": proposal.revision + (1 if is_different else 0)}
    )
    return with_state(rebased_proposal, compute_state(rebased_proposal))


def find_rebase_conflicts(overlay: Overlay, proposal: Proposal) -> dict[str, RebaseConflict]:
    """Return by path the changes that do not fit the present files; arguments as for `rebase_proposal`."""
    if proposal.on_disk:
        overlay = overlay.disk_only()
    conflicts: dict[str, RebaseConflict] = {}
    leaving = removed_paths(proposal)
    for change in filter(has_undecided_part, iterate_when_event_loop_idle(proposal.files)):
        try:
            _rebase_change(overlay, change, next_hunk_number(proposal.files), leaving)
        except RebaseConflict as conflict:
            conflicts[change.path] = conflict
    return conflicts


def removed_paths(proposal: Proposal) -> set[str]:
    """Return the files that a proposal deletes or moves away."""
    return {
        change.old_path or change.path
        for change in proposal.files
        if has_undecided_part(change) and (change.old_path or change.origin_result is None)
    }


def _is_current(overlay: Overlay, proposal: Proposal) -> bool:
    """Return whether everything below a proposal is unchanged, so that a re-base would give the same result."""
    if proposal.state is ProposalState.STALE:
        return False
    try:
        return all(
            change.disk_version is not None
            and not change.old_path
            and not change.already_applied
            and is_same_version(overlay.version(change.path), change.disk_version)
            and overlay.pending_proposals_at(change.path) == change.stacked_on
            for change in proposal.files
            if has_undecided_part(change)
        )
    except OSError:
        return False


def merge_bytes(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, MergeResult[bytes]]:
    """Merge three contents by lines; where they conflict, the bytes are those of `ours`."""
    result = merge_lines(Document(base).lines, Document(ours).lines, Document(theirs).lines)
    return b"".join(result.lines), result


def merge_mode_preferring_theirs(
    base: FileVersion | FileOrLink, ours: FileVersion | FileOrLink, theirs: FileVersion | FileOrLink
) -> int:
    """Return the permission bits of a merge: theirs if they changed them, else ours."""
    return ours.mode if base.mode == theirs.mode else theirs.mode


def _conflicts_for_display(result: MergeResult[bytes]) -> tuple[ConflictingLines, ...]:
    """Return the conflicts for display, where `ours` is the disk and `theirs` the proposal."""
    return tuple(
        ConflictingLines(
            line=conflict.ours_start + 1,
            base=_display_lines(conflict.base),
            disk=_display_lines(conflict.ours),
            proposed=_display_lines(conflict.theirs),
        )
        for conflict in result.conflicts
    )


def _rebase_change(overlay: Overlay, change: FileChange, number: int, leaving: Collection[str]) -> FileChange:
    """Return the change re-based onto the present file; raise RebaseConflict if it does not fit."""
    if change.on_disk:
        return _rebase_on_disk(overlay, change, number)
    source = change.old_path or change.path
    try:
        current = overlay.version(source)
        target = overlay.version(change.path) if change.old_path else None
    except OSError as error:
        raise RebaseConflict(f"{source} can't be read: {describe_os_error(error)}") from error
    if not change.old_path and is_same_version(change.origin_base, change.origin_result):
        # The user resolved a conflict by leaving the file unchanged.
        base, result, applied = current, current, True
    elif change.origin_base is None:
        base, result, applied = _rebase_creation(overlay, change, current, leaving)
    elif change.origin_result is None:
        base, result, applied = _rebase_deletion(change, change.origin_base, current)
    else:
        base, result, applied = _rebase_edit(overlay, change, current, target, leaving)
    stacked_on = overlay.pending_proposals_at(source)
    if not is_same_version(base, change.base):
        overlay.store_disk_content(source)
    update = {
        "base": base,
        "result": result,
        "already_applied": applied,
        "conflicts": (),
        "stacked_on": stacked_on,
        "rebased": not _same_bytes(base, change.origin_base) and not applied,
    }
    rebased = change.model_copy(update=update)
    if is_same_version(base, change.base) and is_same_version(result, change.result):
        return rebased
    return recompute_hunks_keeping_decided(overlay.contents, rebased, next_number=number)


def _rebase_on_disk(overlay: Overlay, change: FileChange, number: int) -> FileChange:
    """Return a change on disk with the present file as its result; raise RebaseConflict if the file was moved.

    Changes by others elsewhere in the file are not part of it; their changes in its own lines are.
    """
    try:
        current = overlay.version(change.path)
        other = overlay.version(change.old_path) if change.old_path else None
    except OSError as error:
        raise RebaseConflict(f"{change.path} can't be read: {describe_os_error(error)}") from error
    if change.old_path and (current is None or other is not None):
        raise RebaseConflict(f"{change.path} or {change.old_path} was moved since")
    base = _base_below(overlay, change, current)
    update = {
        "base": base,
        "result": current,
        "already_applied": not change.old_path and is_same_version(base, current),
        "rebased": not _same_bytes(current, change.origin_result),
    }
    if all(getattr(change, name) == value for name, value in update.items()):
        return change
    rebased = change.model_copy(update=update | {"op": file_operation(change.old_path, base, current)})
    if current is not None and not is_same_version(current, change.result):
        overlay.store_disk_content(change.path)
    return recompute_hunks_keeping_decided(overlay.contents, rebased, next_number=number)


def _base_below(overlay: Overlay, change: FileChange, current: FileVersion | None) -> FileVersion | None:
    """Return the file on disk without the change."""
    origin, base = change.origin_result, change.origin_base
    if is_same_version(current, origin) or current is None or origin is None or base is None:
        return base
    mode = merge_mode_preferring_theirs(origin, current, base)
    data = [overlay.content(change.path) or b"", overlay.contents.get(origin), overlay.contents.get(base)]
    if any(each.is_link for each in (current, origin, base)) or any(Document(each).is_binary for each in data):
        return base
    ours, left, theirs = data
    merged = merge_lines(Document(left).lines, Document(ours).lines, Document(theirs).lines, favour_theirs=True)
    return overlay.contents.add(b"".join(merged.lines), mode)


def _rebase_creation(
    overlay: Overlay, change: FileChange, current: FileVersion | None, leaving: Collection[str]
) -> tuple[FileVersion | None, FileVersion | None, bool]:
    result = change.origin_result
    if current is None:
        if obstacle := overlay.find_creation_obstacle(change.path, leaving):
            raise RebaseConflict(f"{change.path} can't be made: {obstacle}")
        return None, result, False
    if _same_bytes(current, result):
        return current, current, True
    raise RebaseConflict(f"{change.path} exists now, with other content", _whole_conflict(overlay, current, result))


def _rebase_deletion(
    change: FileChange, origin: FileVersion, current: FileVersion | None
) -> tuple[FileVersion | None, FileVersion | None, bool]:
    if current is None:
        return None, None, True
    if current.sha256 == origin.sha256:
        return current, None, False
    raise RebaseConflict(f"{change.path} changed after its deletion was proposed; deleting it now would lose that")


def _rebase_edit(
    overlay: Overlay,
    change: FileChange,
    current: FileVersion | None,
    target: FileVersion | None,
    leaving: Collection[str],
) -> tuple[FileVersion | None, FileVersion | None, bool]:
    origin, result = change.origin_base, change.origin_result
    assert origin is not None and result is not None
    source = change.old_path or change.path
    if current is None:
        if change.old_path and _same_bytes(target, result):
            return target, target, True
        raise RebaseConflict(f"{source} is gone")
    if change.old_path and fold_case_and_unicode_form(change.old_path) != fold_case_and_unicode_form(change.path):
        if target is not None:
            raise RebaseConflict(f"{change.path} exists now, so {source} can't be moved there")
        if obstacle := overlay.find_creation_obstacle(change.path, leaving):
            raise RebaseConflict(f"{source} can't be moved to {change.path}: {obstacle}")
    if current.is_link != origin.is_link:
        raise RebaseConflict(f"{source} is {'a symbolic link' if current.is_link else 'no symbolic link'} now")
    mode = merge_mode_preferring_theirs(origin, current, result)
    if current.sha256 == origin.sha256:
        merged = result.model_copy(update={"mode": mode})
    elif origin.sha256 == result.sha256 or current.sha256 == result.sha256:
        merged = current.model_copy(update={"mode": mode})
    else:
        merged = _merge_versions(overlay, source, origin, current, result, mode)
    return current, merged, not change.old_path and is_same_version(current, merged)


def _merge_versions(
    overlay: Overlay, source: str, origin: FileVersion, current: FileVersion, result: FileVersion, mode: int
) -> FileVersion:
    data = overlay.content(source) or b""
    base, theirs = overlay.contents.get(origin), overlay.contents.get(result)
    if any(version.is_link for version in (origin, current, result)):
        raise RebaseConflict(f"{source} is a symbolic link, or would be one, and has changed")
    if any(Document(each).is_binary for each in (base, data, theirs)):
        raise RebaseConflict(f"{source} is binary and changed, so the proposed content can't be merged into it")
    merged, merge = merge_bytes(base, data, theirs)
    if merge.conflicts:
        first = merge.conflicts[0].ours_start + 1
        more = f" and {format_count(len(merge.conflicts) - 1, 'more place')}" if len(merge.conflicts) > 1 else ""
        raise RebaseConflict(
            f"{source} changed at line {first}{more}, where the proposal changes it too",
            _conflicts_for_display(merge),
        )
    return overlay.contents.add(merged, mode)


def _whole_conflict(
    overlay: Overlay, current: FileVersion, result: FileVersion | None
) -> tuple[ConflictingLines, ...]:
    try:
        sides = [Document(overlay.contents.get(version)) for version in (current, result)]
    except MissingContent:
        return ()
    if any(side.is_binary for side in sides):
        return ()
    disk, proposed = (_display_lines(side.lines) for side in sides)
    return (ConflictingLines(line=1, base=(), disk=disk, proposed=proposed),)


def _display_lines(lines: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(decode_surrogateescape(line.rstrip(b"\r\n")) for line in lines[:_MAX_CONFLICT_LINES])


def _same_bytes(one: FileVersion | None, other: FileVersion | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.sha256 == other.sha256


def _differs(old: FileChange, new: FileChange) -> bool:
    """Return whether an approval would write something else, or replace something else."""
    return not (is_same_version(old.base, new.base) and is_same_version(old.result, new.result))
