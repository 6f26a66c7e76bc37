"""One turn at a time, whoever calls: any callers at once, over a real store and a model that may do anything."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.session import Session
from app.agent.updates import EventRecorded, Update
from app.conversation.events import (
    AssistantMessage,
    Event,
    MessageQueued,
    MessagesDequeued,
    NextActionChosen,
    ProposalDecided,
    ProposalStaged,
    Question,
    RequestSent,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
)
from app.conversation.log import EventStoreInterface
from app.conversation.payload.projection import CachedPayloadBuilder
from app.copies import replace
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, Payload, ReceivedToolCall, ResponseCompleted, StreamUpdate
from app.proposals.values.models import ProposalState
from app.proposals.values.proposal_errors import ProposalError
from app.runtime.model_connection import create_or_resume_session
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from tests.examples import scale_examples
from tests.waiting import until
from tests.wire.bench import Bench, bench, edit, of_role
from tests.wire.server import WireServer

ACTS = ("send", "answer", "answer", "continue", "approve and continue", "deny", "compact", "pause")


_FILES = itertools.count()
"""Numbers of the files that models write: a test of its own has files of its own."""


class Model:
    """Answers each request with text, a question or an edit, and notices two requests at once."""

    endpoint = Endpoint("http://localhost", "m", None, {})
    profile = EndpointProfile()

    def __init__(self, moods: list[str]) -> None:
        self._moods = itertools.chain(moods, itertools.repeat("text"))
        self._numbers = itertools.count()
        self._out = 0
        self.requests = 0

    async def stream(
        self, build: Callable[[EndpointProfile], Payload], *, closing: bool = False
    ) -> AsyncGenerator[StreamUpdate]:
        self._out += 1
        self.requests += 1
        assert self._out == 1, "two requests at once"
        try:
            build(self.profile)
            await asyncio.sleep(0)
            yield _response("Have a look.") if closing else self._response()
        finally:
            self._out -= 1

    def retry_now(self) -> None:
        """Nothing ever waits."""

    @contextlib.asynccontextmanager
    async def open_isolated_client(self) -> AsyncIterator["Model"]:
        """One that answers with text."""
        yield Model([])

    async def find_price(self) -> None:
        """None is known."""

    def with_model_and_effort(self, model: str, effort: str) -> "Model":
        """There is but one."""
        return self

    def _response(self) -> ResponseCompleted:
        number = next(self._numbers)
        match next(self._moods):
            case "question":
                return _called(number, "ask_user", {"question": "Which?", "options": ["a", "b"]})
            case "edit":
                return _called(number, "write_file", {"path": f"{next(_FILES)}.txt", "content": "x\n"})
        return _response("Done.")


def _response(text: str, *calls: ReceivedToolCall) -> ResponseCompleted:
    return ResponseCompleted(
        text=text,
        reasoning="",
        calls=calls,
        finish_reason="tool_calls" if calls else "stop",
        truncated=False,
        usage=None,
        model="m",
    )


def _called(number: int, name: str, arguments: dict[str, object]) -> ResponseCompleted:
    return _response(
        "", ReceivedToolCall(wire_id=f"call{number}", name=name, arguments=arguments, raw_arguments="{}")
    )


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenWorkspace]:
    folder = tmp_path_factory.mktemp("turns")
    (folder / "ws").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNOFF_HOME", str(folder / "home"))
        opened = open_workspace(folder / "ws", {}, {})
        yield opened
        opened.close()


async def _act(session: Session, what: str, words: str) -> None:
    match what:
        case "send":
            await session.send(words)
        case "answer" if session.question:
            await session.answer(words, session.question.call)
        case "continue":
            await session.resume()
        case "approve and continue" | "deny":
            service = session.ports.service
            for proposal in await asyncio.to_thread(service.pending):
                try:
                    if what == "deny":
                        await session.deny(proposal.id, feedback=words)
                    else:
                        await session.approve(proposal.id)
                        await session.resume()
                except ProposalError:
                    continue
        case "compact":
            await session.compact()
        case _:
            await asyncio.sleep(0)


def _causes(session: Session) -> list[str]:
    return [event.cause for event in session.log.events if isinstance(event, TurnStarted)]


def _said(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, UserMessage | UserAnswer)]


@given(
    moods=st.lists(st.sampled_from(["text", "question", "question", "edit"]), max_size=6),
    callers=st.lists(st.lists(st.sampled_from(ACTS), min_size=1, max_size=4), min_size=2, max_size=5),
)
@settings(max_examples=scale_examples(25))
def test_one_turn_at_a_time_whoever_calls(runtime: OpenWorkspace, moods: list[str], callers: list[list[str]]) -> None:
    async def go() -> None:
        session = create_or_resume_session(runtime, Model(moods))
        sent: list[str] = []

        async def caller(number: int, acts: list[str]) -> None:
            for step, act in enumerate(acts):
                words = f"words {number}.{step}"
                if act == "send" or (act == "answer" and session.question):
                    sent.append(words)
                await _act(session, act, words)

        await asyncio.gather(*(caller(number, acts) for number, acts in enumerate(callers)))
        await session.wait_until_idle()
        events = list(session.log.events)
        boundaries = [type(event) for event in events if isinstance(event, TurnStarted | TurnEnded)]
        assert boundaries == [TurnStarted, TurnEnded] * (len(boundaries) // 2)
        answered = [event.call for event in events if isinstance(event, UserAnswer)]
        assert len(answered) == len(set(answered)), "two answers to one call"
        assert sorted([*_said(events), *session.queue]) == sorted(sent), "each word of the user once"
        assert session.question or not session.queue, "nothing waits for a turn that has ended"
        stored = runtime.sessions.events(session.id)
        assert [one for one in events if not isinstance(one, NextActionChosen)] == [
            one for one in stored if not isinstance(one, NextActionChosen)
        ]
        await session.close()

    asyncio.run(go())


@pytest.fixture
async def opened(runtime: OpenWorkspace) -> AsyncIterator[Callable[..., Session]]:
    """Opens sessions with models of these moods; they are closed after the test."""
    sessions: list[Session] = []

    def open_session(*moods: str, again: Session | None = None) -> Session:
        record = runtime.sessions.get(again.id) if again else None
        sessions.append(create_or_resume_session(runtime, Model([*moods]), record))
        return sessions[-1]

    yield open_session
    for session in reversed(sessions):
        await session.close()


Opened = Callable[..., Session]


async def settled(session: Session, *actions: Awaitable[object]) -> None:
    """Do these things one after the other, and wait until control is back."""
    for action in actions:
        await action
    await session.wait_until_idle()


def of(session: Session, kind: Any) -> list[Any]:
    return [event for event in session.log.events if isinstance(event, kind)]


async def test_an_option_picked_twice_answers_once(opened: Opened) -> None:
    session = opened("question")
    await settled(session, session.send("Go"))
    assert session.question is not None
    call = session.question.call
    both = asyncio.gather(session.answer("a", call), session.answer("a", call), session.answer("b", call))
    await settled(session, both)
    assert _said(list(session.log.events)) == ["Go", "a", "b"], "the second thought is a message"
    assert _causes(session) == ["message", "answer", "message"]


async def test_a_queued_message_waits_for_the_answer_to_a_question(opened: Opened) -> None:
    session = opened("question")
    await settled(session, session.send("Go"), session.send("And then?"))
    assert session.question is not None and session.queue == ("And then?",)
    assert _said(list(session.log.events)) == ["Go"]
    await settled(session, session.answer("a"))
    assert _said(list(session.log.events)) == ["Go", "a", "And then?"] and not session.queue


async def test_no_event_continues_the_model_past_an_open_question(opened: Opened) -> None:
    session = opened("edit", "question")
    await settled(session, session.send("Go"))
    (staged,) = of(session, ProposalStaged)
    await settled(session, session.send("And?"))
    await settled(session, session.resume(), session.deny(staged.proposal, feedback="Not like that."))
    assert _causes(session) == ["message", "message"]
    await settled(session, session.answer("a"))
    assert _causes(session) == ["message", "message", "answer"] and not session.has_undelivered_feedback


@pytest.mark.parametrize("by", ["a key", "a message"])
async def test_an_immediate_answer_comes_after_the_end_of_the_turn(opened: Opened, by: str) -> None:
    session = opened("question")
    early: list[asyncio.Task[None]] = []

    def answer_as_it_is_asked(update: Update) -> None:
        if isinstance(update, EventRecorded) and isinstance(update.event, Question):
            saying = session.answer("a", update.event.call) if by == "a key" else session.send("a")
            early.append(asyncio.create_task(saying))

    session.subscribe(answer_as_it_is_asked)
    await settled(session, session.send("Go"))
    await settled(session, *early)
    assert [event.type for event in of(session, TurnStarted | TurnEnded)] == ["turn_started", "turn_ended"] * 2
    assert [event.text for event in of(session, UserAnswer)] == ["a"]
    assert not of(session, MessageQueued | MessagesDequeued)


async def test_a_following_window_runs_no_turn_and_recalls_no_message(opened: Opened) -> None:
    session = opened("edit", "question")
    await settled(session, session.send("Go"))
    (staged,) = of(session, ProposalStaged)
    await settled(session, session.send("And?"), session.send("queued"))
    looker = opened(again=session)
    assert looker.is_follower and looker.queue == ("queued",)
    assert looker.interrupt() == looker.take_back_queue() == () and looker.queue == ("queued",)
    await settled(session, session.answer("a"))
    await settled(looker, looker.load_external_events(), looker.deny(staged.proposal, feedback="Not like that."))
    await settled(looker, looker.load_external_events())
    assert looker.ports.model.requests == 0, "the words wait for who runs the turns"  # type: ignore[attr-defined]
    assert _causes(looker)[-1] == "message"
    await settled(session, session.load_external_events())
    assert _causes(session)[-1] == "feedback"


async def test_a_window_that_takes_over_knows_the_open_question(opened: Opened) -> None:
    session = opened("text", "question")
    await settled(session, session.send("Go"))
    looker = opened(again=session)
    await settled(session, session.send("And?"))
    await session.close()
    assert looker.is_follower and looker.question is None
    await settled(looker, looker.send("a"))
    assert not looker.is_follower and [event.text for event in of(looker, UserAnswer)] == ["a"]


async def test_a_decision_on_a_closed_session_is_stored_quietly(opened: Opened, runtime: OpenWorkspace) -> None:
    session = opened("edit")
    await settled(session, session.send("Go"))
    (staged,) = of(session, ProposalStaged)
    before = session.ports.model.requests  # type: ignore[attr-defined]
    await session.close()
    await settled(session, session.deny(staged.proposal, feedback="Not like that."))
    assert session.ports.model.requests == before and _causes(session) == ["message"]  # type: ignore[attr-defined]
    stored = runtime.sessions.events(session.id)
    assert [event.feedback for event in stored if isinstance(event, ProposalDecided)] == ["Not like that."]


async def test_a_message_right_after_an_interruption_is_sent(opened: Opened) -> None:
    session = opened()
    await session.send("Go")
    await session.send("taken back")
    assert session.interrupt() == ("taken back",)
    await settled(session, session.send("Something else"))
    assert _said(list(session.log.events)) == ["Go", "Something else"] and session.queue == ()


async def test_a_message_at_the_end_of_a_turn_is_sent(opened: Opened) -> None:
    session = opened()
    late: list[asyncio.Task[None]] = []

    def say_as_the_end_is_written(update: Update) -> None:
        if isinstance(update, EventRecorded) and isinstance(update.event, AssistantMessage) and not late:
            late.append(asyncio.create_task(session.send("One more thing")))

    session.subscribe(say_as_the_end_is_written)
    await settled(session, session.send("Go"))
    await settled(session, *late)
    assert _said(list(session.log.events)) == ["Go", "One more thing"] and session.queue == ()


async def test_a_message_to_a_closed_session_is_queued_until_it_is_opened_again(opened: Opened) -> None:
    session = opened()
    await session.close()
    await session.send("Hello?")
    again = opened(again=session)
    assert again.queue == ("Hello?",)
    await settled(again, again.send("Anyone?"))
    assert _said(list(again.log.events)) == ["Hello?", "Anyone?"] and not again.queue


async def test_recalled_messages_stay_stored_until_confirmed(opened: Opened, runtime: OpenWorkspace) -> None:
    session = opened("question")
    await session.send("Go")
    await session.send("queued")
    assert session.interrupt() == ("queued",)
    assert session.queue == ()
    assert [event.text for event in runtime.sessions.events(session.id) if isinstance(event, MessageQueued)]
    await session.wait_until_idle()
    await session.close()
    again = opened(again=session)
    assert again.take_back_queue() == ("queued",), "nobody said that it is kept elsewhere"
    await again.confirm_queue_taken()
    await again.close()
    assert opened(again=session).queue == ()


class SlowDisk:
    """Writes to a store, and lets something happen while it writes."""

    def __init__(self, sink: EventStoreInterface, meanwhile: Callable[[Sequence[Event]], Awaitable[None]]) -> None:
        self._sink = sink
        self._meanwhile = meanwhile

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        await self._meanwhile(events)
        return await self._sink.append(events, after)

    async def read_after(self, after: int) -> Sequence[Event]:
        return await self._sink.read_after(after)


async def denied_during(on: Bench, kind: type[Event]) -> Session:
    """A session in which the user denies P1 while the next event of this kind is written."""
    done: list[asyncio.Task[object]] = []

    async def deny(events: Sequence[Event]) -> None:
        if done or not any(isinstance(event, kind) for event in events):
            return
        done.append(asyncio.create_task(session.deny("P1", feedback="Not like\nthis")))
        await until(lambda: on.runtime.service.get("P1").state is ProposalState.DENIED)
        await until(lambda: session.log._append_lock._waiters, "the decision before the log")

    old = on.session
    ports = replace(old.ports, sink=SlowDisk(old.ports.sink, deny))
    session = Session(old.id, ports, old.settings, old.log.events)
    return session


async def test_feedback_that_is_being_stored_is_in_the_next_request(server: WireServer, on: Bench) -> None:
    """It was recorded before the request, and so as delivered, but the request had been made of what was there."""
    await on.say("Be less formal", edit())
    server.turn(calls=[("read_file", {"path": "greet.py"})])
    server.say("I see.")
    server.say("I see that, too.")
    session = await denied_during(on, ToolResult)
    await session.send("Read it")
    await session.wait_until_idle()
    assert not session.has_undelivered_feedback
    assert "Not like\nthis" in of_role(server.requests[3], "user")[-1]
    assert sum("Not like\nthis" in text for text in of_role(server.last, "user")) == 1


async def test_feedback_during_recording_is_in_the_next_request(server: WireServer, on: Bench) -> None:
    await on.say("Be less formal", edit())
    server.say("Hello.")
    server.say("I see.")
    session = await denied_during(on, RequestSent)
    await session.send("Hi")
    await session.wait_until_idle()
    carrying = [any("Not like\nthis" in text for text in of_role(one, "user")) for one in server.requests]
    assert carrying == [False, False, False, True] and not session.has_undelivered_feedback


async def test_payloads_are_made_on_a_thread(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long history it takes half a second, in which no key would be dealt with."""
    made_on: list[threading.Thread] = []

    whole = CachedPayloadBuilder.project

    def watched(*given: Any) -> Any:
        made_on.append(threading.current_thread())
        return whole(*given)

    monkeypatch.setattr(CachedPayloadBuilder, "project", watched)
    async with bench(server, tmp_path) as on:
        await on.say("Be less formal", edit())
    assert len(made_on) >= 2, "the request and the closing one"
    assert threading.current_thread() not in made_on
