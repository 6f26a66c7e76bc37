"""Assembly: how a server cuts a response does not change it, and nothing it sends breaks it."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.response import bounded_stream
from app.llm.response.bounded_stream import ResponseTooLarge
from app.llm.response.response_assembly import DeltaCoalescer, ResponseAssembly
from app.llm.values.requests_and_updates import ReasoningDelta, ResponseCompleted, TextDelta

TEXT = st.text(st.sampled_from("ab <>/think\n🎉é[]_TOL"), max_size=60)


def pieces(draw: Any, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, max(0, len(text))), max_size=6)))
    edges = [0, *cuts, len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def assembled(chunks: list[dict[str, Any]], *, closing: bool = False) -> tuple[ResponseCompleted, str, str]:
    """The response, and what was given out on the way."""
    assembly = ResponseAssembly(["read_file", "edit_file"], closing=closing)
    updates: list[Any] = []
    deltas = DeltaCoalescer()
    for one in chunks:
        assembly.feed(one, deltas)
        updates += deltas.pop_all()
    updates += assembly.flush()
    text = "".join(update.text for update in updates if isinstance(update, TextDelta))
    reasoning = "".join(update.text for update in updates if isinstance(update, ReasoningDelta))
    return assembly.complete(ended=True), text, reasoning


@given(st.data(), TEXT, st.booleans())
def test_the_cuts_of_a_text_do_not_matter(data: st.DataObject, text: str, closing: bool) -> None:
    whole, _, _ = assembled([chunk(content=text)], closing=closing)
    cut, given_text, given_reasoning = assembled(
        [chunk(content=piece) for piece in pieces(data.draw, text)], closing=closing
    )
    assert (cut.text, cut.reasoning) == (whole.text, whole.reasoning)
    assert (given_text, given_reasoning) == (cut.text, cut.reasoning)
    if "<" not in text and "[" not in text:
        assert cut.text == text


@given(st.data(), TEXT.filter(lambda text: "</think>" not in text), TEXT.filter(lambda text: text[:1] != "\n"))
def test_a_thought_is_always_told_from_the_answer(data: st.DataObject, thought: str, answer: str) -> None:
    text = f"<think>{thought}</think>\n\n{answer}"
    cut, _, _ = assembled([chunk(content=piece) for piece in pieces(data.draw, text)])
    assert (cut.reasoning, cut.text) == (thought, answer)


@given(
    st.data(),
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=10), max_size=3), min_size=1, max_size=4),
    st.sampled_from(["index", "id", "both", "reused index"]),
)
def test_calls_survive_any_numbering(data: st.DataObject, arguments: list[dict[str, str]], numbering: str) -> None:
    chunks = []
    for number, values in enumerate(arguments):
        raw = json.dumps(values)
        for part, piece in enumerate(pieces(data.draw, raw)):
            delta: dict[str, Any] = {"function": {"arguments": piece}}
            if part == 0:
                delta["function"]["name"] = "edit_file"
            if numbering in ("index", "both"):
                delta["index"] = number
            if numbering in ("id", "both") or (numbering == "reused index" and part == 0):
                delta["id"] = f"call_{number}"
            if numbering == "reused index":
                delta["index"] = 0
            chunks.append(chunk(tool_calls=[delta]))
    completed, _, _ = assembled(chunks)
    assert [call.arguments for call in completed.calls] == arguments
    assert {call.name for call in completed.calls} == {"edit_file"}
    assert not any(call.invalid for call in completed.calls)


A_CALL = {"function": {"name": "edit_file"}}


@pytest.mark.parametrize(
    "pieces",
    [
        [{"index": 0, "id": "1", **A_CALL}, {"function": {"arguments": '{"a": 1}'}}],
        [{"function": {"arguments": '{"a": '}}, A_CALL, {"function": {"arguments": "1}"}}],
        [{"function": {"arguments": '{"a": 1}'}}, A_CALL],
        [{"function": {"name": "edit_file", "arguments": '{"a": 1}'}}, {"function": {"arguments": "\n"}}],
        [{"function": {"name": "edit"}}, {"function": {"name": "_file"}}, {"function": {"arguments": '{"a": 1}'}}],
    ],
)
def test_call_piece_without_an_index_continues_the_current_call(pieces: list[dict[str, Any]]) -> None:
    completed, _, _ = assembled([chunk(tool_calls=[piece]) for piece in pieces])
    assert [(call.name, call.arguments) for call in completed.calls] == [("edit_file", {"a": 1})]


def test_a_complete_message_is_read_in_all_its_forms_and_appended() -> None:
    said = [{"choices": [{"message": {"content": text}}]} for text in ("ha", "haha", "!")]
    assert assembled(said)[0].text == "hahaha!"
    parts = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hello"}]
    whole = {"object": "chat.completion", "choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    completed, _, _ = assembled([whole])
    assert (completed.text, completed.reasoning) == ("Hello", "Hm.")


@pytest.mark.parametrize("said", [{"x_groq": {"id": "req_1"}}, {"usage": "none", "x_groq": 3}, {"usage": [7]}])
def test_usage_without_tokens_is_no_usage(said: dict[str, Any]) -> None:
    assert assembled([{**chunk(content="Hi"), **said}])[0].usage is None


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83c", "\udf89b"], "a🎉b"),
        (["\ud83c", "\udf89"], "🎉"),
        (["\ud83d\n"], "\ufffd\n"),
        (["\ud83d"], "\ufffd"),
    ],
)
def test_a_split_surrogate_pair_is_joined(pieces: list[str], text: str) -> None:
    assert assembled([chunk(content=piece) for piece in pieces])[0].text == text


KEYS = (
    *("choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "id", "index"),
    *("finish_reason", "reasoning", "prompt_tokens", "model", "text", "thinking", "type", "reasoning_details"),
    *("extra_content", "refusal", "function_call", "x_groq", "cost", "usage"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.lists(
        st.fixed_dictionaries({"choices": st.lists(JSON, max_size=2)})
        | st.dictionaries(st.text(), JSON)
        | JSON.map(lambda value: {"choices": [{"delta": {"tool_calls": [value], "content": value}}]})
    )
)
def test_no_chunk_is_too_strange(chunks: list[dict[str, Any]]) -> None:
    completed, text, reasoning = assembled(chunks)
    assert (completed.text, completed.reasoning) == (text, reasoning)
    completed.text.encode()
    json.dumps([call.arguments for call in completed.calls])
    assert all((call.arguments is None) == bool(call.invalid) for call in completed.calls)


def test_a_response_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_stream, "MAX_RESPONSE_CHARACTERS", 1_000)
    monkeypatch.setattr(bounded_stream, "MAX_CALL_CHARACTERS", 100)
    monkeypatch.setattr(bounded_stream, "MAX_CALLS", 10)
    endless: dict[str, Callable[[int], dict[str, Any]]] = {
        "text": lambda _: {"content": "x"},
        "reasoning": lambda _: {"reasoning": "x"},
        "arguments": lambda _: {"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]},
        "a name": lambda _: {"tool_calls": [{"index": 0, "function": {"name": "xy"}}]},
        "calls": lambda number: {"tool_calls": [{"id": str(number)}]},
        "extras of a call": lambda _: {"tool_calls": [{"index": 0, "extra_content": {"a": "x"}}]},
        "extras": lambda _: {"extra_content": {"a": "x"}},
        "opaque reasoning": lambda _: {"reasoning_details": [{"type": "t", "text": "x"}]},
        "opaque parts": lambda number: {"thinking_blocks": [{"index": number}]},
    }
    for what, delta in endless.items():
        assembly = ResponseAssembly()
        with pytest.raises(ResponseTooLarge):
            for number in range(2_000):
                assembly.feed(chunk(**delta(number)), DeltaCoalescer())
            raise AssertionError(f"{what} go on without end")
