"""The wires by themselves: what is written for a turn, and what single events of a response add."""

from typing import Any

import pytest

from app.llm.values.profile import Profile
from app.llm.wires.wire import CallWithResult, Item, ModelTurn, OpaqueEcho, SystemText, UserText
from app.llm.wires.wire_registry import WIRES

CALL = CallWithResult("c1", "read_file", "{}", "ok")


def finish(added: Any) -> str:
    """The reason to stop that a chunk names."""
    return str(added["choices"][0]["finish_reason"])


def delta(added: Any) -> dict[str, Any]:
    """What a chunk adds."""
    return dict(added["choices"][0]["delta"])


def test_a_text_alone_is_written_as_one() -> None:
    messages, _ = WIRES["chat"].written([UserText("Hello")], Profile())
    assert messages == [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("calls", [(), (CALL,)], ids=["answer", "call"])
def test_reasoning_that_is_not_wanted_back_is_not_sent(calls: tuple[CallWithResult, ...]) -> None:
    echo = OpaqueEcho(same_model=True, reasoning="Hm.", extras={"reasoning_details": [{"text": "Hm."}]})
    turn = ModelTurn("Hi.", calls, echo)
    for wanted in ("never", "same_model"):
        messages, _ = WIRES["chat"].written([UserText("x"), turn], Profile.model_validate({"reasoning_echo": wanted}))
        assert ("reasoning_details" in messages[1]) == (wanted != "never")


def test_what_the_program_says_in_mid_conversation_stays_there() -> None:
    items: list[Item] = [
        SystemText("You are signoff."),
        UserText("x"),
        ModelTurn("", (CALL,), OpaqueEcho()),
        SystemText("Stop here."),
    ]
    written = WIRES["anthropic"].written(items, Profile(wire="anthropic"))
    assert "Stop here." not in str(written.system) and "You are signoff." in str(written.system)
    assert "Stop here." in str(written.messages[-1])


def test_an_empty_text_comes_before_nothing() -> None:
    decoder = WIRES["anthropic"].decoder()
    for block in ({"type": "text", "text": ""}, {"type": "text", "text": None}):
        assert decoder.read({"type": "content_block_start", "content_block": block}) == {}
    decoder.read({"type": "content_block_start", "content_block": {"type": "thinking", "signature": "s"}})
    added = delta(decoder.read({"type": "content_block_stop"}))
    assert [entry["at"] for entry in added["opaque_blocks"]] == [0]


@pytest.mark.parametrize("piece", ["", None, 7, {}])
def test_a_piece_that_is_none_leaves_the_text_to_come(piece: Any) -> None:
    decoder = WIRES["responses"].decoder()
    assert decoder.read({"type": "response.output_text.delta", "output_index": 0, "delta": piece}) == {}
    item = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
    whole = decoder.read({"type": "response.output_item.done", "output_index": 0, "item": item})
    assert delta(whole) == {"content": "Hi."}


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "content_filter"),
        ({}, "length"),
        (None, "length"),
    ],
)
def test_why_a_response_is_incomplete_is_told(details: Any, reason: str) -> None:
    response = {"status": "incomplete", "incomplete_details": details}
    assert finish(WIRES["responses"].decoder().read({"type": "response.incomplete", "response": response})) == reason
