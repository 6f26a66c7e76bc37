"""Starts a server's program where it belongs: on a layer, kept from writing, or as it is."""

import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.config.server_table import ServerTable
from app.sandbox.access import named_files
from app.sandbox.changes import Pending
from app.sandbox.environment import MARKER, command_environment, with_git_settings
from app.sandbox.own_process import hide_memory
from app.sandbox.process import StartFailed
from app.sandbox.sandbox import Sandbox
from app.sandbox.standing import StandingProcess, start_standing
from app.sandbox.standing_layer import StandingLayer
from app.sandbox.uncancelled import to_its_end
from app.servers.connection import ConnectionLost, Notified
from app.servers.reach import Reach
from app.servers.stdio import ProgramConnection


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs, and what is to be undone when it is ended."""

    connection: ProgramConnection
    process: StandingProcess
    layer: StandingLayer | None
    _stack: AsyncExitStack

    async def lay(self, pending: Pending) -> list[str]:
        """Have it see the workspace as it is now with these changes over it.

        Returns:
            The paths that it has written since anyone has looked, which are thrown away.

        Raises:
            OSError: That can't be done.
        """
        if self.layer is None:
            return []
        async with self.process.still():
            unseen = await asyncio.to_thread(self.layer.unseen)
            await to_its_end(asyncio.to_thread(self.layer.lay, pending))
            await self.process.look_anew()
        return unseen

    @asynccontextmanager
    async def read(self) -> AsyncIterator[StandingLayer]:
        """What it has written, which stays as it is meanwhile. Raises OSError."""
        assert self.layer is not None
        async with self.process.still():
            yield self.layer
            await asyncio.to_thread(self.layer.note_seen)

    async def close(self) -> None:
        """End it, and throw its layer away."""
        await self._stack.aclose()


async def start_program(
    name: str,
    table: ServerTable,
    reach: Reach,
    sandbox: Sandbox,
    root: Path,
    environment: Mapping[str, str],
    *,
    notified: Notified,
    log: Callable[[bytes], None],
) -> Program:
    """Start a server.

    Args:
        name: Of the server.
        table: What to start, with all variables replaced.
        reach: How far its writes may go.
        sandbox: Where layers come from.
        root: The workspace.
        environment: signoff's own, of which it gets what is no secret.
        notified: Takes what it tells unasked.
        log: Takes what it prints.

    Raises:
        ConnectionLost: It could not be started; the message says why.
    """
    folder = _folder(root, table.cwd)
    path = table.env.get("PATH") or environment.get("PATH") or os.defpath
    program = [_found(table.command, folder, path), *table.args]
    hide_memory()
    async with AsyncExitStack() as stack:
        layer: StandingLayer | None = None
        steps: list[str] = []
        try:
            if reach is Reach.LAYER:
                files = await asyncio.to_thread(lambda: list(named_files(program, folder)))
                layer = await stack.enter_async_context(sandbox.stand(name, table.writable, environment, files))
                steps, variables = layer.steps(), layer.variables
            elif reach is Reach.READ_ONLY:
                steps, variables = await stack.enter_async_context(sandbox.confine(name, table.writable, environment))
            else:
                variables = with_git_settings(command_environment(environment, "", sandbox.permissions.variables))
            variables = {**variables, **table.env, MARKER: uuid.uuid4().hex}
            process = await start_standing(
                steps, program, folder=folder, environment=variables, limits=sandbox.limits
            )
        except (OSError, StartFailed, ValueError) as error:
            raise ConnectionLost(f"it could not be started: {error}") from error
        connection = ProgramConnection(process, root, notified, log)
        stack.push_async_callback(connection.close)
        return Program(connection, process, layer, stack.pop_all())


def _folder(root: Path, wanted: str) -> Path:
    """Where it runs. Raises ConnectionLost."""
    try:
        return root / Path(wanted).expanduser()
    except RuntimeError as error:
        raise ConnectionLost(f"there is no folder {wanted!r}") from error


def _found(command: str, folder: Path, path: str) -> str:
    """The absolute path of a program. Raises ConnectionLost."""
    found = None
    # What holds a NUL, or begins with the home of nobody, is the name of nothing.
    with suppress(ValueError, RuntimeError):
        wanted = Path(command).expanduser()
        found = shutil.which(folder / wanted) if "/" in command else shutil.which(command, path=path)
    if found is None:
        raise ConnectionLost(f"there is no program {command!r}")
    return str(Path(found).absolute())
