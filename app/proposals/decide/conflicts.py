"""Conflicts of a stale proposal: files with conflict regions, and the user's resolution.

A conflict is shown as `git merge-file --diff3` writes it. Only the texts of lines are compared: a difference in line
endings or in a byte order mark is no conflict. The resolution is a whole text, or one side for a file that cannot be
merged as text. This module writes nothing to disk.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from app.copies import replace
from app.proposals.files.file_changes import (
    file_operation,
    next_hunk_number,
    recompute_hunks_keeping_decided,
    replace_versions_keeping_hunks,
)
from app.proposals.files.overlay import ContentStore, Overlay, is_same_version
from app.proposals.journal.journal import fold_case_and_unicode_form
from app.proposals.locate.edit_script import encode_preserving_unchanged_lines
from app.proposals.risk.risk_reasons import add_risk_reasons_and_reading_order
from app.proposals.stack.rebase import (
    RebaseConflict,
    find_rebase_conflicts,
    merge_mode_preferring_theirs,
    removed_paths,
)
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import BOM, Document, decode_surrogateescape, split_lines_without_endings
from app.proposals.text.file_warnings import format_size
from app.proposals.text.line_edits import merge_lines
from app.proposals.values.models import FileChange, FileOperation, FileVersion, Proposal
from app.proposals.values.pending_paths import has_undecided_part
from app.proposals.values.proposal_errors import ChangedSinceShown, EditRefused, InvalidUserEdit
from app.workspace.secrets import secret_reason


def find_editable_result(proposal: Proposal, path: str) -> tuple[FileChange, FileVersion]:
    """Return the change of one file and its result; raise InvalidUserEdit if the user cannot edit the result."""
    change = next((each for each in proposal.files if each.path == path and has_undecided_part(each)), None)
    if change is None or change.result is None or change.binary or change.involves_link:
        raise InvalidUserEdit(f"{proposal.id} has no text to edit at {path}.")
    if change.on_disk:
        raise InvalidUserEdit(
            f"{path} is on disk as {proposal.id} has it; edit the file itself, {proposal.id} follows."
        )
    return change, change.result


def replace_result_by_user_text(contents: ContentStore, proposal: Proposal, path: str, text: str) -> Proposal:
    """Return the proposal with the user's text as the result of one file; unchanged lines keep their bytes.

    Raises:
        InvalidUserEdit: the file has no text to edit, the text cannot be encoded, or the change would be empty.
    """
    change, before = find_editable_result(proposal, path)
    try:
        data = encode_preserving_unchanged_lines(Document(contents.get(before)), text)
    except EditRefused as error:
        raise InvalidUserEdit(f"{path} was not changed: {error.fact}") from error
    result = contents.add(data, before.mode)
    if is_same_version(result, before):
        return proposal
    if is_same_version(result, change.base) and not change.old_path:
        raise InvalidUserEdit(f"That leaves {path} as it is on disk; deny the change instead.")
    edited = replace_versions_keeping_hunks(change, change.base, result, change.old_path, edited=True)
    return _replace_change(contents, proposal, change, edited)


def _replace_change(contents: ContentStore, proposal: Proposal, change: FileChange, edited: FileChange) -> Proposal:
    """Return the next revision with an edited change and its hunks; the same proposal if nothing is different."""
    edited = recompute_hunks_keeping_decided(contents, edited, next_number=next_hunk_number(proposal.files))
    if edited == change:
        return proposal
    after = proposal.next_revision(edited if each is change else each for each in proposal.files)
    return add_risk_reasons_and_reading_order(contents, after) if proposal.order else after


_MARKER_CHARACTERS = 7
"""Length of a conflict marker, as in git; longer if a line of the file looks like one."""
_MAX_QUOTED_FILES = 5
_MAX_QUOTED_REGIONS = 5
_MAX_QUOTED_LINES = 12
"""Maximum files, regions of each file, and lines of each region that a denial quotes to the model."""
_QUOTED_CONTEXT_LINES = 2


class ConflictChoice(StrEnum):
    """The side that the user chooses for a conflict region or a whole file."""

    DISK = "disk"
    PROPOSED = "proposed"
    BOTH = "both"
    """The lines on disk, then the proposed ones; not for a whole file."""


class ConflictRegion(Struct, frozen=True):
    """Lines that both sides changed, without line endings."""

    line: int
    """Number of the first of them in the present file, from 1."""
    base: tuple[str, ...]
    disk: tuple[str, ...]
    proposed: tuple[str, ...]

    def lines(self, side: ConflictChoice) -> tuple[str, ...]:
        """Return the lines of a side."""
        return (self.disk if side is not ConflictChoice.PROPOSED else ()) + (
            self.proposed if side is not ConflictChoice.DISK else ()
        )


class ConflictMarkerLabels(Struct, frozen=True):
    """Labels of the sides in conflict markers."""

    disk: str
    base: str
    proposed: str


class UnsavedEdit(Struct, frozen=True):
    """The user's unsaved text of a file that has changed meanwhile, and the text with which the edit began."""

    text: str
    original_text: str
    """The text of the file when the user began to edit."""


