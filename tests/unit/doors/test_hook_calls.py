"""What agents say when they call the hook, what their transcripts tell, and what of it is not understood."""

import argparse
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from app.doors.hook import transcripts
from app.doors.hook.agents import parse_seconds
from app.doors.hook.hook_entry import contains_signoff_decision_command, find_project_root, starts_interactive_shell
from app.doors.hook.hook_messages import parse_call
from app.doors.hook.transcripts import (
    ResponseAndPromptIds,
    find_claude_response,
    find_codex_response,
    find_last_droid_response,
    find_last_qwen_response,
    find_running_kimi_response,
    wait_for_call_in_copilot_log,
)

CALL = {
    "hook_event_name": "PreToolUse",
    "session_id": "s",
    "cwd": "/",
    "tool_name": "Write",
    "tool_input": {"file_path": "a"},
}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([CALL], "Its input is not a JSON object"),
        (CALL | {"hook_event_name": "SessionEnd"}, "It is for SessionEnd; signoff is called before a tool"),
        (CALL | {"hook_event_name": None}, "It is for no event"),
        (CALL | {"session_id": 7}, "It names no session"),
        (CALL | {"tool_input": "rm"}, "Its tool_input is not an object"),
        (CALL | {"tool_name": ["Write"]}, "It names no tool"),
        (CALL | {"cwd": "here"}, "does not say where the agent works"),
    ],
)
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_an_incomplete_hook_call_is_refused_with_a_reason(agent: str, said: object, why: str) -> None:
    call = parse_call(agent, json.dumps(CALL))
    assert (call.session, call.tool, call.arguments) == ("s", "Write", {"file_path": "a"})
    with pytest.raises(ValueError, match=why):
        parse_call(agent, json.dumps(said))
    for text in ("", "{", b"\xff", "[" * 100_000):
        with pytest.raises(ValueError, match="Its input is not a JSON object"):
            parse_call(agent, text)


@pytest.mark.parametrize("text", ["", "-1", "1.5", " 5", "1_0", "٣", "86401", "999999"])
def test_seconds_are_whole_and_at_most_a_day(text: str) -> None:
    assert parse_seconds("86400") == 86_400
    with pytest.raises(argparse.ArgumentTypeError, match="give whole seconds, up to 86400"):
        parse_seconds(text)


def test_the_agents_project_folder_is_used_if_it_contains_the_cwd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "project/inner"
    (inner / ".git").mkdir(parents=True)
    call = parse_call("claude", json.dumps(CALL | {"cwd": str(inner / "deep")}))
    assert find_project_root(call) == str(inner)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    assert find_project_root(call) == str(tmp_path / "project")
    assert find_project_root(call._replace(agent="codex")) == str(inner)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "other"))
    assert find_project_root(call) == str(inner)


def transcript(folder: Path, *lines: Any) -> str:
    """A file of these, and of what is none."""
    path = folder / "transcript.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


