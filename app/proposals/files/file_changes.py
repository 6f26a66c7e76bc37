"""Compute file changes from a base and a result, and facts about them for the review."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from app.proposals.files.filesystem import LstatResult
from app.proposals.files.overlay import ContentStore
from app.proposals.text.document import MAX_BYTES, Document, decode_surrogateescape
from app.proposals.text.file_warnings import deceptive_text_warnings_and_remarks
from app.proposals.text.hunks import (
    HunksWithLineCounts,
    apply_hunks_to_lines,
    compare_contents,
    set_state_of_pending_hunks,
    split_document_lines,
    update_hunk_positions_after_decision,
)
from app.proposals.values.decision_facts import FileDiffStat
from app.proposals.values.models import EditMatch, FileChange, FileOperation, FileVersion, Hunk, HunkState


def make_file_change(
    contents: ContentStore,
    path: str,
    base: FileVersion | None,
    result: FileVersion | None,
    *,
    old_path: str = "",
    next_number: int = 1,
    matches: Sequence[EditMatch] = (),
    notes: Iterable[str] = (),
) -> FileChange:
    """Return a pending change with all its hunks; `contents` holds both versions."""
    change = FileChange(
        path=path,
        old_path=old_path,
        op=file_operation(old_path, base, result),
        base=base,
        result=result,
        origin_base=base,
        origin_result=result,
        matches=tuple(matches),
        notes=tuple(notes),
    )
    return recompute_hunks_keeping_decided(contents, change, next_number=next_number)


def replace_versions_keeping_hunks(
    change: FileChange, base: FileVersion | None, result: FileVersion | None, old_path: str, **update: object
) -> FileChange:
    """Return the change as the edit from `base` to `result`, with other updated fields; its hunks stay."""
    versions = {"base": base, "result": result, "origin_base": base, "origin_result": result}
    op = file_operation(old_path, base, result)
    return change.model_copy(update={**versions, "old_path": old_path, "op": op, **update})


def recompute_hunks_keeping_decided(
    contents: ContentStore,
    change: FileChange,
    *,
    next_number: int,
    previous: Sequence[Hunk] | None = None,
    state: HunkState = HunkState.PENDING,
) -> FileChange:
    """Return the change with the hunks between its current base and result; decided ones stay as marks.

    Args:
        change: Has a new base or result.
        next_number: Number of the next new hunk.
        previous: Its hunks before, if not those in `change`.
        state: State of the hunks between base and result.
    """
    base, result = contents.get(change.base), contents.get(change.result)
    previous = change.hunks if previous is None else previous
    binary = Document(base).is_binary or Document(result).is_binary
    if binary or change.involves_link:
        compared = HunksWithLineCounts((), 0, 0)
    else:
        compared = compare_contents(
            change.path,
            base,
            result,
            previous=previous,
            next_number=next_number,
            state=state,
            changes=contents.line_changes(change.base, change.result),
        )
    counts = {"added": compared.added, "removed": compared.removed, "binary": binary}
    return _with_hunks(contents, change.model_copy(update=counts), compared.hunks, state)


def decide_hunks(
    contents: ContentStore, change: FileChange, chosen: Collection[str], state: HunkState, *, next_number: int
) -> FileChange:
    """Return the change after some of its pending hunks are decided; the others stay as the user saw them.

    A new comparison could divide equal neighbouring lines into other hunks.

    Args:
        change: Has the base or the result after the decision, and the hunks from before it.
        next_number: Number of the next new hunk.
    """
    hunks = update_hunk_positions_after_decision(change.hunks, chosen, state)
    pending = [hunk for hunk in hunks if hunk.state is HunkState.PENDING]
    base, result = split_document_lines(contents.get(change.base)), split_document_lines(contents.get(change.result))
    if apply_hunks_to_lines(base, result, pending, {hunk.id for hunk in pending}) != list(result):
        # Part of a hunk got a newline, because other lines now follow its last one.
        previous = set_state_of_pending_hunks(change.hunks, state, chosen)
        return recompute_hunks_keeping_decided(contents, change, next_number=next_number, previous=previous)
    counts = {"added": sum(hunk.new_count for hunk in pending), "removed": sum(hunk.old_count for hunk in pending)}
    return _with_hunks(contents, change.model_copy(update=counts), hunks, HunkState.PENDING)


def _with_hunks(contents: ContentStore, change: FileChange, hunks: tuple[Hunk, ...], state: HunkState) -> FileChange:
    """Return the change with these hunks, and with warnings about deceptive text in hunks of this state."""
    found = [hunk for hunk in hunks if hunk.state is state]
    warnings, mentions = deceptive_text_warnings_and_remarks(
        change.path, Document(contents.get(change.result)), found
    )
    return change.model_copy(update={"hunks": hunks, "warnings": warnings, "mentions": mentions})


def next_hunk_number(changes: Iterable[FileChange]) -> int:
    """Return the first free hunk number."""
    return max((hunk.number for change in changes for hunk in change.hunks), default=0) + 1


def count_added_and_removed_lines(
    contents: ContentStore, base: FileVersion | None, result: FileVersion | None
) -> tuple[int, int]:
    """Return how many lines a change adds and removes; 0 in a binary file."""
    versions = [version for version in (base, result) if version is not None]
    if any(version.size > MAX_BYTES or Document(contents.get(version)).is_binary for version in versions):
        return 0, 0
    changes = contents.line_changes(base, result)
    return sum(change.added for change in changes), sum(change.removed for change in changes)


def make_file_diff_stat(
    contents: ContentStore, path: str, base: FileVersion | None, result: FileVersion | None, op: str = ""
) -> FileDiffStat:
    """Return the numbers of lines added and removed; the operation is computed if it is not given."""
    added, removed = count_added_and_removed_lines(contents, base, result)
    return FileDiffStat(path=path, op=op or file_operation("", base, result), added=added, removed=removed)


def describe_file_attributes(base: bytes, result: bytes, mode: int | None) -> list[str]:
    """Return facts about a file for the review: endings, encoding, permissions."""
    old, new = Document(base), Document(result)
    notes: list[str] = []
    if base and result and not old.is_binary and not new.is_binary:
        if old.has_mixed_eol:
            notes.append("mixed line endings, kept line by line")
        elif old.eol_counts["\r\n"] and new.eol == "\r\n":
            notes.append("CRLF line endings kept")
        if old.encoding == "bytes":
            notes.append("not valid UTF-8; other bytes are kept as they are")
        elif old.encoding != "utf-8":
            notes.append(f"{'UTF-8 with a byte order mark' if old.encoding == 'utf-8-sig' else old.encoding.upper()}")
        if old.has_final_newline and not new.has_final_newline:
            notes.append("the newline at the end is removed")
    if mode is not None and not mode & 0o200:
        notes.append("read-only; stays read-only")
    return notes


def describe_replacement_losses(node: LstatResult, change: FileChange, *, on_disk: bool) -> Iterator[str]:
    """Yield what is lost of the file at `node` when a decision replaces it by a new file: other names, the owner."""
    if node.links > 1 and not on_disk:
        yield f"has {node.links} names (hard links); the others keep the old text"
    is_replaced = (change.base if on_disk else change.result) is not None
    if is_replaced and (owner := node.foreign_owner):
        yield f"belonged to {owner} when staged; {'a denial' if on_disk else 'an approval'} makes it yours"


def describe_link_change(contents: ContentStore, base: FileVersion | None, result: FileVersion | None) -> list[str]:
    """Return descriptions of the former and the present target of a symbolic link."""
    return [
        f"{verb} {decode_surrogateescape(contents.get(version))}"
        for verb, version in (("led to", base), ("leads to", result))
        if version is not None and version.is_link
    ]


def file_operation(old_path: str, base: FileVersion | None, result: FileVersion | None) -> FileOperation:
    """Return the operation that leads from one version to another."""
    if base is None:
        return FileOperation.CREATE
    if result is None:
        return FileOperation.DELETE
    if old_path:
        return FileOperation.RENAME
    if base.sha256 != result.sha256 or base.is_link != result.is_link:
        return FileOperation.EDIT
    return FileOperation.MODE if base.mode != result.mode else FileOperation.EDIT
