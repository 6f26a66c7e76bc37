"""Stage a patch from the user: as a draft, or refused with an explanation."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from app.copies import replace
from app.proposals.files.overlay import ContentStore
from app.proposals.journal.apply import describe_os_error
from app.proposals.locate.edit_script import EditScriptLine, LineOperation
from app.proposals.patch.parsed_patch import FilePatch, ParsedPatch, PatchHunk, matches_long_blob_id_prefix
from app.proposals.stack.draft import Draft
from app.proposals.stack.draft_files import DraftFile
from app.proposals.stack.proposal_staging import comparable_change_results, make_file_changes
from app.proposals.stack.stacking import related_pending_proposals
from app.proposals.values.models import EditReport, FileOperation, MatchLevel
from app.proposals.values.proposal_errors import EditRefused, PatchRefused, ProposalError
from app.proposals.values.proposal_store import ProposalStore
from app.sandbox.captured_changes import FileOrLink, PathChange
from app.text.quantities import join_first
from app.workspace.path_rules import WorkspaceError

_REVERSED_LINE_OPERATIONS = {
    LineOperation.KEEP: LineOperation.KEEP,
    LineOperation.INSERT: LineOperation.REMOVE,
    LineOperation.REMOVE: LineOperation.INSERT,
}
_REVERSED_FILE_OPERATIONS = {FileOperation.CREATE: FileOperation.DELETE, FileOperation.DELETE: FileOperation.CREATE}


def _is_patch_on_disk(draft: Draft, patch: ParsedPatch) -> bool:
    """Return whether the disk already has all results of the patch, by git's blob ids."""
    parts = [part for part in patch.parts if not part.left_out]
    with suppress(EditRefused, WorkspaceError, OSError):
        return bool(parts) and all(_has_result(draft, part) for part in parts)
    return False


def _find_applied_changes(draft: Draft, patch: ParsedPatch) -> list[PathChange]:
    """Return the changes of a patch that is already applied to the disk; empty if its reverse does not fit exactly.

    Args:
        draft: An empty draft over the disk alone; the reverse is applied to it.
    """
    parts = [part for part in reversed(patch.parts) if not part.left_out]
    try:
        draft.apply_patch(ParsedPatch(tuple(map(_reverse_file_patch, parts))))
    except (EditRefused, WorkspaceError, ProposalError, OSError):
        return []
    draft_files = {path: draft_file for path, draft_file in draft.changed_paths.items() if draft_file.has_changes}
    if any(match.rung is not MatchLevel.EXACT for draft_file in draft_files.values() for match in draft_file.matches):
        return []
    return [
        PathChange(path, draft_file.content, _base_content(draft_file))
        for path, draft_file in sorted(draft_files.items())
    ]


def _reverse_file_patch(part: FilePatch) -> FilePatch:
    """Return the reverse of a part, without its result's blob id, which a diff made with `-w` does not produce."""
    return replace(
        part,
        path=part.old_path or part.path,
        old_path=part.path if part.old_path else "",
        op=_REVERSED_FILE_OPERATIONS.get(part.op, part.op),
        hunks=tuple(map(_reverse_hunk, part.hunks)),
        old_mode=part.new_mode,
        new_mode=part.old_mode,
        old_blob=part.new_blob,
        new_blob="",
        shows_deleted_lines=True,
    )


def _reverse_hunk(hunk: PatchHunk) -> PatchHunk:
    return replace(
        hunk,
        lines=tuple(_reverse_lines(hunk.lines)),
        old_start=hunk.new_start,
        new_start=hunk.old_start,
        may_end_mid_line=False,
    )


def _reverse_lines(lines: Sequence[EditScriptLine]) -> list[EditScriptLine]:
    """Return the lines with additions and removals swapped; in each run of changes the removed lines come first."""
    reversed_lines: list[EditScriptLine] = []
    run: list[EditScriptLine] = []
    for line in lines:
        if line.operation is LineOperation.KEEP:
            reversed_lines += [
                *sorted(run, key=lambda reversed_line: reversed_line.operation is LineOperation.INSERT),
                line,
            ]
            run = []
        else:
            run.append(replace(line, operation=_REVERSED_LINE_OPERATIONS[line.operation]))
    return reversed_lines + sorted(run, key=lambda reversed_line: reversed_line.operation is LineOperation.INSERT)


