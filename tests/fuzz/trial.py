"""Apply a patch with our code and with `git apply` to the same tree, and compare."""

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

MAX_CPU_SECONDS = 20
BLANKS = b" \t\r\x0c"
_OPTIONS = ["", "--recount", "--ignore-whitespace", "--unidiff-zero", "--inaccurate-eof", "--unidiff-zero,--recount"]
_LENIENT = [
    [*strip, *rest.split(",")] if rest else strip
    for strip in ([], ["-p0"])
    for rest in (*_OPTIONS, "--ignore-whitespace,--recount")
]
"""Options with which git accepts patches that we accept as they are."""


class Verdict(StrEnum):
    """The result of a trial. The last four are suspected defects."""

    SAME = "the same bytes"
    BOTH_REFUSE = "both refuse"
    WE_REFUSE = "only we refuse"
    FLAGGED = "accepted with a visible warning"
    DIFFERS = "other bytes than git's, without a warning"
    UNFLAGGED = "accepted without a warning, and git refuses"
    TOUCHED = "the disk has an unexpected change"
    BROKEN = "a traceback or a hang"

    @property
    def is_suspicious(self) -> bool:
        return self in (Verdict.DIFFERS, Verdict.UNFLAGGED, Verdict.TOUCHED, Verdict.BROKEN)


class Site:
    """Two copies of a tree: ours in a workspace, and git's."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._root, self._theirs = folder / "ours", folder / "theirs"
        for root in (self._root, self._theirs):
            root.mkdir()
            put(root, files)
        self.git_error = ""
        """Error output of the last git command."""
        self._service = ProposalService(Workspace(self._root), MemoryStore(), folder / "lock")

    def trial(self, patch: bytes) -> tuple[Verdict, str]:
        """Apply a patch both ways, and undo ours; return the result and its reason."""
        before = _tree(self._root)
        try:
            with _cpu_limit():
                verdict, reason = self._try_patch(patch)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return Verdict.BROKEN, traceback.format_exc()
        if _tree(self._root) != before:
            return Verdict.TOUCHED, f"{verdict}: {reason}"
        return verdict, reason

    def _try_patch(self, patch: bytes) -> tuple[Verdict, str]:
        before = _tree(self._root)
        try:
            proposal = self._service.stage_patch(patch.decode("utf-8", "surrogateescape"))
        except (PatchRefused, ProposalError) as error:
            return (Verdict.BOTH_REFUSE if self._git(patch) is None else Verdict.WE_REFUSE), str(error)
        if _tree(self._root) != before:
            return Verdict.TOUCHED, "staging wrote to the disk"
        exported = self._service.unified_diff(proposal.id).encode("utf-8", "surrogateescape")
        try:
            self._service.approve(proposal.id)
        except ProposalError as error:
            self._service.deny(proposal.id)
            return Verdict.WE_REFUSE, f"approve: {error}"
        ours = _tree(self._root)
        self._service.undo(proposal.id)
        if self._git(exported) != ours:
            return Verdict.DIFFERS, f"the diff of `show` gives other files than the approval:\n{exported!r}"
        return self._compare(patch, ours, _warnings(proposal))

    def _compare(self, patch: bytes, ours: Files, warnings: Sequence[str]) -> tuple[Verdict, str]:
        theirs = self._git(patch)
        git_error = self.git_error
        if theirs == ours:
            return Verdict.SAME, ""
        if warnings:
            return Verdict.FLAGGED, "; ".join(warnings)
        if any(self._git(text, *options) == ours for text in {patch, _clean_patch(patch)} for options in _LENIENT):
            return Verdict.SAME, "with an option"
        if self._apply_without_whitespace(patch) == _strip_whitespace(ours):
            return Verdict.SAME, "except spaces and line ends"
        return (Verdict.UNFLAGGED if theirs is None else Verdict.DIFFERS), (
            git_error if theirs is None else _difference(theirs, ours)
        )

    def _git(self, patch: bytes, *options: str) -> Files | None:
        """Return the tree after `git apply`, which is then restored; None if git refuses."""
        done = self._run(self._theirs, patch, options)
        self.git_error = done.stderr.decode("utf-8", "replace").strip()
        after = _tree(self._theirs)
        # Also if git refuses: it may have written some files.
        if after != self._files:
            shutil.rmtree(self._theirs)
            self._theirs.mkdir()
            put(self._theirs, self._files)
        if done.returncode:
            return None
        # For a deletion without its mode line, git creates a file `dev/null`.
        return None if "dev/null" in after else after

    def _apply_without_whitespace(self, patch: bytes) -> Files | None:
        """Return git's result when trailing whitespace and the final line end are ignored."""
        site = self._folder / "loose"
        site.mkdir()
        put(site, _strip_whitespace(self._files))
        text = b"".join(
            line[:1] + line[1:].rstrip(BLANKS) + b"\n"
            if line[:1] in (b" ", b"+", b"-")
            else line.rstrip(BLANKS) + b"\n"
            for line in _clean_patch(patch).split(b"\n")[:-1]
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


def _strip_whitespace(files: Files) -> Files:
    return {
        path: (b"".join(line.rstrip(BLANKS) + b"\n" for line in data.removesuffix(b"\n").split(b"\n")), executable)
        for path, (data, executable) in files.items()
    }


def _warnings(proposal: Proposal) -> list[str]:
    """Return the warnings of the review about how the patch was matched."""
    warnings = [
        match.note or match.rung
        for change in proposal.files
        for match in change.matches
        if match.note or not match.rung.is_exact
    ]
    return [*warnings, *(["left out"] if "without" in proposal.summary else [])]


def _clean_patch(patch: bytes) -> bytes:
    """Return the patch without additions by mail and editors."""
    lines = patch.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    if all(line.endswith(b"\r") for line in lines):
        lines = [line.removesuffix(b"\r") for line in lines]
    if all(line.startswith(b"    ") or not line for line in lines):
        lines = [line.removeprefix(b"    ") for line in lines]
    return b"\n".join(_SPACES_BEFORE_TIME.sub(b"\t", line) for line in lines) + b"\n"


_SPACES_BEFORE_TIME = re.compile(rb"(?<=\S)    (?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [-+]\d{4}$)")
"""The spaces that an editor has inserted for the tab before the time of a header line."""


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


class TrialTimeout(BaseException):
    """A trial that takes too much CPU time."""


@contextmanager
def _cpu_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TrialTimeout

    before = signal.signal(signal.SIGVTALRM, stop)
    # CPU time is measured, because a trial on a busy machine may take long.
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
