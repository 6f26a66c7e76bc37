"""The ladder: one table per rung, and what holds for every state and every sequence of model outputs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.gate import GateClosingPolicy, TurnStagingGate
from app.agent.interventions import closing_instruction, nudge_instruction
from app.agent.ladder import (
    CompactContext,
    EndTurn,
    LadderAction,
    LastEntryKind,
    NextActionInputs,
    RunToolCalls,
    SendClosingRequest,
    SendRequest,
    WaitForAnswer,
    choose_action,
)
from app.agent.turn_state import TurnState, make_next_action_inputs
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
from app.copies import replace

FINISH_REASONS = [None, "stop", "tool_calls", "length", "content_filter", "other", "error", "unknown", "eos", ""]
FAILURES = [
    *("", "context_full", "auth", "quota", "rate_limited", "model_not_found", "unreachable", "server_error"),
    *("invalid_request", "tool_use_failed", "stream_broken", "unknown"),
]
small = st.integers(0, 12)
states = st.builds(
    NextActionInputs,
    last=st.sampled_from(list(LastEntryKind)),
    aborted=st.booleans(),
    question_open=st.booleans(),
    gate_closed=st.booleans(),
    closing_sent=st.booleans(),
    steps=small,
    step_limit=small,
    failure=st.sampled_from(FAILURES),
    failure_message=st.just("why"),
    room_needed=st.booleans(),
    compacted=st.booleans(),
    finish_reason=st.sampled_from(FINISH_REASONS),
    repeats=small,
    fruitless_steps=small,
    no_progress_nudges=small,
    empty_nudges=small,
    truncated_nudges=small,
)


def state(**fields: Any) -> NextActionInputs:
    return replace(NextActionInputs(), **fields)


STAGED = SendClosingRequest(InterventionKind.STAGED)
TABLE: list[tuple[str, NextActionInputs, LadderAction]] = [
    ("the user interrupts", state(aborted=True, question_open=True, gate_closed=True), EndTurn("aborted")),
    ("a question is open", state(question_open=True, gate_closed=True, failure="rate_limited"), WaitForAnswer()),
    ("an edit was staged", state(gate_closed=True, last=LastEntryKind.RESULTS), STAGED),
    ("an edit was staged, the context is full", state(gate_closed=True, failure="context_full"), STAGED),
    ("calls wait under a closed gate", state(gate_closed=True, last=LastEntryKind.CALLS), STAGED),
    (
        "control is back",
        state(gate_closed=True, closing_sent=True, last=LastEntryKind.TEXT),
        EndTurn("staged"),
    ),
    (
        "nothing came back",
        state(gate_closed=True, closing_sent=True, last=LastEntryKind.EMPTY),
        EndTurn("staged"),
    ),
    (
        "the closing request failed",
        state(
            gate_closed=True,
            closing_sent=True,
            last=LastEntryKind.USER,
            failure="server_error",
            failure_message="500",
        ),
        EndTurn("staged", "500"),
    ),
    (
        "the server refused the call for us",
        state(gate_closed=True, closing_sent=True, failure="tool_use_failed", failure_message="x"),
        EndTurn("staged"),
    ),
    ("first request", state(), SendRequest()),
    ("the context is full", state(last=LastEntryKind.RESULTS, failure="context_full"), CompactContext()),
    (
        "no room for a single token",
        state(last=LastEntryKind.NO_ROOM, finish_reason="length"),
        CompactContext(),
    ),
    (
        "the next request would overflow",
        state(last=LastEntryKind.RESULTS, room_needed=True),
        CompactContext(),
    ),
    (
        "room was made as far as it goes",
        state(last=LastEntryKind.RESULTS, room_needed=True, compacted=True),
        SendRequest(),
    ),
    ("an answer needs no room", state(last=LastEntryKind.TEXT, room_needed=True), EndTurn("answer")),
    ("the request failed", state(failure="quota", failure_message="pay"), EndTurn("failed", "pay")),
    (
        "the server could not parse a call",
        state(failure="tool_use_failed", last=LastEntryKind.RESULTS),
        SendRequest(InterventionKind.TRUNCATED),
    ),
    (
        "cut calls",
        state(last=LastEntryKind.CUT_CALLS, finish_reason="length"),
        SendRequest(InterventionKind.TRUNCATED),
    ),
    ("cut text", state(last=LastEntryKind.CUT_TEXT), SendRequest(InterventionKind.TRUNCATED)),
    ("whole calls", state(last=LastEntryKind.CALLS, finish_reason="stop"), RunToolCalls()),
    ("whole calls at the limit", state(last=LastEntryKind.CALLS, steps=9, step_limit=9), RunToolCalls()),
    ("text", state(last=LastEntryKind.TEXT, finish_reason="tool_calls"), EndTurn("answer")),
    ("text at the limit", state(last=LastEntryKind.TEXT, steps=9, step_limit=9), EndTurn("answer")),
    ("empty", state(last=LastEntryKind.EMPTY), SendRequest(InterventionKind.EMPTY_RESPONSE)),
    (
        "reasoning only",
        state(last=LastEntryKind.REASONING_ONLY),
        SendRequest(InterventionKind.EMPTY_RESPONSE),
    ),
    ("results", state(last=LastEntryKind.RESULTS), SendRequest()),
    (
        "results at the limit",
        state(last=LastEntryKind.RESULTS, steps=9, step_limit=9),
        SendClosingRequest(InterventionKind.STEP_LIMIT),
    ),
    (
        "a nudge at the limit",
        state(last=LastEntryKind.EMPTY, steps=9, step_limit=9),
        SendClosingRequest(InterventionKind.STEP_LIMIT),
    ),
    (
        "results at the cost limit",
        state(last=LastEntryKind.RESULTS, steps=2, limit="cost"),
        SendClosingRequest(InterventionKind.COST_LIMIT),
    ),
    (
        "cut at the time limit",
        state(last=LastEntryKind.CUT_TEXT, steps=1, limit="time"),
        SendClosingRequest(InterventionKind.TIME_LIMIT),
    ),
    (
        "room is needed at the cost limit",
        state(last=LastEntryKind.RESULTS, steps=2, room_needed=True, limit="cost"),
        SendClosingRequest(InterventionKind.COST_LIMIT),
    ),
    (
        "the context is full at the cost limit",
        state(last=LastEntryKind.RESULTS, steps=2, failure="context_full", limit="cost", limit_message="m"),
        EndTurn("failed", "m", "cost"),
    ),
    ("nothing is left for a turn", state(limit="cost", limit_message="m"), EndTurn("failed", "m", "cost")),
    ("text at the cost limit", state(last=LastEntryKind.TEXT, steps=1, limit="cost"), EndTurn("answer")),
    ("an edit at the cost limit", state(gate_closed=True, limit="cost"), SendClosingRequest(InterventionKind.STAGED)),
    ("a question at the cost limit", state(question_open=True, limit="cost"), WaitForAnswer()),
    ("a stop at the cost limit", state(aborted=True, limit="cost"), EndTurn("aborted")),
    (
        "the same call again",
        state(last=LastEntryKind.RESULTS, repeats=3),
        SendRequest(InterventionKind.NO_PROGRESS),
    ),
    ("it was told so", state(last=LastEntryKind.RESULTS, repeats=4, no_progress_nudges=1), SendRequest()),
    (
        "it does not listen",
        state(last=LastEntryKind.RESULTS, repeats=5, no_progress_nudges=1),
        SendClosingRequest(InterventionKind.NO_PROGRESS),
    ),
    (
        "nothing works",
        state(last=LastEntryKind.RESULTS, fruitless_steps=4),
        SendRequest(InterventionKind.NO_PROGRESS),
    ),
    (
        "still nothing works",
        state(last=LastEntryKind.RESULTS, fruitless_steps=6, no_progress_nudges=1),
        SendClosingRequest(InterventionKind.NO_PROGRESS),
    ),
]


@pytest.mark.parametrize(("given_state", "action"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_rung(given_state: NextActionInputs, action: LadderAction) -> None:
    assert choose_action(given_state).action == action


@pytest.mark.parametrize(
    ("given_state", "stopped"),
    [
        (state(gate_closed=True, closing_sent=True, last=LastEntryKind.CALLS), "refused"),
        (state(gate_closed=True, closing_sent=True, last=LastEntryKind.RESULTS), "refused"),
        (state(closing_sent=True, last=LastEntryKind.TEXT), "answer"),
        (state(closing_sent=True, failure="unreachable"), "failed"),
        (state(last=LastEntryKind.RESULTS, failure="context_full", compacted=True), "failed"),
        (state(last=LastEntryKind.NO_ROOM, compacted=True), "failed"),
        (state(last=LastEntryKind.CUT_CALLS, truncated_nudges=1), "failed"),
        (state(last=LastEntryKind.CUT_TEXT, truncated_nudges=1), "answer"),
        (state(last=LastEntryKind.CUT_TEXT, finish_reason="content_filter"), "answer"),
        (state(last=LastEntryKind.EMPTY, empty_nudges=1), "failed"),
        (state(last=LastEntryKind.EMPTY, finish_reason="content_filter"), "failed"),
    ],
)
def test_ladder_stops_with_a_reason(given_state: NextActionInputs, stopped: str) -> None:
    action = choose_action(given_state).action
    assert isinstance(action, EndTurn)
    assert action.stopped == stopped
    if stopped != "failed" or not given_state.failure:
        assert action.message


@pytest.mark.parametrize(
    ("finish", "words"),
    [
        ("length", "Raise the output limit"),
        ("model_context_window_exceeded", "the context is full"),
        (None, "the connection ended it"),
        ("error", "the connection ended it"),
    ],
)
def test_a_response_cut_twice_names_the_reason(finish: str | None, words: str) -> None:
    action = choose_action(state(last=LastEntryKind.CUT_TEXT, truncated_nudges=1, finish_reason=finish)).action
    assert isinstance(action, EndTurn) and words in action.message


@pytest.mark.parametrize(
    ("closing", "words"),
    [
        (state(closed_by="steps", step_limit=7), "7 steps"),
        (state(closed_by="steps", step_limit=1), "its 1 step. Go on"),
        (state(closed_by="time", limit="time", limit_message="The time limit of 9s is reached."), "limit of 9s"),
        (state(closed_by="cost"), "cost limit"),
        (state(), "no progress"),
    ],
)
@pytest.mark.parametrize("last", [LastEntryKind.TEXT, LastEntryKind.CALLS])
def test_the_end_after_a_closing_request_names_its_reason(
    closing: NextActionInputs, words: str, last: LastEntryKind
) -> None:
    action = choose_action(replace(closing, closing_sent=True, last=last)).action
    assert isinstance(action, EndTurn) and words in action.message
    assert ("called tools" in action.message) == (last is LastEntryKind.CALLS)


@given(states, st.sampled_from(FINISH_REASONS))
def test_rules_that_hold_in_every_state(given_state: NextActionInputs, finish: str | None) -> None:
    stopped = EndTurn("aborted") if given_state.aborted else WaitForAnswer()
    assert choose_action(replace(given_state, question_open=True)).action == stopped
    behind_gate = choose_action(replace(given_state, gate_closed=True)).action
    assert not isinstance(behind_gate, RunToolCalls | SendRequest | CompactContext)
    if given_state.closing_sent:
        assert isinstance(behind_gate, EndTurn | WaitForAnswer)
    assert isinstance(choose_action(replace(given_state, closing_sent=True)).action, EndTurn | WaitForAnswer)
    assert choose_action(replace(given_state, last=LastEntryKind.CUT_CALLS)).action != RunToolCalls()
    for last in (LastEntryKind.TEXT, LastEntryKind.CALLS):
        before = replace(given_state, last=last)
        assert choose_action(before) == choose_action(replace(before, finish_reason=finish)), (
            "it alone causes no request"
        )


class Driver:
    """The smallest loop over the ladder: does what it says, with outputs given from outside."""

    def __init__(self, outputs: list[Any], policy: GateClosingPolicy, step_limit: int) -> None:
        self.turn = TurnState()
        self.gate = TurnStagingGate(policy)
        self.events: list[Event] = []
        self._outputs = iter(outputs)
        self._step_limit = step_limit
        self._room_made = False
        self._compactions = 0
        self.ran_behind_gate = False
        self.staged = 0

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.turn.apply(event)
        self.gate.apply(event)

    def run(self) -> LadderAction:
        self.add(TurnStarted(cause="message"))
        self.add(UserMessage(text="go"))
        for _ in range(10 * self._step_limit + 50):
            state = make_next_action_inputs(
                self.turn, self.gate, step_limit=self._step_limit, compaction_tried=self._room_made
            )
            match choose_action(state).action:
                case (EndTurn() | WaitForAnswer()) as end:
                    self.add(TurnEnded(stopped=end.stopped if isinstance(end, EndTurn) else "question"))
                    return end
                case CompactContext():
                    self._room_made = True
                    self._compactions += 1
                    if self._compactions % 2:
                        self.add(HistoryCompacted(upto=0, summary="s", method="summary"))
                case RunToolCalls():
                    self._run_calls()
                case SendRequest(nudge=kind):
                    if kind is not None:
                        self.add(nudge_instruction(kind))
                    self._ask(closing_request=False)
                case SendClosingRequest(kind=kind):
                    for call in self.turn.unfinished_calls:
                        self.add(ToolResult(call=call.uid, outcome=CallOutcome.REFUSED, text="refused"))
                    self.add(closing_instruction(kind, self.gate.staged_proposals, ["a.py"]))
                    self._ask(closing_request=True)
        raise AssertionError("the turn does not end")

    def _ask(self, *, closing_request: bool) -> None:
        self.add(RequestSent(closing=closing_request))
        output = next(self._outputs, "calls")
        if output in FAILURES:
            self.add(RequestFailed(kind=output, message="failed"))
            return
        number = self.turn.responses + 1
        names = {"calls": ("read", "read"), "edit": ("read", "edit"), "ask": ("ask", "read"), "cut": ("edit",)}
        calls = tuple(
            ToolCall(uid=f"c{number}.{n}", name=name, arguments={"n": number if output == "edit" else 0})
            for n, name in enumerate(names.get(output, ()))
        )
        self.add(
            AssistantMessage(
                text="text" if output in ("text", "cut text") else "",
                reasoning="hm" if output == "reasoning" else "",
                calls=calls,
                finish_reason="length" if output in ("no room", "cut") else None,
                state="truncated" if output in ("cut", "cut text") else "complete",
            )
        )
        self._room_made = False
        if output == "cut" or closing_request:
            for call in calls:
                self.add(ToolResult(call=call.uid, outcome=CallOutcome.INVALID, text="not run"))

    def _run_calls(self) -> None:
        edits: list[str] = []
        for call in self.turn.unfinished_calls:
            self.ran_behind_gate = self.ran_behind_gate or self.gate.is_closed or self.turn.closing_sent
            if call.name == "ask":
                self.add(Question(call=call.uid, text="which?"))
            elif self.turn.open_questions:
                self.add(ToolResult(call=call.uid, outcome=CallOutcome.REFUSED, text="question first"))
            else:
                self.add(ToolResult(call=call.uid, outcome=CallOutcome.OK, text="ok"))
                edits += [call.uid] if call.name == "edit" else []
        if edits:
            self.staged += 1
            self.add(ProposalStaged(proposal=f"P{self.staged}", summary="", files=(), calls=tuple(edits)))


policies = st.builds(GateClosingPolicy, st.sampled_from(["every-edit", "chain"]), st.integers(1, 3))
outputs = st.lists(
    st.sampled_from(
        ["calls", "calls", "edit", "edit", "ask", "cut", "cut text", "text", "empty", "reasoning", "no room"]
        + [failure for failure in FAILURES if failure]
    ),
    max_size=30,
)


@given(outputs, policies, st.integers(0, 12))
def test_any_outputs_end_within_the_step_limit(outputs: list[Any], policy: GateClosingPolicy, limit: int) -> None:
    driver = Driver(outputs, policy, limit)
    end = driver.run()
    requests = [event for event in driver.events if isinstance(event, RequestSent)]
    assert sum(not event.closing for event in requests) <= limit
    assert sum(event.closing for event in requests) <= 1
    assert not any(event.closing for event in requests[:-1]), "nothing is asked after the closing request"
    assert not driver.ran_behind_gate
    assert driver.staged <= policy.max_staging_steps
    assert (driver.turn.question is not None) is (end == WaitForAnswer())
    assert driver.turn.unfinished_calls == () or driver.turn.open_questions


@given(outputs)
def test_an_answered_question_changes_nothing(outputs: list[Any]) -> None:
    plain = Driver(outputs, GateClosingPolicy(), 8)
    asked = Driver(outputs, GateClosingPolicy(), 8)
    call = ToolCall(uid="c0.0", name="ask", arguments={})
    for event in (
        TurnStarted(cause="message"),
        AssistantMessage(calls=(call,)),
        Question(call="c0.0", text="which?"),
        TurnEnded(stopped="question"),
        UserAnswer(call="c0.0", text="the left one"),
    ):
        asked.turn.apply(event)
        asked.gate.apply(event)
    assert plain.run() == asked.run()
    assert [type(event) for event in plain.events] == [type(event) for event in asked.events]
