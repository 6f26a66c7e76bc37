"""`signoff doors`: shown, proposed and taken out; where they are open; tried with agents that are only scripts."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_commands import Run, document, refused

AGENT = """#!{python}
import json, os, subprocess, sys, urllib.request
if sys.argv[1:] == ["--version"]:
    sys.exit(print("2.1.330 (Claude Code)"))
body = json.dumps({{"tools": [{{}}], "messages": []}}).encode()
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body)
(call,) = json.load(urllib.request.urlopen(request))["content"]
groups = json.load(open(".claude/settings.json"))["hooks"]["PreToolUse"]
asked = {{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": os.getcwd(), "tool_name": call["name"]}}
asked = json.dumps(asked | {{"tool_input": call["input"]}})
done = subprocess.run(groups[0]["hooks"][0]["command"], shell=True, input=asked, capture_output=True, text=True)
if {obeys} and (done.returncode == 2 or '"deny"' in done.stdout):
    sys.exit(print(done.stdout + done.stderr))
open(call["input"]["file_path"], "w").write(call["input"]["content"])
"""
"""An agent as far as its door goes."""


class Installed:
    """A folder of programs, and the environment in which they are found."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        own = Path(sys.executable).parent
        self.environment = {"HOME": str(folder.parent), "PATH": f"{folder}:{own}:/usr/bin:/bin"}

    def put(self, agent: str, text: str) -> None:
        (self._folder / agent).write_text(text)
        (self._folder / agent).chmod(0o755)


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path / "programs")


def test_a_door_is_shown_installed_and_removed(signoff: Run, workspace: Path) -> None:
    home = {"HOME": str(workspace.parent)}
    settings = workspace / ".claude/settings.json"
    shown = document(signoff("doors", "show", "claude", "--json", **home))
    assert [(one["hooked"], one["unreadable"], one["waiting"]) for one in shown] == [({}, {}, "")]
    assert "signoff doors install claude" in signoff("doors", **home).stdout
    staged = document(signoff("doors", "install", "claude", "--json", **home))
    assert [file["path"] for file in staged["files"]] == [".claude/settings.json"] and not settings.exists()
    assert "P1 would change .claude/settings.json and waits" in signoff("doors", **home).stdout
    again = "hooked in already by .claude/settings.json here"
    assert f"{again}, as pending in P1." in refused(signoff("doors", "install", "claude", **home), 1)
    assert signoff("approve", "P1", **home).returncode == 0
    assert f"{again}." in refused(signoff("doors", "install", "claude", **home), 1)
    (hooked,) = document(signoff("doors", "show", "claude", "--json", **home))
    assert hooked["hooked"] == {
        ".claude/settings.json": "signoff hook claude || sh -c 'echo Denied by signoff. >&2; exit 2'"
    }
    assert hooked["open"] == []
    settings.write_text(f"\ufeff{settings.read_text()}")  # An editor has added a byte order mark.
    told = signoff("doors", "remove", "claude", **home).stdout.splitlines()
    assert told[0].startswith("Staged P2") and told[1:] == ["Once it is approved: Start it anew."]
    assert signoff("approve", "P2", "--force", **home).returncode == 0 and not settings.exists()


def test_unreadable_agent_settings_are_named_and_not_changed(signoff: Run, workspace: Path) -> None:
    settings = workspace / ".claude/settings.json"
    settings.parent.mkdir()
    for data in (b"nonsense", b"[]", b"\xff", b'{"model": "caf\xe9"}'):
        settings.write_bytes(data)
        told = refused(signoff("doors", "install", "claude", HOME=str(workspace.parent)), 3)
        assert ".claude/settings.json can't be changed: " in told
        if data != b"[]":
            assert ".claude/settings.json can't be read: " in signoff("doors", HOME=str(workspace.parent)).stdout
    for config in (workspace / ".codex/config.toml", workspace.parent / ".kimi-code/config.toml"):
        config.parent.mkdir()
        config.write_text(f"x = {'[' * 5_000}")
    shown = signoff("doors", HOME=str(workspace.parent))
    assert shown.returncode == 0 and "can't be read: they are no TOML: nested too deeply" in shown.stdout
    config.write_text('[[hooks]]\nevent = "PreToolUse"\ncommand = "signoff hook kimi"\ntimeout = []\n')
    assert f"{config.name}: signoff hook kimi" in signoff("doors", HOME=str(workspace.parent)).stdout


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("claude/settings.local.json", '{"disableAllHooks": true}', "settings.local.json: disableAllHooks turns all"),
        ("claude/settings.json", '{"disableAllHooks": false}', ""),
        ("codex/config.toml", "[features]\nhooks = false\n", "features.hooks = false turns all hooks off"),
        ("codex/config.toml", "[features]\ncodex_hooks = false\n", "features.hooks = false turns all hooks off"),
        ("codex/config.toml", "[features\n", ""),
        ("gemini/settings.json", '{"hooksConfig": {"enabled": false}}', "hooksConfig.enabled turns all hooks off"),
        ("gemini/settings.json", '{"hooksConfig": {"disabled": ["signoff hook gemini || exit 2"]}}', "has signoff's"),
    ],
)
def test_agent_settings_that_bypass_the_hook_are_reported(
    signoff: Run, workspace: Path, installed: Installed, name: str, text: str, told: str
) -> None:
    path = workspace / f".{name}"
    path.parent.mkdir()
    path.write_text(text)
    found = opened(signoff, installed, name.partition("/")[0])
    assert len(found) == bool(told) and told in "".join(found)


