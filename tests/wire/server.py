"""The tests' own HTTP server: it records every request and plays what a test has scripted.

It runs on a free loopback port in a thread of its own, so it serves async tests, blocking tests and subprocesses
alike, and a client that blocks its event loop cannot block the server.

    with WireServer() as server:                         # or the `server` fixture
        server.say("Hello.")                             # replies are consumed in order
        server.call("edit_file", {"path": "a.py", ...})  # a response with one tool call
        server.turn(text="Both", calls=[("read_file", {...}), ("list_files", {})])
        server.script([error(429, "slow"), Turn("ok")])  # anything from tests.wire.replies
        server.always(Turn("again"))                     # once the script is used up
        server.model(lambda request: Turn(...))          # instead of a script: a function decides
        server.behave(IGNORES_TOOL_CHOICE)               # a kind of endpoint, see tests.wire.endpoints
        server.insist(qwen, openai_adjacency)            # validators of requests, see tests.wire.strict

        ... drive the client with base_url=server.base_url ...

        assert server.last.body["tool_choice"] == "none"
        assert [message["role"] for message in server.requests[0].messages][-2:] == ["tool", "system"]
        assert await server.arrived(2)                   # wait for a number of chat requests
        assert await server.last.left()                  # wait until the client has closed the connection

`server.requests` holds the chat requests only, in the order of arrival; `server.visits` holds all others (`/models`
and what `server.route` defines). When the script is used up and there is no `always`, the answer is a 400 and
`server.exhausted` counts up. `server.require_key("secret")` makes other keys a 401.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from tests.oracles.reading import conversation, forbids_calls, texts_by_role
from tests.wire.endpoints import OBEYS, Behaviour
from tests.wire.replies import BREAK, CUT, END, STALL, Action, Call, Reply, Turn, document, error
from tests.wire.vendors import VENDORS

_ANSWERED = ("/chat/completions", *(vendor.path for vendor in VENDORS.values()))
"""How the paths end at which a model answers."""
Validator = Callable[[dict[str, Any]], Reply | None]
Step = Turn | Reply | Callable[["Request"], "Turn | Reply"]


@dataclass
class Request:
    number: int
    """Among those of its kind, from 0."""
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Parsed JSON, or None."""
    time: float
    """Monotonic."""
    finished: threading.Event = field(default_factory=threading.Event)
    """The server has sent the whole reply."""
    disconnected: threading.Event = field(default_factory=threading.Event)
    """The client closed the connection before the reply was whole."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """`body["messages"]`, or the items of Responses."""
        return conversation(self.body)

    @property
    def closing(self) -> bool:
        """Whether it asks for no tool calls."""
        return forbids_calls(self.body)

    @property
    def wire(self) -> str:
        return next((name for name, vendor in VENDORS.items() if self.path.endswith(vendor.path)), "chat")

    @property
    def said(self) -> list[tuple[str, str]]:
        """Who says what in it, on any wire."""
        return texts_by_role(self.body)

    async def left(self, seconds: float = 5.0) -> bool:
        """Wait until the client has closed the connection early; False if it has not in time."""
        return await asyncio.to_thread(self.disconnected.wait, seconds)


class WireServer:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.visits: list[Request] = []
        self.models: list[str] = ["test-model"]
        self.exhausted = 0
        self.connections = 0
        self.behaviour: Behaviour = OBEYS
        self.wires: Mapping[str, Reply | None] = {"chat": None, "anthropic": None, "responses": None}
        """What is spoken here; instead of None, how each request of that wire is refused."""
        self.mid_system = True
        """Whether system messages are taken in mid-conversation, on the wires of the vendors."""
        self._validators: tuple[Validator, ...] = ()
        self._steps: deque[Step] = deque()
        self._always: Step | None = None
        self._model: Callable[[Request], Turn | Reply] | None = None
        self._routes: dict[tuple[str, str], Reply | Callable[[Request], Reply]] = {}
        self._key: str | None = None
        self._arrival = threading.Condition()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire-server", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.port = 0

    # What a test sets up.

    def say(self, text: str, **options: Any) -> None:
        """Answer with text."""
        self.script([Turn(text, **options)])

    def call(self, name: str, arguments: dict[str, Any] | str, *, text: str = "", **options: Any) -> None:
        """Answer with one tool call."""
        self.script([Turn(text, (Call(name, arguments),), **options)])

    def turn(self, text: str = "", calls: Iterable[Call | tuple[str, Any]] = (), **options: Any) -> None:
        """Answer with text and any number of calls."""
        made = tuple(call if isinstance(call, Call) else Call(*call) for call in calls)
        self.script([Turn(text, made, **options)])

    def script(self, steps: Iterable[Step]) -> None:
        """Append to what the next chat requests get."""
        self._steps.extend(steps)

    def always(self, step: Step) -> None:
        """What every request gets once the script is used up."""
        self._always = step

    def model(self, model: Callable[[Request], Turn | Reply]) -> None:
        """Let a function decide what every request gets; it runs in the server's thread."""
        self._model = model

    def behave(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour

    def insist(self, *validators: Validator) -> None:
        """Refuse requests that these find fault with, before the script is asked."""
        self._validators = validators

    @property
    def validators(self) -> tuple[Validator, ...]:
        return self._validators

    def require_key(self, key: str) -> None:
        """Accept this bearer token only."""
        self._key = key

    def route(self, path: str, reply: Reply | Callable[[Request], Reply], method: str = "GET") -> None:
        """Answer another path, always alike or by what is asked."""
        self._routes[method, path] = reply

    # What a test asks.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes."""
        return f"{self.url}/v1"

    @property
    def last(self) -> Request:
        return self.requests[-1]

    def wait_for(self, count: int, timeout: float = 10.0) -> bool:
        """Block until `count` chat requests have arrived."""
        with self._arrival:
            return self._arrival.wait_for(lambda: len(self.requests) >= count, timeout)

    async def arrived(self, count: int, seconds: float = 10.0) -> bool:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.wait_for, count, seconds)

    # Life.

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the test server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            self.connections += 1
            try:
                await self._connection(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                connections.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=2**26)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await _read_request(reader)
            if request is None:
                return
            chat = request.method == "POST" and request.path.partition("?")[0].endswith(_ANSWERED)
            with self._arrival:
                group = self.requests if chat else self.visits
                request.number = len(group)
                group.append(request)
                self._arrival.notify_all()
            reply = self._chat(request) if chat else self._visit(request)
            if not await _send(reply, request, reader, writer):
                return
            if request.headers.get("connection", "").lower() == "close":
                writer.close()
                await writer.wait_closed()
                return

    def _unauthorised(self, request: Request) -> Reply | None:
        if self._key is None or request.headers.get("authorization") == f"Bearer {self._key}":
            return None
        if request.headers.get("x-api-key") == self._key:
            return None
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return error(401, f"Incorrect API key provided: {given}.", code="invalid_api_key")

    def _visit(self, request: Request) -> Reply:
        if reply := self._routes.get((request.method, request.path)):
            return reply(request) if callable(reply) else reply
        if request.path.endswith("/models") and not self._routes:
            entries = [{"id": name, "object": "model", "owned_by": "tests"} for name in self.models]
            return self._unauthorised(request) or document({"object": "list", "data": entries})
        return document({"detail": "Not Found"}, status=404)

    def _chat(self, request: Request) -> Reply:
        if refused := self._unauthorised(request):
            return refused
        if (refused := self._refused(request)) is not None:
            return refused
        if self.behaviour.instead and request.closing:
            return self.behaviour.instead
        step = self._next()
        if callable(step):
            step = step(request)
        if isinstance(step, Turn):
            step = self.behaviour.shape(step, request.body)
        return rendered(step, request) if isinstance(step, Turn) else step

    def _refused(self, request: Request) -> Reply | None:
        """How a request is refused whose wire is not spoken, or that is not as its wire has it."""
        if (unspoken := self.wires[request.wire]) is not None:
            return unspoken
        if vendor := VENDORS.get(request.wire):
            if (refused := vendor.refusal(request.body, mid_system=self.mid_system)) is not None:
                return refused
            validators = self._validators
        else:
            validators = (*self.behaviour.validators, *self._validators)
        refusals = (validate(request.body) for validate in validators)
        return next((refused for refused in refusals if refused), None)

    def _next(self) -> Step:
        if self._model is not None:
            return self._model
        if self._steps:
            return self._steps.popleft()
        if self._always is not None:
            return self._always
        self.exhausted += 1
        return error(400, "the test's script has no more replies")


