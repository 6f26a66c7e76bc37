"""A run on an overlay: its files lie over the workspace's own path, in a mount namespace of their own."""

import os
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from app.sandbox.changes import Pending
from app.sandbox.enclosed import run_enclosed
from app.sandbox.environment import command_environment, with_git_settings
from app.sandbox.limits import Limits
from app.sandbox.mounting import mount_steps
from app.sandbox.places import Access
from app.sandbox.process import Ended, Output
from app.sandbox.written_layer import WrittenLayer
from app.workspace.paths import Workspace


class OverlayRun(WrittenLayer):
    """The workspace with a layer over it, as long as its folder exists."""

    def __init__(self, workspace: Workspace, folder: Path, access: Access, pending: Pending, limits: Limits) -> None:
        """Nothing is written yet.

        Args:
            workspace: What is below.
            folder: An empty folder of the run's own, outside the workspace.
            access: What else may be written, and what is hidden.
            pending: What lies over the workspace.
            limits: Of the memory and the processes of each program.
        """
        super().__init__(workspace, folder / "upper", pending)
        self._folder = folder
        self._access = access
        self._limits = limits

    def prepare(self) -> None:
        """Fill the layer. Raises OSError."""
        for name in ("upper", "empty"):
            (self._folder / name).mkdir()
        (self._folder / "upper").chmod(self._root.stat().st_mode & 0o7777)
        (self._folder / "nothing").touch()
        self._upper.fill()

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
        return await run_enclosed(
            steps, program, environment=environment, seconds=seconds, output=output, limits=self._limits
        )

    def _steps(self) -> list[str]:
        own = self._folder
        # A new one each time: to the kernel a volatile one that was in use looks like that of a crash.
        work = tempfile.mkdtemp(prefix="work-", dir=own)
        over = ["overlay", str(self._root), str(own / "upper"), work]
        return mount_steps(self._root, own, self._access, self._keeping, over)
