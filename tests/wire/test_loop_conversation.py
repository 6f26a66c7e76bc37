"""Feedback, questions, interruptions and failures, from what the next request says."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from app.agent.updates import PermissionRequested, TextStreamed
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    DecisionKind,
    ProposalDecided,
    Question,
    RequestFailed,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserNotice,
)
from app.llm.failures.request_errors import RetryPolicy
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import ProposalState
from app.storage.record_store import DecisionRecordReader
from app.tools.base.contract import PermissionAnswer
from tests.waiting import until
from tests.wire import strict
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.replies import DONE, STALL, Call, Turn, call_delta, chunk, error, stream
from tests.wire.server import Request, WireServer

FEEDBACK = 'Not like that.\n\n  Keep `Hello`, but\n\tadd a comma — and "quotes".'


async def staged(on: Bench) -> str:
    await on.say("Be less formal", edit(), last="Have a look.")
    return on.runtime.service.pending()[-1].id


async def test_feedback_of_a_denial_is_in_the_very_next_request(server: WireServer, on: Bench) -> None:
    proposal = await staged(on)
    server.turn(calls=[edit(new="'Hello, '")])
    server.say("Now with a comma.")
    await on.settled(on.session.deny(proposal, feedback=FEEDBACK))
    following = server.requests[2]
    assert of_role(following, "user")[-1] == FEEDBACK
    assert sum(FEEDBACK in text for text in of_role(following, "user")) == 1
    assert not any(FEEDBACK in text for text in of_role(following, "system"))
    facts = [text for text in of_role(following, "system")[1:] if proposal in text]
    assert len(facts) == 1 and "denied" in facts[0] and "greet.py" in facts[0]
    assert "tool_choice" not in following.body
    calls = [call for message in following.messages for call in message.get("tool_calls", [])]
    assert "'Hi '" in calls[0]["function"]["arguments"], "the denied call stays in the history"
    second = on.runtime.service.pending()[-1]
    assert (second.version, second.supersedes) == (2, proposal)
    assert on.file == FILE


def commented(text: str) -> LineComment:
    return LineComment(path="greet.py", line=2, side="new", quote="+    return 'Hi ' + name", text=text)


async def test_a_reopened_denial_is_reported_and_keeps_its_words(server: WireServer, on: Bench) -> None:
    proposal = await staged(on)
    server.say("I see.")
    await on.settled(on.session.deny(proposal, feedback=FEEDBACK, comments=[commented("Too casual.")]))
    said = of_role(server.requests[2], "user")[-1]
    assert "greet.py:2" in said and "+    return 'Hi ' + name" in said and "Too casual." in said
    before = len(server.requests)
    result = await on.session.undo(proposal)
    assert result.proposal.state is ProposalState.PENDING
    assert len(server.requests) == before, "a fact starts no turn"
    await on.say("Go on")
    assert sum(FEEDBACK in text for text in of_role(server.last, "user")) == 1
    assert any(f"took back the denial of proposal {proposal}" in text for text in of_role(server.last, "system"))
    assert sum(f"{proposal}: " in text for text in of_role(server.last, "system")) == 1, "it is named as pending"


async def test_denials_without_feedback_start_no_turn_and_are_counted(server: WireServer, on: Bench) -> None:
    proposal = await staged(on)
    await on.settled(on.session.deny(proposal))
    assert len(server.requests) == 2
    await on.say("Leave it", last="All right.")
    assert any(proposal in text and "denied" in text for text in of_role(server.last, "system"))
    for _ in range(2):
        await on.session.deny(await staged(on))
    await on.say("Again", last="What would you like?")
    assert any("3 proposals in a row" in text for text in of_role(server.last, "system"))


async def test_feedback_during_a_response_starts_its_own_turn(server: WireServer, on: Bench) -> None:
    server.turn(calls=[edit()])
    server.script([stream(chunk("Have a lo"), STALL)])
    await on.session.send("Be less formal")
    await until(lambda: any(isinstance(update, TextStreamed) for update in on.updates))
    server.say("I will.")
    await on.session.deny("P1", feedback=FEEDBACK)
    on.session.interrupt()
    await on.session.wait_until_idle()
    await on.settled(on.session.resume())
    assert FEEDBACK in of_role(server.last, "user")[-1]


async def test_comments_with_an_approval_start_a_turn_as_user_text(server: WireServer, on: Bench) -> None:
    proposal = await staged(on)
    server.say("I will.")
    comments = [commented("Then test it.")]
    await on.settled(on.session.approve(proposal, ["1"], feedback=FEEDBACK, comments=comments))
    assert on.file != FILE
    (decided,) = [event for event in on.events if isinstance(event, ProposalDecided)]
    assert (decided.decision, decided.hunks, decided.still_pending) == (DecisionKind.APPROVED, (), False)
    said = of_role(server.last, "user")
    assert said[-1].startswith(FEEDBACK) and said[-1].endswith("Then test it.")
    assert sum(FEEDBACK in text for text in said) == 1
    facts = [text for text in of_role(server.last, "system") if f"approved proposal {proposal}" in text]
    assert len(facts) == 1 and FEEDBACK not in facts[0]
    await on.say("Another one", edit("'Hi '", "'Hey '"))
    assert on.runtime.service.pending()[-1].supersedes == "", "an approval is answered by no new version"


async def test_a_partial_approval_tells_the_model_which_hunks_were_written(server: WireServer, on: Bench) -> None:
    path = on.root / "long.txt"
    path.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    edits = [{"old": "line 3\n", "new": "line three\n"}, {"old": "line 25\n", "new": "line twenty-five\n"}]
    await on.say("Spell numbers out", ("edit_file", {"path": "long.txt", "edits": edits}))
    (proposal,) = on.runtime.service.pending()
    await on.session.approve(proposal.id, [proposal.hunks[0].id])
    assert "line three" in path.read_text() and "line 25\n" in path.read_text()
    await on.say("Go on", last="Fine.")
    facts = "\n".join(of_role(server.last, "system")[1:])
    assert "landed" in facts and "line three" in facts


async def test_an_approval_is_committed_if_the_setting_asks_for_it(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, commit=True) as on:
        (on.root / "other.txt").write_text("not part of it\n")
        git = ["git", "-C", str(on.root)]
        for words in (
            ["init", "-q"],
            ["config", "user.name", "A"],
            ["config", "user.email", "a@b"],
            ["add", "other.txt"],
        ):
            subprocess.run([*git, *words], check=True)
        await on.session.approve(await staged(on))
        shown = subprocess.run([*git, "show", "--stat", "HEAD"], capture_output=True, text=True, check=True).stdout
        assert "greet.py" in shown and "other.txt" not in shown
        assert any(isinstance(event, UserNotice) and "committed" in event.text for event in on.events)


async def test_the_number_of_denials_in_a_row_is_the_same_for_model_and_user(server: WireServer, on: Bench) -> None:
    for number in range(1, 6):
        proposal = await staged(on)
        server.say("I see.")
        await on.settled(on.session.deny(proposal, feedback="No."))
        told = [text for text in of_role(server.last, "system") if "proposals in a row" in text]
        assert [text.split(" in a row")[0] for text in told] == (
            [f"The user has denied {number} proposals"] if number >= 3 else []
        )
        assert on.session.pending.denials_in_row == number


async def test_a_question_stops_the_turn_and_its_answer_is_the_result(server: WireServer, on: Bench) -> None:
    server.turn(
        calls=[("ask_user", {"question": "Which?", "options": ["a", "b"]}), ("read_file", {"path": "greet.py"})],
        finish="stop",
    )
    await on.say("Do it")
    assert on.stopped == "question"
    assert len(server.requests) == 1
    assert [event.text for event in on.events if isinstance(event, Question)] == ["Which?"]
    assert not any(isinstance(event, ToolStarted) for event in on.events), "nothing after the question ran"
    server.script([error(429, "Slow down", headers={"retry-after": "5000"})])
    await on.settled(on.session.answer("b"))
    assert on.stopped == "failed"
    assert len([event for event in on.events if isinstance(event, Question)]) == 1
    assert on.session.question is None
    server.say("b it is.")
    await on.settled(on.session.resume())
    last = server.last
    results = {message["tool_call_id"]: message["content"] for message in last.messages if message["role"] == "tool"}
    calls = [call for message in last.messages for call in message.get("tool_calls", [])]
    assert results[calls[0]["id"]] == "b"
    assert len(results) == 2
    assert len([event for event in on.events if isinstance(event, UserAnswer)]) == 1


@pytest.mark.parametrize("instant", ["request open", "text streams", "tool runs", "edit asks"])
async def test_an_interrupt_at_any_moment_leaves_a_valid_history(server: WireServer, on: Bench, instant: str) -> None:
    (on.root / ".env").write_text("KEY=1\n")
    secret = ("edit_file", {"path": ".env", "edits": [{"old": "KEY=1", "new": "KEY=2"}]})
    replies: dict[str, Any] = {
        "request open": stream(STALL),
        "text streams": stream(chunk("I was about to"), STALL),
        "tool runs": Turn(calls=(Call("run_command", {"command": "sleep 60"}), Call("list_files", {}))),
        "edit asks": Turn(calls=(Call(*secret),)),
    }
    server.script([replies[instant]])
    await on.session.send("Do something long")
    assert await server.arrived(1)
    if instant == "text streams":
        await until(lambda: any(isinstance(update, TextStreamed) for update in on.updates))
    if instant in ("tool runs", "edit asks"):
        await until(lambda: any(isinstance(update, PermissionRequested) for update in on.updates))
    if instant == "tool runs":
        key = next(update.key for update in on.updates if isinstance(update, PermissionRequested))
        on.session.answer_permission_request(key, PermissionAnswer(allowed=True))
        await until(lambda: any(isinstance(event, ToolStarted) for event in on.events))
    on.session.interrupt()
    await on.session.wait_until_idle()
    assert on.stopped == "aborted"
    if instant in ("request open", "text streams"):
        assert await server.last.left(), "the stream is closed, so the server stops"
    await on.say("Never mind", last="Sorry.")
    said = "\n".join(of_role(server.last, "assistant"))
    if instant == "text streams":
        assert said == "I was about to", "nothing that the model never said"
        assert "interrupted your response" in of_role(server.last, "system")[1]
    if instant in ("tool runs", "edit asks"):
        assert all("bort" in text for text in of_role(server.last, "tool"))
    assert of_role(server.last, "user")[-1].endswith("Never mind")


async def test_messages_sent_during_a_turn_wait_for_its_end(server: WireServer, on: Bench) -> None:
    server.script([stream(chunk("Well"), STALL)])
    await on.session.send("One")
    await until(lambda: any(isinstance(update, TextStreamed) for update in on.updates))
    await on.session.send("Two")
    assert on.session.queue == ("Two",)
    assert on.session.interrupt() == ("Two",)
    await on.session.wait_until_idle()
    assert len(server.requests) == 1


async def test_a_failed_request_is_reported_in_one_line_and_keeps_the_message(server: WireServer, on: Bench) -> None:
    server.require_key("another")
    await on.say("Hello there")
    (failed,) = [event for event in on.events if isinstance(event, RequestFailed)]
    assert failed.kind == "auth" and "\n" not in failed.message and "key" in failed.message.lower()
    server.require_key("key")
    server.say("Hello.")
    await on.settled(on.session.resume())
    assert of_role(server.last, "user") == ["Hello there"]
    assert [event.text for event in on.events if isinstance(event, AssistantMessage)] == ["Hello."]


async def test_a_session_continues_after_a_restart(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        await staged(on)
        session_id = on.session.id
    async with bench(server, tmp_path) as on:
        assert on.session.id == session_id
        assert on.session.gate.is_closed
        await on.say("Where were we?", last="Still waiting for you.")
        assert any("P1" in text and "await" in text for text in of_role(server.last, "system"))
        on.check()


async def test_a_turn_of_empty_responses_ends(server: WireServer, on: Bench) -> None:
    server.always(Turn(calls=()))
    await on.say("Say nothing")
    assert on.stopped == "failed"
    assert len(server.requests) == 2
    ended = [event for event in on.events if isinstance(event, TurnEnded)]
    assert len(ended) == 1 and ended[0].message


async def test_opaque_reasoning_is_returned_to_a_dated_model(server: WireServer, tmp_path: Path) -> None:
    reasoning = {
        **chunk(calls=[call_delta(0, call_id="a", name="list_files", arguments="{}")]),
        "model": "test-model-0613",
    }
    reasoning["choices"][0]["delta"]["reasoning_content"] = "I think."
    server.script([stream(reasoning, {**chunk(finish="tool_calls"), "model": "test-model-0613"}, DONE)])
    server.say("Done.")
    async with bench(server, tmp_path, profile={"reasoning_echo": "same_model"}) as on:
        await on.say("Think")
        echoed = [message for message in server.last.messages if message.get("tool_calls")]
        assert echoed[0].get("reasoning_content") == "I think."


async def test_gemini_can_go_on_with_the_calls_of_another_model(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, model="first") as on:
        await on.say("Be less formal", edit(), last="Have a look.")
    server.insist(strict.gemini)
    async with bench(server, tmp_path, model="second", profile={"call_extras_echo": True}) as on:
        server.say("I see.")
        await on.settled(on.session.deny("P1", feedback="No"))
        assert on.stopped == "answer"
        assert len(server.requests) == 4


async def test_truncated_calls_do_not_run_and_the_model_learns_why(server: WireServer, on: Bench) -> None:
    whole = Call("write_file", {"path": "new.txt", "content": "x"})
    server.script([Turn("", calls=(whole,), finish="length")])
    await on.say("Write a lot", last="I will be brief.")
    assert on.runtime.service.all() == [] and on.stopped == "answer"
    assert "cut off" in of_role(server.last, "tool")[-1]
    assert any("cut off" in text for text in of_role(server.last, "system"))
    assert not any("user" in text for text in of_role(server.last, "tool")), "the user did nothing"
    (result,) = [event for event in on.events if isinstance(event, ToolResult)]
    assert (result.outcome, result.summary) == (CallOutcome.INVALID, "cut off"), "the transcript says so too"


async def test_text_before_a_failure_is_kept(server: WireServer, on: Bench) -> None:
    refusal = {"error": {"message": "no", "type": "invalid_request_error", "code": 400}}
    server.script([stream(chunk("Half an answer"), refusal)])
    await on.say("Hello")
    assert on.stopped == "failed"
    (message,) = [event for event in on.events if isinstance(event, AssistantMessage)]
    assert (message.text, message.state) == ("Half an answer", "truncated")
    server.say("A whole one.")
    await on.settled(on.session.resume())


async def test_a_discarded_attempt_is_stored_but_never_sent(server: WireServer, tmp_path: Path) -> None:
    server.script([stream(chunk("First try"), {"error": {"message": "overloaded", "code": 503}})])
    server.say("Second try.")
    async with bench(server, tmp_path, retry=RetryPolicy(base=0.01, cap=0.01)) as on:
        await on.say("Hello")
        states = [(event.text, event.state) for event in on.events if isinstance(event, AssistantMessage)]
        assert states == [("First try", "discarded"), ("Second try.", "complete")]
        await on.say("And?", last="Yes.")
        assert "First try" not in str(server.last.body)
        on.check()


async def held_at_the_closing_request(on: Bench) -> threading.Event:
    """Have the model stage an edit, and explain it only once the returned event is set."""
    answer_now = threading.Event()

    def model(request: Request) -> Turn:
        if request.closing:
            answer_now.wait(10)
            return Turn("Have a look.")
        return Turn(calls=(Call(*edit()),)) if request.number == 0 else Turn("I will do it differently.")

    on.server.model(model)
    await on.session.send("Be less formal")
    assert await on.server.arrived(2)
    return answer_now


async def test_feedback_before_an_interruption_starts_no_turn_after_it(server: WireServer, on: Bench) -> None:
    answer_now = await held_at_the_closing_request(on)
    await on.session.deny("P1", feedback=FEEDBACK)
    on.session.interrupt()
    answer_now.set()
    await on.session.wait_until_idle()
    assert len(server.requests) == 2 and on.session.has_undelivered_feedback
    await on.say("Go on")
    assert of_role(server.last, "user")[-1] == f"{FEEDBACK}\n\nGo on"


async def test_feedback_during_the_closing_request_starts_a_turn_after_it(server: WireServer, on: Bench) -> None:
    answer_now = await held_at_the_closing_request(on)
    await on.session.deny("P1", feedback=FEEDBACK)
    answer_now.set()
    await on.session.wait_until_idle()
    assert len(server.requests) == 3
    assert of_role(server.last, "user")[-1] == FEEDBACK and "tool_choice" not in server.last.body
    assert on.stopped == "answer"


@pytest.mark.parametrize("interrupted", [False, True])
async def test_continue_waits_for_the_running_turn(on: Bench, interrupted: bool) -> None:
    answer_now = await held_at_the_closing_request(on)
    await on.session.approve("P1")
    await on.session.resume()
    if interrupted:
        on.session.interrupt()
    answer_now.set()
    await on.session.wait_until_idle()
    causes = [event.cause for event in on.events if isinstance(event, TurnStarted)]
    assert causes == ["message", *([] if interrupted else ["continue"])]


async def test_messages_at_once_start_one_turn(server: WireServer, on: Bench) -> None:
    server.say("One.")
    server.say("Two.")
    await asyncio.gather(on.session.send("first"), on.session.send("second"))
    await on.session.wait_until_idle()
    assert [of_role(request, "user") for request in server.requests] == [["first"], ["first", "second"]]


async def test_a_message_to_an_open_question_is_its_answer(server: WireServer, on: Bench) -> None:
    await on.say("Do it", ("ask_user", {"question": "Which?"}))
    await on.say("the second one")
    assert server.last.messages[-1]["role"] == "tool" and server.last.messages[-1]["content"] == "the second one"
    assert [event.text for event in on.events if isinstance(event, UserAnswer)] == ["the second one"]


async def test_an_open_question_survives_an_interruption(server: WireServer, on: Bench) -> None:
    server.turn(calls=[("ask_user", {"question": "Which?"}), ("read_file", {"path": "greet.py"})])
    server.say("All right.")
    on.at(Question, lambda _: on.session.interrupt())
    await on.say("Do it")
    assert on.stopped == "aborted" and on.session.question is not None
    await on.settled(on.session.answer("the second one"))
    assert of_role(server.last, "tool")[0] == "the second one"
    asked, read = next(event.calls for event in on.events if isinstance(event, AssistantMessage))
    completed = [event.call for event in on.events if isinstance(event, ToolResult | UserAnswer)]
    assert completed == [read.uid, asked.uid], "each call completes once"


async def test_an_interruption_before_the_tools_run_aborts_all_calls(server: WireServer, on: Bench) -> None:
    server.turn(calls=[edit(), ("read_file", {"path": "greet.py"})])
    on.at(AssistantMessage, lambda _: on.session.interrupt())
    await on.say("Do it")
    assert on.stopped == "aborted"
    assert [event.outcome for event in on.events if isinstance(event, ToolResult)] == [CallOutcome.ABORTED] * 2
    assert on.runtime.service.all() == []


async def test_the_record_names_only_the_host_of_the_model(server: WireServer, tmp_path: Path) -> None:
    server.turn(calls=[edit()])
    server.say("Have a look.")
    host = server.base_url.removeprefix("http://").partition("/")[0]
    address = server.base_url.replace("http://", "http://us3r:s3cr3t@") + "?api-key=t0k3n"
    async with bench(server, tmp_path, base_url=address, api_key="k3y-of-mine") as on:
        await on.say("Be less formal")
        await on.session.approve("P1")
        [entry] = DecisionRecordReader(on.runtime.database, on.runtime.name).entries()
        assert (entry.origin.host, entry.origin.model) == (host, "test-model")
        kept = (entry.model_dump_json(), *(event.model_dump_json() for event in on.events))
        assert not any(secret in text for text in kept for secret in ("us3r", "s3cr3t", "t0k3n", "k3y-of-mine"))
