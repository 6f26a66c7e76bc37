"""Starts commands and servers through `sandbox_init.py`, and ends them together with all their descendants."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from app.sandbox.environment import without_search_paths_into
from app.sandbox.process import (
    GRACE_SECONDS,
    MARKER_VARIABLE,
    PLATFORM,
    Output,
    ProcessExit,
    StartFailed,
    describe_exit,
    end_process_tree,
    kill_marked_processes,
    run_process,
    run_shielded,
)

DEFAULT_MAX_PROCESSES = 2_000
"""Default limit of processes and threads."""
_MEGABYTE = 1024**2


class ProcessResourceLimits(Struct, frozen=True):
    """Resource limits of one program and all its descendants."""

    memory: int
    """Bytes, for all its processes together."""
    processes: int
    """Processes and threads."""

    def steps(self) -> list[str]:
        """Return the steps of `sandbox_init.py` that set the limits."""
        return ["limits", str(self.memory), str(self.processes)]

    def describe_reached_limit(self, name: str, code: int) -> str:
        """Return a description of the limit that a program has reached; empty if it has reached none.

        Args:
            name: The limit's name in the report of `sandbox_init.py`.
            code: The program's exit code; minus the signal number if a signal ended it.
        """
        match name:
            case "memory":
                return f"it used more than {_format_size(self.memory)} of memory, command_memory in config.toml"
            case "processes":
                return f"it had {self.processes:,} processes and threads, command_processes in config.toml"
            case "machine":
                return "the machine had no memory left, so the kernel ended it or a part of it"
        # A shell reports a signal as an exit code.
        return "it wrote a file of more than 100 GB" if code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ) else ""


def process_limits(megabytes: int | None = None, processes: int = DEFAULT_MAX_PROCESSES) -> ProcessResourceLimits:
    """Return the configured limits, with defaults for those that are not set.

    Args:
        megabytes: Limit of the memory; by default three quarters of the machine's memory.
        processes: Limit of processes and threads.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = machine * 3 // 4 if megabytes is None else min(megabytes * _MEGABYTE, machine)
    return ProcessResourceLimits(memory, processes)


def _format_size(number: int) -> str:
    return f"{number / 1024**3:.3g} GB" if number >= 1024**3 else f"{number // _MEGABYTE} MB"


KILL_SECONDS = 15.0
"""Seconds in which the watcher ends all processes, even if the program keeps starting new ones."""
_LOADER = (
    f"import sys; sys.path.append({str(Path(__file__).parent)!r}); "
    "from sandbox_init import main; sys.exit(main(sys.argv[1:]))"
)
"""Imports `sandbox_init.py` as a module, so that Python caches its bytecode; a script is compiled at each start."""


