"""Which wire an endpoint is spoken to on, what it teaches about that, and what its streams may look like."""

import json
from typing import Any, Literal

import pytest
from pydantic import SecretStr

from app.copies import replace
from app.llm.capabilities.profiles import resolve_profile
from app.llm.client import ModelClient
from app.llm.endpoint_doctor import DoctorCheckResult, EndpointDiagnosis, examine_endpoint
from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, ProfileCorrected, ResponseCompleted, StreamUpdate
from app.llm.wires.wire import CallWithResult, ModelTurn, OpaqueResponseBlocks, UserItem
from app.llm.wires.wire_registry import WIRES, wire_for
from tests.wire.driving import BRISK, FAST, asking, failure_of
from tests.wire.replies import Call, Reply, Turn, document, stream
from tests.wire.server import WireServer
from tests.wire.vendors import NOT_THERE, ONLY_RESPONSES, VENDORS, Vendor, anthropic_error, named

each_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))


class Talk:
    def __init__(
        self, server: WireServer, wire: Any = "chat", cache: dict[str, dict[str, Any]] | None = None
    ) -> None:
        endpoint = Endpoint(server.base_url, "test-model", SecretStr("secret key"))
        self.client = ModelClient(endpoint, EndpointProfile(wire=wire), retry=FAST, timeouts=BRISK, cache=cache)
        self.updates: list[StreamUpdate] = []

    async def ask(self, build: Any = None) -> ResponseCompleted:
        try:
            self.updates = [update async for update in self.client.stream(build or asking())]
        finally:
            await self.client.aclose()
        completed = self.updates[-1]
        assert isinstance(completed, ResponseCompleted)
        return completed

    @property
    def told(self) -> list[str]:
        return [update.notice for update in self.updates if isinstance(update, ProfileCorrected)]


@pytest.mark.parametrize(
    ("base_url", "wire", "path"),
    [
        ("https://api.openai.com/v1", "responses", "/responses"),
        ("https://api.anthropic.com", "anthropic", "/v1/messages"),
        ("https://api.anthropic.com/v1/", "anthropic", "/messages"),
        ("https://api.deepseek.com/anthropic", "anthropic", "/v1/messages"),
        ("https://api.moonshot.ai/anthropic/v1", "anthropic", "/messages"),
        ("https://api.deepseek.com", "chat", "/chat/completions"),
        ("https://openrouter.ai/api/v1", "chat", "/chat/completions"),
        ("http://localhost:11434/v1", "chat", "/chat/completions"),
        ("https://anthropic.example.com/v1", "chat", "/chat/completions"),
        ("https://example.com/anthropic/more", "chat", "/chat/completions"),
    ],
)
def test_the_address_decides_the_wire(base_url: str, wire: str, path: str) -> None:
    profile = resolve_profile(base_url, "m")
    assert (profile.wire, wire_for(profile).request_path(base_url)) == (wire, path)


def test_the_users_wire_setting_wins_and_anthropics_chat_layer_keeps_its_placement() -> None:
    for name in WIRES:
        assert resolve_profile("https://api.anthropic.com/v1", "m", overrides={"wire": name}).wire == name
    assert resolve_profile("https://api.anthropic.com/v1", "m", overrides={"wire": "chat"}).mid_system == "fold_first"
    assert resolve_profile("https://api.anthropic.com/v1", "m").mid_system == "inline"


async def test_a_404_that_names_responses_changes_the_wire(server: WireServer) -> None:
    server.wires = {**server.wires, "chat": ONLY_RESPONSES}
    server.always(Turn("Done."))
    cache: dict[str, dict[str, Any]] = {}
    talk = Talk(server, cache=cache)
    assert (await talk.ask()).text == "Done."
    assert [request.wire for request in server.requests] == ["chat", "responses"]
    assert len(talk.told) == 1 and "Responses" in talk.told[0]
    await talk.ask()
    assert talk.told == [] and server.last.wire == "responses"
    assert resolve_profile(server.base_url, "test-model", cache=cache).wire == "responses"


