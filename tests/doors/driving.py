"""Runs an agent as its user would: in a repository and a home of its own, one prompt at a time, in one session."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.doors.hook.agent_trial import AgentScratchFolders, ScriptedModel, install_hook_in_scratch
from app.doors.hook.agent_trial import ScriptedCall as Call
from app.doors.hook.agents import find_agent, parse_hook_options

FOLDER = "SIGNOFF_AGENTS"
"""The environment variable that names where npm has installed the agents (`npm install --prefix`), off the path."""
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "qwen": "@qwen-code/qwen-code",
    "copilot": "@github/copilot",
    "opencode": "opencode-ai",
    "droid": "@factory/cli",
    "kimi": "@moonshot-ai/kimi-code",
}
SETTINGS = tuple(f".{name}/" for name in ("claude", "codex", "gemini", "qwen", "github", "opencode", "factory"))
"""Folders of the agents' own settings."""
_SECONDS = 120


def program(agent: str) -> str | None:
    """Where an agent is installed; None if it is not."""
    folder = os.environ.get(FOLDER)
    return shutil.which(agent, path=f"{folder}/node_modules/.bin" if folder else None)


class Driven:
    """An agent, its model, and the workspace in which it works."""

    def __init__(self, agent: str, folder: Path, model: ScriptedModel, *, code_mode: bool = False) -> None:
        self.agent = agent
        self.model = model
        self._scratch = AgentScratchFolders(agent, folder, model.url, uses_code_mode=code_mode)
        self.workspace = self._scratch.workspace
        self._environment = self._scratch.environment
        # The program that the settings name has to be found, also where it is not installed for the user.
        self.put_first(Path(sys.executable).parent)
        self._prompts = 0

    def commit(self, files: Mapping[str, str]) -> None:
        """The repository as the agent finds it."""
        for name, text in files.items():
            (self.workspace / name).write_bytes(text.encode())
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-qm", "start")

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=self.workspace, capture_output=True, text=True, check=True).stdout

    def changed(self) -> list[str]:
        """What of the workspace differs from what was committed, the agent's own settings aside."""
        lines = self.git("status", "--porcelain", "--untracked-files=all").splitlines()
        return [line[3:] for line in lines if not line[3:].startswith(SETTINGS)]

    def signoff(self, *arguments: str) -> str:
        """Run a command of signoff's in the workspace."""
        command = [sys.executable, "-P", "-m", "signoff", *arguments]
        done = subprocess.run(
            command, cwd=self.workspace, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def proposals(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.signoff("proposals", "--all", "--json"))
        return [one for one in found if one["origin"]["kind"] == "agent"]

    def install(self, *options: str) -> None:
        """Have signoff propose the agent's settings, and approve that; where only the user can, do as it says."""
        if not find_agent(self.agent).settings:
            install_hook_in_scratch(
                find_agent(self.agent), self._scratch, parse_hook_options([self.agent, *options])[2]
            )
            return
        staged = json.loads(self.signoff("doors", "install", self.agent, *options, "--json"))
        self.signoff("approve", staged["id"])

    def put_first(self, folder: Path) -> None:
        """Have programs be looked for in a folder first."""
        self._environment["PATH"] = f"{folder}{os.pathsep}{self._environment['PATH']}"

    def start_shells_with(self, line: str) -> None:
        """Have each bash of the agent run a line first; `.zshenv` would do that in zsh."""
        # bash reads that file also where its input is a socket, as Node's pipes are.
        file = Path(self._environment["HOME"]) / ".bashrc"
        file.write_text(f"{line}\n")
        self._environment["BASH_ENV"] = str(file)

    def says(self, words: str, *script: Sequence[Call]) -> str:
        """The user's prompt, and how the model answers; what the agent printed."""
        self.model.script[:] = list(script)
        printed = self.runs(*self._scratch.arguments(words, again=bool(self._prompts)))
        self._prompts += 1
        return printed

    def runs(self, *words: str) -> str:
        """Run the agent with these words; what it printed."""
        found = program(self.agent)
        assert found is not None
        done = subprocess.run(
            [found, *words],
            cwd=self.workspace,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr

    def sent(self) -> str:
        """The last request, as text in which all that was sent can be found."""
        return json.dumps(self.model.requests[-1], ensure_ascii=False)

    # The calls of each agent

    def writes(self, path: str, text: str) -> Call:
        return self._scratch.make_write_call(path, text)

    def edits(self, path: str, old: str, new: str, **more: object) -> Call:
        absolute = str(self.workspace / path)
        common = {"file_path": str(self.workspace / path), "old_string": old, "new_string": new, **more}
        match self.agent:
            case "claude":
                return Call("Edit", common)
            case "codex":
                lines = [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]
                patch = "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch", ""])
                return Call("apply_patch", {}, patch)
            case "gemini":
                return Call("replace", {"instruction": "change it", **common})
            case "opencode":
                return Call("edit", {"filePath": absolute, "oldString": old, "newString": new, **more})
            case "copilot":
                return Call("edit", {"path": absolute, "old_str": old, "new_str": new, **more})
            case "droid":
                return Call("Edit", {"file_path": absolute, "old_str": old, "new_str": new, **more})
            case "kimi":
                return Call("Edit", {"path": absolute, "old_string": old, "new_string": new, **more})
            case _:
                return Call("edit", common)

    def commands(self, line: str) -> Call:
        match self.agent:
            case "claude" | "kimi":
                return Call("Bash", {"command": line})
            case "codex":
                return Call("exec_command", {"cmd": line})
            case "copilot" | "opencode":
                return Call("bash", {"command": line, "description": "run it"})
            case "droid":
                risk = {"riskLevel": "low", "riskLevelReason": "harmless", "summary": "run it"}
                return Call("Execute", {"command": line, **risk})
            case _:
                return Call("run_shell_command", {"command": line, "is_background": False})

    def reads(self, path: str) -> Call:
        match self.agent:
            case "claude" | "droid":
                return Call("Read", {"file_path": str(self.workspace / path)})
            case "kimi":
                return Call("Read", {"path": str(self.workspace / path)})
            case "copilot":
                return Call("view", {"path": str(self.workspace / path)})
            case "opencode":
                return Call("read", {"filePath": str(self.workspace / path)})
            case "codex":
                return Call("exec_command", {"cmd": f"cat {path}"})
            case _:
                return Call("read_file", {"file_path": str(self.workspace / path)})
