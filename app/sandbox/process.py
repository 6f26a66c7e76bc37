"""Runs one program to its end, its time limit or its cancellation; in each case nothing of it is left."""

import asyncio
import os
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

Result = TypeVar("Result")


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Do it, and only then be cancelled; an error of it goes before that."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        if not doing.cancelled() and (error := doing.exception()):
            raise error from None
        raise


DRAIN_SECONDS = 0.5
"""How long output is awaited once the program has ended but something it started keeps the pipe open."""
_CHUNK = 64 * 1024

Output = Callable[[bytes], None]
"""Takes what a program prints, piece by piece."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a program ended."""

    code: int
    """Its exit code; of one that a signal ended, the signal's number below zero."""
    seconds: float
    timed_out: bool = False
    left_running: bool = False
    """Something that it had started was still running, and was ended."""
    limit: str = ""
    """The limit that it hit, in words, apart from that of its time."""
    refused_socket: bool = False
    """In place: it was refused a Unix socket."""


class StartFailed(Exception):
    """The program could not be started; the message says why."""


async def run_process(
    program: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    output: Output,
    end: Callable[[asyncio.subprocess.Process], Awaitable[bool]],
    keep_open: Sequence[int] = (),
    given: int = DEVNULL,
) -> ProcessResult:
    """Run a program in a session of its own.

    Args:
        program: The absolute path of the program, and its arguments.
        folder: Where.
        environment: All of its variables.
        seconds: Its time limit.
        output: Takes both outputs, on the event loop.
        end: Ends whatever is left of it; returns whether anything was.
        keep_open: Descriptors that it inherits.
        given: A descriptor that is its standard input; without one there is none.

    Raises:
        StartFailed: There is no such program, or the system would not start it.
    """
    started = time.monotonic()
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        try:
            process = await _start(program, folder, environment, given, writer, keep_open, end)
        finally:
            os.close(writer)
        reading = asyncio.ensure_future(_read(pipe, output))
        timed_out = left_running = False
        try:
            # The end of the process, not of its output: what it leaves running may hold the pipe open.
            await asyncio.wait_for(process.wait(), seconds)
            await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
        except TimeoutError:
            timed_out = True
        finally:
            try:
                left_running = await end(process)
                await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            finally:
                reading.cancel()
                # The reader must let go of the pipe before the pipe is closed.
                await asyncio.wait({reading})
    return ProcessResult(process.returncode or 0, time.monotonic() - started, timed_out, left_running)


async def _start(
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
        # The process may exist by now, so wait until there is something to end.
        await asyncio.wait({starting})
        if not starting.exception():
            await end(starting.result())
        raise
    except OSError as error:
        raise StartFailed(error.strerror or str(error)) from error


async def _read(pipe: IO[bytes], output: Output) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while data := await reader.read(_CHUNK):
            output(data)
    finally:
        transport.close()
