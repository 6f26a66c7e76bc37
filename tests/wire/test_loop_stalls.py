"""A closing request that stalls holds nobody up: the proposal is there, and the user has the next word."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.agent.updates import Phase
from app.conversation.events import TurnEnded
from app.llm.failures.retry import RetryPolicy
from app.llm.transport import Timeouts
from tests.wire import bench as bench_module
from tests.wire.bench import Bench, bench, edit, of_role
from tests.wire.replies import STALL, Reply, Turn, chunk, error, stream
from tests.wire.server import WireServer


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing but the user ends a stall."""
    monkeypatch.setattr(bench_module, "TIMEOUTS", Timeouts(closing=600, first=600, idle=600))
    monkeypatch.setattr("app.agent.turn._STALLED", 0.2)
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


async def say(on: Bench) -> None:
    """A message."""
    await on.session.send("And now the tests")


async def deny(on: Bench) -> None:
    """Feedback."""
    await on.session.deny("P1", feedback="Not like this")


async def approve(on: Bench) -> None:
    """A decision without a word."""
    await on.session.approve("P1")


@pytest.mark.parametrize("reply", [stream(STALL), stream(chunk("I have"), STALL)], ids=["silent", "in mid-sentence"])
@pytest.mark.parametrize(("act", "asked"), [(say, 3), (deny, 3), (approve, 2)])
async def test_the_user_ends_a_stalled_closing_request(
    server: WireServer, tmp_path: Path, reply: Reply, act: Callable[[Bench], Awaitable[None]], asked: int
) -> None:
    server.turn(calls=[edit()])
    server.script([reply, Turn("Right.")])
    async with bench(server, tmp_path) as on:
        await on.session.send("Be less formal")
        assert await server.arrived(2)
        await act(on)
        await on.session.settled()
        assert await server.requests[1].left()
        assert len(server.requests) == asked
        assert on.stopped == ("staged" if act is approve else "answer")
        on.check()


async def test_a_closing_request_that_goes_on_is_heard_out(server: WireServer, tmp_path: Path) -> None:
    server.turn(calls=[edit()])
    server.script([Turn("It greets with Hi.", pieces=6), Turn("Right.")])
    async with bench(server, tmp_path) as on:
        await on.session.send("Be less formal")
        assert await server.arrived(2)
        await say(on)
        await on.session.settled()
        assert "It greets with Hi." in of_role(server.last, "assistant")
        assert not server.requests[1].disconnected.is_set()


async def test_what_an_endpoint_said_of_the_size_is_said_at_the_end(server: WireServer, tmp_path: Path) -> None:
    server.always(error(413, "client intended to send too large body"))
    async with bench(server, tmp_path) as on:
        await on.say("Hello")
        (end,) = [event.message for event in on.events if isinstance(event, TurnEnded)]
        assert "client intended to send too large body" in end and "(413)" in end
        assert "Making room did not help" in end


async def test_going_on_sends_at_once_what_waits_to_be_sent_again(server: WireServer, tmp_path: Path) -> None:
    server.script([error(429, "Wait", headers={"retry-after": "600"}), Turn("Hello.")])
    async with bench(server, tmp_path, retry=RetryPolicy()) as on:
        waiting = asyncio.Event()
        on.session.subscribe(lambda _: waiting.set() if on.session.phase is Phase.RETRYING else None)
        await on.session.send("Hello")
        await asyncio.wait_for(waiting.wait(), 10)
        await on.session.resume()
        await on.session.settled()
        assert on.stopped == "answer" and len(server.requests) == 2