class FileConflict(Struct, frozen=True):
    """A file of a stale proposal: its present text, and the regions in which the proposal does not fit."""

    proposal: str
    path: str
    reason: str
    disk: FileVersion | None
    """The present version: on disk, with the older pending proposals applied; None for no file."""
    disk_text: str
    """Text of `disk`; empty if it is not text."""
    parts: tuple[tuple[str, ...] | ConflictRegion, ...]
    """The merged lines and the conflict regions between them, in order."""
    final_newline: bool
    whole: bool
    """Whether one side has to be taken as a whole; the regions then only show the difference."""
    labels: ConflictMarkerLabels
    others: int
    """Number of other files of the proposal that do not fit."""

    @property
    def regions(self) -> tuple[ConflictRegion, ...]:
        """Return the conflict regions, in order."""
        return tuple(part for part in self.parts if isinstance(part, ConflictRegion))

    def text_with_choices(self, choices: Sequence[ConflictChoice | None] = ()) -> str:
        """Return the text with a choice for each region; a region without one stays between markers."""
        markers = self._markers()
        lines: list[str] = []
        rest = iter(choices)
        for part in self.parts:
            if not isinstance(part, ConflictRegion):
                lines += part
            elif (side := next(rest, None)) is not None:
                lines += part.lines(side)
            else:
                lines += [markers[0], *part.disk, markers[1], *part.base, markers[2], *part.proposed, markers[3]]
        # Without a final newline, an empty last line would be lost.
        ends = bool(lines) and (self.final_newline or not lines[-1])
        return "\n".join(lines) + ("\n" if ends else "")

    def unresolved_blocks(self, text: str) -> "list[ConflictMarkerBlock]":
        """Return the conflicts that are still between markers in a text, in order."""
        first, second, third, last = self._markers()
        blocks: list[ConflictMarkerBlock] = []
        start = base = proposed = -1
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if line == first:
                start, base, proposed = number, -1, -1
            elif line == second and start >= 0 and base < 0:
                base = number
            elif line == third and base >= 0 and proposed < 0:
                proposed = number
            elif line == last and proposed >= 0:
                region = ConflictRegion(
                    start + 1,
                    tuple(lines[base + 1 : proposed]),
                    tuple(lines[start + 1 : base]),
                    tuple(lines[proposed + 1 : number]),
                )
                blocks.append(ConflictMarkerBlock(start, base, proposed, number, region))
                start = base = proposed = -1
        return blocks

    def find_stray_marker(self, text: str) -> int:
        """Return the first line, from 0, that is a marker (`=======` alone is none); -1 without one."""
        first, second, _, last = self._markers()
        return next((number for number, line in enumerate(text.split("\n")) if line in (first, second, last)), -1)

    def _markers(self) -> tuple[str, str, str, str]:
        size, lines = _MARKER_CHARACTERS, {line for part in self.parts for line in _lines_in(part)}
        while True:
            markers = (
                f"{'<' * size} {self.labels.disk}",
                f"{'|' * size} {self.labels.base}",
                "=" * size,
                f"{'>' * size} {self.labels.proposed}",
            )
            if lines.isdisjoint(markers):
                return markers
            size += 1


class ConflictMarkerBlock(Struct, frozen=True):
    """A conflict between markers in a text; all positions are line numbers from 0."""

    start: int
    base: int
    proposed: int
    end: int
    """The line of the last marker."""
    region: ConflictRegion


class _MergeVersions(Struct, frozen=True):
    """A change and the versions to merge for it."""

    change: FileChange
    base: FileVersion | None
    current: FileVersion | None
    proposed: FileVersion | None
    moves: bool
    """Whether the file moves from `old_path`; otherwise the result replaces `current`."""

    @property
    def source(self) -> str:
        return self.change.old_path if self.moves else self.change.path


