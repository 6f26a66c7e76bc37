"""Reading the `*** Begin Patch` form.

    *** Begin Patch
    *** Update File: PATH          (or Add File, Delete File)
    *** Move to: NEW PATH          (optional)
    @@ LINE ABOVE                  (optional, once or more)
     kept
    -removed
    +inserted
    *** End of File                (optional)
    *** End Patch

It has no numbers and says nothing of line endings. Markers may be padded with spaces. A missing first or last line is
forgiven, unless the text may be cut off, and other text around it too; inside, every line must have a meaning.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.proposals.locate.carry_over import LineOperation, ScriptLine
from app.proposals.patch.parts import FilePatch, PatchHunk
from app.proposals.patch.prose import HunkHeader, begins_file, is_fence, is_list_line, read_hunk_header, skip_blank
from app.proposals.values.models import FileOperation
from app.proposals.values.proposal_errors import MalformedPatch

_SECTION = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_MOVE = "*** Move to: "
_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_OPS = {"Add": FileOperation.CREATE, "Update": FileOperation.EDIT, "Delete": FileOperation.DELETE}


def is_begin_patch(lines: Sequence[str]) -> bool:
    """Return whether the text is of this form, rather than a diff that quotes it.

    Inside it no line begins with `diff --git`; names and a hunk that stand above its first line make it a plain diff.
    """
    if any(line.startswith("diff --git ") for line in lines):
        return False
    for at, line in enumerate(lines):
        if line.strip() == _BEGIN or _SECTION.match(line):
            return True
        if begins_file(lines, at):
            return False
    return False


@dataclass
class _Open:
    """The hunk being read."""

    line: int
    seek: list[str] = field(default_factory=list)
    header: HunkHeader = field(default_factory=HunkHeader)
    lines: list[ScriptLine] = field(default_factory=list)


class BeginPatchScanner:
    """Reads the lines of one patch text from first to last."""

    def __init__(self, lines: Sequence[str], *, whole: bool = True) -> None:
        self._lines = [line.removesuffix("\r") for line in lines]
        self._whole = whole
        self._padded = False
        """Whether a marker with spaces before it stood where it could be nothing else."""
        self.prose: set[int] = set()
        """Lines with a change mark, from 0, that were taken for text around the patch."""

    def scan(self) -> list[FilePatch]:
        """The files of the patch, in order; raises MalformedPatch."""
        files: list[FilePatch] = []
        at = 0
        begun = ended = False
        while at < len(self._lines):
            marker = self._lines[at].strip()
            if section := _SECTION.match(marker):
                self._padded = self._padded or self._lines[at].startswith(" ")
                file, at = self._take_file(_OPS[section[1]], section[2].strip(), at + 1)
                files.append(file)
                ended = False
                continue
            begun = begun or marker == _BEGIN
            ended = ended or marker == _END or (bool(files) and bool(marker))
            self._pass_over(at, bool(files))
            at += 1
        if begun and files and not ended and not self._whole:
            raise MalformedPatch(
                f"The patch breaks off: it has `{_BEGIN}`, but no `{_END}`.", "Give the whole patch."
            )
        return files

    def _pass_over(self, at: int, begun: bool) -> None:
        line = self._lines[at]
        if is_list_line(line):
            self.prose.add(at)
        elif begun and line[:1] in ("+", "-", "@"):
            raise MalformedPatch(f"Line {at + 1}: the change {line[:80]!r} belongs to no file. Nothing was applied.")

    def _take_file(self, op: FileOperation, path: str, at: int) -> tuple[FilePatch, int]:
        if op is FileOperation.DELETE:
            return FilePatch(path, op), at
        if op is FileOperation.CREATE:
            lines, at = self._added(at)
            hunks = (PatchHunk(tuple(lines), source_line=at),) if lines else ()
            return FilePatch(path, op, hunks), at
        old_path = ""
        if at < len(self._lines) and self._lines[at].strip().startswith(_MOVE):
            old_path, path = path, self._lines[at].strip()[len(_MOVE) :].strip()
            at += 1
        found, at = self._hunks(at)
        if not found and not old_path:
            raise MalformedPatch(f"Line {at}: there is no change for {path}.")
        return FilePatch(path, FileOperation.RENAME if old_path else FileOperation.EDIT, tuple(found), old_path), at

    def _ends(self, at: int) -> bool:
        """Whether the part of a file ends before this line."""
        if at >= len(self._lines):
            return True
        line = self._lines[at]
        if line.startswith("*** ") or is_fence(line):
            return True
        marker = line.strip()
        # With spaces before it, a marker could be a line of the file that is kept.
        if marker == _END:
            after = skip_blank(self._lines, at + 1)
            return after == len(self._lines) or not self._lines[after].startswith((" ", "+", "-", "@", "***"))
        return self._padded and bool(_SECTION.match(marker)) and self._begins_part(at + 1)

    def _begins_part(self, at: int) -> bool:
        """Return whether the line can follow the marker of a file and is no context line."""
        after = self._lines[at] if at < len(self._lines) else ""
        return after.startswith(("@@", "+")) or after.strip().startswith("*** ")

    def _added(self, at: int) -> tuple[list[ScriptLine], int]:
        lines: list[ScriptLine] = []
        blank = 0
        while not self._ends(at):
            line = self._lines[at]
            if line.startswith("+"):
                lines += [ScriptLine(LineOperation.INSERT, "")] * blank
                blank = 0
                lines.append(ScriptLine(LineOperation.INSERT, line[1:]))
            elif not line.strip():
                blank += 1
            elif line.strip() == _END or _SECTION.match(line.strip()):
                break
            else:
                raise MalformedPatch(f"Line {at + 1}: every line of an added file begins with `+`: {line[:80]!r}.")
            at += 1
        return lines, at

    def _hunks(self, at: int) -> tuple[list[PatchHunk], int]:
        hunks: list[PatchHunk] = []
        current: _Open | None = None
        while at < len(self._lines):
            line = self._lines[at]
            if line.rstrip() == _END_OF_FILE:
                if current is not None:
                    hunks.append(_closed(current, at_end=True))
                    current = None
            elif self._ends(at):
                break
            elif line.startswith("@@"):
                if current is not None and current.lines:
                    hunks.append(_closed(current))
                    current = None
                current = current or _Open(at + 1)
                current.header = read_hunk_header(line, at)
                if current.header.names:
                    current.seek.append(current.header.names)
            elif not line or line[0] in " +-":
                current = current or _Open(at + 1)
                mark = line[0] if line else " "
                current.lines.append(ScriptLine(LineOperation(mark), line[1:]))
            elif not line.startswith("\\"):
                raise MalformedPatch(
                    f"Line {at + 1}: {line[:80]!r} has no mark. Lines of a hunk begin with a space, `-` or `+`."
                )
            at += 1
        if current is not None and current.lines:
            hunks.append(_closed(current))
        return [hunk for hunk in hunks if hunk.changes], at


def _closed(current: _Open, *, at_end: bool = False) -> PatchHunk:
    lines = current.lines
    while lines and not lines[-1].text and lines[-1].step is LineOperation.KEEP:
        lines.pop()
    return PatchHunk(
        tuple(lines),
        current.header.old_start,
        current.header.new_start,
        tuple(current.seek),
        at_end,
        current.line,
        unnumbered=True,
    )
