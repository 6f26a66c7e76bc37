"""Whatever a server sends, and however much, on any wire: the request ends as a response or a failure, and soon."""

import asyncio
import copy
import gzip
import json
import random
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversation.events import EVENT_JSON, AssistantMessage, ToolCall
from app.conversation.log import EventLog
from app.llm.endpoint_doctor import DoctorCheckResult, EndpointDiagnosis, examine_endpoint
from app.llm.failures.failures import MAX_TEXT_CHARACTERS
from app.llm.failures.request_errors import FailureKind, RequestError, RetryPolicy
from app.llm.response import bounded_stream
from app.llm.response.bounded_stream import MAX_DEPTH
from app.llm.transport import Timeouts
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, ResponseCompleted
from app.llm.wires import chat
from tests.examples import scale_examples
from tests.unit.conversation.test_log import Store
from tests.wire.driving import FAST, client_of, complete, failure_of, opening, response, updates_of
from tests.wire.replies import CUT, DONE, STALL, Call, Reply, Turn, call_delta, chunk, document, error, event, stream
from tests.wire.server import WireServer
from tests.wire.vendors import VENDORS

PATHS = {"chat": Turn.reply, **{name: vendor.reply for name, vendor in VENDORS.items()}}
TURN = Turn("Hello.", calls=(Call("edit_file", {"path": "a"}), Call("read_file", {})), reasoning="So.", pieces=2)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**20) | st.just(10**400) | st.floats() | st.text(max_size=3)
    | st.sampled_from(["text", "tool_use", "thinking", "function_call", "message", "reasoning", "error", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a value something else can stand."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))] if path else [
        place for key, one in inner for place in places(one, (key,))
    ]  # fmt: skip


def events_of(reply: Reply) -> list[tuple[bytes, Any]]:
    """The events of an ordinary reply: what stands before the data, and the data."""
    found = []
    for part in reply.parts:
        if isinstance(part, bytes) and part != DONE:
            head, _, data = part.rpartition(b"data: ")
            found.append((head, json.loads(data)))
    return found


@pytest.mark.parametrize("wire", PATHS)
@settings(max_examples=scale_examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_any_value_anywhere_ends_as_response_or_failure(
    server: WireServer, wire: str, data: st.DataObject
) -> None:
    events = copy.deepcopy(events_of(PATHS[wire](TURN, 0)))
    for _ in range(data.draw(st.integers(1, 3))):
        _, at = data.draw(st.sampled_from(events))
        *path, last = data.draw(st.sampled_from(places(at)))
        for step in path:
            at = at[step] if isinstance(at, list) or step in at else {}
        if isinstance(at, dict) or (isinstance(at, list) and isinstance(last, int) and last < len(at)):
            at[last] = data.draw(JUNK)
    server.always(Reply(tuple(head + b"data: " + json.dumps(one).encode() + b"\n\n" for head, one in events)))
    async with client_of(server, EndpointProfile.model_validate({"wire": wire})) as client:
        try:
            completed = response(await updates_of(client))
        except RequestError as failed:
            assert "failed" not in failed.message, failed.message
        else:
            await readable(completed)


async def readable(completed: ResponseCompleted) -> None:
    """It can be recorded, as the log does that, and read back."""
    calls = tuple(ToolCall(uid=f"c{number}", **dict(call)) for number, call in enumerate(completed.calls))
    message = AssistantMessage(text=completed.text, calls=calls, extras=completed.extras, usage=completed.usage)
    assert completed.usage is None or 0 <= completed.usage.prompt_tokens <= 10**9
    (stored,) = await EventLog(Store()).append(message)
    assert EVENT_JSON.validate_json(stored.model_dump_json()) == stored


async def test_an_exception_in_reading_fails_the_request(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, body: object) -> Any:
        raise TypeError("unhashable type")

    monkeypatch.setattr(chat._ChatDecoder, "read_event", broken)
    server.always(Turn("Hello."))
    await failure_of(complete(server), "failed: TypeError: unhashable type")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("levels", [MAX_DEPTH, 2 * MAX_DEPTH])
async def test_too_deeply_nested_arguments_are_invalid(server: WireServer, levels: int) -> None:
    """They were stored, and the session could never be opened again."""
    server.always(Turn(calls=(Call("edit_file", json.dumps(nested(levels))),)))
    (call,) = (await complete(server)).calls
    assert call.arguments is None and "nested too deeply" in call.invalid


@pytest.mark.parametrize("levels", [MAX_DEPTH, 2 * MAX_DEPTH])
async def test_a_too_deeply_nested_event_is_damaged(server: WireServer, levels: int) -> None:
    text = json.dumps(chunk("Hi", reasoning_details=[nested(levels)]))
    server.always(stream(text))
    await failure_of(complete(server), "contains something that is no JSON object")


TEXTS = {
    "blanks": " " * MAX_TEXT_CHARACTERS,
    "blank lines": "\n" * MAX_TEXT_CHARACTERS,
    "dashes": "-" * MAX_TEXT_CHARACTERS,
    "rules": "------\n" * (MAX_TEXT_CHARACTERS // 7),
    "titles": "<title>" * (MAX_TEXT_CHARACTERS // 7),
    "titles that never begin": "<title " * (MAX_TEXT_CHARACTERS // 7),
    "brackets": "<" * MAX_TEXT_CHARACTERS,
    "scripts": "<script>" * (MAX_TEXT_CHARACTERS // 8),
    "errors in errors": {"error": "{" * MAX_TEXT_CHARACTERS},
    "details": {"detail": nested(MAX_DEPTH // 3)},
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.timeout(10)
async def test_an_error_text_cannot_make_a_regular_expression_slow(server: WireServer, text: str) -> None:
    """A body of blanks held everything up for a minute and a half."""
    server.always(document(json.dumps(TEXTS[text]), status=400))
    await failure_of(complete(server))


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (
            "<html><head><TITLE lang=en>Bad\ngateway</title></head><body><h1>nginx</h1></body></html>",
            "(400): Bad gateway.",
        ),
        ("<html><style>p {}</style><p>No <b>such</b> place<script>go('<p>')</script> here", "No such place here"),
        ("<title></title><p>Words", "(400): Words."),
    ],
)
async def test_an_html_error_page_becomes_plain_text(server: WireServer, page: str, words: str) -> None:
    server.always(document(page, status=400, content_type="text/html"))
    caught = await failure_of(complete(server))
    assert words in caught.message


@pytest.mark.parametrize(
    ("charset", "words"),
    [("iso-8859-1", "Proxé fermé"), ("utf-8", "Prox\ufffd ferm\ufffd"), ("rot13", "Prox\ufffd ferm\ufffd")],
)
async def test_an_error_in_another_encoding_is_read_by_its_charset(
    server: WireServer, charset: str, words: str
) -> None:
    page = "<title>Proxé fermé</title>".encode("latin-1")
    server.always(document(page, status=403, content_type=f"text/html; charset={charset}"))
    await failure_of(complete(server), words)


@pytest.mark.parametrize("charset", ["zlib", "rot13", "idna", "undefined", "utf-16"])
async def test_an_unusual_charset_is_read_as_utf_8(server: WireServer, charset: str) -> None:
    kind = f"application/json; charset={charset}"
    refused = {"error": {"message": "Expired", "code": "invalid_api_key"}}
    server.always(document(refused, status=401, content_type=kind))
    server.route("/v1/models", document({"data": [{"id": "a-model"}]}, content_type=kind))
    async with client_of(server) as client:
        assert [model.id for model in await client.list_models()] == ["a-model"]
        caught = await failure_of(updates_of(client), "Expired")
    assert caught.kind is FailureKind.AUTH and len(server.requests) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "1e300"},
        {"retry-after": "99999999999"},
        {"retry-after-ms": "1e300"},
        {"x-ratelimit-reset": "1e18"},
    ],
)
async def test_an_endless_retry_time_is_ignored(server: WireServer, headers: dict[str, str]) -> None:
    server.script([error(429, "Slow down", headers=headers), Turn("Hello.")])
    assert (await complete(server)).text == "Hello."


@pytest.mark.parametrize("code", ["9" * 5_000, 10**30, "\u0664\u0660\u0660", True])
async def test_an_error_code_that_is_no_http_status_is_retried(server: WireServer, code: Any) -> None:
    server.script([stream({"error": {"message": "No", "code": code}}), Turn("Hello.")])
    assert (await complete(server)).text == "Hello."


async def test_damaged_bytes_in_an_invalid_event_are_ignored(server: WireServer) -> None:
    server.always(
        stream(b'data: {"choices": [{"delta": 5, "x": "\xff"}]}\n\n', chunk("Hello."), chunk(finish="stop"), DONE)
    )
    assert (await complete(server)).text == "Hello."


async def test_the_examination_of_a_broken_endpoint_ends(server: WireServer) -> None:
    server.route("/v1/models", document("[" * 100_000))
    server.always(stream(event(json.dumps({"choices": [{"delta": {"tool_calls": call_delta()}}]}))))
    found = [one async for one in examine_endpoint(Endpoint(server.base_url, "m"), EndpointProfile(), retry=FAST)]
    assert isinstance(found[-1], EndpointDiagnosis) and not found[-1].usable


async def test_very_long_names_are_shortened_to_one_line(server: WireServer) -> None:
    server.models = ["x" * 5_000, "a\nb"]
    server.script([error(404, "The model `m` does not exist", code="model_not_found")])
    found = [one async for one in examine_endpoint(Endpoint(server.base_url, "m"), EndpointProfile(), retry=FAST)]
    (model,) = [one.detail for one in found if isinstance(one, DoctorCheckResult) and one.name == "model"]
    assert len(model) < 600 and "\n" not in model
    server.always(stream(chunk("Hi"), chunk(finish="x" * 5_000), DONE))
    assert len((await complete(server)).finish_reason or "") == 100


MIB = 2**20
MUCH = b"x" * MIB
_GZIP_HEAD = 10


def poured(first: bytes, piece: bytes, times: int = 64, **options: Any) -> Reply:
    """A body that goes on and on."""
    return Reply((first, *[piece] * times), **options)


def packed(piece: bytes, times: int = 64) -> Reply:
    """The same, packed: once, since after a full flush the same bytes say the same. Its end is never read."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    return Reply((gzip.compress(b"")[:_GZIP_HEAD] + block * times,), headers={"content-encoding": "gzip"})


DELTA = event(chunk("x" * (MIB // 2)))
ARGUMENTS = event(chunk(calls=[call_delta(0, arguments="x" * (MIB // 2))]))
CALLS = event(chunk(calls=[call_delta(None, call_id=f"c{number}", name="f") for number in range(600)]))

TOO_LARGE = {
    "an error's body": (poured(b'{"error": "', MUCH, status=400), "sent an error (400) of more than 1 MiB"),
    "an error that may pass": (poured(b"<html>", MUCH, status=503), "sent an error (503) of more than 1 MiB"),
    "a line": (poured(b"data: ", MUCH), "an event of more than 1 MiB"),
    "an event": (poured(b"", b"data: " + MUCH + b"\n"), "an event of more than 1 MiB"),
    "one delta": (stream(chunk("x" * 2 * MIB)), "an event of more than 1 MiB"),
    "a page": (poured(b"<html>\n", b"<p>" + MUCH + b"\n"), "a page of more than 1 MiB"),
    "text": (poured(b"", DELTA), "a response of more than 4 million characters"),
    "arguments": (poured(b"", ARGUMENTS), "a tool call of more than 2 million characters"),
    "calls": (poured(b"", CALLS), "a batch of more than 512 tool calls"),
    "a bomb in a line": (packed(MUCH), "an event of more than 1 MiB"),
    "a bomb of nothing": (packed(b"\n" * MIB), "an event of more than 1 MiB"),
}


@pytest.mark.parametrize("what", TOO_LARGE)
async def test_too_large_response_fails_and_is_not_retried(
    server: WireServer, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_stream, "MAX_EVENT_BYTES", MIB)
    reply, words = TOO_LARGE[what]
    server.always(reply)
    caught = await failure_of(complete(server))
    assert words in caught.message and caught.kind is FailureKind.STREAM_BROKEN
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 500])
async def test_a_compression_bomb_takes_bounded_memory(server: WireServer, status: int) -> None:
    bomb = packed(MUCH, 256)
    server.always(Reply(bomb.parts, status=status, headers=bomb.headers))
    async with client_of(server) as client:
        await client.list_models()
        tracemalloc.start()
        try:
            await failure_of(updates_of(client))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 4 * bounded_stream.MAX_EVENT_BYTES


async def test_endless_empty_events_are_too_large(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_stream, "MAX_BODY_BYTES", 4 * MIB)
    server.always(poured(b"", event(chunk(None)) * 1_000))
    await failure_of(complete(server), "sent a response of more than 4 MiB")


async def test_text_before_an_oversized_event_is_kept(server: WireServer) -> None:
    server.always(stream(chunk("Hello"), b"data: ", *[MUCH] * 9))
    caught = await failure_of(complete(server))
    assert isinstance(caught.partial, ResponseCompleted) and caught.partial.text == "Hello"


async def test_an_endless_model_list_is_refused(server: WireServer) -> None:
    server.route("/v1/models", poured(b'{"data": [', MUCH))
    async with client_of(server) as client:
        await failure_of(client.list_models(), "sent a list of models of more than 16 MiB")


ANSWER = b"".join([event(chunk("Hello")), event(chunk(finish="stop")), DONE])
_BARE = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(ANSWER)),
        ("x-gzip", gzip.compress(ANSWER[:20]) + gzip.compress(ANSWER[20:])),
        ("deflate", zlib.compress(ANSWER)),
        ("deflate", _BARE.compress(ANSWER) + _BARE.flush()),
        ("identity", ANSWER),
    ],
)
async def test_a_compressed_body_is_read_if_not_requested(server: WireServer, encoding: str, body: bytes) -> None:
    cut = (body[:7], body[7:])
    server.always(Reply(cut, headers={"content-encoding": encoding}))
    assert (await complete(server)).text == "Hello"
    assert server.last.headers["accept-encoding"] == "identity"


async def test_a_compressed_error_body_is_shown(server: WireServer) -> None:
    body = gzip.compress(json.dumps({"error": {"message": "No such thing"}}).encode())
    server.always(document(body, status=400, headers={"content-encoding": "gzip"}))
    await failure_of(complete(server), "No such thing")


_AFTER_ZLIB = zlib.compressobj(wbits=-15)
_NO_STREAM = zlib.compress(event(chunk("Bad"))) + _AFTER_ZLIB.compress(ANSWER) + _AFTER_ZLIB.flush()
"""What is packed without a header is taken at the beginning, and not in the middle."""


@pytest.mark.parametrize(
    ("encoding", "body"), [("gzip", b"\x1f\x8bnothing"), ("br", b"abc"), ("gzip, gzip", b""), ("deflate", _NO_STREAM)]
)
async def test_a_body_that_cannot_be_decompressed_is_damaged(server: WireServer, encoding: str, body: bytes) -> None:
    server.script([Reply((body,), headers={"content-encoding": encoding}), Turn("Hello")])
    async with client_of(server) as client:
        assert response(await updates_of(client)).text == "Hello"
    server.always(Reply((body,), headers={"content-encoding": encoding}))
    told = (
        "is damaged" if encoding in ("gzip", "deflate") else f"it is encoded as {encoding}, which was not asked for"
    )
    await failure_of(complete(server), told)


REQUESTS = max(60, scale_examples(150))
CALL = chunk(calls=[call_delta(0, call_id="1", name="edit_file", arguments='{"path": "a"')])
FAULTS: list[Reply] = [
    stream(CUT),
    stream(STALL),
    stream(chunk("Hel"), CUT),
    stream(chunk("Hel"), STALL),
    stream(CALL, CUT),
    stream(CALL, DONE),
    stream(chunk("Hel"), b"data: {broken\n\n"),
    stream(chunk("Hel"), {"error": {"message": "overloaded", "code": 503}}),
    stream(DONE),
    error(429, "Slow down", headers={"retry-after-ms": "1"}),
    error(500, "Oops"),
    error(400, "No"),
    document("<html>", content_type="text/html"),
    error(400, "Your input exceeds the context window"),
]


@pytest.mark.timeout(120)
async def test_every_request_ends_and_leaves_no_task(server: WireServer) -> None:
    chance = random.Random(7)
    answers: list[Turn | Reply] = [*FAULTS, *[Turn("Hello")] * len(FAULTS)]
    server.model(lambda request: chance.choice(answers))
    policy = RetryPolicy(base=0.001, cap=0.002)
    ends: dict[str, int] = {}

    async def one(client: Any) -> str:
        task = asyncio.create_task(updates_of(client, opening))
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() * 0.02)
            task.cancel()
        try:
            response(await task)
        except RequestError as failed:
            return str(failed.kind)
        except asyncio.CancelledError:
            return "cancelled"
        return "completed"

    async with client_of(server, timeouts=Timeouts(first=0.1, idle=0.1), retry=policy) as client:
        before = asyncio.all_tasks()
        for _ in range(REQUESTS):
            end = await one(client)
            ends[end] = ends.get(end, 0) + 1
        assert asyncio.all_tasks() == before
    assert ends["completed"] > REQUESTS / 3
    assert ends["cancelled"]
