"""What agents say when they call the hook, what their transcripts tell, and what of it is not understood."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from app.doors.hook.calls import parse_call
from app.doors.hook.entry import root_of
from app.doors.hook.options import seconds
from app.doors.hook.transcripts import (
    Response,
    claude_response,
    codex_response,
    copilot_response,
    droid_response,
    qwen_response,
)

CALL = {
    "hook_event_name": "PreToolUse",
    "session_id": "s",
    "cwd": "/",
    "tool_name": "Write",
    "tool_input": {"file_path": "a"},
}


def test_a_call_that_is_whole_is_understood() -> None:
    call = parse_call("claude", json.dumps(CALL))
    assert (call.session, call.tool, call.arguments) == ("s", "Write", {"file_path": "a"})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([CALL], "it is not an object"),
        (CALL | {"hook_event_name": "Stop"}, "it is for Stop; signoff is called before a tool"),
        (CALL | {"hook_event_name": None}, "it is for no event"),
        (CALL | {"session_id": 7}, "it names no session"),
        (CALL | {"tool_input": "rm"}, "its tool_input is not an object"),
        (CALL | {"cwd": "here"}, "does not say where the agent works"),
    ],
)
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_call_that_is_not_says_why(agent: str, said: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_call(agent, json.dumps(said))


@pytest.mark.parametrize("text", ["", "-1", "1.5", " 5", "1_0", "٣", "86401", "999999"])
def test_seconds_are_whole_and_at_most_a_day(text: str) -> None:
    assert seconds("86400") == 86_400
    with pytest.raises(argparse.ArgumentTypeError, match="give whole seconds, up to 86400"):
        seconds(text)


def test_the_project_is_the_one_that_the_agent_names_where_it_works_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "project/inner"
    (inner / ".git").mkdir(parents=True)
    call = parse_call("claude", json.dumps(CALL | {"cwd": str(inner / "deep")}))
    assert root_of(call) == str(inner)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    assert root_of(call) == str(tmp_path / "project")
    assert root_of(call._replace(agent="codex")) == str(inner)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "other"))
    assert root_of(call) == str(inner)


def transcript(folder: Path, *lines: Any) -> str:
    """A file of these, and of what is none."""
    path = folder / "transcript.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


def said(name: str, *blocks: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": name, "model": "m", "content": list(blocks)}}


def test_the_response_of_a_call_is_the_one_that_has_it_not_one_that_speaks_of_it(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        said("first", {"type": "tool_use", "id": "c1"}),
        said("second", {"type": "text", "text": "after c1"}, "c1"),
        {"type": "assistant", "message": {"id": "third", "content": "c1"}},
        '{"cut off": "c1',
        '["c1"]',
    )
    assert claude_response(path, "c1") == Response("first", "m")
    assert claude_response(path, "c2") == Response()


def test_calls_that_follow_each_other_before_a_result_are_of_one_response(tmp_path: Path) -> None:
    def line(kind: str, call: object) -> dict[str, Any]:
        return {"payload": {"type": kind, "call_id": call}}

    path = transcript(
        tmp_path,
        line("function_call", "c1"),
        {"payload": "a _call without a payload"},
        line("function_call", None),
        line("custom_tool_call", "c2"),
        line("function_call_output", "c1"),
        line("function_call", "c3"),
    )
    found = {call: codex_response(path, call).id for call in ("c1", "c2", "c3", "c4")}
    assert found == {"c1": "c1", "c2": "c1", "c3": "c3", "c4": ""}


def test_the_last_response_of_qwen_is_that_of_the_call(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        {"type": "assistant", "uuid": "first", "model": "m"},
        {"type": "tool_result", "uuid": "result", "model": "other"},
        {"type": "assistant", "uuid": "second", "model": "m"},
        {"type": "system", "uuid": "later", "model": "other"},
    )
    assert qwen_response(path, "c1") == Response("second", "m")
    assert qwen_response(str(tmp_path / "none"), "c1") == Response()


def test_the_prompt_of_droid_is_no_result_and_no_context(tmp_path: Path) -> None:
    def line(name: str, role: str, *kinds: str) -> dict[str, Any]:
        blocks = [{"type": kind} for kind in kinds]
        return {"type": "message", "id": name, "message": {"role": role, "modelId": "m", "content": blocks}}

    path = transcript(
        tmp_path,
        {"type": "session_start", "id": "start", "message": "of a session"},
        line("prompt", "user", "text"),
        line("context-1", "user", "text"),
        line("first", "assistant", "text", "tool_use"),
        line("result", "user", "tool_result", "text"),
        line("second", "assistant", "tool_use"),
        {"type": "other", "id": "third", "message": {"role": "assistant", "content": []}},
    )
    assert droid_response(path, "c1") == Response("second", "m", "prompt")


def test_copilot_keeps_responses_in_the_folder_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def line(kind: str, name: str) -> dict[str, Any]:
        data = {"messageId": name, "model": "m", "originatingMessageId": "prompt", "of": "assistant.message"}
        return {"type": kind, "data": data}

    monkeypatch.delenv("COPILOT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".copilot/session-state/s"
    folder.mkdir(parents=True)
    lines = (line("assistant.message", "first"), line("assistant.message", "second"), line("tool.start", "third"))
    Path(transcript(folder, *lines)).rename(folder / "events.jsonl")
    assert copilot_response("s") == Response("second", "m", "prompt")
    assert copilot_response("../session-state/s") == Response(), "a session is no path"
    found = parse_call("copilot", json.dumps(CALL | {"session_id": "s"}))
    assert (found.response, found.prompt, found.model) == ("second", "prompt", "m")
    monkeypatch.setenv("COPILOT_HOME", str(tmp_path / "other"))
    assert copilot_response("s") == Response()
