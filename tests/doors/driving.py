"""Run an agent as its user would: in a repository and a home folder, with one prompt at a time, in one session."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.doors.hook.agent_trial import AgentTrialEnvironment, ScriptedModelServer, install_hook_in_scratch
from app.doors.hook.agent_trial import ScriptedToolCall as Call
from app.doors.hook.agents import find_agent, parse_hook_arguments

FOLDER = "SIGNOFF_AGENTS"
"""Environment variable with the folder in which npm has installed the agents (`npm install --prefix`)."""
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
"""Folders of the agents' settings."""
_MAX_SECONDS = 120


def program(agent: str) -> str | None:
    folder = os.environ.get(FOLDER)
    return shutil.which(agent, path=f"{folder}/node_modules/.bin" if folder else None)


class DrivenAgent:
    def __init__(self, agent: str, folder: Path, model: ScriptedModelServer, *, code_mode: bool = False) -> None:
        self.agent = agent
        self.model = model
        self._scratch = AgentTrialEnvironment(agent, folder, model.url, uses_code_mode=code_mode)
        self.workspace = self._scratch.workspace
        self._environment = self._scratch.environment
        # The program in the agent's settings must be found, even if the user has not installed it.
        self.prepend_to_path(Path(sys.executable).parent)
        self._prompts = 0

    def commit(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.workspace / name).write_bytes(text.encode())
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-qm", "start")

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=self.workspace, capture_output=True, text=True, check=True).stdout

    def changed_paths(self) -> list[str]:
        """Return the paths that differ from the commit, without the agent's settings."""
        lines = self.git("status", "--porcelain", "--untracked-files=all").splitlines()
        return [line[3:] for line in lines if not line[3:].startswith(SETTINGS)]

    def signoff(self, *arguments: str) -> str:
        command = [sys.executable, "-P", "-m", "signoff", *arguments]
        done = subprocess.run(
            command, cwd=self.workspace, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def proposals(self) -> list[dict[str, Any]]:
        proposals: list[dict[str, Any]] = json.loads(self.signoff("proposals", "--all", "--json"))
        return [proposal for proposal in proposals if proposal["origin"]["kind"] == "agent"]

    def install(self, *options: str) -> None:
        """Propose the agent's settings and approve them; follow the instructions if only the user can change them."""
        if not find_agent(self.agent).settings:
            install_hook_in_scratch(
                find_agent(self.agent), self._scratch, parse_hook_arguments([self.agent, *options])[2]
            )
            return
        staged = json.loads(self.signoff("doors", "install", self.agent, *options, "--json"))
        self.signoff("approve", staged["id"])

    def prepend_to_path(self, folder: Path) -> None:
        self._environment["PATH"] = f"{folder}{os.pathsep}{self._environment['PATH']}"

    def start_shells_with(self, line: str) -> None:
        """Make each bash of the agent run a line first; `.zshenv` would do this in zsh."""
        # bash also reads this file if its input is a socket, like the pipes of Node.
        file = Path(self._environment["HOME"]) / ".bashrc"
        file.write_text(f"{line}\n")
        self._environment["BASH_ENV"] = str(file)

    def send_prompt(self, words: str, *script: Sequence[Call]) -> str:
        """Send a prompt of the user and let the model answer by a script; return the agent's output."""
        self.model.script[:] = list(script)
        printed = self.run_agent(*self._scratch.arguments(words, again=bool(self._prompts)))
        self._prompts += 1
        return printed

    def run_agent(self, *arguments: str) -> str:
        executable = program(self.agent)
        assert executable is not None
        done = subprocess.run(
            [executable, *arguments],
            cwd=self.workspace,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MAX_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr

    def last_request(self) -> str:
        return json.dumps(self.model.requests[-1], ensure_ascii=False)

    # Tool calls of each agent

    def write_call(self, path: str, text: str) -> Call:
        return self._scratch.make_write_call(path, text)

    def edit_call(self, path: str, old: str, new: str, **more: object) -> Call:
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

    def command_call(self, line: str) -> Call:
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

    def read_call(self, path: str) -> Call:
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
