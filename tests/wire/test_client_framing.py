"""Framing: however a server cuts and wraps its events, the response arrives whole or the request is repeated."""

import asyncio
import json
import statistics
from contextlib import aclosing
from itertools import groupby
from typing import Any

import pytest

from app.llm.failures.request_errors import FailureKind
from app.llm.values.requests_and_updates import AttemptDiscarded, RetryScheduled
from tests.wire.driving import client_of, complete, failure_of, opening, response, updates_of
from tests.wire.replies import BREAK, CUT, DONE, END, Reply, Turn, call_delta, chunk, document, event, stream
from tests.wire.server import WireServer

HELLO = (chunk("Hel"), chunk("lo"), chunk(finish="stop"))
HELLO_BYTES = b"".join(event(part) for part in HELLO)


WHOLE: dict[str, Any] = {
    "comments": stream(b": OPENROUTER PROCESSING\n\n", *HELLO, b": again\n\n", DONE),
    "event without data": stream(HELLO[0], b"event: ping\n\n", *HELLO[1:], DONE),
    "ping with an empty object": stream(b"event: ping\ndata: {}\n\n", *HELLO, DONE),
    "retry only": stream(b"retry: 3000\n\n", *HELLO, DONE),
    "empty data": stream(HELLO[0], b"data:\n\n", b"data: \n\n", *HELLO[1:], DONE),
    "id only": stream(b"id: 7\n\n", *HELLO, DONE),
    "CRLF": stream(HELLO_BYTES.replace(b"\n", b"\r\n"), DONE),
    "CR": stream(HELLO_BYTES.replace(b"\n", b"\r"), b"data: [DONE]\r\r"),
    "one byte at a time": stream(
        *(part for byte in HELLO_BYTES.replace(b"\n", b"\r\n") for part in (bytes([byte]),)), DONE
    ),
    "CRLF cut in the middle": stream(
        event(HELLO[0])[:-1] + b"\r", BREAK, b"\n\r\n" + event(HELLO[1]), HELLO[2], DONE
    ),
    "byte order mark": stream(b"\xef\xbb\xbf" + HELLO_BYTES, DONE),
    "no DONE": stream(*HELLO),
    "last event without a blank line": stream(HELLO_BYTES.rstrip(b"\n")),
    "DONE without a blank line": stream(HELLO_BYTES + b"data: [DONE]"),
    "junk after DONE": stream(*HELLO, b"data: [DONE] \n\n", b"data: {broken\n\n"),
    "no space after the colon": stream(HELLO_BYTES.replace(b"data: ", b"data:"), DONE),
    "body ends with the connection": stream(*HELLO, DONE, chunked=False),
    "wrong content type": stream(*HELLO, DONE, content_type="text/plain"),
    "reset after the finish reason": stream(*HELLO, CUT),
    "JSON lines": Reply(
        tuple(json.dumps(part).encode() + b"\n" for part in HELLO), content_type="application/x-ndjson"
    ),
    "data in many lines": stream(json.dumps(HELLO[0], indent=1).replace("\n", "\ndata: "), *HELLO[1:], DONE),
    "whole completion": document(Turn("Hello").completion()),
    "whole completion, indented": document(json.dumps(Turn("Hello").completion(), indent=2)),
    "an array of chunks": document([*HELLO, {}]),
    "an array of chunks, indented": document(json.dumps(HELLO, indent=1)),
    "whole completion as an event": stream(Turn("Hello").completion(), DONE),
}


@pytest.mark.parametrize("reply", WHOLE.values(), ids=list(WHOLE))
async def test_text_arrives_whole(server: WireServer, reply: Reply) -> None:
    server.script([reply])
    completed = await complete(server)
    assert (completed.text, completed.finish_reason, completed.truncated) == ("Hello", "stop", False)
    assert len(server.requests) == 1


