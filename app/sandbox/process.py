"""Runs one program to its end, its time limit or its cancellation, and ends all processes that it has started."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from msgspec import Struct

MARKER_VARIABLE = "SIGNOFF_COMMAND_ID"
"""Variable that every process of a command inherits; processes that the command left running are found by it."""

Result = TypeVar("Result")


async def run_shielded(work: Coroutine[Any, Any, Result]) -> Result:
    """Complete the coroutine even if the caller is cancelled; then raise the coroutine's error, or CancelledError."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        if not doing.cancelled() and (error := doing.exception()):
            raise error from None
        raise


DRAIN_SECONDS = 0.5
"""Seconds to wait for more output after the program has ended, while another process keeps the pipe open."""
_CHUNK_BYTES = 64 * 1024

Output = Callable[[bytes], None]
"""Receives the bytes that a program prints, in chunks."""


class ProcessExit(Struct, frozen=True):
    """The exit code of a program, and whether it reached its time limit."""

    code: int
    """Exit code; minus the signal number if a signal ended it."""
    seconds: float
    timed_out: bool = False
    had_running_children: bool = False
    """Whether processes that it started were still running, and were ended."""
    limit: str = ""
    """Description of the limit that it reached, other than the time limit; empty if it reached none."""
    refused_socket: bool = False
    """In place: whether it was refused a Unix socket."""


def describe_exit(code: int) -> str:
    """Return how a program ended, by `ProcessExit.code`: `exit 2`, or `ended by signal SIGKILL`."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"ended by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


class StartFailed(Exception):
    """The program could not be started; the message says why."""


async def run_process(
    program: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    output: Output,
    end_process: Callable[[asyncio.subprocess.Process], Awaitable[bool]],
    keep_open: Sequence[int] = (),
    stdin: int = DEVNULL,
) -> ProcessExit:
    """Run a program in a new session, and wait for its end.

    Args:
        program: The absolute path of the program, and its arguments.
        output: Receives stdout and stderr, on the event loop.
        end_process: Ends all remaining processes of the program; returns whether there were any.
        keep_open: Descriptors that it inherits.
        stdin: Descriptor of its standard input; by default the null device.

    Raises:
        StartFailed: The program could not be started.
    """
    started = time.monotonic()
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        try:
            process = await _start_process(program, folder, environment, stdin, writer, keep_open, end_process)
        finally:
            os.close(writer)
        reading = asyncio.ensure_future(_read_pipe(pipe, output))
        timed_out = left_running = False
        try:
            # Don't wait for the end of the output: processes that it leaves running may hold the pipe open.
            await asyncio.wait_for(process.wait(), seconds)
            await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
        except TimeoutError:
            timed_out = True
        finally:
            try:
                left_running = await end_process(process)
                await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            finally:
                reading.cancel()
                # The reader must release the pipe before it is closed.
                await asyncio.wait({reading})
    return ProcessExit(process.returncode or 0, time.monotonic() - started, timed_out, left_running)


async def _start_process(
    program: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    given: int,
    output: int,
    keep_open: Sequence[int],
    end: Callable[[asyncio.subprocess.Process], Awaitable[bool]],
) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *program,
            stdin=given,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
            pass_fds=keep_open,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The process may exist already: wait for the start, then end it.
        await asyncio.wait({starting})
        if not starting.exception():
            await end(starting.result())
        raise
    except OSError as error:
        raise StartFailed(error.strerror or str(error)) from error


async def _read_pipe(pipe: IO[bytes], output: Output) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while data := await reader.read(_CHUNK_BYTES):
            output(data)
    finally:
        transport.close()


PLATFORM: str = sys.platform
"""`sys.platform`; on `linux`, remaining processes are searched below `PROC_FOLDER`."""
PROC_FOLDER = Path("/proc")
GRACE_SECONDS = 1.0
"""Seconds between SIGTERM and SIGKILL; a system that ends signoff may itself wait only two seconds."""
_SEARCH_ROUNDS = 5
"""How often remaining processes are searched for again, because one may start another meanwhile."""
_BEGINNING, _LOOK = 0.5, 0.001
"""Seconds in which a new process must show its environment on a busy machine, and seconds between two reads."""
_SIZE, _ENVIRONMENT_END = 23 - 3, 51 - 3
"""Indexes of fields of `/proc/PID/stat` after the name, which is field 2 in proc(5)."""


async def end_process_tree(process: asyncio.subprocess.Process, marker: str) -> bool:
    """Send SIGTERM to the process group, then SIGKILL to it and to processes that left it; return once all have
    ended.

    The process must be the leader of its own group. If `/proc` exists, processes that left the group are found by the
    marker in their environment.

    Returns:
        Whether any process was still running.
    """
    alive = _signal_group(process.pid, signal.SIGTERM)
    try:
        if alive and process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    finally:
        # Works despite a second cancellation: the signal needs no `await`, and a thread can't be cancelled.
        _signal_group(process.pid, signal.SIGKILL)
        strays = await asyncio.to_thread(kill_marked_processes, marker)
    await process.wait()
    return alive or strays


def _signal_group(group: int, number: signal.Signals) -> bool:
    """Send a signal to a process group; return whether it exists."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_marked_processes(marker: str) -> bool:
    """Kill every process with the marker in its environment; return whether there was any, False without `/proc`."""
    if PLATFORM != "linux":
        return False
    wanted = f"{MARKER_VARIABLE}={marker}".encode()
    killed, rounds, end = False, 0, time.monotonic() + _BEGINNING
    while rounds < _SEARCH_ROUNDS:
        found = beginning = False
        for folder in PROC_FOLDER.glob("[0-9]*"):
            with suppress(OSError):
                environment = (folder / "environ").read_bytes()
                if wanted in environment:
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
                elif not environment and _is_executing(folder):
                    beginning = True
        killed = killed or found
        if found:
            rounds += 1
        elif beginning and time.monotonic() < end:
            time.sleep(_LOOK)
        else:
            break
    return killed


def _is_executing(folder: Path) -> bool:
    """Return whether a process is inside execve(2): the old memory is released and the new one not set up yet.

    Its parent may already continue at that time. Kernel threads have no memory at all.
    """
    fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
    return fields[_SIZE] != b"0" and fields[_ENVIRONMENT_END] == b"0"
