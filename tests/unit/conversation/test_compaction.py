"""Room is made step by step, and what matters stays."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    ContentPruned,
    Event,
    HistoryCompacted,
    ProposalStaged,
    Question,
    RequestSent,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from app.conversation.payload.compaction_plan import (
    INSTRUCTION,
    CalibratedTokenEstimator,
    CompactionBudget,
    DropHistoryStep,
    PruneStep,
    SummariseStep,
    compaction_budget_if_needed,
    estimate_text_tokens,
    is_nearly_full,
    make_summary_payload,
    plan_next_compaction_step,
)
from app.conversation.payload.history import HistoryOmissions, read_omissions
from app.conversation.payload.projection import PayloadInputs, project
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload, TokenUsage
from app.proposals.values.decision_facts import FileDiffStat
from tests.unit.conversation.histories import Simulation, profiles, rules_for, sessions
from tests.unit.conversation.validity import violations

FACTS = PayloadInputs("prompt", [])


class Log:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._steps = 0

    def add(self, *events: Event) -> None:
        for event in events:
            self.events.append(event.model_copy(update={"id": len(self.events) + 1}))

    def turn(self, text: str, *outputs: str, answer: str = "done") -> None:
        self.add(TurnStarted(cause="message"), UserMessage(text=text))
        for output in outputs:
            self.step(output)
        self.add(AssistantMessage(text=answer), TurnEnded(stopped="answer"))

    def step(self, output: str) -> None:
        self._steps += 1
        uid = f"c{self._steps}.0"
        self.add(AssistantMessage(calls=(ToolCall(uid=uid, wire_id=uid, name="read_file", arguments={}),)))
        self.add(ToolResult(call=uid, outcome=CallOutcome.OK, text=output))


def size(events: list[Event]) -> int:
    return CalibratedTokenEstimator().count_tokens(project(events, EndpointProfile(), FACTS))


def make_room(
    events: list[Event], target: int, *, summarise: bool = True
) -> list[PruneStep | SummariseStep | DropHistoryStep]:
    """Plan and carry out until nothing is left to do."""
    steps: list[PruneStep | SummariseStep | DropHistoryStep] = []
    while step := plan_next_compaction_step(
        events, CompactionBudget(size(events), target, None), can_summarise=summarise
    ):
        steps.append(step)
        last = events[-1].id
        match step:
            case PruneStep():
                events.append(ContentPruned(id=last + 1, results=step.results, images=step.images))
            case SummariseStep():
                events.append(HistoryCompacted(id=last + 1, upto=step.upto, summary="short", method="summary"))
            case DropHistoryStep():
                events.append(HistoryCompacted(id=last + 1, upto=step.upto, summary="", method="truncation"))
        assert len(steps) < 20
    return steps


@pytest.mark.parametrize(
    ("used", "window", "needed"),
    [(10**9, None, False), (100_000, 128_000, False), (121_600, 128_000, True), (7_500, 8_192, True)],
)
def test_room_is_needed_shortly_before_the_window_is_full(used: int, window: int | None, needed: bool) -> None:
    assert is_nearly_full(used, window) is needed
    assert (compaction_budget_if_needed(used, window) is not None) is needed
    forced = compaction_budget_if_needed(used, window, forced=True)
    assert forced is not None and forced.target < used


def test_a_budget_plans_nothing_while_there_is_room() -> None:
    log = Log()
    log.turn("hello", "x" * 8_000)
    assert plan_next_compaction_step(log.events, CompactionBudget(100, 200, None)) is None


def test_old_output_is_pruned_first_and_only_as_much_as_needed() -> None:
    log = Log()
    log.turn("one", *(f"{number} " + "x" * 8_000 for number in range(6)))
    step = plan_next_compaction_step(log.events, CompactionBudget(size(log.events), size(log.events) - 3_000, None))
    results = [event.id for event in log.events if isinstance(event, ToolResult)]
    assert isinstance(step, PruneStep) and step.results == tuple(results[:2])
    (step,) = make_room(log.events, size(log.events) // 2)
    assert isinstance(step, PruneStep)
    sent = json.dumps(project(log.events, EndpointProfile(), FACTS).messages)
    assert "5 xxx" in sent
    assert "0 xxx" not in sent
    assert size(log.events) <= step.saved * 2


def test_pruned_output_is_not_pruned_again() -> None:
    log = Log()
    log.turn("one", "x" * 8_000)
    log.turn("two", answer="y" * 8_000)
    (result,) = [event.id for event in log.events if isinstance(event, ToolResult)]
    log.add(ContentPruned(results=(result,)))
    step = plan_next_compaction_step(log.events, CompactionBudget(size(log.events), size(log.events) // 2, None))
    assert isinstance(step, SummariseStep) and step.saved <= size(log.events)


def test_history_without_cuts_has_no_omissions() -> None:
    log = Log()
    log.turn("one")
    cut_of_nothing = HistoryCompacted(id=3, upto=0, summary="short", method="summary")
    assert read_omissions(log.events) == read_omissions([*log.events, cut_of_nothing]) == HistoryOmissions()


def test_the_history_is_summarised_and_without_a_summary_truncated_if_it_does_not_fit() -> None:
    log = Log()
    for number in range(30):
        log.turn(f"question {number}", answer=f"answer {number} " + "y" * 2_000)
    budget = CompactionBudget(size(log.events), size(log.events) // 2, None)
    with_summary, without = (
        plan_next_compaction_step(log.events, budget),
        plan_next_compaction_step(log.events, budget, can_summarise=False),
    )
    assert isinstance(with_summary, SummariseStep)
    assert isinstance(without, DropHistoryStep)
    assert with_summary.upto == without.upto
    events, target = [*log.events], size(log.events) // 4
    step = plan_next_compaction_step(events, CompactionBudget(size(events), target, 128_000))
    assert isinstance(step, SummariseStep)
    events.append(HistoryCompacted(id=events[-1].id + 1, upto=step.upto, summary="s" * 9_000, method="summary"))
    used = size(events)
    assert used > target
    assert plan_next_compaction_step(events, CompactionBudget(used, target, 128_000)) is None
    assert isinstance(plan_next_compaction_step(events, CompactionBudget(used, target, used)), DropHistoryStep)
    (step,) = make_room(log.events, size(log.events) // 2)
    assert isinstance(step, SummariseStep)
    assert "answer 29" in str(project(log.events, EndpointProfile(), FACTS).messages)
    kinds = {type(one) for one in make_room(log.events, size(log.events) // 8, summarise=False)}
    assert kinds == {DropHistoryStep}


def calling(*uids: str, name: str = "read_file", text: str = "") -> AssistantMessage:
    calls = tuple(ToolCall(uid=uid, wire_id=uid, name=name, arguments={}) for uid in uids)
    return AssistantMessage(text=text, calls=calls)


def test_the_running_step_an_open_question_and_a_running_call_are_never_removed() -> None:
    def left(target: int, *running: Event) -> list[dict[str, Any]]:
        log = Log()
        log.turn("old", answer="y" * 20_000)
        log.add(TurnStarted(cause="message"), UserMessage(text="new"), *running)
        make_room(log.events, target)
        return project(log.events, EndpointProfile(), FACTS).messages

    read = ToolResult(call="r0", outcome=CallOutcome.OK, text="fresh " + "x" * 8_000)
    *_, last = left(4_000, calling("r0"), read)
    assert last["role"] == "tool" and last["content"].startswith("fresh"), "although it is large"
    asking = calling("q", name="ask_user", text="z" * 20_000)
    assert left(500, asking, Question(call="q", text="which?"))[-1]["tool_call_id"] == "q"
    sent = left(500, calling("r0", "r1", text="z" * 20_000), read)
    assert [message["role"] for message in sent[-2:]] == ["tool", "tool"]


def test_an_aborted_call_of_an_old_turn_can_be_cut_away() -> None:
    log = Log()
    log.add(TurnStarted(cause="message"), UserMessage(text="old"), calling("r0"), TurnEnded(stopped="aborted"))
    for _ in range(20):
        log.turn("go", answer="y" * 2_000)
    (step,) = make_room(log.events, size(log.events) // 2)
    assert isinstance(step, DropHistoryStep | SummariseStep) and step.upto > 4


def test_the_request_for_a_summary_begins_where_it_fits_and_is_far_smaller() -> None:
    long, large = Log(), Log()
    for _ in range(100):
        long.turn("go", answer="y" * 2_000)
    large.turn("go", *("x" * 40_000 for _ in range(10)))
    for log, target, window, least, most in (
        (long, 4_000, 8_000, 2_000, 8_000),
        (large, 1_000, 32_000, 0, min(0.8 * 32_000, size(large.events) / 10)),
    ):
        step, budget = SummariseStep(log.events[-1].id, 0), CompactionBudget(size(log.events), target, window)
        payload = make_summary_payload(log.events, step, budget, EndpointProfile(), FACTS)
        assert least < CalibratedTokenEstimator().count_tokens(payload) < most


def test_a_short_result_is_whole_in_the_request_for_a_summary() -> None:
    log = Log()
    text = "".join(f"{number} " for number in range(300))
    log.turn("go", text, text * 2)
    log.add(AssistantMessage(calls=(ToolCall(uid="x", wire_id="x", name="read_file", arguments=None),)))
    payload = make_summary_payload(
        log.events, SummariseStep(log.events[-1].id, 0), CompactionBudget(1_000, 500, None), EndpointProfile(), FACTS
    )
    short, long, _ = [message["content"] for message in payload.messages if message["role"] == "tool"]
    assert short == text and "[… " in long


def test_a_pending_proposal_survives_in_the_summary() -> None:
    log = Log()
    stat = FileDiffStat(path="a.py", op="edit", added=1, removed=1)
    log.add(ProposalStaged(proposal="P4", summary="rename it", files=(stat,), calls=()))
    log.turn("go", answer="y" * 20_000)
    log.turn("go on", answer="z" * 4_000)
    make_room(log.events, 2_000)
    assert "P4: rename it [a.py (edit, +1 -1)]" in str(project(log.events, EndpointProfile(), FACTS).messages)


@settings(suppress_health_check=list(HealthCheck))
@given(sessions(), profiles, st.integers(1, 300), st.booleans())
def test_compaction_leaves_valid_history(
    session: Simulation, profile: EndpointProfile, target: int, summarise: bool
) -> None:
    make_room(session.events, target, summarise=summarise)
    assert violations(project(session.events, profile, FACTS).messages, rules_for(profile)) == []


@settings(suppress_health_check=list(HealthCheck))
@given(sessions(), profiles, st.data())
def test_the_summary_request_is_valid_and_system(
    session: Simulation, profile: EndpointProfile, data: st.DataObject
) -> None:
    upto = data.draw(st.integers(1, session.events[-1].id))
    budget = CompactionBudget(1_000, 500, data.draw(st.sampled_from([None, 60, 400, 10_000])))
    payload = make_summary_payload(session.events, SummariseStep(upto, 0), budget, profile, FACTS)
    assert violations(payload.messages, rules_for(profile)) == []
    assert (payload.tool_choice == "none") is (profile.tool_choice_none != "rejected")
    assert str(payload.messages).count(INSTRUCTION[:60]) == 1
    for message in payload.messages:
        if message["role"] == "user" and INSTRUCTION[:60] in message["content"]:
            assert profile.mid_system != "inline"
            assert message["content"].startswith("<signoff-note>")


PAYLOAD = Payload([{"role": "user", "content": "word " * 1000}], [])


def counted(meter: CalibratedTokenEstimator, prompt_tokens: int) -> None:
    meter.apply(RequestSent(estimated_tokens=meter.count_tokens(PAYLOAD)))
    meter.apply(AssistantMessage(text="x", usage=TokenUsage(prompt_tokens=prompt_tokens)))


def test_the_estimate_is_calibrated_by_counts_that_can_be_true() -> None:
    meter = CalibratedTokenEstimator()
    for count in (*[2_000] * 5, 1_000):
        counted(meter, count)
        assert meter.count_tokens(PAYLOAD) == pytest.approx(count, rel=0.01)
    meter = CalibratedTokenEstimator()
    counted(meter, 10)
    assert meter.count_tokens(PAYLOAD) >= CalibratedTokenEstimator().count_tokens(PAYLOAD) / 2 - 1
    meter = CalibratedTokenEstimator()
    meter.apply(RequestSent(estimated_tokens=100))
    meter.apply(AssistantMessage(text="x"))
    assert meter.factor == 1.0


def test_tools_and_calls_count_and_wide_characters_weigh_more() -> None:
    with_tools = Payload(PAYLOAD.messages, [{"type": "function", "function": {"name": "x" * 400}}])
    assert (
        CalibratedTokenEstimator().count_tokens(with_tools) > CalibratedTokenEstimator().count_tokens(PAYLOAD) + 100
    )
    named = Payload([{**PAYLOAD.messages[0], "role": "r" * 400}], [])
    assert CalibratedTokenEstimator().count_tokens(named) == CalibratedTokenEstimator().count_tokens(PAYLOAD), (
        "who speaks is in what each message costs"
    )
    assert estimate_text_tokens("漢" * 100) > 2 * estimate_text_tokens("a" * 100)
