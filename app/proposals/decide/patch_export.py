"""Export a proposal: both texts of a file for the review, a git-style unified diff for other programs.

`git apply`, GNU `patch -p1` and unidiff all read the result. Content that is not text for git (a NUL near the start,
UTF-16) becomes a git binary patch, which `git apply` accepts and `patch` ignores.
"""

import base64
import io
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from app.copies import replace
from app.proposals.files.overlay import ContentStore
from app.proposals.patch.diff_header_names import NO_FILE, quote_git_path
from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.text.document import (
    Document,
    decode_surrogateescape,
    display_lines_for_diff,
    encode_surrogateescape,
    split_lines,
)
from app.proposals.text.hunks import has_changed_lines
from app.proposals.values.attention_reason import AttentionReason
from app.proposals.values.models import FileChange, FileDiff, HunkState, Proposal
from app.proposals.values.pending_paths import has_undecided_part
from app.proposals.values.proposal_errors import UnexportablePatch
from app.proposals.values.record_entries import git_blob_id
from app.sandbox.captured_changes import PathChange

if TYPE_CHECKING:
    from unidiff.patch import Hunk, PatchedFile


CONTEXT_LINES = 3

_NO_NEWLINE_NOTE = b"\n\\ No newline at end of file\n"
_REGULAR_FILE_MODE = 0o100000
_LINK_MODE = 0o120000
_BINARY_CHUNK_BYTES = 52


class FileToDiff(Struct, frozen=True):
    """One file to be written as a diff: its paths, modes, and old and new content."""

    path: str
    """The new path; for a deletion, the old path."""
    old: bytes | None
    """None for a creation."""
    new: bytes | None
    """None for a deletion."""
    old_path: str = ""
    """The former path of a renamed file; else empty."""
    old_mode: int = 0o644
    new_mode: int = 0o644
    changes: Sequence[LineChange] | None = None
    """The line changes between `split_lines` of both contents, if they are known already."""


def render_diff(files: Sequence[FileToDiff]) -> bytes:
    """Return one diff of all files, in order. Lines keep their bytes, so the result need not be valid UTF-8."""
    return b"".join(b"".join(_render_file(file)) for file in files)


def _split_type_change(file: FileToDiff) -> Sequence[FileToDiff]:
    """Return the parts of a file's diff: a change between file and link is a deletion and a creation."""
    if file.old is None or file.new is None or stat.S_ISLNK(file.old_mode) == stat.S_ISLNK(file.new_mode):
        return (file,)
    deletion = replace(file, path=file.old_path or file.path, old_path="", new=None, changes=None)
    return deletion, replace(file, old=None, old_path="", changes=None)


def _render_file(file: FileToDiff) -> Iterator[bytes]:
    old_path = file.old_path or file.path
    old, new = file.old or b"", file.new or b""
    old_mode, new_mode = _git_mode(file.old_mode), _git_mode(file.new_mode)
    renamed = bool(file.old_path) and file.old_path != file.path
    headers: list[bytes] = []
    if file.old is None:
        headers.append(b"new file mode %o\n" % new_mode)
    elif file.new is None:
        headers.append(b"deleted file mode %o\n" % old_mode)
    elif old_mode != new_mode:
        headers += [b"old mode %o\n" % old_mode, b"new mode %o\n" % new_mode]
    binary = any(_is_binary(data) for data in (old, new))
    old_lines, new_lines = ([], []) if binary else (split_lines(old), split_lines(new))
    changes = [] if binary else file.changes if file.changes is not None else diff_lines(old_lines, new_lines)
    if renamed:
        headers.append(b"similarity index %d%%\n" % _similarity_percent(old, new, old_lines, changes))
        headers += [b"rename from " + _quote(old_path) + b"\n", b"rename to " + _quote(file.path) + b"\n"]
    content_changes = old != new or file.old is None or file.new is None
    if not headers and not content_changes:
        return
    yield b"diff --git " + _quote(f"a/{old_path}") + b" " + _quote(f"b/{file.path}") + b"\n"
    yield from headers
    if content_changes:
        mode = b" %o" % old_mode if file.old is not None and file.new is not None and old_mode == new_mode else b""
        yield b"index " + _blob_id(file.old) + b".." + _blob_id(file.new) + mode + b"\n"
    if binary and old != new:
        yield from _render_binary(old, new)
    elif changes:
        yield _path_header(b"--- ", NO_FILE if file.old is None else f"a/{old_path}")
        yield _path_header(b"+++ ", NO_FILE if file.new is None else f"b/{file.path}")
        for group in _group_changes(changes):
            yield from _render_hunk(old_lines, new_lines, group)


