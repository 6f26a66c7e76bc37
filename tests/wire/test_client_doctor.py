"""The examination tells the truth about an endpoint, and finds the profile that it needs."""

import time
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from app.llm.capabilities.profiles import ProfileLearner, replace_learned_by_diagnosis, resolve_profile
from app.llm.endpoint_doctor import (
    CHECKS,
    DoctorCheckResult,
    EndpointDiagnosis,
    describe_learned_fields,
    examine_endpoint,
)
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint
from tests.wire import strict, templates
from tests.wire.driving import BRISK, FAST
from tests.wire.endpoints import (
    FAILS_CALLS,
    IGNORES_TOOL_CHOICE,
    LEAKS_CALLS,
    OBEYS,
    REJECTS_MID_SYSTEM_400,
    REJECTS_MID_SYSTEM_500,
    REJECTS_TOOL_CHOICE,
    Behaviour,
    hoisted,
)
from tests.wire.replies import DONE, END, Call, Reply, Turn, chunk, document, error, stream
from tests.wire.server import Request, WireServer


def follows(messages: list[dict[str, Any]]) -> Turn:
    """A model that does what the last instruction it sees tells it, wherever that stands."""
    said = " ".join(str(message["content"]) for message in messages if message["role"] in ("system", "user"))
    if "heron" in said:
        return Turn("Heron.")
    if "Call the tool" in said:
        return Turn(calls=(Call("report", {"word": "ok"}),))
    return Turn("ok then")


def drops_mid_system(messages: list[dict[str, Any]]) -> Turn:
    """A template that loses system messages in mid-conversation."""
    return follows([messages[0], *(message for message in messages[1:] if message["role"] != "system")])


def never_calls(messages: list[dict[str, Any]]) -> Turn:
    """A model that answers with text whatever it is told."""
    turn = follows(messages)
    return turn if turn.text else Turn("I would rather not.")


async def examined(
    server: WireServer, *, key: str | None = None, model: str = "test-model", profile: EndpointProfile | None = None
) -> EndpointDiagnosis:
    endpoint = Endpoint(server.base_url, model, SecretStr(key) if key else None)
    findings = [
        found async for found in examine_endpoint(endpoint, profile or EndpointProfile(), timeouts=BRISK, retry=FAST)
    ]
    *checks, diagnosis = findings
    assert isinstance(diagnosis, EndpointDiagnosis) and diagnosis.checks == tuple(checks)
    assert tuple(check.name for check in checks if isinstance(check, DoctorCheckResult)) == CHECKS
    assert all("\n" not in check.detail and check.detail for check in checks if isinstance(check, DoctorCheckResult))
    return diagnosis


def results(diagnosis: EndpointDiagnosis) -> dict[str, bool | None]:
    return {check.name: check.ok for check in diagnosis.checks}


GOOD: dict[str, bool | None] = dict.fromkeys(CHECKS, True)


BEHAVIOURS: dict[str, tuple[Any, ...]] = {
    "all is well": (OBEYS, follows, {}, {}),
    "hoists, which is as good as anything": (OBEYS, lambda messages: follows(hoisted(messages)), {}, {}),
    "ignores none": (IGNORES_TOOL_CHOICE, follows, {"tool_choice": False}, {"tool_choice_none": "ignored"}),
    "rejects none": (REJECTS_TOOL_CHOICE, follows, {"tool_choice": False}, {"tool_choice_none": "rejected"}),
    "fails under none": (FAILS_CALLS, follows, {"tool_choice": False}, {"tool_choice_none": "fails"}),
    "leaks calls": (LEAKS_CALLS, follows, {"tool_choice": False}, {}),
    "mid system 400": (REJECTS_MID_SYSTEM_400, follows, {"mid_system": False}, {"mid_system": "fold_first"}),
    "mid system 500": (REJECTS_MID_SYSTEM_500, follows, {"mid_system": False}, {"mid_system": "fold_first"}),
    "mid system lost": (OBEYS, drops_mid_system, {"mid_system": False}, {"mid_system": "fold_first"}),
    "never calls": (OBEYS, never_calls, {"tools": None, "tool_choice": None}, {}),
    "deaf": (OBEYS, lambda messages: Turn("ok"), {"tools": None, "tool_choice": None, "mid_system": None}, {}),
}