def rendered(turn: Turn, request: Request) -> Reply:
    if vendor := VENDORS.get(request.wire):
        return vendor.reply(turn, request.number)
    if not request.body.get("stream"):
        return document(turn.completion(request.number))
    usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
    return turn.reply(request.number, usage=usage)


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _version = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    body = None
    with contextlib.suppress(ValueError):
        body = json.loads(raw) if raw else None
    return Request(-1, method, path, headers, body, time.monotonic())


def _head(reply: Reply) -> bytes:
    try:
        reason = HTTPStatus(reply.status).phrase
    except ValueError:
        reason = "Unknown"
    fields: dict[str, str] = {"content-type": reply.content_type}
    if reply.chunked:
        fields["transfer-encoding"] = "chunked"
    else:
        fields["connection"] = "close"
    merged: Mapping[str, str] = {**fields, **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} {reason}", *(f"{name}: {value}" for name, value in merged.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _send(reply: Reply, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Play a reply; True if the connection can serve another request."""
    watcher = asyncio.create_task(_watch(reader))
    player = asyncio.create_task(_play(reply, writer))
    try:
        await asyncio.wait({watcher, player}, return_when=asyncio.FIRST_COMPLETED)
        if player.done() and not player.cancelled() and player.exception() is None:
            request.finished.set()
            return player.result()
        request.disconnected.set()
        return False
    finally:
        for task in (watcher, player):
            task.cancel()
        await asyncio.gather(watcher, player, return_exceptions=True)


async def _watch(reader: asyncio.StreamReader) -> None:
    """Return when the client has closed its side; our clients do not send ahead."""
    while not reader.at_eof():
        if await reader.read(1):
            raise ConnectionError("the client sent something during the reply")


async def _play(reply: Reply, writer: asyncio.StreamWriter) -> bool:
    if reply.delay:
        await asyncio.sleep(reply.delay)
    if reply.parts[:1] == (CUT,):
        writer.transport.abort()
        return False
    if reply.parts[:1] == (STALL,):
        await asyncio.Event().wait()
    writer.write(_head(reply))
    for part in reply.parts:
        match part:
            case bytes() if part:
                writer.write(b"%x\r\n%b\r\n" % (len(part), part) if reply.chunked else part)
                # A reply may be far larger than memory: what is written has to be on its way before the next.
                await writer.drain()
            case Action.BREAK:
                await writer.drain()
                await asyncio.sleep(0.01)
            case Action.STALL:
                await writer.drain()
                await asyncio.Event().wait()
            case Action.CUT:
                await writer.drain()
                await asyncio.sleep(0.02)
                writer.transport.abort()
                return False
            case Action.END:
                break
    if reply.chunked:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    if not reply.chunked:
        writer.close()
        await writer.wait_closed()
    return reply.chunked


__all__ = ["BREAK", "CUT", "END", "STALL", "Call", "Reply", "Request", "Turn", "WireServer", "rendered"]
