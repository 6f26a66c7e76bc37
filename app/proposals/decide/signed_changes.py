"""Find the part of a change that was approved before, by comparing contents with the record.

The approvals of a file that are still in force are applied again, oldest first, to git's version. Where the user
changed lines between two approvals, only the approved lines are carried over: the result has no unsigned line.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from app.proposals.files.overlay import ContentStore, Overlay
from app.proposals.stack.proposal_staging import are_pending_changes_within
from app.proposals.stack.rebase import merge_mode_preferring_theirs
from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.text.document import Document
from app.proposals.values.decision_facts import HunksNotProposed
from app.proposals.values.models import FileVersion, Proposal
from app.proposals.values.pending_paths import has_undecided_part
from app.proposals.values.proposal_errors import MissingContent
from app.proposals.values.record_entries import (
    DecisionRecordEntry,
    RecordedFile,
    RecordingStore,
    approvals_in_force,
    hash_and_mode,
)
from app.sandbox.captured_changes import FileOrLink, PathChange

Lines = Sequence[bytes]
LineChanges = Sequence[LineChange]


def _rebase_approved_lines(base: Lines, signed: Lines, onto: Lines, git: Lines) -> list[bytes]:
    """Return the lines of `onto` with an approval's changes to `base`, which differs from `onto` by unsigned changes.

    Args:
        base: The content before the approval.
        signed: The content after it.
        onto: The content that was signed before it.
        git: Git's content. If an unsigned change removed one of its lines, an approval of the replacement does not
            sign the removal.
    """
    is_added = [False] * len(onto)
    for change in diff_lines(git, onto):
        is_added[change.new_start : change.new_end] = [True] * change.added

    def is_overwritten(change: LineChange, theirs: LineChanges) -> bool:
        """Return whether the approval replaces all of this unsigned text, which had replaced no line of git's."""
        within = any(other.old_start <= change.old_start and change.old_end <= other.old_end for other in theirs)
        return within and all(is_added[change.new_start : change.new_end])

    def resolve_region(region: _Region) -> Lines:
        if not region.our_part or region.ours == region.theirs:
            return region.theirs
        if not region.their_part:
            return region.ours
        if not region.base:
            # Both sides only add lines.
            return [*region.ours, *region.theirs]
        if not all(is_overwritten(change, region.their_part) for change in region.our_part if change.added):
            return region.ours
        unsigned = {at for change in region.our_part for at in range(change.old_start, change.old_end)}
        lines: list[bytes] = []
        at = region.start
        for change in region.their_part:
            lines += [base[line] for line in range(at, change.old_start) if line not in unsigned]
            lines += signed[change.new_start : change.new_end]
            at = change.old_end
        end = region.start + len(region.base)
        return [*lines, *(base[line] for line in range(at, end) if line not in unsigned)]

    return _merge_regions(base, onto, signed, resolve_region)


def _approved_lines_still_present(git: Lines, signed: Lines, present: Lines, *, connected: bool) -> list[bytes]:
    """Return the approved lines without those that the user has reverted since.

    Args:
        git: Git's content.
        signed: Git's content with all signed changes.
        present: The content now.
        connected: Whether an approval began or ended with git's content. If none did, older ones may have been
            committed and changed since: then signed lines that are in neither other content are dropped.
    """

    def resolve_region(region: _Region) -> Lines:
        if not region.our_part or not region.their_part:
            return region.base
        if region.ours == region.theirs:
            return region.theirs
        if connected:
            return region.base
        added_lines = {at for theirs in region.their_part for at in range(theirs.old_start, theirs.old_end)}
        removed_lines = {at for ours in region.our_part for at in range(ours.old_start, ours.old_end)}
        return [line for at, line in enumerate(region.base, region.start) if at not in added_lines & removed_lines]

    return _merge_regions(signed, present, git, resolve_region)


def _find_line_replacements(old: Lines, new: Lines) -> set[tuple[int, int, tuple[bytes, ...]]]:
    """Return the replacements that turn old lines into new ones: start, end and new lines of each hunk."""
    return {
        (edit.old_start, edit.old_end, tuple(new[edit.new_start : edit.new_end])) for edit in diff_lines(old, new)
    }


class _Region(Struct, frozen=True):
    """Lines that at least one side has changed, without a line between them that both have kept."""

    start: int
    """Its first line in the base."""
    base: Lines
    ours: Lines
    theirs: Lines
    our_part: LineChanges
    their_part: LineChanges


