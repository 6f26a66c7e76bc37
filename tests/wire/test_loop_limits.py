"""Limits of cost, time and steps, from recorded requests: announced once, kept, and over a restart."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.limits import SessionCostAndTimeMeter
from app.cli.main import main
from app.config.config_tables import PriceTable
from app.config.settings import ConfigError, Settings, load_configuration, validate_setting
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Intervention,
    InterventionKind,
    ProposalStaged,
    Question,
    RequestSent,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserNotice,
)
from tests.examples import scale_examples
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.replies import DONE, STALL, Call, Reply, Turn, call_delta, chunk, error, stream
from tests.wire.server import Request, WireServer

READ = Call("read_file", {"path": "greet.py"})
PRICE = {"test-model": {"input": 1, "output": 10}}
"""With 8,000 tokens read and 2,000 written, a response costs $0.028."""


def reading(server: WireServer, written: int = 2_000) -> None:
    """A model that reads until it is stopped; each response costs as much."""

    def model(request: Request) -> Turn:
        read = Call("read_file", {"path": "greet.py", "end_line": 2 + request.number})
        calls = () if request.closing else (read,)
        return Turn("Reading." if calls else "That far.", calls, prompt_tokens=8_000, completion_tokens=written)

    server.model(model)


def ended(on: Bench) -> TurnEnded:
    return next(event for event in reversed(on.events) if isinstance(event, TurnEnded))


def refused(on: Bench) -> list[ToolResult]:
    return [event for event in on.events if isinstance(event, ToolResult) and event.outcome is CallOutcome.REFUSED]


async def test_no_tool_runs_if_only_the_closing_request_can_be_paid(server: WireServer, tmp_path: Path) -> None:
    server.turn(calls=[edit(), READ], prompt_tokens=8_000, completion_tokens=14_000)
    server.say("That far.", prompt_tokens=8_000)
    async with bench(server, tmp_path, price=PRICE, max_cost=0.15) as on:
        await on.say("Be less formal")
        assert len(refused(on)) == 2 and not any(isinstance(event, ToolStarted) for event in on.events)
        assert [request.closing for request in server.requests] == [False, True]
        assert not on.runtime.service.pending() and ended(on).limit == "cost"
        on.check()


async def test_an_edit_is_staged_while_the_closing_request_can_be_paid(server: WireServer, tmp_path: Path) -> None:
    server.turn(calls=[edit()], prompt_tokens=8_000, completion_tokens=10_000)
    server.say("Have a look.", prompt_tokens=8_000)
    async with bench(server, tmp_path, price=PRICE, max_cost=0.13) as on:
        await on.say("Be less formal")
        assert on.stopped == "staged" and ended(on).limit is None
        assert "P1" in str(server.last.messages[-1]["content"]) and on.file == FILE


async def test_an_edit_staged_before_the_limit_stays_staged(server: WireServer, tmp_path: Path) -> None:
    server.turn(calls=[edit()], prompt_tokens=8_000, completion_tokens=2_000)
    server.turn(calls=[READ], prompt_tokens=8_000, completion_tokens=6_000)
    server.say("That far.")
    async with bench(server, tmp_path, price=PRICE, max_cost=0.1, gate="chain", chain_steps=3) as on:
        await on.say("Be less formal")
        assert [event.proposal for event in on.events if isinstance(event, ProposalStaged)] == ["P1"]
        assert "staged as P1" in str(server.last.messages[-1]["content"]) and server.last.closing
        assert ended(on).limit == "cost" and on.file == FILE


async def test_a_question_at_the_limit_stops_the_turn(server: WireServer, tmp_path: Path) -> None:
    ask = ("ask_user", {"question": "Which one?"})
    server.turn(calls=[READ, ask], prompt_tokens=8_000, completion_tokens=14_000)
    async with bench(server, tmp_path, price=PRICE, max_cost=0.15) as on:
        await on.say("Look")
        assert on.stopped == "question" and len(server.requests) == 1
        assert any(isinstance(event, Question) for event in on.events) and len(refused(on)) == 1


async def test_the_cost_limit_ends_a_turn_with_one_closing_request(server: WireServer, tmp_path: Path) -> None:
    reading(server, written=400)
    async with bench(server, tmp_path, price=PRICE, max_cost=0.2) as on:
        await on.say("Look around")
        closing = server.requests[-1]
        assert [request.closing for request in server.requests].count(True) == 1 and closing.closing
        assert closing.body["tools"] == server.requests[0].body["tools"]
        assert closing.messages[-1]["role"] == "system" and "cost" in str(closing.messages[-1]["content"])
        assert on.session.token_totals.total.cost is not None and 0.1 < on.session.token_totals.total.cost <= 0.2
        assert ended(on).limit == "cost" and ended(on).stopped == "answer"
        assert "cost limit of $0.20" in ended(on).message and "--max-cost" in ended(on).message
        on.check()


async def test_a_limit_is_announced_once_to_user_and_model(server: WireServer, tmp_path: Path) -> None:
    reading(server, written=9_300)
    async with bench(server, tmp_path, price=PRICE, max_cost=1) as on:
        await on.say("Look around")
        notices = [event.text for event in on.events if isinstance(event, UserNotice)]
        assert notices == ["Nearly at a limit: $0.81 of the cost limit of $1.00."]
        notes = [event for event in on.events if isinstance(event, Intervention)]
        assert [note.kind for note in notes] == [InterventionKind.LIMIT_NEAR, InterventionKind.COST_LIMIT]
        texts = ["\n".join(of_role(request, "system")) for request in server.requests]
        told = ["$0.81 of the cost" in text for text in texts]
        assert told == [False] * 8 + [True] * 3
        on.check()


async def test_a_near_limit_is_not_announced_again_after_a_restart(server: WireServer, tmp_path: Path) -> None:
    server.always(Turn("Done.", prompt_tokens=8_000, completion_tokens=84_200))
    for count in (0, 1, 1):
        async with bench(server, tmp_path, price=PRICE, max_cost=1) as on:
            await on.say("Hi")
            server.always(Turn("Done.", prompt_tokens=8_000))
            assert sum(isinstance(event, UserNotice) for event in on.events) == count


async def test_the_step_limit_is_announced_in_each_turn(server: WireServer, tmp_path: Path) -> None:
    reading(server)
    async with bench(server, tmp_path, max_steps=5) as on:
        for turn in (1, 2):
            await on.say("Look around")
            near = [event for event in on.events if isinstance(event, UserNotice)]
            assert [event.text for event in near] == ["Nearly at a limit: 4 of the 5 steps of this turn."] * turn
            assert ended(on).limit == "steps"


async def test_cost_counts_after_a_restart_and_no_request_is_sent(server: WireServer, tmp_path: Path) -> None:
    server.always(Turn("Done.", prompt_tokens=8_000, completion_tokens=9_000))
    async with bench(server, tmp_path, price=PRICE, max_cost=0.12) as on:
        await on.say("First")
        assert ended(on).limit is None
    async with bench(server, tmp_path, price=PRICE, max_cost=0.12) as on:
        await on.say("Second")
        assert len(server.requests) == 1
        assert ended(on).limit == "cost" and "$0.098 is spent" in ended(on).message
        assert "\n" not in ended(on).message
        assert not on.session.is_busy and not on.session.queue
    async with bench(server, tmp_path, price=PRICE, max_cost=1) as on:
        await on.say("Third")
        assert of_role(server.last, "user") == ["First", "Second\n\nThird"], "no word is lost"
        on.check()


async def test_feedback_at_the_limit_starts_one_turn_and_arrives_later(server: WireServer, tmp_path: Path) -> None:
    server.turn(calls=[edit()], prompt_tokens=8_000, completion_tokens=9_000)
    server.always(Turn("Done.", prompt_tokens=8_000))
    async with bench(server, tmp_path, price=PRICE, max_cost=0.13) as on:
        await on.say("Be less formal")
        before = len(server.requests)
        await on.settled(on.session.deny("P1", feedback="Say Hey instead"))
        await on.settled(on.session.load_external_events())
        assert len(server.requests) == before
        assert sum(isinstance(event, TurnStarted) and event.cause == "feedback" for event in on.events) == 1
    async with bench(server, tmp_path, price=PRICE, max_cost=1) as on:
        await on.say("Now")
        assert sum("Say Hey instead" in text for text in of_role(server.last, "user")) == 1


async def test_a_response_is_cut_before_it_costs_more_than_is_left(server: WireServer, tmp_path: Path) -> None:
    endless = [chunk(text="all work and no play ") for _ in range(4_000)]
    server.script([stream(*endless, chunk(finish="stop"), DONE), Turn("That far.")])
    async with bench(server, tmp_path, price=PRICE, max_cost=0.1) as on:
        await on.say("Write")
        cut = next(event for event in on.events if isinstance(event, AssistantMessage))
        assert cut.state == "truncated" and len(cut.text) < 40_000
        assert [request.closing for request in server.requests] == [False, True] and ended(on).limit == "cost"
        on.check()


async def test_the_cost_of_a_call_cut_off_counts_after_a_restart(server: WireServer, tmp_path: Path) -> None:
    parts = [call_delta(arguments="all work and no play ") for _ in range(4_000)]
    first = call_delta(call_id="c", name="write_file", arguments='{"content": "')
    pieces = [chunk(calls=[part]) for part in (first, *parts)]
    server.script([stream(*pieces, chunk(finish="tool_calls"), DONE), Turn("That far.", prompt_tokens=8_000)])
    async with bench(server, tmp_path, price=PRICE, max_cost=0.1) as on:
        await on.say("Write")
        assert [request.closing for request in server.requests] == [False, True] and ended(on).limit == "cost"
        assert not any(isinstance(event, ProposalStaged) for event in on.events)
    async with bench(server, tmp_path, price=PRICE, max_cost=0.1) as on:
        await on.say("More")
        assert len(server.requests) == 2 and ended(on).limit == "cost"


async def test_without_a_price_nothing_is_sent_and_the_error_tells_how(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, max_cost=1) as on:
        await on.say("Hi")
        assert not server.requests
        assert ended(on).limit == "cost" and "[price]" in ended(on).message and '"test-model"' in ended(on).message


async def test_the_time_limit_cuts_a_request_that_takes_too_long(server: WireServer, tmp_path: Path) -> None:
    server.script([stream(chunk(text="Let me think"), STALL), Turn("That far.")])
    async with bench(server, tmp_path, max_time=0.5) as on:
        await on.say("Think")
        assert [request.closing for request in server.requests] == [False, True]
        assert "time" in str(server.last.messages[-1]["content"]) and server.last.messages[-1]["role"] == "system"
        assert ended(on).limit == "time" and "--max-time" in ended(on).message
        assert "The time limit of 1s is reached" in ended(on).message
        await on.say("Go on")
        assert len(server.requests) == 2
        on.check()
    async with bench(server, tmp_path, max_time=0.5) as on:
        await on.say("Go on")
        assert len(server.requests) == 2 and ended(on).limit == "time"


async def test_the_time_limit_cuts_a_summary(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        for number in range(12):
            await on.say(f"Question {number}?", last="Words. " * 400)
        sent, meter = len(server.requests), SessionCostAndTimeMeter()
        for event in on.events:
            meter.apply(event)
    full = error(400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded")
    server.script([full, stream(chunk(text="SUMM"), STALL)])
    async with bench(server, tmp_path, max_time=meter.seconds + 2) as on:
        await on.say("Go on")
        assert (len(server.requests) - sent, ended(on).limit) == (2, "time")


async def test_the_time_limit_stops_a_command(server: WireServer, tmp_path: Path) -> None:
    server.turn(calls=[("run_command", {"command": "sleep 600"}), READ])
    server.say("That far.")
    async with bench(server, tmp_path, max_time=1.0) as on:
        on.allow_everything()
        await on.say("Wait")
        first, second = [event for event in on.events if isinstance(event, ToolResult)]
        assert "time limit" in first.text and "user" not in first.text
        assert second.outcome is CallOutcome.REFUSED
        assert server.last.closing and ended(on).limit == "time"
        on.check()


async def test_an_interrupt_under_limits_ends_the_turn_as_aborted(server: WireServer, tmp_path: Path) -> None:
    server.script([stream(chunk(text="Let me think"), STALL)])
    async with bench(server, tmp_path, price=PRICE, max_cost=1, max_time=600) as on:
        seen = asyncio.Event()
        on.session.subscribe(lambda update: seen.set() if getattr(update, "text", "") else None)
        await on.session.send("Think")
        await seen.wait()
        on.session.interrupt()
        await on.session.wait_until_idle()
        assert on.stopped == "aborted" and ended(on).limit is None and len(server.requests) == 1


def test_the_measured_time_excludes_waits_for_the_user() -> None:
    meter = SessionCostAndTimeMeter(clock=lambda: 1_000.0)
    for event in (
        TurnStarted(cause="message", time=100),
        RequestSent(time=101),
        AssistantMessage(time=110),
        ToolResult(call="c", outcome=CallOutcome.OK, text="", time=150, waited=30),
        TurnEnded(stopped="answer", time=151),
        UserNotice(text="", time=500),
        TurnStarted(cause="message", time=600),
        RequestSent(time=601),
        # A crash, and a day on another.
        UserNotice(text="", time=90_000),
        TurnStarted(cause="message", time=990),
    ):
        meter.apply(event)
    assert meter.seconds == 21 + 1 + 10


@settings(max_examples=scale_examples(8), deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["read", "text", "edit"]), st.integers(0, 30_000)), max_size=12),
    limit=st.floats(0.05, 0.5),
)
def test_at_most_a_closing_request_exceeds_the_limit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], limit: float
) -> None:
    asyncio.run(_spend(tmp_path_factory.mktemp("spend"), steps, limit))


async def _spend(folder: Path, steps: list[tuple[str, int]], limit: float) -> None:
    taken = itertools.chain(steps, itertools.repeat(("read", 1_000)))

    def model(request: Request) -> Reply:
        kind, size = next(taken)
        words = ["lorem ipsum dolor sit amet "] * (size // 27)
        calls = {"read": READ, "edit": Call(*edit("'Hello '", f"'Hi {size} '"))}
        pieces: list[Any] = [chunk(text=word) for word in words] or [chunk(text="Well.")]
        if kind in calls and not request.closing:
            one = calls[kind]
            pieces.append(
                chunk(calls=[call_delta(call_id=f"c{size}", name=one.name, arguments=json.dumps(one.arguments))])
            )
        counts = {"prompt_tokens": len(json.dumps(request.body)) // 4, "completion_tokens": size // 4}
        finish = chunk(finish="tool_calls" if kind in calls else "stop", usage=counts)
        return stream(*pieces, finish, DONE)

    with WireServer() as server:
        server.model(model)
        async with bench(server, folder, price=PRICE, max_cost=limit) as on:
            for words in ("One", "Two", "Three"):
                await on.say(words)
            closing = [request.closing for request in server.requests]
            meter, price, over = SessionCostAndTimeMeter(), PriceTable(**PRICE["test-model"]), 0
            for event in on.events:
                before = meter.cost(price)
                meter.apply(event)
                if isinstance(event, RequestSent) and before > limit:
                    over += 1
                    assert event.closing, "nothing but a closing request goes out over the limit"
                if isinstance(event, RequestSent) and not event.closing:
                    assert before < limit
            assert over <= 1 and closing.count(True) <= 3
            on.check()


# The command line


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greet.py").write_text(FILE)
    return tmp_path


def configure(home: Path, text: str) -> None:
    (home / "home/config").mkdir(parents=True, exist_ok=True)
    (home / "home/config/config.toml").write_text(text)


def test_a_headless_run_names_the_limit_that_ended_it(
    server: WireServer, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reading(server)
    words = ("--base-url", server.base_url, "--model", "test-model")
    assert main(["run", "Look", "--json", "--max-steps", "2", *words]) == 4
    assert json.loads(capsys.readouterr().out)["limit"] == "steps"
    assert main(["run", "Look", "--max-cost", "1", *words]) == 2
    assert "[price]" in capsys.readouterr().err
    configure(home, "[price]\n'test-model' = { input = 1, output = 10 }\n")
    assert main(["run", "Look", "--json", "--max-cost", "0.15", *words]) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["limit"] == "cost" and document["stopped"] == "answer" and document["text"] == "That far."
    sent = len(server.requests)
    assert main(["run", "Go on", "--continue", "--max-cost", "0.15", *words]) == 4
    said = capsys.readouterr()
    assert len(server.requests) == sent and said.err.count("cost limit of $0.15") == 1


def test_an_invalid_limit_is_wrong_usage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flag, values, line in (
        ("--max-cost", ("0", "nan", "two"), "US dollars"),
        ("--max-time", ("10", "0s", "5 minutes"), "1h30m"),
    ):
        for value in values:
            assert main(["run", "Hi", flag, value]) == 2
            assert line in capsys.readouterr().err


def test_a_time_limit_has_a_common_notation_or_is_an_error_that_names_the_setting() -> None:
    for text, seconds in (("90s", 90), ("10m", 600), ("1h30m", 5_400), ("1h", 3_600), (45, 45)):
        assert validate_setting("max_time", text) == seconds
    for value in ("", "10", "m", "1m30h", "-5s", 0, -1, "٣m"):
        with pytest.raises(ConfigError, match="max_time"):
            validate_setting("max_time", value)


def test_a_workspace_cannot_set_limits(tmp_path: Path) -> None:
    limits = b"max_cost = 100\nmax_time = '9h'\n"
    found = load_configuration(
        user_file=tmp_path / "none", workspace_file_content=limits, flags={}, environment={}, trusted=True
    )
    assert found.ignored == ("max_cost", "max_time") and found.settings.max_cost is None == Settings().max_time
