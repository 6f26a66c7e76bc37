"""Tool calls: whatever deltas a server makes of them, each arrives once, with its arguments or with a complaint."""

import json
from typing import Any

import pytest

from app.llm.values.requests_and_updates import CallProgress, ResponseCompleted
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


def seen(completed: ResponseCompleted) -> list[tuple[str, str, Any]]:
    """(id, name, arguments) of every call."""
    return [(call.wire_id, call.name, call.arguments) for call in completed.calls]


READ_A = ("1", "read_file", {"path": "a"})
READ_B = ("2", "read_file", {"path": "b"})
d = call_delta


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(
            deltas(d(0, call_id="1", name="read_file", arguments=""), d(0, arguments=A[:5]), d(0, arguments=A[5:])),
            [READ_A],
            id="ordinary",
        ),
        pytest.param(
            deltas(d(0, call_id="1", name="read_file", arguments=A)), [READ_A], id="whole call in one delta"
        ),
        pytest.param(
            deltas(
                [d(0, call_id="1", name="read_file", arguments=A), d(1, call_id="2", name="read_file", arguments=B)]
            ),
            [READ_A, READ_B],
            id="two calls in one delta",
        ),
        pytest.param(
            deltas(
                d(0, call_id="1", name="read_file", arguments=""),
                d(1, call_id="2", name="read_file", arguments=""),
                d(1, arguments=B[:4]),
                d(0, arguments=A[:4]),
                [d(0, arguments=A[4:]), d(1, arguments=B[4:])],
            ),
            [READ_A, READ_B],
            id="interleaved",
        ),
        pytest.param(
            deltas(
                d(None, call_id="1", name="read_file", arguments=A),
                d(None, call_id="2", name="read_file", arguments=B),
            ),
            [READ_A, READ_B],
            id="no index",
        ),
        pytest.param(
            deltas(
                {"index": None, **d(None, call_id="1", name="read_file", arguments=A[:3])},
                {"index": None, **d(None, arguments=A[3:])},
            ),
            [READ_A],
            id="null index",
        ),
        pytest.param(
            deltas(d(None, name="read_file", arguments=A), d(None, name="read_file", arguments=B)),
            [("", *READ_A[1:]), ("", *READ_B[1:])],
            id="neither index nor id",
        ),
        pytest.param(
            deltas(
                d(1, call_id="1", name="read_file", arguments=A[:2]),
                d(1, arguments=A[2:]),
                d(2, call_id="2", name="read_file", arguments=B),
            ),
            [READ_A, READ_B],
            id="index from 1",
        ),
        pytest.param(
            deltas(
                d(0, call_id="1", name="read_file", arguments=A),
                d(0, call_id="2", name="read_file", arguments=B[:3]),
                d(0, arguments=B[3:]),
            ),
            [READ_A, READ_B],
            id="two calls, both index 0",
        ),
        pytest.param(
            deltas(d(0, name="read_file", arguments=A), d(0, name="read_file", arguments=B)),
            [("", *READ_A[1:]), ("", *READ_B[1:])],
            id="two calls, both index 0, no ids",
        ),
        pytest.param(
            deltas(
                [
                    d(0, call_id="1", name="read_file", arguments=""),
                    d(0, arguments=A[:4]),
                    d(0, arguments=A[4:]),
                ]
            ),
            [READ_A],
            id="same index twice in one chunk",
        ),
        pytest.param(
            deltas(
                d(0, call_id="1", name="read_file", arguments=A[:4]),
                {**d(0, name="", arguments=A[4:]), "id": ""},
            ),
            [READ_A],
            id="empty id and name",
        ),
        pytest.param(
            deltas(
                d(0, call_id="1", name="read_file", arguments=A[:4]),
                {"index": 0, "id": None, "function": {"name": None, "arguments": A[4:]}},
            ),
            [READ_A],
            id="null id and name",
        ),
        pytest.param(
            deltas(*(d(0, call_id="1", name="read_file", arguments=part) for part in (A[:4], A[4:], ""))),
            [READ_A],
            id="id and name repeated",
        ),
        pytest.param(
            deltas(*(d(0, name="read_file", arguments=part) for part in (A[:4], A[4:], ""))),
            [("", *READ_A[1:])],
            id="name repeated without id",
        ),
        pytest.param(
            deltas(d(0, call_id="1", name="read_"), d(0, name="file", arguments=""), d(0, arguments=A)),
            [READ_A],
            id="name in pieces",
        ),
        pytest.param(
            deltas(d(0, call_id="1", name="read"), d(0, name="read_file", arguments=""), d(0, arguments=A)),
            [READ_A],
            id="name growing",
        ),
        pytest.param(
            deltas(d(0, call_id="1", arguments=A[:4]), d(0, name="read_file", arguments=A[4:])),
            [READ_A],
            id="name after arguments",
        ),
        pytest.param(
            deltas(d(0, name="read_file", arguments=A[:4]), d(0, call_id="1", arguments=A[4:])),
            [READ_A],
            id="id after arguments",
        ),
        pytest.param(
            deltas(
                d(5, call_id="2", name="read_file", arguments=B), d(3, call_id="1", name="read_file", arguments=A)
            ),
            [READ_B, READ_A],
            id="in the order of arrival",
        ),
        pytest.param(
            deltas(
                d(0, call_id="1", name="read_file", arguments=A), d(1, call_id="1", name="read_file", arguments=B)
            ),
            [READ_A, ("1", *READ_B[1:])],
            id="one id for two calls",
        ),
        pytest.param(
            deltas(
                d(None, call_id="1", name="read_file", arguments=A),
                d(None, call_id="1", name="read_file", arguments=B),
            ),
            [READ_A, ("1", *READ_B[1:])],
            id="one id for two calls without index",
        ),
        pytest.param(
            deltas(
                d(None, call_id="1", name="read_file", arguments=A[:4]),
                d(None, call_id="1", name="read_file", arguments=A[4:]),
                d(None, call_id="1", name="read_file", arguments=B),
            ),
            [READ_A, ("1", *READ_B[1:])],
            id="one id for two calls without index, in pieces",
        ),
        pytest.param(
            deltas(
                d(None, call_id="1", name="read_file", arguments=A),
                d(None, call_id="1", name="read_file", arguments=A),
            ),
            [READ_A],
            id="one call said twice",
        ),
        pytest.param(
            deltas(d(0, call_id="1", name="read_file", arguments=A[:4]), d(7, call_id="1", arguments=A[4:])),
            [READ_A],
            id="a known id wins over the index",
        ),
        pytest.param(
            deltas(d(0, name="read_file", arguments=A), d(0, call_id="2", name="read_file", arguments=B)),
            [("", *READ_A[1:]), READ_B],
            id="an id only from the second call on",
        ),
        pytest.param(
            deltas(
                d(0, call_id="1", name="read_file", arguments=A),
                d(0, call_id="2"),
                d(0, name="read_file", arguments=B),
            ),
            [READ_A, READ_B],
            id="a new id by itself",
        ),
        pytest.param(
            deltas(d(0, call_id="1", name="read_file"), d(0, name="()"), d(0, arguments=A)),
            [READ_A],
            id="junk after a whole name",
        ),
        pytest.param(deltas(d(0, call_id="1", name="read_file", arguments={"path": "a"})), [READ_A], id="dict"),
        pytest.param(
            deltas(d(0, call_id="1", name="read_file", arguments=json.dumps(A))), [READ_A], id="encoded twice"
        ),
        pytest.param(deltas(d(0, call_id="1", name="read_file", arguments="")), [("1", "read_file", {})], id="empty"),
        pytest.param(deltas(d(0, call_id="1", name="read_file")), [("1", "read_file", {})], id="no arguments"),
        pytest.param(
            deltas(d(0, call_id="1", name="read_file", arguments="null")), [("1", "read_file", {})], id="null"
        ),
        pytest.param(
            deltas(d(0, call_id="1", name="read_file", arguments='{"path": "a\nb"}')),
            [("1", "read_file", {"path": "a\nb"})],
            id="line break in a string",
        ),
        pytest.param(deltas(d(0, call_id="1", name="fly", arguments="{}")), [("1", "fly", {})], id="unknown tool"),
        pytest.param(
            deltas({}, d(0), None, "x", d(0, call_id="1", name="read_file", arguments=A)), [READ_A], id="junk"
        ),
        pytest.param(
            deltas(d(0, call_id="x" * 450, name="read_file", arguments=A)), [("x" * 450, *READ_A[1:])], id="long id"
        ),
        pytest.param(
            (chunk(function_call={"name": "read_file"}), chunk(function_call={"arguments": A}), chunk(finish="stop")),
            [("", *READ_A[1:])],
            id="function_call",
        ),
    ],
)
async def test_complete_calls_arrive_once_with_their_arguments(
    server: WireServer, parts: tuple[Any, ...], expected: list[Any]
) -> None:
    server.script([stream(*parts)])
    completed = await complete(server)
    assert seen(completed) == expected
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
    assert good.arguments == {"path": "a"} and not good.invalid


