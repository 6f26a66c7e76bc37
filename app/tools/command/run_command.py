"""`run_command`: a shell command, once the user has said yes to exactly this one."""

import asyncio
import os
import shutil
import signal
import time
import uuid
from asyncio.subprocess import DEVNULL
from dataclasses import replace
from pathlib import Path
from typing import IO

from pydantic import Field

from app.tools.command.environment import command_environment
from app.tools.command.output import HeadAndTail, LiveOutput, PlainText
from app.tools.command.process_tree import end_tree
from app.tools.contract import Confirmation, Rejected, Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.targets import explained, locate

DEFAULT_SECONDS = 120
MOST_SECONDS = 600
DRAIN_SECONDS = 0.5
"""How long output is awaited once the command has ended but something it started keeps the pipe open."""
_CHUNK = 64 * 1024


class RunCommandArguments(ToolArguments):
    """Arguments of `run_command`."""

    command: str = Field(min_length=1, description="The command line, for a POSIX shell.")
    folder: str | None = Field(
        default=None, description="Where to run it, relative to the workspace root. Default: the root."
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=MOST_SECONDS,
        description=f"Time limit. Default: {DEFAULT_SECONDS}, at most {MOST_SECONDS}.",
    )


class RunCommand(Tool):
    """Asks first, then runs the command in a session of its own and leaves nothing running."""

    name = "run_command"
    kind = "command"
    Arguments = RunCommandArguments
    description = (
        "Run a shell command in the workspace, for instance to run tests. The user is shown the exact command and "
        "must allow it first. There is no input and no terminal; everything that it starts ends with it. Edits that "
        "are staged are not on disk yet, so a command doesn't see them. Don't change files by commands: propose "
        "edits. The result has the exit code and the output; of long output both ends."
    )

    async def run(self, arguments: RunCommandArguments, context: ToolContext) -> ToolOutput:
        """Ask, run, and wait for the end."""
        if "\0" in arguments.command:
            raise ToolError("The command has a NUL character in it.")
        folder = locate(context.workspace, arguments.folder or ".")
        _check_folder(context, folder)
        answer = await context.confirm(Confirmation("command", "Run a command?", arguments.command, folder))
        if not answer.allowed:
            raise Rejected("The user did not allow this command. It did not run.", answer.feedback)
        _check_folder(context, folder)
        with explained(folder):
            where = context.workspace.absolute(folder)
        limit = arguments.timeout_seconds or DEFAULT_SECONDS
        output = await _Run(arguments.command, where, limit, context).result()
        if answer.unasked:
            return replace(output, summary=f"{output.summary}, allowed: {answer.unasked}")
        return output


class _Run:
    """One running command."""

    def __init__(self, command: str, where: Path, limit: int, context: ToolContext) -> None:
        self._command = command
        self._where = where
        self._limit = limit
        self._root = context.workspace.root
        self._marker = uuid.uuid4().hex
        self._plain = PlainText()
        self._kept = HeadAndTail()
        self._live = LiveOutput(context.output)

    async def result(self) -> ToolOutput:
        """Run to the end, the time limit, or cancellation; in each case nothing survives."""
        started = time.monotonic()
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            try:
                process = await self._start(writer)
            finally:
                os.close(writer)
            reading = asyncio.ensure_future(self._read(pipe))
            timed_out = left_running = False
            try:
                # The end of the process, not of its output: what it leaves running may hold the pipe open.
                await asyncio.wait_for(process.wait(), self._limit)
                await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            except TimeoutError:
                timed_out = True
            finally:
                try:
                    left_running = await end_tree(process, self._marker)
                    await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
                finally:
                    reading.cancel()
                    self._live.flush()
                    # The reader must let go of the pipe before the pipe is closed.
                    await asyncio.wait({reading})
        self._take(b"", final=True)
        self._live.flush()
        return self._output(process.returncode or 0, time.monotonic() - started, timed_out, left_running)

    async def _start(self, output: int) -> asyncio.subprocess.Process:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *_shell(self._root),
                self._command,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._where,
                env=command_environment(os.environ, self._marker),
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The process may exist by now, so wait until there is something to end.
            await asyncio.wait({starting})
            if not starting.exception():
                await end_tree(starting.result(), self._marker)
            raise
        except OSError as error:
            raise ToolError(f"The command could not be started: {error.strerror or error}.") from error

    async def _read(self, pipe: IO[bytes]) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_CHUNK)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while data := await reader.read(_CHUNK):
                self._take(data)
        finally:
            transport.close()

    def _take(self, data: bytes, *, final: bool = False) -> None:
        text = self._plain.feed(data, final=final)
        self._kept.feed(text)
        self._live.feed(text)

    def _output(self, code: int, seconds: float, timed_out: bool, left_running: bool) -> ToolOutput:
        if timed_out:
            state, summary = f"stopped after {self._limit} s, its time limit", "timed out"
        elif code < 0:
            state = summary = f"ended by signal {_signal_name(-code)}"
        else:
            state, summary = f"exit code {code}", f"exit {code}"
        head = f"[{state}; {seconds:.1f} s]"
        if left_running and not timed_out:
            head += "\n[processes that it left running were ended]"
        text = self._kept.text()
        lines = self._kept.lines
        summary += f", {lines} line{'' if lines == 1 else 's'}"
        told = f"{head}\n{text}" if text else f"{head}\n[no output]"
        return ToolOutput(told, summary, failed=timed_out or code != 0)


def _check_folder(context: ToolContext, folder: str) -> None:
    with explained(folder):
        kind = context.workspace.kind(folder)
    if kind != "folder":
        raise ToolError(f"{folder} is not a folder on disk." if kind != "missing" else f"{folder} does not exist.")


def _shell(root: Path) -> list[str]:
    """bash, since models write for it, else the system's shell; never one that lies in the workspace."""
    bash = shutil.which("bash")
    if bash and Path(bash).is_absolute() and not Path(bash).resolve().is_relative_to(root):
        return [bash, "--noprofile", "--norc", "-c"]
    return ["/bin/sh", "-c"]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
