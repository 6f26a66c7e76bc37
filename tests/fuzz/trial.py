"""One patch, made by us and by `git apply` on the same tree."""

import os
import re
import shutil
import signal
import subprocess
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType

from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import PatchRefused, ProposalError
from app.workspace.paths import Workspace
from tests.fuzz.material import Files, put
from tests.unit.proposals.memory_store import MemoryStore

HANG_SECONDS = 20
BLANKS = b" \t\r\x0c"
_LENIENT = [
    [*strip, *rest]
    for strip in ([], ["-p0"])
    for rest in (
        [],
        ["--recount"],
        ["--ignore-whitespace"],
        ["--unidiff-zero"],
        ["--inaccurate-eof"],
        ["--unidiff-zero", "--recount"],
        ["--ignore-whitespace", "--recount"],
    )
]
"""What git may be told so that it takes what we take as it is."""


class Verdict(StrEnum):
    """What came of a trial. The last four are defects until someone has looked at them."""

    SAME = "the same bytes"
    BOTH_REFUSE = "both refuse"
    WE_REFUSE = "only we refuse"
    FLAGGED = "taken with a doubt that is shown"
    DIFFERS = "other bytes than git's, no doubt shown"
    UNFLAGGED = "taken without a doubt, and git refuses"
    TOUCHED = "something on disk has changed that should not"
    BROKEN = "a traceback or a hang"

    @property
    def bad(self) -> bool:
        """Whether someone has to look at it."""
        return self in (Verdict.DIFFERS, Verdict.UNFLAGGED, Verdict.TOUCHED, Verdict.BROKEN)


class Site:
    """A tree twice: ours in a workspace, and git's."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._root, self._theirs = folder / "ours", folder / "theirs"
        for root in (self._root, self._theirs):
            root.mkdir()
            put(root, files)
        self.complaint = ""
        """What git said last."""
        self._service = ProposalService(Workspace(self._root), MemoryStore(), folder / "lock")

    def trial(self, patch: bytes) -> tuple[Verdict, str]:
        """Make a patch both ways, and undo ours; returns what came of it and why."""
        before = _tree(self._root)
        try:
            with _limited():
                verdict, why = self._tried(patch)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return Verdict.BROKEN, traceback.format_exc()
        if _tree(self._root) != before:
            return Verdict.TOUCHED, f"{verdict}: {why}"
        return verdict, why

    def _tried(self, patch: bytes) -> tuple[Verdict, str]:
        before = _tree(self._root)
        try:
            proposal = self._service.stage_patch(patch.decode("utf-8", "surrogateescape"))
        except (PatchRefused, ProposalError) as error:
            return (Verdict.BOTH_REFUSE if self._git(patch) is None else Verdict.WE_REFUSE), str(error)
        if _tree(self._root) != before:
            return Verdict.TOUCHED, "staging wrote"
        exported = self._service.unified_diff(proposal.id).encode("utf-8", "surrogateescape")
        try:
            self._service.approve(proposal.id)
        except ProposalError as error:
            self._service.deny(proposal.id)
            return Verdict.WE_REFUSE, f"approve: {error}"
        ours = _tree(self._root)
        self._service.undo(proposal.id)
        if self._git(exported) != ours:
            return Verdict.DIFFERS, f"what `show` prints makes something else than the approval:\n{exported!r}"
        return self._compared(patch, ours, _doubts(proposal))

    def _compared(self, patch: bytes, ours: Files, doubts: Sequence[str]) -> tuple[Verdict, str]:
        """What git makes of it, where we have made `ours` of it."""
        theirs = self._git(patch)
        complaint = self.complaint
        if theirs == ours:
            return Verdict.SAME, ""
        if doubts:
            return Verdict.FLAGGED, "; ".join(doubts)
        if any(self._git(text, *options) == ours for text in {patch, _washed(patch)} for options in _LENIENT):
            return Verdict.SAME, "with an option"
        if self._loosely(patch) == _loose(ours):
            return Verdict.SAME, "but for spaces and line ends"
        return (Verdict.UNFLAGGED if theirs is None else Verdict.DIFFERS), (
            complaint if theirs is None else _difference(theirs, ours)
        )

    def _git(self, patch: bytes, *options: str) -> Files | None:
        """The tree after `git apply`, which is put back then; None if it refuses."""
        done = self._run(self._theirs, patch, options)
        self.complaint = done.stderr.decode("utf-8", "replace").strip()
        after = _tree(self._theirs)
        # Also where git refuses: it may have written a part before.
        if after != self._files:
            shutil.rmtree(self._theirs)
            self._theirs.mkdir()
            put(self._theirs, self._files)
        if done.returncode:
            return None
        # Of a deletion without its mode line, git makes a file of that name.
        return None if "dev/null" in after else after

    def _loosely(self, patch: bytes) -> Files | None:
        """What git makes of it where blanks at the end of a line, and how it ends, count for nothing."""
        site = self._folder / "loose"
        site.mkdir()
        put(site, _loose(self._files))
        text = b"".join(
            line[:1] + line[1:].rstrip(BLANKS) + b"\n"
            if line[:1] in (b" ", b"+", b"-")
            else line.rstrip(BLANKS) + b"\n"
            for line in _washed(patch).split(b"\n")[:-1]
            if not line.startswith(b"\\ ")
        )
        try:
            for options in _LENIENT:
                done = self._run(site, text, options)
                if not done.returncode:
                    return _tree(site)
            return None
        finally:
            shutil.rmtree(site)

    def _run(self, folder: Path, patch: bytes, options: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["git", "apply", "--whitespace=nowarn", *options],
            cwd=folder,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self._folder)},
            input=patch,
            capture_output=True,
            check=False,
        )


def _loose(files: Files) -> Files:
    return {
        path: (b"".join(line.rstrip(BLANKS) + b"\n" for line in data.removesuffix(b"\n").split(b"\n")), executable)
        for path, (data, executable) in files.items()
    }


def _doubts(proposal: Proposal) -> list[str]:
    """What the review says of how the patch was taken."""
    found = [
        match.note or match.rung
        for change in proposal.files
        for match in change.matches
        if match.note or not match.rung.is_exact
    ]
    return [*found, *(["left out"] if "without" in proposal.summary else [])]


def _washed(patch: bytes) -> bytes:
    """The patch without what mail and editors add to it."""
    lines = patch.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    if all(line.endswith(b"\r") for line in lines):
        lines = [line.removesuffix(b"\r") for line in lines]
    if all(line.startswith(b"    ") or not line for line in lines):
        lines = [line.removeprefix(b"    ") for line in lines]
    return b"\n".join(_SPACED_STAMP.sub(b"\t", line) for line in lines) + b"\n"


_SPACED_STAMP = re.compile(rb"(?<=\S)    (?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [-+]\d{4}$)")
"""The tab before the time in a header line, where an editor has made spaces of it."""


def _tree(root: Path) -> Files:
    files: Files = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            files[path.relative_to(root).as_posix()] = (data, bool(path.lstat().st_mode & 0o100))
    return files


def _difference(theirs: Files, ours: Files) -> str:
    paths = sorted(path for path in theirs.keys() | ours.keys() if theirs.get(path) != ours.get(path))
    return "\n".join(f"{path}: git {theirs.get(path)!r}\n  ours {ours.get(path)!r}" for path in paths)


class Hang(BaseException):
    """A trial that takes too long."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, stop)
    # By the CPU that it takes: a busy machine is no hang.
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
