"""Transcripts of other programs: what the user said in them, and what no file may do to the reader."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversation.events import AssistantMessage, Event, ToolResult, UserMessage
from app.conversation.imports import transcript_import
from app.conversation.imports.transcript_import import TranscriptError, read_transcript
from app.conversation.payload.projection import PayloadInputs, project
from app.llm.values.endpoint import EndpointProfile
from tests.unit.conversation import transcripts
from tests.unit.conversation.transcripts import CLAUDE_SAID, CODEX_SAID, OPENAI_SAID, PROGRAM, lines
from tests.unit.conversation.validity import violations


def payload(events: list[Event]) -> list[dict[str, Any]]:
    numbered = [event.model_copy(update={"id": number}) for number, event in enumerate(events, 1)]
    return project(numbered, EndpointProfile(), PayloadInputs(system_prompt="prompt", tools=[])).messages


def said(events: list[Event]) -> list[str]:
    return [message["content"] for message in payload(events) if message["role"] == "user"]


def imported(path: Path, program: str, by_user: list[str]) -> tuple[list[dict[str, Any]], dict[str, int], list[str]]:
    """The messages, what was repaired, and the results of calls, once the text of the user is separated."""
    found = read_transcript(path)
    assert (found.program, said(found.events)) == (program, by_user)
    messages = payload(found.events)
    assert violations(messages) == []
    assert PROGRAM not in json.dumps(messages, ensure_ascii=False) and "Gone" not in str(messages)
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert results[:2] == ["one", "two"]
    return messages, dict(found.repairs), results


def test_claude_code_and_codex_imports_separate_text_of_the_user(tmp_path: Path) -> None:
    messages, repairs, _ = imported(transcripts.claude(tmp_path / "s.jsonl"), "Claude Code", CLAUDE_SAID)
    calls = [[call["function"]["name"] for call in message.get("tool_calls", ())] for message in messages]
    assert [names for names in calls if names] == [["Read", "Grep"], ["Bash"]]
    assert repairs == {
        "calls without a result": 1,
        "messages that the user went back from": 2,
        "texts of the other program": 6,
    }
    messages, repairs, results = imported(transcripts.codex(tmp_path / "rollout.jsonl"), "Codex", CODEX_SAID)
    assert "{" in results[2]
    patch = next(call for message in messages for call in message.get("tool_calls", ()) if "patch" in str(call))
    assert json.loads(patch["function"]["arguments"]) == {"input": "*** Begin Patch"}
    assert repairs["messages that the user went back from"] == 2
    assert repairs["calls with arguments that are no JSON object"] == 1


def test_a_list_of_messages_is_read_in_three_forms(tmp_path: Path) -> None:
    path = transcripts.openai(tmp_path / "messages.json")
    found = read_transcript(path)
    assert (found.program, said(found.events)) == ("OpenAI messages", OPENAI_SAID)
    assert found.repairs == {"old or repeated system prompts": 1, "results without a call": 1}
    messages = payload(found.events)
    assert not any(event.extras for event in found.events if isinstance(event, AssistantMessage))
    assert [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())] == [
        "look_up_"
    ]
    listed = json.loads(path.read_text())["messages"]
    (tmp_path / "list.json").write_text(json.dumps(listed))
    for other in (tmp_path / "list.json", lines(tmp_path / "lines.jsonl", *listed)):
        assert payload(read_transcript(other).events) == messages


def test_messages_in_anthropics_form_keep_calls_and_results(tmp_path: Path) -> None:
    found = read_transcript(transcripts.anthropic(tmp_path / "messages.json"))
    assert said(found.events) == OPENAI_SAID and found.repairs == {}
    assert [type(event) for event in found.events] == [UserMessage, AssistantMessage, ToolResult, UserMessage]


USER = b'{"role": "user", "content": "hello"}\n'


@pytest.mark.parametrize(
    ("data", "repairs"),
    [
        (USER + b'{"role": "user", "content": "\xff\xfe"}\n', {"lines that are no UTF-8": 1}),
        (USER + b'{"role": "assistant", "content": ' + b"[" * 100_000 + b"\n", {"lines that are no JSON": 1}),
        (
            USER
            + b'{"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": '
            + b'{"a":' * 200
            + b"1"
            + b"}" * 200
            + b"}}]}\n",
            {"calls without a result": 1, "values that were nested too deeply": 1},
        ),
        (USER + b'{"role": "user", "content": "' + b"x" * (1 << 24) + b'"}\n', {"lines of more than 16 MB": 1}),
        (USER + b'7\n[1]\n"x"\nnull\n{"role": 7}\n{"content": {}}\n', {"entries that are no messages": 5}),
        (USER + b'{"role": "tool", "tool_call_id": {}, "content": 1e999}\n', {"results without a call": 1}),
        (USER + b'{"role": "user", "content": "\\ud800 \\u0000"}\n', {}),
        (USER + b"9" * 5000 + b"\n", {"lines that are no JSON": 1}),
        (
            USER + b'{"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": {"\\udfff": '
            b'["\\ud800", 1e999, 36893488147419103232]}}}]}\n',
            {"calls without a result": 1},
        ),
        (b"\xef\xbb\xbf" + USER, {}),
        (USER + b'{"role": "critic", "content": "x"}\n', {"messages of other roles": 1}),
        (b'{"system": "x", "messages": [' + USER + b"]}", {"old or repeated system prompts": 1}),
    ],
)
def test_damage_in_a_line_is_counted(tmp_path: Path, data: bytes, repairs: dict[str, int]) -> None:
    (tmp_path / "t.jsonl").write_bytes(data)
    found = read_transcript(tmp_path / "t.jsonl")
    assert said(found.events)[0].startswith("hello") and violations(payload(found.events)) == []
    assert {what: count for what, count in found.repairs.items() if what in repairs} == repairs
    assert bool(found.repairs) == bool(repairs)
    for event in found.events:
        assert type(event).model_validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: b"", "is no transcript"),
        (lambda: b"hello\n", "is no transcript"),
        (lambda: b"\0" * 1000, "is no transcript"),
        (lambda: b"[]", "is no transcript"),
        (lambda: b'{"messages": [{"role": "system", "content": "x"}]}', "is no transcript"),
        (lambda: b"[" * 9_000, "damaged or larger than 16 MB"),
        (lambda: b"[" + b"{}," * 6_000_000, "damaged or larger than 16 MB"),
        (lambda: b"[" + b"1," * 51_000 + b"{}]", "holds more than 50,000 JSON values"),
        (lambda: b"[" + b"{}," * 10_000 + b"{}]", "holds more than 10,000 JSON values in one line"),
        (lambda: b'{"role": "user", "content": "' + b"x" * (1 << 24) + b'"}', r"lines of more than 16 MB \(1\)"),
        (lambda: b'{"messages": [{"role": "user"}]}\n' * 2, "holds several conversations"),
        (lambda: b'{"role": "user"}\n' * 1_001, "holds more than 1,000 messages"),
        (lambda: (b'{"role": "user", "content": "' + b"x" * 90_000 + b'"}\n') * 4, "more than 320,000 characters"),
    ],
)
def test_a_bad_or_huge_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[], bytes], why: str
) -> None:
    bounds = {
        "_MAX_VALUES": 50_000,
        "_MAX_CONTAINERS": 10_000,
        "_MAX_MESSAGES": 1_000,
        "_MAX_TEXT_CHARACTERS": 320_000,
    }
    for name, bound in bounds.items():
        monkeypatch.setattr(transcript_import, name, bound)
    (tmp_path / "t.jsonl").write_bytes(made())
    with pytest.raises(TranscriptError, match=why) as refused:
        read_transcript(tmp_path / "t.jsonl")
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_pipes_and_files_over_the_limit_are_not_imported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(transcript_import.MAX_TRANSCRIPT_BYTES + 1)
    reasons = {"pipe": "not a regular file", "large": "larger than 128 MB", "none": "No such file", ".": "folder"}
    for name, why in reasons.items():
        with pytest.raises(TranscriptError, match=why):
            read_transcript(tmp_path / name)
    with pytest.raises(TranscriptError, match="Cannot read"):
        read_transcript(Path("/dev/zero"))


_FIELDS = (
    *("type", "message", "payload", "role", "content", "uuid", "parentUuid", "id", "name", "input", "tool_use_id"),
    *("call_id", "output", "arguments", "tool_calls", "function", "text", "num_turns", "isMeta", "messages"),
    "action",
)
_WORDS = (
    *("user", "assistant", "tool", "system", "text", "tool_use", "tool_result", "response_item", "event_msg"),
    *("function_call", "function_call_output", "thread_rolled_back", "user_message", "a", "b", "image", "thinking"),
    "message",
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=5),
    max_leaves=15,
)


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(_VALUES, max_size=8))
def test_any_json_is_read_or_refused(tmp_path: Path, values: list[Any]) -> None:
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, values)), encoding="utf-8")
    try:
        found = read_transcript(tmp_path / "t.jsonl")
    except TranscriptError:
        return
    assert violations(payload(found.events)) == []
    for event in found.events:
        assert type(event).model_validate_json(event.model_dump_json()) == event
