"""Retries, silence and cancellation: what is repeated when, and that nothing is left behind."""

import asyncio
import re
import time
from contextlib import aclosing
from email.utils import formatdate
from typing import Any

import pytest

from app.llm.failures.failures import ErrorToFailureTranslator
from app.llm.failures.request_errors import AttemptFailed, FailureKind, RequestError, RetryPolicy
from app.llm.transport import ProgressExtendedTimeout, Timeouts, Transport
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, Payload, RetryScheduled, StreamUpdate, TextDelta
from app.llm.wires.wire_registry import wire_for
from tests.wire.driving import FAST, client_of, closing, failure_of, opening, response, updates_of
from tests.wire.replies import BREAK, CUT, DONE, STALL, Turn, call_delta, chunk, error, stream
from tests.wire.server import WireServer

STUBBORN = RetryPolicy(attempts=20, base=0.01, busy_base=0.01, cap=0.01)
"""Tries until a busy machine is fast enough."""
PATIENT = RetryPolicy(cap=0.0, jitter=lambda: 0.0)
"""Server hints as they are, own delays of nothing."""


async def first_delay(server: WireServer, headers: dict[str, str], message: str = "Wait", status: int = 429) -> float:
    """The delay that the client announces for the first retry; the wait itself is cut off."""
    server.always(error(status, message, headers=headers))
    async with client_of(server, retry=PATIENT) as client, aclosing(client.stream(opening)) as updates:
        async for update in updates:
            if isinstance(update, RetryScheduled):
                return update.delay
    raise AssertionError("no retry")


@pytest.mark.parametrize(
    ("headers", "message", "expected"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"Retry-After": "1.5"}, "", 1.5),
        ({"retry-after-ms": "250"}, "", 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
        ({"retry-after": "3"}, "Please retry in 12.3s", 3),
        ({}, "Please retry in 12.3s.", 12.3),
        ({}, "No deployments available for selected model, Try again in 5 seconds", 5),
        ({"x-ratelimit-reset-requests": "1.57s", "x-ratelimit-remaining-requests": "0"}, "", 1.57),
        ({"x-ratelimit-reset-tokens": "20ms", "x-ratelimit-reset-requests": "6m0s"}, "", 0.02),
        ({"retry-after": "0"}, "", 0),
        ({"retry-after": "soon"}, "", 0),
        ({"retry-after": "-4"}, "", 0),
        ({}, "", 0),
    ],
)
async def test_the_retry_delay_comes_from_the_servers_headers_or_text(
    server: WireServer, headers: dict[str, str], message: str, expected: float
) -> None:
    assert await first_delay(server, headers, message) == pytest.approx(expected)


async def test_a_retry_date_becomes_a_delay(server: WireServer) -> None:
    delay = await first_delay(server, {"retry-after": formatdate(time.time() + 30, usegmt=True)})
    assert 27 < delay <= 30


@pytest.mark.parametrize("headers", [{"retry-after": "3000"}, {"x-ratelimit-reset-requests": "60m0s"}])
async def test_a_long_retry_delay_fails_and_leaves_the_decision_to_the_user(
    server: WireServer, headers: dict[str, str]
) -> None:
    server.always(error(429, "Wait", headers=headers))
    async with client_of(server) as client:
        caught = await failure_of(updates_of(client))
    assert caught.kind is FailureKind.RATE_LIMITED
    assert caught.retry_at is not None and 2900 < caught.retry_at - time.time() <= 3600
    assert re.search(r"It takes requests again at \d\d:\d\d", caught.message)
    assert len(server.requests) == 1


async def test_retry_now_ends_a_long_wait(server: WireServer) -> None:
    server.script([error(429, "Wait", headers={"retry-after": "600"}), Turn("Hello")])
    async with client_of(server) as client:
        updates = []
        async for update in client.stream(opening):
            updates.append(update)
            if isinstance(update, RetryScheduled):
                assert update.delay >= 600 and re.search(r"again at \d\d:\d\d", update.reason)
                asyncio.get_running_loop().call_later(0.01, client.retry_now)
        assert response(updates).text == "Hello"


