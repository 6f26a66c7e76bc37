"""Starts programs that run for long, with pipes to them, and ends them with all that they have started."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from app.sandbox.enclosed_process import ProcessLimits, StepFailed, end_enclosed, enter_command
from app.sandbox.environment import MARKER
from app.sandbox.process import StartFailed, to_its_end
from app.sandbox.process_tree import PLATFORM, end_tree, kill_strays

PIPE_LIMIT = 64 * 1024
"""Bytes of its output that are buffered; with more, its writes block."""
PATIENCE = 5.0
"""Seconds to wait for a layer to be remounted, or a program to stand still; usually a millisecond."""


class StandingProcess:
    """A running program, and the pipes to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        marker: str,
        report: asyncio.StreamReader | None,
        limits: ProcessLimits,
    ) -> None:
        self._process = process
        self._limits = limits
        self._marker = marker
        self._report = report
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    @property
    def pid(self) -> int:
        """The process that signoff started, the ancestor of all others of the program."""
        return self._process.pid

    async def look_anew(self) -> None:
        """Remount the program's layer, so that it sees the current files. Raises OSError, also if it has ended."""
        await self._ask(signal.SIGUSR2, b"fresh")

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Stop all processes of the program meanwhile, so that its files don't change while they are read.

        Raises:
            OSError: It has ended, or can't be stopped.
        """
        await to_its_end(self._ask(signal.SIGRTMIN, b"still"))
        try:
            yield
        finally:
            with suppress(OSError):
                await to_its_end(self._ask(signal.SIGRTMIN + 1, b"going"))

    async def _ask(self, number: int, word: bytes) -> None:
        """Send a signal to the watcher of `enter.py`, and wait for its answer. Raises OSError."""
        if self._report is None or self._process.returncode is not None:
            raise ProcessLookupError("it has ended")
        os.kill(self._process.pid, number)
        try:
            told = (await asyncio.wait_for(self._report.readline(), PATIENCE)).split()
        except TimeoutError as error:
            raise TimeoutError("its watcher does not answer") from error
        if len(told) != 2 or told[0] != word:
            raise ProcessLookupError("it has ended")
        if code := int(told[1]):
            raise OSError(code, os.strerror(code))

    async def end(self) -> None:
        """End all of it; it may have ended."""
        if not self.stdin.transport.is_closing():
            # It need not read its input to the end.
            self.stdin.transport.abort()
        if PLATFORM == "linux":
            await end_enclosed(self._process)
            if (self._process.returncode or 0) < 0:
                # Without a namespace, the program itself can kill the watcher.
                await asyncio.to_thread(kill_strays, self._marker)
        else:
            await end_tree(self._process, self._marker)

    async def drain(self) -> None:
        """Read and discard the rest of its output; it has ended, and nobody else reads."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                for pipe in (self.stdout, self.stderr):
                    while await pipe.read(PIPE_LIMIT):
                        continue

    async def ended(self) -> str:
        """Wait for its end; returns the reason in words."""
        code = await self._process.wait()
        if self._report is None:
            return f"exit code {code}"
        match (await self._report.read()).decode("utf-8", "replace").split():
            case [*_, "failed", step, number]:
                return str(StepFailed(step, int(number)))
            case [*_, "exit", status, _, limit, _]:
                code = os.waitstatus_to_exitcode(int(status))
                if reason := self._limits.hit(limit, code):
                    return f"stopped: {reason}"
                return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
        return "it was killed"


async def start_standing(
    steps: Sequence[str],
    program: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    limits: ProcessLimits,
) -> StandingProcess:
    """Start a program.

    Args:
        steps: The steps of `enter.py`; without any it runs without a namespace.
        program: The absolute path of the program, and its arguments.
        folder: The folder to run it in.
        environment: All of its variables, the marker among them.
        limits: Limits of its memory and its processes.

    Raises:
        StartFailed: The system would not start it.
    """
    marker = environment[MARKER]
    if PLATFORM != "linux":
        return StandingProcess(await _start(program, folder, environment), marker, None, limits)
    reader, writer = os.pipe()
    report = asyncio.StreamReader()
    pipe = os.fdopen(reader, "rb", buffering=0)
    try:
        # Before the start: an error after it would leave a program that nobody ends.
        connecting = asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(report), pipe)
        await connecting
        enclosed = enter_command(writer, [*limits.steps(), *steps, "folder", str(folder)], program)
        process = await _start(enclosed, Path("/"), environment, (writer,))
    finally:
        # If nothing was started this closes the pipe, and the reader sees its end.
        os.close(writer)
    return StandingProcess(process, marker, report, limits)


async def _start(
    program: Sequence[str], folder: Path, environment: Mapping[str, str], keep_open: Sequence[int] = ()
) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *program,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=PIPE_LIMIT,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
            pass_fds=keep_open,
        )
    except OSError as error:
        raise StartFailed(error.strerror or str(error)) from error
