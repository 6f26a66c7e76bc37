"""What is too large, wherever in a response: it is not read on, told in one line, and not asked for again."""

import gzip
import json
import tracemalloc
import zlib
from typing import Any

import pytest

from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.response import response_limits
from app.llm.values.types import Completed
from tests.wire.driving import client_of, complete, response, updates_of
from tests.wire.replies import DONE, Reply, Turn, call_delta, chunk, document, event, stream
from tests.wire.server import WireServer

MIB = 2**20
MUCH = b"x" * MIB
_GZIP_HEAD = 10


def poured(first: bytes, piece: bytes, times: int = 64, **options: Any) -> Reply:
    """A body that goes on and on."""
    return Reply((first, *[piece] * times), **options)


def packed(piece: bytes, times: int = 64) -> Reply:
    """The same, packed: once, since after a full flush the same bytes say the same. Its end is never read."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    return Reply((gzip.compress(b"")[:_GZIP_HEAD] + block * times,), headers={"content-encoding": "gzip"})


DELTA = event(chunk("x" * (MIB // 2)))
ARGUMENTS = event(chunk(calls=[call_delta(0, arguments="x" * (MIB // 2))]))
CALLS = event(chunk(calls=[call_delta(None, call_id=f"c{number}", name="f") for number in range(600)]))

TOO_LARGE = {
    "an error's body": (poured(b'{"error": "', MUCH, status=400), "sent an error (400) of more than 1 MiB"),
    "an error that may pass": (poured(b"<html>", MUCH, status=503), "sent an error (503) of more than 1 MiB"),
    "a line": (poured(b"data: ", MUCH), "an event of more than 8 MiB"),
    "an event": (poured(b"", b"data: " + MUCH + b"\n"), "an event of more than 8 MiB"),
    "one delta": (stream(chunk("x" * 9 * MIB)), "an event of more than 8 MiB"),
    "a page": (poured(b"<html>\n", b"<p>" + MUCH + b"\n"), "a page of more than 8 MiB"),
    "text": (poured(b"", DELTA), "a response of more than 4 million characters"),
    "arguments": (poured(b"", ARGUMENTS), "a tool call of more than 2 million characters"),
    "calls": (poured(b"", CALLS), "a batch of more than 512 tool calls"),
    "a bomb in a line": (packed(MUCH), "an event of more than 8 MiB"),
    "a bomb of nothing": (packed(b"\n" * MIB), "an event of more than 8 MiB"),
}


@pytest.mark.parametrize("what", TOO_LARGE)
async def test_what_is_too_large_is_told_and_not_asked_for_again(server: WireServer, what: str) -> None:
    reply, words = TOO_LARGE[what]
    server.always(reply)
    with pytest.raises(RequestError) as caught:
        await complete(server)
    assert words in caught.value.message and caught.value.kind is FailureKind.STREAM_BROKEN
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 500])
async def test_a_bomb_takes_no_more_memory_than_it_may(server: WireServer, status: int) -> None:
    bomb = packed(MUCH, 256)
    server.always(Reply(bomb.parts, status=status, headers=bomb.headers))
    async with client_of(server) as client:
        await client.model_ids()
        tracemalloc.start()
        try:
            with pytest.raises(RequestError):
                await updates_of(client)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 4 * response_limits.EVENT


async def test_empty_events_without_end_are_a_body_that_is_too_large(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_limits, "BODY", 4 * MIB)
    server.always(poured(b"", event(chunk(None)) * 1_000))
    with pytest.raises(RequestError, match="sent a response of more than 4 MiB"):
        await complete(server)


async def test_what_came_before_is_kept(server: WireServer) -> None:
    server.always(stream(chunk("Hello"), b"data: ", *[MUCH] * 9))
    with pytest.raises(RequestError) as caught:
        await complete(server)
    assert isinstance(caught.value.partial, Completed) and caught.value.partial.text == "Hello"


async def test_a_list_of_models_without_end(server: WireServer) -> None:
    server.route("/v1/models", poured(b'{"data": [', MUCH))
    async with client_of(server) as client:
        with pytest.raises(RequestError, match="sent a list of models of more than 16 MiB"):
            await client.model_ids()


ANSWER = b"".join([event(chunk("Hello")), event(chunk(finish="stop")), DONE])
_BARE = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(ANSWER)),
        ("x-gzip", gzip.compress(ANSWER[:20]) + gzip.compress(ANSWER[20:])),
        ("deflate", zlib.compress(ANSWER)),
        ("deflate", _BARE.compress(ANSWER) + _BARE.flush()),
        ("identity", ANSWER),
    ],
)
async def test_a_body_that_comes_packed_all_the_same_is_read(server: WireServer, encoding: str, body: bytes) -> None:
    cut = (body[:7], body[7:])
    server.always(Reply(cut, headers={"content-encoding": encoding}))
    assert (await complete(server)).text == "Hello"
    assert server.last.headers["accept-encoding"] == "identity"


async def test_a_packed_error_keeps_the_servers_words(server: WireServer) -> None:
    body = gzip.compress(json.dumps({"error": {"message": "No such thing"}}).encode())
    server.always(document(body, status=400, headers={"content-encoding": "gzip"}))
    with pytest.raises(RequestError, match="No such thing"):
        await complete(server)


_AFTER_ZLIB = zlib.compressobj(wbits=-15)
_NO_STREAM = zlib.compress(event(chunk("Bad"))) + _AFTER_ZLIB.compress(ANSWER) + _AFTER_ZLIB.flush()
"""What is packed without a header is taken at the beginning, and not in the middle."""


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", b"\x1f\x8bnothing"), ("br", b"abc"), ("gzip, gzip", b""), ("deflate", _NO_STREAM)],
)
async def test_a_body_that_cannot_be_unpacked_is_damaged(server: WireServer, encoding: str, body: bytes) -> None:
    server.script([Reply((body,), headers={"content-encoding": encoding}), Turn("Hello")])
    async with client_of(server) as client:
        assert response(await updates_of(client)).text == "Hello"
    server.always(Reply((body,), headers={"content-encoding": encoding}))
    told = (
        "is damaged" if encoding in ("gzip", "deflate") else f"it is encoded as {encoding}, which was not asked for"
    )
    with pytest.raises(RequestError, match=told):
        await complete(server)