async def test_every_attempt_sends_the_same_request(server: WireServer) -> None:
    failures = (stream(chunk("Hi"), CUT), error(503, "Loading"), error(500, "Oops"), error(429, "Wait"))
    server.script([*failures, Turn("Hello")])
    async with client_of(server) as client:
        updates = await updates_of(client)
    assert response(updates).text == "Hello"
    assert [update.attempt for update in updates if isinstance(update, RetryScheduled)] == [1, 2, 3, 4]
    first, *others = [request.body for request in server.requests]
    assert len(others) == 4 and all(body == first for body in others)


BEATS = [part for _ in range(60) for part in (b": ping\n\n", chunk(None), BREAK)]


@pytest.mark.parametrize(
    ("timeouts", "replies", "reason"),
    [
        (Timeouts(first=0.3), [stream(STALL), stream(chunk("", role="assistant"), b": !\n\n", STALL)], "first token"),
        (Timeouts(idle=0.3), [stream(chunk("Hi"), *BEATS, STALL)], ""),
        (Timeouts(read=0.3), [stream(chunk("Hi"), STALL)], ""),
    ],
    ids=["before the first token", "heartbeats only", "no bytes"],
)
async def test_silence_is_retried(server: WireServer, timeouts: Timeouts, replies: list[Any], reason: str) -> None:
    server.script(replies)
    server.always(Turn("Hello"))
    async with client_of(server, timeouts=timeouts, retry=STUBBORN) as client:
        updates = await updates_of(client)
    assert response(updates).text == "Hello"
    reasons = [update.reason for update in updates if isinstance(update, RetryScheduled)]
    assert len(reasons) >= len(replies) and all(reason in one for one in reasons)
    assert not any("Try again" in one for one in reasons)
    for request in server.requests[: len(replies)]:
        assert await request.left()


async def test_the_error_of_a_silent_exchange_names_what_it_waited_for(server: WireServer) -> None:
    server.always(stream(STALL))
    endpoint, timeouts = Endpoint(server.base_url, "test-model"), Timeouts(first=0.02)
    transport = Transport(endpoint, timeouts, ErrorToFailureTranslator(endpoint))
    await transport.wait_until_ready()
    exchange = transport.exchange(wire_for(EndpointProfile()), {}, ProgressExtendedTimeout(timeouts, closing=False))
    with pytest.raises(AttemptFailed, match=r"sent nothing for 0.02 s while waiting for its first token"):
        await anext(exchange)
    await transport.aclose()


async def test_a_response_that_trickles_ends_at_the_total_time_limit(server: WireServer) -> None:
    tokens = [part for _ in range(400) for part in (chunk("h"), BREAK)]
    server.always(stream(*tokens, STALL))
    for timeouts, build, closes in (
        (Timeouts(whole=0.3), opening, False),
        (Timeouts(whole_closing=0.3), closing, True),
    ):
        async with client_of(server, timeouts=timeouts, retry=RetryPolicy(closing_attempts=1)) as client:
            with pytest.raises(RequestError, match=r"did not finish its response within 0.3 s") as caught:
                await updates_of(client, build, closing=closes)
        assert caught.value.partial is not None and caught.value.partial.text.startswith("hh")
    assert len(server.requests) == 2


async def test_silence_before_the_first_byte_is_named_in_the_error(server: WireServer) -> None:
    server.always(stream(STALL))
    async with client_of(server, timeouts=Timeouts(read=0.2), retry=RetryPolicy(attempts=1)) as client:
        caught = await failure_of(updates_of(client), r"sent nothing for 0.2 s while waiting for its first byte")
    assert "scope" not in caught.message


