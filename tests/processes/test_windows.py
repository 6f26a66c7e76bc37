"""Two windows, each a process of its own, on one workspace: a decision belongs to the session that proposed."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.agent.turns import SessionOpenElsewhere
from app.agent.updates import GateChanged, ProposalsChanged
from app.conversation.events import Event, Notice, ProposalDecided, UserMessage
from tests.forking import ForkedProcess
from tests.waiting import MAX_WAIT_SECONDS
from tests.wire.bench import FILE, edit, of_role
from tests.wire.hosting import Hosted
from tests.wire.replies import STALL, Reply
from tests.wire.server import WireServer

MODULE = "tests.processes.second_window"


class Window:
    """The other window."""

    def __init__(self, process: ForkedProcess, told: asyncio.StreamReader, orders: asyncio.StreamWriter) -> None:
        self._process = process
        self._told = told
        self._orders = orders
        self.seen: list[dict[str, Any]] = []
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for line in self._told:
            self.seen.append(json.loads(line))
            self._more.set()

    async def until(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Wait for the first thing told that meets a condition."""
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while True:
                for one in self.seen:
                    if condition(one):
                        return one
                self._more.clear()
                await self._more.wait()

    async def do(self, *words: str) -> dict[str, Any]:
        """Have something done, and return what is told of it at its end."""
        self.seen.clear()
        self._orders.write(json.dumps(words).encode() + b"\n")
        await self._orders.drain()
        return await self.until(lambda one: "done" in one)

    def kill(self) -> None:
        self._process.kill()

    async def close(self) -> None:
        """Leave, as a user does."""
        if self._process.poll() is None:
            self._orders.write_eof()
        await asyncio.to_thread(self._process.wait)
        await self._reading
        self._orders.close()


@contextlib.asynccontextmanager
async def window(server: WireServer, hosted: Hosted, session: str = "") -> AsyncIterator[Window]:
    """Another process on the workspace, with a session of its own or this one."""
    ours, theirs = socket.socketpair()
    words = (str(hosted.root), server.base_url, session)
    process = hosted.processes.start_module(MODULE, *words, folder=hosted.root, environment=os.environ, talk=theirs)
    other = Window(process, *await asyncio.open_connection(sock=ours))
    try:
        await other.until(lambda one: "session" in one)
        yield other
    finally:
        await other.close()


async def stage(server: WireServer, hosted: Hosted) -> None:
    """Have the first window's model propose P1."""
    server.turn(calls=[edit()])
    server.say("Have a look.")
    await hosted.session.send("Be less formal")
    await hosted.until(lambda: hosted.turns() == 1)
    assert hosted.session.gate.is_closed


def decisions(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(one.proposal, one.decision, one.feedback) for one in events if isinstance(one, ProposalDecided)]


async def test_approval_in_another_window_opens_the_gate(server: WireServer, hosted: Hosted) -> None:
    async with window(server, hosted) as other:
        await stage(server, hosted)
        await other.until(lambda one: one.get("changed") == ["P1"])
        hosted.updates.clear()
        await other.do("approve", "P1")
        await hosted.until(lambda: GateChanged(False) in hosted.updates)
        await hosted.until(lambda: ProposalsChanged(("P1",)) in hosted.updates)
    assert (hosted.root / "greet.py").read_text() == FILE.replace("Hello", "Hi")
    assert decisions(list(hosted.session.log.events)) == [("P1", "approved", "")]
    assert len(server.requests) == 2, "an approval starts no turn"
    server.say("Good.")
    await hosted.session.send("And now?")
    await hosted.session.wait_until_idle()
    assert any("The user approved proposal P1" in text for text in of_role(server.last, "system"))


async def test_feedback_in_another_window_goes_to_the_model_that_proposed(server: WireServer, hosted: Hosted) -> None:
    async with window(server, hosted) as other:
        await stage(server, hosted)
        server.say("I see.")
        told = await other.do("deny", "P1", "Not like\nthat.")
        await hosted.until(lambda: hosted.turns() == 2)
        assert told["queue"] == []
        assert of_role(server.last, "user") == ["Be less formal", "Not like\nthat."], (
            "one conversation, the first one"
        )
        assert {"event": "notice"} in other.seen, "the other window says where the words went"
        assert not any(one.get("event") == "turn_started" for one in other.seen)
    assert decisions(list(hosted.session.log.events)) == [("P1", "denied", "Not like\nthat.")]
    assert [(one.session, one.decided.decision) for one in hosted.host.runtime.sessions.decisions()] == [
        (hosted.session.id, "denied")
    ]


async def test_a_third_window_shows_every_state_at_once(server: WireServer, hosted: Hosted) -> None:
    async with window(server, hosted) as other:
        await stage(server, hosted)
        await hosted.session.approve("P1")
        await other.until(lambda one: one.get("changed") == ["P1"])
        other.seen.clear()
        # What is undone waits for nobody: it is a change of state all the same.
        await hosted.other("undo", "P1")
        await other.until(lambda one: one.get("changed") == ["P1"])
        await hosted.until(lambda: ("P1", "undone", "") in decisions(list(hosted.session.log.events)))


