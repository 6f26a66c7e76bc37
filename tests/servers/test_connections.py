"""Connections to servers, and the server object around them, without a session."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.config.config_tables import McpServerTable
from app.llm.response import bounded_stream
from app.mcp_client import http_connection
from app.mcp_client import mcp_server as servers
from app.mcp_client import server_program as stdio
from app.mcp_client.configured_servers import ServerDefinition, WriteAccess
from app.mcp_client.http_connection import HttpConnection
from app.mcp_client.json_rpc import Message
from app.mcp_client.mcp_connection import ConnectionLost, HandleNotification, McpServerTimeout
from app.mcp_client.mcp_server import McpServer, McpServerState
from app.mcp_client.server_program import StdioConnection
from app.mcp_client.token_store import OAuthToken, TokenStore
from app.sandbox import enclosed_process
from app.sandbox.enclosed_process import process_limits as program_limits
from app.sandbox.enclosed_process import start_persistent_process
from app.sandbox.process import MARKER_VARIABLE
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.servers.address import Answer, ReceivedRequest, ScriptedServer, document, scripted_server
from tests.servers.stage import ENVIRONMENT, PLAYER, player
from tests.unit.tools.processes import new_mark
from tests.waiting import until


@contextlib.asynccontextmanager
async def program(folder: Path, *words: str) -> AsyncIterator[StdioConnection]:
    """Open a connection to a Python program, by default the scripted server."""
    environment = {**ENVIRONMENT, MARKER_VARIABLE: new_mark(), "PLAYED": str(folder / "played.jsonl")}
    process = await start_persistent_process(
        [],
        [sys.executable, *(words or (str(PLAYER),))],
        folder=folder,
        environment=environment,
        root=folder,
        limits=program_limits(),
    )
    talk = StdioConnection(process, folder, lambda *_: None, lambda _: None)
    try:
        yield talk
    finally:
        await talk.close()


def call_until_exists(file: Path) -> Message:
    code = f"print('sleeps', file=sys.stderr, flush=True)\nwhile not Path({str(file)!r}).exists(): time.sleep(0.01)"
    return {"name": "run", "arguments": {"code": code}}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os, time; os.close(1); time.sleep(3600)", "it closed its output"),
        ("pass", "it ended: exit code 0"),
        ("print('x' * 2**20)", "it sent a line of more than 0 MB"),
    ],
)
async def test_a_useless_server_ends(code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_END_SECONDS", 0.1 if "sleep" in code else 60)
    monkeypatch.setattr(stdio, "MAX_SERVER_MESSAGE_BYTES", 2**18)
    # On Linux, the enclosing process keeps the output open as long as it runs.
    monkeypatch.setattr(enclosed_process, "PLATFORM", "darwin")
    async with program(tmp_path, "-c", code) as talk:
        await talk.ended.wait()
        assert talk.end_reason == why
        with pytest.raises(ConnectionLost, match=why):
            await talk.request("ping", {}, 60)


async def test_a_request_given_up_is_cancelled_and_one_after_close_fails(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with program(tmp_path) as talk:
        with pytest.raises(McpServerTimeout, match=r"no answer within 0.01 s"):
            await talk.request("tools/call", call_until_exists(go), 0.01)
        asking = asyncio.create_task(talk.request("tools/call", call_until_exists(go), 60))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go.touch()
        assert await talk.request("ping", {}, 60) == {}
        await talk.close()
        with pytest.raises(ConnectionLost, match="it was stopped"):
            await talk.request("ping", {}, 60)
    messages = map(json.loads, (tmp_path / "played.jsonl").read_text().splitlines())
    cancelled = [message["params"] for message in messages if message["method"] == "notifications/cancelled"]
    assert [(one["requestId"], one["reason"]) for one in cancelled] == [
        (1, "it took too long"),
        (2, "the user stopped it"),
    ]


@contextlib.asynccontextmanager
async def http_connection_to(
    folder: Path, method: str, trick: Answer, notified: HandleNotification = lambda *_: None
) -> AsyncIterator[tuple[ScriptedServer, HttpConnection]]:
    """Open a connection to a server that answers one method with this handler."""

    async def nobody() -> Mapping[str, str]:
        return {}

    async with scripted_server() as played:
        played.overrides[method] = trick
        talk = HttpConnection(played.url, {}, folder, notified, nobody)
        try:
            yield played, talk
        finally:
            await talk.close()


def streaming(*lines: str) -> Answer:
    """Answer with an endless stream that begins with these lines."""

    async def stream(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\n")
        for line in lines:
            writer.write(f"{line}\n\n".encode())
        await writer.drain()
        await asyncio.Event().wait()

    return stream


async def test_notifications_arrive_after_a_broken_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_PAUSE_SECONDS", (0.0, 0.0))
    received: list[str] = []

    async def break_once(asked: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        played.overrides["GET"] = streaming('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        writer.transport.abort()

    async with http_connection_to(tmp_path, "GET", break_once, lambda method, _: received.append(method)) as (
        played,
        talk,
    ):
        talk.on_initialized("2025-11-25")
        await until(lambda: received == ["notifications/tools/list_changed"])


async def test_stream_of_notifications_is_reopened_after_a_new_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "_PAUSE_SECONDS", (0.0, 0.0))
    received: list[str] = []
    refusals = asyncio.Event()

    async def refuse(asked: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(document(b"", status=401))
        refusals.set()

    async with http_connection_to(tmp_path, "GET", refuse, lambda method, _: received.append(method)) as (
        played,
        talk,
    ):
        talk.on_initialized("2025-11-25")
        await refusals.wait()
        played.overrides["GET"] = streaming('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        await talk.notify("notifications/initialized")
        await until(lambda: received == ["notifications/tools/list_changed"])


async def test_stream_ends_with_the_answer_after_invalid_lines(tmp_path: Path) -> None:
    answer = streaming("data: {nope", 'data: {"jsonrpc":"2.0","id":1,"result":{"said":"hi"}}')
    async with http_connection_to(tmp_path, "ping", answer) as (_, talk):
        assert await talk.request("ping", {}, 60) == {"said": "hi"}


@pytest.mark.parametrize("breaks", [True, False])
async def test_a_stream_that_ends_early_is_continued_after_its_last_event(breaks: bool, tmp_path: Path) -> None:
    """The server ends the stream before the answer, as version 2025-11-25 allows."""

    async def end_early(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        asked = request.headers.get("last-event-id", "")
        stream = {
            "": b"retry: 1%0*d\nid: 1\nretry: 0\ndata:\n\nid: 5" % (5000, 0),
            "1": b'id: 2\n: wait\n\nid: 6\ndata: {"jsonrpc"',
            "2": b'id: 3\ndata: {"jsonrpc":"2.0","id":1,"result":{"said":"hi"}}\n\n',
        }[asked]
        whole = document(stream, kind="text/event-stream")
        if breaks and asked != "2":
            writer.write(whole.replace(b"Content-Length: ", b"Content-Length: 9"))
            await writer.drain()
            writer.close()
        else:
            writer.write(whole)

    async with http_connection_to(tmp_path, "ping", end_early) as (played, talk):
        played.overrides["GET"] = end_early
        assert await talk.request("ping", {}, 60) == {"said": "hi"}
        assert [request.method for request in played.requests] == ["POST", "GET", "GET"]


@pytest.mark.parametrize("status", [401, 404, 405, 500])
async def test_a_call_whose_stream_cannot_be_continued_is_not_repeated(status: int, tmp_path: Path) -> None:
    async def end_early(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(document(b"id: 1\nretry: 0\n\n", kind="text/event-stream", Mcp_Session_Id="s1"))

    async def refuse(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(document(b"", status=status))

    async with http_connection_to(tmp_path, "ping", end_early) as (played, talk):
        played.overrides["GET"] = refuse
        with pytest.raises(ConnectionLost, match="its answer broke off") as caught:
            await talk.request("ping", {}, 60)
        assert type(caught.value) is ConnectionLost


async def test_a_stream_that_always_ends_early_stops_at_the_time_limit(tmp_path: Path) -> None:
    async def end_early(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(document(b"id: 1\nretry: 0\n\n", kind="text/event-stream"))

    async with http_connection_to(tmp_path, "ping", end_early) as (played, talk):
        played.overrides["GET"] = end_early
        with pytest.raises(McpServerTimeout):
            await talk.request("ping", {}, 0.5)
        assert b"notifications/cancelled" in played.requests[-1].body


async def test_endless_line_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_stream, "MAX_EVENT_BYTES", 1_000)
    async with http_connection_to(tmp_path, "ping", streaming("data: " + "x" * 2_000)) as (_, talk):
        with pytest.raises(ConnectionLost, match="its answer is too long"):
            await talk.request("ping", {}, 60)


@contextlib.asynccontextmanager
async def running_server(folder: Path, *, layer: bool = False, **table: Any) -> AsyncIterator[McpServer]:
    (folder / "workspace").mkdir()
    workspace = Workspace(folder / "workspace")
    sandbox = Sandbox(workspace, folder / "runs", own_folders=())
    definition = ServerDefinition("play", McpServerTable.model_validate({**table, "layer": layer}), "a test")
    tokens = TokenStore(folder / "tokens.json")
    server = McpServer(definition, lambda: sandbox, workspace.root, ENVIRONMENT, tokens, lambda: None)
    server.start_in_background()
    try:
        yield server
    finally:
        await server.stop()


async def test_a_stopped_call_does_not_block_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_PING_SECONDS", 0.05)
    async with running_server(tmp_path, **player(timeout=5)) as server:
        await server.start_and_wait()
        assert await server.write_access() is WriteAccess.DIRECT
        tools = {offer.tool: offer for offer in server.tools}
        calling = asyncio.create_task(server.call_tool(tools["sleep"], {}))
        await until(lambda: "sleeps" in server.log.lines)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert await server.start_with_files({}) == []
        assert (await server.call_tool(tools["echo"], {"text": "hello"}))["content"][0]["text"] == "hello"
        assert "it is still busy with the call that the user stopped" in str(server.log.lines)


async def test_server_that_exceeds_its_call_timeout_is_stopped(tmp_path: Path) -> None:
    async with running_server(tmp_path, **player(timeout=0.05)) as server:
        await server.start_and_wait()
        sleep = next(offer for offer in server.tools if offer.tool == "sleep")
        with pytest.raises(ConnectionLost, match=r"no answer within 0.05 s, its time limit; it was ended"):
            await server.call_tool(sleep, {})
        assert server.state is McpServerState.FAILED


async def test_server_that_disconnects_in_a_call_has_failed(tmp_path: Path) -> None:
    async with scripted_server() as played, running_server(tmp_path, url=played.url) as server:
        await server.start_and_wait()
        assert await server.write_access() is WriteAccess.REMOTE
        (echo, *_) = server.tools

        async def hang_up(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        played.overrides["tools/call"] = hang_up
        with pytest.raises(ConnectionLost, match="it cannot be reached"):
            await server.call_tool(echo, {})
        assert server.state is McpServerState.FAILED
        del played.overrides["tools/call"]
        await server.start_and_wait()
        assert (await server.call_tool(echo, {"text": "hello"}))["content"][0]["text"] == "hello"


async def test_a_server_that_refuses_the_protocol_version_gets_the_oldest(tmp_path: Path) -> None:
    async def negotiate(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        asked = request.message["params"]["protocolVersion"]
        error = {"code": -32602, "message": f"unsupported protocol version: {asked}"}
        answer = {"result": {"protocolVersion": asked}} if asked == "2024-11-05" else {"error": error}
        writer.write(document({"jsonrpc": "2.0", "id": request.message["id"], **answer}))

    async with scripted_server() as played:
        played.overrides["initialize"] = negotiate
        async with running_server(tmp_path, url=played.url) as server:
            await server.start_and_wait()
            assert server.state is McpServerState.READY
        assert played.requests[-1].headers["mcp-protocol-version"] == "2024-11-05"


@pytest.mark.parametrize("has_token", [True, False])
async def test_rejected_token_is_refreshed_without_the_user(has_token: bool, tmp_path: Path) -> None:
    async def renew(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        played.token = "new"
        writer.write(document(b'{"access_token": "new"}'))

    async with scripted_server() as played:
        played.overrides["/token"], played.token = renew, "another"
        if has_token:
            endpoint = played.url.replace("/mcp", "/token")
            token = OAuthToken(access_token="old", refresh_token="r", token_endpoint=endpoint, client_id="c")
            TokenStore(tmp_path / "tokens.json").save(played.url, token)
        async with running_server(tmp_path, url=played.url) as server:
            await server.wait_until_ready_or_failed()
            assert server.state is (McpServerState.READY if has_token else McpServerState.SIGN_IN)
        greetings = [request for request in played.requests if b'"initialize"' in request.body]
        assert len(greetings) == 1 + has_token


@pytest.mark.layer
async def test_a_server_that_just_died_is_restarted_before_a_call(tmp_path: Path) -> None:
    async with running_server(tmp_path, layer=True, **player()) as server:
        await server.start_and_wait()
        program = server._program
        assert program is not None and await server.write_access() is WriteAccess.LAYER
        os.kill(program.process.pid, signal.SIGKILL)
        assert await server.start_with_files({}) == []
        assert server.state is McpServerState.READY and server._program is not program
