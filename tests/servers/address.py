"""A server at an address, played on asyncio: what it answers is up to the test, byte by byte."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.servers.player import TOOLS


@dataclass
class Heard:
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """What it says."""
        return json.loads(self.body) if self.body else None


Answer = Callable[[Heard, asyncio.StreamWriter], Awaitable[None]]


def document(body: bytes, status: int = 200, kind: str = "application/json", **headers: Any) -> bytes:
    """A whole response."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def result(heard: Heard, value: dict[str, Any], **headers: Any) -> bytes:
    """The answer to a request."""
    message = {"jsonrpc": "2.0", "id": heard.message["id"], "result": value}
    return document(json.dumps(message).encode(), **headers)


@dataclass
class Address:
    """What listens."""

    url: str = ""
    heard: list[Heard] = field(default_factory=list)
    tricks: dict[str, Answer] = field(default_factory=dict)
    """By method of MCP, or of HTTP, or by path: what it does instead."""
    token: str = ""
    """What has to come with each message."""
    challenge: str = ""
    """What it answers to whoever comes without."""

    async def answer(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        """Do as a good server does, but for its tricks."""
        message = heard.message if heard.method == "POST" and heard.body.startswith(b"{") else {}
        method = message.get("method", heard.method)
        if trick := self.tricks.get(heard.path) or self.tricks.get(method):
            await trick(heard, writer)
        elif self.token and heard.headers.get("authorization") != f"Bearer {self.token}":
            writer.write(document(b"", status=401, WWW_Authenticate=self.challenge))
        elif method == "initialize":
            said = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {}, "serverInfo": {}}
            writer.write(result(heard, said, Mcp_Session_Id="s1"))
        elif method == "tools/list":
            writer.write(result(heard, {"tools": TOOLS}))
        elif method == "tools/call":
            text = message["params"]["arguments"].get("text", "")
            writer.write(result(heard, {"content": [{"type": "text", "text": text}]}))
        elif heard.method == "GET":
            writer.write(document(b"", status=405))
        else:
            writer.write(document(b"", status=202))
        await writer.drain()


@contextlib.asynccontextmanager
async def address() -> AsyncIterator[Address]:
    """Listen on this machine."""
    played = Address()
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while heard := await _read(reader):
                played.heard.append(heard)
                await played.answer(heard, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    played.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield played
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Heard | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Heard(method, path, headers, body)
