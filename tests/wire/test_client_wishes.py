"""The user's request settings: where they stand on each wire, and what becomes of one that a server refuses."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.copies import replace
from app.llm.capabilities.profiles import resolve_profile
from app.llm.client import ModelClient
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, Payload, ProfileCorrected, RequestOptions
from app.llm.wires.wire import CallWithResult, Item, ModelTurn, OpaqueResponseBlocks, UserItem
from app.llm.wires.wire_registry import RequestInputs
from tests.wire.driving import asking, client_of, failure_of, updates_of
from tests.wire.replies import Reply, Turn, document, error
from tests.wire.server import WireServer
from tests.wire.vendors import VENDORS

WORK = ModelTurn("", (CallWithResult("call_1", "read_file", "{}", "text"),))


def wishing(
    effort: str = "off", *more: Item, limit: int | None = None, **fields: Any
) -> Callable[[EndpointProfile], Payload]:
    return asking(*more, limit=limit, options=RequestOptions(effort, fields))


def body_of(model: str, wire: str, build: Callable[[EndpointProfile], Payload]) -> dict[str, Any]:
    """The body, which is one that the vendor takes."""
    profile = EndpointProfile.model_validate({"wire": wire})
    body = RequestInputs(model, profile, build(profile)).make_body()
    if wire in VENDORS:
        assert VENDORS[wire].violations(body) == []
    return body


@pytest.mark.parametrize(
    ("wire", "model", "effort", "fields"),
    [
        ("chat", "m", "high", {"reasoning_effort": "high"}),
        ("chat", "m", "off", {}),
        ("responses", "m", "minimal", {"reasoning": {"effort": "minimal"}}),
        (
            "anthropic",
            "claude-opus-4-8",
            "xhigh",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
        ),
        (
            "anthropic",
            "claude-sonnet-5",
            "minimal",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        ("anthropic", "claude-opus-4-8", "none", {"thinking": {"type": "disabled"}}),
        *(
            ("anthropic", model, "medium", {"thinking": {"type": "enabled", "budget_tokens": 10_240}})
            for model in (
                "claude-sonnet-4-20250514",
                "claude-opus-4-5",
                "claude-opus-4-1-20250805",
                "anthropic/claude-haiku-4.5",
                "claude-3-7-sonnet-latest",
                "glm-5",
            )
        ),
    ],
)
def test_the_effort_is_sent_in_the_wires_field(wire: str, model: str, effort: str, fields: dict[str, Any]) -> None:
    body = body_of(model, wire, wishing(effort))
    names = ("reasoning_effort", "reasoning", "thinking", "output_config")
    assert {name: body[name] for name in names if name in body} == fields


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
@pytest.mark.parametrize("limit", [16, 1_100, 4_096, 32_000])
def test_a_thinking_budget_leaves_room_for_the_answer_or_is_not_sent(effort: str, limit: int) -> None:
    body = body_of("claude-sonnet-4-5", "anthropic", wishing(effort, limit=limit))
    assert ("thinking" in body) == (limit > 1_500)
    assert "thinking" not in body or 1_024 <= body["thinking"]["budget_tokens"] <= 0.75 * limit


SIGNED = {"wire": "anthropic", "at": 0, "block": {"type": "thinking", "thinking": "So.", "signature": "s"}}
THOUGHT = replace(WORK, echo=OpaqueResponseBlocks(same_model=True, extras={"opaque_blocks": [SIGNED]}))
MORE = replace(WORK, calls=(replace(WORK.calls[0], id="call_2"),))


@pytest.mark.parametrize(
    ("said", "thinks"),
    [
        ((WORK,), False),
        ((WORK, UserItem("Stop.")), False),
        ((THOUGHT,), True),
        ((THOUGHT, MORE), True),
        ((THOUGHT, ModelTurn("Done."), UserItem("And this."), MORE), False),
        ((WORK, ModelTurn("Done."), UserItem("And this.")), True),
    ],
)
def test_thinking_is_not_started_in_the_middle_of_a_turn(said: tuple[Item, ...], thinks: bool) -> None:
    assert ("thinking" in body_of("claude-sonnet-4-5", "anthropic", wishing("high", *said))) == thinks


@pytest.mark.parametrize(
    ("wire", "fields", "sent"),
    [
        ("chat", {"temperature": 0.2}, {"temperature": 0.2, "reasoning_effort": "high"}),
        (
            "chat",
            {"stream_options": {"include_obfuscation": False}},
            {"stream_options": {"include_usage": True, "include_obfuscation": False}},
        ),
        ("responses", {"reasoning": {"summary": "auto"}}, {"reasoning": {"effort": "high", "summary": "auto"}}),
        ("responses", {"include": []}, {"include": []}),
        ("anthropic", {"service_tier": "auto", "max_tokens": 99}, {"service_tier": "auto", "max_tokens": 99}),
        (
            "anthropic",
            {"thinking": {"budget_tokens": 2_000}},
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
        ),
    ],
)
def test_extra_fields_override_and_merge_tables(wire: str, fields: dict[str, Any], sent: dict[str, Any]) -> None:
    body = body_of("m", wire, wishing("high", **fields))
    assert {name: body[name] for name in sent} == sent


def takes_no(*names: str) -> Callable[[dict[str, Any]], Reply | None]:
    """A validator that refuses a body with any of these, one at a time."""
    refusals = {name: error(400, f"Unrecognized request argument supplied: {name}") for name in names}
    return lambda body: next((refusal for name, refusal in refusals.items() if name in body), None)


def told(updates: list[Any]) -> list[str]:
    return [update.notice for update in updates if isinstance(update, ProfileCorrected)]


async def test_a_refused_setting_is_left_out_reported_once_and_remembered(server: WireServer) -> None:
    server.insist(takes_no("reasoning_effort", "top_k"))
    server.always(Turn("Done."))
    cache: dict[str, dict[str, Any]] = {}
    build = wishing("high", top_k=5, seed=1)
    async with client_of(server, cache=cache) as client:
        notices = told(await updates_of(client, build))
        assert len(notices) == 2 and 'reasoning_effort = "high"' in notices[0] and "top_k = 5" in notices[1]
        assert len(server.requests) == 3
        assert server.last.body["seed"] == 1 and not {"reasoning_effort", "top_k"} & server.last.body.keys()
        assert told(await updates_of(client, build)) == [] and len(server.requests) == 4
    stored = json.loads(json.dumps(cache))
    profile = resolve_profile(server.base_url, "test-model", cache=stored)
    async with client_of(server, profile, cache=stored) as client:
        assert told(await updates_of(client, build)) == [] and len(server.requests) == 5
        await updates_of(client, wishing("low", seed=1))
    assert len(server.requests) == 7, "another value is asked for"


@pytest.mark.parametrize(
    ("wire", "reply"),
    [
        ("chat", error(400, "`reasoning_effort` must be one of `none` or `default`", param="reasoning_effort")),
        ("chat", error(400, '"gemma3:4b" does not support thinking')),
        ("chat", document({"detail": [{"loc": ["body", "reasoning_effort"], "msg": "Extra inputs"}]}, status=422)),
        ("responses", error(400, "Unsupported parameter: 'reasoning.effort' is not supported with this model.")),
        ("responses", error(400, "Unrecognized request argument supplied: reasoning (request id: 7)")),
        ("chat", error(400, "Model grok-4-1-fast does not support parameter reasoningEffort.")),
        (
            "chat",
            error(400, 'invalid reasoning value: \'xhigh\' (must be "high", "medium", "low", "max", or "none")'),
        ),
        ("chat", error(400, "Thinking level is not supported for this model.")),
        ("chat", error(400, 'level "max" not supported, valid levels: low, medium, high, xhigh')),
        ("anthropic", VENDORS["anthropic"].error(400, "This model does not support the effort parameter.")),
        ("anthropic", VENDORS["anthropic"].error(400, "thinking: Extra inputs are not permitted")),
        ("anthropic", VENDORS["anthropic"].error(400, "adaptive thinking is not supported on this model")),
    ],
)
async def test_a_refused_effort_is_recognised_by_the_error_text(server: WireServer, wire: str, reply: Reply) -> None:
    server.script([reply, Turn("Done.")])
    async with client_of(server, EndpointProfile.model_validate({"wire": wire})) as client:
        assert len(told(await updates_of(client, wishing("high")))) == 1
        assert client.profile.refused == {"reasoning_effort": "high"}
        assert client.profile.opaque_echo
    assert len(server.requests) == 2
    assert not {"reasoning", "reasoning_effort", "thinking", "output_config"} & server.last.body.keys()


async def test_an_error_with_a_word_like_a_field_name_refuses_no_field(server: WireServer) -> None:
    server.always(error(400, "Conversation roles must alternate user/assistant/user"))
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, cache=cache) as client:
        await failure_of(updates_of(client, wishing(user="me")))
        assert client.profile == EndpointProfile() and not cache


async def test_a_turn_with_another_model_or_effort_uses_another_client(server: WireServer) -> None:
    made: list[tuple[str, str]] = []

    def another(model: str, effort: str) -> ModelClient:
        made.append((model, effort))
        return ModelClient(Endpoint(server.base_url, model), EndpointProfile())

    async with client_of(server, another=another) as client:
        for model, effort in (("", ""), ("test-model", "")):
            assert client.with_model_and_effort(model, effort) is client
        for _ in range(2):
            assert client.with_model_and_effort("other", "high").endpoint.model == "other"
        assert client.with_model_and_effort("", "high") is not client
        assert made == [("other", "high"), ("test-model", "high")]
    async with client_of(server) as lone:
        assert lone.with_model_and_effort("other", "high") is lone
