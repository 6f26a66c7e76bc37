"""The stdio transport of MCP on the side of a server: one message a line, bounded, whatever comes.

https://modelcontextprotocol.io/specification
"""

import json
import os
import select
import threading
from collections.abc import Iterator

from app.json_rpc import LONGEST_LINE

_CHUNK = 1 << 16
_PATIENCE = 2.0
"""Seconds that a host which wants an end has to read what is still being written."""


def read_lines(source: int, ended: int) -> Iterator[bytes | None]:
    """The lines of a descriptor until it ends, or until the other one has something to read.

    Yields:
        A line without its end, or None in the place of one that is too long, as soon as it is.
    """
    buffer = bytearray()
    looked = 0
    passing = False
    while True:
        ready, _, _ = select.select([source, ended], [], [])
        try:
            chunk = b"" if ended in ready else os.read(source, _CHUNK)
        except BlockingIOError:
            # The host shares the pipe with another reader, or has made it one that does not wait.
            continue
        if not chunk:
            break
        buffer += chunk
        while (end := buffer.find(b"\n", looked)) >= 0:
            line, looked = bytes(buffer[:end]), 0
            del buffer[: end + 1]
            if not passing:
                yield line
            passing = False
        looked = len(buffer)
        if looked > LONGEST_LINE or passing:
            if not passing:
                yield None
            passing = True
            buffer.clear()
            looked = 0
    if buffer and ended not in ready:
        yield bytes(buffer)


class Outlet:
    """Writes messages to a descriptor, each whole, from any thread; what cannot be written any more is dropped."""

    def __init__(self, descriptor: int, ended: int | None = None) -> None:
        """Write nothing yet.

        Args:
            descriptor: Where to.
            ended: Has something to read once the host wants an end; a host that does not read is not waited for then.
        """
        self._descriptor = descriptor
        self._ended = [] if ended is None else [ended]
        self._lock = threading.Lock()
        self._gone = False

    def send(self, message: object) -> None:
        """Write one message. Text of any origin comes through: what is no Unicode text is escaped."""
        left = memoryview(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")
        with self._lock:
            while left and not self._gone:
                try:
                    if self._has_room():
                        left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]
                    else:
                        self._gone = True
                except BlockingIOError:
                    # Another writer was quicker.
                    continue
                except OSError:
                    # The host is gone; it closes our input too, which ends the server.
                    self._gone = True

    def _has_room(self) -> bool:
        """Wait until the descriptor takes `PIPE_BUF` bytes at once; False if it does not, and an end is wanted."""
        _, room, _ = select.select(self._ended, [self._descriptor], [])
        if not room:
            _, room, _ = select.select([], [self._descriptor], [], _PATIENCE)
        return bool(room)
