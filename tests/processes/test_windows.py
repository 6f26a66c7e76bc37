"""Two windows, each a separate process, in one workspace: a decision goes to the session that proposed."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.agent.turns import SessionOpenElsewhere
from app.agent.updates import GateOpenedOrClosed, ProposalsChanged
from app.conversation.events import Event, ProposalDecided, UserMessage, UserNotice
from tests.forking import ForkedProcess
from tests.waiting import MAX_WAIT_SECONDS
from tests.wire.bench import FILE, edit, of_role
from tests.wire.hosting import Hosted
from tests.wire.replies import STALL, Reply
from tests.wire.server import WireServer

MODULE = "tests.processes.second_window"


class Window:
    def __init__(self, process: ForkedProcess, reports: asyncio.StreamReader, commands: asyncio.StreamWriter) -> None:
        self._process = process
        self._reports = reports
        self._commands = commands
        self.received: list[dict[str, Any]] = []
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for line in self._reports:
            self.received.append(json.loads(line))
            self._more.set()

    async def until(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Wait for the first report that meets a condition."""
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while True:
                for report in self.received:
                    if condition(report):
                        return report
                self._more.clear()
                await self._more.wait()

    async def run_command(self, *words: str) -> dict[str, Any]:
        self.received.clear()
        self._commands.write(json.dumps(words).encode() + b"\n")
        await self._commands.drain()
        return await self.until(lambda report: "done" in report)

    def kill(self) -> None:
        self._process.kill()

    async def close(self) -> None:
        if self._process.poll() is None:
            self._commands.write_eof()
        await asyncio.to_thread(self._process.wait)
        await self._reading
        self._commands.close()


@contextlib.asynccontextmanager
async def window(server: WireServer, hosted: Hosted, session: str = "") -> AsyncIterator[Window]:
    """Start another process in the workspace, with a new session or the given one."""
    ours, theirs = socket.socketpair()
    words = (str(hosted.root), server.base_url, session)
    process = hosted.processes.start_module(MODULE, *words, folder=hosted.root, environment=os.environ, talk=theirs)
    other = Window(process, *await asyncio.open_connection(sock=ours))
    try:
        await other.until(lambda report: "session" in report)
        yield other
    finally:
        await other.close()


async def stage(server: WireServer, hosted: Hosted) -> None:
    """Let the first window's model propose P1."""
    server.turn(calls=[edit()])
    server.say("Have a look.")
    await hosted.session.send("Be less formal")
    await hosted.until(lambda: hosted.turns() == 1)
    assert hosted.session.gate.is_closed


def decisions(events: list[Event]) -> list[tuple[str, str, str]]:
    return [
        (event.proposal, event.decision, event.feedback) for event in events if isinstance(event, ProposalDecided)
    ]


async def test_approval_in_another_window_opens_the_gate(server: WireServer, hosted: Hosted) -> None:
    async with window(server, hosted) as other:
        await stage(server, hosted)
        await other.until(lambda report: report.get("changed") == ["P1"])
        hosted.updates.clear()
        await other.run_command("approve", "P1")
        await hosted.until(lambda: GateOpenedOrClosed(False) in hosted.updates)
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
        report = await other.run_command("deny", "P1", "Not like\nthat.")
        await hosted.until(lambda: hosted.turns() == 2)
        assert report["queue"] == []
        assert of_role(server.last, "user") == ["Be less formal", "Not like\nthat."], (
            "the feedback goes to the first session"
        )
        assert {"event": "notice"} in other.received, "the other window shows where the feedback went"
        assert not any(report.get("event") == "turn_started" for report in other.received)
    assert decisions(list(hosted.session.log.events)) == [("P1", "denied", "Not like\nthat.")]
    assert [(record.session, record.decided.decision) for record in hosted.host.runtime.sessions.decisions()] == [
        (hosted.session.id, "denied")
    ]


async def test_approval_from_another_process_opens_the_gate_and_all_windows_show_it(
    server: WireServer, hosted: Hosted
) -> None:
    async with window(server, hosted) as other:
        await stage(server, hosted)
        hosted.updates.clear()
        await hosted.other("approve", "P1")
        await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
        await hosted.until(lambda: not hosted.session.gate.is_closed)
        assert (hosted.root / "greet.py").read_text() == FILE.replace("Hello", "Hi")
        assert len(server.requests) == 2, "an approval doesn't start a turn"
        await other.until(lambda report: report.get("changed") == ["P1"])
        other.received.clear()
        # Undone proposals are not pending, but an undo also changes the state.
        await hosted.other("undo", "P1")
        await other.until(lambda report: report.get("changed") == ["P1"])
        await hosted.until(lambda: ("P1", "undone", "") in decisions(list(hosted.session.log.events)))


