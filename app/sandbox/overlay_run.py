"""A run on an overlay: its files lie over the workspace's own path, in a mount namespace of their own."""

import uuid
from collections.abc import Mapping, Sequence

from app.sandbox.access import Access
from app.sandbox.changes import Pending
from app.sandbox.enclosed import run_enclosed
from app.sandbox.environment import MARKER
from app.sandbox.kept_versions import KeptVersions
from app.sandbox.limits import Limits
from app.sandbox.mounting import LayerFolders, mount_steps
from app.sandbox.process import Ended, Output
from app.sandbox.written_layer import WrittenLayer
from app.workspace.paths import Workspace


class OverlayRun(WrittenLayer):
    """The workspace with a layer over it, as long as its folders exist."""

    def __init__(
        self,
        workspace: Workspace,
        folders: LayerFolders,
        access: Access,
        variables: Mapping[str, str],
        pending: Pending,
        kept: KeptVersions,
        limits: Limits,
    ) -> None:
        """Nothing is written yet.

        Args:
            workspace: What is below.
            folders: What the layer is made of; they are empty.
            access: What else may be written or seen.
            variables: The environment of what runs.
            pending: What lies over the workspace.
            kept: Where versions of ignored files go that are not written.
            limits: Of the memory and the processes of each program.
        """
        super().__init__(workspace, folders.upper, pending, kept)
        self._folders = folders
        self._access = access
        self._variables = variables
        self._limits = limits

    def prepare(self) -> None:
        """Fill the layer. Raises OSError."""
        self._layer.chmod(self._root.stat().st_mode & 0o7777)
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
        steps = mount_steps(self._root, self._folders, self._access, self._keeping)
        environment = {**self._variables, MARKER: uuid.uuid4().hex}
        steps += ["folder", str(self._root / folder)]
        return await run_enclosed(
            steps, program, environment=environment, seconds=seconds, output=output, limits=self._limits
        )