class SandboxStepFailed(StartFailed):
    """A preparation step before the program failed; the program has not run."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(f"{step}: {os.strerror(number)}" if number else step)
        self.step = step


def make_sandbox_command(
    report: int, steps: Sequence[str], program: Sequence[str], environment: Mapping[str, str], root: Path
) -> tuple[list[str], dict[str, str]]:
    """Return the command line that executes steps of `sandbox_init.py` and then runs a program, and its environment.

    Args:
        report: Descriptor to which `sandbox_init.py` writes its report.
        steps: Steps and their arguments, as `sandbox_init.py` reads them.
        program: The absolute path of the program, and its arguments.
        environment: The variables of the program; `sandbox_init.py` runs without search paths into the workspace.
        root: The workspace.
    """
    own = without_search_paths_into(environment, root)
    restored = [
        word for name, value in environment.items() if own[name] != value for word in ("variable", name, value)
    ]
    # -I and -S ignore Python's environment variables and site-packages: it starts in a few milliseconds.
    start = [sys.executable, "-I", "-S", "-c", _LOADER, str(report), str(os.getpid())]
    return [*start, *restored, *steps, "--", *program], own


async def run_enclosed(
    steps: Sequence[str],
    program: Sequence[str],
    *,
    environment: Mapping[str, str],
    root: Path,
    seconds: float,
    output: Output,
    limits: ProcessResourceLimits,
    keep_open: Sequence[int] = (),
) -> ProcessExit:
    """Run a program after the steps of `sandbox_init.py`, and wait for its end.

    Args:
        steps: Steps and their arguments, as `sandbox_init.py` reads them.
        program: The absolute path of the program, and its arguments.
        environment: All of its variables, including `MARKER_VARIABLE`.
        root: The workspace.
        keep_open: Descriptors that stay open until all processes of the program have ended, even if signoff ends
            first.

    Raises:
        SandboxStepFailed: A step failed.
        StartFailed: The program could not be started.
    """
    reader, writer = os.pipe()
    try:
        try:
            enclosed, own = make_sandbox_command(writer, [*limits.steps(), *steps], program, environment, root)
            started = await run_process(
                enclosed,
                folder=Path("/"),
                environment=own,
                seconds=seconds,
                output=output,
                end_process=end_enclosed_process_if_running,
                keep_open=(writer, *keep_open),
            )
        finally:
            os.close(writer)
        # All processes that could write the report have ended.
        report = os.read(reader, 4096).decode("utf-8", "replace").split()
    finally:
        os.close(reader)
    match report:
        case ["exit", status, left, limit, refused]:
            code = os.waitstatus_to_exitcode(int(status))
            hit = limits.describe_reached_limit(limit, code)
            return ProcessExit(code, started.seconds, started.timed_out, left == "1", hit, refused == "1")
        case ["failed", step, number]:
            raise SandboxStepFailed(step, int(number))
        case _:
            # Without a filter and with a Landlock older than version 6, the program can kill the watcher.
            await asyncio.to_thread(kill_marked_processes, environment[MARKER_VARIABLE])
            return ProcessExit(-signal.SIGKILL, started.seconds, started.timed_out, True)


async def end_enclosed_process_if_running(process: asyncio.subprocess.Process) -> bool:
    """Send SIGTERM to all processes, later SIGKILL, and wait until all are dead; return whether it was running."""
    if process.returncode is not None:
        return False
    try:
        _send_signal(process.pid, signal.SIGTERM, group=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    finally:
        # A second cancellation must not leave a process running: sending the signal needs no `await`.
        if process.returncode is None:
            _send_signal(process.pid, signal.SIGUSR1)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), KILL_SECONDS)
    if process.returncode is None:
        _send_signal(process.pid, signal.SIGKILL, group=True)
        await process.wait()
    return True


def _send_signal(number_of: int, number: signal.Signals, *, group: bool = False) -> None:
    with suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(number_of, number)


_MAX_BUFFERED_BYTES = 64 * 1024
"""Buffer size for the program's output in bytes; the program blocks while the buffer is full."""
PAUSE_SECONDS = 5.0
"""Seconds to wait until a layer is remounted or a program is paused; usually it takes a millisecond."""