async def test_a_decision_for_a_session_that_is_closed_waits_in_its_log(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    first = hosted.host.runtime.sessions.get(hosted.session.id)
    second = await hosted.host.open()
    await second.deny("P1", feedback="Not like that.")
    assert decisions(list(second.log.events)) == []
    (note,) = [event.text for event in second.log.events if isinstance(event, Notice)]
    assert "Be less formal" in note and "once you resume it" in note
    assert len(server.requests) == 2, "nobody is asked in the wrong conversation"
    again = await hosted.host.open(first)
    assert len(server.requests) == 2, "to open a session asks nobody either"
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(one, ProposalsChanged) and "P2" in one.ids for one in hosted.updates))
    assert len(server.requests) == 2, "nor does what others write"
    server.say("I see.")
    await again.resume()
    await again.wait_until_idle()
    assert of_role(server.last, "user") == ["Be less formal", "Not like that."]


async def test_a_fork_is_told_of_decisions_on_what_it_remembers(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    original = hosted.session.id
    store = hosted.host.runtime.sessions
    fork = await hosted.host.open(await asyncio.to_thread(store.fork, original))
    assert fork.gate.is_closed
    server.say("I see.")
    await fork.deny("P1", feedback="Not like that.")
    await fork.wait_until_idle()
    assert of_role(server.last, "user") == ["Be less formal", "Not like that."]
    assert decisions(store.events(original)) == [("P1", "denied", "")], "the original is told the fact"
    assert [one.session for one in store.decisions()] == [fork.id], "it was decided once"


async def test_a_second_window_takes_over_once_the_first_is_closed(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    async with window(server, hosted, hosted.session.id) as other:
        assert other.seen[-1]["follows"]
        told = await other.do("send", "Me too")
        assert told["follows"] and "open in another window" in other.seen[0]["refused"]
        server.say("I see.")
        await other.do("deny", "P1", "Not like that.")
        await hosted.until(lambda: hosted.turns() == 2)
        await other.until(lambda one: one.get("event") == "turn_ended")
        assert of_role(server.last, "user") == ["Be less formal", "Not like that."], "decided there, told here, once"
        first = hosted.host.runtime.sessions.get(hosted.session.id)
        await hosted.host.open()
        server.say("Here I am.")
        await other.do("send", "And now I")
        await other.do("settle")
        assert of_role(server.last, "user")[-1] == "And now I"
        again = await hosted.host.open(first)
        assert again.is_follower
        with pytest.raises(SessionOpenElsewhere):
            await again.send("Once more")


async def test_a_killed_window_leaves_its_session_and_its_queue(server: WireServer, hosted: Hosted) -> None:
    async with window(server, hosted) as other:
        session = next(one["session"] for one in other.seen if "session" in one)
        server.script([Reply((STALL,))])
        await other.do("send", "First")
        assert (await other.do("send", "Second"))["queue"] == ["Second"]
        other.kill()
    opened = await hosted.host.open(hosted.host.runtime.sessions.get(session))
    assert not opened.is_follower
    assert opened.queue == ("Second",)
    assert [event.text for event in opened.log.events if isinstance(event, UserMessage)] == ["First"]


PATCH = """--- a/greet.py
+++ b/greet.py
@@ -1,2 +1,2 @@
 def greet(name):
-    return 'Hello ' + name
+    return 'Hi ' + name
"""


async def test_a_denial_from_outside_reaches_the_model_at_once(server: WireServer, hosted: Hosted) -> None:
    session = hosted.host.session
    assert session is not None
    server.turn(calls=[edit()])
    server.say("Have a look.")
    await session.send("Be less formal")
    await hosted.until(lambda: hosted.turns() == 1)
    server.say("I see.")
    await hosted.other("deny", "P1", "-m", "Not like\nthat.")
    await hosted.until(lambda: hosted.turns() == 2)
    assert of_role(server.last, "user")[-1] == "Not like\nthat."
    decided = [event for event in session.log.events if isinstance(event, ProposalDecided)]
    assert len(decided) == 1


async def test_an_approval_from_outside_is_taken_in_once(server: WireServer, hosted: Hosted) -> None:
    session = hosted.host.session
    assert session is not None
    server.turn(calls=[edit()])
    server.say("Have a look.")
    await session.send("Be less formal")
    await hosted.until(lambda: hosted.turns() == 1)
    hosted.updates.clear()
    await hosted.other("approve", "P1")
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    await hosted.until(lambda: not session.gate.is_closed)
    assert (hosted.root / "greet.py").read_text() == FILE.replace("Hello", "Hi")
    assert len(server.requests) == 2, "an approval doesn't start a turn"


async def test_proposal_of_another_process_is_shown(hosted: Hosted) -> None:
    hosted.updates.clear()
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    assert [proposal.id for proposal in hosted.host.runtime.service.pending()] == ["P1"]


async def test_a_change_on_disk_re_bases_what_waits(hosted: Hosted) -> None:
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    (hosted.root / "greet.py").write_text("# a comment\n\n\n" + FILE)
    service = hosted.host.runtime.service
    await hosted.until(lambda: any(change.rebased for change in service.get("P1").files))
    (hosted.root / "greet.py").write_text("something else\n")
    await hosted.until(lambda: service.get("P1").state == "stale")


async def test_the_last_of_two_sessions_opened_at_once_stays(server: WireServer, hosted: Hosted) -> None:
    opened = await asyncio.gather(hosted.host.open(), hosted.host.open())
    (left,) = [session for session in opened if session is not hosted.host.session]
    server.say("Hello.")
    await left.send("into the void")
    await left.wait_until_idle()
    assert server.requests == []
