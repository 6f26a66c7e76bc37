"""The gate closes by staged proposals and opens by the user alone."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.gate import GateClosingPolicy, TurnStagingGate
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    DecisionKind,
    Event,
    ProposalDecided,
    ProposalStaged,
    RequestSent,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from app.proposals.values.decision_facts import FileDiffStat

START = TurnStarted(cause="message")
OTHERS: list[Event] = [
    AssistantMessage(text="x"),
    RequestSent(closing=True),
    ToolResult(call="c1.0", outcome=CallOutcome.STAGED, text="staged"),
    TurnEnded(stopped="staged"),
    ProposalDecided(proposal="P1", decision=DecisionKind.APPROVED),
    UserMessage(text="x"),
]
policies = st.builds(GateClosingPolicy, st.sampled_from(["every-edit", "chain"]), st.integers(-1, 4))


def gate_closed(events: Iterable[Event], policy: GateClosingPolicy) -> bool:
    gate = TurnStagingGate(policy)
    for event in events:
        gate.apply(event)
    return gate.is_closed


def staged(number: int, path: str = "a.py") -> ProposalStaged:
    stat = FileDiffStat(path=path, op="edit", added=1, removed=0)
    return ProposalStaged(proposal=f"P{number}", summary="", files=(stat,), calls=())


logs = st.lists(st.one_of(st.just(START), st.integers(1, 9).map(staged), st.sampled_from(OTHERS)), max_size=30)


@pytest.mark.parametrize(
    ("policy", "steps"),
    [(GateClosingPolicy(), 1), (GateClosingPolicy("chain", 3), 3), (GateClosingPolicy("chain", 0), 1)],
)
def test_gate_closes_after_the_staging_steps_of_the_policy(policy: GateClosingPolicy, steps: int) -> None:
    events: list[Event] = [START]
    for number in range(1, steps + 1):
        assert not gate_closed(events, policy)
        events.append(staged(number))
    assert gate_closed(events, policy)
    assert not gate_closed([*events, START], policy)


@given(logs, policies)
def test_only_the_user_opens_it(events: list[Event], policy: GateClosingPolicy) -> None:
    gate = TurnStagingGate(policy)
    runs = decided = False
    for event in events:
        was_closed = gate.is_closed
        gate.apply(event)
        if was_closed and not gate.is_closed:
            assert isinstance(event, TurnStarted) or (decided if runs else isinstance(event, ProposalDecided))
            assert not runs or isinstance(event, TurnStarted | TurnEnded)
        decided = isinstance(event, ProposalDecided) or (
            decided and not isinstance(event, TurnStarted | ProposalStaged)
        )
        match event:
            case TurnStarted():
                runs = True
            case TurnEnded():
                runs = False
        if gate.is_closed and not was_closed:
            assert isinstance(event, ProposalStaged)


@given(logs, policies)
def test_the_fold_agrees_with_counting(events: list[Event], policy: GateClosingPolicy) -> None:
    count, runs, decided = 0, False, False
    for event in events:
        runs = (runs or isinstance(event, TurnStarted)) and not isinstance(event, TurnEnded)
        forgotten = isinstance(event, TurnStarted | ProposalStaged)
        decided = isinstance(event, ProposalDecided) or (decided and not forgotten)
        if isinstance(event, TurnStarted) or (decided and not runs):
            count, decided = 0, False
        count += isinstance(event, ProposalStaged)
    assert gate_closed(events, policy) is (count >= max(1, policy.chain_steps if policy.kind == "chain" else 1))


def test_gate_names_staged_proposals_and_follows_the_policy() -> None:
    gate = TurnStagingGate(GateClosingPolicy("chain", 3))
    for event in (START, staged(1), staged(2, "b.py")):
        gate.apply(event)
    assert (gate.staged_proposals, gate.staged_paths, gate.is_closed) == (("P1", "P2"), ("a.py", "b.py"), False)
    gate.policy = GateClosingPolicy()
    assert gate.is_closed


@pytest.mark.parametrize("decision", list(DecisionKind))
def test_a_verdict_opens_it_only_between_turns_and_another_decision_never(decision: DecisionKind) -> None:
    decided = ProposalDecided(proposal="P1", decision=decision)
    ended = TurnEnded(stopped="staged")
    keeps = decision not in (DecisionKind.APPROVED, DecisionKind.PARTLY_APPROVED, DecisionKind.DENIED)
    assert gate_closed([START, staged(1), decided], GateClosingPolicy())
    assert gate_closed([START, staged(1), decided, ended], GateClosingPolicy()) is keeps, (
        "the user has decided, if early"
    )
    assert gate_closed([START, decided, staged(1), ended], GateClosingPolicy()), "that was about something else"
    assert gate_closed([START, staged(1), ended, decided], GateClosingPolicy()) is keeps
