"""The running turn, as the ladder is told of it."""

import pytest

from app.agent.interventions import nudge_instruction
from app.agent.ladder import LastEntryKind
from app.agent.tool_call_executor import WorkStopwatch
from app.agent.turn_state import TurnState, classify_response
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    HistoryCompacted,
    InterventionKind,
    ProposalStaged,
    Question,
    RequestFailed,
    RequestSent,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
)
from app.proposals.values.decision_facts import FileDiffStat
from app.tools.base.contract import PermissionAnswer, PermissionRequest

READ = ToolCall(uid="c1.0", name="read_file", arguments={"path": "a.py"})
START = TurnStarted(cause="message")


def after(*events: Event) -> TurnState:
    turn = TurnState()
    for event in (START, *events):
        turn.apply(event)
    return turn


def done(uid: str, outcome: CallOutcome = CallOutcome.OK) -> ToolResult:
    return ToolResult(call=uid, outcome=outcome, text="x")


def step(number: int, outcome: CallOutcome = CallOutcome.OK, **arguments: int | str) -> tuple[Event, ...]:
    call = ToolCall(uid=f"c{number}.0", name="read_file", arguments=arguments)
    return (RequestSent(), AssistantMessage(calls=(call,)), done(call.uid, outcome))


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        (AssistantMessage(calls=(READ,), finish_reason="stop"), LastEntryKind.CALLS),
        (AssistantMessage(calls=(READ,), text="x", state="truncated"), LastEntryKind.CUT_CALLS),
        (AssistantMessage(text="x", finish_reason="other"), LastEntryKind.TEXT),
        (AssistantMessage(calls=(READ,), text="x", state="interrupted"), LastEntryKind.TEXT),
        (AssistantMessage(text="x", state="truncated"), LastEntryKind.CUT_TEXT),
        (AssistantMessage(text=" \n"), LastEntryKind.EMPTY),
        (AssistantMessage(reasoning="hm"), LastEntryKind.REASONING_ONLY),
        (
            AssistantMessage(reasoning="hm", finish_reason="length", state="truncated"),
            LastEntryKind.REASONING_ONLY,
        ),
        (AssistantMessage(finish_reason="length", state="truncated"), LastEntryKind.NO_ROOM),
        (AssistantMessage(finish_reason="model_context_window_exceeded"), LastEntryKind.NO_ROOM),
    ],
)
def test_shapes(message: AssistantMessage, shape: LastEntryKind) -> None:
    assert classify_response(message) is shape


def test_calls_become_results_when_all_have_one_but_for_truncated_and_earlier_ones() -> None:
    other = READ.model_copy(update={"uid": "c1.1"})
    turn = after(AssistantMessage(calls=(READ, other)), done("c1.0"))
    assert (turn.last, turn.unfinished_calls) == (LastEntryKind.CALLS, (other,))
    turn.apply(done("c1.1"))
    assert (turn.last, turn.unfinished_calls) == (LastEntryKind.RESULTS, ())
    turn = after(AssistantMessage(calls=(READ,), state="truncated"), done("c1.0", CallOutcome.INVALID))
    assert (turn.last, turn.unfinished_calls) == (LastEntryKind.CUT_CALLS, ())
    assert after(*step(1), RequestSent(closing=True)).last is LastEntryKind.USER, "they are not its answer"
    turn = after(AssistantMessage(text="half", state="discarded"))
    assert (turn.responses, turn.last, turn.last_message) == (1, LastEntryKind.USER, None)


def test_a_question_is_open_until_an_answer_or_a_message() -> None:
    asked = Question(call="c1.0", text="which?")
    for end in (UserAnswer(call="c1.0", text="left"), UserMessage(text="never mind")):
        turn = after(
            AssistantMessage(calls=(READ,)), asked, TurnEnded(stopped="question"), TurnStarted(cause="answer")
        )
        assert turn.question == asked
        turn.apply(UserAnswer(call="c9.9", text="another"))
        assert turn.question == asked
        turn.apply(end)
        assert turn.question is None