def _has_result(draft: Draft, part: FilePatch) -> bool:
    present = draft.read_bytes_and_mode(part.path)
    return present is not None and matches_long_blob_id_prefix(present[0], part.new_blob)


def _base_content(draft_file: DraftFile) -> FileOrLink | None:
    return (
        None
        if draft_file.base_data is None or draft_file.base is None
        else FileOrLink(draft_file.base_data, draft_file.base.mode)
    )


class PatchAlreadyApplied(Exception):
    """The patch is already applied on disk.

    Args:
        changes: From the state before the patch to the state on disk.
    """

    def __init__(self, changes: Sequence[PathChange], patch: ParsedPatch) -> None:
        super().__init__()
        self.changes = changes
        self.left_out = [part.path for part in patch.parts if part.left_out]


def apply_patch_text(
    draft: Draft, text: str, workspace_in_repository: str, make_disk_draft: Callable[[], Draft], store: ProposalStore
) -> EditReport:
    """Apply a patch to a draft.

    Args:
        workspace_in_repository: Path of the workspace in its repository.
        make_disk_draft: Returns an empty draft over the disk alone.

    Raises:
        PatchAlreadyApplied: the disk already has its changes.
        PatchRefused: the text is not a patch, does not fit the files, or was staged before.
    """
    try:
        patch = draft.parse_patch(text, workspace_in_repository, is_complete=False)
    except (EditRefused, WorkspaceError) as error:
        raise PatchRefused(f"The patch was not staged: {_first_sentence(error)}") from error
    # A patch that adds lines without context could add them twice; git's blob ids show that it is already applied.
    if _is_patch_on_disk(make_disk_draft(), patch) and (changes := _find_applied_changes(make_disk_draft(), patch)):
        raise PatchAlreadyApplied(changes, patch)
    try:
        return draft.apply_patch(patch)
    except (EditRefused, WorkspaceError) as error:
        same_changes, pending = _find_pending_on_files_of(store, make_disk_draft(), patch)
        if same_changes:
            raise PatchRefused(
                f"{same_changes} is already pending with the same changes; `signoff show {same_changes}` shows it."
            ) from error
        if changes := _find_applied_changes(make_disk_draft(), patch):
            raise PatchAlreadyApplied(changes, patch) from error
        if pending:
            raise PatchRefused(
                f"The patch was not staged: it fits the disk, but not the changes of {join_first(pending)}, "
                f"still pending; decide {pending[0]} first."
            ) from error
        raise PatchRefused(f"The patch was not staged: {_first_sentence(error)}") from error
    except OSError as error:
        raise PatchRefused(f"The patch was not staged: {describe_os_error(error)}.") from error


def _find_pending_on_files_of(store: ProposalStore, draft: Draft, patch: ParsedPatch) -> tuple[str, list[str]]:
    """Return the pending proposal that makes the same changes as a patch, and all that are related to its files.

    Nothing is returned if the patch does not fit the disk.

    Args:
        draft: An empty draft over the disk alone; the patch is applied to it.
    """
    with suppress(EditRefused, WorkspaceError, ProposalError, OSError):
        draft.apply_patch(patch)
        wanted = comparable_change_results(make_file_changes(ContentStore(store), draft.changed_paths))
        related = related_pending_proposals(store, draft.changed_paths.keys())
        same = next((each.id for each in related if comparable_change_results(each.files) == wanted), "")
        return same, [each.id for each in related]
    return "", []


def _first_sentence(error: Exception) -> str:
    """Return the reason of a refusal in one sentence, without the advice for a model."""
    first = (error.fact if isinstance(error, EditRefused) else str(error)).splitlines()[0].removesuffix(":")
    return first if first.endswith((".", "?")) else f"{first}."
