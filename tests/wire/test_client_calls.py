"""Tool calls: whatever deltas a server makes of them, each arrives once, with its arguments or with a complaint."""

import json
from typing import Any

import pytest

from app.conversation.payload.tool_calls import malformed_call_reason
from app.llm.values.requests_and_updates import CallProgress
from tests.wire.driving import client_of, complete, response, updates_of
from tests.wire.replies import DONE, Call, call_delta, chunk, stream
from tests.wire.server import WireServer

A, B = '{"path": "a"}', '{"path": "b"}'


def deltas(*groups: Any) -> tuple[Any, ...]:
    """A stream of chunks, each with these elements of `tool_calls`."""
    return (
        *(chunk(calls=group if isinstance(group, list) else [group]) for group in groups),
        chunk(finish="tool_calls"),
        DONE,
    )


READ_A = ("1", "read_file", {"path": "a"})
READ_B = ("2", "read_file", {"path": "b"})
BOTH = [READ_A, READ_B]
SAME_ID = [READ_A, ("1", *READ_B[1:])]
WITHOUT_IDS = [("", *READ_A[1:]), ("", *READ_B[1:])]


def r(
    index: Any, call_id: Any = None, arguments: Any = None, name: Any = "read_file", **extra: Any
) -> dict[str, Any]:
    """A delta that names the tool."""
    return call_delta(index, call_id=call_id, name=name, arguments=arguments, **extra)


def d(index: Any, arguments: Any) -> dict[str, Any]:
    return call_delta(index, arguments=arguments)


CALLS: dict[str, tuple[tuple[Any, ...], list[Any]]] = {
    "ordinary": (deltas(r(0, "1", ""), d(0, A[:5]), d(0, A[5:])), [READ_A]),
    "whole call in one delta": (deltas(r(0, "1", A)), [READ_A]),
    "two calls in one delta": (deltas([r(0, "1", A), r(1, "2", B)]), BOTH),
    "interleaved": (deltas(r(0, "1", ""), r(1, "2", ""), d(1, B[:4]), d(0, A[:4]), [d(0, A[4:]), d(1, B[4:])]), BOTH),
    "no index": (deltas(r(None, "1", A), r(None, "2", B)), BOTH),
    "null index": (deltas({"index": None, **r(None, "1", A[:3])}, {"index": None, **d(None, A[3:])}), [READ_A]),
    "neither index nor id": (deltas(r(None, None, A), r(None, None, B)), WITHOUT_IDS),
    "index as text": (deltas(r("0", "1", ""), r("1", "2", ""), d("0", A), d("1", B)), BOTH),
    "an object instead of a list": ((chunk(tool_calls=r(0, "1", A)), chunk(finish="tool_calls")), [READ_A]),
    "index from 1": (deltas(r(1, "1", A[:2]), d(1, A[2:]), r(2, "2", B)), BOTH),
    "two calls, both index 0": (deltas(r(0, "1", A), r(0, "2", B[:3]), d(0, B[3:])), BOTH),
    "two calls, both index 0, no ids": (deltas(r(0, None, A), r(0, None, B)), WITHOUT_IDS),
    "same index twice in one chunk": (deltas([r(0, "1", ""), d(0, A[:4]), d(0, A[4:])]), [READ_A]),
    "empty id and name": (deltas(r(0, "1", A[:4]), {**r(0, None, A[4:], ""), "id": ""}), [READ_A]),
    "null id and name": (
        deltas(r(0, "1", A[:4]), {"index": 0, "id": None, "function": {"name": None, "arguments": A[4:]}}),
        [READ_A],
    ),
    "id and name repeated": (deltas(*(r(0, "1", part) for part in (A[:4], A[4:], ""))), [READ_A]),
    "name repeated without id": (deltas(*(r(0, None, part) for part in (A[:4], A[4:], ""))), WITHOUT_IDS[:1]),
    "name in pieces": (deltas(r(0, "1", None, "read_"), r(0, None, "", "file"), d(0, A)), [READ_A]),
    "name growing": (deltas(r(0, "1", None, "read"), r(0, None, ""), d(0, A)), [READ_A]),
    "name after arguments": (deltas(r(0, "1", A[:4], None), r(0, None, A[4:])), [READ_A]),
    "id after arguments": (deltas(r(0, None, A[:4]), r(0, "1", A[4:], None)), [READ_A]),
    "in the order of arrival": (deltas(r(5, "2", B), r(3, "1", A)), [READ_B, READ_A]),
    "one id for two calls": (deltas(r(0, "1", A), r(1, "1", B)), SAME_ID),
    "one id for two calls without index": (deltas(r(None, "1", A), r(None, "1", B)), SAME_ID),
    "one id for two calls without index, in pieces": (
        deltas(r(None, "1", A[:4]), r(None, "1", A[4:]), r(None, "1", B)),
        SAME_ID,
    ),
    "one call said twice": (deltas(r(None, "1", A), r(None, "1", A)), [READ_A]),
    "a known id wins over the index": (deltas(r(0, "1", A[:4]), r(7, "1", A[4:], None)), [READ_A]),
    "an id only from the second call on": (deltas(r(0, None, A), r(0, "2", B)), [WITHOUT_IDS[0], READ_B]),
    "a new id by itself": (deltas(r(0, "1", A), r(0, "2", None, None), r(0, None, B)), BOTH),
    "junk after a whole name": (deltas(r(0, "1"), r(0, None, None, "()"), d(0, A)), [READ_A]),
    "dict": (deltas(r(0, "1", {"path": "a"})), [READ_A]),
    "encoded twice": (deltas(r(0, "1", json.dumps(A))), [READ_A]),
    "empty": (deltas(r(0, "1", "")), [("1", "read_file", {})]),
    "no arguments": (deltas(r(0, "1")), [("1", "read_file", {})]),
    "null": (deltas(r(0, "1", "null")), [("1", "read_file", {})]),
    "line break in a string": (deltas(r(0, "1", '{"path": "a\nb"}')), [("1", "read_file", {"path": "a\nb"})]),
    "unknown tool": (deltas(r(0, "1", "{}", "fly")), [("1", "fly", {})]),
    "junk": (deltas({}, r(0, None, None, None), None, "x", r(0, "1", A)), [READ_A]),
    "long id": (deltas(r(0, "x" * 450, A)), [("x" * 450, *READ_A[1:])]),
    "function_call": (
        (chunk(function_call={"name": "read_file"}), chunk(function_call={"arguments": A}), chunk(finish="stop")),
        WITHOUT_IDS[:1],
    ),
}


