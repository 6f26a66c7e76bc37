"""One file's part of a unified diff: what its header lines say while it is read, and what they amount to."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from app.proposals.models import Op
from app.proposals.patch.names import (
    NO_FILE,
    HeaderName,
    PrefixPair,
    git_header_names,
    named,
    plain_names,
    prefixes_of,
    whole_name,
)
from app.proposals.patch.parts import SHORTEST_ID, FilePatch, PatchHunk, could_be_blob
from app.proposals.refusals import MalformedPatch, UnsupportedPatch

_INDEX = re.compile(r"^index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d+))?")
_BINARY = re.compile(r"^Binary files? (.+) and (.+) differ$")
_EXTENDED = ("similarity index ", "dissimilarity index ")
_MODE = re.compile(r"[0-7]{6}")
_MODES = ("old mode ", "new mode ", "new file mode ", "deleted file mode ")
NO_DATA = "binary, and the patch does not hold its data"


@dataclass
class UnifiedPart:
    """One file of the patch while it is being read."""

    line: int
    """Where it begins, from 1."""
    git_text: str = ""
    """What follows `diff --git`, if it began so."""
    git_names: tuple[str, str] | None = None
    old: HeaderName | None = None
    """What the `---` line says."""
    new: HeaderName | None = None
    rename: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    old_blob: str = ""
    new_blob: str = ""
    no_data: bool = False
    """Whether it says only that the file is binary."""
    hunks: list[PatchHunk] = field(default_factory=list)

    @classmethod
    def of_git(cls, at: int, text: str) -> "UnifiedPart":
        """The part that a `diff --git` line begins, without these words."""
        return cls(at + 1, text, git_header_names(text))

    @property
    def named(self) -> bool:
        """Whether its `---` and `+++` lines have been read."""
        return self.old is not None

    @property
    def names(self) -> tuple[str, str]:
        """Both names as written, `/dev/null` for one that is not there; raises MalformedPatch if there are none."""
        if self.old is not None and self.new is not None:
            return self.old.path, self.new.path
        if self.git_names:
            old, new = self.git_names
            if "new file mode" in self.modes:
                return NO_FILE, new
            return old, NO_FILE if "deleted file mode" in self.modes else new
        raise MalformedPatch(f"Line {self.line}: can't tell which file is meant by {self.git_text[:120]!r}.")

    @property
    def prefixes(self) -> PrefixPair | None:
        """What stands before both names and is no part of them."""
        return None if self.rename else prefixes_of(*self.names, self.git_names)

    def take_extended(self, line: str, at: int) -> bool:
        """Take one of git's extended header lines, line `at` (from 0); False if it is none."""
        line = line.rstrip("\r")
        for words in _MODES:
            if line.startswith(words):
                self.modes[words.strip()] = _mode(line[len(words) :], at)
                return True
        for words in ("rename from ", "rename to "):
            if line.startswith(words):
                self.rename[words.strip()] = whole_name(line[len(words) :])
                return True
        if index := _INDEX.match(line):
            self.old_blob, self.new_blob = index[1], index[2]
            if index[3]:
                _mode(index[3], at)
            return True
        if line.startswith(("copy from ", "copy to ")):
            raise UnsupportedPatch(f"Line {at + 1}: copies are not taken. Make the diff without -C.")
        if line.startswith("GIT binary patch"):
            name = plain_names(*self.git_names, self.git_names)[1] if self.git_names else "this file"
            raise UnsupportedPatch(f"Line {at + 1}: the part for {name} is binary, which is not taken.")
        return line.startswith(_EXTENDED)

    def take_binary(self, line: str) -> bool:
        """Take a line that says only that the files of the part differ; False if it is none."""
        line = line.rstrip("\r")
        said = _BINARY.match(line) if line.endswith(" differ") else None
        if said is None:
            return False
        self.no_data = True
        if not self.git_names:
            self.old, self.new = named(said[1]), named(said[2])
        return True

    def finished(self, known: Collection[PrefixPair]) -> FilePatch:
        """What the part amounts to; raises MalformedPatch.

        Args:
            known: The prefixes that other parts have, for names that stand alone.
        """
        old, new = self._renamed() if self.rename else plain_names(*self.names, self.git_names, known)
        if self.old and self.old.missing and not any(hunk.old_side for hunk in self.hunks):
            old = NO_FILE
        elif self.new and self.new.missing and not any(hunk.new_side for hunk in self.hunks):
            new = NO_FILE
        if old == NO_FILE:
            path, op, old_path = new, Op.CREATE, ""
        elif new == NO_FILE:
            path, op, old_path = old, Op.DELETE, ""
        elif self.rename and old != new:
            path, op, old_path = new, Op.RENAME, old
        else:
            path, op, old_path = new, Op.EDIT if self.hunks else Op.MODE, ""
        if not path or path == NO_FILE:
            raise MalformedPatch(f"Line {self.line}: the header names no file.")
        if self.named and not self.rename:
            self._check_names(old, new)
        if self.no_data:
            return FilePatch(path, op, old_path=old_path, left_out=NO_DATA)
        new_mode = self.modes.get("new mode", self.modes.get("new file mode"))
        self._check_whole(path, op, new_mode)
        return FilePatch(
            path,
            op,
            tuple(self.hunks),
            old_path,
            self.modes.get("old mode", self.modes.get("deleted file mode")),
            new_mode,
            self.old_blob,
            self.new_blob,
            spelled_out=True,
        )

    def _renamed(self) -> tuple[str, str]:
        """The names of a rename; raises MalformedPatch if they are not those of the `diff --git` line."""
        old, new = self.rename.get("rename from", ""), self.rename.get("rename to", "")
        stated = self.git_names[1] if self.git_names else self.git_text.rstrip("\r")
        if not old or not new or not f"/{stated}".endswith(("/" + new, " " + new)):
            raise MalformedPatch(
                f"Line {self.line}: the rename does not say from where to where. Is the patch cut off?"
            )
        return old, new

    def _check_names(self, old: str, new: str) -> None:
        """Refuse a header that names different files where one is meant."""
        both = {name for name in (old, new) if name != NO_FILE}
        if self.git_names:
            fit = both <= set(plain_names(*self.git_names, self.git_names))
        else:
            # What a hunk removes or keeps would show which of the two is there.
            fit = len(both) == 1 or any(hunk.old_side for hunk in self.hunks)
        if not fit:
            raise MalformedPatch(f"Line {self.line}: the header names different files ({', '.join(sorted(both))}).")

    def _check_whole(self, path: str, op: Op, new_mode: int | None) -> None:
        """Refuse a part whose header promises a change of content that does not follow."""
        if self.hunks:
            return
        if op is Op.DELETE and len(self.old_blob) >= SHORTEST_ID:
            return  # `git diff -D` leaves out what is deleted; whether the file is that is seen when it is looked at.
        content = self.new_blob if op is Op.CREATE else self.old_blob if op is Op.DELETE else ""
        promised = not could_be_blob(b"", content) if content else self.old_blob != self.new_blob
        if promised or (op is Op.MODE and new_mode is None):
            raise MalformedPatch(f"Line {self.line}: there is no change for {path}. Is the patch cut off?")


def finished_parts(parts: Iterable[UnifiedPart]) -> list[FilePatch]:
    """What the parts of one patch amount to, in order; raises MalformedPatch."""
    parts = list(parts)
    known = {pair for part in parts if (pair := part.prefixes)}
    return [part.finished(known) for part in parts]


def _mode(text: str, at: int) -> int:
    mode = int(text, 8) if _MODE.fullmatch(text) else 0
    match mode & 0o170000:
        case 0o100000:
            return mode & 0o777
        case 0o120000:
            raise UnsupportedPatch(f"Line {at + 1}: symbolic links are not taken from patches.")
        case 0o160000:
            raise UnsupportedPatch(f"Line {at + 1}: submodules are not taken from patches.")
        case _:
            raise MalformedPatch(f"Line {at + 1}: {text.strip()[:40]!r} is no file mode.")
