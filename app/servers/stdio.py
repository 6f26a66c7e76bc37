"""A server that is a program: one message a line, over its standard input and output."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from app.json_rpc import Message, Refusal
from app.sandbox.standing import StandingProcess
from app.servers.connection import LONGEST_MESSAGE, Connection, ConnectionLost, Notified, parsed

_CHUNK = 64 * 1024
MOST_UNREAD = 32 * 1024 * 1024
"""Bytes that it has not read yet."""
_ENDING = 5.0
"""Seconds in which a program ends that has closed its output."""
_PAUSE = 0.005
"""Seconds between two pieces of a log that comes as fast as it can, so that it costs next to nothing."""


class ProgramConnection(Connection):
    """To a program that runs."""

    def __init__(
        self, process: StandingProcess, root: Path, notified: Notified, log: Callable[[bytes], None]
    ) -> None:
        """Listen to it; `log` takes what it prints that is no message."""
        super().__init__(root, notified)
        self._process = process
        self._log = log
        self.why = ""
        """Why it can be talked to no more."""
        self._listening = [asyncio.ensure_future(work) for work in (self._listen(), self._listen_to_log())]
        self.gone = asyncio.Event()
        """Set once it can be talked to no more."""

    async def _ask(self, message: Message, answer: "asyncio.Future[Message]") -> None:
        await self._send(message)

    async def _send(self, message: Message) -> None:
        self._write(message)
        try:
            await self._process.stdin.drain()
        except OSError as error:
            raise ConnectionLost(self.why or "it does not listen any more") from error

    def _write(self, message: Message) -> None:
        if self.gone.is_set():
            # It may still run, and would be waited for.
            raise ConnectionLost(self.why)
        pipe = self._process.stdin
        if pipe.transport.get_write_buffer_size() > MOST_UNREAD:
            raise ConnectionLost("it reads nothing of what it is told")
        pipe.write(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")

    async def close(self) -> None:
        """End the program with all that it has started."""
        self._end("it was stopped")
        await self._process.end()
        for task in self._listening:
            task.cancel()
        await asyncio.wait(self._listening)
        await self._process.drain()

    async def _listen(self) -> None:
        why = ""
        try:
            async for line in self._lines():
                await self._take_line(line)
        except (ConnectionLost, OSError) as error:
            why = str(error)
        except Exception as error:
            # A defect of ours must not leave anyone waiting.
            why = f"{type(error).__name__}: {error}"
        if not why:
            with suppress(TimeoutError):
                why = f"it ended: {await asyncio.wait_for(self._process.ended(), _ENDING)}"
        self._end(why or "it closed its output")
        await self._process.end()

    async def _lines(self) -> AsyncIterator[bytes]:
        """Its lines, each bounded. Raises ConnectionLost for one that is too long."""
        buffer = bytearray()
        while chunk := await self._process.stdout.read(_CHUNK):
            looked = len(buffer)
            buffer += chunk
            while (end := buffer.find(b"\n", looked)) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                looked = 0
                yield line
            if len(buffer) > LONGEST_MESSAGE:
                raise ConnectionLost(f"it sent a line of more than {LONGEST_MESSAGE // 1024**2} MB")
            # However fast it writes, others have their turn.
            await asyncio.sleep(0)

    async def _take_line(self, line: bytes) -> None:
        try:
            message = await parsed(line)
        except Refusal:
            # Programs print banners there, too.
            self._log(line[:2000] + b"\n")
            message = None
        for answer in self._take(message, len(line)):
            # Not waited for: one that asks and asks and never reads would have to be waited for without end.
            self._write(answer)

    async def _listen_to_log(self) -> None:
        while chunk := await self._process.stderr.read(_CHUNK):
            self._log(chunk)
            if len(chunk) > _CHUNK // 4:
                await asyncio.sleep(_PAUSE)

    def _end(self, why: str) -> None:
        self.why = self.why or why
        self._lost(self.why)
        self.gone.set()
