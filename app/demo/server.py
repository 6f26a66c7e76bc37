"""An OpenAI-compatible HTTP server on loopback, with the demo model behind it.

It keeps no state between requests. `GET /v1/models` and `POST /v1/chat/completions` are all that it knows.
"""

import argparse
import asyncio
import json
import math
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from app.demo.completion import Completion
from app.demo.http import EVENT_STREAM_HEAD, BadHttp, HttpRequest, event, json_response, read_request
from app.demo.model import respond
from app.demo.reply import Reply
from app.demo.requests import MODEL_ID, ChatRequest, RequestRefused, parse_request

DEFAULT_TOKENS_PER_SECOND = 60.0
"""Quick, and still slow enough to read along."""

_METHODS = {"/v1/models": "GET", f"/v1/models/{MODEL_ID}": "GET", "/v1/chat/completions": "POST"}
_STARTED = int(time.time())


class DemoHttpServer:
    """Serves the demo model until it is closed."""

    def __init__(self, tokens_per_second: float = DEFAULT_TOKENS_PER_SECOND) -> None:
        if not tokens_per_second > 0:
            raise ValueError("tokens_per_second must be more than 0; math.inf streams without pauses")
        self._tokens_per_second = tokens_per_second
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.idle = asyncio.Event()
        """Set while no connection is being served."""
        self.idle.set()
        self.base_url = ""
        """What a client is given, `http://127.0.0.1:PORT/v1`; empty until started."""

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1 at `port`, or at any free one for 0. Raises OSError if the port is taken."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def close(self) -> None:
        """Stop listening and end every open response."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.idle.clear()
        try:
            while await self._answer_one(reader, writer):
                pass
        except (ConnectionError, asyncio.CancelledError):
            pass  # The client has gone, or the server is closing: either way nobody is left to tell.
        finally:
            self._connections.discard(task)
            if not self._connections:
                self.idle.set()
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the next request; whether the connection stays open for another."""
        try:
            request = await read_request(reader, writer)
        except BadHttp as error:
            writer.write(json_response(error.status, _error(str(error)), keep_alive=False))
            await writer.drain()
            return False
        if request is None:
            return False
        try:
            return await self._route(request, reader, writer)
        except RequestRefused as error:
            body = _error(str(error), error.param, error.code)
            writer.write(json_response(HTTPStatus(error.status), body, keep_alive=request.keep_alive))
            await writer.drain()
            return request.keep_alive

    async def _route(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        allowed = _METHODS.get(request.path)
        if allowed is None:
            raise RequestRefused(
                f"Unknown request URL: {request.method} {request.path}.", status=404, code="unknown_url"
            )
        if request.method != allowed:
            message = f"Not allowed to {request.method} on {request.path}; use {allowed}."
            status = HTTPStatus.METHOD_NOT_ALLOWED
            writer.write(json_response(status, _error(message), keep_alive=request.keep_alive, allow=allowed))
        elif allowed == "GET":
            body = _MODEL if request.path.endswith(MODEL_ID) else {"object": "list", "data": [_MODEL]}
            writer.write(json_response(HTTPStatus.OK, body, keep_alive=request.keep_alive))
        else:
            chat = parse_request(request.body)
            completion = Completion(chat, _answer(chat))
            if chat.stream:
                await self._stream_until_gone(completion, reader, writer)
                return False
            writer.write(json_response(HTTPStatus.OK, completion.whole(), keep_alive=request.keep_alive))
        await writer.drain()
        return request.keep_alive

    async def _stream_until_gone(
        self, completion: Completion, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Stream the completion, and stop at once when the client hangs up."""
        streaming = asyncio.ensure_future(self._stream(completion, writer))
        hung_up = asyncio.ensure_future(reader.read())
        try:
            await asyncio.wait({streaming, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (streaming, hung_up):
                task.cancel()
            await asyncio.gather(streaming, hung_up, return_exceptions=True)

    async def _stream(self, completion: Completion, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENT_STREAM_HEAD)
        clock = asyncio.get_running_loop().time
        due = clock()
        for chunk in completion.chunks():
            writer.write(event(json.dumps(chunk.data, ensure_ascii=False)))
            await writer.drain()
            due += chunk.tokens / self._tokens_per_second
            await asyncio.sleep(max(0.0, due - clock()))
        writer.write(event("[DONE]"))
        await writer.drain()


def _answer(chat: ChatRequest) -> Reply:
    """The model's reply; if its rules break, the client is told so and the server goes on."""
    try:
        return respond(chat)
    except Exception as error:
        message = f"The demo model broke down: {type(error).__name__}: {error}"
        raise RequestRefused(message, status=500, code="server_error") from error


_MODEL: dict[str, Any] = {"id": MODEL_ID, "object": "model", "created": _STARTED, "owned_by": "signoff"}


def _error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


async def serve(
    port: int = 0, tokens_per_second: float = DEFAULT_TOKENS_PER_SECOND, *, until_stdin_closes: bool = False
) -> None:
    """Serve until a signal asks to stop, or standard input ends; the base URL goes to stdout as one line."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = DemoHttpServer(tokens_per_second)
    await server.start(port)
    transport = await _watch_stdin(stop) if until_stdin_closes else None
    try:
        with suppress(BrokenPipeError):
            print(server.base_url, flush=True)
            await stop.wait()
    finally:
        if transport is not None:
            transport.close()
        await server.close()


class _StdinWatch(asyncio.Protocol):
    """Notices that the process at the other end of standard input is gone."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    def eof_received(self) -> None:
        self._stop.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop.set()


async def _watch_stdin(stop: asyncio.Event) -> asyncio.ReadTransport:
    """Set `stop` when standard input ends. The kernel closes it when the parent dies, however it dies."""
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: _StdinWatch(stop), sys.stdin)
    return transport


def main(argv: Sequence[str] | None = None) -> int:
    """`signoff demo-server`: the exit code."""
    parser = argparse.ArgumentParser(
        prog="signoff demo-server", description="Serve the demo model on loopback, as an OpenAI-compatible endpoint."
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0, the default, takes a free one")
    parser.add_argument(
        "--tokens-per-second",
        type=_rate,
        default=DEFAULT_TOKENS_PER_SECOND,
        help="how fast answers stream; 'inf' for no pauses",
    )
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="exit when standard input ends, for a parent process"
    )
    options = parser.parse_args(argv)
    try:
        asyncio.run(serve(options.port, options.tokens_per_second, until_stdin_closes=options.until_stdin_closes))
    except (OSError, OverflowError) as error:
        print(f"signoff demo-server: cannot listen on port {options.port}: {error}", file=sys.stderr)
        return 1
    return 0


def _rate(text: str) -> float:
    rate = float(text)
    if math.isnan(rate) or rate <= 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return rate


if __name__ == "__main__":
    raise SystemExit(main())
