"""Finding model servers on this machine: by what they answer, not by their port."""

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import pytest

from app.llm.endpoint_doctor import DetectedLocalServer, find_local_servers
from tests.wire.replies import STALL, Reply, document, stream
from tests.wire.server import WireServer


def listing(owner: str, *names: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner} for name in names]}


def play(server: WireServer, answers: dict[str, Any], **options: Any) -> None:
    """Answer these paths; all others are 404."""
    for path, answer in answers.items():
        server.route(path, document(answer, **options))


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("ollama", {"/v1/models": listing("library", "qwen:7b", "nomic-embed-text"), "/api/version": {"version": "0.9"}}),
    ("ollama", {"/v1/models": listing("somebody", "qwen:7b"), "/api/version": {"version": "0.9"}}),
    (
        "lmstudio",
        {
            "/v1/models": listing("organization_owner", "qwen:7b"),
            "/lmstudio-greeting": {"lmstudio": True},
            "/api/version": {"error": "Unexpected endpoint or method."},
        },
    ),
    ("llama.cpp", {"/v1/models": {"models": [], **listing("llamacpp", "qwen:7b")}}),
    ("vllm", {"/v1/models": listing("vllm", "qwen:7b"), "/version": {"version": "0.33"}}),
    ("unknown", {"/v1/models": listing("me", "qwen:7b")}),
]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("kind", "answers"), KINDS)
async def test_the_kind_of_a_local_server_is_recognised(
    server: WireServer, kind: str, answers: dict[str, Any], chunked: bool
) -> None:
    play(server, answers, chunked=chunked)
    found = await find_local_servers([server.port], max_wait_seconds=20)
    assert found == [DetectedLocalServer(kind, server.base_url, ("qwen:7b",))]


async def test_other_servers_are_not_taken_for_model_servers(server: WireServer) -> None:
    assert await find_local_servers([9]) == await find_local_servers([]) == []
    answers: tuple[Any, ...] = ("<html>", {"data": "no"}, [], json.dumps({"models": []}), "[" * 50_000)
    for answer in answers:
        play(server, {"/v1/models": answer})
        assert await find_local_servers([server.port], max_wait_seconds=20) == []
    server.route("/v1/models", document(listing("vllm", "a"), status=503))
    assert await find_local_servers([server.port], max_wait_seconds=20) == []


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 200 OK\r\n\r\n{nope", b"HTTP", b"", None])
async def test_a_server_with_only_a_model_list_has_an_unknown_kind(greeting: bytes | None) -> None:
    """Nonsense in place of a greeting, half an answer, none; or nobody listens any more."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if asked.startswith(b"GET /v1/models "):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(listing("me", "a")).encode())
            if greeting is None:
                listening.close()
        else:
            writer.write(greeting or b"")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        found = await find_local_servers([port], max_wait_seconds=20)
    assert found == [DetectedLocalServer("unknown", f"http://127.0.0.1:{port}/v1", ("a",))]


@pytest.mark.timeout(6)
@pytest.mark.parametrize("chunks", [b"1\r\nx\r\n" * 170_000, b"-2\r\n" * 1_000, b"no size\r\n", b"5\r\nhe"])
async def test_endless_chunk_headers_do_not_block_the_discovery(server: WireServer, chunks: bytes) -> None:
    body = Reply((chunks,), headers={"transfer-encoding": "chunked"}, content_type="application/json", chunked=False)
    server.route("/v1/models", body)
    assert await find_local_servers([server.port], max_wait_seconds=15) == []


async def test_all_ports_are_asked_at_once_and_a_silent_one_times_out() -> None:
    with ExitStack() as running:
        servers = [running.enter_context(WireServer()) for _ in range(3)]
        play(servers[0], {"/v1/models": listing("vllm", "a")})
        servers[1].route("/v1/models", stream(STALL))
        play(servers[2], {"/v1/models": listing("llamacpp", "b")})
        ports = [9, *(server.port for server in servers)]
        found = await find_local_servers(ports, max_wait_seconds=2)
        assert [server.models for server in found] == [("a",), ("b",)]
        assert await servers[1].visits[0].left()
