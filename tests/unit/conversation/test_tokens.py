"""Estimates follow what the server counts."""

import pytest

from app.conversation.events import AssistantMessage, RequestSent
from app.conversation.payload.token_count import TokenMeter, text_tokens
from app.llm.values.types import Payload, Usage

PAYLOAD = Payload([{"role": "user", "content": "word " * 1000}], [])


def counted(meter: TokenMeter, prompt_tokens: int) -> None:
    meter.apply(RequestSent(estimated_tokens=meter.count_tokens(PAYLOAD)))
    meter.apply(AssistantMessage(text="x", usage=Usage(prompt_tokens=prompt_tokens)))


def test_the_estimate_is_calibrated_and_stays_so_over_many_requests() -> None:
    meter = TokenMeter()
    for _ in range(5):
        counted(meter, 2_000)
        assert meter.count_tokens(PAYLOAD) == pytest.approx(2_000, rel=0.01)
    counted(meter, 1_000)
    assert meter.count_tokens(PAYLOAD) == pytest.approx(1_000, rel=0.01)


def test_a_count_that_cannot_be_true_is_not_believed() -> None:
    meter = TokenMeter()
    counted(meter, 10)
    assert meter.count_tokens(PAYLOAD) >= TokenMeter().count_tokens(PAYLOAD) / 2 - 1


def test_a_missing_count_changes_nothing() -> None:
    meter = TokenMeter()
    meter.apply(RequestSent(estimated_tokens=100))
    meter.apply(AssistantMessage(text="x"))
    assert meter.factor == 1.0


def test_tools_and_calls_count_and_wide_characters_weigh_more() -> None:
    with_tools = Payload(PAYLOAD.messages, [{"type": "function", "function": {"name": "x" * 400}}])
    assert TokenMeter().count_tokens(with_tools) > TokenMeter().count_tokens(PAYLOAD) + 100
    named = Payload([{**PAYLOAD.messages[0], "role": "r" * 400}], [])
    assert TokenMeter().count_tokens(named) == TokenMeter().count_tokens(PAYLOAD), (
        "who speaks is in what each message costs"
    )
    assert text_tokens("漢" * 100) > 2 * text_tokens("a" * 100)