def said(name: str, *blocks: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": name, "model": "m", "content": list(blocks)}}


def test_the_response_of_a_call_is_the_one_that_contains_it(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        said("first", {"type": "tool_use", "id": "c1"}),
        said("second", {"type": "text", "text": "after c1"}, "c1"),
        {"type": "assistant", "message": {"id": "third", "content": "c1"}},
        '{"cut off": "c1',
        '["c1"]',
    )
    assert find_claude_response(path, "c1") == ResponseAndPromptIds("first", "m")
    assert find_claude_response(path, "c2") == ResponseAndPromptIds()


def test_a_prompt_that_claude_code_writes_belongs_to_the_prompt_of_the_user(tmp_path: Path) -> None:
    typed = {"type": "user", "promptId": "p1", "promptSource": "typed"}
    ended = {"type": "user", "promptId": "p2", "promptSource": "system", "origin": {"kind": "task-notification"}}
    lines: list[Any] = [typed, ended, said("first", {"type": "tool_use", "id": "c1"})]
    call = {"hook_event_name": "PreToolUse", "session_id": "s", "prompt_id": "p2", "tool_name": "Read"}
    call |= {"tool_use_id": "c1", "cwd": "/", "transcript_path": transcript(tmp_path, *lines)}
    found = parse_call("claude", json.dumps(call))
    assert (found.prompt, found.response) == ("p1", "first")
    assert parse_call("claude", json.dumps(call | {"prompt_id": "p3"})).prompt == "p3", "the user's next one"


def test_consecutive_calls_before_a_result_belong_to_one_response(tmp_path: Path) -> None:
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
    found = {call: find_codex_response(path, call).id for call in ("c1", "c2", "c3", "c4")}
    assert found == {"c1": "c1", "c2": "c1", "c3": "c3", "c4": ""}


def test_the_last_response_of_qwen_is_that_of_the_call(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        {"type": "assistant", "uuid": "first", "model": "m"},
        {"type": "tool_result", "uuid": "result", "model": "other"},
        {"type": "assistant", "uuid": "second", "model": "m"},
        {"type": "system", "uuid": "later", "model": "other"},
    )
    assert find_last_qwen_response(path, "c1") == ResponseAndPromptIds("second", "m")
    assert find_last_qwen_response(str(tmp_path / "none"), "c1") == ResponseAndPromptIds()


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
    assert find_last_droid_response(path, "c1") == ResponseAndPromptIds("second", "m", "prompt")


AT = "2026-11-24T00:10:{}Z"


class CopilotLog:
    """The log of a session, as Copilot CLI 1.0.102 writes it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / ".copilot/session-state/s"
        self.folder.mkdir(parents=True)

    def write(self, *lines: dict[str, Any]) -> None:
        with (self.folder / "events.jsonl").open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)

    def responds(self, at: str, prompt: str, *, model: str = "m", size: int = 0, **more: object) -> None:
        """A response, whose call has an argument of `size` characters, and the start of the hook."""
        said = {"messageId": "r", "model": model, "originatingMessageId": prompt, "content": "hook.start"}
        call = {"hookInvocationId": "h", "hookType": "preToolUse", "input": {"toolCalls": ["assistant.message"]}}
        self.write(
            {"type": "assistant.message", "data": said, "timestamp": AT.format(at), **more},
            {"type": "tool.execution_start", "data": {"arguments": {"file_text": "x" * size}}, **more},
            {"type": "hook.start", "data": call, "timestamp": AT.format(at), **more},
        )


@pytest.fixture
def copilot_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CopilotLog:
    monkeypatch.delenv("COPILOT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return CopilotLog(tmp_path)


def test_copilot_calls_have_the_time_of_response(copilot_log: CopilotLog, monkeypatch: pytest.MonkeyPatch) -> None:
    copilot_log.responds("01.100", "first")
    copilot_log.responds("02.200", "second", model="n")
    copilot_log.responds("03.300", "third")
    response = wait_for_call_in_copilot_log("s", AT.format("02.200"))
    assert response == ResponseAndPromptIds(AT.format("02.200"), "n", "second")
    found = parse_call("copilot", json.dumps(CALL | {"session_id": "s", "timestamp": AT.format("03.300")}))
    assert (found.response, found.prompt, found.model) == (AT.format("03.300"), "third", "m")
    other = f"../{copilot_log.folder.name}"
    assert wait_for_call_in_copilot_log(other, AT.format("02.200")) == ResponseAndPromptIds(AT.format("02.200")), (
        "a session is no path"
    )
    monkeypatch.setenv("COPILOT_HOME", "/nowhere")
    assert wait_for_call_in_copilot_log("s", AT.format("02.200")) == ResponseAndPromptIds(AT.format("02.200"))


@pytest.mark.parametrize("agent", [{}, {"agentId": "a"}])
def test_a_large_edit_is_found_in_the_log_of_copilot(copilot_log: CopilotLog, agent: dict[str, Any]) -> None:
    copilot_log.responds("01.100", "first")
    if agent:
        copilot_log.responds("02.200", "second")
    copilot_log.responds("03.300", "of the subagent" if agent else "second", size=9_000_000, **agent)
    assert wait_for_call_in_copilot_log("s", AT.format("03.300")).prompt == "second"


@pytest.mark.parametrize("is_new", [True, False])
def test_the_log_of_copilot_is_waited_for(copilot_log: CopilotLog, is_new: bool) -> None:
    """It is written a tenth of a second late: until then the last prompt in it is an old one, or there is none."""
    if not is_new:
        copilot_log.responds("01.100", "first")
    later = threading.Timer(0.1, copilot_log.responds, ("02.200", "second"))
    later.start()
    assert wait_for_call_in_copilot_log("s", AT.format("02.200")).prompt == "second"
    later.join()


def test_an_unlogged_copilot_call_is_refused(copilot_log: CopilotLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "_MAX_LOG_DELAY_SECONDS", 0.1)
    copilot_log.responds("01.100", "first")
    with pytest.raises(ValueError, match="did not write the call to its log within"):
        wait_for_call_in_copilot_log("s", AT.format("02.200"))


def kimi_log(home: Path, agent: str, *lines: tuple[str, str, int]) -> None:
    """The log of an agent in a session, as Kimi Code 2.1.0 writes it: type, uuid and time of each line."""
    folder = home / f"sessions/wd_workspace/session_1/agents/{agent}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "wire.jsonl").open("a") as file:
        for kind, step, at in lines:
            event = {"type": kind, "uuid": step, "turnId": "0"}
            file.write(json.dumps({"type": "context.append_loop_event", "event": event, "time": at}) + "\n")
            if kind == "step.begin":
                file.write(json.dumps({"type": "llm.request", "model": f"m {step}", "time": at}) + "\n")


def test_the_response_of_kimi_is_the_step_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_CODE_HOME", str(tmp_path))
    assert find_running_kimi_response("session_1") == ResponseAndPromptIds()
    kimi_log(tmp_path, "main", ("step.begin", "one", 1), ("tool.call", "step.begin", 2))
    assert find_running_kimi_response("session_1") == ResponseAndPromptIds("one", "m one")
    kimi_log(tmp_path, "main", ("step.end", "one", 3))
    assert find_running_kimi_response("session_1") == ResponseAndPromptIds(), "a log that is late tells nothing"
    kimi_log(tmp_path, "main", ("step.begin", "two", 4))
    kimi_log(tmp_path, "agent-0", ("step.begin", "inner", 5))
    assert find_running_kimi_response("session_1").id == "inner", "a subagent of its"
    kimi_log(tmp_path, "agent-0", ("step.end", "inner", 6))
    call = CALL | {"session_id": "session_1", "client_type": "kimi_code_cli"}
    assert parse_call("kimi", json.dumps(call)).response == "two"
    assert find_running_kimi_response("../wd_workspace/session_1") == ResponseAndPromptIds(), "a session is no path"


@pytest.mark.parametrize(
    "line",
    [
        *("signoff approve P1", "env A=1 /usr/bin/signoff deny P1 -m no", "sh -c 'signoff approve P1'"),
        """bash -lc "sh -c 'signoff approve P1'\"""",
        *("python3 -P -m signoff undo P1", "python -msignoff redo P1", "cd x && git diff | signoff stage -"),
        *("echo P1|xargs signoff approve", "sig''noff app\"\"rove P1", "x=$(signoff approve P1)"),
        *("`signoff approve P1`", "(signoff approve P1)&", "{ signoff review; }", "uvx signoff@latest approve P1"),
        *("uv run --with signoff==0.2 signoff approve P1", "signoff \\\n  approve P1"),
        *("bash <<EOF\nsignoff approve P1\nEOF", "true # signoff\nsignoff approve P1", "signoff approve 'P1"),
    ],
)
def test_deciding_commands_are_recognised(line: str) -> None:
    assert contains_signoff_decision_command(line)


