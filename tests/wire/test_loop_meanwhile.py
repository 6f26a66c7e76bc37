"""What the user decides while a record is being written: the next request has it, or the one after it has."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.session import Session
from app.conversation.events import Event, RequestSent, ToolResult
from app.conversation.log import EventSink
from app.conversation.payload.projection import KeptProjection
from app.proposals.values.models import ProposalState
from tests.waiting import until
from tests.wire.bench import Bench, bench, edit, of_role
from tests.wire.server import WireServer


class SlowDisk:
    """Writes to a store, and lets something happen while it writes."""

    def __init__(self, sink: EventSink, meanwhile: Callable[[Sequence[Event]], Awaitable[None]]) -> None:
        self._sink = sink
        self._meanwhile = meanwhile

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        await self._meanwhile(events)
        return await self._sink.append(events, after)

    async def since(self, after: int) -> Sequence[Event]:
        return await self._sink.since(after)


async def denied_during(on: Bench, kind: type[Event]) -> Session:
    """A session in which the user denies P1 while the next event of this kind is written."""
    done: list[asyncio.Task[object]] = []

    async def deny(events: Sequence[Event]) -> None:
        if done or not any(isinstance(event, kind) for event in events):
            return
        done.append(asyncio.create_task(session.deny("P1", feedback="Not like\nthis")))
        await until(lambda: on.runtime.service.get("P1").state is ProposalState.DENIED)
        await until(lambda: session.log._appending._waiters, "the decision before the log")

    old = on.session
    ports = replace(old.ports, sink=SlowDisk(old.ports.sink, deny))
    session = Session(old.id, ports, old.settings, old.log.events)
    return session


async def test_feedback_on_its_way_to_the_log_is_in_the_next_request(server: WireServer, tmp_path: Path) -> None:
    """It was recorded before the request, and so as delivered, but the request had been made of what was there."""
    async with bench(server, tmp_path) as on:
        server.turn(calls=[edit()])
        server.say("Have a look.")
        await on.say("Be less formal")
        server.turn(calls=[("read_file", {"path": "greet.py"})])
        server.say("I see.")
        server.say("I see that, too.")
        session = await denied_during(on, ToolResult)
        await session.send("Read it")
        await session.wait_until_idle()
        assert not session.has_unheard_feedback
        assert "Not like\nthis" in of_role(server.requests[3], "user")[-1]
        assert sum("Not like\nthis" in text for text in of_role(server.last, "user")) == 1
        on.check()


async def test_feedback_that_comes_as_a_request_is_recorded_is_in_the_one_after_it(
    server: WireServer, tmp_path: Path
) -> None:
    async with bench(server, tmp_path) as on:
        server.turn(calls=[edit()])
        server.say("Have a look.")
        await on.say("Be less formal")
        server.say("Hello.")
        server.say("I see.")
        session = await denied_during(on, RequestSent)
        await session.send("Hi")
        await session.wait_until_idle()
        carrying = [any("Not like\nthis" in text for text in of_role(one, "user")) for one in server.requests]
        assert carrying == [False, False, False, True] and not session.has_unheard_feedback
        on.check()


async def test_no_payload_is_made_on_the_event_loop(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long history it takes half a second, in which no key would be dealt with."""
    made_on: list[threading.Thread] = []

    whole = KeptProjection.project

    def watched(*given: Any) -> Any:
        made_on.append(threading.current_thread())
        return whole(*given)

    monkeypatch.setattr(KeptProjection, "project", watched)
    async with bench(server, tmp_path) as on:
        server.turn(calls=[edit()])
        server.say("Have a look.")
        await on.say("Be less formal")
    assert len(made_on) >= 2, "the request and the closing one"
    assert threading.current_thread() not in made_on
