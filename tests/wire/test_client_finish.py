"""Finish reasons: they never decide whether complete calls run, and a response without one counts as cut."""

from typing import Any

import pytest

from app.llm.failures.request_errors import FailureKind
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from tests.wire.driving import USER, client_of, complete, failure_of, response, updates_of
from tests.wire.replies import DONE, STALL, call_delta, chunk, document, error, stream
from tests.wire.server import WireServer

CALL = chunk(calls=[call_delta(0, call_id="1", name="read_file", arguments='{"path": "a"}')])
HALF = chunk(calls=[call_delta(0, call_id="1", name="read_file", arguments='{"path')])


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "other", "unknown", "eos", "end_turn"])
async def test_every_finish_reason_completes_a_response(server: WireServer, reason: str) -> None:
    for part in (chunk("Hi"), CALL):
        server.script([stream(part, chunk(finish=reason), DONE)])
        completed = await complete(server)
        assert (completed.finish_reason, completed.truncated) == (reason, False)
        assert len(completed.calls) == (part is CALL)


CUT_SHORT: dict[str, tuple[tuple[Any, ...], str | None]] = {
    **{
        reason: ((chunk(finish=reason), DONE), reason)
        for reason in ("length", "model_length", "content_filter", "error", "model_context_window_exceeded")
    },
    "in capitals": ((chunk(finish="MAX_TOKENS"), DONE), "max_tokens"),
    "a later reason wins": ((chunk(finish="tool_calls"), chunk(finish="length"), DONE), "length"),
    "a later reason does not undo it": ((chunk(finish="length"), chunk(finish="stop"), DONE), "length"),
    "no reason": ((DONE,), None),
    "no end": ((), None),
    "an empty reason": ((chunk(finish=""), DONE), None),
}


@pytest.mark.parametrize("kind", CUT_SHORT)
async def test_a_limit_or_no_finish_reason_marks_a_response_as_cut(server: WireServer, kind: str) -> None:
    ending, reason = CUT_SHORT[kind]
    for part in (chunk("Hi"), CALL, HALF):
        server.script([stream(part, *ending)])
        completed = await complete(server)
        assert (completed.finish_reason, completed.truncated) == (reason, True)


async def test_a_server_without_finish_reasons_is_recognised_at_its_second_clean_end(server: WireServer) -> None:
    whole, half, broken_off = stream(CALL, DONE), stream(HALF, DONE), stream(CALL)
    server.script([whole, half, broken_off, whole, half, broken_off, whole, whole])
    async with client_of(server) as client:
        cut = [response(await updates_of(client)).truncated for _ in range(7)]
        assert client.profile.finish_optional
    assert cut == [True, True, True, False, True, True, False]
    assert not (await complete(server, EndpointProfile(finish_optional=True))).truncated


@pytest.mark.parametrize(
    ("begin", "reason", "reasoning"),
    [
        (chunk("", role="assistant"), "stop", ""),
        (chunk("", role="assistant"), "tool_calls", ""),
        (chunk("", role="assistant"), "content_filter", ""),
        (chunk(reasoning="Hm"), "stop", "Hm"),
    ],
)
async def test_an_empty_response_is_a_response(server: WireServer, begin: Any, reason: str, reasoning: str) -> None:
    server.script([stream(begin, chunk(finish=reason), DONE)])
    completed = await complete(server)
    assert (completed.text, completed.calls, completed.finish_reason) == ("", (), reason)
    assert completed.reasoning == reasoning and len(server.requests) == 1


@pytest.mark.parametrize("reason", ["length", "model_context_window_exceeded"])
async def test_an_empty_cut_response_is_a_full_context_but_at_our_own_limit(server: WireServer, reason: str) -> None:
    server.always(stream(chunk("", role="assistant"), chunk(finish=reason), DONE))
    caught = await failure_of(complete(server))
    assert caught.kind is FailureKind.CONTEXT_FULL
    if reason == "length":
        async with client_of(server) as client:
            completed = response(await updates_of(client, lambda profile: Payload([USER], [], max_tokens=5)))
        assert (completed.text, completed.truncated) == ("", True)


OVERLOADED = {"code": 502, "message": "Overloaded now"}
ERRORS_IN_STREAMS: dict[str, Any] = {
    "object": {"error": {"message": "Overloaded now", "type": "server_error"}},
    "string": {"error": "Overloaded now"},
    "vLLM": {"object": "error", "message": "Overloaded now", "code": 500},
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded now"}},
    "detail": {"detail": "Overloaded now"},
    "bare": {"message": "Overloaded now", "code": 503},
    "event": b"event: error\ndata: Overloaded now\n\n",
    "event with JSON": b'event: error\ndata: {"message": "Overloaded now"}\n\n',
    "field": b"error: Overloaded now\n\n",
    "unframed": b'\n{"error": {"message": "Overloaded now"}}\n',
    "beside choices (OpenRouter)": {**chunk(" and"), "error": OVERLOADED},
    "in the choice": {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": OVERLOADED}]},
}


@pytest.mark.parametrize("problem", ERRORS_IN_STREAMS.values(), ids=list(ERRORS_IN_STREAMS))
async def test_an_error_inside_the_stream_is_retried_and_then_reported(server: WireServer, problem: Any) -> None:
    server.always(stream(chunk("Hi"), problem))
    caught = await failure_of(complete(server))
    assert "Overloaded now" in caught.message
    assert caught.kind is FailureKind.SERVER_ERROR
    assert caught.partial is not None and caught.partial.text.startswith("Hi")
    assert caught.partial.truncated
    assert len(server.requests) == 6, "as a busy server is asked"


@pytest.mark.parametrize(
    "problem", [{"error": {"message": "Invalid key", "code": 401}}, {"error": "invalid_api_key"}]
)
async def test_a_permanent_error_in_the_stream_is_not_retried(server: WireServer, problem: Any) -> None:
    server.always(stream(problem))
    caught = await failure_of(complete(server))
    assert caught.kind is FailureKind.AUTH
    assert len(server.requests) == 1


async def test_an_error_after_a_complete_response_is_ignored(server: WireServer) -> None:
    count = chunk(usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9})
    server.always(stream(chunk("Hi"), chunk(finish="stop"), {"error": "billing is late"}, count, STALL))
    completed = await complete(server)
    assert completed.text == "Hi"
    assert completed.usage is not None and completed.usage.completion_tokens == 2, "what comes behind it is read"


async def test_an_error_document_with_status_200_is_an_error(server: WireServer) -> None:
    server.always(error(200, "No such thing", code="invalid_request_error"))
    await failure_of(complete(server), "No such thing")
    for body in (
        {"success": False, "message": "No such thing"},
        {"success": False, "errors": [{"code": 7, "message": "No such thing"}], "result": None},
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "No such thing"}},
    ):
        server.always(document(body))
        await failure_of(complete(server), "No such thing")
    server.always(stream({**chunk("Hi", finish="stop"), "base_resp": {"status_code": 0, "status_msg": ""}}, DONE))
    assert (await complete(server)).text == "Hi"
