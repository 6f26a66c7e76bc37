"""A run in place, where the system allows nothing better: the command works on the user's own files."""

import asyncio
import os
import uuid
from collections.abc import Sequence

from app.sandbox.changes import Change, Found
from app.sandbox.enclosed import run_enclosed
from app.sandbox.environment import command_environment
from app.sandbox.process import Ended, Output, run_process
from app.sandbox.process_tree import PLATFORM, end_tree
from app.workspace.paths import Workspace


class InPlaceRun:
    """The workspace itself."""

    def __init__(self, workspace: Workspace) -> None:
        self._root = workspace.root

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> Ended:
        """Run a program; raises StartFailed."""
        marker = uuid.uuid4().hex
        environment = command_environment(os.environ, marker)
        if PLATFORM == "linux":
            steps = ["folder", str(self._root / folder)]
            return await run_enclosed(steps, program, environment=environment, seconds=seconds, output=output)

        async def end(process: asyncio.subprocess.Process) -> bool:
            return await end_tree(process, marker)

        return await run_process(
            program,
            folder=self._root / folder,
            environment=environment,
            seconds=seconds,
            output=output,
            end=end,
        )

    async def changes(self) -> Found:
        """Nothing is known of them."""
        return Found()

    def read(self, path: str, limit: int) -> Change:
        """Nothing has been found."""
        raise FileNotFoundError(path)

    async def write_through(self, paths: Sequence[str]) -> None:
        """It is written already."""