def has_hunks(file: FileToDiff) -> bool:
    """Return whether the diff of this file has line hunks."""
    return (
        file.old != file.new
        and bool(file.old or file.new)
        and not any(map(_is_binary, (file.old or b"", file.new or b"")))
    )


def _group_changes(changes: Sequence[LineChange]) -> list[list[LineChange]]:
    """Group changes into hunks: changes whose context lines touch share one."""
    groups: list[list[LineChange]] = []
    for change in changes:
        if groups and change.old_start - groups[-1][-1].old_end <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _render_hunk(old: Sequence[bytes], new: Sequence[bytes], group: Sequence[LineChange]) -> Iterator[bytes]:
    before = min(CONTEXT_LINES, group[0].old_start)
    after = min(CONTEXT_LINES, len(old) - group[-1].old_end)
    old_start, old_end = group[0].old_start - before, group[-1].old_end + after
    new_start, new_end = group[0].new_start - before, group[-1].new_end + after
    yield f"@@ -{_hunk_range(old_start, old_end)} +{_hunk_range(new_start, new_end)} @@\n".encode("ascii")
    at = old_start
    for change in group:
        yield from (_diff_line(b" ", line) for line in old[at : change.old_start])
        yield from (_diff_line(b"-", line) for line in old[change.old_start : change.old_end])
        yield from (_diff_line(b"+", line) for line in new[change.new_start : change.new_end])
        at = change.old_end
    yield from (_diff_line(b" ", line) for line in old[at:old_end])


def _hunk_range(start: int, end: int) -> str:
    count = end - start
    if not count:
        return f"{start},0"
    return f"{start + 1}" if count == 1 else f"{start + 1},{count}"


def _diff_line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + _NO_NEWLINE_NOTE


def _quote(path: str) -> bytes:
    return encode_surrogateescape(quote_git_path(path))


def _path_header(mark: bytes, path: str) -> bytes:
    """Return a `---` or `+++` line; a tab after a name with a space keeps readers from finding a timestamp."""
    name = _quote(path)
    return mark + name + (b"\t\n" if b" " in name and not name.startswith(b'"') else b"\n")


def _git_mode(mode: int) -> int:
    if stat.S_ISLNK(mode):
        return _LINK_MODE
    return _REGULAR_FILE_MODE | (0o755 if mode & 0o100 else 0o644)


def _is_binary(data: bytes) -> bool:
    document = Document(data)
    return document.is_binary or document.is_utf16


def _blob_id(data: bytes | None) -> bytes:
    return b"0" * 40 if data is None else git_blob_id(data).encode("ascii")


