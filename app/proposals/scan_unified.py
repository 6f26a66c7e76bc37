"""Reading unified diffs, also sloppy ones, by what their bodies hold.

The counts in hunk headers are hints: a body is taken by its counts only if it then ends where a body can end;
otherwise it is taken as far as its lines look like one. A line with a change mark that belongs to no hunk is never
passed over.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.proposals.models import Op
from app.proposals.patch_names import NO_FILE, git_header_names, header_name, plain_names
from app.proposals.patch_parts import FilePatch, PatchHunk, script_line
from app.proposals.refusals import MalformedPatch, UnsupportedPatch
from app.proposals.transplant import ScriptLine

_NUMBERS = re.compile(r"^@@+ *-(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? *@@+ ?(.*)$")
_PLACEHOLDER = re.compile(r"^[-+.,\s\dxXyYnNaAbB…?]*$|^-.*\+.*$")
_INDEX = re.compile(r"^index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d+))?")
_SIGNATURE_FOLLOWER = re.compile(r"^\d+(\.\w+)+")
_NEW_SECTION = ("diff ", "Index: ", "Only in ", "commit ", "From ", "=======", "```", "~~~")
_EXTENDED = ("similarity index ", "dissimilarity index ")


@dataclass
class _Part:
    """One file of the patch while it is being read."""

    line: int
    git_names: tuple[str, str] | None = None
    git_text: str = ""
    old_name: str = ""
    new_name: str = ""
    rename: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    old_blob: str = ""
    hunks: list[PatchHunk] = field(default_factory=list)

    @property
    def named(self) -> bool:
        return bool(self.old_name or self.new_name)


class UnifiedScanner:
    """Reads the lines of one patch text from first to last."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._parts: list[_Part] = []
        self._part: _Part | None = None
        self._in_changes = False
        """Whether a change mark on a line outside any hunk would be a lost change."""
        self.header_pairs = 0
        """How many `---` lines with their `+++` lines were taken as headers."""

    def scan(self) -> list[FilePatch]:
        """The files of the patch, in order; raises MalformedPatch and UnsupportedPatch."""
        at = 0
        while at < len(self._lines):
            at = self._take(at)
        return [_finished(part) for part in self._parts]

    def _take(self, at: int) -> int:
        """Take what begins at a line, return where the next thing begins."""
        line = self._lines[at]
        if line.startswith(("diff --cc ", "diff --combined ", "@@@ ")):
            raise UnsupportedPatch(
                f"Line {at + 1}: this is the combined diff of a merge, which says no single change. "
                "Make it against one parent (`git diff PARENT`)."
            )
        if line.startswith("diff --git "):
            self._begin(at, git_text=line[11:])
            return at + 1
        if self._is_file_header(at):
            return self._take_names(at)
        if line.startswith("@@"):
            return self._take_hunk(at, at + 1)
        if self._part is not None and not self._part.hunks and self._take_extended(self._part, line, at):
            return at + 1
        if line.startswith(_NEW_SECTION) or self._is_signature(at):
            self._in_changes = False
            if not line.startswith(("```", "~~~")):
                self._part = None
            return at + 1
        if line[:1] in ("+", "-") and self._in_changes:
            self._refuse_loose(at)
        return at + 1

    def _begin(self, at: int, git_text: str = "") -> _Part:
        part = _Part(at + 1, git_names=git_header_names(git_text) if git_text else None, git_text=git_text)
        self._parts.append(part)
        self._part = part
        self._in_changes = False
        return part

    def _take_names(self, at: int) -> int:
        part = self._part
        if part is None or part.named or part.hunks:
            part = self._begin(at)
        old_line, new_line = self._lines[at], self._lines[at + 1]
        self.header_pairs += 1
        part.old_name, part.new_name = header_name(old_line[4:]), header_name(new_line[4:])
        self._in_changes = True
        after = at + 2
        if after < len(self._lines) and self._lines[after][:1] in ("+", "-", " ") and not self._is_file_header(after):
            return self._take_hunk(at + 1, after)
        return after

    def _is_file_header(self, at: int) -> bool:
        """Whether a `---` line with its `+++` line begins a file, rather than being two changed lines of a body."""
        return (
            self._lines[at].startswith("--- ")
            and at + 1 < len(self._lines)
            and self._lines[at + 1].startswith("+++ ")
        )

    def _names_one_file(self, at: int) -> bool:
        old, new = header_name(self._lines[at][4:]), header_name(self._lines[at + 1][4:])
        old, new = plain_names(old, new, None)
        return old == new or NO_FILE in (old, new)

    def _is_signature(self, at: int) -> bool:
        """Whether the line is the `-- ` above git's version at the end of a mail."""
        if self._lines[at].rstrip("\r") not in ("-- ", "--"):
            return False
        after = self._lines[at + 1] if at + 1 < len(self._lines) else ""
        return not after or bool(_SIGNATURE_FOLLOWER.match(after))

    def _take_extended(self, part: _Part, line: str, at: int) -> bool:
        """Take one of git's extended header lines."""
        line = line.rstrip("\r")
        for words in ("old mode ", "new mode ", "new file mode ", "deleted file mode "):
            if line.startswith(words):
                part.modes[words.strip()] = _mode(line[len(words) :], at)
                return True
        for words in ("rename from ", "rename to "):
            if line.startswith(words):
                part.rename[words.strip()] = header_name(line[len(words) :])
                return True
        if index := _INDEX.match(line):
            part.old_blob = index[1]
            if index[3]:
                _mode(index[3], at)
            return True
        if line.startswith(("copy from ", "copy to ")):
            raise UnsupportedPatch(f"Line {at + 1}: copies are not taken. Make the diff without -C.")
        if line.startswith(("Binary files ", "Binary file ", "GIT binary patch")):
            names = plain_names(*part.git_names, part.git_names) if part.git_names else ("", part.new_name)
            name = names[1]
            raise UnsupportedPatch(
                f"Line {at + 1}: the part for {name or 'this file'} is binary, which is not taken."
            )
        return line.startswith(_EXTENDED)

    def _take_hunk(self, header: int, body: int) -> int:
        part = self._part
        if part is None or not (part.named or part.git_names):
            raise MalformedPatch(
                f"Line {header + 1}: a hunk without a file. Put `--- a/PATH` and `+++ b/PATH` lines before it."
            )
        numbers = _NUMBERS.match(self._lines[header].rstrip("\r"))
        end = None
        if numbers:
            counts = [int(numbers[group]) if numbers[group] is not None else 1 for group in (2, 4)]
            end = self._counted_end(body, *counts)
        if end is None:
            end = self._visible_end(body)
        lines = self._body(body, end)
        hunk = PatchHunk(
            lines,
            old_start=int(numbers[1]) if numbers else None,
            new_start=int(numbers[3]) if numbers else None,
            seek=tuple(seek_text(self._lines[header])) if self._lines[header].startswith("@@") else (),
            source_line=header + 1,
        )
        if hunk.changes:
            part.hunks.append(hunk)
        elif any(line.strip() for line in self._lines[body:end]) and not lines:
            raise MalformedPatch(f"Line {header + 1}: a hunk without lines.")
        self._in_changes = True
        return end

    def _counted_end(self, at: int, old: int, new: int) -> int | None:
        """Where the body ends by its counts, or None if they don't lead to a place where a body can end."""
        while old > 0 or new > 0:
            if at >= len(self._lines) or (self._is_file_header(at) and self._names_one_file(at)):
                return None
            match self._lines[at][:1]:
                case " " | "":
                    old, new = old - 1, new - 1
                case "\r" if self._lines[at] == "\r":
                    old, new = old - 1, new - 1
                case "-":
                    old -= 1
                case "+":
                    new -= 1
                case "\\":
                    pass
                case _:
                    return None
            at += 1
        while at < len(self._lines) and self._lines[at].startswith("\\"):
            at += 1
        if old < 0 or new < 0:
            return None
        return None if self._goes_on(at) else at

    def _goes_on(self, at: int) -> bool:
        """Whether the line, or the one after empty lines, looks like one more of a body."""
        while at < len(self._lines) and self._lines[at] in ("", "\r"):
            at += 1
        if at == len(self._lines):
            return False
        if self._is_file_header(at) or self._is_signature(at):
            return False
        return self._lines[at][:1] in ("+", "-", " ")

    def _visible_end(self, at: int) -> int:
        """Where the body ends by the look of its lines; empty lines at its end are left out."""
        end = at
        while at < len(self._lines):
            line = self._lines[at]
            if line in ("", "\r"):
                at += 1
                continue
            if line[0] not in " +-\\" or self._is_file_header(at) or self._is_signature(at):
                break
            at += 1
            end = at
        return end

    def _body(self, start: int, end: int) -> tuple[ScriptLine, ...]:
        lines: list[ScriptLine] = []
        for at in range(start, end):
            if self._lines[at].startswith("\\"):
                continue
            terminated = not (at + 1 < len(self._lines) and self._lines[at + 1].startswith("\\"))
            lines.append(script_line(self._lines[at], terminated=terminated))
        return tuple(lines)

    def _refuse_loose(self, at: int) -> None:
        before = self._lines[at - 1] if at else ""
        reason = "belongs to no hunk"
        if before and before[0] not in " +-@\\":
            reason = f"follows line {at}, which has no mark (a context line begins with a space)"
        raise MalformedPatch(f"Line {at + 1}: the change {self._lines[at][:80]!r} {reason}. Nothing was applied.")


