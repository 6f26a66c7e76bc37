"""A parsed patch, file by file."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from app.proposals.locate.edit_script import EditScriptLine, LineOperation
from app.proposals.values.models import FileOperation
from app.proposals.values.record_entries import git_blob_id


class PatchHunk(Struct, frozen=True):
    """A hunk of a parsed patch: kept, removed and inserted lines; the numbers of its header are not trusted."""

    lines: tuple[EditScriptLine, ...]
    old_start: int | None = None
    """First line on the old side, from 1 (without old lines, the line before the new ones); None if not stated."""
    new_start: int | None = None
    section_headings: tuple[str, ...] = ()
    """Lines above the hunk in the file that it names, from outer to inner."""
    at_end: bool = False
    """Whether the hunk ends where the file ends."""
    source_line: int = 0
    """Line of its header in the patch text, from 1."""
    doubt: str = ""
    """Why the hunk may have been misread; empty if there is no doubt."""
    may_end_mid_line: bool = False
    """Whether its last line is inserted and ends with the patch text, without newline: the line may be cut off."""
    lacks_inserted_lines: bool = False
    """Whether the patch text ends with it, and it has fewer inserted lines than it states: they were removed, or, if
    it is at the end of the file, the text may be cut off before them."""
    stated_end: int | None = None
    """Its last line in the file, from 1, by its header, if the patch text ends with it and it has fewer old lines
    than the header states: lines may be lost, the counts wrong, or the text cut off."""
    has_no_line_numbers: bool = False
    """Whether its format has no line numbers: a line that it names must exist, and a hunk that shows no place belongs
    at the end of the file."""

    @property
    def old_side(self) -> list[EditScriptLine]:
        """Return the kept and removed lines, which the file must have."""
        return [line for line in self.lines if line.operation is not LineOperation.INSERT]

    @property
    def new_side(self) -> list[EditScriptLine]:
        """Return the kept and inserted lines."""
        return [line for line in self.lines if line.operation is not LineOperation.REMOVE]

    @property
    def has_unterminated_inner_line(self) -> bool:
        """Return whether a line without newline is followed by another one on its side."""
        return any(
            LineOperation.KEEP in (line.operation, after.operation) or after.operation is line.operation
            for at, line in enumerate(self.lines)
            if line.ending == ""
            for after in self.lines[at + 1 :]
        )

    @property
    def has_changes(self) -> bool:
        """Return whether any line is removed or inserted."""
        return any(line.operation is not LineOperation.KEEP for line in self.lines)


class FilePatch(Struct, frozen=True):
    """The part of a patch for one file. Paths are as written, without prefixes, and may lead out of the workspace."""

    path: str
    """The new path; for a deletion, the old path."""
    op: FileOperation
    hunks: tuple[PatchHunk, ...] = ()
    old_path: str = ""
    """The old path of a rename; else empty."""
    old_mode: int | None = None
    """Permission bits, if the patch states them."""
    new_mode: int | None = None
    old_blob: str = ""
    """Git's id, perhaps shortened, of the content before the patch."""
    new_blob: str = ""
    """Git's id of the content after the patch."""
    shows_deleted_lines: bool = False
    """Whether the patch shows the lines that it deletes: then a deletion without hunks is of an empty file."""
    left_out: str = ""
    """Why the part cannot be applied and is skipped; empty if it can."""

    @property
    def is_insert_only(self) -> bool:
        """Return whether no hunk shows a line of the file, as in carelessly written creations."""
        return bool(self.hunks) and not any(hunk.old_side for hunk in self.hunks)

    @property
    def added(self) -> int:
        """Return the number of inserted lines."""
        return sum(line.operation is LineOperation.INSERT for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        """Return the number of removed lines."""
        return sum(line.operation is LineOperation.REMOVE for hunk in self.hunks for line in hunk.lines)


def list_patch_paths(parts: Iterable[FilePatch]) -> list[str]:
    """Return every path, old or new, of the parts that are not skipped, each once."""
    applied = [part for part in parts if not part.left_out]
    return list(dict.fromkeys(path for part in applied for path in (part.old_path, part.path) if path))


class ParsedPatch(Struct, frozen=True):
    """A patch as parsed from its text, file by file, before its hunks are placed."""

    parts: tuple[FilePatch, ...]

    @property
    def paths(self) -> Sequence[str]:
        """Return every path that it changes or reads."""
        return list_patch_paths(self.parts)


def parse_hunk_body_line(line: str, *, ends_with_newline: bool = True) -> EditScriptLine:
    """Parse a body line of a unified diff with its mark; a line without mark is an empty context line."""
    mark, text = (line[0], line[1:]) if line and line != "\r" else (" ", line)
    if not ends_with_newline:
        return EditScriptLine(LineOperation(mark), text, "")
    if text.endswith("\r"):
        return EditScriptLine(LineOperation(mark), text[:-1], "\r\n")
    return EditScriptLine(LineOperation(mark), text, "\n")


MIN_BLOB_ID_DIGITS = 7
"""Minimum digits of an id; a shorter one does not identify a content."""


def matches_blob_id_prefix(data: bytes, blob_id: str) -> bool:
    """Return whether git's id of the content begins with these hex digits, however few they are."""
    return git_blob_id(data, "sha256" if len(blob_id) > 40 else "sha1").startswith(blob_id)


def matches_long_blob_id_prefix(data: bytes, blob_id: str) -> bool:
    """Return whether git's id of the content begins with these hex digits, and they are at least 7."""
    return len(blob_id) >= MIN_BLOB_ID_DIGITS and matches_blob_id_prefix(data, blob_id)
