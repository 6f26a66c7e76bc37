"""Projecting, folding, repairing and planning are linear in the log's size, and a step costs a fraction of it.

Every figure is relative to a smaller log in the same run: ten times the events may take ten times the time plus
noise, but not a hundred times.
"""

import gc
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from app.agent.gate import GateClosingPolicy, TurnStagingGate
from app.agent.turn_state import TurnState
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    RequestSent,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from app.conversation.payload.compaction_plan import CompactionBudget, plan_next_compaction_step
from app.conversation.payload.projection import CachedPayloadBuilder, PayloadInputs, project
from app.llm.values.endpoint import EndpointProfile
from tests.unit.conversation.importing import repair

SIZES = (1_000, 10_000, 100_000)
LINEAR = 10.0
"""Ratio of ten times the events if the cost is linear."""
NOISE = 2.5
PROMPT_INPUTS = PayloadInputs("prompt", [])
STEPS = 20
STEP_SHARE = 10
"""How many times faster a cached projection must be than a fresh one."""


def log_of(size: int) -> list[Event]:
    """Return a log of `size` events, in turns of three steps."""
    events: list[Event] = []

    def add(event: Event) -> None:
        events.append(event.model_copy(update={"id": len(events) + 1, "time": 1.0}))

    number = 0
    while len(events) < size:
        add(TurnStarted(cause="message"))
        add(UserMessage(text=f"question {number}"))
        for _ in range(3):
            number += 1
            uid = f"c{number}.0"
            call = ToolCall(uid=uid, wire_id="call_0", name="read_file", arguments={"path": f"{number}.py"})
            add(RequestSent())
            add(AssistantMessage(text="", calls=(call,)))
            add(ToolStarted(call=uid))
            add(ToolResult(call=uid, outcome=CallOutcome.OK, text="some output " * 5))
        add(AssistantMessage(text="an answer"))
        add(TurnEnded(stopped="answer"))
    return events[:size]


LOGS = {size: log_of(size) for size in SIZES}


def fastest(work: Callable[[], Any], repeats: int) -> float:
    times = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
    finally:
        gc.enable()
    return min(times)


def fold(events: list[Event]) -> None:
    gate, turn = TurnStagingGate(GateClosingPolicy()), TurnState()
    for event in events:
        gate.apply(event)
        turn.apply(event)


def damaged_messages(events: list[Event]) -> list[dict[str, Any]]:
    """Return the messages of a log without every tenth one and with duplicate results."""
    messages = project(events, EndpointProfile(), PROMPT_INPUTS).messages
    remaining = [message for position, message in enumerate(messages) if position % 10]
    return [copy for message in remaining for copy in ([message] * 2 if message["role"] == "tool" else [message])]


WORK: dict[str, Callable[[list[Event]], Callable[[], Any]]] = {
    "project": lambda events: lambda: project(events, EndpointProfile(), PROMPT_INPUTS),
    "project, folded, one call per turn": lambda events: (
        lambda: project(
            events, EndpointProfile(mid_system="fold_user", single_call_turns=True, tool_id="alnum9"), PROMPT_INPUTS
        )
    ),
    "fold": lambda events: lambda: fold(events),
    "plan": lambda events: lambda: plan_next_compaction_step(events, CompactionBudget(10**9, 1_000, None)),
    "repair": lambda events: (lambda messages: lambda: repair(messages))(damaged_messages(events)),
}


@pytest.mark.parametrize("name", list(WORK))
def test_cost_is_linear_in_events(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    times = {size: fastest(WORK[name](LOGS[size]), repeats=max(3, 30_000 // size)) for size in SIZES}
    ratios = [times[larger] / times[smaller] for smaller, larger in pairwise(SIZES)]
    with capsys.disabled():
        figures = ", ".join(f"{size:,}: {seconds * 1000:.1f} ms" for size, seconds in times.items())
        print(f"\n{name}: {figures}; ratios {', '.join(f'{ratio:.1f}' for ratio in ratios)}")
    assert all(ratio < LINEAR * NOISE for ratio in ratios)
    assert times[SIZES[-1]] / times[SIZES[0]] < LINEAR * LINEAR * NOISE


def test_step_projects_only_new_events(capsys: pytest.CaptureFixture[str]) -> None:
    events, later = LOGS[SIZES[-1]], log_of(SIZES[-1] + 5 * STEPS)[SIZES[-1] :]
    cached, times = CachedPayloadBuilder(), list[float]()
    cached.project(events, EndpointProfile(), PROMPT_INPUTS)
    for step in range(1, STEPS + 1):
        grown = [*events, *later[: 5 * step]]
        started = time.perf_counter()
        payload = cached.project(grown, EndpointProfile(), PROMPT_INPUTS)
        times.append(time.perf_counter() - started)
    assert payload == project(grown, EndpointProfile(), PROMPT_INPUTS)
    fresh = fastest(lambda: project(grown, EndpointProfile(), PROMPT_INPUTS), 3)
    step_time = statistics.median(times)
    with capsys.disabled():
        print(f"\na step: {step_time * 1000:.1f} ms, fresh {fresh * 1000:.1f} ms: 1/{fresh / step_time:.0f}")
    assert step_time * STEP_SHARE < fresh