def load_file_conflict(
    overlay: Overlay, proposal: Proposal, preferred_path: str = "", unsaved: UnsavedEdit | None = None
) -> FileConflict:
    """Return the conflict of a file of the proposal that does not fit the workspace.

    Args:
        overlay: The disk with all older pending proposals applied.
        preferred_path: The preferred file, if several do not fit.
        unsaved: The user's text for that file, to be merged with the present text.

    Raises:
        ChangedSinceShown: the whole proposal fits.
        InvalidUserEdit: the conflict cannot be resolved by hand; the message says why.
    """
    conflicts = find_rebase_conflicts(overlay, proposal)
    if not conflicts and unsaved is None:
        raise ChangedSinceShown(f"{proposal.id} fits again: nothing of it is in conflict any more.")
    paths = sorted(conflicts, key=lambda file_path: file_path != preferred_path)
    if unsaved is not None:
        paths = [preferred_path]
    first_error: InvalidUserEdit | None = None
    for file_path in paths:
        conflict = conflicts.get(file_path) or RebaseConflict(f"{file_path} changed while you were editing it")
        try:
            sides = _find_merge_versions(overlay, proposal, file_path)
            return _make_conflict(
                overlay, proposal, sides, conflict.reason, unsaved, len(set(conflicts) - {file_path})
            )
        except InvalidUserEdit as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def resolve_conflict(
    overlay: Overlay,
    proposal: Proposal,
    path: str,
    resolution: str | ConflictChoice,
    seen_version: FileVersion | None,
) -> Proposal:
    """Return the proposal with the user's resolution for one file, based on what is on disk now.

    Args:
        overlay: The disk with all older pending proposals applied.
        resolution: The whole text of the file, or the side that is taken as a whole: `disk` leaves it as it is.
        seen_version: The version that was there when the user saw the conflict.

    Raises:
        ChangedSinceShown: another version is there now.
        InvalidUserEdit: the text cannot be encoded, the conflict cannot be resolved by hand, or nothing is left of
            the proposal.
    """
    sides = _find_merge_versions(overlay, proposal, path)
    change, current = sides.change, sides.current
    if not is_same_version(current, seen_version):
        raise ChangedSinceShown(f"{path} has changed again since you began; nothing was saved.")
    if resolution is ConflictChoice.BOTH:
        raise InvalidUserEdit(f"{path} is taken as a whole: from the disk or from the proposal.")
    if isinstance(resolution, ConflictChoice):
        result = sides.proposed if resolution is ConflictChoice.PROPOSED else current
        versions = sides.base, current, sides.proposed
        if resolution is ConflictChoice.PROPOSED and all(each is not None and not each.is_link for each in versions):
            assert sides.base and current and result
            result = result.model_copy(update={"mode": merge_mode_preferring_theirs(sides.base, current, result)})
    else:
        result = _resolved_version(overlay, sides, resolution)
    is_unchanged = is_same_version(result, current) and not sides.moves
    others = [each for each in proposal.files if has_undecided_part(each) and each is not change]
    if is_unchanged and all(each.already_applied for each in others):
        raise InvalidUserEdit(f"That leaves {path} as it is, and nothing of {proposal.id} is left; deny it instead.")
    overlay.store_disk_content(sides.source)
    old_path = change.old_path if sides.moves else ""
    resolved = replace_versions_keeping_hunks(
        change,
        current,
        result,
        old_path,
        op=FileOperation.EDIT if is_unchanged else file_operation(old_path, current, result),
        edited=True,
        rebased=False,
        conflicts=(),
        already_applied=is_unchanged,
        stacked_on=overlay.pending_proposals_at(sides.source),
    )
    return _replace_change(overlay.contents, proposal, change, resolved)


def explain_stale_to_model(overlay: Overlay, proposal: Proposal) -> str:
    """Explain to the model why a stale proposal could not be approved, and what its files contain now.

    Empty if the whole proposal fits. Files that look like secrets are not quoted.
    """
    conflicts = find_rebase_conflicts(overlay, proposal)
    lines = []
    for path, conflict in list(conflicts.items())[:_MAX_QUOTED_FILES]:
        lines.append(f"{proposal.id} was stale and could not be approved: {conflict.reason}.")
        lines += _quote_file(overlay, proposal, path, conflict)
    if len(conflicts) > _MAX_QUOTED_FILES:
        lines.append(f"So were {len(conflicts) - _MAX_QUOTED_FILES} more of its files.")
    return "\n".join(lines)


