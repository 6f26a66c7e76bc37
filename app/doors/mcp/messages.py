"""JSON-RPC 2.0 as MCP frames it on a stream: one message a line, bounded, whatever comes.

https://www.jsonrpc.org/specification, and the stdio transport of https://modelcontextprotocol.io/specification.
"""

import json
import os
import select
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of one message: three of the largest file that signoff takes."""
_CHUNK = 1 << 16

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_VERSION = -32022

Id = str | int
Message = dict[str, Any]


class Refusal(Exception):
    """A message that gets an error for an answer; the text says what would be right."""

    def __init__(self, code: int, text: str, *, id: Id | None = None, data: object = None) -> None:  # noqa: A002
        super().__init__(text)
        self.code = code
        self.id = id
        self.data = data

    def answer(self) -> Message:
        """The message to send."""
        error: Message = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


@dataclass(frozen=True, slots=True)
class Call:
    """A request, or a notification if it has no id."""

    method: str
    params: Message
    id: Id | None = None

    @property
    def meta(self) -> Message:
        """What stands beside the parameters: the client, its turn, a token for progress."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


def read_lines(source: int, ended: int) -> Iterator[bytes | None]:
    """The lines of a descriptor until it ends, or until the other one has something to read.

    Yields:
        A line without its end, or None in the place of one that is too long.
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
            yield None if passing else line
            passing = False
        looked = len(buffer)
        if looked > LONGEST_LINE or passing:
            passing = True
            buffer.clear()
            looked = 0
    if buffer and ended not in ready:
        yield bytes(buffer)


def parse(line: bytes | None) -> Any:
    """What a line holds: an object, or a list of them; raises Refusal."""
    if line is None:
        raise Refusal(INVALID_REQUEST, f"The message is longer than {LONGEST_LINE // 1024**2} MB; send less at once.")
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_no_number)
    except RecursionError as error:
        raise Refusal(PARSE_ERROR, "The message is nested too deeply.") from error
    except ValueError as error:
        raise Refusal(PARSE_ERROR, f"The line is not one JSON text in UTF-8: {error}.") from error


def call_of(message: object) -> Call | None:
    """The request or notification that an object is; None for an answer, of which none is awaited.

    Raises:
        Refusal: it is none of these.
    """
    if not isinstance(message, dict):
        raise Refusal(INVALID_REQUEST, "A message is a JSON object.")
    found = message.get("id")
    name = found if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)) else None
    method, params = message.get("method"), message.get("params", {})
    if "method" not in message and ("result" in message or "error" in message):
        return None
    if "id" in message and name is None:
        raise Refusal(INVALID_REQUEST, "The id of a request is a string or a whole number.")
    if not isinstance(method, str):
        raise Refusal(INVALID_REQUEST, "A request names its method, as text.", id=name)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        if name is None:
            return None
        raise Refusal(INVALID_PARAMS, "The params of a request are an object.", id=name)
    return Call(method, params, name)


class Outlet:
    """Writes messages to a descriptor, each whole, from any thread; what cannot be written any more is dropped."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._gone = False

    def send(self, message: object) -> None:
        """Write one message. Text of any origin comes through: what is no Unicode text is escaped."""
        left = memoryview(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")
        with self._lock:
            while left and not self._gone:
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:
                    select.select([], [self._descriptor], [])
                except OSError:
                    # The host is gone; it closes our input too, which ends the server.
                    self._gone = True


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