def _mode(text: str, at: int) -> int:
    try:
        mode = int(text.strip(), 8)
    except ValueError as error:
        raise MalformedPatch(f"Line {at + 1}: {text.strip()[:40]!r} is no file mode.") from error
    if mode & 0o170000 == 0o120000:
        raise UnsupportedPatch(f"Line {at + 1}: symbolic links are not taken from patches.")
    if mode & 0o170000 == 0o160000:
        raise UnsupportedPatch(f"Line {at + 1}: submodules are not taken from patches.")
    return mode & 0o777


def header_numbers(header: str) -> tuple[int, int] | None:
    """The first lines of both sides that a hunk header gives, if it does."""
    numbers = _NUMBERS.match(header.rstrip("\r"))
    return (int(numbers[1]), int(numbers[3])) if numbers else None


def seek_text(header: str) -> list[str]:
    """The line of the file that a hunk header without numbers names, if it names one."""
    if _NUMBERS.match(header.rstrip("\r")):
        return []
    text = header.rstrip("\r").lstrip("@").removeprefix(" ")
    if text.rstrip().endswith("@@"):
        text = text.rstrip().rstrip("@").rstrip()
    return [] if _PLACEHOLDER.match(text) else [text]


def _finished(part: _Part) -> FilePatch:
    old, new = part.old_name, part.new_name
    if part.git_names:
        if not part.named:
            old, new = part.git_names
            if "new file mode" in part.modes:
                old = NO_FILE
            elif "deleted file mode" in part.modes:
                new = NO_FILE
    elif not part.named and not part.rename:
        raise MalformedPatch(f"Line {part.line}: can't tell which file is meant by {part.git_text[:120]!r}.")
    old, new = plain_names(old, new, part.git_names)
    if part.rename:
        old, new = part.rename.get("rename from", old), part.rename.get("rename to", new)
    modes = part.modes
    old_mode = modes.get("old mode", modes.get("deleted file mode"))
    new_mode = modes.get("new mode", modes.get("new file mode"))
    if old == NO_FILE:
        path, op, old_path = new, Op.CREATE, ""
    elif new == NO_FILE:
        path, op, old_path = old, Op.DELETE, ""
    elif part.rename and old != new:
        path, op, old_path = new, Op.RENAME, old
    else:
        path, op, old_path = new, Op.EDIT if part.hunks else Op.MODE, ""
    if not path or path == NO_FILE:
        raise MalformedPatch(f"Line {part.line}: the header names no file.")
    if op is Op.MODE and new_mode is None:
        raise MalformedPatch(f"Line {part.line}: there is no change for {path}.")
    return FilePatch(path, op, tuple(part.hunks), old_path, old_mode, new_mode, part.old_blob)
