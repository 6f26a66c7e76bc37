"""The schemas on the wire, and how forgiving arguments are."""

import json
import subprocess
import sys
from typing import Any

import pytest

from app.tools.base.contract import ToolError
from app.tools.tool_registry import ToolSet
from tests.unit.tools.memory_draft import nowhere

TOOLS = nowhere()
NAMES = (
    *("read_file", "list_files", "search_text", "edit_file", "write_file", "delete_file", "rename_file"),
    *("apply_patch", "write_todos", "ask_user", "run_command"),
)


def walk(schema: Any) -> list[dict[str, Any]]:
    found = [schema]
    for part in schema.get("properties", {}).values():
        found += walk(part)
    if "items" in schema:
        found += walk(schema["items"])
    return found


def test_names_and_order_are_fixed() -> None:
    assert tuple(tool.name for tool in TOOLS) == NAMES
    assert [schema["function"]["name"] for schema in TOOLS.schemas] == list(NAMES)
    assert {tool.name: tool.kind for tool in TOOLS} == {
        **dict.fromkeys(("read_file", "list_files", "search_text", "write_todos"), "read"),
        **dict.fromkeys(("edit_file", "write_file", "delete_file", "rename_file", "apply_patch"), "edit"),
        "ask_user": "ask",
        "run_command": "command",
    }


@pytest.mark.parametrize("tool", TOOLS.schemas, ids=lambda tool: tool["function"]["name"])
def test_tool_schemas_use_only_widely_supported_json_schema(tool: dict[str, Any]) -> None:
    parameters = tool["function"]["parameters"]
    assert tool["type"] == "function"
    assert tool["function"]["description"].strip()
    assert parameters["type"] == "object"
    assert isinstance(parameters["properties"], dict)
    for schema in walk(parameters):
        assert isinstance(schema["type"], str)
        assert not {"title", "default", "anyOf", "$ref", "$defs", "allOf", "oneOf"} & schema.keys()
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False
            for name, part in schema["properties"].items():
                assert part.get("description"), f"{name} needs a description"


def test_schemas_are_the_same_bytes_in_every_process() -> None:
    code = "import json; from tests.unit.tools.memory_draft import nowhere; print(json.dumps(nowhere().schemas))"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"}
    )
    assert other.stdout == json.dumps(TOOLS.schemas) + "\n"


def test_each_tool_is_known_once_and_by_its_name() -> None:
    assert TOOLS.get_tool("read_file") is not None
    assert TOOLS.get_tool("rm") is None
    with pytest.raises(ToolError, match=r"no tool 'rm'.*read_file"):
        TOOLS.parse_arguments("rm", {})
    tool = TOOLS.get_tool("read_file")
    assert tool is not None
    with pytest.raises(ValueError, match="same name"):
        ToolSet([tool, tool])
    assert "pattern" in TOOLS.schemas[2]["function"]["parameters"]["properties"]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("read_file", {"path": "a", "start_line": "5", "end_line": " 7 "}, {"start_line": 5, "end_line": 7}),
        ("read_file", {"path": "a", "start_line": None}, {"start_line": None}),
        ("read_file", {"path": "a", "start_line": 5.0}, {"start_line": 5}),
        ("search_text", {"pattern": "x", "regex": " true\n", "path": None, "ignore_case": None}, {"regex": True}),
        ("list_files", {}, {"path": None, "pattern": None}),
        ("ask_user", {"question": "q", "options": '["a", "b"]'}, {"options": ["a", "b"]}),
        ("ask_user", {"question": "q", "options": "yes"}, {"options": ["yes"]}),
        ("write_file", {"path": "a", "content": '["a"]'}, {"content": '["a"]'}),
        ("write_file", {"path": "a", "content": '{"a": 1}'}, {"content": '{"a": 1}'}),
    ],
)
def test_harmless_sloppiness_is_forgiven(name: str, arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    assert TOOLS.parse_arguments(name, arguments).model_dump().items() >= expected.items()


@pytest.mark.parametrize(
    "edits",
    [
        [{"old": "a", "new": "b", "line": None, "replace_all": None}],
        {"old": "a", "new": "b"},
        '[{"old": "a", "new": "b"}]',
        '{"old": "a", "new": "b"}',
        [{"old": "a", "new": "b", "line": None, "replace_all": "false"}],
    ],
)
def test_edits_come_in_many_wrappings(edits: object) -> None:
    parsed = TOOLS.parse_arguments("edit_file", {"path": "x", "edits": edits, "version": None}).model_dump()
    assert parsed["edits"] == [{"old": "a", "new": "b", "replace_all": False, "inside_words": False, "line": None}]


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("read_file", {}, ["path is missing", "read_file takes: path, start_line?, end_line?"]),
        ("read_file", {"path": None}, ["path", "valid string"]),
        ("read_file", {"file_path": "a"}, ["path is missing", "did you mean path?"]),
        ("read_file", {"path": "a", "start_line": 0}, ["start_line", "not 0"]),
        ("read_file", {"path": "a", "start_line": "ten"}, ["start_line", "'ten'"]),
        ("edit_file", {"path": "a", "edits": []}, ["edits"]),
        ("edit_file", {"path": "a", "edits": [{"old_string": "a", "new_string": "b"}]}, ["did you mean old?"]),
        ("edit_file", {"path": "a", "edits": "nonsense"}, ["edits", "list"]),
        ("run_command", {"command": "x", "timeout_seconds": 9999}, ["timeout_seconds", "600"]),
        ("run_command", {"command": ""}, ["command"]),
        ("write_file", {"path": "a", "content": {"k": "x" * 500}}, ["content", "…"]),
    ],
)
def test_errors_let_the_model_fix_the_call(name: str, arguments: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(ToolError) as raised:
        TOOLS.parse_arguments(name, arguments)
    text = str(raised.value)
    assert "Nothing ran" in text
    assert all(part in text for part in parts), text
    assert len(text) < 1000


def test_labels_are_one_short_line() -> None:
    tool = TOOLS.get_tool("run_command")
    assert tool is not None
    arguments = TOOLS.parse_arguments("run_command", {"command": "echo a\necho b"})
    assert tool.label(arguments) == "run_command echo a echo b"
    assert len(tool.label(TOOLS.parse_arguments("run_command", {"command": "x" * 500}))) < 100
