"""However a turn ends, control is with the user, the log can be read back, and the next request is valid."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.agent.updates import TextStreamed, Update
from app.conversation.events import CallOutcome, ToolResult, TurnEnded, TurnStarted
from app.llm.failures.request_errors import RetryPolicy
from app.storage import StorageError
from app.storage.session_store import SessionStore
from tests.wire import strict
from tests.wire.bench import Bench, bench, edit, of_role
from tests.wire.replies import CUT, DONE, Call, Turn, call_delta, chunk, stream
from tests.wire.server import WireServer
from tests.wire.vendors import VENDORS

ASKS = Call("ask_user", {"question": "French or German?"})
READS = Call("read_file", {"path": "greet.py"})


async def answer_french(server: WireServer, on: Bench) -> None:
    """The turn has stopped at the one question; answer it."""
    assert (on.stopped, len(server.requests)) == ("question", 1)
    assert on.session.question and on.session.question.text == "French or German?"
    server.say("French it is.")
    await on.settled(on.session.answer("French"))
    on.check()
    assert on.stopped == "answer" and of_role(server.last, "tool").count("French") == 1


@pytest.mark.parametrize("finish", ["error", "length", "content_filter", "other", "stop", None, "twice"])
async def test_a_complete_question_stops_the_turn_whatever_the_finish_reason(
    server: WireServer, on: Bench, finish: str | None
) -> None:
    calls = (ASKS, ASKS) if finish == "twice" else (READS, ASKS, READS)
    server.turn("Wait.", calls=calls, finish="stop" if finish == "twice" else finish)
    await on.say("Translate it")
    await answer_french(server, on)


@pytest.mark.parametrize("wire", VENDORS)
async def test_a_cut_response_asks_its_complete_question(server: WireServer, tmp_path: Path, wire: str) -> None:
    server.turn("Wait.", calls=(ASKS, READS), finish=VENDORS[wire].too_long)
    async with bench(server, tmp_path, wire=wire) as on:
        await on.say("Translate it")
        await answer_french(server, on)


def broken_after(turn: Turn, wire: str, end: Any) -> Any:
    """All of a response but its end, and something else."""
    reply = turn.reply() if wire == "chat" else VENDORS[wire].reply(turn, 0)
    kept = [part for part in reply.parts if not isinstance(part, bytes) or not any(one in part for one in ENDS)]
    return stream(*kept, end)


ENDS = (b"[DONE]", b'"finish_reason": "', b"message_delta", b"message_stop", b"response.completed")


@pytest.mark.parametrize(
    "end", [CUT, b'data: {"error": {"message": "Overloaded", "code": 503}}\n\n', b"data: {x\n\n"]
)
@pytest.mark.parametrize(("wire", "attempts"), [("chat", 1), *((wire, 4) for wire in ("chat", *VENDORS))])
async def test_a_complete_question_stops_the_turn_whatever_fails_after_it(
    server: WireServer, tmp_path: Path, wire: str, attempts: int, end: Any
) -> None:
    """It was asked for again, and lost where that failed too."""
    server.script([broken_after(Turn("Wait.", calls=(READS, ASKS)), wire, end)])
    async with bench(server, tmp_path, wire=wire, retry=RetryPolicy(attempts=attempts, busy_attempts=attempts)) as on:
        await on.say("Translate it")
        await answer_french(server, on)


async def test_an_incomplete_question_is_not_asked(server: WireServer, on: Bench) -> None:
    half = call_delta(0, call_id="1", name="ask_user", arguments='{"question": "Fren')
    server.script([stream(chunk(calls=[half]), chunk(finish="length"), DONE), Turn("Never mind.")])
    await on.say("Translate it")
    assert (on.stopped, on.session.question, len(server.requests)) == ("answer", None, 2)


@pytest.mark.parametrize("finish", ["length", "tool_calls", None])
async def test_closing_calls_get_one_result_each(server: WireServer, on: Bench, finish: str | None) -> None:
    server.turn(calls=[edit()])
    server.script([Turn(calls=(ASKS, READS), finish=finish).reply()])
    await on.say("Be less formal")
    assert on.stopped == "refused" and on.session.question is None
    results = [event for event in on.events if isinstance(event, ToolResult)][1:]
    assert [one.outcome for one in results] == [CallOutcome.REFUSED, CallOutcome.REFUSED]
    assert len({one.call for one in results}) == 2
    await on.say("Thanks", last="Fine.")


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


@pytest.mark.parametrize("levels", [150, 220, 300])
async def test_arguments_nested_too_deeply_are_dropped(server: WireServer, tmp_path: Path, levels: int) -> None:
    call = Call("read_file", json.dumps({"path": "greet.py", "more": nested(levels)}))
    server.turn("Reading.", calls=(call,))
    server.say("I see.")
    async with bench(server, tmp_path) as on:
        await on.say("Read it")
        assert on.stopped == "answer" and "nested too deeply" in of_role(server.last, "tool")[0]
    async with bench(server, tmp_path) as on:
        await on.say("Still there?", last="Yes.")
        assert on.stopped == "answer" and "Reading." in of_role(server.last, "assistant")
        on.check()


class Breaks:
    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, update: Update) -> None:
        if isinstance(update, TextStreamed) and self.left:
            self.left -= 1
            raise RuntimeError("the screen has gone")


async def test_a_turn_that_an_exception_ends_leaves_a_usable_session(server: WireServer, on: Bench) -> None:
    server.always(Turn("Hello."))
    on.session.subscribe(Breaks(1))
    await on.say("Hi")
    assert on.stopped == "failed" and not on.session.is_busy
    (end,) = [event for event in on.events if isinstance(event, TurnEnded)]
    assert end.message == "The turn ended early: the screen has gone"
    await on.say("And now?")
    assert on.stopped == "answer"


async def test_undelivered_feedback_starts_no_endless_turns(
    server: WireServer, on: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await on.say("Be less formal", edit())

    async def broken(window: int | None) -> None:
        raise RuntimeError("no tools")

    # A source of tools that breaks before any request carries the feedback.
    monkeypatch.setattr(on.session.ports.tools, "reload", broken)
    await on.session.deny("P1", feedback="Not like this")
    async with asyncio.timeout(20):
        await on.session.wait_until_idle()
    assert on.stopped == "failed" and on.session.has_undelivered_feedback
    assert sum(isinstance(event, TurnStarted) for event in on.events) == 2


async def test_a_profile_that_cannot_be_stored_is_still_used(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, key: str, value: str, *, shared: bool = False) -> None:
        raise StorageError("The disk is full.")

    monkeypatch.setattr(SessionStore, "set_setting", full)
    server.insist(strict.qwen)
    server.turn(calls=[edit()])
    server.say("Have a look.")
    async with bench(server, tmp_path) as on:
        await on.say("Be less formal")
        assert on.stopped == "staged" and len(server.requests) == 3
        assert on.session.ports.model.profile.mid_system == "fold_first"


async def test_a_very_long_tool_name_is_shortened_in_the_result(server: WireServer, on: Bench) -> None:
    await on.say("Read it", Call("read_file " * 20_000, {}))
    (told,) = of_role(server.last, "tool")
    assert told.startswith("There is no tool 'read_file read_file") and len(told) < 1_000