def _quote_file(overlay: Overlay, proposal: Proposal, path: str, rebase_conflict: RebaseConflict) -> Iterator[str]:
    try:
        sides = _find_merge_versions(overlay, proposal, path)
        conflict = _make_conflict(overlay, proposal, sides, rebase_conflict.reason, None, 0)
    except InvalidUserEdit:
        return
    data = overlay.content(sides.source) or b""
    if sides.current is None or any(secret_reason(name, data) for name in {path, sides.source}):
        return
    lines = split_lines_without_endings(conflict.disk_text)
    regions = conflict.regions if lines else ()
    for region in regions[:_MAX_QUOTED_REGIONS]:
        first = max(region.line - 1 - _QUOTED_CONTEXT_LINES, 0)
        end = region.line - 1 + len(region.disk) + _QUOTED_CONTEXT_LINES
        shown = range(first, min(end, len(lines), first + _MAX_QUOTED_LINES))
        yield f"  {sides.source} now contains:"
        yield from (f"    {number + 1}\t{lines[number]}" for number in shown)
    if len(regions) > _MAX_QUOTED_REGIONS:
        yield f"  The same holds for {len(regions) - _MAX_QUOTED_REGIONS} more places in it."


def _find_merge_versions(overlay: Overlay, proposal: Proposal, path: str) -> _MergeVersions:
    """Return the versions to merge; raise InvalidUserEdit if they cannot be resolved by hand."""
    change = next((each for each in proposal.files if each.path == path and has_undecided_part(each)), None)
    if change is None:
        raise InvalidUserEdit(f"{proposal.id} has nothing that waits at {path}.")
    if change.on_disk:
        raise InvalidUserEdit(
            f"{path} is on disk as {proposal.id} has it; edit the file itself, {proposal.id} follows."
        )
    source = change.old_path or path
    try:
        current = overlay.version(source)
        target = overlay.version(path)
    except OSError as error:
        raise InvalidUserEdit(f"{source} can't be read: {error.strerror or error}.") from error
    moves = bool(change.old_path)
    if moves and current is None:
        # The file was moved or deleted on disk: only its new path matters.
        moves, current = False, target
    elif (
        moves
        and fold_case_and_unicode_form(change.old_path) != fold_case_and_unicode_form(path)
        and target is not None
    ):
        raise InvalidUserEdit(f"{path} exists now, so {source} can't be moved there; move one away, or deny this.")
    if current is None and (obstacle := overlay.find_creation_obstacle(path, removed_paths(proposal))):
        raise InvalidUserEdit(f"{path} can't be made: {obstacle}; move that away, or deny this.")
    return _MergeVersions(change, change.origin_base, current, change.origin_result, moves)


def _make_conflict(
    overlay: Overlay, proposal: Proposal, sides: _MergeVersions, reason: str, unsaved: UnsavedEdit | None, others: int
) -> FileConflict:
    contents, current = overlay.contents, sides.current
    disk = Document(overlay.content(sides.source) or b"")
    base, proposed = Document(contents.get(sides.base)), Document(contents.get(sides.proposed))
    texts = _text_lines(sides.base, base), _text_lines(current, disk), _text_lines(sides.proposed, proposed)
    mergeable = None not in texts[1:] and (sides.base is None or texts[0] is not None)
    older_ids = overlay.pending_proposals_at(sides.source)
    where = f"with {', '.join(older_ids)}, still pending" if older_ids else "on disk now"
    labels = ConflictMarkerLabels(where, "before", f"proposed in {proposal.id}")
    if unsaved is not None:
        labels = replace(labels, base="when you began", proposed="your text")
        texts = (_screen_lines(unsaved.original_text), texts[1], _screen_lines(unsaved.text))
        mergeable = texts[1] is not None
    text = disk.text if texts[1] is not None else ""
    if not mergeable:
        labels = ConflictMarkerLabels(
            f"{labels.disk}: {_describe_kind(current, disk)}",
            labels.base,
            labels.proposed if unsaved else f"{labels.proposed}: {_describe_kind(sides.proposed, proposed)}",
        )
        parts: Iterable[tuple[str, ...] | ConflictRegion] = [ConflictRegion(1, *(lines or () for lines in texts))]
        ends = unsaved.text.endswith("\n") if unsaved else proposed.has_final_newline
    else:
        old, ours, theirs = (lines or () for lines in texts)
        has_base = sides.base is not None or unsaved is not None
        parts = _merged_parts(old, ours, theirs) if has_base else _differing_parts(ours, theirs)
        had_newline, wants_newline = base.has_final_newline, proposed.has_final_newline
        if unsaved is not None:
            had_newline = unsaved.original_text.endswith("\n") or not unsaved.original_text
            wants_newline = unsaved.text.endswith("\n") or not unsaved.text
        ends = wants_newline if has_base and had_newline == disk.has_final_newline else disk.has_final_newline
    return FileConflict(
        proposal.id, sides.change.path, reason, current, text, tuple(parts), ends, not mergeable, labels, others
    )