@pytest.mark.parametrize("kind", CALLS)
async def test_complete_calls_arrive_once_with_their_arguments(server: WireServer, kind: str) -> None:
    parts, expected = CALLS[kind]
    server.script([stream(*parts)])
    completed = await complete(server)
    assert [(call.wire_id, call.name, call.arguments) for call in completed.calls] == expected
    assert all(not call.invalid for call in completed.calls)
    assert not completed.truncated
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ('{"path": "a"}}', "'}' follows"),
        ('{"path": "a"} and more', "ends at character 14, and 'and more' follows"),
        ('{"path": "a', "break off"),
        ('{"path": ', "break off"),
        ('{"path" "a"}', "Expecting ':' delimiter"),
        ("[1]", "must be a JSON object, not an array"),
        ("7", "must be a JSON object, not a number"),
        ('"hello"', "not valid JSON"),
        ("[" * 100_000, "not usable JSON"),
        ('{"path": "\\ud800"}', "half of a surrogate pair"),
    ],
)
async def test_invalid_arguments_are_reported_to_the_model(server: WireServer, raw: str, complaint: str) -> None:
    server.turn(calls=[Call("read_file", raw), Call("read_file", A)])
    completed = await complete(server)
    bad, good = completed.calls
    assert bad.arguments is None and complaint in bad.invalid
    assert bad.raw_arguments == raw
    reason = malformed_call_reason(bad)
    assert reason.startswith("Not run. The ") and ".." not in reason
    assert good.arguments == {"path": "a"} and not good.invalid


async def test_a_call_without_a_name_is_invalid_and_a_signature_stays_with_its_call(server: WireServer) -> None:
    signed = {"extra_content": {"google": {"thought_signature": "s1"}}}
    server.script([stream(*deltas(r(0, "1", A, None))), stream(*deltas(r(None, "1", A, **signed)))])
    (call,) = (await complete(server)).calls
    assert call.arguments is None and "no tool name" in call.invalid
    (call,) = (await complete(server)).calls
    assert call.extras == signed


async def test_progress_counts_the_characters_of_each_call(server: WireServer) -> None:
    server.turn(calls=[("read_file", {"path": "a"}), ("edit_file", {"path": "b"})])
    async with client_of(server) as client:
        updates = await updates_of(client)
    last = {update.index: update for update in updates if isinstance(update, CallProgress)}
    assert [(last[index].name, last[index].characters) for index in sorted(last)] == [
        ("read_file", 13),
        ("edit_file", 13),
    ]


LEAK = '<tool_call>\n{"name": "edit_file", "arguments": {}}\n</tool_call>'
FENCED = '```json\n{"name": "edit_file", "arguments": {}}\n```'


@pytest.mark.parametrize("leak", [LEAK, FENCED])
async def test_text_that_looks_like_a_call_is_text(server: WireServer, leak: str) -> None:
    server.say(f"I will. {leak}", pieces=40)
    completed = await complete(server)
    assert completed.text == f"I will. {leak}" and completed.calls == ()


async def test_a_closing_answer_hides_calls_written_as_text_and_nothing_else(server: WireServer) -> None:
    async with client_of(server) as client:
        for leak in (
            LEAK,
            "<function=edit_file>{}</function>",
            '[TOOL_CALLS][{"name": "edit_file"}]',
            "<\uff5ctool▁calls▁begin\uff5c><\uff5ctool▁call▁begin\uff5c>edit_file",
            '<\uff5cDSML\uff5ctool_calls>\n<\uff5cDSML\uff5cinvoke name="edit_file">',
            '<minimax:tool_call>\n<invoke name="edit_file">',
        ):
            server.say(f"1 < 2. {leak}", pieces=60)
            completed = response(await updates_of(client, closing=True))
            assert completed.text == "1 < 2. " and completed.calls == (), leak
        server.say("a <tool", pieces=20)
        assert response(await updates_of(client, closing=True)).text == "a <tool"
