"""Start a server's program: on a layer, read-only, or without restrictions."""

import asyncio
import json
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from app.config.config_tables import McpServerTable
from app.mcp_client.configured_servers import WriteAccess
from app.mcp_client.json_rpc import Message, RejectedRpcMessage
from app.mcp_client.mcp_connection import (
    MAX_SERVER_MESSAGE_BYTES,
    ConnectionLost,
    HandleNotification,
    McpConnection,
    parse_server_message,
)
from app.sandbox.captured_changes import PendingFiles
from app.sandbox.confinement import hide_process_memory
from app.sandbox.enclosed_process import PersistentProcess, start_persistent_process
from app.sandbox.environment import add_git_settings_for_overlay, command_environment
from app.sandbox.outside_access import files_in_command
from app.sandbox.overlay_layer import PersistentProcessOverlay
from app.sandbox.process import MARKER_VARIABLE, StartFailed, run_shielded
from app.sandbox.sandbox import Sandbox

_CHUNK_BYTES = 64 * 1024
MAX_UNREAD_BYTES = 32 * 1024 * 1024
"""Maximum number of buffered bytes that the program has not read yet."""
_END_SECONDS = 5.0
"""Seconds in which a program must end after closing its output."""
_LOG_PAUSE_SECONDS = 0.005
"""Seconds between two reads of a fast log, to limit its cost."""


