"""The demo server on the wire: shapes of its answers, what it refuses, disconnects, and its process."""

import asyncio
import json
import math
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from app.demo.process import DemoServer, DemoServerFailed
from app.demo.server import DemoHttpServer
from tests.unit.demo.conftest import serving

MODULE = [sys.executable, "-m", "app.demo.server", "--tokens-per-second", "inf", "--until-stdin-closes"]
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
HELP = [{"role": "user", "content": "help"}]
EXPLAIN = [{"role": "user", "content": "explain notes.md"}]


def called(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    """An assistant message with calls."""
    calls = [
        {"id": name, "type": "function", "function": {"name": "read_file", "arguments": arguments}} for name in ids
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(name: str) -> dict[str, Any]:
    """A tool message."""
    return {"role": "tool", "tool_call_id": name, "content": "1\tx"}


@pytest.fixture
def slow_server() -> Iterator[DemoHttpServer]:
    """A server so slow that no stream of it ends within a test."""
    with serving(0.001) as server:
        yield server


@pytest.fixture
def server() -> Iterator[DemoHttpServer]:
    """A server without pauses."""
    with serving(math.inf) as server:
        yield server


@pytest.fixture
async def client(server: DemoHttpServer) -> AsyncIterator[AsyncOpenAI]:
    """The SDK's client of it."""
    async with AsyncOpenAI(base_url=server.base_url, api_key="none needed", max_retries=0) as client:
        yield client


def port_of(base_url: str) -> int:
    """The port that a server listens on."""
    return int(base_url.removesuffix("/v1").rsplit(":", 1)[1])


async def raw(base_url: str, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes; status, headers and body of the answer, to its end."""
    port = port_of(base_url)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    writer.close()
    return int(head[0].split()[1]), headers, body


async def test_the_model_is_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["signoff-demo"]
    assert (await client.models.retrieve("signoff-demo")).owned_by == "signoff"


async def test_text_streams_in_pieces_with_usage_at_the_end(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="signoff-demo", messages=HELP, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert len(texts) > 100
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == ["stop"]
    assert chunks[-1].choices == []
    usage = chunks[-1].usage
    assert usage is not None and usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


async def test_usage_comes_only_if_asked_for(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model="signoff-demo", messages=HELP, stream=True)
    assert all(chunk.usage is None and chunk.choices for chunk in [chunk async for chunk in stream])


async def test_a_call_streams_its_name_first_and_its_arguments_in_pieces(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="signoff-demo",
        messages=[{"role": "user", "content": "explain a/rather/long/path/that/needs/two/pieces.md"}],
        tools=[TOOL],
        stream=True,
    )
    deltas = [choice.delta for chunk in [chunk async for chunk in stream] for choice in chunk.choices]
    pieces = [piece for delta in deltas for piece in delta.tool_calls or ()]
    assert pieces[0].id and pieces[0].function.name == "read_file"
    assert all(piece.index == 0 and piece.id is None for piece in pieces[1:])
    assert len(pieces) > 2
    arguments = json.loads("".join(piece.function.arguments for piece in pieces))
    assert arguments == {"path": "a/rather/long/path/that/needs/two/pieces.md"}


async def test_the_whole_answer_is_the_same_as_the_stream(client: AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model="signoff-demo", messages=EXPLAIN, tools=[TOOL])
    choice = whole.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.arguments == '{"path": "notes.md"}'
    stream = await client.chat.completions.create(model="signoff-demo", messages=EXPLAIN, tools=[TOOL], stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == choice.message.content


async def test_a_forced_tool_is_called_with_arguments_of_its_schema(client: AsyncOpenAI) -> None:
    forced = {"type": "function", "function": {"name": "read_file"}}
    for choice in (forced, "required"):
        whole = await client.chat.completions.create(
            model="signoff-demo", messages=HELP, tools=[TOOL], tool_choice=choice
        )
        call = whole.choices[0].message.tool_calls[0].function
        assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": "demo"})


async def test_a_valid_history_of_every_shape_is_taken(client: AsyncOpenAI) -> None:
    await client.chat.completions.create(
        model="signoff-demo",
        messages=[
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "explain "}, {"type": "text", "text": "x.md"}]},
            called("a", "b"),
            result("b"),
            result("a"),
            {"role": "developer", "content": "a note"},
            {"role": "assistant", "content": "text"},
            {"role": "system", "content": "a note"},
            {"role": "user", "content": "one"},
            {"role": "user", "content": "two"},
        ],
        tools=[TOOL],
        tool_choice="none",
        temperature=0,
        max_tokens=100,
    )


INVALID = {
    "no messages": ({"messages": []}, "messages"),
    "a call without result": ({"messages": [*HELP, called("a")]}, "must be followed by tool messages"),
    "one result of two": ({"messages": [*HELP, called("a", "b"), result("a")]}, "no response: b"),
    "a system message before the result": (
        {"messages": [*HELP, called("a"), {"role": "system", "content": "x"}, result("a")]},
        "must be followed by tool messages",
    ),
    "a user message before the result": ({"messages": [*HELP, called("a"), *HELP, result("a")]}, "no response: a"),
    "an orphan result": ({"messages": [*HELP, result("a")]}, "must be a response to a preceding message"),
    "two results for a call": (
        {"messages": [*HELP, called("a"), result("a"), result("a")]},
        "must be a response to a preceding message",
    ),
    "an id that is used twice": ({"messages": [*HELP, called("a", "a"), result("a")]}, "not unique"),
    "arguments that are no object": (
        {"messages": [*HELP, called("a", arguments="[1]"), result("a")]},
        "must be a JSON object",
    ),
    "arguments that do not parse": (
        {"messages": [*HELP, called("a", arguments='{"path'), result("a")]},
        "must be a JSON object",
    ),
    "an empty assistant message": ({"messages": [*HELP, {"role": "assistant", "content": ""}]}, "has neither"),
    "a null user message": ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    "an unknown role": ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0]"),
    "a tool choice without tools": ({"messages": HELP, "tool_choice": "none"}, "only allowed when 'tools'"),
    "a tool twice": ({"messages": HELP, "tools": [TOOL, TOOL]}, "must be unique"),
    "a tool choice that is no tool": (
        {"messages": HELP, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
        "not among the tools",
    ),
    "stream options without a stream": (
        {"messages": HELP, "stream_options": {"include_usage": True}},
        "only allowed when 'stream'",
    ),
}


@pytest.mark.parametrize("case", INVALID)
async def test_an_invalid_request_is_refused_with_the_reason(client: AsyncOpenAI, case: str) -> None:
    body, reason = INVALID[case]
    with pytest.raises(openai.BadRequestError) as caught:
        await client.post("/chat/completions", body={"model": "signoff-demo", **body}, cast_to=dict[str, Any])
    assert reason in caught.value.message
    assert caught.value.body["type"] == "invalid_request_error"


async def test_an_unknown_model_is_named(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="`gpt-9` does not exist") as caught:
        await client.chat.completions.create(model="gpt-9", messages=HELP)
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /v1/nowhere HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405),
        (b"POST /v1/models HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 4\r\n\r\n{not", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: many\r\n\r\n", 411),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_no_good_request_gets_its_status(
    server: DemoHttpServer, request_bytes: bytes, status: int
) -> None:
    answered, headers, body = await raw(server.base_url, request_bytes)
    assert answered == status
    assert json.loads(body)["error"]["message"]
    assert ("allow" in headers) == (status == 405)


async def test_a_connection_serves_several_requests(server: DemoHttpServer) -> None:
    port = port_of(server.base_url)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"GET /v1/models HTTP/1.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert b"signoff-demo" in await reader.readexactly(length)
    writer.close()


def answering() -> list[threading.Thread]:
    """The server's threads, one for each connection."""
    return [thread for thread in threading.enumerate() if "process_request" in thread.name]


async def test_a_disconnect_ends_the_stream_at_once(slow_server: DemoHttpServer) -> None:
    async with AsyncOpenAI(base_url=slow_server.base_url, api_key="none needed", max_retries=0) as client:
        stream = await client.chat.completions.create(model="signoff-demo", messages=HELP, stream=True)
        async for _ in stream:
            break
        assert answering()
        await stream.close()
    while answering():
        await asyncio.sleep(0)


async def test_the_process_tells_its_address_and_serves() -> None:
    async with DemoServer(MODULE) as server:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none needed", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["signoff-demo"]
        pid = server.pid
        assert pid is not None
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_signoff_itself_can_be_the_server() -> None:
    async with DemoServer() as server:
        assert server.base_url.startswith("http://127.0.0.1:")


async def test_a_command_that_ends_at_once_is_told() -> None:
    server = DemoServer([sys.executable, "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(DemoServerFailed, match="no such thing"):
        await server.start()
    assert server.pid is None
    await server.stop()


async def test_a_missing_command_is_told() -> None:
    with pytest.raises(DemoServerFailed, match="cannot be started"):
        await DemoServer(["/nonexistent/signoff"]).start()


async def test_the_process_ends_with_a_parent_that_is_killed() -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "COMMAND": json.dumps(MODULE)},
    )
    assert parent.stdout is not None
    base_url = (await parent.stdout.readline()).decode().strip()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(base_url))
    writer.write(b"GET /v1/nowhere HTTP/1.1\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 404 Not Found\r\n", "the connection is served, not only queued"
    await reader.readuntil(b"}}")
    parent.kill()
    await parent.wait()
    assert await reader.read() == b"", "the connection lives for as long as the server does"
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port_of(base_url))


PARENT = """
import asyncio, json, os
from app.demo.process import DemoServer

async def main():
    server = DemoServer(json.loads(os.environ["COMMAND"]))
    print(await server.start(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_port_that_is_taken_is_one_clear_line(server: DemoHttpServer) -> None:
    port = str(port_of(server.base_url))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.demo.server", "--port", port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 1
    assert output == b""
    assert len(errors.decode().strip().splitlines()) == 1
    assert port in errors.decode()
