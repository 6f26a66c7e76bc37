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
# A session with a subagent's session in it; prints what comes of each call, perhaps after a prompt, by its plugin.
HOST = """\
const parents = { inner: "outer" }
const messages = [
  { info: { id: "m1", modelID: "model-1", parentID: "p1" }, parts: [{ callID: "c1" }] },
  { info: { id: "m2", modelID: "model-1", parentID: "p1" }, parts: [{ callID: "c2" }] },
]
const client = { session: {
  get: async ({ path }) => ({ data: { parentID: parents[path.id] } }),
  messages: async () => ({ data: messages }),
} }
const outcomes = JSON.parse(process.argv[2]).map(async ([session, prompt], number) => {
  const { Signoff } = await import(`./plugin${number}.mjs`)
  const plugin = await Signoff({ client, directory: process.cwd() })
  const parts = [{ id: "prt_" + "0".repeat(26), text: "prompt" }]
  if (prompt) {
    await plugin["chat.message"]({ sessionID: session }, { message: { id: "p2" }, parts })
  }
  try {
    const call = { tool: "write", sessionID: session, callID: "c1" }
    await plugin["tool.execute.before"](call, { args: { filePath: "b.txt", content: "x".repeat(300000) } })
    return { thrown: "", parts }
  } catch (error) {
    return { thrown: error.message, parts }
  }
})
console.log(JSON.stringify(await Promise.all(outcomes)))
"""


def call(folder: Path, *plugins: str, session: str = "outer", prompt: bool = False) -> list[dict[str, Any]]:
    """What comes of a call by each plugin, all at the same time in one Node."""
    for number, plugin in enumerate(plugins):
        (folder / f"plugin{number}.mjs").write_text(plugin)
    (folder / "host.mjs").write_text(HOST)
    calls = json.dumps([(session, prompt)] * len(plugins))
    done = subprocess.run([str(NODE), "host.mjs", calls], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_call_is_allowed_only_if_the_hook_exits_with_0(tmp_path: Path) -> None:
    denied = "Denied by signoff."
    outcomes = {
        "cat > /dev/null": "",
        "cat > /dev/null; echo '{}'": "",
        "cat > /dev/null; echo Not so. >&2; exit 2": "Not so.",
        "exit 1": denied,
        "exit 127": denied,
        "kill -9 $$": denied,
        "kill -PIPE $$": denied,
        "exec < /dev/null; sleep 0.2; exit 3": denied,
    }
    no_shell = render_hook_plugin("true", 30).replace('spawn("sh"', 'spawn("/nowhere/sh"')
    *found, without_shell = call(tmp_path, *(render_hook_plugin(command, 30) for command in outcomes), no_shell)
    assert dict(zip(outcomes, (each["thrown"] for each in found), strict=True)) == outcomes
    assert "ENOENT" in without_shell["thrown"]


def test_a_hook_that_does_not_answer_is_a_denial_and_is_ended(tmp_path: Path) -> None:
    hangs = ("sleep 600", "sleep 600 & exit 0", "trap '' TERM INT; while :; do sleep 1; done")
    plugins = [render_hook_plugin(f"echo $$ > group{number}; {hang}", -59) for number, hang in enumerate(hangs)]
    for number, found in enumerate(call(tmp_path, *plugins)):
        assert found["thrown"] == "Denied, and nothing was written: signoff's hook did not answer within 1 seconds."
        with pytest.raises(ProcessLookupError):
            while True:  # until the signal has ended it
                os.killpg(int((tmp_path / f"group{number}").read_text()), 0)


@pytest.mark.parametrize(
    ("session", "prompt", "named"), [("outer", False, "p1"), ("outer", True, "p2"), ("inner", False, "")]
)
def test_the_hook_gets_the_users_session(tmp_path: Path, session: str, prompt: bool, named: str) -> None:
    call(tmp_path, render_hook_plugin("cat > payload", 30), session=session, prompt=prompt)
    sent = json.loads((tmp_path / "payload").read_text())
    assert sent["hook_event_name"] == "PreToolUse" and sent["cwd"] == str(tmp_path)
    assert (sent["session_id"], sent["prompt_id"]) == ("outer", named)
    assert (sent["response_id"], sent["model"]) == ("m1", "model-1")
    assert sent["tool_name"] == "write" and len(sent["tool_input"]["content"]) == 300_000


def test_a_decision_is_put_behind_the_prompt_which_passes_without_an_answer(tmp_path: Path) -> None:
    said = json.dumps({"hookSpecificOutput": {"additionalContext": "From signoff"}})
    answering, failing = (
        render_hook_plugin(command, 30) for command in (f"cat > /dev/null; echo '{said}'", "exit 1")
    )
    silent = render_hook_plugin("grep -q UserPromptSubmit && sleep 600; exit 0", -59)
    answered, failed, unanswered = call(tmp_path, answering, failing, silent, prompt=True)
    assert [part["text"] for part in answered["parts"]] == ["prompt", "From signoff"]
    assert answered["parts"][0]["id"] < answered["parts"][1]["id"], "OpenCode sorts them by id"
    assert len(failed["parts"]) == 1
    assert unanswered["thrown"] == "" and [part["text"] for part in unanswered["parts"]] == ["prompt"]