def _merge_regions(base: Lines, ours: Lines, theirs: Lines, resolve: Callable[[_Region], Lines]) -> list[bytes]:
    """Return the lines of `base` that both sides kept, with the result of `resolve` for each changed region."""
    merged: list[bytes] = []
    base_at = our_shift = their_shift = 0
    for our_part, their_part in _group_overlapping(diff_lines(base, ours), diff_lines(base, theirs)):
        parts = (*our_part, *their_part)
        start, end = min(part.old_start for part in parts), max(part.old_end for part in parts)
        merged += base[base_at:start]
        base_at = end
        our_start, their_start = start + our_shift, start + their_shift
        our_shift += sum(part.added - part.removed for part in our_part)
        their_shift += sum(part.added - part.removed for part in their_part)
        region = _Region(
            start,
            base[start:end],
            ours[our_start : end + our_shift],
            theirs[their_start : end + their_shift],
            our_part,
            their_part,
        )
        merged += resolve(region)
    return [*merged, *base[base_at:]]


def _group_overlapping(ours: LineChanges, theirs: LineChanges) -> Iterator[tuple[list[LineChange], list[LineChange]]]:
    """Yield the changes of both sides in order; those that overlap or insert at the same place are grouped."""
    changes = sorted(
        [*((change, 0) for change in ours), *((change, 1) for change in theirs)],
        key=lambda each: (each[0].old_start, each[0].old_end, each[1]),
    )
    group: tuple[list[LineChange], list[LineChange]] = ([], [])
    start = end = -1
    for change, side in changes:
        overlaps = change.old_start < end or (change.old_start, change.old_end) == (start, end)
        if not overlaps and end >= 0:
            yield group
            group = ([], [])
        if not overlaps:
            start = change.old_start
        end = max(end, change.old_end) if overlaps else change.old_end
        group[side].append(change)
    if end >= 0:
        yield group


_DEFAULT_MODE = 0o644
"""Mode of a file if an entry of an earlier version does not name one."""


class _DecidedFileVersions(Struct, frozen=True):
    """A file before and after a decision."""

    proposal: str
    base: FileOrLink | None
    result: FileOrLink | None
    signed: bool = True
    """Whether it is an approval in force; any other only shows which contents the file had."""


class ChangesAndExcludedHunks(Struct, frozen=True):
    """Changes without the hunks that were approved or are pending already, and these hunks."""

    changes: tuple[PathChange, ...]
    """From the signed content to the present one."""
    left_out: tuple[HunksNotProposed, ...] = ()


def exclude_approved_or_pending_hunks(
    store: RecordingStore, contents: ContentStore, changes: Sequence[PathChange], overlay: Overlay | None = None
) -> ChangesAndExcludedHunks:
    """Return the changes without the hunks that were approved before or are pending in other proposals.

    Args:
        store: Has the record and the pending proposals.
        changes: From git's content to the content on disk; with `overlay`, to the content in a commit.
        overlay: The workspace into which changes of a commit are merged; it may have some of them already.
    """
    paths = {change.path for change in changes}
    steps = _recorded_steps(store, contents, store.entries_on_paths(paths), paths)
    unsigned = _exclude_steps("signed", changes, steps, overlay)
    if overlay is not None:
        remaining = tuple(change for change in unsigned.changes if not _is_in_workspace(change, overlay))
        left_out = (*unsigned.left_out, *_hunks_in_workspace(changes, overlay))
        return ChangesAndExcludedHunks(remaining or unsigned.changes, left_out)
    paths = {change.path for change in unsigned.changes}
    others = [
        other
        for other in store.pending_on_paths(paths)
        if other.on_disk and not are_pending_changes_within(other, paths)
    ]
    not_pending = _exclude_steps("waiting", unsigned.changes, _pending_steps(contents, others))
    return ChangesAndExcludedHunks(not_pending.changes, (*unsigned.left_out, *not_pending.left_out))


def explain_nothing_to_stage(excluded_hunks: Iterable[HunksNotProposed]) -> str:
    """Return a sentence that says why there is nothing to stage: every hunk is excluded."""
    excluded = list(excluded_hunks)
    lead = "all " if len(excluded) == 1 and excluded[0].hunks > 1 else ""
    signed = sum(hunks.hunks for hunks in excluded if hunks.why == "signed")
    hints = [f"--all stages {'it' if signed == 1 else 'them'}"] if signed else []
    waiting_in = [hunks.proposals[0] for hunks in excluded if hunks.why == "waiting" and hunks.proposals]
    hints += [f"`signoff show {proposal_id}` shows it" for proposal_id in waiting_in]
    return f"Nothing to stage: {lead}{'; '.join((', '.join(hunks.sentence for hunks in excluded), *hints))}."


