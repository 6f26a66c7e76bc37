"""Runs the demo server as a process of its own, which never outlives this one."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

_START_LIMIT = 20.0
"""Seconds until the server must have said where it listens."""
_STOP_LIMIT = 3.0
"""Seconds from asking it to stop until it is killed."""


class DemoServerFailed(Exception):
    """The demo server did not start."""


def server_command() -> list[str]:
    """The command of the child: signoff itself, found by the interpreter and not by the current folder (`-P`)."""
    return [sys.executable, "-P", "-m", "signoff", "demo-server", "--port", "0", "--until-stdin-closes"]


class DemoServer:
    """The demo server's process, as an async context manager or with `start` and `stop`.

    Its standard input is a pipe from this process. The kernel closes the pipe when this process ends, even by a
    crash or a kill, and the server exits on that.
    """

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = list(command) if command is not None else server_command()
        self._process: asyncio.subprocess.Process | None = None
        self.base_url = ""
        """What a client is given; empty until started."""

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> str:
        """Start it, wait until it listens and return `base_url`. Raises DemoServerFailed."""
        pipe = asyncio.subprocess.PIPE
        try:
            # A session of its own: Ctrl+C in the terminal is for the app alone.
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            raise DemoServerFailed(f"The demo server cannot be started: {error}") from error
        self._process = process
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_START_LIMIT):
                line = await process.stdout.readline()
        except TimeoutError as error:
            await self.stop()
            raise DemoServerFailed(f"The demo server did not come up within {_START_LIMIT:.0f} seconds.") from error
        except asyncio.CancelledError:
            await self.stop()
            raise
        self.base_url = line.decode(errors="replace").strip()
        if not self.base_url.startswith("http://127.0.0.1:"):
            raise DemoServerFailed(f"The demo server did not start: {await self._last_words()}")
        return self.base_url

    async def stop(self) -> None:
        """End it; harmless if it has ended or never began."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_LIMIT):
                await process.communicate()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _last_words(self) -> str:
        """The last line that it wrote to stderr."""
        process = self._process
        assert process is not None and process.stderr is not None
        assert process.stdin is not None
        process.stdin.close()
        errors = await process.stderr.read()
        await self.stop()
        lines = errors.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word."

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