@pytest.mark.parametrize(
    "line",
    [
        *("", "ls", "signoff proposals", "signoff show P1", "echo signoff", "git commit --signoff -m approve"),
        "signoff log",
    ],
)
def test_other_commands_are_not_deciding(line: str) -> None:
    assert not contains_signoff_decision_command(line)
    nested = "signoff show"
    for _ in range(40):
        nested = f'sh -c "{nested}"'
    assert not contains_signoff_decision_command(nested * 100), "read in bounded time"


@pytest.mark.parametrize(
    "line",
    [
        *("bash", "/bin/sh -i", "exec zsh --login", "cd x && env A=1 bash", "(bash -s)", "bash -lc 'exec sh'"),
        "sh -c \"bash -c 'fish'\"",
    ],
)
def test_a_shell_that_is_to_be_written_to_is_recognised(line: str) -> None:
    assert starts_interactive_shell(line)


@pytest.mark.parametrize(
    "line",
    [
        *("", "which bash", "apt-get install -y zsh", "bash script.sh", "bash -lc ls", "bash --version"),
        *("cat install.sh | sh", "bash < script.sh", "bash <<EOF\nls\nEOF", "sh -c 'cat x | bash'", "ls -c bash"),
        "echo 'bash'",
    ],
)
def test_a_shell_with_a_script_is_not(line: str) -> None:
    assert not starts_interactive_shell(line)
