"""The little of HTTP/1.1 (RFC 9112) that the demo server needs, over asyncio streams."""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

_HEAD_LIMIT = 64 * 1024
"""Bytes of a request line with its headers; also the stream's limit."""
_BODY_LIMIT = 64 * 1024 * 1024


class BadHttp(Exception):
    """What came is no request that can be answered; `status` says how."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request, whole."""

    method: str
    path: str
    """Without the query."""
    body: bytes
    keep_alive: bool


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """The next request of the connection, or None when the client has closed it. Raises BadHttp."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise BadHttp(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too long.") from error
    request_line, *header_lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = request_line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadHttp(HTTPStatus.BAD_REQUEST, "This is not an HTTP/1 request.")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in header_lines)
    }
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await _read_body(reader, headers)
    if body is None:
        return None
    keep_alive = parts[2] == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return HttpRequest(parts[0], parts[1].partition("?")[0], body, keep_alive)


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes | None:
    if "transfer-encoding" in headers:
        raise BadHttp(HTTPStatus.LENGTH_REQUIRED, "Send the body with a Content-Length.")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise BadHttp(HTTPStatus.BAD_REQUEST, "The Content-Length is not a number.")
    if int(length) > _BODY_LIMIT:
        raise BadHttp(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too long.")
    try:
        return await reader.readexactly(int(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def json_response(status: HTTPStatus, data: dict[str, Any], *, keep_alive: bool, allow: str = "") -> bytes:
    """A whole response with `data` as its body; `allow` lists the methods that would have been right."""
    body = json.dumps(data, ensure_ascii=False).encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
    ]
    if allow:
        lines.append(f"Allow: {allow}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


EVENT_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Content-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\n"
    b"Connection: close\r\n\r\n"
)
"""The head of a stream of server-sent events, which ends with the connection."""


def event(data: str) -> bytes:
    """One server-sent event (WHATWG HTML, section 9.2); `data` has no line breaks."""
    return f"data: {data}\n\n".encode()
