"""`signoff hook` with the payloads of agents that run Claude Code's hooks, or have hooks of the same form.

Payloads as Qwen Code 0.24.4, Copilot CLI 1.0.102, Kimi Code 2.1.0, Droid 0.225.2 and the plugin in OpenCode 1.18.33
wrote them; paths, ids and texts are put in.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Payload = dict[str, Any]
Hook = Callable[..., "subprocess.CompletedProcess[str]"]
QWEN = {
    "session_id": "235ee750-e6ed-4334-9513-71d859ad98bd",
    "transcript_path": "/nowhere/chats/235ee750.jsonl",
    "hook_event_name": "PreToolUse",
    "timestamp": "2026-11-23T20:46:39.101Z",
    "permission_mode": "yolo",
    "prompt_id": "235ee750-e6ed-4334-9513-71d859ad98bd########0",
    "tool_name": "write_file",
    "tool_input": {"file_path": "b.txt", "content": "world\n"},
    "tool_use_id": "toolu_1795466799101_vl4bwn9xj",
    "tool_call_id": "call_1_0",
}
COPILOT = {
    "hook_event_name": "PreToolUse",
    "session_id": "cfe4c66e-1e79-4f3f-a5e9-07400c0d5813",
    "timestamp": "2026-11-23T20:47:59.293Z",
    "tool_name": "Write",
    "tool_input": {"path": "b.txt", "file_text": "world\n"},
}
KIMI = {
    "hook_event_name": "PreToolUse",
    "session_id": "session_80855ce0-f21a-40c7-ba3c-4d847f144d49",
    "client_type": "kimi_code_cli",
    "tool_name": "Write",
    "tool_input": {"path": "b.txt", "content": "world\n"},
    "tool_call_id": "call_1_0",
}
DROID = {
    "session_id": "b4be129d-868a-4697-88cc-e22939cce3a3",
    "transcript_path": "/nowhere/sessions/b4be129d.jsonl",
    "permission_mode": "auto-high",
    "hook_event_name": "PreToolUse",
    "tool_name": "Create",
    "tool_input": {"file_path": "b.txt", "content": "world\n"},
}
OPENCODE = {
    "hook_event_name": "PreToolUse",
    "session_id": "ses_df5ce71efffe9yJpF31LX7evd5",
    "prompt_id": "msg_20a318e4c001VUjSRiciT9zV0A",
    "response_id": "msg_20a318f00001aaaaaaaaaaaaaa",
    "model": "scripted",
    "tool_name": "write",
    "tool_input": {"filePath": "b.txt", "content": "world\n"},
    "tool_use_id": "call_1_0",
}
SENT = {"qwen": QWEN, "copilot": COPILOT, "kimi": KIMI, "droid": DROID, "opencode": OPENCODE}
PATCH = "*** Begin Patch\n*** Add File: b.txt\n+world\n*** End Patch\n"


@pytest.fixture
def run(tmp_path: Path, signoff: Hook, workspace: Path) -> Hook:
    def call(*arguments: str, payload: Payload | None = None, **variables: str) -> "subprocess.CompletedProcess[str]":
        text = json.dumps({**payload, "cwd": str(workspace)}) if payload else ""
        return signoff(*arguments, stdin=text, HOME=str(tmp_path), **variables)

    return call


def proposals(run: Hook) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("proposals", "--all", "--json").stdout)
    return found


def reason(done: "subprocess.CompletedProcess[str]") -> str:
    """The reason in the JSON of a denial."""
    said = json.loads(done.stdout)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    return str(said["permissionDecisionReason"])


BORROWED = [("claude", "qwen"), ("claude", "copilot"), ("claude", "kimi"), ("gemini", "qwen")]


@pytest.mark.parametrize(("hook", "sender"), [*zip(SENT, SENT, strict=True), *BORROWED])
def test_an_edit_is_staged_with_the_name_of_its_agent(run: Hook, workspace: Path, hook: str, sender: str) -> None:
    named = {"opencode": "response_id", "copilot": "timestamp"}.get(sender)
    each_response = ({named: f"2026-11-23T20:48:0{number}.000Z"} if named else {} for number in range(3))
    answers = [run("hook", hook, payload=SENT[sender] | response) for response in each_response]
    words = [reason(answer) for answer in answers]
    assert words[0].startswith("P1 is staged in signoff")
    assert all(each.startswith("Refused, and nothing of this call was done: P1") for each in words[1:])
    if hook == sender:
        assert answers[0].returncode == (0 if hook == "copilot" else 2), "Copilot reads no words beside another code"
        assert answers[0].stderr == (f"{words[0]}\n" if hook in ("qwen", "kimi", "opencode") else "")
        # In Droid it leaves a call without a result in the session. Qwen Code and Copilot CLI go on in spite of it.
        assert "continue" not in json.loads(answers[0].stdout)
    (proposal,) = proposals(run)
    assert proposal["origin"]["agent"] == sender
    assert [file["path"] for file in proposal["files"]] == ["b.txt"]
    assert not (workspace / "b.txt").exists()
    assert run("approve", "P1").returncode == 0
    assert (workspace / "b.txt").read_text() == "world\n"


def test_a_failed_call_is_denied_with_exit_code_2_and_a_reason(run: Hook, tmp_path: Path) -> None:
    """Some of these agents take any other code, or this one without words, for a permission."""
    assert run("hook", "copilot", payload=COPILOT, BASH_ENV="/nowhere").returncode == 2, "which may print first"
    in_the_way = tmp_path / "in the way"
    in_the_way.touch()
    for name, payload in SENT.items():
        done = run("hook", name, payload=payload, SIGNOFF_HOME=str(in_the_way))
        assert done.returncode == 2 and done.stderr.startswith("Denied, and nothing was written: "), done
        assert done.stdout == ""


@pytest.mark.parametrize("tool", ["Edit", "apply_patch"])
def test_a_patch_of_copilot_as_plain_text_is_staged(run: Hook, workspace: Path, tool: str) -> None:
    reason(run("hook", "copilot", payload=COPILOT | {"tool_name": tool, "tool_input": PATCH}))
    assert run("approve", "P1").returncode == 0
    assert (workspace / "b.txt").read_text() == "world\n"


def test_copilot_calls_make_one_proposal_and_autopilot_opens_no_gate(run: Hook, tmp_path: Path) -> None:
    log = tmp_path / ".copilot/session-state" / str(COPILOT["session_id"]) / "events.jsonl"
    log.parent.mkdir(parents=True)

    def responds(at: str, prompt: str, *names: str) -> list[str]:
        """What the hook says to each call of a response."""
        said = {"type": "assistant.message", "data": {"model": "m", "originatingMessageId": prompt}}
        call = {"type": "hook.start", "timestamp": at, "data": {"hookType": "preToolUse"}}
        with log.open("a") as file:
            file.write(f"{json.dumps(said)}\n{json.dumps(call)}\n")
        calls = (COPILOT | {"timestamp": at, "tool_input": {"path": name, "file_text": ""}} for name in names)
        return [reason(run("hook", "copilot", payload=each)) for each in calls]

    prompt = COPILOT | {"hook_event_name": "UserPromptSubmit", "prompt": "Go on."}
    del prompt["tool_name"], prompt["tool_input"]
    words = responds("2026-11-23T20:48:01.000Z", "first", "b.txt", "c.txt", "d.txt")
    assert all(each.startswith("P1 is staged") for each in words), words
    assert run("hook", "copilot", payload=prompt).returncode == 0, "by which autopilot goes on"
    (refused,) = responds("2026-11-23T20:48:02.000Z", "first", "e.txt")
    assert refused.startswith("Refused, and nothing of this call was done: P1")
    below = {"session_id": "subagent", "parent_agent_id": COPILOT["session_id"]}
    refused = reason(run("hook", "copilot", payload=COPILOT | below | {"timestamp": "2026-11-23T20:48:02.000Z"}))
    assert refused.startswith("Refused, and nothing of this call was done: P1"), "its subagents are in the same turn"
    (staged,) = responds("2026-11-23T20:48:03.000Z", "second", "e.txt")
    assert staged.startswith("P2 is staged")
    files = [[file["path"] for file in one["files"]] for one in proposals(run)]
    assert sorted(files) == [["b.txt", "c.txt", "d.txt"], ["e.txt"]]


def test_only_tools_that_the_agent_writes_with_are_denied(run: Hook) -> None:
    words = reason(run("hook", "claude", payload=DROID | {"tool_use_id": "toolu_1"}))
    assert words.startswith("Refused, and nothing of this call was done: signoff's hook for Claude Code was called")
    assert "Droid writes with a tool of that name" in words and "`signoff doors install droid`" in words
    assert proposals(run) == []
    for name, payload in SENT.items():
        done = run("hook", name, payload=payload | {"tool_name": "Glob", "tool_input": {"pattern": "*"}})
        assert (done.returncode, done.stdout) == (0, ""), name


def test_a_prompt_opens_the_gate_of_an_agent_without_prompt_ids(run: Hook) -> None:
    reason(run("hook", "kimi", payload=KIMI))
    prompt = {key: KIMI[key] for key in ("session_id", "client_type")} | {"hook_event_name": "UserPromptSubmit"}
    assert run("hook", "kimi", payload=prompt | {"prompt": [{"type": "text", "text": "more"}]}).stdout == ""
    edit = {"tool_name": "Edit", "tool_input": {"path": "notes.txt", "old_string": "two", "new_string": "2"}}
    assert reason(run("hook", "kimi", payload=KIMI | edit)).startswith("P2 is staged")
    run("deny", "P2", "-m", "Not so.")
    told = run("hook", "kimi", payload=prompt | {"prompt": [{"type": "text", "text": "well?"}]}).stdout
    assert "Not so." in json.loads(told)["hookSpecificOutput"]["message"]


def test_a_decision_comes_with_the_first_call_if_the_agent_has_no_prompt_hook(run: Hook) -> None:
    for name, payload in (("copilot", COPILOT), ("droid", DROID)):
        reason(run("hook", name, payload=payload))
        (waiting,) = json.loads(run("proposals", "--json").stdout)
        run("deny", waiting["id"], "-m", "Not so.\nIn German.")
        bare = {key: value for key, value in payload.items() if key not in ("tool_name", "tool_input")}
        stop = run("hook", name, payload=bare | {"hook_event_name": "Stop", "last_assistant_message": "Done."})
        assert (stop.returncode, stop.stdout) == (0, "")
        if name == "copilot":
            prompt = bare | {"hook_event_name": "UserPromptSubmit", "prompt": "well?"}
            assert run("hook", name, payload=prompt).stdout == "", "it would not read it"
            payload = payload | {"tool_name": "view", "tool_input": {"path": "notes.txt"}}
            payload = payload | {"timestamp": "2026-11-23T20:49:00.000Z"}
            said = json.loads(run("hook", name, payload=payload).stdout)["hookSpecificOutput"]
            assert "Not so.\nIn German." in said["additionalContext"] and "permissionDecision" not in said
        else:
            payload = payload | {"tool_name": "Read", "prompt_id": "next"}
            words = reason(run("hook", name, payload=payload))
            assert "Not so.\nIn German." in words and "Make it again if it fits" in words
        assert run("hook", name, payload=payload).stdout == "", "it is told once"


@pytest.mark.parametrize("name", ["qwen", "opencode"])
def test_a_denial_reaches_the_agent_with_its_next_prompt(run: Hook, name: str) -> None:
    payload = SENT[name]
    run("hook", name, payload=payload)
    run("deny", "P1", "-m", "Not so.\nIn German.")
    prompt = payload | {"hook_event_name": "UserPromptSubmit", "prompt": "well?", "prompt_id": "next"}
    del prompt["tool_name"], prompt["tool_input"]
    heard = json.loads(run("hook", name, payload=prompt).stdout)["hookSpecificOutput"]["additionalContext"]
    assert "P1 is denied" in heard and "Not so.\nIn German." in heard
    assert run("hook", name, payload=prompt).stdout == "", "once"


@pytest.mark.parametrize("name", SENT)
def test_a_stale_edit_is_reported_once_in_the_next_turn(run: Hook, workspace: Path, name: str) -> None:
    payload = SENT[name] | ({} if name == "kimi" else {"prompt_id": "first"})
    reason(run("hook", name, payload=payload))
    (workspace / "b.txt").write_text("another\n")
    assert json.loads(run("proposals", "--json").stdout)[0]["state"] == "stale"
    look = payload | {"tool_name": "Glob", "tool_input": {"pattern": "*"}}
    assert reason(run("hook", name, payload=look)).startswith("Refused"), "only the user opens the gate"
    look |= {} if name == "kimi" else {"prompt_id": "next"}
    bare = {key: value for key, value in look.items() if key not in ("tool_name", "tool_input")}
    prompt = bare | {"hook_event_name": "UserPromptSubmit", "prompt": "well?"}
    prompts = [] if name == "droid" else [prompt]
    heard = [run("hook", name, payload=each).stdout for each in (*prompts, look, *prompts, look)]
    assert [text for text in heard if "P1 is stale and can't be approved" in text] == [text for text in heard if text]
    assert sum(map(bool, heard)) == 1