class StdioConnection(McpConnection):
    """Connection to a program by its standard streams; `log` gets output that is not a message."""

    def __init__(
        self,
        process: PersistentProcess,
        root: Path,
        on_notification: HandleNotification,
        log: Callable[[bytes], None],
    ) -> None:
        super().__init__(root, on_notification)
        self._process = process
        self._log = log
        self.end_reason = ""
        """Why the connection has ended; empty before."""
        self._reading_tasks = [asyncio.ensure_future(work) for work in (self._read_messages(), self._read_log())]
        self.ended = asyncio.Event()
        """Set when the connection has ended."""

    async def _send_request(self, message: Message, answer: "asyncio.Future[Message]") -> None:
        await self._send(message)

    async def _send(self, message: Message) -> None:
        self._write(message)
        try:
            await self._process.stdin.drain()
        except OSError as error:
            raise ConnectionLost(self.end_reason or "it does not accept input any more") from error

    def _write(self, message: Message) -> None:
        if self.ended.is_set():
            # The program may still run, but it would never answer.
            raise ConnectionLost(self.end_reason)
        pipe = self._process.stdin
        if pipe.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            raise ConnectionLost("it does not read its input")
        pipe.write(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")

    async def close(self) -> None:
        """Stop the program with all processes that it has started."""
        self._mark_ended("it was stopped")
        await self._process.terminate()
        for task in self._reading_tasks:
            task.cancel()
        await asyncio.wait(self._reading_tasks)
        await self._process.discard_output()

    async def _read_messages(self) -> None:
        reason = ""
        try:
            async for line in self._iterate_lines():
                await self._handle_line(line)
        except (ConnectionLost, OSError) as error:
            reason = str(error)
        except Exception as error:
            # After a defect of ours, waiting callers must get an error too.
            reason = f"{type(error).__name__}: {error}"
        if not reason:
            with suppress(TimeoutError):
                reason = f"it ended: {await asyncio.wait_for(self._process.wait_for_end(), _END_SECONDS)}"
        self._mark_ended(reason or "it closed its output")
        await self._process.terminate()

    async def _iterate_lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the program. Raises ConnectionLost for a line that is too long."""
        buffer = bytearray()
        while chunk := await self._process.stdout.read(_CHUNK_BYTES):
            searched = len(buffer)
            buffer += chunk
            while (end := buffer.find(b"\n", searched)) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                searched = 0
                yield line
            if len(buffer) > MAX_SERVER_MESSAGE_BYTES:
                raise ConnectionLost(f"it sent a line of more than {MAX_SERVER_MESSAGE_BYTES // 1024**2} MB")
            # Let other tasks run, however fast the program writes.
            await asyncio.sleep(0)

    async def _handle_line(self, line: bytes) -> None:
        try:
            message = await parse_server_message(line)
        except RejectedRpcMessage:
            # Not a message: programs print banners to stdout too.
            self._log(line[:2000] + b"\n")
            message = None
        for answer in self._handle_messages(message, len(line)):
            # Don't wait until it is written: a program that never reads would block this task.
            self._write(answer)

    async def _read_log(self) -> None:
        while chunk := await self._process.stderr.read(_CHUNK_BYTES):
            self._log(chunk)
            if len(chunk) > _CHUNK_BYTES // 4:
                await asyncio.sleep(_LOG_PAUSE_SECONDS)

    def _mark_ended(self, reason: str) -> None:
        self.end_reason = self.end_reason or reason
        self._fail_open_requests(self.end_reason)
        self.ended.set()


class RunningMcpServer(Struct, frozen=True):
    """A running program of an MCP server, with its connection and the layer that holds the files it writes."""

    connection: StdioConnection
    process: PersistentProcess
    layer: PersistentProcessOverlay | None
    _stack: AsyncExitStack

    async def replace_overlay(self, pending: PendingFiles) -> list[str]:
        """Show the program the current workspace with these pending changes.

        Returns:
            The paths that it has written since the last `read_changes`; these changes are discarded.

        Raises:
            OSError: The layer could not be replaced.
        """
        if self.layer is None:
            return []
        async with self.process.paused():
            unseen = await asyncio.to_thread(self.layer.unseen_paths)
            await run_shielded(asyncio.to_thread(self.layer.replace_contents, pending))
            await self.process.remount_layer()
        return unseen

    @asynccontextmanager
    async def read_changes(self) -> AsyncIterator[PersistentProcessOverlay]:
        """Yield the files that the program has written, as a snapshot. Raises `OSError`."""
        assert self.layer is not None
        async with self.process.paused():
            yield self.layer
            await asyncio.to_thread(self.layer.mark_seen)

    async def close(self) -> None:
        """Stop the program, and discard its layer."""
        await self._stack.aclose()


async def start_server_program(
    name: str,
    table: McpServerTable,
    write_access: WriteAccess,
    sandbox: Sandbox,
    root: Path,
    environment: Mapping[str, str],
    *,
    on_notification: HandleNotification,
    log: Callable[[bytes], None],
) -> RunningMcpServer:
    """Start a server's program.

    Args:
        environment: signoff's environment; the program gets it without secrets.

    Raises:
        ConnectionLost: The program could not be started; the message says why.
    """
    folder = _resolve_folder(root, table.cwd)
    path = table.env.get("PATH") or environment.get("PATH") or os.defpath
    program = [_find_program(table.command, folder, path), *table.args]
    hide_process_memory()
    async with AsyncExitStack() as stack:
        layer: PersistentProcessOverlay | None = None
        steps: list[str] = []
        try:
            if write_access is WriteAccess.LAYER:
                files = await asyncio.to_thread(lambda: list(files_in_command(program, folder)))
                layer = await stack.enter_async_context(
                    sandbox.open_persistent(name, table.writable, environment, files)
                )
                steps, variables = layer.mount_steps(), layer.variables
            elif write_access is WriteAccess.READ_ONLY:
                steps, variables = await stack.enter_async_context(
                    sandbox.open_confined(name, table.writable, environment)
                )
            else:
                variables = add_git_settings_for_overlay(
                    command_environment(environment, "", sandbox.permissions.variables)
                )
            variables = {**variables, **table.env, MARKER_VARIABLE: uuid.uuid4().hex}
            process = await start_persistent_process(
                steps, program, folder=folder, environment=variables, root=root, limits=sandbox.limits
            )
        except (OSError, StartFailed, ValueError) as error:
            raise ConnectionLost(f"it could not be started: {error}") from error
        connection = StdioConnection(process, root, on_notification, log)
        stack.push_async_callback(connection.close)
        return RunningMcpServer(connection, process, layer, stack.pop_all())


def _resolve_folder(root: Path, folder: str) -> Path:
    """Return the working folder. Raises ConnectionLost."""
    try:
        return root / Path(folder).expanduser()
    except RuntimeError as error:
        raise ConnectionLost(f"there is no folder {folder!r}") from error


def _find_program(command: str, folder: Path, path: str) -> str:
    """Return the absolute path of a program. Raises ConnectionLost."""
    program = None
    # A name with a NUL, or with an unknown user's home, is not found.
    with suppress(ValueError, RuntimeError):
        path_or_name = Path(command).expanduser()
        program = shutil.which(folder / path_or_name) if "/" in command else shutil.which(command, path=path)
    if program is None:
        raise ConnectionLost(f"there is no program {command!r}")
    return str(Path(program).absolute())
