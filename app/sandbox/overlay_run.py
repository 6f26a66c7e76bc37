"""A run on an overlay: its files lie over the workspace's own path, in a mount namespace of their own."""

import asyncio
import os
import re
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.sandbox.changes import Change, Found, Pending
from app.sandbox.enclosed import run_enclosed
from app.sandbox.environment import command_environment
from app.sandbox.keeping import Keeping
from app.sandbox.places import Access
from app.sandbox.process import Ended, Output
from app.sandbox.through import write_through
from app.sandbox.upper import Upper
from app.workspace.paths import Workspace

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class OverlayRun:
    """The workspace with a layer over it, as long as its folder exists."""

    def __init__(self, workspace: Workspace, folder: Path, access: Access, pending: Pending) -> None:
        """Nothing is written yet.

        Args:
            workspace: What is below.
            folder: An empty folder of the run's own, outside the workspace.
            access: What else may be written, and what is hidden.
            pending: What lies over the workspace.
        """
        self._root = workspace.root
        self._folder = folder
        self._access = access
        self._pending = pending
        self._keeping = Keeping(workspace, pending)
        self._upper = Upper(workspace.root, folder / "upper")

    def prepare(self) -> None:
        """Fill the layer. Raises OSError."""
        for name in ("upper", "empty"):
            (self._folder / name).mkdir()
        (self._folder / "upper").chmod(self._root.stat().st_mode & 0o7777)
        (self._folder / "nothing").touch()
        self._upper.fill(self._pending)

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> Ended:
        """Run a program.

        Args:
            program: The absolute path of the program, and its arguments.
            folder: Where, as a workspace path.
            seconds: Its time limit.
            output: Takes what it prints.

        Raises:
            StartFailed: It could not be started.
        """
        steps = [*self._steps(), "folder", str(self._root / folder)]
        environment = with_git_settings(command_environment(os.environ, uuid.uuid4().hex))
        return await run_enclosed(steps, program, environment=environment, seconds=seconds, output=output)

    async def changes(self) -> Found:
        """What has changed so far. Raises OSError."""
        return await asyncio.to_thread(self._upper.look, self._keeping)

    def read(self, path: str, limit: int) -> Change:
        """One of the changes with its contents; raises as `Upper.read` does."""
        return self._upper.read(path, limit)

    async def write_through(self, paths: Sequence[str]) -> None:
        """Have these ignored paths in the workspace as they are here. Raises OSError."""
        await asyncio.to_thread(self._write_through, paths)

    def _write_through(self, paths: Sequence[str]) -> None:
        for path in paths:
            write_through(self._root, self._folder / "upper", path)

    def _steps(self) -> list[str]:
        root, own = str(self._root), str(self._folder)
        writable = [*map(str, self._access.writable), own]
        steps = ["namespaces"]
        for path in writable:
            steps += ["bind", path]
        steps.append("read-only")
        for path in writable:
            steps += ["writable", path]
        # A new one each time: to the kernel a volatile one that was in use looks like that of a crash.
        work = tempfile.mkdtemp(prefix="work-", dir=own)
        steps += ["overlay", root, f"{own}/upper", work]
        for mounted in mounts_below(self._root):
            ignored = self._keeping.ignores(mounted, is_folder=(self._root / mounted).is_dir())
            steps += ["through", mounted, f"{root}/{mounted}", "writable" if ignored else "read-only"]
        for place in self._access.writable:
            # A home that is the workspace has its caches in it.
            if place != self._root and place.is_relative_to(self._root):
                steps += ["through", str(place.relative_to(self._root)), str(place), "writable"]
        repository = self._root / ".git"
        if os.path.lexists(repository) and not repository.is_symlink():
            steps += ["through", ".git", f"{root}/.git", "read-only"]
        # What the empty ones lie in comes last.
        for hidden in sorted(self._access.hidden, key=self._folder.is_relative_to):
            steps += ["hide", str(hidden), f"{own}/empty" if hidden.is_dir() else f"{own}/nothing"]
        return [*steps, "terminals"]


def with_git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with which git neither writes nor takes every file of the overlay for a changed one."""
    count = environment.get("GIT_CONFIG_COUNT", "0")
    number = int(count) if count.isdecimal() else 0
    return {
        **environment,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(number + 1),
        f"GIT_CONFIG_KEY_{number}": "core.checkStat",
        f"GIT_CONFIG_VALUE_{number}": "minimal",
    }


def mounts_below(root: Path) -> list[str]:
    """Paths in a folder at which something else is mounted, the outer ones first."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return []
    found = set()
    for line in lines:
        point = Path(os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), line.split(b" ")[4])))
        if point != root and point.is_relative_to(root):
            found.add(point.relative_to(root).as_posix())
    # What is mounted inside of another one comes with it.
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))
