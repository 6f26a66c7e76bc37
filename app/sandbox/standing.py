"""A program that runs for long, with pipes to it; nothing of it is left when it is ended, or when signoff ends."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from app.sandbox.enclosed import ENTER, StepFailed, end_enclosed
from app.sandbox.environment import MARKER
from app.sandbox.limits import Limits
from app.sandbox.process import StartFailed
from app.sandbox.process_tree import PLATFORM, end_tree, kill_strays
from app.sandbox.uncancelled import to_its_end

PIPE_LIMIT = 64 * 1024
"""Bytes of its output that wait to be read; with more it has to wait itself."""
PATIENCE = 5.0
"""Seconds in which a layer is mounted again, or a program stands still, which takes a millisecond."""


class StandingProcess:
    """One such program."""

    def __init__(
        self, process: asyncio.subprocess.Process, marker: str, report: asyncio.StreamReader | None, limits: Limits
    ) -> None:
        self._process = process
        self._limits = limits
        self._marker = marker
        self._report = report
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    @property
    def pid(self) -> int:
        """The process that signoff started, around which the others are."""
        return self._process.pid

    async def look_anew(self) -> None:
        """Have the program see its layer as it is now. Raises OSError where it has ended, or the system will not."""
        await self._ask(signal.SIGUSR2, b"fresh")

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Have nothing of the program run meanwhile, so that what it has written stays what it is while it is read.

        Raises:
            OSError: It has ended, or does not stand still.
        """
        await to_its_end(self._ask(signal.SIGRTMIN, b"still"))
        try:
            yield
        finally:
            with suppress(OSError):
                await to_its_end(self._ask(signal.SIGRTMIN + 1, b"going"))

    async def _ask(self, number: int, word: bytes) -> None:
        """Send what is around the program a signal, and wait for its answer. Raises OSError."""
        if self._report is None or self._process.returncode is not None:
            raise ProcessLookupError("it has ended")
        os.kill(self._process.pid, number)
        try:
            told = (await asyncio.wait_for(self._report.readline(), PATIENCE)).split()
        except TimeoutError as error:
            raise TimeoutError("what is around it does not answer") from error
        if len(told) != 2 or told[0] != word:
            raise ProcessLookupError("it has ended")
        if code := int(told[1]):
            raise OSError(code, os.strerror(code))

    async def end(self) -> None:
        """End all of it; it may have ended."""
        if not self.stdin.transport.is_closing():
            # What it has not read yet is of no use to anyone.
            self.stdin.transport.abort()
        if PLATFORM == "linux":
            await end_enclosed(self._process)
            if (self._process.returncode or 0) < 0:
                # The watcher was killed, which the program itself can do where it is in no namespace.
                await asyncio.to_thread(kill_strays, self._marker)
        else:
            await end_tree(self._process, self._marker)

    async def drain(self) -> None:
        """Read what is left of its output, to no end but that of the pipes; it has ended, and nobody else reads."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                for pipe in (self.stdout, self.stderr):
                    while await pipe.read(PIPE_LIMIT):
                        continue

    async def ended(self) -> str:
        """Why it has ended, in words; waits for it."""
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
    steps: Sequence[str], program: Sequence[str], *, folder: Path, environment: Mapping[str, str], limits: Limits
) -> StandingProcess:
    """Start a program.

    Args:
        steps: Of `enter.py`, where that works; without any it runs as any other.
        program: The absolute path of the program, and its arguments.
        folder: Where.
        environment: All of its variables, the marker among them.
        limits: Of its memory and its processes.

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
        # Before it is started: from there on nothing may come between it and who ends it.
        connecting = asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(report), pipe)
        await connecting
        around = [sys.executable, "-I", "-S", str(ENTER), str(writer), str(os.getpid())]
        enclosed = [*around, *limits.steps(), *steps, "folder", str(folder), "--", *program]
        process = await _start(enclosed, Path("/"), environment, (writer,))
    finally:
        # Where nothing was started this was the last to hold it, and whoever reads lets go at its end.
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