def _text_lines(version: FileVersion | None, document: Document) -> tuple[str, ...] | None:
    """Return the lines of a version; None if there is no file or it is not text."""
    return None if version is None or version.is_link or document.is_binary else document.line_texts


def _screen_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a text from the screen, without a byte order mark."""
    return tuple(split_lines_without_endings(text.removeprefix(BOM)))


def _describe_kind(version: FileVersion | None, document: Document) -> str:
    """Return a description of a side that can only be taken as a whole."""
    if version is None:
        return "no file"
    if version.is_link:
        return f"a symbolic link to {' '.join(decode_surrogateescape(document.data).split())}"
    kind = "binary" if document.is_binary else document.encoding if document.is_utf16 else "text"
    return f"{kind}, {format_size(version.size)}"


def _merged_parts(
    base: Sequence[str], disk: Sequence[str], proposed: Sequence[str]
) -> Iterator[tuple[str, ...] | ConflictRegion]:
    merged = merge_lines(base, disk, proposed)
    end = 0
    for conflict in merged.conflicts:
        if conflict.merged_start > end:
            yield merged.lines[end : conflict.merged_start]
        yield ConflictRegion(conflict.ours_start + 1, conflict.base, conflict.ours, conflict.theirs)
        end = conflict.merged_start + len(conflict.ours)
    if end < len(merged.lines):
        yield merged.lines[end:]


def _differing_parts(disk: Sequence[str], proposed: Sequence[str]) -> Iterator[tuple[str, ...] | ConflictRegion]:
    """Yield the parts of two files without a common base; each difference is a conflict."""
    at = 0
    for change in diff_lines(disk, proposed):
        if change.old_start > at:
            yield tuple(disk[at : change.old_start])
        ours, theirs = disk[change.old_start : change.old_end], proposed[change.new_start : change.new_end]
        yield ConflictRegion(change.old_start + 1, (), tuple(ours), tuple(theirs))
        at = change.old_end
    if at < len(disk):
        yield tuple(disk[at:])


def _resolved_version(overlay: Overlay, sides: _MergeVersions, text: str) -> FileVersion:
    """Return the version with the user's text, encoded as the present file or, if only that changed, the proposal."""
    contents = overlay.contents
    proposed = Document(contents.get(sides.proposed))
    base, current = sides.base, sides.current
    if current is None or current.is_link:
        style, mode = proposed, sides.proposed.mode if sides.proposed else 0o644
    else:
        style = Document(overlay.content(sides.source) or b"")
        if base is not None and sides.proposed is not None:
            style = _with_proposed_style(Document(contents.get(base)), style, proposed)
            mode = merge_mode_preferring_theirs(base, current, sides.proposed)
        else:
            mode = current.mode | (sides.proposed.mode & 0o111 if sides.proposed else 0)
    try:
        return contents.add(encode_preserving_unchanged_lines(style, text), mode)
    except EditRefused as error:
        raise InvalidUserEdit(f"{sides.change.path} was not changed: {error.fact}") from error


def _with_proposed_style(base: Document, disk: Document, proposed: Document) -> Document:
    """Return the file on disk, with line endings and byte order mark of the proposal where only that changed them."""
    if disk.is_utf16 or proposed.is_utf16 or disk.is_binary or proposed.is_binary or not disk.data:
        return disk
    mark = proposed.byte_order_mark if base.byte_order_mark == disk.byte_order_mark else disk.byte_order_mark
    bodies = disk.lines_without_mark
    if base.eol == disk.eol != proposed.eol and proposed.data:
        endings = disk.endings
        bodies = tuple(
            body[: len(body) - len(ending)] + (proposed.eol.encode() if ending else b"")
            for body, ending in zip(bodies, endings, strict=True)
        )
    return Document(mark + b"".join(bodies))


def _lines_in(part: tuple[str, ...] | ConflictRegion) -> tuple[str, ...]:
    return (*part.base, *part.disk, *part.proposed) if isinstance(part, ConflictRegion) else part