async def test_without_responses_chat_completions_are_used(server: WireServer) -> None:
    server.wires = {**server.wires, "responses": NOT_THERE}
    server.always(Turn("Done."))
    talk = Talk(server, "responses")
    assert (await talk.ask()).text == "Done."
    assert [request.wire for request in server.requests] == ["responses", "chat"]
    assert talk.client.profile.wire == "chat" and len(talk.told) == 1


async def test_a_server_without_both_wires_keeps_chat_and_shows_its_error(server: WireServer) -> None:
    server.wires = {"chat": ONLY_RESPONSES, "responses": NOT_THERE, "anthropic": NOT_THERE}
    talk = Talk(server)
    await failure_of(talk.ask())
    assert len(server.requests) <= 3
    assert talk.client.profile.wire == "chat"


async def test_anthropics_key_and_version_are_sent_in_its_own_headers(server: WireServer) -> None:
    server.require_key("secret key")
    server.always(Turn("Done."))
    talk = Talk(server, "anthropic")
    await talk.ask()
    headers = server.last.headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("secret key", "2023-06-01")
    assert "authorization" not in headers
    assert [model.id for model in await talk.client.list_models()] == ["test-model"]
    await talk.client.aclose()
    assert server.visits[-1].headers["x-api-key"] == "secret key"


REFUSALS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "anthropic",
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude",
        {"output_limit": 8192},
    ),
    ("anthropic", "messages.1.content.0: Invalid `signature` in `thinking` block", {"opaque_echo": False}),
    ("anthropic", "system.0.cache_control: Extra inputs are not permitted", {"cache_breakpoints": False}),
    ("responses", "Encrypted content is not supported with this model.", {"opaque_echo": False}),
    (
        "responses",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        {"opaque_echo": False},
    ),
]
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "opaque"}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"}
ECHOED = OpaqueResponseBlocks(
    same_model=True,
    extras={
        "opaque_blocks": [
            {"wire": wire, "at": 0, "block": block} for wire, block in (("anthropic", SIGNED), ("responses", SEALED))
        ]
    },
)


@pytest.mark.parametrize(("wire", "words", "learned"), REFUSALS)
async def test_refusals_on_each_wire_are_learned(
    server: WireServer, wire: str, words: str, learned: dict[str, Any]
) -> None:
    server.script([VENDORS[wire].error(400, words), Turn("Done.")])
    talk = Talk(server, wire)
    await talk.ask(asking(ModelTurn("Done.", echo=ECHOED), UserItem("More.")))
    before, after = (request.body for request in server.requests)
    assert talk.client.profile == EndpointProfile(wire=wire, **learned)  # type: ignore[arg-type]
    assert len(talk.told) == 1
    assert after.get("max_tokens") == 8192 or "output_limit" not in learned
    if "opaque_echo" in learned:
        assert "opaque" in json.dumps(before) and "opaque" not in json.dumps(after)
        assert "include" not in after
    if "cache_breakpoints" in learned:
        assert "cache_control" in json.dumps(before) and "cache_control" not in json.dumps(after)


@pytest.mark.parametrize(
    ("status", "kind", "words", "expected"),
    [
        (401, "authentication_error", "invalid x-api-key", FailureKind.AUTH),
        (404, "not_found_error", "model: claude-nope", FailureKind.MODEL_NOT_FOUND),
        (400, "invalid_request_error", "Your credit balance is too low to access the API", FailureKind.QUOTA),
        (413, "request_too_large", "Request exceeds the maximum size", FailureKind.CONTEXT_FULL),
        (429, "rate_limit_error", "This request would exceed your rate limit", FailureKind.RATE_LIMITED),
        (529, "overloaded_error", "Overloaded", FailureKind.SERVER_ERROR),
    ],
)
async def test_anthropics_errors_have_the_right_kind(
    server: WireServer, status: int, kind: str, words: str, expected: FailureKind
) -> None:
    server.always(anthropic_error(status, words, kind))
    talk = Talk(server, "anthropic")
    with pytest.raises(RequestError) as raised:
        await talk.ask()
    assert raised.value.kind is expected and words in str(raised.value)