class PersistentProcess:
    """A program that keeps running until `terminate`, and the pipes to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        marker: str,
        report: asyncio.StreamReader | None,
        limits: ProcessResourceLimits,
    ) -> None:
        self._process = process
        self._limits = limits
        self._marker = marker
        self._report = report
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    @property
    def pid(self) -> int:
        """Return the id of the process that signoff started; all other processes of the program descend from it."""
        return self._process.pid

    async def remount_layer(self) -> None:
        """Remount the layer, so that the program sees the current files. Raises OSError, also if it has ended."""
        await self._signal_watcher(signal.SIGUSR2, b"fresh")

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Stop all processes of the program for the `with` block, so that its files stay the same. Raises OSError."""
        await run_shielded(self._signal_watcher(signal.SIGRTMIN, b"still"))
        try:
            yield
        finally:
            with suppress(OSError):
                await run_shielded(self._signal_watcher(signal.SIGRTMIN + 1, b"going"))

    async def _signal_watcher(self, number: int, word: bytes) -> None:
        """Send a signal to the watcher in `sandbox_init.py`, and wait for its answer. Raises OSError."""
        if self._report is None or self._process.returncode is not None:
            raise ProcessLookupError("it has ended")
        os.kill(self._process.pid, number)
        try:
            told = (await asyncio.wait_for(self._report.readline(), PAUSE_SECONDS)).split()
        except TimeoutError as error:
            raise TimeoutError("its watcher does not answer") from error
        if len(told) != 2 or told[0] != word:
            raise ProcessLookupError("it has ended")
        if code := int(told[1]):
            raise OSError(code, os.strerror(code))

    async def terminate(self) -> None:
        """End the program with all its processes; does nothing if it has ended already."""
        if not self.stdin.transport.is_closing():
            # Input that the program has not read yet is discarded.
            self.stdin.transport.abort()
        if PLATFORM == "linux":
            await end_enclosed_process_if_running(self._process)
            if (self._process.returncode or 0) < 0:
                # Without a namespace, the program can kill the watcher.
                await asyncio.to_thread(kill_marked_processes, self._marker)
        else:
            await end_process_tree(self._process, self._marker)

    async def discard_output(self) -> None:
        """Read and discard the rest of its output; call it after the program has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_SECONDS):
                for pipe in (self.stdout, self.stderr):
                    while await pipe.read(_MAX_BUFFERED_BYTES):
                        continue

    async def wait_for_end(self) -> str:
        """Wait for the end of the program; return a description of how it ended."""
        code = await self._process.wait()
        if self._report is None:
            return f"exit code {code}"
        match (await self._report.read()).decode("utf-8", "replace").split():
            case [*_, "failed", step, number]:
                return str(SandboxStepFailed(step, int(number)))
            case [*_, "exit", status, _, limit, _]:
                code = os.waitstatus_to_exitcode(int(status))
                if reason := self._limits.describe_reached_limit(limit, code):
                    return f"stopped: {reason}"
                return f"exit code {code}" if code >= 0 else describe_exit(code)
        return "it was killed"


async def start_persistent_process(
    steps: Sequence[str],
    program: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    root: Path,
    limits: ProcessResourceLimits,
) -> PersistentProcess:
    """Start a program that keeps running, with pipes to it.

    Args:
        steps: Steps and their arguments, as `sandbox_init.py` reads them; without any, the program gets no namespace.
        program: The absolute path of the program, and its arguments.
        folder: Its working directory.
        environment: All of its variables, including `MARKER_VARIABLE`.
        root: The workspace.

    Raises:
        StartFailed: The program could not be started.
    """
    marker = environment[MARKER_VARIABLE]
    if PLATFORM != "linux":
        return PersistentProcess(await _start_process(program, folder, environment), marker, None, limits)
    reader, writer = os.pipe()
    report = asyncio.StreamReader()
    pipe = os.fdopen(reader, "rb", buffering=0)
    try:
        # Connect the pipe before the start: an error after the start would leave a program that is never ended.
        connecting = asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(report), pipe)
        await connecting
        steps = [*limits.steps(), *steps, "folder", str(folder)]
        enclosed, own = make_sandbox_command(writer, steps, program, environment, root)
        process = await _start_process(enclosed, Path("/"), own, (writer,))
    finally:
        # If the start failed, this closes the last writer, and `report` reaches its end.
        os.close(writer)
    return PersistentProcess(process, marker, report, limits)


async def _start_process(
    program: Sequence[str], folder: Path, environment: Mapping[str, str], keep_open: Sequence[int] = ()
) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *program,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=_MAX_BUFFERED_BYTES,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
            pass_fds=keep_open,
        )
    except OSError as error:
        raise StartFailed(error.strerror or str(error)) from error
