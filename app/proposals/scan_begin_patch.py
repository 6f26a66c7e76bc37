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

It has no numbers and says nothing of line endings. A missing first or last line is forgiven, other text around it
too; inside, every line must have a meaning.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.proposals.models import Op
from app.proposals.patch_parts import FilePatch, PatchHunk
from app.proposals.refusals import MalformedPatch
from app.proposals.scan_unified import header_numbers, seek_text
from app.proposals.transplant import ScriptLine, Step

_SECTION = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ")
_OPS = {"Add": Op.CREATE, "Update": Op.EDIT, "Delete": Op.DELETE}


def is_begin_patch(lines: Sequence[str]) -> bool:
    """Whether the text is of this form."""
    return any(line.startswith(_MARKS) or line.rstrip() == "*** Begin Patch" for line in lines)


@dataclass
class _Open:
    """The hunk being read."""

    line: int
    seek: list[str] = field(default_factory=list)
    old_start: int | None = None
    new_start: int | None = None
    lines: list[ScriptLine] = field(default_factory=list)


class BeginPatchScanner:
    """Reads the lines of one patch text from first to last."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = [line.removesuffix("\r") for line in lines]

    def scan(self) -> list[FilePatch]:
        """The files of the patch, in order; raises MalformedPatch."""
        files: list[FilePatch] = []
        at = 0
        while at < len(self._lines):
            section = _SECTION.match(self._lines[at].rstrip())
            if section is None:
                self._check_outside(at, bool(files))
                at += 1
                continue
            file, at = self._take_file(_OPS[section[1]], section[2].strip(), at + 1)
            files.append(file)
        return files

    def _check_outside(self, at: int, begun: bool) -> None:
        line = self._lines[at]
        if begun and line[:1] in ("+", "-", "@") and line.rstrip() not in ("--", "---"):
            raise MalformedPatch(f"Line {at + 1}: the change {line[:80]!r} belongs to no file. Nothing was applied.")

    def _take_file(self, op: Op, path: str, at: int) -> tuple[FilePatch, int]:
        if op is Op.DELETE:
            return FilePatch(path, op), at
        if op is Op.CREATE:
            lines, at = self._added(at)
            hunks = (PatchHunk(tuple(lines), source_line=at),) if lines else ()
            return FilePatch(path, op, hunks), at
        old_path = ""
        if at < len(self._lines) and self._lines[at].startswith("*** Move to: "):
            old_path, path = path, self._lines[at][len("*** Move to: ") :].strip()
            at += 1
        found, at = self._hunks(at)
        if not found and not old_path:
            raise MalformedPatch(f"Line {at}: there is no change for {path}.")
        return FilePatch(path, Op.RENAME if old_path else Op.EDIT, tuple(found), old_path), at

    def _ends(self, at: int) -> bool:
        return at >= len(self._lines) or self._lines[at].startswith(("*** ", "```"))

    def _added(self, at: int) -> tuple[list[ScriptLine], int]:
        lines: list[ScriptLine] = []
        blank = 0
        while not self._ends(at):
            line = self._lines[at]
            if line.startswith("+"):
                lines += [ScriptLine(Step.INSERT, "")] * blank
                blank = 0
                lines.append(ScriptLine(Step.INSERT, line[1:]))
            elif not line.strip():
                blank += 1
            else:
                raise MalformedPatch(f"Line {at + 1}: every line of an added file begins with `+`: {line[:80]!r}.")
            at += 1
        return lines, at

    def _hunks(self, at: int) -> tuple[list[PatchHunk], int]:
        hunks: list[PatchHunk] = []
        current: _Open | None = None
        while at < len(self._lines):
            line = self._lines[at]
            if line.rstrip() == "*** End of File":
                if current is not None:
                    hunks.append(self._closed(current, at_end=True))
                    current = None
            elif self._ends(at):
                break
            elif line.startswith("@@"):
                if current is not None and current.lines:
                    hunks.append(self._closed(current))
                    current = None
                current = current or _Open(at + 1)
                current.old_start, current.new_start = header_numbers(line) or (None, None)
                current.seek += seek_text(line)
            elif not line or line[0] in " +-":
                current = current or _Open(at + 1)
                mark = line[0] if line else " "
                current.lines.append(ScriptLine(Step(mark), line[1:]))
            elif not line.startswith("\\"):
                raise MalformedPatch(
                    f"Line {at + 1}: {line[:80]!r} has no mark. Lines of a hunk begin with a space, `-` or `+`."
                )
            at += 1
        if current is not None and current.lines:
            hunks.append(self._closed(current))
        return [hunk for hunk in hunks if hunk.changes], at

    def _closed(self, current: _Open, *, at_end: bool = False) -> PatchHunk:
        lines = current.lines
        while lines and not lines[-1].text and lines[-1].step is Step.KEEP:
            lines.pop()
        return PatchHunk(
            tuple(lines), current.old_start, current.new_start, tuple(current.seek), at_end, current.line
        )