FAILED: dict[str, tuple[str, Reply]] = {
    "an error of status 200": ("anthropic", anthropic_error(200, "Overloaded", "overloaded_error")),
    "an error of several lines": (
        "anthropic",
        document(json.dumps({"type": "error", "error": {"type": "api_error", "message": "Overloaded"}}, indent=1)),
    ),
    "a response that failed": (
        "responses",
        stream(
            named({"type": "response.created", "response": {"model": "m"}}),
            named({"type": "response.failed", "response": {"status": "failed", "error": {"message": "Overloaded"}}}),
        ),
    ),
    "one that does not say why": (
        "responses",
        stream(named({"type": "response.failed", "response": {"status": "failed", "error": None}})),
    ),
    "one that is not streamed": (
        "responses",
        document({"object": "response", "status": "failed", "output": [], "error": {"message": "Overloaded"}}),
    ),
}


@pytest.mark.parametrize("kind", FAILED)
async def test_a_failed_response_on_each_wire_is_an_error(server: WireServer, kind: str) -> None:
    wire, reply = FAILED[kind]
    server.always(reply)
    talk = Talk(server, wire)
    with pytest.raises(RequestError, match="The response failed" if "why" in kind else "Overloaded") as raised:
        await talk.ask()
    assert "no model response" not in raised.value.message


A_CALL = (Call("edit_file", {"path": "é.py"}),)


def _messages(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3}
    return {"type": "message", "role": "assistant", "content": list(content), "usage": usage, "model": "m", **more}


THINKING = {"type": "thinking", "thinking": "hm"}
TEXT = {"type": "text", "text": "Hi."}
TOOL_USE = {"type": "tool_use", "id": "t1", "name": "edit_file", "input": {"path": "é.py"}}
SPOKEN = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
FUNCTION_CALL = {"type": "function_call", "call_id": "t1", "name": "edit_file", "arguments": '{"path": "é.py"}'}
COUNTS = {"input_tokens": 7, "output_tokens": 3}


def blocks(*contents: dict[str, Any]) -> list[bytes]:
    """The events of blocks that come whole."""
    return [
        named({"type": f"content_block_{kind}", "index": at, **more})
        for at, content in enumerate(contents)
        for kind, more in (("start", {"content_block": content}), ("stop", {}))
    ]


