"""Turn a patch over any number of files into edits of a draft."""

import errno
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct, field

from app.copies import replace
from app.proposals.files.filesystem import default_file_mode
from app.proposals.files.overlay import OverlayFile
from app.proposals.locate.edit_script import EditScriptLine, LineOperation
from app.proposals.patch.hunk_placement import apply_file_patch
from app.proposals.patch.parsed_patch import FilePatch, PatchHunk
from app.proposals.patch.prose import (
    HunkHeader,
    can_be_prose_list_line,
    is_code_fence,
    is_file_header_with_hunk,
    is_mail_signature,
    parse_hunk_header,
    skip_blank_lines,
)
from app.proposals.patch.unified_diff_parser import UnifiedDiffParser
from app.proposals.text.document import MAX_BYTES, MAX_COMPARED_LINES, Document, decode_surrogateescape
from app.proposals.values.decision_facts import FileDiffStat
from app.proposals.values.models import EditMatch, EditReport, FileOperation, excluded_binary_files_note
from app.proposals.values.pending_paths import parent_folders
from app.proposals.values.proposal_errors import (
    AlreadyApplied,
    EditRefused,
    MalformedPatch,
    NotEditable,
    UnsupportedPatch,
)

MAX_CHARACTERS = 64 * 1024 * 1024
"""Maximum characters of a patch text."""
MAX_PATCH_LINES = 2 * MAX_COMPARED_LINES
"""Maximum lines of a patch: enough to replace each line of the longest file that is compared."""

NO_PATCH = "This is not a patch: it has neither `--- a/PATH` and `+++ b/PATH` lines nor `*** Begin Patch`."
_ANY_HEADER = re.compile(r"^[^\w\n]*(?:diff |---|\+\+\+|@@|\*\*\*)", re.MULTILINE)
"""Any patch has one of these headers; a text without one is refused before it is parsed."""
_COLOURED_HEADER = re.compile(r"^(?:\x1b\[[\d;]*m)+(?:diff |--- |@@ )", re.MULTILINE)
_CONTEXT_DIFF_RANGE = re.compile(r"^\*\*\* \d+(?:,\d+)? \*\*\*\*")
_BEGIN_PATCH_MARKER = re.compile(r"^\s*\*\*\* (?:Begin Patch|(?:Add|Update|Delete) File: )")
_HEADER_STARTS = ("diff --git ", "--- ", "+++ ", "@@", "*** ")


def parse_patch_text(text: str | bytes, *, is_complete: bool = True) -> list[FilePatch]:
    """Parse a patch, without reading any file; paths stay as written.

    Args:
        text: The patch; bytes that are not UTF-8 are preserved. Prose and code fences around it are skipped.
        is_complete: Whether the text is certainly complete, as the argument of a tool is; the input of a pipe may
            be cut off.

    Returns:
        Its files in order; one file may occur twice, as in a series of commits.

    Raises:
        MalformedPatch: Part of it is missing or cannot be parsed, or a change mark is outside every hunk.
        UnsupportedPatch: It has a binary, combined, symlink, submodule or copy part.
    """
    if isinstance(text, bytes):
        text = decode_surrogateescape(text)
    if len(text) > MAX_CHARACTERS:
        raise UnsupportedPatch(f"The patch has {len(text):,} characters; the maximum is {MAX_CHARACTERS:,}.")
    if (count := text.count("\n")) > MAX_PATCH_LINES:
        raise UnsupportedPatch(f"The patch has {count:,} lines; the maximum is {MAX_PATCH_LINES:,}.")
    if _COLOURED_HEADER.search(text):
        raise MalformedPatch("The patch has a terminal's colours in it. Make it without: `git diff --no-color`.")
    if not _ANY_HEADER.search(text):
        raise MalformedPatch(NO_PATCH)
    lines = text.removeprefix("\ufeff").split("\n")
    open_end = bool(lines[-1])
    if not open_end:
        lines.pop()
    lines = _without_carriage_returns(lines)
    if is_begin_patch_format(lines):
        begin_patch_parser = BeginPatchParser(lines, is_complete=is_complete)
        files = begin_patch_parser.parse()
        check_all_changes_parsed(files, _blank_lines(lines, begin_patch_parser.prose_lines), 0)
        return files
    if any(_CONTEXT_DIFF_RANGE.match(line) for line in lines):
        raise UnsupportedPatch("This is a context diff. Make a unified diff (`diff -u`, `git diff`).")
    unified_parser = UnifiedDiffParser(lines, is_complete=is_complete, open_end=open_end)
    files = unified_parser.parse()
    check_all_changes_parsed(files, _blank_lines(lines, unified_parser.prose_lines), unified_parser.header_pairs)
    if files and all(file.left_out for file in files):
        names = ", ".join(file.path for file in files[:5])
        raise UnsupportedPatch(f"The patch has nothing but {names}: {files[0].left_out}.")
    return files


