"""An OpenAI-compatible HTTP server on loopback, with the demo model behind it.

It keeps no state between requests. `GET /v1/models` and `POST /v1/chat/completions` are all that it knows.
"""

import argparse
import json
import math
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from app.demo.completion import Completion
from app.demo.model import respond
from app.demo.requests import MODEL_ID, RequestRefused, parse_request

DEFAULT_TOKENS_PER_SECOND = 60.0
"""Quick, and still slow enough to read along."""

_METHODS = {"/v1/models": "GET", f"/v1/models/{MODEL_ID}": "GET", "/v1/chat/completions": "POST"}
_MODEL = {"id": MODEL_ID, "object": "model", "created": int(time.time()), "owned_by": "signoff"}
_BODY_LIMIT = 64 * 1024 * 1024


class DemoHttpServer(ThreadingHTTPServer):
    """Serves the demo model on 127.0.0.1. Raises OSError or OverflowError if it can't have the port."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, tokens_per_second: float = DEFAULT_TOKENS_PER_SECOND, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.seconds_per_token = 1 / tokens_per_second
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"
        """What a client is given."""

    def server_bind(self) -> None:
        """Bind without asking the name service what this machine is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no error of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: DemoHttpServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Nothing: standard error is for what goes wrong."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong with a request, in the form of this API."""
        self.close_connection = True
        self._send(code, _error(message or HTTPStatus(code).phrase))

    def _answer(self) -> None:
        try:
            body = self._body()
            path = self.path.partition("?")[0]
            allowed = _METHODS.get(path)
            if allowed is None:
                raise RequestRefused(f"Unknown request URL: {path}.", status=404, code="unknown_url")
            if self.command != allowed:
                self._send(405, _error(f"Use {allowed} on {path}."), allow=allowed)
            elif allowed == "GET":
                self._send(200, _MODEL if path.endswith(MODEL_ID) else {"object": "list", "data": [_MODEL]})
            else:
                self._complete(body)
        except RequestRefused as error:
            self._send(error.status, _error(str(error), error.param, error.code))

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise RequestRefused("Send the body with its Content-Length.", status=411)
        if int(length) > _BODY_LIMIT:
            self.close_connection = True
            raise RequestRefused("The body is too long.", status=413)
        return self.rfile.read(int(length))

    def _complete(self, body: bytes) -> None:
        chat = parse_request(body)
        try:
            completion = Completion(chat, respond(chat))
        except Exception as error:
            message = f"The demo model broke down: {type(error).__name__}: {error}"
            raise RequestRefused(message, status=500, code="server_error") from error
        if not chat.get("stream"):
            self._send(200, completion.whole())
            return
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        due = time.monotonic()
        for chunk in completion.chunks():
            self._event(json.dumps(chunk, ensure_ascii=False))
            due += self.server.seconds_per_token
            # A client has nothing more to say here: what becomes readable is that it hangs up.
            if select.select([self.connection], [], [], max(0.0, due - time.monotonic()))[0]:
                return
        self._event("[DONE]")

    def _event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())

    def _send(self, status: int, data: dict[str, Any], *, allow: str = "") -> None:
        body = json.dumps(data, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close" if self.close_connection else "keep-alive")
        if allow:
            self.send_header("Allow", allow)
        self.end_headers()
        self.wfile.write(body)


def _error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def main(argv: Sequence[str] | None = None) -> int:
    """`signoff demo-server`: serve until a signal asks to stop; the exit code."""
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
        server = DemoHttpServer(options.tokens_per_second, options.port)
    except (OSError, OverflowError) as error:
        print(f"signoff demo-server: cannot listen on port {options.port}: {error}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt, BrokenPipeError), server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.base_url, flush=True)
        if options.until_stdin_closes:
            # The kernel closes it when the parent dies, however it dies.
            sys.stdin.buffer.read()
        else:
            threading.Event().wait()
    return 0


def _rate(text: str) -> float:
    rate = float(text)
    if math.isnan(rate) or rate <= 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return rate


if __name__ == "__main__":
    raise SystemExit(main())
