"""Chunks: content, reasoning and usage in every place and form that servers use."""

import threading
from typing import Any

import pytest

from app.llm.transport import Timeouts
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import (
    CallProgress,
    Payload,
    ReasoningDelta,
    ResponseCompleted,
    TextDelta,
    TokenUsage,
)
from tests.wire.driving import client_of, complete, opening, response, updates_of
from tests.wire.replies import DONE, STALL, Reply, call_delta, chunk, event, stream
from tests.wire.server import WireServer


def odd(**changes: Any) -> dict[str, Any]:
    return {**chunk(), **changes}


def choice(**fields: Any) -> dict[str, Any]:
    """A chunk with exactly this choice."""
    return odd(choices=[fields])


COUNTED = TokenUsage(prompt_tokens=9, completion_tokens=4)
HELLO = (chunk("Hel"), chunk("lo"), chunk(finish="stop"))


ANSWERS: dict[str, Any] = {
    "empty choices first": stream(odd(choices=[], prompt_filter_results=[{}]), *HELLO, DONE),
    "no delta": stream(HELLO[0], choice(index=0, content_filter_offsets={}), *HELLO[1:], DONE),
    "null delta": stream(HELLO[0], choice(index=0, delta=None), *HELLO[1:], DONE),
    "null choices": stream(odd(choices=None), *HELLO, DONE),
    "choices that are no list": stream(odd(choices="none"), *HELLO, DONE),
    "no choices": stream({"id": "x"}, *HELLO, DONE),
    "said to be no error": stream(odd(code=0, message="Success", detail=None), *HELLO, DONE),
    "null content": stream(chunk(None), chunk(content=None), *HELLO, DONE),
    "role": stream(*(chunk(text, role="assistant") for text in ("Hel", "lo", "")), HELLO[2], DONE),
    "content after finish": stream(chunk("Hel"), chunk("", finish="stop"), chunk("lo"), DONE),
    "duplicate finish": stream(*HELLO, chunk(finish="stop"), chunk(finish="stop"), DONE),
    "null index": stream(*(choice(index=None, delta={"content": text}) for text in ("Hel", "lo")), HELLO[2], DONE),
    "index as text": stream(*(choice(index="0", delta={"content": text}) for text in ("Hel", "lo")), HELLO[2], DONE),
    "finish reason in the delta": stream(*HELLO[:2], choice(index=0, delta={"finish_reason": "stop"}), DONE),
    "a second choice": stream(HELLO[0], choice(index=1, delta={"content": "other"}), *HELLO[1:], DONE),
    "message instead of delta": stream(
        *(choice(index=0, message={"role": "assistant", "content": text}) for text in ("Hel", "lo")), HELLO[2], DONE
    ),
    "everything again in the last chunk": stream(
        *HELLO[:2],
        choice(index=0, delta={}, message={"role": "assistant", "content": "Hello"}, finish_reason="stop"),
        DONE,
    ),
    "list content": stream(
        chunk([{"type": "text", "text": "Hel"}]), chunk([{"type": "text", "text": "lo"}]), HELLO[2], DONE
    ),
    "odd list content": stream(chunk(["Hel", "lo", 3, None, {"type": "image"}]), HELLO[2], DONE),
    "refusal": stream(chunk(refusal="Hello"), HELLO[2], DONE),
}


@pytest.mark.parametrize("reply", ANSWERS.values(), ids=list(ANSWERS))
async def test_the_answer_is_read_from_every_kind_of_chunk(server: WireServer, reply: Reply) -> None:
    server.script([reply])
    completed = await complete(server)
    assert (completed.text, completed.reasoning, completed.truncated) == ("Hello", "", False)


