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
from app.mcp_client.json_rpc import Message, RejectedRpcMessage
from app.mcp_client.mcp_connection import (
    MAX_SERVER_MESSAGE_BYTES,
    ConnectionLost,
    HandleNotification,
    McpConnection,
    SessionEnded,
    SignInNeeded,
    parse_server_message,
)

_ACCEPTED_TYPES = "application/json, text/event-stream"
_EVENT_STREAM_TYPE = "text/event-stream"
_CONNECT_SECONDS, _WRITE_SECONDS, _CLOSE_SECONDS = 15.0, 30.0, 0.5
_MAX_REQUESTS = 3
_PAUSE_SECONDS = (1.0, 2.0, 5.0, 15.0)
"""Seconds before each attempt to reopen the stream of server messages; after the last one there is no more."""
_STABLE_SECONDS = 20.0
"""Seconds after which an ended stream counts as a success: many hosts end each stream after a minute."""
_MIN_RETRY_SECONDS = 0.1
"""Minimum number of seconds before a stream is continued, also if the server allows fewer."""
_MAX_ERROR_BYTES = 64 * 1024
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BASE64_PREFIX = "=?base64?"
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")
"""Valid session ids according to the protocol."""

AuthorizationHeaders = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the headers that authenticate the user."""


_certificates_lock = threading.Lock()


def load_certificates() -> ssl.SSLContext:
    """Return an SSL context with the certificate authorities; loaded once; call it on a thread."""
    with _certificates_lock:
        return _read_certificates()


@cache
def _read_certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


_DIRECT_HOSTS = ("localhost", "*.localhost", "127.0.0.1", "0.0.0.0", "[::1]")
"""Hosts that a proxy of the environment cannot reach: they are on this machine."""


def make_http_client(**options: Any) -> httpx2.AsyncClient:
    """Return an HTTP client that uses the proxies of the environment, except for this machine.

    The first call loads the certificates: make it on a thread.
    """
    direct = {f"all://{host}": None for host in _DIRECT_HOSTS}
    return httpx2.AsyncClient(verify=load_certificates(), mounts=direct, **options)


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
        if not _is_http_url(url):
            raise ConnectionLost("its url is not the address of a server")
        headers = {name: value.strip() for name, value in headers.items()}
        for name, value in headers.items():
            if not (_HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable()):
                # Leave out the value: it may be a token.
                raise ConnectionLost(f"its header {name[:80]!r} can't be sent: it is not one line of ASCII")
        self._url = url
        self._authorization_headers = authorization_headers
        self._session_id = ""
        self._version = ""
        self._client = make_http_client(
            # A compressed body could expand to a thousand times its size.
            headers={"Accept-Encoding": "identity", **headers},
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS, write=_WRITE_SECONDS),
            follow_redirects=False,
        )
        self._listening: asyncio.Task[None] | None = None
        self._accepted = asyncio.Event()
        """The server has accepted a message."""

    def on_initialized(self, version: str) -> None:
        """Send this protocol version from now on, and open the stream of server messages."""
        self._version = version
        if not self.meta:
            self._listening = asyncio.create_task(self._listen())

    async def _send_request(self, message: Message, answer: "asyncio.Future[Message]") -> None:
        await self._post(message, answer)
        if not answer.done():
            raise ConnectionLost("its answer is empty")

    async def _send(self, message: Message) -> None:
        await self._post(message, None)

    async def close(self) -> None:
        """End the session and close the connection."""
        self._fail_open_requests("it was stopped")
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        try:
            if self._session_id:
                with contextlib.suppress(ConnectionLost, TimeoutError), _errors_as_connection_lost():
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await self._client.delete(self._url, headers=await self._headers({}))
        finally:
            await self._client.aclose()

    async def _post(self, message: Message, answer: "asyncio.Future[Message] | None") -> None:
        content = json.dumps(message, separators=(",", ":")).encode("ascii")
        with _errors_as_connection_lost():
            async with self._open_response(message, content) as response:
                if response.status_code >= 400:
                    await self._handle_refusal(response, answer)
                    return
                if _SESSION_ID.fullmatch(session := response.headers.get("mcp-session-id", "")):
                    self._session_id = session
                self._accepted.set()
                if _content_type(response).startswith(_EVENT_STREAM_TYPE):
                    decoder = ServerSentEventDecoder()
                    await self._handle_events(response, decoder, answer)
                    if answer is not None:
                        await self._continue_stream(response.url, decoder, answer)
                elif _content_type(response).startswith("application/json"):
                    await self._handle_body(await _read_body(response, MAX_SERVER_MESSAGE_BYTES))
                elif answer is not None and _content_type(response):
                    raise ConnectionLost("its answer is not JSON")

    @contextlib.asynccontextmanager
    async def _open_response(self, message: Message, content: bytes) -> AsyncIterator[httpx2.Response]:
        """Yield the response to a message; follow redirects within the same server. Raises ConnectionLost."""
        headers = {"Accept": _ACCEPTED_TYPES, "Content-Type": "application/json", **await self._headers(message)}
        url = self._url
        for _ in range(_MAX_REQUESTS):
            async with self._client.stream("POST", url, content=content, headers=headers) as response:
                target = urljoin(url, response.headers.get("location", ""))
                if response.status_code in (307, 308) and url_origin(target) == url_origin(self._url):
                    url = target
                    continue
                if response.is_redirect:
                    # Leave out path and query: they may be secret.
                    raise ConnectionLost(
                        f"it has moved to {url_origin(target)}; change its url if you know that address"
                    )
                yield response
                return
        raise ConnectionLost("it redirects in a circle")

    async def _headers(self, message: Message) -> dict[str, str]:
        headers = dict(await self._authorization_headers())
        if self._session_id:
            headers["Mcp-Session-Id"] = self._session_id
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        if self.meta:
            headers["Mcp-Method"] = str(message.get("method", ""))
            if name := message.get("params", {}).get("name"):
                headers["Mcp-Name"] = _encode_header(name)
        return headers

    async def _handle_refusal(self, response: httpx2.Response, answer: "asyncio.Future[Message] | None") -> None:
        """Deliver the error in a refusal as the answer.

        Raises:
            SignInNeeded: The user must sign in, or sign in again for more permissions.
            SessionEnded: The server has ended the session.
            ConnectionLost: The refusal contains no error message.
        """
        challenge = response.headers.get("www-authenticate", "")
        needs_more_scopes = response.status_code == 403 and "insufficient_scope" in challenge
        if needs_more_scopes or response.status_code == 401:
            raise SignInNeeded(challenge, needs_more_scopes=needs_more_scopes)
        if response.status_code == 404 and self._session_id:
            raise SessionEnded("its session has ended")
        body = await _read_body(response, _MAX_ERROR_BYTES)
        with contextlib.suppress(RejectedRpcMessage):
            if isinstance(message := await parse_server_message(body), dict) and "error" in message:
                if message.get("id") is not None or answer is None:
                    await self._handle_body(body)
                elif response.status_code == 400 and self._session_id and "session" in str(message["error"]).lower():
                    # What most servers of the TypeScript SDK answer after a restart.
                    raise SessionEnded("its session has ended")
                else:
                    # Refused before the id was read.
                    answer.set_result(message)
                return
        raise ConnectionLost(f"it answers with HTTP status {response.status_code}")

    async def _handle_body(self, body: bytes) -> None:
        if not body.strip():
            return
        try:
            message = await parse_server_message(body)
        except RejectedRpcMessage as refusal:
            raise ConnectionLost("its answer is not JSON") from refusal
        await self._reply(self._handle_messages(message, len(body)))

    async def _handle_events(
        self, response: httpx2.Response, decoder: ServerSentEventDecoder, answer: "asyncio.Future[Message] | None"
    ) -> None:
        """Handle the events of a stream until the answer has arrived or the stream ends or breaks off."""
        with contextlib.suppress(httpx2.ReadError, httpx2.RemoteProtocolError):
            async for piece in _iterate_pieces(response):
                for event in decoder.feed(piece):
                    await self._handle_event(event.data)
                if answer is not None and answer.done():
                    return
        for event in decoder.finish():
            await self._handle_event(event.data)

    async def _continue_stream(
        self, url: httpx2.URL, decoder: ServerSentEventDecoder, answer: "asyncio.Future[Message]"
    ) -> None:
        """Reopen a stream that ended early, after its last event, until the answer has arrived."""
        while not answer.done():
            if decoder.last_event_id:
                seconds = _PAUSE_SECONDS[0] if decoder.retry_seconds is None else decoder.retry_seconds
                await asyncio.sleep(max(seconds, _MIN_RETRY_SECONDS))
                async with await self._open_stream(url, decoder.last_event_id) as response:
                    if _is_event_stream(response):
                        await self._handle_events(response, decoder, answer)
                        continue
            # Neither SessionEnded nor SignInNeeded: the server may have carried out the request.
            raise ConnectionLost("its answer broke off")

    async def _open_stream(
        self, url: httpx2.URL | str, last_event_id: str = ""
    ) -> contextlib.AbstractAsyncContextManager[httpx2.Response]:
        """Return a request for the server's own messages, or for those of an earlier stream after its last event."""
        headers = {"Accept": _EVENT_STREAM_TYPE, **await self._headers({})}
        if last_event_id:
            headers["Last-Event-ID"] = last_event_id
        return self._client.stream("GET", url, headers=headers)

    async def _handle_event(self, data: str) -> None:
        message: Any = None
        with contextlib.suppress(RejectedRpcMessage):
            message = await parse_server_message(data.encode("utf-8", "replace"))
        await self._reply(self._handle_messages(message, len(data)))

    async def _reply(self, answers: list[Message]) -> None:
        for answer in answers:
            await self._send(answer)

    async def _listen(self) -> None:
        """Read the server's own messages, such as changed tools; return if the server has no such stream."""
        pauses = iter(_PAUSE_SECONDS)
        pause: float | None = 0.0
        while pause is not None:
            await asyncio.sleep(pause)
            started = time.monotonic()
            is_refused = False
            self._accepted.clear()
            with contextlib.suppress(ConnectionLost), _errors_as_connection_lost():
                async with await self._open_stream(self._url) as response:
                    is_refused = response.status_code == 401
                    if _is_event_stream(response):
                        await self._handle_events(response, ServerSentEventDecoder(), None)
                    elif not is_refused:
                        return
            if is_refused:
                # A message that is accepted has a valid token.
                await self._accepted.wait()
            if time.monotonic() - started >= _STABLE_SECONDS:
                pauses = iter(_PAUSE_SECONDS)
            pause = next(pauses, None)


@contextlib.contextmanager
def _errors_as_connection_lost() -> Iterator[None]:
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
        raise ConnectionLost(f"its answer can't be read ({type(error).__name__})") from error


def _is_http_url(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _encode_header(text: str) -> str:
    """Return a text as a header value; encoded in the protocol's Base64 form if it is not valid in a header."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith(_BASE64_PREFIX):
        return text
    return f"{_BASE64_PREFIX}{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _content_type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).lower()


def _is_event_stream(response: httpx2.Response) -> bool:
    return response.status_code == 200 and _content_type(response).startswith(_EVENT_STREAM_TYPE)


def url_origin(url: str) -> str:
    """Return scheme, host and port without a default port; raises ValueError."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = "" if parts.port in (None, {"https": 443, "http": 80}.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


async def _iterate_pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; raise ConnectionLost for a compressed one, which was not requested."""
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise ConnectionLost("its answer is compressed, which was not requested")
    async for piece in response.aiter_raw():
        yield piece


async def _read_body(response: httpx2.Response, max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in _iterate_pieces(response):
        body += piece
        if len(body) > max_bytes:
            raise ConnectionLost(f"its answer has more than {max_bytes // 1024} kB")
    return bytes(body)