def opened(signoff: Run, installed: Installed, agent: str) -> list[str]:
    """What is told of a door once signoff is hooked in."""
    signoff("doors", "install", agent, **installed.environment)
    signoff("approve", "P1", **installed.environment)
    (line,) = document(signoff("doors", "show", agent, "--json", **installed.environment))
    assert line["hooked"]
    shown = signoff("doors", "show", agent, **installed.environment).stdout
    assert all(f"! open: {why}" in shown for why in line["open"])
    found: list[str] = line["open"]
    return found


@pytest.mark.parametrize(("version", "told"), [("0.140.0", True), ("0.141.0", False), ("none", False)])
def test_agent_releases_that_bypass_the_hook_are_reported(
    signoff: Run, workspace: Path, installed: Installed, version: str, told: bool
) -> None:
    installed.put("codex", f'#!/bin/sh\necho "codex-cli {version}"\ntouch "$HOME/left" "$CODEX_HOME/left"\n')
    assert bool(opened(signoff, installed, "codex")) == told
    assert not (workspace.parent / "left").exists(), "it writes into no home of the user's to say its version"


def test_a_hook_time_limit_that_is_too_short_is_reported(signoff: Run, workspace: Path, installed: Installed) -> None:
    opened(signoff, installed, "gemini")
    settings = workspace / ".gemini/settings.json"
    settings.write_text(settings.read_text().replace("600000", "20000"))
    told = signoff("doors", "show", "gemini", **installed.environment).stdout
    assert "! open: .gemini/settings.json: the time limit of 20 s there is too short" in told


def test_an_agent_in_the_workspace_is_not_run(signoff: Run, workspace: Path, installed: Installed) -> None:
    (workspace / ".venv/bin").mkdir(parents=True)
    installed.put("claude", "#!/usr/bin/env node\n")
    for name in ("claude", "node", "signoff"):
        (workspace / ".venv/bin" / name).write_text(f'#!/bin/sh\necho $0 >> "{workspace.parent}/ran"\n')
        (workspace / ".venv/bin" / name).chmod(0o755)
    installed.environment["PATH"] = f"{workspace}/.venv/bin:{installed.environment['PATH']}"
    (line,) = document(signoff("doors", "show", "claude", "--json", **installed.environment))
    assert line["program"].endswith("programs/claude")
    tried(signoff, installed, "--try", "claude")
    assert not (workspace.parent / "ran").exists(), (workspace.parent / "ran").read_text()


def tried(signoff: Run, installed: Installed, *words: str, **more: str) -> tuple[int, list[dict[str, Any]]]:
    done = signoff("doors", *words, "--json", **installed.environment, **more)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return done.returncode, found


def test_trying_a_working_door_leaves_no_trace(signoff: Run, workspace: Path, installed: Installed) -> None:
    installed.put("claude", AGENT.format(python=sys.executable, obeys=True))
    before = sorted(workspace.iterdir())
    code, (line,) = tried(signoff, installed, "--try", "claude")
    assert (code, line["edit"], line["verdict"]) == (0, "an edit", "held"), line
    assert document(signoff("proposals", "--all", "--json", **installed.environment)) == []
    assert sorted(workspace.iterdir()) == before
    assert signoff("doors", "--try", **installed.environment).returncode == 0, "what is not installed is no failure"


def test_a_door_that_the_agent_bypasses_is_reported(signoff: Run, workspace: Path, installed: Installed) -> None:
    installed.put("claude", AGENT.format(python=sys.executable, obeys=False))
    code, (line,) = tried(signoff, installed, "show", "claude", "--try")
    assert (code, line["verdict"], line["why"]) == (
        3,
        "not held",
        "the agent wrote the file, though it had signoff's hook",
    )
    told = signoff("doors", "--try", **installed.environment)
    assert told.returncode == 3
    assert "without your settings" in told.stdout.splitlines()[0]
    assert told.stdout.splitlines()[1:3] == [
        "claude   an edit: not held; the agent wrote the file, though it had signoff's hook",
        "         not hooked in here; for that, run `signoff doors install claude`",
    ]
    opened(signoff, installed, "claude")
    assert "not hooked in here" not in signoff("doors", "--try", **installed.environment).stdout


def test_a_door_that_cannot_be_tried_names_the_reason(signoff: Run, workspace: Path, installed: Installed) -> None:
    code, (line,) = tried(signoff, installed, "--try", "claude")
    assert (code, line["verdict"], line["why"], line["program"]) == (1, "not tried", "it is not installed", None)
    told = workspace.parent / "told"
    installed.put("claude", f"#!/bin/sh\nenv > {told}\necho Please log in.\n")
    keys = {"ANTHROPIC_API_KEY": "sk-ant-own", "ANTHROPIC_AUTH_TOKEN": "own", "CLAUDE_CONFIG_DIR": "/own"}
    code, (line,) = tried(signoff, installed, "--try", "claude", **keys)
    assert code == 1
    assert line["why"] == "the agent never called the scripted model; it exited with 0; its last line: Please log in."
    seen = dict(line.split("=", 1) for line in told.read_text().splitlines())
    assert "own" not in "".join(seen[name] for name in keys if name in seen)
    assert seen["HOME"] != installed.environment["HOME"] and seen["ANTHROPIC_BASE_URL"].startswith(
        "http://127.0.0.1:"
    )
    assert not Path(seen["HOME"]).exists(), "it is gone"
    installed.put("claude", "#!/nowhere\n")
    code, (line,) = tried(signoff, installed, "--try", "claude")
    assert code == 1 and "No such file" in line["why"]
    installed.environment["PATH"] = f"{workspace.parent / 'programs'}:/usr/bin:/bin"
    code, (line,) = tried(signoff, installed, "--try", "claude")
    assert (code, line["verdict"]) == (1, "not tried") and line["why"].startswith("signoff is not on the PATH")
