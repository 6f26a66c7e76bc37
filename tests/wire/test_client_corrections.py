"""What a refusal teaches: the request is built anew and sent again at once, and the lesson is kept."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from app.llm.capabilities.profiles import profile_cache_key, resolve_profile
from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.transport import Timeouts
from app.llm.values.endpoint import EndpointProfile, filter_accepted_tools
from app.llm.values.requests_and_updates import Payload, ProfileCorrected, RetryScheduled
from tests.wire import strict
from tests.wire.driving import (
    NOTE,
    SYSTEM,
    TOOLS,
    USER,
    called,
    client_of,
    closing,
    failure_of,
    opening,
    response,
    updates_of,
)
from tests.wire.endpoints import CLOSING_SILENT, ENDPOINTS, REJECTS_MID_SYSTEM_400, REJECTS_MID_SYSTEM_500, Behaviour
from tests.wire.replies import Call, Reply, Turn, document, error
from tests.wire.server import WireServer

Build = Callable[[EndpointProfile], Payload]


def history(profile: EndpointProfile) -> Payload:
    """A request with a call in its history, written as the profile says."""
    rules = {"any": "call_" + "x" * 80, "max64": "c" * 64, "max40": "c" * 40, "alnum9": "abcdef123"}
    identity = rules[profile.tool_id]
    assistant, result = called(identity)
    assistant = {**assistant, "content": {"empty": "", "null": None, "absent": None}[profile.empty_content]}
    if profile.reasoning_echo == "required_on_calls":
        assistant["reasoning_content"] = ""
    if profile.call_extras_echo:
        assistant["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "s"}}
    if profile.tool_name_on_result:
        result = {**result, "name": "edit_file"}
    return Payload([SYSTEM, USER, assistant, result], TOOLS, max_tokens=100)


def beside(profile: EndpointProfile) -> Payload:
    assistant, result = called()
    text = "I edit." if profile.text_beside_calls else ""
    return Payload([SYSTEM, USER, {**assistant, "content": text}, result], TOOLS)


def interrupted(profile: EndpointProfile) -> Payload:
    """The user speaks after a tool, and the program before that."""
    first = (
        {**SYSTEM, "content": f"{SYSTEM['content']} {NOTE['content']}"} if profile.mid_system != "inline" else SYSTEM
    )
    between = [{"role": "assistant", "content": "(stopped)"}] if profile.bridge_tool_user else []
    note = [NOTE] if profile.mid_system == "inline" else []
    return Payload([first, USER, *called(), *between, *note, USER], TOOLS)


def refused_unless(message: str, accepted: Callable[[dict[str, Any]], bool], status: int = 400) -> Any:
    return lambda body: None if accepted(body) else error(status, message)


REFUSALS: dict[str, tuple[Any, ...]] = {
    "qwen": ([strict.qwen], closing, {}, {"mid_system": "fold_first"}),
    "llama.cpp, 500": ([strict.llama_cpp], closing, {}, {"mid_system": "fold_first"}),
    "mistral": ([strict.mistral], closing, {"tool_id": "alnum9"}, {"mid_system": "fold_first"}),
    "gemma2": ([strict.gemma2], closing, {}, {"mid_system": "fold_user"}),
    "both rungs of the ladder": ([strict.qwen, strict.gemma2], closing, {}, {"mid_system": "fold_user"}),
    "bedrock": ([strict.bedrock], closing, {}, {"tool_choice_none": "rejected"}),
    **{
        words: (
            [refused_unless(words, lambda body: "tool_choice" not in body, status)],
            closing,
            {},
            {"tool_choice_none": "rejected"},
        )
        for status, words in (
            (400, "Only a tool_choice of 'auto' is supported for this model."),
            (500, "Incompatible tool choice param submitted - {'type': 'none'}"),
        )
    },
    "stream_options": ([strict.unknown_fields], opening, {}, {"stream_usage": False}),
    "DashScope": (
        [refused_unless("The tool call is not supported.", lambda body: "tools" not in body)],
        opening,
        {},
        {"tools_supported": False},
    ),
    "no tools": ([strict.no_tools], opening, {}, {"tools_supported": False}),
    "max_tokens": ([strict.completion_tokens], history, {}, {"max_tokens_field": "max_completion_tokens"}),
    "max_completion_tokens": (
        [refused_unless("Unrecognized request argument: max_completion_tokens", lambda body: "max_tokens" in body)],
        history,
        {"max_tokens_field": "max_completion_tokens"},
        {"max_tokens_field": "max_tokens"},
    ),
    "long ids": ([strict.openai_fields], history, {}, {"tool_id": "max64"}),
    "ids of 80 before 40": ([strict.ids_of_at_most(40)], history, {}, {"tool_id": "max40"}),
    "ids of 64 before 40": ([strict.ids_of_at_most(40)], history, {"tool_id": "max64"}, {"tool_id": "max40"}),
    "a limit not named": ([strict.ids_of_at_most(40, named=False)], history, {}, {"tool_id": "max40"}),
    "mistral on vLLM": ([strict.mistral_template(400)], history, {}, {"tool_id": "alnum9"}),
    "mistral on llama.cpp": ([strict.mistral_template(500)], closing, {}, {"tool_id": "alnum9"}),
    "mistral on llama.cpp, in mid-conversation": (
        [strict.mistral_template(500), strict.llama_cpp],
        closing,
        {},
        {"tool_id": "alnum9", "mid_system": "fold_first"},
    ),
    "deepseek": ([strict.deepseek], history, {}, {"reasoning_echo": "required_on_calls"}),
    "gemini": ([strict.gemini], history, {}, {"call_extras_echo": True}),
    "parallel_tool_calls": (
        [refused_unless("Unknown parameter: parallel_tool_calls", lambda body: "parallel_tool_calls" not in body)],
        opening,
        {"parallel_tool_calls": False},
        {"parallel_tool_calls": None},
    ),
    "single calls, when splitting does not help": (
        [refused_unless("This model only supports single tool-calls at once!", lambda body: False)],
        history,
        {},
        None,
    ),
    "no empty content": (
        [
            refused_unless(
                "messages.2: all messages must have non-empty content",
                lambda body: body["messages"][2]["content"] is None,
            )
        ],
        history,
        {"tool_id": "max64"},
        {"empty_content": "null"},
    ),
    "no null content": (
        [
            refused_unless(
                "Input should be a valid string: messages.2.content: Input should be a valid string",
                lambda body: body["messages"][2]["content"] == "",
                422,
            )
        ],
        history,
        {"empty_content": "null"},
        {"empty_content": "empty"},
    ),
    "name on results": (
        [refused_unless("tool message: name is required", lambda body: "name" in body["messages"][3])],
        history,
        {},
        {"tool_name_on_result": True},
    ),
    "standard fields only": (
        [strict.unknown_fields],
        history,
        {"stream_usage": False, "reasoning_echo": "required_on_calls", "tool_name_on_result": True},
        {"reasoning_echo": "never", "tool_name_on_result": False},
    ),
    "the user after a tool": ([strict.alternating], interrupted, {}, {"bridge_tool_user": True}),
    "the user after a tool, and a system message between": (
        [strict.alternating, strict.qwen],
        interrupted,
        {},
        {"mid_system": "fold_first", "bridge_tool_user": True},
    ),
    "no text beside calls": (
        [
            refused_unless(
                "Assistant message must have either content or tool_calls, but not both.",
                lambda body: not body["messages"][2]["content"],
            )
        ],
        beside,
        {},
        {"text_beside_calls": False},
    ),
    "two lessons in one request": (
        [strict.qwen, strict.bedrock],
        closing,
        {},
        {"mid_system": "fold_first", "tool_choice_none": "rejected"},
    ),
}


@pytest.mark.parametrize(("validators", "build", "profile", "learned"), REFUSALS.values(), ids=list(REFUSALS))
async def test_a_refusal_changes_and_stores_the_profile(
    server: WireServer, validators: list[Any], build: Build, profile: dict[str, Any], learned: dict[str, Any] | None
) -> None:
    server.always(Turn("Hello"))
    server.insist(*validators)
    start = EndpointProfile(**profile)
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, start, cache=cache) as client:
        if learned is None:
            caught = await failure_of(updates_of(client, build))
            assert caught.kind is FailureKind.INVALID_REQUEST
            assert len(server.requests) == 2
            return
        updates = await updates_of(client, build)
        assert response(updates).text == "Hello"
        assert client.profile == start.model_copy(update=learned)
        corrections = [update for update in updates if isinstance(update, ProfileCorrected)]
        assert corrections and all(update.notice for update in corrections)
        assert corrections[-1].profile == client.profile
        assert not any(isinstance(update, RetryScheduled) for update in updates)
        sent = len(server.requests)
        await updates_of(client, build)
        assert len(server.requests) == sent + 1
    stored = cache[profile_cache_key(server.base_url, "test-model")]
    assert {field: value for field, value in stored.items() if field != "learned_at"} == learned
    assert stored["learned_at"].keys() == learned.keys()
    assert resolve_profile(server.base_url, "test-model", cache=cache) == EndpointProfile().model_copy(update=learned)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
async def test_at_most_one_closing_request_is_answered(server: WireServer, endpoint: Behaviour) -> None:
    server.behave(endpoint)
    server.always(Turn(calls=(Call("edit_file", {"path": "b.py"}),)))
    async with client_of(server, timeouts=Timeouts(closing=0.3 if endpoint is CLOSING_SILENT else 30)) as client:
        try:
            completed = response(await updates_of(client, closing, closing=True))
        except RequestError as failed:
            assert failed.kind in (FailureKind.RATE_LIMITED, FailureKind.STREAM_BROKEN)
            assert len(server.requests) == 2
        else:
            assert len(server.requests) <= 2
            learned = {"ignores tool_choice": "ignored", "rejects tool_choice": "rejected"}.get(endpoint.name)
            assert bool(completed.calls) == (learned is not None)
            assert client.profile.tool_choice_none == (learned or EndpointProfile().tool_choice_none)
    tail = server.last.messages
    assert server.last.body["tools"] == TOOLS
    if endpoint not in (REJECTS_MID_SYSTEM_400, REJECTS_MID_SYSTEM_500):
        assert [message["role"] for message in tail][-2:] == ["tool", "system"] and tail[-1] == NOTE
    else:
        assert NOTE["content"] in tail[0]["content"]
    assert server.last.closing == (client.profile.tool_choice_none != "rejected")


@pytest.mark.parametrize(
    "message",
    [
        "Jinja Exception: System message must be at the beginning.",
        "System role not supported",
        "stream_options is unknown and so is tool_choice; tools are not supported; max_tokens invalid",
        "everything is invalid: reasoning_content missing, thought_signature missing, content must not be empty",
    ],
)
async def test_the_error_of_a_server_that_refuses_everything_is_shown(server: WireServer, message: str) -> None:
    server.insist(refused_unless(message, lambda body: False))
    async with client_of(server) as client:
        with pytest.raises(RequestError) as caught:
            await updates_of(client, lambda profile: Payload(closing(profile).messages, TOOLS, "none", 100))
    assert message in caught.value.message
    assert len(server.requests) <= 8


@pytest.mark.parametrize(
    ("words", "build"),
    [
        ("roles must alternate", opening),
        ("max_tokens: 9000 is more than this model writes", lambda profile: Payload([USER], TOOLS, max_tokens=9000)),
        # Every error of OpenAI's is an `invalid_request_error`: that does not make the field it names an invalid one.
        ("tool_choice: try later", closing),
    ],
)
async def test_an_error_beyond_correction_changes_no_profile(server: WireServer, words: str, build: Build) -> None:
    server.always(error(400, words, kind="invalid_request_error"))
    async with client_of(server) as client:
        await failure_of(updates_of(client, build), words)
        assert client.profile == EndpointProfile()
    assert len(server.requests) == 1


NESTED = '{"object":"error","message":"Unexpected role \'system\' after role \'tool\'","type":"invalid_request"}'
UPSTREAM = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": NESTED}}}


@pytest.mark.parametrize(
    ("validators", "first", "learned", "sent"),
    [
        ([], error(429, "tool_choice is not supported at this rate"), {}, 2),
        ([], document(UPSTREAM, status=400), {"mid_system": "fold_first"}, 2),
        ([strict.qwen], error(503, "Busy"), {"mid_system": "fold_first"}, 3),
    ],
    ids=["a rate limit", "a nested error", "a temporary failure after a correction"],
)
async def test_only_what_a_refusal_says_is_learned_beside_other_failures(
    server: WireServer, validators: list[Any], first: Reply, learned: dict[str, Any], sent: int
) -> None:
    server.insist(*validators)
    server.script([first, Turn("Hi")])
    async with client_of(server) as client:
        await updates_of(client, closing)
        assert client.profile == EndpointProfile(**learned)
    assert len(server.requests) == sent


async def test_without_settings_a_request_has_only_the_standard_fields_and_no_empty_tools(server: WireServer) -> None:
    server.always(Turn("Hi"))
    async with client_of(server) as client:
        await updates_of(client, lambda profile: Payload([USER], [], "none"))
        await updates_of(client, opening)
    assert "tool_choice" not in server.requests[0].body and "tools" not in server.requests[0].body
    assert server.last.body.keys() == {"model", "messages", "stream", "stream_options", "tools"}
    assert server.last.body["tools"] == TOOLS


def of_server(name: str, kind: str = "string") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"x": {"type": kind}}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


SERVED = [*TOOLS, of_server("files__good"), of_server("mail__send", "bad"), of_server("mail__read", "bad")]


def serving(profile: EndpointProfile) -> Payload:
    return Payload([SYSTEM, USER], filter_accepted_tools(SERVED, profile.refused_tools))


def bad_schemas(message: str) -> Any:
    """Refuses the first bad schema of a request, as vendors say it."""

    def validate(body: dict[str, Any]) -> Any:
        for at, tool in enumerate(body["tools"]):
            function = tool["function"]
            if function["parameters"]["properties"].get("x", {}).get("type") == "bad":
                return error(400, message.format(name=function["name"], at=at))
        return None

    return validate


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for function '{name}': 'bad' is not valid under any of the given schemas.",
        "tools.{at}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        "* GenerateContentRequest.tools[0].function_declarations[{at}].parameters.properties[x].type: invalid value",
        "[{{'type': 'enum', 'loc': ('body', 'tools', {at}, 'function', 'parameters')}}]",
        "tools.function.parameters is not a valid moonshot flavored json schema, <At path 'properties.x': bad>",
    ],
    ids=["named", "Anthropic", "Gemini", "pydantic", "Moonshot"],
)
async def test_an_mcp_tool_with_a_refused_schema_is_left_out(server: WireServer, message: str) -> None:
    server.always(Turn("Hello"))
    server.insist(bad_schemas(message))
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, EndpointProfile(), cache=cache) as client:
        updates = await updates_of(client, serving)
        sent = len(server.requests)
        assert server.last.body["tools"] == SERVED[:3]
        notices = " ".join(one.notice for one in updates if isinstance(one, ProfileCorrected))
        assert "does not accept the schema" in notices and "mail" in notices and "files" not in notices
        await updates_of(client, serving)
        assert len(server.requests) == sent + 1, "it is remembered"
        mended = [*SERVED[:-1], of_server("mail__read")]
        assert filter_accepted_tools(mended, client.profile.refused_tools) == [*SERVED[:3], mended[-1]]


async def test_servers_with_refused_schemas_are_left_out_together_if_none_is_named(server: WireServer) -> None:
    server.always(Turn("Hello"))
    server.insist(bad_schemas("tools.function.parameters is not a valid moonshot flavored json schema"))
    served = [*SERVED, of_server("news__read", "bad")]
    async with client_of(server, EndpointProfile()) as client:
        await updates_of(
            client, lambda profile: Payload([USER], filter_accepted_tools(served, profile.refused_tools))
        )
    assert server.last.body["tools"] == TOOLS


@pytest.mark.parametrize(
    "message", ["Invalid schema for function 'read_file'", "tools.0.custom.input_schema: invalid"]
)
async def test_a_built_in_tool_is_never_left_out(server: WireServer, message: str) -> None:
    server.insist(lambda body: error(400, message))
    async with client_of(server, EndpointProfile()) as client:
        await failure_of(updates_of(client, serving))
        assert all(len(request.body["tools"]) == len(SERVED) for request in server.requests)


def alternates(body: dict[str, Any]) -> bool:
    return all(message["role"] != "system" for message in body["messages"])


@pytest.mark.parametrize(
    ("validator", "words", "sent"),
    [
        # A template's error names no reason that anyone knows: in place, joined to the first, in the user's words.
        (refused_unless("Jinja Exception: Unknown test 'mapping'", lambda body: False, 500), "Unknown test", 3),
        (strict.qwen, "Expired", 2),
    ],
    ids=["no placement helps", "another error after it"],
)
async def test_a_request_that_fails_changes_no_profile(
    server: WireServer, validator: Any, words: str, sent: int
) -> None:
    server.insist(validator)
    server.always(error(401, "Expired", code="invalid_api_key"))
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, cache=cache) as client:
        await failure_of(updates_of(client, closing), words)
        assert client.profile == EndpointProfile()
    assert not cache
    assert len(server.requests) == sent


async def test_only_the_placement_that_helps_is_kept(server: WireServer) -> None:
    server.insist(refused_unless("Jinja Exception: roles must alternate", alternates))
    server.always(Turn("Hello"))
    async with client_of(server) as client:
        updates = await updates_of(client, closing)
        assert client.profile == EndpointProfile(mid_system="fold_user")
    told = [update.notice for update in updates if isinstance(update, ProfileCorrected)]
    assert len(told) == 1 and "user's messages" in told[0]


async def test_a_request_that_fails_after_two_corrections_changes_no_profile(server: WireServer) -> None:
    """What a request must have learned by the time of its second correction stays when the third is in vain."""
    server.insist(strict.mistral_template(400), refused_unless("Jinja Exception: no", lambda body: False))
    async with client_of(server) as client:
        await failure_of(updates_of(client, closing), "Jinja Exception: no")
        assert client.profile == EndpointProfile()
    sent = [request.body["messages"] for request in server.requests]
    calls = [call["id"] for messages in sent for one in messages for call in one.get("tool_calls", ())]
    assert calls[0] == "call_1" and set(calls[1:]) == {"abcdef123"}


def groq(**fields: Any) -> Reply:
    return error(400, "Tool choice is none, but model called a tool", kind="invalid_request_error", **fields)


@pytest.mark.parametrize(
    "reply",
    [
        groq(code="tool_use_failed", failed_generation='{"name": "edit_file", "arguments": {}}'),
        groq(code="tool_use_failed"),
        groq(),
    ],
)
async def test_a_call_of_the_model_despite_none_is_no_refusal_of_the_server(server: WireServer, reply: Reply) -> None:
    server.always(reply)
    async with client_of(server) as client:
        caught = await failure_of(updates_of(client, closing, closing=True))
        assert caught.kind is FailureKind.TOOL_USE_FAILED
        assert client.profile == EndpointProfile(tool_choice_none="fails")
        server.always(Turn("Hello"))
        assert response(await updates_of(client, closing, closing=True)).text == "Hello"
    assert len(server.requests) == 2 and all(request.closing for request in server.requests)


async def test_tools_are_offered_again_after_an_hour(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
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