@pytest.mark.parametrize(("behaviour", "model", "findings", "learned"), BEHAVIOURS.values(), ids=list(BEHAVIOURS))
async def test_each_behaviour_of_an_endpoint_is_found_and_learned(
    server: WireServer,
    behaviour: Behaviour,
    model: Callable[[list[dict[str, Any]]], Turn],
    findings: dict[str, bool | None],
    learned: dict[str, Any],
) -> None:
    server.behave(behaviour)
    server.insist(strict.openai_adjacency)
    server.model(lambda request: model(request.messages))
    diagnosis = await examined(server)
    assert results(diagnosis) == GOOD | findings
    assert diagnosis.profile == EndpointProfile(**learned)
    assert diagnosis.usable
    limits = f"without certainty or with a fallback: {', '.join(findings)}"
    assert (limits if findings else "honours everything") in diagnosis.summary
    cache: dict[str, dict[str, Any]] = {}
    replace_learned_by_diagnosis(cache, Endpoint(server.base_url, "test-model"), diagnosis.profile)
    assert resolve_profile(server.base_url, "test-model", cache=cache) == diagnosis.profile


@pytest.mark.parametrize(
    ("validators", "findings", "learned"),
    [
        ([strict.no_tools], {"tools": False, "tool_choice": None}, {"tools_supported": False}),
        ([strict.unknown_fields], {"usage": False}, {"stream_usage": False}),
        ([strict.gemma2], {"mid_system": False}, {"mid_system": "fold_user"}),
        (
            [strict.mistral, strict.completion_tokens],
            {"mid_system": False},
            {"mid_system": "fold_first", "tool_id": "alnum9", "max_tokens_field": "max_completion_tokens"},
        ),
        ([strict.deepseek], {}, {"reasoning_echo": "required_on_calls"}),
        ([strict.gemini], {}, {"call_extras_echo": True}),
    ],
)
async def test_the_rules_of_strict_servers_are_found_and_learned(
    server: WireServer, validators: list[Any], findings: dict[str, bool | None], learned: dict[str, Any]
) -> None:
    server.insist(*validators)
    server.model(lambda request: follows(request.messages))
    diagnosis = await examined(server)
    assert results(diagnosis) == GOOD | findings
    assert diagnosis.profile == EndpointProfile(**learned)
    assert diagnosis.usable == ("tools_supported" not in learned)


@pytest.mark.parametrize(
    ("fails", "status", "findings"),
    [
        (lambda request: "tools" in request.body, 500, {"tools": False, "tool_choice": None, "mid_system": None}),
        (lambda request: "tools" in request.body, 429, {"tools": None, "tool_choice": None, "mid_system": None}),
        (lambda request: request.closing, 500, {"tool_choice": None, "mid_system": None}),
    ],
    ids=["with tools", "too often with tools", "under none"],
)
async def test_a_failed_probe_shows_the_servers_error(
    server: WireServer, fails: Callable[[Request], bool], status: int, findings: dict[str, bool | None]
) -> None:
    server.model(lambda request: error(status, "Out of luck") if fails(request) else follows(request.messages))
    diagnosis = await examined(server)
    assert results(diagnosis) == GOOD | findings
    first = next(check for check in diagnosis.checks if check.name == next(iter(findings)))
    assert "Out of luck" in first.detail and "Out of luck" in diagnosis.checks[-1].detail
    assert diagnosis.usable == (findings.get("tools") is not False)


STALE = EndpointProfile(
    mid_system="fold_user",
    tool_choice_none="rejected",
    tools_supported=False,
    stream_usage=False,
    images_supported=False,
)


async def test_a_missing_or_wrong_key_is_reported_and_changes_no_profile(server: WireServer) -> None:
    server.require_key("right-key")
    server.model(lambda request: follows(request.messages))
    for key in (None, "wrong-key-1234"):
        diagnosis = await examined(server, key=key, profile=STALE)
        assert results(diagnosis) == dict.fromkeys(CHECKS, None) | {"reachable": True, "key": False}
        assert not diagnosis.usable and "key" in diagnosis.summary
        assert "wrong-key-1234" not in str(diagnosis)
        assert diagnosis.profile == STALE
    assert results(await examined(server, key="right-key")) == GOOD


