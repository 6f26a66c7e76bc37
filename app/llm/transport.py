"""One streamed HTTP exchange with the endpoint through the OpenAI SDK's client; no retries, no interpretation.

The SDK sends the request and maps HTTP errors. The body is read raw and decoded by `ServerSentEventDecoder`: for much
of what servers send (heartbeats without data, errors with status 200, complete documents, damaged UTF-8), the SDK's
iterator ends silently or raises unrelated exceptions.
"""

import asyncio
import contextlib
import json
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from msgspec import Struct

from app.llm.capabilities.model_list import ListedModel, parse_model_list
from app.llm.failures.failures import ErrorToFailureTranslator, exception_chain, parse_json_or_text
from app.llm.failures.request_errors import AttemptFailed, Failure
from app.llm.response.bounded_stream import (
    MAX_RENDERED_BYTES,
    ResponseTooLarge,
    ServerSentEvent,
    ServerSentEventDecoder,
)
from app.llm.sdk import LoadedSdk, start_loading_sdk, wait_for_sdk
from app.llm.values.endpoint import is_loopback_url
from app.llm.values.requests_and_updates import Endpoint
from app.llm.wires.wire import Wire, to_valid_json

_SLICE_SECONDS = 0.002
"""Longest time slice in seconds that a response takes of the event loop at once, however much data has arrived."""
_MAX_TURNS = 64
"""Maximum number of event loop iterations for other tasks between slices: twice as many as a key press needs."""
_IDLE_FACTOR = 2
"""An iteration longer than this many times the shortest one means that other tasks had work."""
_MAX_PIECE_BYTES = 2**13
"""Approximate bytes processed at once; processing them takes half a slice."""
_MAX_BUFFERED_PIECES = 64
"""Maximum number of pieces that are buffered; reading them takes a quarter of a slice."""


class BufferedBodyReader:
    """Context manager that reads the pieces of a body in a background task."""

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        self._pieces = pieces
        self._buffer: deque[bytes] = deque()
        """Buffered pieces. Not an asyncio.Queue: that would cost as much time as processing a piece."""
        self._data_arrived, self._space_freed = asyncio.Event(), asyncio.Event()
        """Set when a piece or the end has arrived; set when the buffer has room again."""
        self._ended = False
        self._failure: Exception | None = None
        """The exception that ended the body early."""
        self._task_yielder = TaskYielder()
        self._slice_start = 0.0

    async def __aenter__(self) -> Self:
        self._reading_task = asyncio.create_task(self._fill_buffer(), name="read response")
        self._slice_start = time.thread_time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reading_task.cancel()
        await asyncio.wait({self._reading_task})

    async def read_available(self) -> bytes:
        """Return the bytes received since the last call, or wait for the next ones; empty at the end. Raises the
        error of reading the body."""
        if time.thread_time() - self._slice_start > _SLICE_SECONDS:
            await self._task_yielder.let_others_run()
            self._slice_start = time.thread_time()
        while not self._buffer:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return b""
            self._data_arrived.clear()
            await self._data_arrived.wait()
        pieces: list[bytes] = []
        size = 0
        while self._buffer and size < _MAX_PIECE_BYTES:
            pieces.append(self._buffer.popleft())
            size += len(pieces[-1])
        self._space_freed.set()
        return b"".join(pieces)

    async def wait_for_end(self, seconds: float) -> None:
        """Wait for the end of the body or an error, at most this many seconds."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(seconds):
                while await self.read_available():
                    pass

    async def _fill_buffer(self) -> None:
        try:
            async with contextlib.aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    if len(piece) <= _MAX_PIECE_BYTES:
                        self._buffer.append(piece)
                    else:
                        self._buffer.extend(
                            piece[start : start + _MAX_PIECE_BYTES]
                            for start in range(0, len(piece), _MAX_PIECE_BYTES)
                        )
                    self._data_arrived.set()
                    while len(self._buffer) >= _MAX_BUFFERED_PIECES:
                        self._space_freed.clear()
                        await self._space_freed.wait()
        except Exception as problem:
            self._failure = problem
        self._ended = True
        self._data_arrived.set()


class TaskYielder:
    """Lets other tasks of the event loop run before the next piece of a stream."""

    def __init__(self) -> None:
        self._shortest_turn = math.inf
        """Seconds of the shortest iteration so far, in which no other task did anything."""

    async def let_others_run(self) -> None:
        """Return when no other task has work, or after `_MAX_TURNS` iterations of the loop."""
        for _ in range(_MAX_TURNS):
            started = time.thread_time()
            await asyncio.sleep(0)
            duration = time.thread_time() - started
            self._shortest_turn = min(self._shortest_turn, duration)
            if duration < _IDLE_FACTOR * self._shortest_turn:
                return


DRAIN_SECONDS = 0.1
"""Seconds for reading the rest of a body after its last event, so that the connection can be reused."""
_PLACEHOLDER_KEY = "none"
_ITEMS_ENCODED_AT_ONCE = 16
"""Messages encoded as JSON in one call, during which no other thread runs."""


class Timeouts(Struct, frozen=True):
    """Timeouts of a request to an endpoint, in seconds: for connecting, bytes, tokens and the whole response."""

    connect: float = 10.0
    read: float = 120.0
    """Without any byte, including comments."""
    write: float = 30.0
    pool: float = 10.0
    first: float = 300.0
    """From the request to the first token."""
    idle: float = 120.0
    """Between tokens."""
    linger: float = 2.0
    """After the finish reason, for the usage and the end of the stream."""
    closing: float = 20.0
    """Between tokens of a closing request, and before its first: the proposal is on screen, its text is optional."""
    whole: float = 1800.0
    """For a whole response, however steadily it arrives."""
    whole_closing: float = 90.0

    @classmethod
    def for_endpoint(cls, endpoint: Endpoint) -> Self:
        """Return the timeouts for an endpoint; longer for a local server, which may have to load a model first."""
        if not is_loopback_url(endpoint.base_url):
            return cls()
        return cls(read=600, first=600, idle=300, closing=45, whole=3600, whole_closing=180)


class ProgressExtendedTimeout:
    """Timeout that progress of the response extends, up to a total limit; other bytes don't extend it."""

    def __init__(self, timeouts: Timeouts, *, closing: bool) -> None:
        self._timeouts = timeouts
        self._closing = closing
        self._now = asyncio.get_running_loop().time
        self._max_seconds = timeouts.whole_closing if closing else timeouts.whole
        self._last_deadline = self._now() + self._max_seconds
        self._waiting_for = "its first token"
        self._set_deadline(min(timeouts.closing, timeouts.first) if closing else timeouts.first)

    def extend_for_progress(self) -> None:
        """Extend the timeout: a token was received."""
        self._set_deadline(min(self._timeouts.closing, self._timeouts.idle) if self._closing else self._timeouts.idle)
        self._waiting_for = "the next token"

    def shorten_after_finish(self) -> None:
        """Shorten the timeout: the finish reason was received."""
        self._set_deadline(self._timeouts.linger)
        self._waiting_for = "the end of the stream"

    def describe_expiry(self, translator: ErrorToFailureTranslator) -> Failure:
        """Return the failure for an expired timeout."""
        if self.deadline == self._last_deadline:
            return translator.describe_slow_response(self._max_seconds)
        return translator.describe_silence(self._limit, self._waiting_for)

    def _set_deadline(self, seconds: float) -> None:
        self._limit = seconds
        self.deadline = min(self._now() + seconds, self._last_deadline)