async def test_a_call_without_a_name_is_invalid(server: WireServer) -> None:
    server.script([stream(*deltas(d(0, call_id="1", arguments=A)))])
    (call,) = (await complete(server)).calls
    assert call.arguments is None and "no tool name" in call.invalid


async def test_progress_counts_the_characters_of_each_call(server: WireServer) -> None:
    server.turn(calls=[("read_file", {"path": "a"}), ("edit_file", {"path": "b"})])
    async with client_of(server) as client:
        updates = await updates_of(client)
    last = {update.index: update for update in updates if isinstance(update, CallProgress)}
    assert [(last[index].name, last[index].characters) for index in sorted(last)] == [
        ("read_file", 13),
        ("edit_file", 13),
    ]


async def test_a_thought_signature_stays_with_its_call(server: WireServer) -> None:
    signed = {"extra_content": {"google": {"thought_signature": "s1"}}}
    server.script([stream(*deltas(d(None, call_id="1", name="read_file", arguments=A, **signed)))])
    (call,) = (await complete(server)).calls
    assert call.extras == signed


LEAK = '<tool_call>\n{"name": "edit_file", "arguments": {}}\n</tool_call>'
FENCED = '```json\n{"name": "edit_file", "arguments": {}}\n```'


@pytest.mark.parametrize("leak", [LEAK, FENCED])
async def test_text_that_looks_like_a_call_is_text(server: WireServer, leak: str) -> None:
    server.say(f"I will. {leak}", pieces=40)
    completed = await complete(server)
    assert completed.text == f"I will. {leak}" and completed.calls == ()


@pytest.mark.parametrize("leak", [LEAK, "<function=edit_file>{}</function>", '[TOOL_CALLS][{"name": "edit_file"}]'])
async def test_a_closing_answer_hides_calls_written_as_text(server: WireServer, leak: str) -> None:
    server.say(f"1 < 2. {leak}", pieces=60)
    async with client_of(server) as client:
        completed = response(await updates_of(client, closing=True))
    assert completed.text == "1 < 2. " and completed.calls == ()


async def test_a_closing_answer_keeps_text_that_only_begins_like_a_call(server: WireServer) -> None:
    server.say("a <tool", pieces=20)
    async with client_of(server) as client:
        assert response(await updates_of(client, closing=True)).text == "a <tool"