async def test_an_unknown_model_is_reported_with_the_known_ones(server: WireServer) -> None:
    server.models = ["llama", "qwen"]
    unknown = document({"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}, status=404)
    server.model(lambda request: unknown if request.body["model"] == "x" else follows(request.messages))
    diagnosis = await examined(server, model="x")
    assert results(diagnosis)["model"] is False and not diagnosis.usable
    assert "llama, qwen" in diagnosis.summary
    assert results(await examined(server, model="qwen")) == GOOD
    unlisted = await examined(server, model="answers")
    assert results(unlisted) == GOOD
    assert "not listed" in next(check.detail for check in unlisted.checks if check.name == "model")


@pytest.mark.parametrize(("name", "found"), [("test-model", (True, "is listed")), ("other", (None, "not checked"))])
async def test_the_model_list_decides_where_the_model_gives_no_answer(
    server: WireServer, name: str, found: tuple[bool | None, str]
) -> None:
    server.models = [name]
    server.always(error(401, "Expired", code="invalid_api_key"))
    check = next(check for check in (await examined(server)).checks if check.name == "model")
    assert check.ok is found[0] and found[1] in check.detail


@pytest.mark.parametrize(
    ("address", "reason"),
    [("http://127.0.0.1:9/v1", "running"), ("localhost/v1", "lacks http://"), ("http://a:99999/v1", "port 99999")],
)
async def test_an_unreachable_server_or_an_unusable_address_is_reported(address: str, reason: str) -> None:
    *_, diagnosis = [
        found
        async for found in examine_endpoint(Endpoint(address, "m"), EndpointProfile(), timeouts=BRISK, retry=FAST)
    ]
    assert isinstance(diagnosis, EndpointDiagnosis)
    assert results(diagnosis) == dict.fromkeys(CHECKS, None) | {"reachable": False}
    assert not diagnosis.usable and reason in diagnosis.summary


async def test_a_reachable_server_is_reported_before_the_model_is_asked(server: WireServer) -> None:
    async with aclosing(examine_endpoint(Endpoint(server.base_url, "m"), EndpointProfile())) as findings:
        first = await anext(findings)
    assert isinstance(first, DoctorCheckResult) and (first.name, first.ok) == ("reachable", True)
    assert server.requests == []


async def test_a_refusal_is_not_explained_by_the_doctor_that_reports_it(server: WireServer) -> None:
    server.always(error(400, "No such luck"))
    diagnosis = await examined(server)
    assert [check.detail for check in diagnosis.checks if "No such luck" in check.detail] == [
        f"{server.base_url[7:-3]} refuses the request (400): No such luck."
    ]
    assert "doctor" not in diagnosis.summary


async def test_a_web_page_in_place_of_an_api_is_reported(server: WireServer) -> None:
    server.route("/v1/models", document("<html><title>Hello</title></html>", content_type="text/html"))
    server.always(document("<html><title>Hello</title></html>", content_type="text/html"))
    diagnosis = await examined(server)
    assert results(diagnosis)["streaming"] is False and not diagnosis.usable
    assert results(diagnosis)["key"] is None


@pytest.mark.parametrize(
    ("reply", "streaming", "learned"),
    [
        (stream(chunk(text="ok"), END), False, {}),
        (stream(chunk(text="ok"), DONE), True, {"finish_optional": True}),
        (Turn(""), None, {}),
    ],
    ids=["cut", "no finish reason", "empty"],
)
async def test_cut_and_empty_responses_are_reported(
    server: WireServer, reply: Turn | Reply, streaming: bool | None, learned: dict[str, Any]
) -> None:
    server.always(reply)
    diagnosis = await examined(server)
    assert results(diagnosis)["streaming"] is streaming and diagnosis.usable is (streaming is not False)
    assert diagnosis.profile == EndpointProfile(**learned)


@pytest.mark.parametrize("profile", [STALE, EndpointProfile(refused={"top_k": 5}, refused_images=["a" * 64])])
async def test_learned_profile_is_examined_anew(server: WireServer, profile: EndpointProfile) -> None:
    server.model(lambda request: follows(request.messages))
    assert (await examined(server, profile=profile)).profile == EndpointProfile()


async def test_learned_fields_are_listed_with_their_age(server: WireServer) -> None:
    endpoint = Endpoint(server.base_url, "test-model")
    cache: dict[str, dict[str, Any]] = {}
    assert "nothing" in describe_learned_fields(cache, endpoint).detail
    ages: tuple[tuple[int, dict[str, Any]], ...] = (
        (3, {"tool_id": "max40"}),
        (0, {"context_window": 4096}),
        (200, {"mid_system": "fold_user"}),
    )
    for days, field in ages:
        then = time.time() - days * 86_400
        ProfileLearner(endpoint, EndpointProfile(), EndpointProfile(), cache, partial(float, then)).learn(**field)
    said = describe_learned_fields(cache, endpoint).detail
    assert 'tool_id = "max40" (3 days ago), context_window = 4096 (today); [profile]' in said
    assert "mid_system" not in said


async def test_a_correction_that_does_not_help_a_probe_is_not_learned(server: WireServer) -> None:
    """A template that fails on tools with words of its own: the doctor may not take it for a rule about placement."""
    server.insist(lambda body: error(500, "Jinja Exception: bad filter", code=500) if body["messages"][2:] else None)
    server.always(Turn("ok"))
    assert (await examined(server)).profile.mid_system == "inline"


@pytest.mark.parametrize(("template", "status"), templates.REFUSALS)
async def test_the_placement_that_a_template_renders_is_found(
    server: WireServer, template: templates.Template, status: int
) -> None:
    server.insist(templates.refusal(template, status))
    server.model(lambda request: follows([{"role": "user", "content": template(request.messages)}]))
    assert (await examined(server)).profile.mid_system == templates.PLACEMENTS[template.__name__]