def test_steps_are_requests_without_the_closing_one() -> None:
    turn = after(RequestSent(), RequestFailed(kind="x", message=""), RequestSent(), RequestSent(closing=True))
    assert (turn.steps, turn.closing_sent, turn.failure) == (2, True, "")
    turn.apply(START)
    assert (turn.steps, turn.closing_sent) == (0, False)


def test_repeats_are_counted_per_call_until_something_changes() -> None:
    turn = after(*step(1, a=1), *step(2, b=1), *step(3, a=1), *step(4, a=1))
    assert turn.repeats == 3
    stat = FileDiffStat(path="a.py", op="edit", added=1, removed=1)
    turn.apply(ProposalStaged(proposal="P1", summary="", files=(stat,), calls=()))
    for event in step(5, a=1):
        turn.apply(event)
    assert turn.repeats == 1


def test_failed_steps_and_nudges_in_a_row_are_counted() -> None:
    failing = (*step(1, CallOutcome.ERROR), *step(2, CallOutcome.INVALID))
    assert after(*failing).fruitless_steps == 2
    assert after(*failing, *step(3)).fruitless_steps == 0
    turn = after(*step(1, CallOutcome.ERROR), done("c1.0", CallOutcome.ERROR), done("c9.9"))
    assert (turn.fruitless_steps, turn.last) == (1, LastEntryKind.RESULTS)
    empty = (AssistantMessage(), nudge_instruction(InterventionKind.EMPTY_RESPONSE))
    assert after(*empty).nudges[InterventionKind.EMPTY_RESPONSE] == 1
    assert after(*empty, *step(2)).nudges[InterventionKind.EMPTY_RESPONSE] == 0


def test_turn_without_progress_is_described_by_its_calls() -> None:
    turn = after(*step(1, a=1), *step(2, b="x" * 500), *step(3, a=1), *step(4, CallOutcome.ERROR, a=1))
    told = turn.progress(50)
    assert (told.step, told.step_limit, told.times, told.fruitless_steps) == (4, 50, 3, 1)
    assert told.repeated == 'read_file {"a": 1}'
    assert told.effect_step == 2 and told.effect.startswith('read_file {"b": "xxx') and len(told.effect) < 200
    assert (
        "Step 4 of 50." in told.description and 'Called 3 times in this turn: read_file {"a": 1}.' in told.description
    )
    assert "was step 2: read_file" in told.description
    turn.apply(START)
    assert turn.progress(50).effect == ""


def test_a_full_context_is_over_after_a_compaction() -> None:
    compacted = HistoryCompacted(upto=1, summary="s", method="summary")
    full = (RequestSent(), RequestFailed(kind="context_full", message="full"))
    turn = after(*full, compacted)
    assert (turn.compacted, turn.failure) == (True, "")
    turn.apply(RequestFailed(kind="context_full", message="full"))
    assert (turn.compacted, turn.failure) == (True, "context_full")
    turn.apply(AssistantMessage(text="x"))
    assert not turn.compacted
    no_room = AssistantMessage(finish_reason="length")
    compacted = HistoryCompacted(upto=1, summary="s", method="summary")
    turn = after(no_room, compacted)
    assert (turn.last, turn.compacted) == (LastEntryKind.USER, True)
    turn.apply(no_room)
    assert (turn.last, turn.compacted) == (LastEntryKind.NO_ROOM, True)


async def test_the_wait_for_the_user_is_not_work() -> None:
    now = [10.0]
    watch = WorkStopwatch(lambda: now[0])

    async def answered_late(_: PermissionRequest) -> PermissionAnswer:
        now[0] += 60
        return PermissionAnswer(allowed=True)

    async def never_answered(_: PermissionRequest) -> PermissionAnswer:
        now[0] += 30
        raise TimeoutError

    question = PermissionRequest("command", "Run a command?", "make", ".")
    now[0] += 1
    assert (await watch.exclude_waiting(answered_late)(question)).allowed
    now[0] += 2
    with pytest.raises(TimeoutError):
        await watch.exclude_waiting(never_answered)(question)
    assert (watch.working_seconds, watch.waiting_seconds) == (3.0, 90.0)
