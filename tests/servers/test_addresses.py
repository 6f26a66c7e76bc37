"""Servers over Streamable HTTP: servers of the `mcp` package, and hostile ones."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.mcp_client import http_connection, mcp_connection, tool_listing
from app.mcp_client.mcp_server import McpServerState
from tests.servers.address import Answer, ReceivedRequest, document, result, scripted_server
from tests.servers.stage import open_server_session
from tests.waiting import until
from tests.wire.server import WireServer

EVENTS = "text/event-stream"
SDK = Path(__file__).with_name("sdk_server.py")


@pytest.fixture(params=["events", *(pytest.param(each, marks=pytest.mark.soak) for each in ("json", "stdio"))])
def sdk(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The configuration table of a server of the package; an HTTP server runs."""
    if request.param == "stdio":
        yield {"command": sys.executable, "args": [str(SDK)]}
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    words = [sys.executable, str(SDK), str(number), request.param]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "running on" in line:
                break
        yield {"url": f"http://127.0.0.1:{number}/mcp"}
        process.terminate()


async def test_sdk_server_can_be_called(sdk: dict[str, Any], wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"sdk": sdk}) as on:
        await on.wait_until_ready("sdk")
        answer = await on.run_turn(("sdk__add", {"first": 2, "second": 3}))
        assert json.loads(answer) == {"value": 5, "words": ["sum"]}
        failed = await on.run_turn(("sdk__fail", {}))
        assert failed == "Error executing tool fail"
        assert on.results[-1].failed
        elsewhere = "This server runs elsewhere: the arguments leave this machine."
        assert (on.permission_requests[0].notes[0] == elsewhere) == ("url" in sdk)


async def test_requests_name_session_and_version_and_end_with_delete(wire: WireServer, tmp_path: Path) -> None:
    async with scripted_server() as played:
        headers = {"X-Token": "${TOKEN}"}
        table = {"url": played.url, "headers": headers}
        async with open_server_session(wire, tmp_path, {"far": table}, environment={"TOKEN": "t1"}) as on:
            assert await on.run_turn(("far__echo", {"text": "hello"})) == "hello"
        called = next(each for each in played.requests if b"tools/call" in each.body)
        assert called.headers["mcp-session-id"] == "s1"
        assert called.headers["mcp-protocol-version"] == "2025-11-25"
        assert called.headers["x-token"] == "t1"
        assert len([each for each in played.requests if b"tools/list" in each.body]) == 1
        assert played.requests[-1].method == "DELETE"


