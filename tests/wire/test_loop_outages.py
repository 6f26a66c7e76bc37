"""The store, git or a closing request fails or stalls: what the user is told, and that the session goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.agent.updates import EventRecorded, SessionFailed, SessionPhase, Update
from app.conversation.events import AssistantMessage, TurnEnded, UserMessage, UserNotice
from app.llm.failures.request_errors import RetryPolicy
from app.llm.transport import Timeouts
from app.tools.tool_registry import AdditionalTools, ToolSource
from tests.waiting import MAX_WAIT_SECONDS
from tests.wire import bench as bench_module
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.hosting import Hosted
from tests.wire.replies import BREAK, DONE, STALL, Reply, Turn, chunk, error, stream
from tests.wire.server import Request, WireServer


def rename(on: Bench, old: str, new: str) -> None:
    with on.runtime.database.transaction() as connection:
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")


def failures(on: Bench) -> list[str]:
    return [update.message for update in on.updates if isinstance(update, SessionFailed)]


async def test_what_cannot_be_stored_is_shown_and_the_session_goes_on(server: WireServer, on: Bench) -> None:
    rename(on, "events", "lost")
    await on.session.notify_user(UserNotice(text="Mind the gap."))
    rename(on, "lost", "events")
    assert failures(on) == ["Mind the gap."]

    def lose(request: Request) -> Turn:
        rename(on, "events", "lost")
        return Turn("Done.")

    server.model(lose)
    await on.say("Do it")
    rename(on, "lost", "events")
    assert failures(on)[1].startswith("The turn ended early: ") and not on.session.is_busy
    server.model(lambda request: Turn("Done."))
    await on.say("Once more")
    assert on.stopped == "answer" and len(failures(on)) == 2


async def test_a_queued_message_stays_queued_if_its_turn_cannot_start(server: WireServer, on: Bench) -> None:
    def lose(update: Update) -> None:
        if isinstance(update, EventRecorded) and isinstance(update.event, TurnEnded):
            leave()
            rename(on, "events", "lost")

    leave = on.session.subscribe(lose)
    server.always(Turn("Done."))
    await on.session.send("Do it")
    await on.settled(on.session.send("And that"))
    (said,) = failures(on)
    assert said.startswith("The turn could not start: ") and on.session.queue == ("And that",)
    rename(on, "lost", "events")
    await on.say("Go on")
    assert [event.text for event in on.events if isinstance(event, UserMessage)] == ["Do it", "And that", "Go on"]


async def test_a_refused_commit_is_reported_and_the_approval_stands(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, commit=True) as on:
        await on.say("Change it", edit())
        await on.session.approve("P1")
        assert on.file != FILE
        (notice,) = [event for event in on.events if isinstance(event, UserNotice)]
        assert notice.level == "warning" and "not a git repository" in notice.text


class Silent(ToolSource):
    """A source of tools that never comes to an answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def offered_tools(self, window: int | None) -> AdditionalTools:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_an_interrupt_ends_the_wait(server: WireServer, on: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Silent()
    monkeypatch.setattr(on.session.ports.tools, "_source", source)
    await on.session.send("Do it")
    await source.asked.wait()
    on.session.interrupt()
    await on.session.wait_until_idle()
    assert (on.stopped, failures(on), server.requests) == ("aborted", [], [])


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the user ends a stall."""
    endless = Timeouts(closing=600, first=600, idle=600)
    monkeypatch.setattr(bench_module, "TIMEOUTS", endless)
    monkeypatch.setattr(Timeouts, "for_endpoint", lambda endpoint: endless)
    monkeypatch.setattr("app.agent.turn._STALL_SECONDS", 0.2)


@pytest.mark.parametrize("reply", [stream(STALL), stream(chunk("I have"), STALL)], ids=["silent", "in mid-sentence"])
@pytest.mark.parametrize(("act", "asked"), [("say", 3), ("deny", 3), ("approve", 2)])
async def test_the_user_ends_a_stalled_closing_request(
    server: WireServer, on: Bench, reply: Reply, act: str, asked: int
) -> None:
    server.turn(calls=[edit()])
    server.script([reply, Turn("Right.")])
    await on.session.send("Be less formal")
    assert await server.arrived(2)
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "say": lambda: on.session.send("And now the tests"),
        "deny": lambda: on.session.deny("P1", feedback="Not like this"),
        "approve": lambda: on.session.approve("P1"),
    }
    await acts[act]()
    await on.session.wait_until_idle()
    assert await server.requests[1].left()
    assert len(server.requests) == asked
    assert on.stopped == ("staged" if act == "approve" else "answer")
    if asked == 3:
        assert "interrupted" not in str(server.requests[2].messages), "the user did not interrupt it"


@pytest.mark.parametrize(
    ("words", "asked", "stopped"),
    [(("approve", "P1"), 2, "staged"), (("deny", "P1"), 2, "staged"), (("deny", "P1", "-m", "No."), 3, "answer")],
)
async def test_a_decision_in_another_process_ends_a_stalled_closing_request(
    server: WireServer, hosted: Hosted, words: tuple[str, ...], asked: int, stopped: str
) -> None:
    server.turn(calls=[edit()])
    server.script([stream(STALL), Turn("Right.")])
    await hosted.session.send("Be less formal")
    assert await server.arrived(2)
    await hosted.other(*words)
    assert await server.requests[1].left()
    await hosted.until(lambda: hosted.turns() == (2 if asked == 3 else 1))
    ends = [event.stopped for event in hosted.session.log.events if isinstance(event, TurnEnded)]
    assert (len(server.requests), ends[-1]) == (asked, stopped)


async def test_feedback_does_not_cut_off_the_closing_answer(server: WireServer, on: Bench) -> None:
    await on.say("Be less formal", edit())
    server.turn(calls=[edit(new="'Hey '")])
    silence = (b": wait\n\n", BREAK) * 60
    server.script([stream(chunk("It greets"), *silence, chunk(" with Hey."), chunk(finish="stop"), DONE)])
    await on.settled(on.session.deny("P1", feedback="Even less"))
    said = [event.text for event in on.events if isinstance(event, AssistantMessage)]
    assert said[-1] == "It greets with Hey."


async def test_a_slow_closing_answer_arrives(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.agent.turn._STALL_SECONDS", MAX_WAIT_SECONDS)
    server.turn(calls=[edit()])
    slowly = (b": wait\n\n", BREAK) * 60
    server.script(
        [stream(chunk("It greets"), *slowly, chunk(" with Hi."), chunk(finish="stop"), DONE), Turn("Right.")]
    )
    async with bench(server, tmp_path) as on:
        await on.session.send("Be less formal")
        assert await server.arrived(2)
        await on.session.send("And now the tests")
        await on.session.wait_until_idle()
        assert "It greets with Hi." in of_role(server.last, "assistant")
        assert not server.requests[1].disconnected.is_set()


async def test_the_error_of_a_too_large_request_is_in_the_end_of_the_turn(server: WireServer, on: Bench) -> None:
    server.always(error(413, "client intended to send too large body"))
    await on.say("Hello")
    (end,) = [event.message for event in on.events if isinstance(event, TurnEnded)]
    assert "client intended to send too large body" in end and "(413)" in end
    assert "Making room did not help" in end


async def test_resume_ends_the_wait_for_a_retry(server: WireServer, tmp_path: Path) -> None:
    server.script([error(429, "Wait", headers={"retry-after": "600"}), Turn("Hello.")])
    async with bench(server, tmp_path, retry=RetryPolicy()) as on:
        waiting = asyncio.Event()
        on.session.subscribe(lambda _: waiting.set() if on.session.phase is SessionPhase.RETRYING else None)
        await on.session.send("Hello")
        await asyncio.wait_for(waiting.wait(), 10)
        await on.settled(on.session.resume())
        assert on.stopped == "answer" and len(server.requests) == 2
