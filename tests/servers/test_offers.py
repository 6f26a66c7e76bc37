"""Tool definitions of servers are adapted to endpoints, and tool results become bounded text."""

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.images.image import MAX_IMAGE_BYTES, MAX_IMAGES_IN_MESSAGE, format_bytes
from app.mcp_client.server_tool import format_tool_result
from app.mcp_client.tool_listing import MAX_NAME_CHARACTERS, dump_tools, parse_tools_and_refusals, tool_name_for_model
from app.proposals.text.file_warnings import format_size
from app.tools.base.contract import MAX_RESULT_CHARACTERS
from tests.examples import scale_examples
from tests.unit.images.pictures import png

TEXTS = st.text(max_size=8) | st.sampled_from(["\ud800", "a\u202eb", "a\nb", "\x1b[2J"])
"""JSON may contain lone surrogates, which are not valid text."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["type", "properties", "required", "$ref", "$defs", "items", "anyOf", "description", "enum"])
VALUES = st.recursive(
    JSON | st.sampled_from(["object", "#/$defs/a", "#", "#/properties/a", "https://far.example/s"]),
    lambda inner: st.dictionaries(KEYS | st.just("a") | TEXTS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=16,
)
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=90) | JSON},
        optional={"description": st.text() | JSON, "inputSchema": VALUES, "annotations": JSON, "title": JSON},
    )
    | JSON,
    max_size=6,
)


@settings(max_examples=scale_examples(15))
@given(st.text(min_size=1, max_size=40), TOOLS)
def test_every_offered_tool_fits_endpoints(server: str, listed: list[Any]) -> None:
    offers, problems = parse_tools_and_refusals(server, listed)
    assert len(offers) + len(problems) == len(listed)
    names = [offer.name for offer in offers]
    assert len(set(names)) == len(names)
    for offer in offers:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", offer.name)
        assert offer.parameters["type"] == "object"
        assert isinstance(offer.parameters["properties"], dict)
        assert "$ref" not in offer.parameters
        written = json.dumps(offer.parameters, allow_nan=False, ensure_ascii=False)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", written)
    assert parse_tools_and_refusals(server, listed) == (offers, problems)
    stored = json.loads(json.dumps(dump_tools(offers)))
    assert parse_tools_and_refusals(server, stored) == (offers, []), "a stored tool equals the listed one"


def test_changed_tool_names_are_unique() -> None:
    names = {tool_name_for_model("s", tool) for tool in ("a.b", "a b", "a_b", "ä", "x" * 80, "x" * 81)}
    assert len(names) == 6
    assert tool_name_for_model("s", "a_b") == "s__a_b"
    assert all(len(name) <= MAX_NAME_CHARACTERS for name in names)


@given(*[st.text("ab_", min_size=1, max_size=6)] * 4)
def test_tools_of_different_servers_have_different_names(one: str, tool: str, other: str, other_tool: str) -> None:
    assert (tool_name_for_model(one, tool) == tool_name_for_model(other, other_tool)) == (
        (one, tool) == (other, other_tool)
    )
    assert tool_name_for_model("a", "b__c") != tool_name_for_model("a__b", "c")


def parse_schema(schema: Any) -> tuple[Any, list[str]]:
    offers, problems = parse_tools_and_refusals("s", [{"name": "t", "inputSchema": schema}])
    return (offers[0].parameters if offers else None), problems


def test_references_are_inlined_and_cycles_are_cut() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "definitions": {"type": "string"}}}
    schema, _ = parse_schema({"properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    root = schema["properties"]["root"]
    assert root["type"] == "object"
    assert root["properties"] == {"next": {}, "definitions": {"type": "string"}}
    for far in ("https://far.example/schema", "other.json#/$defs/node", "x/$defs/node"):
        schema, _ = parse_schema({"properties": {"a": {"$ref": far}}, "$defs": {"node": {"type": "string"}}})
        assert schema["properties"] == {"a": {}}


def test_unusable_schemas_are_omitted_with_the_reason() -> None:
    bomb: dict[str, Any] = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {}}
    for number in range(10):
        inner = {"$ref": f"#/$defs/d{number + 1}"}
        bomb["$defs"][f"d{number}"] = {"properties": dict.fromkeys("abcde", inner)}
    deep: Any = {}
    for _ in range(60):
        deep = {"items": deep}
    reasons = {
        "more than 64 kB": bomb,
        "too deeply": {"properties": {"a": deep}},
        "is not an object": [],
        "are not an object": {"type": "array"},
        "damaged": {"properties": []},
        "is damaged": {"properties": {}, "required": "a"},
        "arguments is damaged": {"properties": {}, "required": [1]},
        "invisible characters": {"properties": {"a\ud800": {}}},
        "JSON does not allow": {"properties": {"a": {"default": 1e999}}},
    }
    for reason, schema in reasons.items():
        assert parse_schema(schema)[0] is None
        assert reason in parse_schema(schema)[1][0]
        assert parse_schema(schema)[1][0].startswith("t is left out: ")
    empty: dict[str, Any] = {"properties": {"a": {"enum": [[]] * 100_000}}}
    assert "more than 64 kB" in parse_schema(empty)[1][0]
    empty = {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/b"}] * 100_000}}, "$defs": {"b": {}}}
    assert "more than 64 kB" in parse_schema(empty)[1][0]
    long = {"properties": {"a": {"description": "x" * 100_000}}}
    assert "more than 64 kB" in parse_schema(long)[1][0]


def test_first_of_two_tools_with_the_same_name_is_offered() -> None:
    listed = [{"name": "read", "description": "Reads."}, {"name": "read", "description": "Writes."}, {"name": "list"}]
    offers, problems = parse_tools_and_refusals("s", listed)
    assert [(each.name, each.description) for each in offers] == [("s__read", "Reads."), ("s__list", "")]
    assert problems == ["read is left out: there is another one of that name."]


def test_number_of_tools_is_limited() -> None:
    offers, problems = parse_tools_and_refusals("s", [{"name": f"t{number}"} for number in range(1500)])
    assert len(offers) == 1000
    assert "500 more tools" in problems[-1]


@given(JSON | st.fixed_dictionaries({"content": st.lists(JSON, max_size=5)}, optional={"isError": JSON}))
def test_every_tool_result_is_bounded_text(answer: Any) -> None:
    result = format_tool_result(answer if isinstance(answer, dict) else {"content": answer})
    assert len(result.text) <= MAX_RESULT_CHARACTERS
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", result.text)


def test_each_kind_of_result_content_is_described() -> None:
    content = [
        {"type": "text", "text": "one\r\ntwo"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "image", "data": "no base64!"},
        {"type": "image", "data": base64.b64encode(png(300, 200)).decode()},
        {"type": "audio", "data": "aGVsbG8="},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
        {"type": "resource", "resource": {"uri": "file:///y", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///z", "blob": "aGVsbG8="}},
        {"type": "resource", "resource": "no object"},
        {"type": "image", "data": 7},
        {"type": "image", "data": "A" * (MAX_IMAGE_BYTES * 4 // 3 + 8)},
        {"type": "hologram"},
    ]
    result = format_tool_result({"content": content, "isError": True}, "play__give")
    assert result.text.split("\n") == [
        "one",
        "two",
        "[an image of 5 B, which can't be shown to you: it is no PNG, JPEG, GIF or WebP]",
        "[an image of 7 B, which can't be shown to you: it is no Base64]",
        f'[image "play__give 1": 300×200, {format_bytes(len(png(300, 200)))}]',
        "[an audio of 5 B, which can't be played to you]",
        "[a resource: x file:///x]",
        "[file:///y]",
        "inside",
        "[file:///z: 5 B]",
        "",
        "[an image of 0 B, which can't be shown to you: it is no PNG, JPEG, GIF or WebP]",
        f"[an image of {format_size(MAX_IMAGE_BYTES + 6)}, which can't be shown to you: it is too large]",
        "[a part of kind 'hologram', which signoff doesn't know]",
    ]
    assert result.failed
    assert result.summary == "failed, 14 lines, 1 image"
    assert [content for _, content in result.images] == [png(300, 200)]
    many = {"type": "image", "data": base64.b64encode(png(3, 2)).decode()}
    assert len(format_tool_result({"content": [many] * 30}).images) == MAX_IMAGES_IN_MESSAGE
    deep: Any = []
    for _ in range(99):
        deep = {"a": deep}
    assert format_tool_result({"structuredContent": deep}).text.endswith("}")
    assert "too deep" in format_tool_result({"structuredContent": [deep]}).text
    for _ in range(4_900):
        deep = [deep]
    assert "too deep" in format_tool_result({"structuredContent": deep}).text
    assert format_tool_result({"content": [{"type": "text", "text": deep}]}).text == "[no content]"
    assert format_tool_result({"content": [], "structuredContent": {"a": 1}}).text == '{\n "a": 1\n}'
    assert len(format_tool_result({"content": [{"type": "text", "text": "x" * 10_000_000}]}).text) < 40_000


@pytest.mark.parametrize(
    "other",
    [
        {"description": "Reads, and sends what it reads."},
        {"title": "Read all"},
        {"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}},
        {"annotations": {"readOnlyHint": True}},
    ],
)
def test_changed_tool_definition_has_another_fingerprint(other: dict[str, Any]) -> None:
    listed = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}
    (once,), _ = parse_tools_and_refusals("files", [listed])
    (again,), _ = parse_tools_and_refusals("files", [dict(listed)])
    (changed,), _ = parse_tools_and_refusals("files", [listed | other])
    assert once.fingerprint == again.fingerprint != changed.fingerprint