BROKEN: dict[str, Any] = {
    "cut before the first byte": stream(CUT),
    "cut after the headers": stream(b"", CUT),
    "cut in the text": stream(chunk("Hel"), CUT),
    "cut in the arguments": stream(
        chunk(calls=[call_delta(0, call_id="c", name="read_file", arguments='{"pa')]), CUT
    ),
    "cut after a whole call": stream(
        chunk("I edit."), chunk(calls=[call_delta(0, call_id="1", name="edit_file", arguments="{}")]), CUT
    ),
    "malformed JSON": stream(chunk("Hel"), b"data: {broken\n\n", chunk(finish="stop"), DONE),
    "JSON that is no object": stream(chunk("Hel"), b"data: [1, 2]\n\n", DONE),
    "bad UTF-8 in a call": stream(
        event(chunk(calls=[call_delta(0, call_id="c", name="read_file", arguments="{@}")])).replace(
            b"@", b"\xff\xfe"
        ),
        chunk(finish="tool_calls"),
        DONE,
    ),
    "empty body": stream(END),
    "only DONE": stream(DONE),
    "ends before anything is said": stream(chunk("", role="assistant"), END),
    "empty document": document("", content_type="text/plain"),
    "a document that breaks off": document(json.dumps(Turn("Hello").completion())[:-9]),
    "cut in the name of a field": stream(chunk("", role="assistant"), b"dat", END),
    "cut in the first name": stream(b"ev", END),
    "an array that breaks off": document(json.dumps(HELLO)[:-9]),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_stream_is_repeated(server: WireServer, broken: Reply) -> None:
    server.script([broken, Turn("Hello")])
    async with client_of(server) as client:
        updates = await updates_of(client)
    assert response(updates).text == "Hello"
    assert response(updates).calls == ()
    assert [update.attempt for update in updates if isinstance(update, RetryScheduled)] == [1]


async def test_cut_attempt_is_discarded_before_it_is_repeated(server: WireServer) -> None:
    server.script([stream(chunk("Hel"), CUT), stream(chunk("Hello w"), CUT), Turn("Hello world")])
    async with client_of(server) as client:
        updates = await updates_of(client)
    assert [update.text for update in updates if isinstance(update, AttemptDiscarded)] == ["Hel", "Hello w"]
    assert response(updates).text == "Hello world"


async def test_damaged_characters_are_replaced_and_cut_ones_joined(server: WireServer) -> None:
    damaged = event(chunk("Gr@n")).replace(b"@", b"\xfc")
    server.script(
        [
            stream(damaged, chunk(finish="stop"), DONE),
            stream(chunk("a\ud83c"), chunk("\udf89b\ud83c"), chunk(finish="stop"), DONE),
        ]
    )
    assert (await complete(server)).text == "Gr\ufffdn"
    assert (await complete(server)).text == "a🎉b\ufffd"


async def test_a_page_instead_of_a_stream_says_to_check_the_base_url(server: WireServer) -> None:
    page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n<body>Hi</body></html>"
    server.always(document(page, content_type="text/html"))
    caught = await failure_of(complete(server))
    assert caught.kind is FailureKind.INVALID_REQUEST
    assert "Sign in" in caught.message and "base URL" in caught.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("size", [1, 7, 65536])
async def test_text_in_deltas_of_any_size_is_joined(server: WireServer, size: int) -> None:
    text = "Grün 🎉 " * (20 if size < 100 else 20_000)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    server.script([stream(*(chunk(piece) for piece in pieces), chunk(finish="stop"), DONE)])
    assert (await complete(server)).text == text


async def test_a_connection_is_reused_also_after_the_client_was_closed(server: WireServer) -> None:
    server.always(Turn("Hello"))
    async with client_of(server) as client:
        for _ in range(3):
            await updates_of(client)
        assert not any(request.disconnected.is_set() for request in server.requests)
        assert server.connections == 1
        await client.aclose()
        assert response(await updates_of(client)).text == "Hello"


async def test_a_fast_response_lets_other_tasks_run(server: WireServer) -> None:
    server.script([stream(*[chunk("word ")] * 5000, chunk(finish="stop"), DONE)])
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.create_task(count_turns())
    async with client_of(server) as client, aclosing(client.stream(opening)) as updates:
        begun = [turns async for _ in updates]
    others.cancel()
    # Left to itself the client hands out all that one read of the socket has brought, some 300 deltas, and reads on.
    assert max(len(list(same)) for _, same in groupby(begun)) < 250


async def test_a_fast_response_waits_for_tasks_that_need_many_loop_turns(server: WireServer) -> None:
    """As a key does on its way through the queues of all widgets to the screen.

    The client sees that others are at work by how long a turn of the loop takes, which a loaded machine may blur for
    a while: one response of ten is enough. Without the wait, none gets there.
    """

    async def handed_on() -> float:
        """How often something is handed on while others need thirty turns, in the median."""
        server.script([stream(*[chunk("word ")] * 10_000, chunk(finish="stop"), DONE)])
        streamed = 0
        slices: list[int] = []

        async def work() -> None:
            while True:
                seen = []
                for _ in range(30):
                    sum(range(10_000))
                    await asyncio.sleep(0)
                    seen.append(streamed)
                slices.append(len(set(seen)) - 1)
                await asyncio.sleep(0.01)

        async with client_of(server) as client, aclosing(client.stream(opening)) as updates:
            others = asyncio.create_task(work())
            async for _ in updates:
                streamed += 1
            others.cancel()
        assert len(slices) > 5
        return statistics.median(slices)

    for _ in range(10):
        if (times := await handed_on()) <= 1:
            break
    assert times <= 1