def _count_hunks(before: FileOrLink | None, after: FileOrLink | None) -> int:
    """Return the number of hunks between two versions of a file; one if it is decided as a whole."""
    if before == after:
        return 0
    if before is None or after is None or not _is_text(before, after):
        return 1
    return len(diff_lines(_lines(before), _lines(after))) or 1


def _count_hunks_present(change: PathChange, present: FileOrLink | None) -> int:
    """Return how many hunks of a change are also in another version of the file."""
    if change.after == present:
        return _count_hunks(change.before, change.after)
    if change.before is None or change.after is None or present is None:
        return 0
    if not _is_text(change.before, change.after, present):
        return 0
    base, one, other = _lines(change.before), _lines(change.after), _lines(present)
    return len(_find_line_replacements(base, one) & _find_line_replacements(base, other))


def _exclude_steps(
    why: Literal["signed", "waiting"],
    changes: Sequence[PathChange],
    steps: Mapping[str, Sequence[_DecidedFileVersions]],
    overlay: Overlay | None = None,
) -> ChangesAndExcludedHunks:
    """Return the changes without those of the steps; hunks that `overlay` already has are not counted."""
    remaining: list[PathChange] = []
    signer_ids: set[str] = set()
    count = 0
    for change in changes:
        before, signers = _apply_approvals(change.before, change.after, steps.get(change.path, ()))
        hunks = _count_hunks(change.before, before)
        if hunks and overlay is not None:
            hunks -= _count_hunks_present(
                PathChange(change.path, change.before, before), _overlay_file(overlay, change.path)
            )
        if hunks:
            signer_ids |= signers
            count += hunks
        if before != change.after:
            remaining.append(PathChange(change.path, before, change.after))
    by_number = sorted(signer_ids, key=lambda name: int(name[1:]))
    return ChangesAndExcludedHunks(
        tuple(remaining), (HunksNotProposed(hunks=count, why=why, proposals=tuple(by_number)),) if count else ()
    )


def _hunks_in_workspace(changes: Sequence[PathChange], overlay: Overlay) -> list[HunksNotProposed]:
    """Return the hunks that are already on disk, and those that are in pending proposals."""
    disk = pending = 0
    proposal_ids: dict[str, None] = {}
    for change in changes:
        on_disk = _count_hunks_present(change, _overlay_file(overlay.disk_only(), change.path))
        disk += on_disk
        if ids := overlay.pending_proposals_at(change.path):
            pending_here = _count_hunks_present(change, _overlay_file(overlay, change.path)) - on_disk
            pending += max(pending_here, 0)
            proposal_ids |= dict.fromkeys(ids if pending_here > 0 else ())
    excluded = [HunksNotProposed(hunks=disk, why="there")] if disk else []
    return excluded + (
        [HunksNotProposed(hunks=pending, why="waiting", proposals=tuple(proposal_ids))] if pending else []
    )


def _is_in_workspace(change: PathChange, overlay: Overlay) -> bool:
    """Return whether the workspace has all hunks of a change, and its mode."""
    present = _overlay_file(overlay, change.path)
    if change.before and change.after and change.before.mode != change.after.mode and change.after != present:
        return False
    return _count_hunks_present(change, present) == _count_hunks(change.before, change.after)


def _overlay_file(overlay: Overlay, path: str) -> FileOrLink | None:
    """Return a file with all pending changes; None if there is none or it cannot be read."""
    with suppress(OSError):
        version, data = overlay.version(path), overlay.content(path)
        return FileOrLink(data, version.mode) if version is not None and data is not None else None
    return None


def _apply_approvals(
    git: FileOrLink | None, present: FileOrLink | None, steps: Sequence[_DecidedFileVersions]
) -> tuple[FileOrLink | None, set[str]]:
    """Return git's version of a file with all signed changes, and the ids of the proposals that signed them."""
    start = _first_step_after(git, steps)
    signed, proposal_ids = git, set[str]()
    for step in steps[start or 0 :]:
        if step.signed and (after := _reapply_step(step, signed, git)) != signed:
            signed, proposal_ids = after, proposal_ids | {step.proposal}
    signed = _drop_reverted_lines(git, signed, present, connected=start is not None)
    return (signed, proposal_ids) if signed != git else (git, set())


def _first_step_after(git: FileOrLink | None, steps: Sequence[_DecidedFileVersions]) -> int | None:
    """Return the index of the first step after git's version; None if no step began or ended with it."""
    for index, step in enumerate(steps):
        if _same_bytes(step.base, git):
            return index
        if _same_bytes(step.result, git):
            return index + 1
    return None


