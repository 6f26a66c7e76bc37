"""The plugin for OpenCode, run by Node as OpenCode runs it: a call passes only if the hook ends with 0."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.doors.hook.hook_installation import render_hook_plugin

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node")
# A session with a subagent's session in it; prints what comes of a prompt and of a call.
HOST = """\
import { Signoff } from "./signoff.mjs"
const parents = { inner: "outer" }
const messages = [
  { info: { id: "m1", modelID: "model-1", parentID: "p1" }, parts: [{ callID: "c1" }] },
  { info: { id: "m2", modelID: "model-1", parentID: "p1" }, parts: [{ callID: "c2" }] },
]
const client = { session: {
  get: async ({ path }) => ({ data: { parentID: parents[path.id] } }),
  messages: async () => ({ data: messages }),
} }
const plugin = await Signoff({ client, directory: process.cwd() })
const parts = [{ id: "prt_" + "0".repeat(26), text: "prompt" }]
let thrown = ""
if (process.argv[3] === "prompt") {
  await plugin["chat.message"]({ sessionID: process.argv[2] }, { message: { id: "p2" }, parts })
}
try {
  const call = { tool: "write", sessionID: process.argv[2], callID: "c1" }
  await plugin["tool.execute.before"](call, { args: { filePath: "b.txt", content: "x".repeat(300000) } })
} catch (error) {
  thrown = error.message
}
console.log(JSON.stringify({ thrown, parts }))
"""


def call(folder: Path, command: str, session: str = "outer", *more: str, longest: int = 30) -> dict[str, Any]:
    (folder / "signoff.mjs").write_text(render_hook_plugin(command, longest))
    (folder / "host.mjs").write_text(HOST)
    done = subprocess.run(
        [str(NODE), "host.mjs", session, *more], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("command", "thrown"),
    [
        ("cat > /dev/null", ""),
        ("cat > /dev/null; echo '{}'", ""),
        ("cat > /dev/null; echo Not so. >&2; exit 2", "Not so."),
        ("exit 1", "Denied by signoff."),
        ("exit 127", "Denied by signoff."),
        ("kill -9 $$", "Denied by signoff."),
        ("kill -PIPE $$", "Denied by signoff."),
        ("exec < /dev/null; sleep 0.2; exit 3", "Denied by signoff."),
    ],
)
def test_a_call_is_allowed_only_if_the_hook_exits_with_0(tmp_path: Path, command: str, thrown: str) -> None:
    assert call(tmp_path, command)["thrown"] == thrown


@pytest.mark.parametrize("hang", ["sleep 600", "sleep 600 & exit 0", "trap '' TERM INT; while :; do sleep 1; done"])
def test_a_hook_that_does_not_answer_is_a_denial_and_is_ended(tmp_path: Path, hang: str) -> None:
    found = call(tmp_path, f"echo $$ > group; {hang}", longest=-59)
    assert found["thrown"] == "Denied, and nothing was written: signoff's hook did not answer within 1 seconds."
    with pytest.raises(ProcessLookupError):
        while True:  # until the signal has ended it
            os.killpg(int((tmp_path / "group").read_text()), 0)


def test_a_prompt_passes_without_an_answer(tmp_path: Path) -> None:
    command = "grep -q UserPromptSubmit && sleep 600; exit 0"
    found = call(tmp_path, command, "outer", "prompt", longest=-59)
    assert found["thrown"] == "" and [part["text"] for part in found["parts"]] == ["prompt"]


def test_a_call_is_denied_where_no_shell_can_be_started(tmp_path: Path) -> None:
    text = render_hook_plugin("true", 30).replace('spawn("sh"', 'spawn("/nowhere/sh"')
    (tmp_path / "signoff.mjs").write_text(text)
    (tmp_path / "host.mjs").write_text(HOST)
    done = subprocess.run([str(NODE), "host.mjs", "outer"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ENOENT" in json.loads(done.stdout)["thrown"]


@pytest.mark.parametrize(
    ("session", "prompt", "named"), [("outer", "", "p1"), ("outer", "prompt", "p2"), ("inner", "", "")]
)
def test_the_hook_gets_the_users_session(tmp_path: Path, session: str, prompt: str, named: str) -> None:
    call(tmp_path, "cat > payload", session, prompt)
    sent = json.loads((tmp_path / "payload").read_text())
    assert sent["hook_event_name"] == "PreToolUse" and sent["cwd"] == str(tmp_path)
    assert (sent["session_id"], sent["prompt_id"]) == ("outer", named)
    assert (sent["response_id"], sent["model"]) == ("m1", "model-1")
    assert sent["tool_name"] == "write" and len(sent["tool_input"]["content"]) == 300_000


def test_a_decision_is_put_behind_the_prompt(tmp_path: Path) -> None:
    said = json.dumps({"hookSpecificOutput": {"additionalContext": "From signoff"}})
    parts = call(tmp_path, f"cat > /dev/null; echo '{said}'", "outer", "prompt")["parts"]
    assert [part["text"] for part in parts] == ["prompt", "From signoff"]
    assert parts[0]["id"] < parts[1]["id"], "OpenCode sorts them by id"
    assert len(call(tmp_path, "exit 1", "outer", "prompt")["parts"]) == 1
