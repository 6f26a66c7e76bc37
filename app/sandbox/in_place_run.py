"""A run on the user's own files, which are restored after it."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.sandbox.access import DEVICES
from app.sandbox.changes import Change, Found, ThroughReport
from app.sandbox.enclosed import run_enclosed
from app.sandbox.environment import MARKER
from app.sandbox.guard import Guard
from app.sandbox.keeping import Keeping
from app.sandbox.limits import Limits
from app.sandbox.own_process import confine_steps, hide_memory
from app.sandbox.process import Ended, Output, run_process
from app.sandbox.process_tree import PLATFORM, end_tree


class InPlaceRun:
    """Runs programs in the workspace itself."""

    def __init__(
        self,
        guard: Guard,
        keeping: Keeping,
        writable: Sequence[Path],
        unreadable: Sequence[Path],
        variables: Mapping[str, str],
        limits: Limits,
        *,
        sockets: bool = False,
    ) -> None:
        """Use a guarded workspace.

        Args:
            guard: Locked, with all files copied and pending changes written.
            keeping: Judges the paths.
            writable: What programs may write besides the workspace, by Landlock.
            unreadable: What they may not read, by Landlock.
            variables: Their environment.
            limits: Of the memory and the processes of each program.
            sockets: Whether they may use Unix sockets.
        """
        self._guard = guard
        self._keeping = keeping
        self._writable = tuple(writable)
        self._unreadable = tuple(unreadable)
        self._variables = variables
        self._limits = limits
        self._sockets = sockets

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> Ended:
        """Run a program; raises StartFailed, and OSError where the system can't bound it."""
        marker = uuid.uuid4().hex
        environment = {**self._variables, MARKER: marker}
        where = self._guard.root / folder
        if PLATFORM == "linux":
            hide_memory()
            steps = confine_steps(
                (self._guard.root, *self._writable), DEVICES, self._unreadable, sockets=self._sockets
            )
            return await run_enclosed(
                [*steps, "folder", str(where)],
                program,
                environment=environment,
                seconds=seconds,
                output=output,
                limits=self._limits,
                hold=(self._guard.lock,),
            )

        async def end(process: asyncio.subprocess.Process) -> bool:
            return await end_tree(process, marker)

        return await run_process(
            program, folder=where, environment=environment, seconds=seconds, output=output, end=end
        )

    async def changes(self) -> Found:
        """What has changed so far. Raises OSError."""
        return await asyncio.to_thread(self._guard.look, self._keeping)

    def read(self, path: str, limit: int) -> Change:
        """One of the changes with its contents. Raises OSError."""
        return self._guard.read(path, limit)

    async def write_through(self, paths: Sequence[str], *, dry: bool = False) -> ThroughReport:
        """Report the ignored paths that have changed; they are written already."""
        return ThroughReport() if dry else ThroughReport(await asyncio.to_thread(self._guard.changed_ignored))
