"""A layer over a workspace, in the mount namespace of a program, and what programs have written to it."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from app.sandbox.captured_changes import CapturedChanges, PathChange, Pending, ThroughReport
from app.sandbox.enclosed_process import ProcessLimits, run_enclosed
from app.sandbox.environment import MARKER
from app.sandbox.ignored_write_back import IgnoredWriter
from app.sandbox.mounting import LayerFolders, mount_steps
from app.sandbox.outside_access import OutsideAccess
from app.sandbox.path_policy import PathPolicy
from app.sandbox.path_stats import PathStat, facts_of
from app.sandbox.process import Output, ProcessResult, to_its_end
from app.sandbox.run_folders import KeptVersions, remove_tree
from app.sandbox.upper_layer import UpperLayer
from app.workspace.paths import Workspace


class WrittenLayer:
    """A layer, which exists as long as its folders do.

    Args:
        workspace: The folder below.
        folders: The empty folders that the layer is made of.
        access: What programs may write and see besides.
        variables: The environment of the programs.
        kept: Receives versions of ignored files that can't be written back.
        limits: Of the memory and the processes of each program.
        pending: The changes that lie over the workspace.
    """

    def __init__(
        self,
        workspace: Workspace,
        folders: LayerFolders,
        access: OutsideAccess,
        variables: Mapping[str, str],
        kept: KeptVersions,
        limits: ProcessLimits,
        pending: Pending,
    ) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._folders = folders
        self._layer = folders.upper
        self._access = access
        self._kept = kept
        self._limits = limits
        self.variables = variables
        self._set_pending(pending)

    def _set_pending(self, pending: Pending) -> None:
        self._keeping = PathPolicy(self._workspace, pending)
        self._upper = UpperLayer(self._root, self._layer, pending)

    def fill(self) -> None:
        """Write the pending changes to the empty layer. Raises OSError."""
        self._upper.fill()

    def steps(self) -> list[str]:
        """The steps of `enter.py` that mount it for one program. Raises OSError."""
        return mount_steps(self._root, self._folders, self._access, self._keeping)

    async def changes(self) -> CapturedChanges:
        """The changes so far. Raises OSError."""
        return await asyncio.to_thread(self._upper.look, self._keeping)

    def read(self, path: str, limit: int) -> PathChange:
        """One of the changes with its contents; raises as `UpperLayer.read` does."""
        return self._upper.read(path, limit)

    async def write_through(self, paths: Sequence[str], *, dry: bool = False) -> ThroughReport:
        """Write ignored paths back to the workspace, except for what somebody else has changed there.

        Args:
            paths: As `changes` has found them.
            dry: Change nothing, and only report what would be written.
        """
        writer = IgnoredWriter(self._root, self._layer, self._upper.since, self._kept.new_folder, dry=dry)
        # Not cancelled half-way: a program that stays could go on meanwhile and make a link of a folder.
        return await to_its_end(asyncio.to_thread(writer.write, paths))


class OverlayRun(WrittenLayer):
    """A layer for single programs, each of which is waited for."""

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> ProcessResult:
        """Run a program.

        Args:
            program: The absolute path of the program, and its arguments.
            folder: The workspace path of the folder to run it in.
            seconds: Its time limit.
            output: Takes what it prints.

        Raises:
            StartFailed: It could not be started.
        """
        environment = {**self.variables, MARKER: uuid.uuid4().hex}
        steps = [*self.steps(), "folder", str(self._root / folder)]
        return await run_enclosed(
            steps, program, environment=environment, seconds=seconds, output=output, limits=self._limits
        )


class PersistentOverlay(WrittenLayer):
    """The layer of such a program."""

    _seen: Mapping[str, PathStat] = MappingProxyType({})

    def lay(self, pending: Pending) -> None:
        """Replace the contents of the layer by these changes; the program has to be remounted. Raises OSError."""
        for each in list(self._layer.iterdir()):
            if each.is_dir() and not each.is_symlink():
                remove_tree(each)
            else:
                each.unlink()
        self._set_pending(pending)
        self.fill()
        self._seen = {}

    def note_seen(self) -> None:
        """Remember all that is written by now as looked at. Raises OSError."""
        self._seen = self._written()

    def unseen(self) -> list[str]:
        """The paths that were written since, sorted. Raises OSError."""
        return [path for path, facts in self._written().items() if facts != self._seen.get(path)]

    def _written(self) -> dict[str, PathStat]:
        found = self._upper.look(self._keeping)
        return {each.path: _facts(self._layer / each.path) for each in found.touched}


def _facts(path: Path) -> PathStat:
    """The facts of a path of the layer; all zero where it, or a folder above it, is gone."""
    try:
        return facts_of(path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return PathStat(0, 0, 0, 0, 0)