THOUGHTS: dict[str, Any] = {
    "reasoning_content": [chunk(reasoning="Hm, "), chunk(reasoning="yes"), chunk("Hi")],
    "reasoning, whole": [chunk(**{"reasoning": "Hm, yes"}), chunk("Hi")],
    "reasoning": [choice(index=0, delta={"reasoning": "Hm, yes"}), chunk("Hi")],
    "both names": [choice(index=0, delta={"reasoning": "Hm, yes", "reasoning_content": "Hm, yes"}), chunk("Hi")],
    "tag": [chunk("<think>Hm, yes</think>\n\nHi")],
    "tag, by character": [chunk(character) for character in "\n<think>Hm, yes</think>\n\nHi"],
    "long tag": [chunk("<thinking>Hm, yes</thin"), chunk("king>Hi")],
    "list content": [
        chunk([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm, "}]}]),
        chunk([{"type": "thinking", "thinking": "yes"}, {"type": "text", "text": "Hi"}]),
    ],
}


@pytest.mark.parametrize("parts", THOUGHTS.values(), ids=list(THOUGHTS))
async def test_reasoning_is_separated_from_the_answer(server: WireServer, parts: list[Any]) -> None:
    server.script([stream(*parts, chunk(finish="stop"), DONE)])
    async with client_of(server) as client:
        updates = await updates_of(client)
    completed = response(updates)
    assert (completed.text, completed.reasoning) == ("Hi", "Hm, yes")
    assert "".join(update.text for update in updates if isinstance(update, ReasoningDelta)) == "Hm, yes"


@pytest.mark.parametrize(
    "text",
    [
        "Use <think> tags.",
        "<thought>no</thought>",
        "a <think>b</think>",
        "<",
        "<thin",
        "1 < 2",
        " <think",
        "</thin",
        "\n",
    ],
)
async def test_text_that_only_looks_like_reasoning_stays_in_the_answer(server: WireServer, text: str) -> None:
    server.script([stream(*map(chunk, text), chunk(finish="stop"), DONE)])
    assert (await complete(server)).text == text


async def test_a_closing_tag_before_the_answer_is_no_part_of_it(server: WireServer) -> None:
    server.script([stream(*map(chunk, "\n</think>\n\nHi </think>"), chunk(finish="stop"), DONE)])
    assert (await complete(server)).text == "Hi </think>"


async def test_an_unclosed_thought_is_reasoning(server: WireServer) -> None:
    server.script([stream(chunk("<think>Hm</thi"), chunk(finish="length"), DONE)])
    completed = await complete(server)
    assert (completed.text, completed.reasoning, completed.truncated) == ("", "Hm</thi", True)


USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}


COUNTS: dict[str, tuple[Any, ...]] = {
    "chunk of its own": ([*HELLO, odd(choices=[], usage=USAGE)], COUNTED),
    "finish chunk": ([*HELLO[:2], chunk(finish="stop", usage=USAGE)], COUNTED),
    "every chunk": (
        [chunk("Hello", usage={**USAGE, "completion_tokens": 1}), chunk(finish="stop", usage=USAGE)],
        COUNTED,
    ),
    "null": ([*HELLO[:2], chunk(finish="stop", usage=None)], None),
    "zero": ([*HELLO, odd(choices=[], usage={"prompt_tokens": 0, "completion_tokens": 0})], None),
    "odd": ([chunk("Hello", usage=USAGE), chunk(finish="stop", usage={"prompt_tokens": "?"})], COUNTED),
    "x_groq": ([*HELLO[:2], odd(choices=[], x_groq={"usage": USAGE}), HELLO[2]], COUNTED),
    "choice": ([*HELLO[:2], choice(index=0, delta={}, finish_reason="stop", usage=USAGE)], COUNTED),
    "cached tokens and cost": (
        [*HELLO, odd(choices=[], usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 8}, "cost": 0.25})],
        TokenUsage(prompt_tokens=9, completion_tokens=4, cached_tokens=8, cost=0.25),
    ),
    "deepseek": (
        [*HELLO, odd(choices=[], usage={**USAGE, "prompt_cache_hit_tokens": 8})],
        TokenUsage(prompt_tokens=9, completion_tokens=4, cached_tokens=8),
    ),
    "never": (list(HELLO), None),
}


@pytest.mark.parametrize(("parts", "expected"), COUNTS.values(), ids=list(COUNTS))
async def test_usage_is_read_from_all_chunks(
    server: WireServer, parts: list[Any], expected: TokenUsage | None
) -> None:
    server.script([stream(*parts, DONE)])
    assert (await complete(server)).usage == expected


async def test_a_stream_that_stays_open_after_its_finish_reason_is_ended(server: WireServer) -> None:
    server.script([stream(*HELLO, STALL)])
    assert (await complete(server, timeouts=Timeouts(read=300, linger=0.1))).text == "Hello"
    assert len(server.requests) == 1


async def test_opaque_reasoning_is_kept_for_the_next_request(server: WireServer) -> None:
    def details(**part: Any) -> dict[str, Any]:
        return choice(index=0, delta={"reasoning_details": [part]})

    server.script(
        [
            stream(
                details(type="reasoning.text", index=0, text="Hm, "),
                details(type="reasoning.text", index=0, text="yes"),
                details(type="reasoning.text", index=0, signature="abc"),
                details(type="reasoning.encrypted", index=1, data="xyz"),
                *HELLO,
                DONE,
            )
        ]
    )
    completed = await complete(server)
    assert completed.extras == {
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "Hm, yes", "signature": "abc"},
            {"type": "reasoning.encrypted", "index": 1, "data": "xyz"},
        ]
    }


async def test_chunks_of_one_read_are_merged_in_order_and_payloads_built_on_a_thread(server: WireServer) -> None:
    made_on: list[threading.Thread] = []

    def build(profile: EndpointProfile) -> Payload:
        made_on.append(threading.current_thread())
        return opening(profile)

    thoughts, words, letters = [chunk(reasoning="hm ")] * 300, [chunk("word ")] * 300, [*'{"path": "a.py"}']
    begun = chunk(calls=[call_delta(0, call_id="c1", name="edit_file", arguments="")])
    called = [begun, *(chunk(calls=[call_delta(0, arguments=letter)]) for letter in letters)]
    # In one go: of what a server sends piece by piece, a client on an idle machine has read each before the next.
    sent = b"".join(map(event, [*thoughts, *words, *called, chunk(finish="tool_calls")]))
    server.script([stream(sent, DONE)])
    async with client_of(server) as client:
        updates = await updates_of(client, build)
    assert response(updates).text == "word " * 300
    assert len(updates) < 30
    kinds = [type(update) for update in updates]
    assert kinds == sorted(kinds, key=[ReasoningDelta, TextDelta, CallProgress, ResponseCompleted].index)
    assert [update for update in updates if isinstance(update, CallProgress)][-1].characters == len(letters)
    assert made_on and threading.current_thread() not in made_on
