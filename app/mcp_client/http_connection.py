"""Connection to a server by Streamable HTTP: each message is a request, its response a document or a stream."""

import asyncio
import base64
import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from app.llm.response.bounded_stream import ResponseTooLarge, ServerSentEventDecoder
from app.mcp_client.json_rpc import Message, RpcError
from app.mcp_client.mcp_connection import (
    MAX_SERVER_MESSAGE_BYTES,
    ConnectionLost,
    HandleNotification,
    McpConnection,
    SessionEnded,
    SignInNeeded,
    parse_message,
)

_ACCEPTED = "application/json, text/event-stream"
_EVENTS = "text/event-stream"
_CONNECT, _WRITE, _PARTING = 15.0, 30.0, 0.5
_REDIRECTS = 3
_PAUSES = (1.0, 2.0, 5.0, 15.0)
"""Seconds before each attempt to reopen the stream of server messages; after the last one there is no more."""
_LASTING = 20.0
"""Seconds after which an ended stream counts as a success: many hosts end each stream after a minute."""
_LARGEST_ERROR = 64 * 1024
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_IN_BASE64 = "=?base64?"
_SESSION = re.compile(r"[\x21-\x7e]{1,4096}")
"""Valid session ids according to the protocol."""

AuthorizationHeaders = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the headers that authenticate the user."""


_reading = threading.Lock()


def load_certificates() -> ssl.SSLContext:
    """Return an SSL context with the certificate authorities; loaded once; call it on a thread."""
    with _reading:
        return _read_certificates()


@cache
def _read_certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


class HttpConnection(McpConnection):
    """Connection to a server by URL.

    Args:
        authorization_headers: Returns the headers that authenticate the user.

    Raises:
        ConnectionLost: The URL is invalid, or a header cannot be sent.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        root: Path,
        on_notification: HandleNotification,
        authorization_headers: AuthorizationHeaders,
    ) -> None:
        super().__init__(root, on_notification)
        if not _is_address(url):
            raise ConnectionLost("its url is no address of a server")
        headers = {name: value.strip() for name, value in headers.items()}
        for name, value in headers.items():
            if not (_HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable()):
                # Leave out the value: it may be a token.
                raise ConnectionLost(f"its header {name[:80]!r} can't be sent: it is not one line of ASCII")
        self._url = url
        self._authorise = authorization_headers
        self._session = ""
        self._version = ""
        self._client = httpx2.AsyncClient(
            # A compressed body could expand to a thousand times its size.
            headers={"Accept-Encoding": "identity", **headers},
            verify=load_certificates(),
            timeout=httpx2.Timeout(None, connect=_CONNECT, write=_WRITE),
            follow_redirects=False,
        )
        self._unasked_for: asyncio.Task[None] | None = None

    def on_initialized(self, version: str) -> None:
        """Send this protocol version from now on, and open the stream of server messages."""
        self._version = version
        if not self.meta:
            self._unasked_for = asyncio.create_task(self._hear_unasked())

    async def _ask(self, message: Message, answer: "asyncio.Future[Message]") -> None:
        await self._post(message, answer)
        if not answer.done():
            raise ConnectionLost("it answered with nothing")

    async def _send(self, message: Message) -> None:
        await self._post(message, None)

    async def close(self) -> None:
        """End the session and close the connection."""
        self._lost("it was stopped")
        if self._unasked_for is not None:
            self._unasked_for.cancel()
            await asyncio.wait({self._unasked_for})
        try:
            if self._session:
                with contextlib.suppress(ConnectionLost, TimeoutError), _failures():
                    async with asyncio.timeout(_PARTING):
                        await self._client.delete(self._url, headers=await self._headers({}))
        finally:
            await self._client.aclose()

    async def _post(self, message: Message, answer: "asyncio.Future[Message] | None") -> None:
        content = json.dumps(message, separators=(",", ":")).encode("ascii")
        with _failures():
            async with self._opened(message, content) as response:
                if response.status_code >= 400:
                    await self._refused(response)
                    return
                if _SESSION.fullmatch(session := response.headers.get("mcp-session-id", "")):
                    self._session = session
                if not _kind(response).startswith((_EVENTS, "application/json")):
                    return
                if _kind(response).startswith(_EVENTS):
                    await self._events(response, answer)
                else:
                    await self._whole(await _body(response, MAX_SERVER_MESSAGE_BYTES))

    @contextlib.asynccontextmanager
    async def _opened(self, message: Message, content: bytes) -> AsyncIterator[httpx2.Response]:
        """Yield the response to a message; follow redirects within the same server. Raises ConnectionLost."""
        headers = {"Accept": _ACCEPTED, "Content-Type": "application/json", **await self._headers(message)}
        url = self._url
        for _ in range(_REDIRECTS):
            async with self._client.stream("POST", url, content=content, headers=headers) as response:
                target = urljoin(url, response.headers.get("location", ""))
                if response.status_code in (307, 308) and _origin(target) == _origin(self._url):
                    url = target
                    continue
                if response.is_redirect:
                    # Leave out path and query: they may be secret.
                    raise ConnectionLost(f"it has moved to {_shown(target)}; change its url if you know that address")
                yield response
                return
        raise ConnectionLost("it leads round in a circle")

    async def _headers(self, message: Message) -> dict[str, str]:
        headers = dict(await self._authorise())
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        if self.meta:
            headers["Mcp-Method"] = str(message.get("method", ""))
            if name := message.get("params", {}).get("name"):
                headers["Mcp-Name"] = _as_header(name)
        return headers

    async def _refused(self, response: httpx2.Response) -> None:
        """Deliver the error in a refusal as the answer.

        Raises:
            SignInNeeded: The user must sign in, or sign in again for more permissions.
            SessionEnded: The server has ended the session.
            ConnectionLost: The refusal contains no error message.
        """
        challenge = response.headers.get("www-authenticate", "")
        wider = response.status_code == 403 and "insufficient_scope" in challenge
        if wider or response.status_code == 401:
            raise SignInNeeded(challenge, wider=wider)
        if response.status_code == 404 and self._session:
            raise SessionEnded("its session has ended")
        body = await _body(response, _LARGEST_ERROR)
        with contextlib.suppress(RpcError):
            if isinstance(message := await parse_message(body), dict) and "error" in message:
                await self._whole(body)
                return
        raise ConnectionLost(f"it answers with HTTP status {response.status_code}")

    async def _whole(self, body: bytes) -> None:
        if not body.strip():
            return
        try:
            message = await parse_message(body)
        except RpcError as refusal:
            raise ConnectionLost("its answer is no JSON") from refusal
        await self._reply(self._take(message, len(body)))

    async def _events(self, response: httpx2.Response, answer: "asyncio.Future[Message] | None") -> None:
        """Handle the events of a stream until the answer has arrived or the stream ends."""
        decoder = ServerSentEventDecoder()
        async for piece in _pieces(response):
            for event in decoder.feed(piece):
                await self._event(event.data)
            if answer is not None and answer.done():
                return
        for event in decoder.finish():
            await self._event(event.data)

    async def _event(self, data: str) -> None:
        message: Any = None
        with contextlib.suppress(RpcError):
            message = await parse_message(data.encode("utf-8", "replace"))
        await self._reply(self._take(message, len(data)))

    async def _reply(self, answers: list[Message]) -> None:
        for each in answers:
            await self._send(each)

    async def _hear_unasked(self) -> None:
        """Read the server's own messages, such as changed tools; return if the server has no such stream."""
        pauses = iter(_PAUSES)
        pause: float | None = 0.0
        while pause is not None:
            await asyncio.sleep(pause)
            began = time.monotonic()
            with contextlib.suppress(ConnectionLost), _failures():
                headers = {"Accept": _EVENTS, **await self._headers({})}
                async with self._client.stream("GET", self._url, headers=headers) as response:
                    if response.status_code != 200 or not _kind(response).startswith(_EVENTS):
                        return
                    await self._events(response, None)
            if time.monotonic() - began >= _LASTING:
                pauses = iter(_PAUSES)
            pause = next(pauses, None)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Turn errors of the connection into ConnectionLost with one line."""
    try:
        yield
    except ResponseTooLarge as error:
        raise ConnectionLost(f"its answer is too long: {error}") from error
    except httpx2.TimeoutException as error:
        raise ConnectionLost("it cannot be reached in time") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ConnectionLost(f"it cannot be reached: {error or type(error).__name__}") from error
    except (ValueError, RecursionError) as error:
        raise ConnectionLost(f"what it sends can't be understood ({type(error).__name__})") from error


def _is_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _as_header(text: str) -> str:
    """Return a text as a header value; encoded in the protocol's Base64 form if it is not valid in a header."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith(_IN_BASE64):
        return text
    return f"{_IN_BASE64}{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).lower()


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}"


async def _pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; raise ConnectionLost for a compressed one, which was not requested."""
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise ConnectionLost("its answer is packed, which was not asked for")
    async for piece in response.aiter_raw():
        yield piece


async def _body(response: httpx2.Response, most: int) -> bytes:
    body = bytearray()
    async for piece in _pieces(response):
        body += piece
        if len(body) > most:
            raise ConnectionLost(f"its answer has more than {most // 1024} kB")
    return bytes(body)