def _reapply_step(
    step: _DecidedFileVersions, present: FileOrLink | None, git: FileOrLink | None
) -> FileOrLink | None:
    """Return the file after a recorded step, merged if the file has changed since; unchanged if the merge fails."""
    base, result = step.base, step.result
    if base is None or present is None:
        return result if base is present else present
    if _same_bytes(base, present) and base.is_link == present.is_link:
        if result is None or result.is_link or present.is_link:
            return result
        return FileOrLink(result.data, merge_mode_preferring_theirs(base, present, result))
    if not _is_text(base, present, *([result] if result else [])):
        return present
    lines = _rebase_approved_lines(
        _lines(base), _lines(result) if result else [], _lines(present), _lines(git) if git else []
    )
    if result is None:
        return present if lines else None
    return FileOrLink(b"".join(lines), merge_mode_preferring_theirs(base, present, result))


def _drop_reverted_lines(
    git: FileOrLink | None, signed: FileOrLink | None, present: FileOrLink | None, *, connected: bool
) -> FileOrLink | None:
    """Return the signed version without what the user has reverted since; as `_approved_lines_still_present`."""
    if present == git:
        return git
    if signed is None or present is None:
        return signed
    if git is None:
        return FileOrLink(signed.data, _mode_like(present, signed))
    if not _is_text(git, signed, present):
        return FileOrLink(signed.data, _mode_like(present, signed)) if not signed.is_link else signed

    lines = _approved_lines_still_present(_lines(git), _lines(signed), _lines(present), connected=connected)
    return FileOrLink(b"".join(lines), _mode_like(present, signed))


def _recorded_steps(
    store: RecordingStore, contents: ContentStore, entries: Sequence[DecisionRecordEntry], paths: Collection[str]
) -> dict[str, list[_DecidedFileVersions]]:
    """Return by path the recorded steps of each file, oldest first, as far as their contents are stored."""
    in_force = approvals_in_force(entries)
    steps: dict[str, list[_DecidedFileVersions]] = {}
    for entry in entries:
        for file in entry.files:
            if file.path in paths and (
                step := _recorded_step(store, contents, entry, file, signed=entry.number in in_force)
            ):
                steps.setdefault(file.path, []).append(step)
    return steps


def _recorded_step(
    store: RecordingStore, contents: ContentStore, entry: DecisionRecordEntry, file: RecordedFile, *, signed: bool
) -> _DecidedFileVersions | None:
    base, result = (file.base_sha256, file.base_mode), (file.result_sha256, file.result_mode)
    if (file.base and not base[0]) or (file.result and not result[0]):
        # Earlier versions recorded no SHA-256 of a change on disk that was kept in part; the proposal has the
        # versions.
        proposal = store.proposal(entry.proposal)
        kept = [
            part
            for change in (proposal.files if proposal else ())
            for part in change.decisions
            if change.path == file.path and part.decision == entry.count and not part.old_path
        ]
        if not kept:
            return None
        base, result = hash_and_mode(kept[0].base), hash_and_mode(kept[0].left)
    if not base[0] and not result[0]:
        return None
    try:
        mode = int(base[1] or result[1] or f"{_DEFAULT_MODE:o}", 8)
        versions = [
            FileOrLink(contents.get(FileVersion(sha256=name, size=0)), int(octal, 8) if octal else mode)
            if name
            else None
            for name, octal in (base, result)
        ]
    except MissingContent:
        return None
    return _DecidedFileVersions(entry.proposal, versions[0], versions[1], signed)


def _pending_steps(contents: ContentStore, proposals: Iterable[Proposal]) -> dict[str, list[_DecidedFileVersions]]:
    """Return by path the pending changes of proposals for changes on disk, as steps."""
    steps: dict[str, list[_DecidedFileVersions]] = {}
    for proposal in proposals:
        for change in filter(has_undecided_part, proposal.files):
            base, result = contents.load_file(change.base), contents.load_file(change.result)
            if change.old_path:
                steps.setdefault(change.old_path, []).append(_DecidedFileVersions(proposal.id, base, None))
                base = None
            steps.setdefault(change.path, []).append(_DecidedFileVersions(proposal.id, base, result))
    return steps


def _same_bytes(one: FileOrLink | None, other: FileOrLink | None) -> bool:
    return one is other if one is None or other is None else one.data == other.data


def _mode_like(present: FileOrLink, signed: FileOrLink) -> int:
    """Return the mode of the present file if git does not distinguish it from the signed one."""
    same = not (present.is_link or signed.is_link) and bool(present.mode & 0o100) == bool(signed.mode & 0o100)
    return present.mode if same else signed.mode


def _is_text(*leaves: FileOrLink) -> bool:
    return not any(leaf.is_link or Document(leaf.data).is_binary for leaf in leaves)


def _lines(leaf: FileOrLink) -> Lines:
    return Document(leaf.data).lines