def _blank_lines(lines: Sequence[str], prose_lines: Collection[int]) -> list[str]:
    """Return the lines; those that a scanner took for text around the patch are blank."""
    return ["" if at in prose_lines else line for at, line in enumerate(lines)]


def _without_carriage_returns(lines: list[str]) -> list[str]:
    """Return the lines without CRLF endings if all headers have them, so that the whole text was converted."""
    headers = [line for line in lines if line.startswith(_HEADER_STARTS)]
    if headers and all(line.endswith("\r") for line in headers):
        return [line.removesuffix("\r") for line in lines]
    return lines


def check_all_changes_parsed(files: Sequence[FilePatch], lines: Sequence[str], header_pair_count: int) -> None:
    """Check independently of the scanners that no changed line of the text is missing in the parsed patch.

    Args:
        header_pair_count: Number of `---` lines with their `+++` lines that are headers.

    Raises:
        MalformedPatch: a line is missing, or there is no file.
    """
    if not files:
        raise MalformedPatch(NO_PATCH)
    marked = list(_marked_lines(lines))
    for mark, parsed in (("-", sum(file.removed for file in files)), ("+", sum(file.added for file in files))):
        written = sum(line[0] == mark for line in marked) - header_pair_count
        if parsed < written:
            raise MalformedPatch(
                f"Of {written} lines that begin with `{mark}` only {parsed} belong to a hunk. Nothing was applied."
            )


