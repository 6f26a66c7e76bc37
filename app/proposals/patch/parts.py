"""A parsed patch, file by file."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.proposals.locate.carry_over import EditScriptLine, LineOperation
from app.proposals.values.models import FileOperation


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """A run of kept, removed and inserted lines; the header's numbers are not trusted."""

    lines: tuple[EditScriptLine, ...]
    old_start: int | None = None
    """First line on the old side, from 1 (with no old lines, the line it goes after); None if not said."""
    new_start: int | None = None
    seek: tuple[str, ...] = ()
    """Lines that stand above the hunk in the file, from outer to inner."""
    at_end: bool = False
    """The hunk ends where the file ends."""
    source_line: int = 0
    """Where its header stands in the patch text, from 1."""
    doubt: str = ""
    """What leaves a doubt that it is meant as it was read."""
    unended: bool = False
    """Its last line is inserted and ends with the patch text, without newline: perhaps the line was longer."""
    short: bool = False
    """The patch text ends with it, and it has fewer inserted lines than it states: they were taken out, or, if it is
    at the end of the file, the text may be cut off before them."""
    stated_end: int | None = None
    """Line of the file, from 1, with which it ends by its header, if the patch text ends with it and it has fewer old
    lines than the header states: its lines may be lost, its counts wrong, or the text cut off."""
    unnumbered: bool = False
    """It is of a form without line numbers: a line that it names must be there, and what shows no place is for the
    end of the file."""

    @property
    def old_side(self) -> list[EditScriptLine]:
        """Return the kept and removed lines, which the file must have."""
        return [line for line in self.lines if line.step is not LineOperation.INSERT]

    @property
    def new_side(self) -> list[EditScriptLine]:
        """The kept and inserted lines."""
        return [line for line in self.lines if line.step is not LineOperation.REMOVE]

    @property
    def has_no_context_lines(self) -> bool:
        """Whether it shows no line of the file."""
        return not self.old_side

    @property
    def has_unterminated_inner_line(self) -> bool:
        """Whether a line has no newline although another one follows it on its side."""
        return any(
            LineOperation.KEEP in (line.step, after.step) or after.step is line.step
            for at, line in enumerate(self.lines)
            if line.ending == ""
            for after in self.lines[at + 1 :]
        )

    @property
    def has_changes(self) -> bool:
        """Whether any line is removed or inserted."""
        return any(line.step is not LineOperation.KEEP for line in self.lines)


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The part of a patch for one file. Paths are as written, prefixes removed, not checked to be inside anything."""

    path: str
    """The new path; of a deletion, the old."""
    op: FileOperation
    hunks: tuple[PatchHunk, ...] = ()
    old_path: str = ""
    """Of a rename."""
    old_mode: int | None = None
    """Permission bits, if the patch says."""
    new_mode: int | None = None
    old_blob: str = ""
    """Git's id, perhaps shortened, of the content that the patch was made from."""
    new_blob: str = ""
    """Git's id of the content that it makes."""
    spelled_out: bool = False
    """The patch shows what it deletes, so that a deletion without hunks is of an empty file."""
    left_out: str = ""
    """Why the part can't be made and is passed over, if so."""

    @property
    def is_insert_only(self) -> bool:
        """Whether no hunk names a line of the file: sloppily written creations look so."""
        return bool(self.hunks) and all(hunk.has_no_context_lines for hunk in self.hunks)

    @property
    def added(self) -> int:
        """Lines inserted."""
        return sum(line.step is LineOperation.INSERT for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        """Lines removed."""
        return sum(line.step is LineOperation.REMOVE for hunk in self.hunks for line in hunk.lines)


def created_paths(parts: Iterable[FilePatch]) -> list[str]:
    """Return every path that the parts create, each once."""
    made = [part for part in parts if not part.left_out]
    return list(dict.fromkeys(path for part in made for path in (part.old_path, part.path) if path))


@dataclass(frozen=True, slots=True)
class ParsedPatch:
    """A parsed patch, before any file is read."""

    parts: tuple[FilePatch, ...]

    @property
    def paths(self) -> Sequence[str]:
        """Every path that it touches or is made from; nothing else is read for it."""
        return created_paths(self.parts)


def parse_script_line(line: str, *, terminated: bool = True) -> EditScriptLine:
    """A body line of a unified diff with its mark; a line without mark is an empty context line."""
    mark, text = (line[0], line[1:]) if line and line != "\r" else (" ", line)
    if not terminated:
        return EditScriptLine(LineOperation(mark), text, "")
    if text.endswith("\r"):
        return EditScriptLine(LineOperation(mark), text[:-1], "\r\n")
    return EditScriptLine(LineOperation(mark), text, "\n")


def join_script_lines(lines: Sequence[EditScriptLine]) -> str:
    r"""Return the lines with their endings, `\n` where they have none."""
    return "".join(line.text + ("\n" if line.ending is None else line.ending) for line in lines)


SHORTEST_ID = 7
"""Digits of an id; a shorter one says too little."""


def matches_blob_id_prefix(data: bytes, blob_id: str) -> bool:
    """Whether git's id of the content begins with these hex digits, however few they are."""
    header = b"blob %d\0" % len(data)
    digest = hashlib.sha256 if len(blob_id) > 40 else hashlib.sha1
    return digest(header + data, usedforsecurity=False).hexdigest().startswith(blob_id)


def has_blob_id(data: bytes, blob_id: str) -> bool:
    """Return whether git's id of the content begins with `blob_id`; fewer than 7 digits never match."""
    return len(blob_id) >= SHORTEST_ID and matches_blob_id_prefix(data, blob_id)