def _similarity_percent(old: bytes, new: bytes, old_lines: Sequence[bytes], changes: Sequence[LineChange]) -> int:
    if old == new:
        return 100
    removed = sum(len(line) for change in changes for line in old_lines[change.old_start : change.old_end])
    return max(0, 99 * (len(old) - removed) // max(len(old), len(new), 1)) if old_lines else 50


def _render_binary(old: bytes, new: bytes) -> Iterator[bytes]:
    yield b"GIT binary patch\n"
    for data in (new, old):
        yield b"literal %d\n" % len(data)
        packed = zlib.compress(data)
        for at in range(0, len(packed), _BINARY_CHUNK_BYTES):
            chunk = packed[at : at + _BINARY_CHUNK_BYTES]
            size = len(chunk)
            yield bytes([size + 64 if size <= 26 else size - 26 + 96]) + base64.b85encode(chunk, pad=True) + b"\n"
        yield b"\n"


MAX_CHECKED_PATCH_CHARACTERS = 1_000_000
"""Maximum characters of a patch that is read back as a check, in some tenths of a second; a longer one is not."""
_NO_NEWLINE_TYPE = "\\"


def check_patch_roundtrip(text: str, files: Sequence[FileToDiff]) -> None:
    """Raise UnexportablePatch if unidiff, reading `text`, does not get the new content from each old one."""
    if len(text) > MAX_CHECKED_PATCH_CHARACTERS:
        return
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        # As in the contents, only \n ends a line.
        parts = [part for part in PatchSet(io.StringIO(text, newline="\n")) if len(part)]
    except UnidiffParseError as error:
        raise UnexportablePatch(
            f"The patch does not read back ({error}); `show --json` has the same change."
        ) from error
    written = [file for file in files if has_hunks(file)]
    if len(parts) != len(written):
        raise UnexportablePatch(
            f"The patch has {len(written)} files but reads back as {len(parts)}; `show --json` has the same change."
        )
    for file, part in zip(written, parts, strict=True):
        if "".join(_apply_read_file(_text_lines(file.old), part)) != decode_surrogateescape(file.new or b""):
            raise UnexportablePatch(
                f"The patch of {file.path} reads back differently; `show --json` has the same change."
            )


def _text_lines(data: bytes | None) -> list[str]:
    return [decode_surrogateescape(line) for line in split_lines(data or b"")]


def _apply_read_file(old: Sequence[str], part: "PatchedFile") -> Iterator[str]:
    """Yield the lines that a reader of `part` gets; wrong ones where its hunks do not fit."""
    at = 0
    for hunk in part:
        start = hunk.source_start - 1 if hunk.source_length else hunk.source_start
        yield from old[at:start]
        removed, added = _hunk_sides(hunk)
        at = start + len(removed)
        yield from added if removed == old[start:at] else ["\0"]
    yield from old[at:]


def _hunk_sides(hunk: "Hunk") -> tuple[list[str], list[str]]:
    """Return the lines before and after, with endings; `\\ No newline` removes the ending of the line above it."""
    before: list[str] = []
    after: list[str] = []
    last_sides: list[list[str]] = []
    for line in hunk:
        if line.line_type == _NO_NEWLINE_TYPE:
            for side in last_sides:
                side[-1] = side[-1].removesuffix("\n")
            continue
        last_sides = [
            side for side, has_line in ((before, not line.is_added), (after, not line.is_removed)) if has_line
        ]
        for side in last_sides:
            side.append(line.value)
    return before, after


def export_patch(contents: ContentStore, proposal: Proposal) -> str:
    """Return the pending changes as a patch; of a decided proposal the written ones, of a denied one all.

    Bytes that are not UTF-8 become U+DC80..U+DCFF: encode the text with `surrogateescape`.

    Raises:
        UnexportablePatch: another program would read the patch differently.
    """
    files = [part for change in _exported(proposal) for part in _split_type_change(_patch_file(contents, change))]
    text = decode_surrogateescape(render_diff(files))
    check_patch_roundtrip(text, files)
    return text


def exported_path_changes(contents: ContentStore, proposal: Proposal) -> list[PathChange]:
    """Return the changes that `export_patch` covers, by path, with all bytes; a move is a deletion and a creation."""
    changes: list[PathChange] = []
    for change in _exported(proposal):
        before, after = contents.load_file(change.base), contents.load_file(change.result)
        if change.old_path:
            changes.append(PathChange(change.old_path, before, None))
            before = None
        changes.append(PathChange(change.path, before, after))
    return changes


def make_review_diff(contents: ContentStore, change: FileChange, reasons: Iterable[AttentionReason] = ()) -> FileDiff:
    """Return both texts of one file as the review draws them; no lines for a binary file or a link.

    Args:
        reasons: Reasons for attention of the file or the whole proposal; those with the file's path are used.
    """
    own_reasons = tuple(reason for reason in reasons if reason.path == change.path)
    if change.binary or change.involves_link:
        return FileDiff(change=change, old=(), new=(), reasons=own_reasons)
    old, new = Document(contents.get(change.base)), Document(contents.get(change.result))
    old_lines, new_lines = display_lines_for_diff(old, new)
    return FileDiff(
        change=change,
        old=old_lines,
        new=new_lines,
        old_final_newline=old.has_final_newline,
        new_final_newline=new.has_final_newline,
        reasons=own_reasons,
    )


def _exported(proposal: Proposal) -> list[FileChange]:
    if proposal.state.is_pending:
        return [change for change in proposal.files if has_undecided_part(change) and not change.already_applied]
    applied = [change for change in proposal.files if change.state is HunkState.APPLIED]
    return applied or list(proposal.files)


def _patch_file(contents: ContentStore, change: FileChange) -> FileToDiff:
    base, result = change.base, change.result
    return FileToDiff(
        path=change.path,
        old=None if base is None else contents.get(base),
        new=None if result is None else contents.get(result),
        old_path=change.old_path,
        old_mode=base.mode if base else 0o644,
        new_mode=result.mode if result else 0o644,
        changes=_hunk_line_changes(change),
    )


def _hunk_line_changes(change: FileChange) -> list[LineChange] | None:
    """Return the line changes in the hunks of a change; None for a link, which has no hunks."""
    if change.involves_link:
        return None
    return [
        LineChange(hunk.old_start, hunk.old_start + hunk.old_count, hunk.new_start, hunk.new_start + hunk.new_count)
        for hunk in change.hunks
        if has_changed_lines(hunk)
    ]
