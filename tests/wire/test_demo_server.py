"""The demo server on the wire: shapes of its answers, what it refuses, disconnects, and its process."""

import asyncio
import gc
import json
import math
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from app.demo.demo_server import DemoServerCannotListen, demo_server

COMMAND = [sys.executable, "-P", "-m", "signoff", "demo-server"]
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
    calls = [
        {"id": name, "type": "function", "function": {"name": "read_file", "arguments": arguments}} for name in ids
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "1\tx"}


@pytest.fixture
async def server() -> AsyncIterator[str]:
    async with demo_server(math.inf) as settings:
        yield str(settings["base_url"])


@pytest.fixture
async def client(server: str) -> AsyncIterator[Any]:
    """The SDK's client of it, which needs no certificates."""
    without = DefaultAsyncHttpxClient(verify=False)
    async with AsyncOpenAI(base_url=server, api_key="none needed", max_retries=0, http_client=without) as client:
        yield client


def port_of(base_url: str) -> int:
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


async def test_the_demo_model_is_listed_and_others_are_unknown(client: Any) -> None:
    assert [model.id async for model in client.models.list()] == ["signoff-demo"]
    assert (await client.models.retrieve("signoff-demo")).owned_by == "signoff"
    with pytest.raises(openai.NotFoundError, match="`gpt-9` does not exist") as caught:
        await client.chat.completions.create(model="gpt-9", messages=HELP)
    assert caught.value.code == "model_not_found"


async def test_text_streams_in_pieces_with_usage_at_the_end_if_requested(client: Any) -> None:
    create = partial(client.chat.completions.create, model="signoff-demo", messages=HELP, stream=True)
    chunks = [chunk async for chunk in await create(stream_options={"include_usage": True})]
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert len(texts) > 100
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == ["stop"]
    assert chunks[-1].choices == []
    usage = chunks[-1].usage
    assert usage is not None and usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None and chunk.choices for chunk in [chunk async for chunk in await create()])


async def test_a_call_streams_its_name_first_and_its_arguments_in_pieces(client: Any) -> None:
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


async def test_the_answer_without_streaming_equals_the_stream_and_a_forced_tool_is_called(client: Any) -> None:
    create = partial(client.chat.completions.create, model="signoff-demo", tools=[TOOL])
    choice = (await create(messages=EXPLAIN)).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.arguments == '{"path": "notes.md"}'
    stream = await create(messages=EXPLAIN, stream=True)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == choice.message.content
    for forced in ({"type": "function", "function": {"name": "read_file"}}, "required"):
        call = (await create(messages=HELP, tool_choice=forced)).choices[0].message.tool_calls[0].function
        assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": "demo"})


async def test_a_valid_history_of_every_shape_is_accepted(client: Any) -> None:
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


INVALID: dict[str, dict[str, Any]] = {
    "no messages": {"messages": []},
    "no list of messages": {"messages": "hello"},
    "an orphan result": {"messages": [*HELP, result("a")]},
    "arguments that are no object": {"messages": [*HELP, called("a", arguments="[1]"), result("a")]},
    "arguments that do not parse": {"messages": [*HELP, called("a", arguments='{"path'), result("a")]},
    "a tool choice that is no tool": {
        "messages": HELP,
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "other"}},
    },
}


async def test_demo_server_refuses_unreadable_bodies(client: Any) -> None:
    for case, fields in INVALID.items():
        body: Any = {"model": "signoff-demo", **fields}
        with pytest.raises(openai.BadRequestError, match="not in the form of the Chat Completions API") as caught:
            await client.post("/chat/completions", body=body, cast_to=dict[str, Any])
        body = caught.value.body
        assert body["type"] == "invalid_request_error", case


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /v1/nowhere HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 404),
        (b"POST /v1/models HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 404),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 4\r\n\r\n{not", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ],
)
async def test_demo_server_answers_with_the_right_status(server: str, request_bytes: bytes, status: int) -> None:
    answered, headers, body = await raw(server, request_bytes)
    assert answered == status
    assert json.loads(body)["error"]["message"]
    assert headers["connection"] == "close"


@pytest.mark.parametrize("sent", [b"", b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 200_000])
async def test_an_incomplete_request_is_closed_without_an_error(server: str, sent: bytes) -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(sent)
    writer.write_eof()
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    gc.collect()
    assert failures == []


async def test_a_disconnect_ends_the_stream_at_once() -> None:
    """The server is so slow that no stream of it ends within a test."""
    here = asyncio.all_tasks()
    async with demo_server(0.001) as settings:
        async with AsyncOpenAI(base_url=settings["base_url"], api_key="none needed", max_retries=0) as sdk:
            client: Any = sdk
            stream = await client.chat.completions.create(model="signoff-demo", messages=HELP, stream=True)
            async for _ in stream:
                break
            assert asyncio.all_tasks() > here
            await stream.close()
        while asyncio.all_tasks() > here:
            await asyncio.sleep(0)


async def test_a_client_that_disconnects_gets_no_more_data() -> None:
    async with demo_server(0.001) as settings:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(settings["base_url"]))
        body = json.dumps({"model": "signoff-demo", "messages": HELP, "stream": True})
        writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await reader.readuntil(b"data: ")
        writer.write_eof()
        assert b"data: " not in await reader.read()
        writer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_demo_server_command_runs_until_a_signal(number: int) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, stdout=pipe)
    assert process.stdout is not None
    base_url = (await process.stdout.readline()).decode().strip()
    async with AsyncOpenAI(base_url=base_url, api_key="none needed", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["signoff-demo"]
    port = str(port_of(base_url))
    if number == signal.SIGTERM:
        # A second one is told in one line that the port is occupied.
        second = await asyncio.create_subprocess_exec(*COMMAND, "--port", port, stdout=pipe, stderr=pipe)
        output, errors = await second.communicate()
        assert (second.returncode, output) == (1, b"")
        assert len(errors.decode().strip().splitlines()) == 1 and port in errors.decode()
    process.send_signal(number)
    await process.communicate()
    assert process.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(port))


async def test_an_occupied_port_is_an_error(server: str) -> None:
    with pytest.raises(DemoServerCannotListen, match=rf"port {port_of(server)}: Address already in use\.$"):
        async with demo_server(port=port_of(server)):
            pass