ODD: dict[str, tuple[str, Reply]] = {
    "a message that is not streamed": (
        "anthropic",
        document(_messages({**THINKING, "signature": "s"}, TEXT, TOOL_USE, stop_reason="tool_use")),
    ),
    "arguments with the beginning of the block": (
        "anthropic",
        stream(
            named({"type": "message_start", "message": _messages()}),
            *blocks(THINKING, TEXT, TOOL_USE),
            named({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
        ),
    ),
    "no ends of blocks": (
        "anthropic",
        stream(
            *blocks({**THINKING, "signature": "s"}, TEXT, TOOL_USE)[::2],
            named({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": COUNTS}),
        ),
    ),
    "a response that is not streamed": (
        "responses",
        document(
            {
                "object": "response",
                "status": "completed",
                "model": "m",
                "output": [
                    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "s"},
                    SPOKEN,
                    FUNCTION_CALL,
                ],
                "usage": COUNTS,
            }
        ),
    ),
    "items that come whole": (
        "responses",
        stream(
            *(
                named({"type": "response.output_item.done", "output_index": at, "item": item})
                for at, item in enumerate([{**SPOKEN, "phase": "final"}, FUNCTION_CALL])
            ),
            named({"type": "response.completed", "response": {"status": "completed", "usage": COUNTS}}),
        ),
    ),
}


@pytest.mark.parametrize("kind", ODD)
async def test_text_missing_in_the_deltas_is_taken_from_the_final_event(server: WireServer, kind: str) -> None:
    wire, reply = ODD[kind]
    server.script([reply])
    talk = Talk(server, wire)
    completed = await talk.ask()
    assert (completed.text, completed.truncated, completed.finish_reason) == ("Hi.", False, "tool_calls")
    assert [(call.wire_id, call.name, call.arguments) for call in completed.calls] == [
        ("t1", "edit_file", {"path": "é.py"})
    ]
    assert completed.usage is not None
    assert (completed.usage.prompt_tokens, completed.usage.completion_tokens) == (7, 3)
    kept = completed.extras.get("opaque_blocks", ())
    assert {entry["at"] for entry in kept if "phase" not in entry["block"]} <= {0}


async def test_text_after_a_call_of_anthropic_begins_a_paragraph(server: WireServer) -> None:
    server.script([stream(*blocks(TEXT, TOOL_USE, {**TEXT, "text": "Ho."}), named(TOOL_USE_END))])
    assert (await Talk(server, "anthropic").ask()).text == "Hi.\n\nHo."


def call_events(call_id: str, *pieces: str, **index: int) -> list[dict[str, Any]]:
    """The beginning of a call of Responses, its arguments in pieces, and its end."""
    item = {**FUNCTION_CALL, "call_id": call_id}
    delta = {"type": "response.function_call_arguments.delta", "item_id": call_id, **index}
    return [
        {"type": "response.output_item.added", "item": {**item, "arguments": ""}, **index},
        *({**delta, "delta": piece} for piece in pieces),
        {"type": "response.output_item.done", "item": {**item, "arguments": "".join(pieces)}, **index},
    ]


def block_events(index: int, arguments: str, **block: Any) -> list[dict[str, Any]]:
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return [
        {"type": "content_block_start", "index": index, "content_block": {**TOOL_USE, "input": {}, **block}},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def ending(*output: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": output}}


def mixed(first: list[Any], second: list[Any]) -> list[Any]:
    return [event for pair in zip(first, second, strict=True) for event in pair]


A, B = '{"path": "a"}', '{"path": "b"}'
FIRST, SECOND = call_events("t1", A[:5], A[5:]), call_events("t2", B[:3], B[3:])
TEXT_DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi."}
WHOLE = {"type": "response.function_call_arguments.done"}
USES = block_events(0, A, id="t1"), block_events(1, B, id="t2")
WHOLE_USES = [block_events(at, "", id=f"t{at + 1}", input=json.loads((A, B)[at]))[0] for at in (0, 1)]
"""Each call in one event, with its arguments."""
SERVER_TOOL = block_events(7, '{"query": "x"}', type="server_tool_use")
TOOL_USE_END = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
TWO_CALLS: dict[str, list[dict[str, Any]]] = {
    "no output index": [*FIRST, *SECOND, ending()],
    "no output index, interleaved": [*mixed(FIRST, SECOND), ending()],
    "no output index, items that come whole": [FIRST[-1], SECOND[-1], ending()],
    "one output index for all": [
        *call_events("t1", A, output_index=0),
        call_events("t2", B, output_index=0)[-1],
        ending(),
    ],
    "arguments only in their last event": [
        *(FIRST[0], {**WHOLE, "item_id": "t1", "arguments": A}),
        *(SECOND[0], {**WHOLE, "item_id": "t2", "arguments": B}),
        ending(),
    ],
    "calls only in the last event": [TEXT_DELTA, ending(SPOKEN, FIRST[-1]["item"], SECOND[-1]["item"])],
    "arguments as objects": [
        ending(
            *({**one["item"], "arguments": json.loads(one["item"]["arguments"])} for one in (FIRST[-1], SECOND[-1]))
        )
    ],
    "interleaved blocks": [*mixed(*USES), TOOL_USE_END],
    "blocks with another index in their deltas": [
        *({**event, "index": 9} if event["type"].endswith("delta") else event for use in USES for event in use),
        TOOL_USE_END,
    ],
    "no ends of blocks": [*WHOLE_USES, TOOL_USE_END],
    "no ends of blocks, all with one index": [*({**use, "index": 0} for use in WHOLE_USES), TOOL_USE_END],
    "a tool of the server between them": [*USES[0], *SERVER_TOOL, *USES[1], TOOL_USE_END],
}


@pytest.mark.parametrize("kind", TWO_CALLS)
async def test_each_call_of_an_odd_stream_gets_its_arguments(server: WireServer, kind: str) -> None:
    events = TWO_CALLS[kind]
    server.script([stream(*map(named, events))])
    completed = await Talk(server, "anthropic" if events[-1] is TOOL_USE_END else "responses").ask()
    assert [(call.wire_id, call.arguments) for call in completed.calls] == [
        ("t1", {"path": "a"}),
        ("t2", {"path": "b"}),
    ]
    assert (completed.finish_reason, completed.truncated) == ("tool_calls", False)


async def test_two_messages_of_one_response_are_two_paragraphs(server: WireServer) -> None:
    second = [{**TEXT_DELTA, "output_index": 2, "delta": piece} for piece in ("By", "e.")]
    whole = {"type": "response.output_item.done", "output_index": 0, "item": SPOKEN}
    server.script(
        [
            stream(*map(named, [TEXT_DELTA, whole, *second, ending()])),
            document({"object": "response", "status": "completed", "output": [SPOKEN, SPOKEN]}),
        ]
    )
    assert (await Talk(server, "responses").ask()).text == "Hi.\n\nBye."
    assert (await Talk(server, "responses").ask()).text == "Hi.\n\nHi."


@each_vendor
@pytest.mark.parametrize("pieces", [1, 4, 1000])
async def test_a_stream_may_be_split_at_any_place(server: WireServer, vendor: Vendor, pieces: int) -> None:
    calls = (*A_CALL, Call("read_file", "{}"), Call("edit_file", '{"path": '))
    server.script([Turn("Zwei Wörter.", calls, reasoning="Hm, two.", pieces=pieces)])
    talk = Talk(server, vendor.name)
    completed = await talk.ask()
    assert (completed.text, completed.reasoning) == ("Zwei Wörter.", "Hm, two.")
    assert [call.arguments for call in completed.calls] == [{"path": "é.py"}, {}, None]
    assert [entry["at"] for entry in completed.extras["opaque_blocks"]] == [0]


@each_vendor
@pytest.mark.parametrize("believed", ["inline", "fold_first"])
async def test_the_doctor_examines_each_wire_and_names_it(
    server: WireServer, vendor: Vendor, believed: Literal["inline", "fold_first"]
) -> None:
    def model(request: Any) -> Turn:
        said = " ".join(text for role, text in request.said if role in ("system", "user"))
        if "heron" in said:
            return Turn("Heron.")
        return Turn(calls=(Call("report", {"word": "ok"}),)) if "Call the tool" in said else Turn("ok")

    server.model(model)
    endpoint = Endpoint(f"{server.url}/anthropic" if vendor.name == "anthropic" else server.base_url, "test-model")
    profile = resolve_profile(
        endpoint.base_url, "test-model", overrides={"wire": vendor.name, "mid_system": believed}
    )
    *checks, diagnosis = [found async for found in examine_endpoint(endpoint, profile, timeouts=BRISK)]
    assert isinstance(diagnosis, EndpointDiagnosis)
    found = {check.name: check for check in checks if isinstance(check, DoctorCheckResult)}
    assert {name: check.ok for name, check in found.items()} == dict.fromkeys(found, True)
    assert wire_for(profile).title in found["wire"].detail and "`wire`" in found["wire"].detail
    assert {request.wire for request in server.requests} == {vendor.name}
    # What is taken and followed in mid-conversation leaves the prompt in the cache.
    assert (diagnosis.profile.wire, diagnosis.profile.mid_system) == (vendor.name, "inline")


def test_each_call_is_sent_after_its_reasoning() -> None:
    """Interleaved: what led to a call stands right before it."""
    blocks = [
        {"wire": "responses", "at": at, "block": {"type": "reasoning", "id": f"r{at}", "encrypted_content": "s"}}
        for at in (0, 1, 2, 3)
    ]
    calls = tuple(CallWithResult(f"c{number}", "read_file", "{}", "ok") for number in (1, 2))
    turn = ModelTurn("Hi.", calls, OpaqueResponseBlocks(same_model=True, extras={"opaque_blocks": blocks}))
    messages, _ = WIRES["responses"].make_messages([UserItem("x"), turn], EndpointProfile(wire="responses"))
    shown = [one.get("id") or one.get("call_id") or one["content"] for one in messages]
    assert shown == ["x", "r0", "Hi.", "r1", "c1", "r2", "c2", "c1", "c2"]
    # Reasoning that led to nothing is refused.
    messages, _ = WIRES["responses"].make_messages(
        [UserItem("x"), replace(turn, text=" ", calls=())], EndpointProfile()
    )
    assert [one["content"] for one in messages] == ["x"]