async def test_reasoning_and_calls_count_as_progress(server: WireServer) -> None:
    thoughts = [part for _ in range(30) for part in (chunk(reasoning="h"), *[BREAK] * 3)]
    arguments = [part for _ in range(30) for part in (chunk(calls=[call_delta(0, arguments=" ")]), *[BREAK] * 3)]
    begun = chunk(calls=[call_delta(0, call_id="1", name="read_file")])
    server.script([stream(*thoughts, begun, *arguments, chunk(finish="stop"), DONE)])
    async with client_of(server, timeouts=Timeouts(first=1.5, idle=1.5)) as client:
        assert response(await updates_of(client)).calls[0].arguments == {}
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "sent"),
    [(error(503, "Busy"), 2), (error(429, "Wait", headers={"retry-after": "6"}), 1)],
    ids=["once", "not after a long delay"],
)
async def test_a_closing_request_is_retried_once_and_soon(server: WireServer, reply: Any, sent: int) -> None:
    server.always(reply)
    async with client_of(server, retry=FAST if sent == 2 else PATIENT) as client:
        caught = await failure_of(updates_of(client, closing, closing=True))
    assert (caught.retry_at is not None) == (sent == 1)
    assert len(server.requests) == sent


async def test_silence_after_a_closing_request_ends_early(server: WireServer) -> None:
    server.always(stream(STALL))
    timeouts = Timeouts(closing=0.5, first=60, idle=60)
    async with client_of(server, timeouts=timeouts, retry=RetryPolicy(closing_total=0.05)) as client:
        caught = await failure_of(updates_of(client, closing, closing=True))
    assert caught.kind is FailureKind.STREAM_BROKEN
    assert len(server.requests) == 1


@pytest.mark.parametrize("moment", ["before the headers", "before the first token", "in the text", "in a call"])
async def test_cancelling_closes_the_connection_and_leaves_no_task(server: WireServer, moment: str) -> None:
    reply = {
        "before the headers": stream(STALL),
        "before the first token": stream(b": hello\n\n", STALL),
        "in the text": stream(chunk("Hel"), STALL),
        "in a call": stream(chunk(calls=[call_delta(0, call_id="1", name="edit_file", arguments='{"a')]), STALL),
    }[moment]
    server.script([reply, Turn("Hello")])
    seen: list[StreamUpdate] = []
    arrived = asyncio.Event()
    async with client_of(server) as client:

        async def consume() -> None:
            async for update in client.stream(opening):
                seen.append(update)
                arrived.set()

        before = asyncio.all_tasks()
        task = asyncio.create_task(consume())
        assert await server.arrived(1)
        if moment in ("in the text", "in a call"):
            await asyncio.wait_for(arrived.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before
        assert await server.requests[0].left()
        assert response(await updates_of(client)).text == "Hello"
    assert [update.text for update in seen if isinstance(update, TextDelta)] == (["Hel"] if "text" in moment else [])


async def test_leaving_the_generator_closes_the_connection(server: WireServer) -> None:
    server.script([stream(chunk("Hel"), STALL)])
    async with client_of(server) as client:
        async with aclosing(client.stream(opening)) as updates:
            before = asyncio.all_tasks()
            async for _ in updates:
                break
        assert await server.last.left()
        # The HTTP library finishes generators of its own in the next turns of the loop.
        for _ in range(10):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == before


async def test_cancelling_ends_the_wait_for_a_retry(server: WireServer) -> None:
    server.always(error(429, "Wait", headers={"retry-after": "50"}))
    async with client_of(server, retry=PATIENT) as client:
        waiting = asyncio.Event()

        async def consume() -> None:
            async for update in client.stream(opening):
                if isinstance(update, RetryScheduled):
                    waiting.set()

        task = asyncio.create_task(consume())
        await asyncio.wait_for(waiting.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(server.requests) == 1


async def test_two_requests_at_once_do_not_mix(server: WireServer) -> None:
    server.model(lambda request: Turn(request.messages[-1]["content"] * 50, pieces=50))
    async with client_of(server) as client:

        async def ask(word: str) -> str:
            updates = await updates_of(client, lambda profile: Payload([{"role": "user", "content": word}], []))
            return response(updates).text

        answers = await asyncio.gather(*(ask(word) for word in "abc"))
    assert answers == ["a" * 50, "b" * 50, "c" * 50]
