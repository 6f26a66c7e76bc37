"""Corrections are on trial: what cures a request is kept, what was tried in vain is taken back."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.values.profile import Profile
from app.llm.values.types import Payload, ProfileCorrected
from tests.wire import strict
from tests.wire.driving import TOOLS, client_of, closing, response, updates_of
from tests.wire.replies import Reply, Turn, error
from tests.wire.server import WireServer


def complains(words: str, taken: Callable[[dict[str, Any]], bool], status: int = 400) -> Any:
    """A validator that answers with these words until the body is as it likes it."""
    return lambda body: None if taken(body) else error(status, words)


def alternates(body: dict[str, Any]) -> bool:
    """No system message at all."""
    return all(message["role"] != "system" for message in body["messages"])


async def test_a_placement_that_does_not_help_is_taken_back(server: WireServer) -> None:
    """A template's error names no reason that anyone knows."""
    server.insist(complains("Jinja Exception: Unknown test 'mapping'", lambda body: False, 500))
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, cache=cache) as client:
        with pytest.raises(RequestError, match="Unknown test 'mapping'"):
            await updates_of(client, closing)
        assert client.profile == Profile()
    assert not cache
    assert len(server.requests) == 3, "in place, joined to the first, marked in the user's words"


async def test_only_the_rung_that_helps_is_kept(server: WireServer) -> None:
    server.insist(complains("Jinja Exception: roles must alternate", alternates))
    server.always(Turn("Hello"))
    async with client_of(server) as client:
        updates = await updates_of(client, closing)
        assert client.profile == Profile(mid_system="fold_user")
    told = [update.notice for update in updates if isinstance(update, ProfileCorrected)]
    assert len(told) == 1 and "user's messages" in told[0]


async def test_nothing_is_told_or_kept_of_a_request_that_fails_in_the_end(server: WireServer) -> None:
    server.insist(strict.qwen)
    server.always(error(401, "Expired", code="invalid_api_key"))
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, cache=cache) as client:
        with pytest.raises(RequestError):
            await updates_of(client, closing)
        assert client.profile == Profile()
    assert not cache


async def test_a_correction_outlasts_a_failure_that_passes(server: WireServer) -> None:
    server.insist(strict.qwen)
    server.script([error(503, "Busy"), Turn("Hello")])
    async with client_of(server) as client:
        await updates_of(client, closing)
        assert client.profile == Profile(mid_system="fold_first")
    assert len(server.requests) == 3


async def test_a_refusal_on_its_way_to_the_models_fault_teaches_no_placement(server: WireServer) -> None:
    """What a request must have learned by the time of its second correction stays when the third is in vain."""
    server.insist(strict.mistral_template(400), complains("Jinja Exception: no", lambda body: False))
    async with client_of(server) as client:
        with pytest.raises(RequestError, match="Jinja Exception: no"):
            await updates_of(client, closing)
        assert client.profile == Profile()
    sent = [request.body["messages"] for request in server.requests]
    calls = [call["id"] for messages in sent for one in messages for call in one.get("tool_calls", ())]
    assert calls[0] == "call_1" and set(calls[1:]) == {"abcdef123"}


def groq(**fields: Any) -> Reply:
    """Groq's refusal, in full."""
    return error(400, "Tool choice is none, but model called a tool", kind="invalid_request_error", **fields)


@pytest.mark.parametrize(
    "reply",
    [
        groq(code="tool_use_failed", failed_generation='{"name": "edit_file", "arguments": {}}'),
        groq(code="tool_use_failed"),
        groq(),
    ],
)
async def test_a_model_that_calls_under_none_is_not_the_servers_fault(server: WireServer, reply: Reply) -> None:
    server.always(reply)
    async with client_of(server) as client:
        with pytest.raises(RequestError) as caught:
            await updates_of(client, closing, closing=True)
        assert caught.value.kind is FailureKind.TOOL_USE_FAILED
        assert client.profile == Profile(tool_choice_none="fails")
        server.always(Turn("Hello"))
        assert response(await updates_of(client, closing, closing=True)).text == "Hello"
    assert len(server.requests) == 2 and all(request.closing for request in server.requests)


async def test_the_type_of_an_error_is_no_reason(server: WireServer) -> None:
    """Every error of OpenAI's is an `invalid_request_error`: that does not make the field it names an invalid one."""
    server.always(error(400, "tool_choice: try later", kind="invalid_request_error"))
    async with client_of(server) as client:
        with pytest.raises(RequestError):
            await updates_of(client, closing)
    assert len(server.requests) == 1


async def test_tools_are_offered_again_after_a_while(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.always(Turn("Hello"))
    now = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, cache=cache) as client:

        async def offered() -> list[bool]:
            before = len(server.requests)
            await updates_of(client, lambda profile: Payload(closing(profile).messages, TOOLS))
            return ["tools" in request.body for request in server.requests[before:]]

        server.insist(strict.no_tools)
        assert await offered() == [True, False]
        assert await offered() == [False]
        now[0] += 3_600
        assert await offered() == [True, False], "asked again, and told again"
        now[0] += 3_600
        server.insist()
        assert await offered() == [True] and client.profile.tools_supported
