"""A run on a clone of the workspace, where there can be no layer but the file system can clone.

The clone lies over the workspace's own path where there are namespaces. Where there are none it is apart: the command
runs in it, and Landlock keeps it from writing to the workspace by an absolute path.
"""

import asyncio
import os
import stat
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from app.sandbox.changes import Change, Found, Pending
from app.sandbox.cloning import clone_tree, lay, make_layer
from app.sandbox.enclosed import run_enclosed
from app.sandbox.environment import command_environment, with_git_settings
from app.sandbox.keeping import Keeping
from app.sandbox.listing import REPOSITORY, Facts
from app.sandbox.mounting import mount_steps
from app.sandbox.own_process import hide_memory
from app.sandbox.places import Access
from app.sandbox.process import Ended, Output
from app.sandbox.through import write_through
from app.sandbox.upper import Upper
from app.workspace.git import repository
from app.workspace.paths import Workspace

DEVICES = tuple(map(Path, ("/proc", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts")))
"""Not all of `/dev`: the workspace may lie in `/dev/shm`."""


class CloneRun:
    """The clone, as long as its folder exists."""

    def __init__(self, workspace: Workspace, folder: Path, access: Access, pending: Pending, *, apart: bool) -> None:
        """Nothing is written yet.

        Args:
            workspace: What is cloned.
            folder: An empty folder of the run's own, outside the workspace and on its file system.
            access: What else may be written, and what is hidden.
            pending: What lies over the workspace.
            apart: The clone is not mounted over the workspace.
        """
        self._root = workspace.root
        self._folder = folder
        self._clone = folder / "clone"
        self._layer = folder / "layer"
        self._access = access
        self._pending = pending
        self._keeping = Keeping(workspace, pending)
        self._apart = apart
        self._there: dict[str, Facts] = {}
        self._upper = Upper(self._root, self._layer, pending)

    def prepare(self) -> None:
        """Clone the workspace, and lay over it what is pending. Raises OSError."""
        self.make()
        self._there = clone_tree(self._root, self._clone, self._skips)
        lay(self._pending, self._clone)

    def make(self) -> None:
        """Make the folders, with nothing but git's place in the clone. Raises OSError."""
        for name in ("clone", "layer", "empty", "tmp"):
            (self._folder / name).mkdir()
        (self._folder / "nothing").touch()
        self._clone.chmod(stat.S_IMODE(self._root.stat().st_mode))
        self._upper.since = self._layer.stat().st_ctime_ns
        place, entry = self._clone / REPOSITORY, self._root / REPOSITORY
        if self._apart:
            found = repository(self._root)
            if found is not None and found.top == self._root:
                # As in a linked worktree: git reads its folder where it is, and can't write there.
                place.write_bytes(b"gitdir: %s\n" % os.fsencode(found.folder.resolve()))
        elif os.path.lexists(entry) and not entry.is_symlink():
            # For what is mounted there.
            place.mkdir() if entry.is_dir() else place.touch()

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> Ended:
        """Run a program; raises StartFailed."""
        environment = with_git_settings(command_environment(os.environ, uuid.uuid4().hex))
        if self._apart:
            hide_memory()
            access = apart(self._access, self._root)
            environment |= self._temporary(access)
            steps = [
                each
                for path in (self._clone, self._folder / "tmp", *access.writable, *DEVICES)
                for each in ("write-below", str(path))
            ]
            where = self._clone / folder
        else:
            over = ["lay", str(self._root), str(self._clone)]
            steps = mount_steps(self._root, self._folder, self._access, self._keeping, over)
            where = self._root / folder
        return await run_enclosed(
            [*steps, "folder", str(where)], program, environment=environment, seconds=seconds, output=output
        )

    async def changes(self) -> Found:
        """What has changed so far. Raises OSError."""
        return await asyncio.to_thread(self._look)

    def read(self, path: str, limit: int) -> Change:
        """One of the changes with its contents; raises as `Upper.read` does."""
        return self._upper.read(path, limit)

    async def write_through(self, paths: Sequence[str]) -> None:
        """Have these ignored paths in the workspace as they are here; nothing may run afterwards. Raises OSError."""
        await asyncio.to_thread(self._write_through, paths)

    def close(self) -> tuple[str, ...]:
        """Put back the permissions of files in the workspace, which Landlock does not guard; says of which."""
        back: list[str] = []
        for path, facts in self._there.items() if self._apart else ():
            place = self._root / path
            try:
                mode = place.lstat().st_mode
                if mode != facts.mode and stat.S_IFMT(mode) == stat.S_IFMT(facts.mode):
                    place.chmod(stat.S_IMODE(facts.mode), follow_symlinks=False)
                    back.append(path)
            except (OSError, NotImplementedError):
                continue
        return tuple(back)

    def _look(self) -> Found:
        put_back = [f"{path}: its permissions were changed from afar, and put back" for path in self.close()]
        if any(self._layer.iterdir()):
            self._layer.rename(self._folder / f"layer-{uuid.uuid4().hex}")
            self._layer.mkdir()
        make_layer(self._clone, self._there, self._layer)
        found = self._upper.look(self._keeping)
        return replace(found, left_out=(*found.left_out, *put_back))

    def _write_through(self, paths: Sequence[str]) -> None:
        for path in paths:
            write_through(self._root, self._layer, path)

    def _skips(self, path: str) -> bool:
        return path == REPOSITORY or self._keeping.forbidden(path)

    def _temporary(self, access: Access) -> Mapping[str, str]:
        usual = Path(os.path.realpath(tempfile.gettempdir()))
        if any(usual.is_relative_to(place) for place in access.writable):
            return {}
        return {"TMPDIR": str(self._folder / "tmp")}


def apart(access: Access, root: Path) -> Access:
    """What may be written where the workspace itself may not: nothing that it lies in or that lies in it."""
    kept = (path for path in access.writable if not root.is_relative_to(path) and not path.is_relative_to(root))
    return replace(access, writable=tuple(kept))
