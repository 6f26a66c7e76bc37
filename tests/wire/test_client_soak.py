"""Many requests to a server that fails in every way, some cancelled: each ends, and nothing is left behind."""

import asyncio
import random
from typing import Any

import pytest

from app.llm.failures.request_errors import RequestError, RetryPolicy
from app.llm.transport import Timeouts
from tests.examples import at_most
from tests.wire.driving import client_of, opening, response, updates_of
from tests.wire.replies import CUT, DONE, STALL, Reply, Turn, call_delta, chunk, document, error, stream
from tests.wire.server import WireServer

REQUESTS = max(60, at_most(150))
CALL = chunk(calls=[call_delta(0, call_id="1", name="edit_file", arguments='{"path": "a"')])
FAULTS: list[Reply] = [
    stream(CUT),
    stream(STALL),
    stream(chunk("Hel"), CUT),
    stream(chunk("Hel"), STALL),
    stream(CALL, CUT),
    stream(CALL, DONE),
    stream(chunk("Hel"), b"data: {broken\n\n"),
    stream(chunk("Hel"), {"error": {"message": "overloaded", "code": 503}}),
    stream(DONE),
    error(429, "Slow down", headers={"retry-after-ms": "1"}),
    error(500, "Oops"),
    error(400, "No"),
    document("<html>", content_type="text/html"),
    error(400, "Your input exceeds the context window"),
]


@pytest.mark.timeout(120)
async def test_every_request_ends_and_leaves_nothing_behind(server: WireServer) -> None:
    chance = random.Random(7)
    answers: list[Turn | Reply] = [*FAULTS, *[Turn("Hello")] * len(FAULTS)]
    server.model(lambda request: chance.choice(answers))
    policy = RetryPolicy(base=0.001, cap=0.002)
    ends: dict[str, int] = {}

    async def one(client: Any) -> str:
        task = asyncio.create_task(updates_of(client, opening))
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() * 0.02)
            task.cancel()
        try:
            response(await task)
        except RequestError as failed:
            return str(failed.kind)
        except asyncio.CancelledError:
            return "cancelled"
        return "completed"

    async with client_of(server, timeouts=Timeouts(first=0.1, idle=0.1), retry=policy) as client:
        before = asyncio.all_tasks()
        for _ in range(REQUESTS):
            end = await one(client)
            ends[end] = ends.get(end, 0) + 1
        assert asyncio.all_tasks() == before
    assert ends["completed"] > REQUESTS / 3
    assert ends["cancelled"]