class EndOfStream(Struct, frozen=True):
    """Last item of a stream that was read to its end: whether `[DONE]` came, and text outside of all events."""

    done: bool
    """The server sent `[DONE]`."""
    unframed: str
    """Text outside of all events."""


class Transport:
    """Sends HTTP requests to one endpoint."""

    def __init__(self, endpoint: Endpoint, timeouts: Timeouts, translator: ErrorToFailureTranslator) -> None:
        self._endpoint = endpoint
        self._timeouts = timeouts
        self._translator = translator
        self._client: Any = None
        # A remote server may be reached through an encrypted proxy, whatever its scheme.
        plain = is_loopback_url(endpoint.base_url) and endpoint.base_url.lower().startswith("http:")
        self._encrypted = not plain

    def preload_sdk(self) -> "Future[LoadedSdk]":
        """Start loading the SDK on a thread, with certificates if the connection is encrypted; return at once."""
        return start_loading_sdk(needs_certificates=self._encrypted)

    async def wait_until_ready(self) -> None:
        """Return once the SDK is loaded."""
        await wait_for_sdk(needs_certificates=self._encrypted)

    async def exchange(
        self, wire: Wire, fields: dict[str, Any], patience: ProgressExtendedTimeout
    ) -> AsyncGenerator[list[ServerSentEvent] | EndOfStream]:
        """Send a request; yield the events of the response in batches, and then its end.

        Closing the generator closes the connection at once.

        Raises:
            AttemptFailed: There was no response with status 200 whose body ended properly.
        """
        sdk = await wait_for_sdk(needs_certificates=self._encrypted)
        client = self._get_client(sdk)
        response: Any = None
        try:
            async with asyncio.timeout_at(patience.deadline):
                # Raw, because `chat.completions` validates every message against the SDK's types: that takes twenty
                # times as long as everything else, and importing the types takes a tenth of a second.
                response = await client.post(
                    wire.request_path(self._endpoint.base_url),
                    cast_to=sdk.httpx2.Response,
                    content=await asyncio.to_thread(encode_body, fields),
                    options={"headers": self._make_headers(sdk, wire)},
                    stream=True,
                )
            async with contextlib.aclosing(self._read_events(response, patience)) as items:
                async for item in items:
                    yield item
        except TimeoutError as silence:
            raise AttemptFailed(patience.describe_expiry(self._translator)) from silence
        except Exception as problem:
            raise AttemptFailed(self._describe_failure(problem, sdk, has_response=response is not None)) from problem
        finally:
            if response is not None:
                await response.aclose()

    async def fetch_models(self, wire: Wire) -> list[ListedModel]:
        """Return the endpoint's list of models. Raises AttemptFailed."""
        sdk = await wait_for_sdk(needs_certificates=self._encrypted)
        client = self._get_client(sdk)
        try:
            async with asyncio.timeout(self._timeouts.connect + self._timeouts.write):
                response = await client.get(
                    wire.request_path(self._endpoint.base_url, "models"),
                    cast_to=sdk.httpx2.Response,
                    options={"headers": self._make_headers(sdk, wire)},
                )
        except TimeoutError as silence:
            failure = self._translator.describe_silence(self._timeouts.write, "the list of models")
            raise AttemptFailed(failure) from silence
        except Exception as problem:
            raise AttemptFailed(self._describe_failure(problem, sdk, has_response=False)) from problem
        models = parse_model_list(parse_json_or_text(response.text))
        if models is None:
            raise AttemptFailed(self._translator.describe_non_stream(response.text))
        return models

    async def send_request_to_url(self, wire: Wire, url: str, body: Mapping[str, Any] | None) -> tuple[int, str]:
        """Send a small request to another URL of the endpoint's server; return status and text.

        Args:
            wire: its headers are sent.
            url: complete URL; it must have the endpoint's scheme, host and port, because the key is sent.
            body: sent by POST; without it, the request is a GET.

        Raises:
            AttemptFailed: there is no answer, or it is longer than `MAX_RENDERED_BYTES`.
        """
        sdk = await wait_for_sdk(needs_certificates=self._encrypted)
        client = self._get_client(sdk)
        options = {"headers": self._make_headers(sdk, wire)}
        response: Any = None
        try:
            send = client.get if body is None else partial(client.post, body=body)
            response = await send(url, cast_to=sdk.httpx2.Response, options=options, stream=True)
            text = bytearray()
            async for piece in response.aiter_raw():
                text += piece
                if len(text) > MAX_RENDERED_BYTES:
                    raise ResponseTooLarge("a prompt", MAX_RENDERED_BYTES)
            return response.status_code, text.decode("utf-8", "replace")
        except sdk.openai.APIStatusError as refused:
            return refused.status_code, refused.response.text
        except Exception as problem:
            raise AttemptFailed(self._describe_failure(problem, sdk, has_response=response is not None)) from problem
        finally:
            if response is not None:
                await response.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _get_client(self, sdk: LoadedSdk) -> Any:
        if self._client is None:
            if settings_fault := self._translator.find_settings_fault():
                raise AttemptFailed(settings_fault)
            try:
                self._client = self._make_client(sdk)
            except sdk.httpx2.InvalidURL as problem:
                raise AttemptFailed(self._translator.describe_unusable_address(problem)) from problem
            except (ImportError, ValueError) as problem:
                # The HTTP library does not support this kind of proxy, or needs another package for it.
                raise AttemptFailed(
                    self._translator.describe_unusable_proxy("it has to be http:// or https://")
                ) from problem
        return self._client

    def _make_client(self, sdk: LoadedSdk) -> Any:
        # Imports the HTTP library, which is loaded by now.
        from app.llm.bounded_bodies import ACCEPT_HEADERS, limit_response_stream

        limits = self._timeouts
        timeout = sdk.httpx2.Timeout(connect=limits.connect, read=limits.read, write=limits.write, pool=limits.pool)
        key = self._endpoint.api_key
        return sdk.openai.AsyncOpenAI(
            # Always passed, because the SDK reads missing values from the environment: that key may be for
            # another host.
            api_key=(key.get_secret_value().strip() if key is not None else "") or _PLACEHOLDER_KEY,
            base_url=self._endpoint.address.url_without_query,
            default_query=self._endpoint.address.query,
            default_headers={"User-Agent": "signoff", **ACCEPT_HEADERS, **self._endpoint.headers},
            max_retries=0,
            timeout=timeout,
            http_client=sdk.openai.DefaultAsyncHttpxClient(
                verify=sdk.ssl_context,
                timeout=timeout,
                # Never send the headers to the target of a redirect.
                follow_redirects=False,
                # A proxy of the environment cannot reach a server on this machine.
                trust_env=not is_loopback_url(self._endpoint.base_url),
                event_hooks={"response": [limit_response_stream]},
            ),
        )

    def _make_headers(self, sdk: LoadedSdk, wire: Wire) -> dict[str, Any]:
        """Return the headers of a request, without some defaults of the SDK, which can only be omitted per request.

        OpenAI's account headers are sent to OpenAI only. The bearer token is omitted if there is no key, or if the
        wire sends the key in its own header.
        """
        headers: dict[str, Any] = {}
        if urlsplit(self._endpoint.base_url).hostname != "api.openai.com":
            headers |= {"OpenAI-Organization": sdk.openai.Omit(), "OpenAI-Project": sdk.openai.Omit()}
        header_names = {name.lower() for name in self._endpoint.headers}
        key = self._endpoint.api_key
        wire_headers = wire.make_headers(key.get_secret_value().strip() if key is not None else "")
        authorization = self._endpoint.address.authorization
        if authorization and "authorization" not in header_names:
            headers["Authorization"] = authorization
        elif (key is None or "x-api-key" in wire_headers) and "authorization" not in header_names:
            headers["Authorization"] = sdk.openai.Omit()
        return headers | {name: value for name, value in wire_headers.items() if name not in header_names}

    async def _read_events(
        self, response: Any, patience: ProgressExtendedTimeout
    ) -> AsyncGenerator[list[ServerSentEvent] | EndOfStream]:
        decoder = ServerSentEventDecoder()
        async with BufferedBodyReader(response.aiter_raw()) as arrivals:
            while True:
                async with asyncio.timeout_at(patience.deadline):
                    piece = await arrivals.read_available()
                events = decoder.feed(piece) if piece else decoder.finish()
                done = next((at for at, event in enumerate(events) if event.data.lstrip().startswith("[DONE]")), None)
                yield events[:done]
                if done is not None:
                    await arrivals.wait_for_end(DRAIN_SECONDS)
                if done is not None or not piece:
                    yield EndOfStream(done=done is not None, unframed=decoder.unframed)
                    return

    def _describe_failure(self, problem: Exception, sdk: LoadedSdk, *, has_response: bool) -> Any:
        openai, httpx2 = sdk.openai, sdk.httpx2
        if too_large := next((link for link in exception_chain(problem) if isinstance(link, ResponseTooLarge)), None):
            return self._translator.describe_oversized_response(too_large)
        if isinstance(problem, openai.APIStatusError):
            from app.llm.bounded_bodies import error_text

            return self._translator.describe_response(
                problem.status_code, problem.response.headers, error_text(problem.response)
            )
        causes = list(exception_chain(problem))
        if cut_error := next((cause for cause in causes if isinstance(cause, httpx2.HTTPStatusError)), None):
            # The body of the error broke off or is damaged; its status and headers are known.
            return self._translator.describe_response(cut_error.response.status_code, cut_error.response.headers, "")
        if any(isinstance(cause, httpx2.ConnectTimeout) for cause in causes):
            return self._translator.describe_connect_timeout(self._timeouts.connect)
        if any(isinstance(cause, httpx2.TimeoutException) for cause in causes):
            return self._translator.describe_silence(
                self._timeouts.read, "the response" if has_response else "its first byte"
            )
        if isinstance(problem, openai.APIConnectionError | httpx2.TransportError):
            return (
                self._translator.describe_broken_response("broke off", str(problem))
                if has_response
                else self._translator.describe_unreachable(problem)
            )
        if isinstance(problem, httpx2.DecodingError):
            return self._translator.describe_broken_response("is damaged", str(problem))
        return self._translator.describe_unexpected(problem)


def encode_body(fields: Mapping[str, Any]) -> bytes:
    """Return the fields of a request as a JSON object in UTF-8; call it on a thread.

    Encoding megabytes takes tens of milliseconds, during which the encoder does not let other threads run. Long lists
    are therefore encoded in pieces.

    Raises:
        ValueError: a text cannot be encoded.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def encode(value: Any) -> str:
        try:
            return encoder.encode(value)
        except ValueError:
            # Servers may send NaN in fields that must be sent back to them, which JSON does not have.
            return encoder.encode(to_valid_json(value))

    pieces: list[bytes] = []
    for name, value in fields.items():
        pieces.append(b"%s%s:" % (b"," if pieces else b"{", encode(name).encode()))
        if not isinstance(value, list):
            pieces.append(encode(value).encode())
            continue
        parts = (
            encode(value[at : at + _ITEMS_ENCODED_AT_ONCE])[1:-1]
            for at in range(0, len(value), _ITEMS_ENCODED_AT_ONCE)
        )
        pieces.append(b"[%s]" % b",".join([part.encode() for part in parts]))
    return b"".join(pieces) + (b"}" if pieces else b"{}")
