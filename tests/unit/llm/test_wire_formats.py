"""The wires by themselves: addresses, what is written for a turn, what events, lists of models and failures mean."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.copies import replace
from app.llm.capabilities.corrections import find_correction
from app.llm.capabilities.model_list import parse_model_list
from app.llm.failures.request_errors import Failure, FailureKind
from app.llm.values.endpoint import EndpointProfile, host_and_port, is_private, split_base_url_and_secrets
from app.llm.values.requests_and_updates import Endpoint, Payload
from app.llm.wires.wire import CallWithResult, Item, ModelTurn, OpaqueResponseBlocks, SystemItem, UserItem
from app.llm.wires.wire_registry import WIRES

CALL = CallWithResult("c1", "read_file", "{}", "ok")


def delta(added: Any) -> dict[str, Any]:
    return dict(added["choices"][0]["delta"])


@pytest.mark.parametrize("calls", [(), (CALL,)], ids=["answer", "call"])
def test_reasoning_is_not_sent_if_the_profile_forbids_it(calls: tuple[CallWithResult, ...]) -> None:
    echo = OpaqueResponseBlocks(same_model=True, reasoning="Hm.", extras={"reasoning_details": [{"text": "Hm."}]})
    turn = ModelTurn("Hi.", calls, echo)
    for wanted in ("never", "same_model"):
        messages, _ = WIRES["chat"].make_messages(
            [UserItem("x"), turn], EndpointProfile.model_validate({"reasoning_echo": wanted})
        )
        assert ("reasoning_details" in messages[1]) == (wanted != "never")


def test_system_text_inside_the_conversation_keeps_its_position() -> None:
    items: list[Item] = [
        SystemItem("You are signoff."),
        UserItem("x"),
        ModelTurn("", (CALL,), OpaqueResponseBlocks()),
        SystemItem("Stop here."),
    ]
    written = WIRES["anthropic"].make_messages(items, EndpointProfile(wire="anthropic"))
    assert "Stop here." not in str(written.system) and "You are signoff." in str(written.system)
    assert "Stop here." in str(written.messages[-1])


def test_an_empty_text_block_does_not_change_positions() -> None:
    decoder = WIRES["anthropic"].make_decoder()
    for block in ({"type": "text", "text": ""}, {"type": "text", "text": None}):
        assert decoder.read_event({"type": "content_block_start", "content_block": block}) == {}
    decoder.read_event({"type": "content_block_start", "content_block": {"type": "thinking", "signature": "s"}})
    added = delta(decoder.read_event({"type": "content_block_stop"}))
    assert [entry["at"] for entry in added["opaque_blocks"]] == [0]


@pytest.mark.parametrize("piece", ["", None, 7, {}])
def test_an_empty_delta_keeps_the_final_text(piece: Any) -> None:
    decoder = WIRES["responses"].make_decoder()
    assert decoder.read_event({"type": "response.output_text.delta", "output_index": 0, "delta": piece}) == {}
    item = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
    whole = decoder.read_event({"type": "response.output_item.done", "output_index": 0, "item": item})
    assert delta(whole) == {"content": "Hi."}


def test_an_incomplete_response_has_its_finish_reason() -> None:
    for details, reason in (
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "content_filter"),
        ({}, "length"),
        (None, "length"),
    ):
        event = {"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": details}}
        added: Any = WIRES["responses"].make_decoder().read_event(event)
        assert added["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize(
    ("entry", "takes"),
    [
        ({"architecture": {"input_modalities": ["text", "image"]}}, True),
        ({"supported_input_modalities": ["text"], "vision": True}, False),
        ({"modalities": [], "vision": True}, True),
        ({"capabilities": {"vision": False}, "supports_vision": None}, False),
        ({"capabilities": {"image_input": {"supported": True}}}, True),
        ({"capabilities": {"image_input": {"supported": "yes"}}, "supports_image_input": False}, False),
        ({"modalities": "text", "vision": 1}, None),
        ({}, None),
    ],
)
def test_whether_a_model_takes_images(entry: dict[str, Any], takes: bool | None) -> None:
    models = parse_model_list({"data": [{"id": "m", **entry}]})
    assert models is not None
    assert [(model.id, model.takes_images) for model in models] == [("m", takes)]


WORD = st.text("abcXYZ019-_.~%:", min_size=6, max_size=20)


@pytest.mark.parametrize(
    ("given_url", "url", "bare", "query"),
    [
        ("http://localhost:1/v1", "http://localhost:1/v1", "http://localhost:1/v1", {}),
        (" http://x/v1/ ", "http://x/v1/", "http://x/v1/", {}),
        ("https://u:p@x/v1", "https://x/v1", "https://x/v1", {}),
        ("https://x/v1?api-version=1", "https://x/v1?api-version=1", "https://x/v1", {"api-version": "1"}),
        ("https://x/v1?key=abc", "https://x/v1", "https://x/v1", {"key": "abc"}),
        ("https://x/v1?a=1&Access_Token=t&b=", "https://x/v1?a=1&b=", "https://x/v1", {"a": "1", "b": ""}),
        ("nonsense", "nonsense", "nonsense", {}),
        ("HTTPS://X/v1#a", "HTTPS://X/v1#a", "HTTPS://X/v1#a", {}),
        ("http://u:p@[::1/v1?key=1", "http://[::1/v1", "http://[::1/v1", {}),
        ("", "", "", {}),
    ],
)
def test_the_parts(given_url: str, url: str, bare: str, query: dict[str, str]) -> None:
    address = split_base_url_and_secrets(given_url)
    assert (address.url, address.url_without_query) == (url, bare)
    assert query.items() <= address.query.items()
    assert bool(address.authorization) == ("u:p@x" in given_url)


@pytest.mark.parametrize(
    ("base_url", "host"),
    [
        ("https://Models.example/v1", "models.example"),
        (" http://user:pw@localhost:11434/v1?key=k#f ", "localhost:11434"),
        ("https://a@b@[::1]:8080/k", "[::1]:8080"),
        ("localhost:1/v1", ""),
        ("https://[broken", ""),
        ("", ""),
    ],
)
def test_the_record_keeps_only_the_host_of_an_address(base_url: str, host: str) -> None:
    assert host_and_port(base_url) == host


@given(WORD, WORD, WORD)
def test_the_visible_address_contains_no_secret(user: str, password: str, key: str) -> None:
    endpoint = Endpoint(
        f"https://{user.replace(':', '')}:@host/v1?token=Q{key}Q".replace(":@", f":Q{password}Q@"), "m"
    )
    assert f"Q{password}Q" not in endpoint.base_url + repr(endpoint)
    assert f"Q{key}Q" not in endpoint.base_url + repr(endpoint)
    assert endpoint.base_url == "https://host/v1"
    assert endpoint.address.authorization.startswith("Basic ")
    assert endpoint.address.query.keys() == {"token"}


@pytest.mark.parametrize(
    ("base_url", "private"),
    [
        *(
            (f"http://{host}:8080/v1", True)
            for host in ("localhost", "127.0.0.1", "[::1]", "10.0.0.7", "192.168.1.2")
        ),
        *((f"http://{host}/v1", True) for host in ("172.16.0.1", "100.64.0.1", "169.254.1.1", "[fd00::1]", "ollama")),
        *(
            (f"https://{host}/v1", True)
            for host in ("gpu.local", "box.lan", "host.docker.internal", "nas.home.arpa.")
        ),
        *((f"https://{host}/v1", False) for host in ("api.openai.com", "8.8.8.8", "[2606:4700::1]", "local.example")),
        *(
            (base_url, False)
            for base_url in ("", "nonsense", "http://[::1", "http://172.32.0.1/v1", "http://0x7f.com/")
        ),
    ],
)
def test_private_endpoints_are_recognised_by_address(base_url: str, private: bool) -> None:
    assert is_private(base_url) is private


REFUSED = Failure(FailureKind.INVALID_REQUEST, "no", status=400)
USER = {"role": "user", "content": "Fix it."}
FIRST_CALL = {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
CALLED: list[dict[str, Any]] = [USER, {"role": "assistant", "content": "", "tool_calls": [FIRST_CALL]}]
TOOL = {"type": "function", "function": {"name": "far__find", "parameters": {"type": "object"}}}
PLAIN = Payload([USER], [], max_tokens=100)


def taught(text: str, payload: Payload = PLAIN, profile: EndpointProfile | None = None, **failure: Any) -> str:
    """The name of the correction; empty where there is none."""
    found = find_correction(profile or EndpointProfile(), replace(REFUSED, text=text, **failure), payload)
    return found.name if found else ""


@pytest.mark.parametrize(
    ("text", "payload", "profile", "name"),
    [
        ("max_tokens is not supported", PLAIN, EndpointProfile(), "max_tokens:"),
        (
            "reasoning_content: extra inputs are not permitted",
            PLAIN,
            EndpointProfile(reasoning_echo="same_model"),
            "echo:",
        ),
        ("messages: text content blocks must be non-empty", Payload(CALLED, []), EndpointProfile(), "content:null"),
        ("Invalid schema for function far__find", Payload([USER], [TOOL]), EndpointProfile(), "tools:far__find"),
    ],
)
def test_a_refusal_teaches_what_it_names(text: str, payload: Payload, profile: EndpointProfile, name: str) -> None:
    assert taught(text, payload, profile).startswith(name)
    # What is no refusal teaches nothing, whatever words are in it.
    for kind in (FailureKind.UNREACHABLE, FailureKind.STREAM_BROKEN):
        assert taught(text, payload, profile, kind=kind, status=None) == ""
    for kind in (FailureKind.RATE_LIMITED, FailureKind.AUTH):
        assert taught(text, payload, profile, kind=kind) == ""


@pytest.mark.parametrize(
    ("text", "payload", "profile", "status"),
    [
        # Too large a number is no word against the field.
        ("max_tokens: 100 exceeds what is left", PLAIN, EndpointProfile(), 400),
        ("the reasoning took too long", PLAIN, EndpointProfile(reasoning_echo="same_model"), 400),
        ("messages.0.content is empty", PLAIN, EndpointProfile(), 400),
        ("it has to be a list of content parts: array expected, image", PLAIN, EndpointProfile(), 400),
        # The tool is named, but not for its schema; and by a server that has failed for a reason of its own.
        ("too many calls of far__find", Payload([USER], [TOOL]), EndpointProfile(), 400),
        ("the schema cache of far__find broke down", Payload([USER], [TOOL]), EndpointProfile(), 500),
    ],
)
def test_an_incidental_word_in_an_error_changes_no_profile(
    text: str, payload: Payload, profile: EndpointProfile, status: int
) -> None:
    assert taught(text, payload, profile, status=status) == ""
