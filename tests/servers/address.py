"""A scripted HTTP server on asyncio: the test controls each byte of its answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.servers.player import TOOLS


@dataclass
class ReceivedRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else None


Answer = Callable[[ReceivedRequest, asyncio.StreamWriter], Awaitable[None]]


def document(body: object, status: int = 200, kind: str = "application/json", **headers: Any) -> bytes:
    """A response with these bytes; anything else is sent as JSON."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def result(request: ReceivedRequest, value: dict[str, Any], **headers: Any) -> bytes:
    return document({"jsonrpc": "2.0", "id": request.message["id"], "result": value}, **headers)


@dataclass
class ScriptedServer:
    """A running server."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    overrides: dict[str, Answer] = field(default_factory=dict)
    """Handlers in place of the default ones, by MCP method, HTTP method or path."""
    token: str = ""
    """Access token that each request must have."""
    challenge: str = ""
    """Value of WWW-Authenticate in responses to requests without the token."""

    async def answer(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        """Answer like a correct server, unless an override exists."""
        message = request.message if request.method == "POST" and request.body.startswith(b"{") else {}
        method = message.get("method", request.method)
        if trick := self.overrides.get(request.path) or self.overrides.get(method):
            await trick(request, writer)
        elif self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            writer.write(document(b"", status=401, WWW_Authenticate=self.challenge))
        elif method == "initialize":
            initialize_result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {},
                "serverInfo": {},
            }
            writer.write(result(request, initialize_result, Mcp_Session_Id="s1"))
        elif method == "tools/list":
            writer.write(result(request, {"tools": TOOLS}))
        elif method == "tools/call":
            text = message["params"]["arguments"].get("text", "")
            writer.write(result(request, {"content": [{"type": "text", "text": text}]}))
        elif request.method == "GET":
            writer.write(document(b"", status=405))
        else:
            writer.write(document(b"", status=202))
        await writer.drain()


@contextlib.asynccontextmanager
async def scripted_server() -> AsyncIterator[ScriptedServer]:
    played = ScriptedServer()
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while request := await _read(reader):
                played.requests.append(request)
                await played.answer(request, writer)
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


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method, path, headers, body)