async def test_decision_for_a_closed_session_waits_in_its_log(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    first = hosted.host.runtime.sessions.get(hosted.session.id)
    second = await hosted.host.open()
    await second.deny("P1", feedback="Not like that.")
    assert decisions(list(second.log.events)) == []
    (note,) = [event.text for event in second.log.events if isinstance(event, UserNotice)]
    assert "Be less formal" in note and "once you resume it" in note
    assert len(server.requests) == 2, "no request is made in the wrong conversation"
    again = await hosted.host.open(first)
    assert len(server.requests) == 2, "opening a session makes no request"
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(
        lambda: any(isinstance(update, ProposalsChanged) and "P2" in update.ids for update in hosted.updates)
    )
    assert len(server.requests) == 2, "proposals of others make no request"
    server.say("I see.")
    await again.resume()
    await again.wait_until_idle()
    assert of_role(server.last, "user") == ["Be less formal", "Not like that."]


async def test_another_window_cannot_prune_an_open_session(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    await hosted.other("sessions", "--prune", "0")
    assert len(hosted.host.runtime.sessions.events(hosted.session.id)) == len(hosted.session.log.events)


async def test_fork_receives_decisions_on_proposals_of_the_original(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    original = hosted.session.id
    store = hosted.host.runtime.sessions
    fork = await hosted.host.open(await asyncio.to_thread(store.fork, original))
    assert fork.gate.is_closed
    server.say("I see.")
    await fork.deny("P1", feedback="Not like that.")
    await fork.wait_until_idle()
    assert of_role(server.last, "user") == ["Be less formal", "Not like that."]
    assert decisions(store.events(original)) == [("P1", "denied", "")], "the original session receives the decision"
    assert [record.session for record in store.decisions()] == [fork.id], "it was decided once"


async def test_second_window_takes_over_when_the_first_closes_the_session(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    async with window(server, hosted, hosted.session.id) as other:
        assert other.received[-1]["follows"]
        report = await other.run_command("send", "Me too")
        assert report["follows"] and "open in another window" in other.received[0]["refused"]
        server.say("I see.")
        await other.run_command("deny", "P1", "Not like that.")
        await hosted.until(lambda: hosted.turns() == 2)
        await other.until(lambda report: report.get("event") == "turn_ended")
        assert of_role(server.last, "user") == ["Be less formal", "Not like that."], "the decision arrives once"
        first = hosted.host.runtime.sessions.get(hosted.session.id)
        await hosted.host.open()
        server.say("Here I am.")
        await other.run_command("send", "And now I")
        await other.run_command("settle")
        assert of_role(server.last, "user")[-1] == "And now I"
        again = await hosted.host.open(first)
        assert again.is_follower
        with pytest.raises(SessionOpenElsewhere):
            await again.send("Once more")


async def test_killed_window_leaves_its_session_and_queue(server: WireServer, hosted: Hosted) -> None:
    async with window(server, hosted) as other:
        session = next(report["session"] for report in other.received if "session" in report)
        server.script([Reply((STALL,))])
        await other.run_command("send", "First")
        assert (await other.run_command("send", "Second"))["queue"] == ["Second"]
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


async def test_denial_from_another_process_starts_a_turn(server: WireServer, hosted: Hosted) -> None:
    await stage(server, hosted)
    server.say("I see.")
    await hosted.other("deny", "P1", "-m", "Not like\nthat.")
    await hosted.until(lambda: hosted.turns() == 2)
    assert of_role(server.last, "user")[-1] == "Not like\nthat."
    assert decisions(list(hosted.session.log.events)) == [("P1", "denied", "Not like\nthat.")]


async def test_proposal_of_another_process_is_shown_and_rebased(hosted: Hosted) -> None:
    hosted.updates.clear()
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    service = hosted.host.runtime.service
    assert [proposal.id for proposal in service.pending()] == ["P1"]
    (hosted.root / "greet.py").write_text("# a comment\n\n\n" + FILE)
    await hosted.until(lambda: any(change.rebased for change in service.get("P1").files))
    (hosted.root / "greet.py").write_text("something else\n")
    await hosted.until(lambda: service.get("P1").state == "stale")


async def test_last_of_two_simultaneously_opened_sessions_stays_open(server: WireServer, hosted: Hosted) -> None:
    opened = await asyncio.gather(hosted.host.open(), hosted.host.open())
    (left,) = [session for session in opened if session is not hosted.host.session]
    server.say("Hello.")
    await left.send("into the void")
    await left.wait_until_idle()
    assert server.requests == []