def _marked_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield every line with a change mark from the first file on, without the prose between the commits of a
    series.
    """
    inside = False
    in_sections = is_begin_patch_format(lines)
    for at, line in enumerate(lines):
        if (
            line.startswith("diff --git ")
            or (in_sections and _BEGIN_PATCH_MARKER.match(line))
            or is_file_header_with_hunk(lines, at)
        ):
            inside = True
        elif line.startswith(("From ", "commit ")) or is_mail_signature(lines, at):
            inside = False
        if inside and line[:1] in ("+", "-"):
            yield line


_MAX_REPORTED_FILES = 20
"""Maximum number of files that a report lists."""


class PatchTarget(Protocol):
    """The files that a patch is applied to: those of a draft."""

    def read(self, path: str) -> OverlayFile:
        """Return the present file; its content is None if it does not exist."""
        ...

    def read_bytes_and_mode(self, path: str, limit: int | None = None) -> tuple[bytes, int] | None:
        """Return the bytes and permission bits of a file; None if there is none.

        Raises:
            OSError: the file cannot be read; EFBIG, before it is read, if it has more than `limit` bytes.
        """
        ...

    def prefetch(self, paths: Collection[str]) -> None:
        """Read the pending changes of these paths at once."""
        ...

    def delete(self, path: str, matches: Sequence[EditMatch] = ()) -> EditReport:
        """Delete a file; `matches` say how its part of the patch was read."""
        ...

    def rename(self, path: str, new_path: str) -> EditReport:
        """Move a file to a path where there is no file."""
        ...

    def set_content(
        self, path: str, data: bytes, matches: Sequence[EditMatch], mode: int | None = None
    ) -> EditReport:
        """Set the content of a file, new or not."""
        ...


def parse_workspace_patch(
    draft: PatchTarget, text: str, workspace_in_repository: str = "", *, is_complete: bool = True
) -> Sequence[FilePatch]:
    """Return the parts of a patch with paths relative to the workspace, in the order in which they are applied.

    Args:
        workspace_in_repository: Path of the workspace in its repository; empty for the top. Paths may begin with it.
        is_complete: Whether the text is certainly complete.

    Raises:
        EditRefused: it is not a patch that can be applied.
        UnsafePath: a part names a path that no tool may touch.
    """
    return _order_for_application(
        _relative_to_workspace(parse_patch_text(text, is_complete=is_complete), workspace_in_repository, draft)
    )


def apply_patch(draft: PatchTarget, parts: Sequence[FilePatch]) -> EditReport:
    """Apply every part of a patch to the draft, in order; after an error the draft is half-edited.

    Files that exchange their names (each is renamed to the other's path) are treated as in git: all names are those
    before the patch. A file may become a folder and a folder a file.

    Raises:
        EditRefused: a part cannot be applied.
        UnsafePath: a part names a path that no tool may touch.
    """
    left_out = [part for part in parts if part.left_out]
    parts = [part for part in parts if not part.left_out]
    draft.prefetch([path for part in parts for path in (part.path, part.old_path) if path])
    deferred: list[tuple[str, bytes, Sequence[EditMatch], int]] = []
    reports: list[EditReport] = []
    rename_index_by_old_path = {
        part.old_path: index for index, part in enumerate(parts) if part.op is FileOperation.RENAME
    }
    for index, part in enumerate(parts):
        if part.op is FileOperation.RENAME and rename_index_by_old_path.get(part.path, -1) > index:
            data, mode = _read_content(draft, part.old_path)
            after, matches = apply_file_patch(Document(data), part)
            draft.delete(part.old_path)
            deferred.append((part.path, after, matches, _mode_after_patch(part, mode)))
        else:
            reports += _apply_part(draft, part)
    reports += [draft.set_content(*arguments) for arguments in deferred]
    return _join_reports(reports, left_out)


def _relative_to_workspace(parts: Sequence[FilePatch], folder: str, draft: PatchTarget) -> Sequence[FilePatch]:
    """Return the parts with paths relative to the workspace, if all of them are relative to the top of its
    repository.
    """
    prefix = f"{folder}/"
    paths = [path for part in parts for path in (part.path, part.old_path) if path]
    if not folder or not all(path.startswith(prefix) for path in paths):
        return parts
    if any(draft.read_bytes_and_mode(path) is not None for path in paths):
        return parts
    return [
        replace(part, path=part.path.removeprefix(prefix), old_path=part.old_path.removeprefix(prefix))
        for part in parts
    ]


def _order_for_application(parts: Sequence[FilePatch]) -> Sequence[FilePatch]:
    """Return the parts in an order in which a file may become a folder, and a folder a file.

    Of files that are named once, deletions come first, then renames of files that are in the way of others.
    """
    path_counts = Counter(path for part in parts for path in (part.path, part.old_path) if path)
    folders = {folder for path in path_counts for folder in parent_folders(path)}

    def rank(part: FilePatch) -> int:
        if part.op is FileOperation.DELETE and path_counts[part.path] == 1:
            return 0
        is_in_the_way = part.old_path in folders or any(
            folder in path_counts for folder in parent_folders(part.old_path)
        )
        return 1 if part.op is FileOperation.RENAME and path_counts[part.old_path] == 1 and is_in_the_way else 2

    return sorted(parts, key=rank)


def _apply_part(draft: PatchTarget, part: FilePatch) -> Iterable[EditReport]:
    match part.op:
        case FileOperation.CREATE:
            return [_create_file(draft, part)]
        case FileOperation.DELETE:
            data, _ = _read_content(draft, part.path)
            _, matches = apply_file_patch(Document(data), part)
            return [draft.delete(part.path, matches)]
        case FileOperation.RENAME:
            return _rename_file(draft, part)
        case _:
            if part.is_insert_only and draft.read(part.path).content is None:
                return [_create_file(draft, part)]
            data, mode = _read_content(draft, part.path, MAX_BYTES if part.hunks else None)
            after, matches = apply_file_patch(Document(data), part)
            new_mode = _mode_after_patch(part, mode)
            if after == data and new_mode == mode:
                raise MalformedPatch(f"The part for {part.path} changes nothing.")
            return [draft.set_content(part.path, after, matches, new_mode)]


def _create_file(draft: PatchTarget, part: FilePatch) -> EditReport:
    if draft.read(part.path).content is not None:
        raise AlreadyApplied(
            f"The patch creates {part.path}, but the file exists.", "Make a patch against what is there."
        )
    as_new = FilePatch(part.path, FileOperation.CREATE, part.hunks, new_mode=part.new_mode)
    after, matches = apply_file_patch(Document(b""), as_new)
    return draft.set_content(part.path, after, matches, _mode_after_patch(part, default_file_mode()))


def _rename_file(draft: PatchTarget, part: FilePatch) -> Iterable[EditReport]:
    data, mode = _read_content(draft, part.old_path)
    after, matches = apply_file_patch(Document(data), part)
    yield draft.rename(part.old_path, part.path)
    new_mode = _mode_after_patch(part, mode)
    if after != data or new_mode != mode:
        yield draft.set_content(part.path, after, matches, new_mode)


def _read_content(draft: PatchTarget, path: str, limit: int | None = None) -> tuple[bytes, int]:
    """Return the bytes, at most `limit`, and the permission bits of a file that the patch changes."""
    try:
        content = draft.read_bytes_and_mode(path, limit)
    except OSError as error:
        if limit is not None and error.errno == errno.EFBIG:
            raise NotEditable(f"{path} is too large: files over {limit:,} bytes are not edited.") from error
        raise
    if content is None:
        raise EditRefused(f"The patch changes {path}, but there is no such file. Is it made for another folder?")
    return content


def _mode_after_patch(part: FilePatch, mode: int) -> int:
    """Return the permission bits after the patch; git only distinguishes whether the file is executable."""
    if part.new_mode is None:
        return mode
    executable_bits = (mode & 0o444) >> 2
    return mode | executable_bits if part.new_mode & 0o100 else mode & ~0o111


def _join_reports(reports: Sequence[EditReport], left_out: Sequence[FilePatch]) -> EditReport:
    """Return one report for all; a file with several reports is counted once."""
    stats: dict[str, FileDiffStat] = {}
    for stat in (stat for report in reports for stat in report.files):
        if earlier := stats.get(stat.path):
            stat = FileDiffStat(
                path=stat.path,
                op=earlier.op if earlier.op != FileOperation.EDIT else stat.op,
                added=earlier.added + stat.added,
                removed=earlier.removed + stat.removed,
            )
        stats[stat.path] = stat
    texts = [f"{part.path} was left out: {part.left_out}" for part in left_out[:_MAX_REPORTED_FILES]]
    if len(left_out) > _MAX_REPORTED_FILES:
        texts.append(f"and {len(left_out) - _MAX_REPORTED_FILES} more were left out")
    texts += [report.text for report in reports[:_MAX_REPORTED_FILES]]
    if len(reports) > _MAX_REPORTED_FILES:
        texts.append(f"and {len(reports) - _MAX_REPORTED_FILES} more")
    added, removed = (sum(getattr(stat, side) for stat in stats.values()) for side in ("added", "removed"))
    name = next(iter(stats)) if len(stats) == 1 else f"{len(stats)} files"
    skipped_paths = tuple(part.path for part in left_out)
    return EditReport(
        tuple(stats.values()),
        "\n".join(texts),
        f"{name} +{added} -{removed}{excluded_binary_files_note(skipped_paths)}",
        skipped_paths,
    )


_FILE_MARKER = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_MOVE_MARKER = "*** Move to: "
_BEGIN_MARKER, _END_MARKER, _END_OF_FILE_MARKER = "*** Begin Patch", "*** End Patch", "*** End of File"
_OPERATIONS = {"Add": FileOperation.CREATE, "Update": FileOperation.EDIT, "Delete": FileOperation.DELETE}


def is_begin_patch_format(lines: Sequence[str]) -> bool:
    """Return whether the text has the format of `*** Begin Patch`, rather than being a diff that quotes it.

    A line that begins with `diff --git`, or names and a hunk above the first marker, make it a plain diff.
    """
    if any(line.startswith("diff --git ") for line in lines):
        return False
    for at, line in enumerate(lines):
        if line.strip() == _BEGIN_MARKER or _FILE_MARKER.match(line):
            return True
        if is_file_header_with_hunk(lines, at):
            return False
    return False


class _OpenHunk(Struct):
    """The hunk being read."""

    line: int
    section_headings: list[str] = field(default_factory=list)
    header: HunkHeader = field(default_factory=HunkHeader)
    lines: list[EditScriptLine] = field(default_factory=list)


class BeginPatchParser:
    """Parser of a patch in the format of `*** Begin Patch`.

    The format::

        *** Begin Patch
        *** Update File: PATH          (or Add File, Delete File)
        *** Move to: NEW PATH          (optional)
        @@ LINE ABOVE                  (optional, once or more)
         kept
        -removed
        +inserted
        *** End of File                (optional)
        *** End Patch

    It has no line numbers and no line endings. Markers may be padded with spaces. A missing first or last line is
    accepted, unless the text may be cut off; other text around the patch is skipped. Inside, every line must have a
    meaning.
    """

    def __init__(self, lines: Sequence[str], *, is_complete: bool = True) -> None:
        self._lines = [line.removesuffix("\r") for line in lines]
        self._is_complete = is_complete
        self._has_padded_markers = False
        """Whether a marker with spaces before it was found where it cannot be anything else."""
        self.prose_lines: set[int] = set()
        """Lines with a change mark, from 0, that were taken for text around the patch."""

    def parse(self) -> list[FilePatch]:
        """Return the files of the patch, in order; raises MalformedPatch."""
        files: list[FilePatch] = []
        at = 0
        has_begin = has_end = False
        while at < len(self._lines):
            marker = self._lines[at].strip()
            if section := _FILE_MARKER.match(marker):
                self._has_padded_markers = self._has_padded_markers or self._lines[at].startswith(" ")
                file, at = self._parse_file(_OPERATIONS[section[1]], section[2].strip(), at + 1)
                files.append(file)
                has_end = False
                continue
            has_begin = has_begin or marker == _BEGIN_MARKER
            has_end = has_end or marker == _END_MARKER or (bool(files) and bool(marker))
            self._skip_line(at, bool(files))
            at += 1
        if has_begin and files and not has_end and not self._is_complete:
            raise MalformedPatch(
                f"The patch is incomplete: it has `{_BEGIN_MARKER}`, but no `{_END_MARKER}`.", "Give the whole patch."
            )
        return files

    def _skip_line(self, at: int, has_files: bool) -> None:
        line = self._lines[at]
        if can_be_prose_list_line(line):
            self.prose_lines.add(at)
        elif has_files and line[:1] in ("+", "-", "@"):
            raise MalformedPatch(f"Line {at + 1}: the change {line[:80]!r} belongs to no file. Nothing was applied.")

    def _parse_file(self, op: FileOperation, path: str, at: int) -> tuple[FilePatch, int]:
        if op is FileOperation.DELETE:
            return FilePatch(path, op), at
        if op is FileOperation.CREATE:
            lines, at = self._parse_added_lines(at)
            return FilePatch(path, op, (PatchHunk(tuple(lines), source_line=at),) if lines else ()), at
        old_path = ""
        if at < len(self._lines) and self._lines[at].strip().startswith(_MOVE_MARKER):
            old_path, path = path, self._lines[at].strip()[len(_MOVE_MARKER) :].strip()
            at += 1
        hunks, at = self._parse_hunks(at)
        if not hunks and not old_path:
            raise MalformedPatch(f"Line {at}: there is no change for {path}.")
        return FilePatch(path, FileOperation.RENAME if old_path else FileOperation.EDIT, tuple(hunks), old_path), at

    def _is_file_part_end(self, at: int) -> bool:
        """Return whether the part of a file ends before this line."""
        if at >= len(self._lines):
            return True
        line = self._lines[at]
        if line.startswith("*** ") or is_code_fence(line):
            return True
        marker = line.strip()
        # With spaces before it, a marker could be a kept line of the file.
        if marker == _END_MARKER:
            after = skip_blank_lines(self._lines, at + 1)
            return after == len(self._lines) or not self._lines[after].startswith((" ", "+", "-", "@", "***"))
        return self._has_padded_markers and bool(_FILE_MARKER.match(marker)) and self._can_begin_file_part(at + 1)

    def _can_begin_file_part(self, at: int) -> bool:
        """Return whether the line can follow the marker of a file and is not a context line."""
        after = self._lines[at] if at < len(self._lines) else ""
        return after.startswith(("@@", "+")) or after.strip().startswith("*** ")

    def _parse_added_lines(self, at: int) -> tuple[list[EditScriptLine], int]:
        lines: list[EditScriptLine] = []
        blank_count = 0
        while not self._is_file_part_end(at):
            line = self._lines[at]
            if line.startswith("+"):
                lines += [EditScriptLine(LineOperation.INSERT, "")] * blank_count
                blank_count = 0
                lines.append(EditScriptLine(LineOperation.INSERT, line[1:]))
            elif not line.strip():
                blank_count += 1
            elif line.strip() == _END_MARKER or _FILE_MARKER.match(line.strip()):
                break
            else:
                raise MalformedPatch(f"Line {at + 1}: every line of an added file begins with `+`: {line[:80]!r}.")
            at += 1
        return lines, at

    def _parse_hunks(self, at: int) -> tuple[list[PatchHunk], int]:
        hunks: list[PatchHunk] = []
        current: _OpenHunk | None = None
        while at < len(self._lines):
            line = self._lines[at]
            if line.rstrip() == _END_OF_FILE_MARKER:
                if current is not None:
                    hunks.append(_build_hunk(current, at_end=True))
                    current = None
            elif self._is_file_part_end(at):
                break
            elif line.startswith("@@"):
                if current is not None and current.lines:
                    hunks.append(_build_hunk(current))
                    current = None
                current = current or _OpenHunk(at + 1)
                current.header = parse_hunk_header(line, at)
                if current.header.section_heading:
                    current.section_headings.append(current.header.section_heading)
            elif not line or line[0] in " +-":
                current = current or _OpenHunk(at + 1)
                mark = line[0] if line else " "
                current.lines.append(EditScriptLine(LineOperation(mark), line[1:]))
            elif not line.startswith("\\"):
                raise MalformedPatch(
                    f"Line {at + 1}: {line[:80]!r} has no mark. Lines of a hunk begin with a space, `-` or `+`."
                )
            at += 1
        if current is not None and current.lines:
            hunks.append(_build_hunk(current))
        return [hunk for hunk in hunks if hunk.has_changes], at


def _build_hunk(open_hunk: _OpenHunk, *, at_end: bool = False) -> PatchHunk:
    lines = open_hunk.lines
    while lines and not lines[-1].text and lines[-1].operation is LineOperation.KEEP:
        lines.pop()
    return PatchHunk(
        tuple(lines),
        open_hunk.header.old_start,
        open_hunk.header.new_start,
        tuple(open_hunk.section_headings),
        at_end,
        open_hunk.line,
        has_no_line_numbers=True,
    )