async def test_certificates_are_read_once(wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    load = ssl.SSLContext.load_verify_locations

    def counted(context: ssl.SSLContext, *where: Any, **named: Any) -> None:
        read.append(context)
        load(context, *where, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", counted)
    # Other tests of this process may have read them.
    http_connection._read_certificates.cache_clear()
    async with scripted_server() as one:
        servers = {name: {"url": one.url} for name in ("one", "two", "three")}
        async with open_server_session(wire, tmp_path, servers) as on:
            await on.wait_until_ready(*servers)
    # An older HTTP client reads them in another way.
    assert len(read) <= 1


async def test_a_server_on_this_machine_is_reached_without_the_proxy(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with scripted_server() as played, open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
        await on.wait_until_ready("far")


NO_SESSION = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID"},"id":null}'


@pytest.mark.parametrize(("status", "body"), [(404, b""), (400, NO_SESSION)])
async def test_ended_session_is_restarted(wire: WireServer, tmp_path: Path, status: int, body: bytes) -> None:
    async with scripted_server() as played, open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
        await on.wait_until_ready("far")

        async def forget_once(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            del played.overrides["tools/call"]
            writer.write(document(body, status=status))

        played.overrides["tools/call"] = forget_once
        assert await on.run_turn(("far__echo", {"text": "hello"})) == "hello"

        async def forget_always(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            writer.write(document(body, status=status))

        # A server that forgets the session right after its greeting is not greeted for ever, and is no longer called
        # ready.
        played.overrides["tools/call"] = forget_always
        played.requests.clear()
        assert "hello" not in await on.run_turn(("far__echo", {"text": "hello"}))
        assert on.server("far").state is McpServerState.FAILED
        assert sum(b'"initialize"' in request.body for request in played.requests) == 1


def _raw(data: bytes) -> Answer:
    async def send(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return send


def _endless(piece: bytes, kind: str = EVENTS) -> Answer:
    """Answer with this again and again."""

    async def send(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 X\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        while True:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()

    return send


NOTE = json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": "x" * 60_000}})


async def _silent(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _hangs_up(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def _answer_call(status: int = 200, **what: Any) -> Answer:
    async def send(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(document({"jsonrpc": "2.0", "id": request.message["id"], **what}, status))

    return send


HOSTILE: dict[str, tuple[Answer, str]] = {
    "endless document": (_endless(b" " * 0x10000, "application/json"), "more than"),
    "endless line": (_endless(b"x" * 0x10000), "too long"),
    "endless events": (_endless(f"data: {NOTE}\n\n".encode()), "not requested"),
    "silent": (_silent, "its time limit"),
    "hangs up": (_hangs_up, "cannot be reached"),
    "no JSON": (_raw(document(b"{nope")), "not JSON"),
    "a page": (_raw(document(b"<h1>hi</h1>", kind="text/html")), "its answer is not JSON"),
    "half a stream": (_raw(document(b": wait\n\ndata: {", kind=EVENTS)), "its answer broke off"),
    "another answer": (_raw(document(b'{"jsonrpc":"2.0","id":99999,"result":{}}')), "its answer is empty"),
    "an error": (_raw(document(b"oh", status=500)), "HTTP status 500"),
    "packed": (_raw(document(b"x", Content_Encoding="gzip")), "compressed"),
    "elsewhere": (_raw(document(b"", status=307, Location="http://127.0.0.1:9/mcp")), "has moved"),
    "in a circle": (_raw(document(b"", status=307, Location="/mcp")), "in a circle"),
    "at no address": (_raw(document(b"", status=307, Location="http://[")), "answer can't be read"),
    "an endless page between events": (_endless(b"<p>" * 20_000 + b"\ndata: 1\n\n"), "too long"),
    "nested deep": (
        _raw(document(b'{"method": "notifications/message", "params": {"data": ' + b"[" * 900 + b"]" * 900 + b"}}")),
        "",
    ),
    "a thousand answers": (_raw(document([{}] * 2_000)), "messages at once"),
    "a result that is none": (_answer_call(result=[]), "its answer has no result"),
    "an error in a refusal": (
        _answer_call(400, error={"code": -32602, "message": "no text"}),
        "with an error: no text",
    ),
    "a refusal without an id": (
        _raw(document(b'{"id": null, "error": {"code": -32700, "message": "too young"}}', status=400)),
        "with an error: too young",
    ),
    "no result": (_raw(document(b"[[[]]]")), "its answer is empty"),
}


@pytest.mark.parametrize("silent", [True, False])
async def test_hostile_answer_becomes_an_error_line(
    silent: bool, wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "MAX_SERVER_MESSAGE_BYTES", 2**20)
    monkeypatch.setattr(mcp_connection, "MAX_UNREQUESTED_BYTES", 2**20)
    async with scripted_server() as played:
        table: dict[str, Any] = {"url": played.url, "timeout": 0.5 if silent else 60}
        async with open_server_session(wire, tmp_path, {"far": table}) as on:
            await on.wait_until_ready("far")
            for name, (handler, error) in HOSTILE.items():
                if silent == (handler is _silent):
                    played.overrides["tools/call"] = handler
                    answer = await on.run_turn(("far__echo", {"text": "hello"}))
                    assert error in answer, name
                    assert "Done." in str(on.session.log.events[-5:])
                    del played.overrides["tools/call"]
                    assert await on.run_turn(("far__echo", {"text": "again"})) == "again", name


async def test_unsendable_key_is_not_shown(wire: WireServer, tmp_path: Path) -> None:
    tables: dict[str, tuple[dict[str, Any], str]] = {
        "key": ({"headers": {"Authorization": "Bearer ${TOKEN}"}}, "its header 'Authorization' can't be sent"),
        "name": ({"headers": {"Bad name": "x"}}, "its header 'Bad name' can't be sent"),
        "bracket": ({"url": "http://[/${TOKEN}"}, "its url is not the address of a server"),
        "file": ({"url": "file:///etc/passwd"}, "its url is not the address of a server"),
    }
    servers = {name: {"url": "http://127.0.0.1:9/mcp", **table} for name, (table, _) in tables.items()}
    async with open_server_session(wire, tmp_path, servers, environment={"TOKEN": "s3cr\n\xe9t"}) as on:
        await on.until(lambda: all(on.server(name).state is McpServerState.FAILED for name in servers))
        for name, (_, why) in tables.items():
            assert why in on.server(name).problem
            assert "s3cr" not in str(on.server(name).log.lines) + on.server(name).problem


async def test_session_id_that_no_header_can_hold_is_ignored(wire: WireServer, tmp_path: Path) -> None:
    async def greet(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        initialize_result = {"protocolVersion": "2025-11-25\r\nX: y", "capabilities": {}, "serverInfo": {}}
        writer.write(result(request, initialize_result, Mcp_Session_Id="s\xe9"))

    async with scripted_server() as played:
        played.overrides["initialize"] = greet
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
            assert await on.run_turn(("far__echo", {"text": "hello"})) == "hello"
        called = next(each for each in played.requests if b"tools/call" in each.body)
        assert "mcp-session-id" not in called.headers
        assert called.headers["mcp-protocol-version"] == "2025-11-25"


async def test_any_tool_name_is_encoded_in_a_header(wire: WireServer, tmp_path: Path) -> None:
    names = {
        "café\r\nX: y": "=?base64?Y2Fmw6kNClg6IHk=?=",
        "plain": "plain",
        "=?base64?a": "=?base64?PT9iYXNlNjQ/YQ==?=",
    }
    async with scripted_server() as played:

        async def refuse(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            error = {"code": -32601, "message": "no"}
            writer.write(document({"jsonrpc": "2.0", "id": request.message["id"], "error": error}))

        async def one(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            writer.write(result(request, {"tools": [{"name": name} for name in names]}))

        played.overrides |= {"initialize": refuse, "tools/list": one}
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
            await on.wait_until_ready("far")
            await on.run_turn(*((offer.name, {"text": "hello"}) for offer in on.server("far").tools))
        called = [each.headers["mcp-name"] for each in played.requests if b"tools/call" in each.body]
        assert called == list(names.values())


@pytest.mark.parametrize(
    ("response", "times"),
    [(document(b"", kind=EVENTS), 3), (document(b"{}"), 1), (document(b"", 405, EVENTS), 1)],
    ids=["ends at once", "is none", "is refused"],
)
async def test_notification_stream_is_opened_a_bounded_number_of_times(
    response: bytes, times: int, wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "_PAUSE_SECONDS", (0.0, 0.0))
    async with scripted_server() as played:
        played.overrides["GET"] = _raw(response)
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
            await on.wait_until_ready("far")
            await until(lambda: len([each for each in played.requests if each.method == "GET"]) == times)
            for _ in range(5):
                assert await on.run_turn(("far__echo", {"text": "hello"})) == "hello"
        assert len([each for each in played.requests if each.method == "GET"]) == times


@pytest.mark.parametrize(
    "goodbye", [_hangs_up, _silent, _raw(document(b"", status=500))], ids=["gone", "silent", "error"]
)
async def test_a_server_that_ignores_delete_is_left(goodbye: Answer, wire: WireServer, tmp_path: Path) -> None:
    async with scripted_server() as played:
        played.overrides["DELETE"] = goodbye
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
            await on.wait_until_ready("far")
            await on.server("far").stop()
            assert on.server("far").state is McpServerState.OFF
        assert played.requests[-1].method == "DELETE"


async def test_a_changed_list_is_read_for_the_next_turn_and_retried(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_listing, "_MIN_PAUSE_SECONDS", 0.0)
    async with scripted_server() as played:
        changed = asyncio.Event()

        async def stream(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\n")
            await changed.wait()
            writer.write(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
            await writer.drain()
            await asyncio.Event().wait()

        async def fail_once(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            played.overrides["tools/list"] = _no_tools
            await _answer_call(error={"code": -32603, "message": "not now"})(request, writer)

        played.overrides["GET"] = stream
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
            await on.wait_until_ready("far")
            played.overrides["tools/list"] = fail_once
            changed.set()
            await until(lambda: not on.server("far").tools)
            await on.run_turn()
            assert "far__echo" not in on.offered_tools


async def test_an_ended_stream_is_reopened(wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_PAUSE_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(http_connection, "_STABLE_SECONDS", 0.0)
    async with scripted_server() as played:
        streams = 0

        async def stream(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            nonlocal streams
            streams += 1
            writer.write(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            if streams == 6:
                played.overrides["tools/list"] = _no_tools
                writer.write(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
                await writer.drain()
                await asyncio.Event().wait()
            await writer.drain()
            writer.close()

        played.overrides["GET"] = stream
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
            await on.until(lambda: streams == 6 and not on.server("far").tools)


async def _no_tools(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(result(request, {"tools": []}))


async def test_server_with_prompts_only_is_no_failure(wire: WireServer, tmp_path: Path) -> None:
    async with scripted_server() as played:
        played.overrides["tools/list"] = _answer_call(error={"code": -32601, "message": "Method not found"})
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url}}) as on:
            await on.until(lambda: on.server("far").state is not McpServerState.STARTING)
            assert (on.server("far").state, on.server("far").tools) == (McpServerState.READY, ())


async def test_server_that_cannot_be_greeted_has_one_error_line(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "_CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with scripted_server() as moved, scripted_server() as refusing:
            moved.overrides["/s3cret"] = _raw(document(b"", status=302, Location="?more"))
            refusing.overrides["initialize"] = _answer_call(error={"code": -32603, "message": "out of order"})
            problems = {
                "moved": (moved.url.replace("mcp", "s3cret"), f"it has moved to {moved.url[:-4]}; change"),
                "refusing": (refusing.url, "out of order"),
                "silent": (f"https://127.0.0.1:{silent.getsockname()[1]}/mcp", "it cannot be reached in time"),
                "gone": ("http://127.0.0.1:9/mcp", "it cannot be reached"),
            }
            servers = {name: {"url": url} for name, (url, _) in problems.items()}
            async with open_server_session(wire, tmp_path, servers) as on:
                await on.until(lambda: all(on.server(name).state is McpServerState.FAILED for name in servers))
                for name, (_, problem) in problems.items():
                    assert on.server(name).problem.startswith(problem)
                assert await on.run_turn() == ""
                assert not [name for name in on.offered_tools if "__" in name]
