"""Where an agent runs against the scripted model: a home of its own, without the user's settings and keys.

What it would fetch elsewhere goes to a proxy that does not exist.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from app.doors.trial.scripted_model import ScriptedCall

_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_NO_PROXY = "http://127.0.0.1:9"
"""Nothing listens at the port for what is to be thrown away."""
_CODEX = """model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[features]
code_mode = {code_mode}
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
supports_websockets = false
[projects.{workspace}]
trust_level = "trusted"
"""
_GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"disableAutoUpdate": True},
    "privacy": {"usageStatisticsEnabled": False},
}
_IN_CODE = "try {{ await tools.apply_patch({patch}) }} catch (error) {{ text(String(error)) }}"


class AgentScratch:
    """The folders and variables of one agent, made when this is."""

    def __init__(self, agent: str, folder: Path, url: str, *, code_mode: bool = False) -> None:
        self._agent = agent
        self._code_mode = code_mode
        self.workspace = folder / "workspace"
        home = folder / "home"
        for each in (self.workspace, home):
            each.mkdir()
        self.environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "HOME": str(home),
            "TERM": "dumb",
            "SIGNOFF_HOME": str(folder / "signoff"),
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NO_PROXY),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
            **self._set_up(home, url),
        }

    def _set_up(self, home: Path, url: str) -> Mapping[str, str]:
        settings = home / f".{self._agent}"
        settings.mkdir()
        match self._agent:
            case "claude":
                return {
                    "ANTHROPIC_BASE_URL": url,
                    "ANTHROPIC_API_KEY": "sk-ant-scripted",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    "DISABLE_AUTOUPDATER": "1",
                    "IS_SANDBOX": "1",
                }
            case "codex":
                workspace, code_mode = json.dumps(str(self.workspace)), str(self._code_mode).lower()
                text = _CODEX.format(url=url, workspace=workspace, code_mode=code_mode)
                (settings / "config.toml").write_text(text)
                return {"SCRIPTED_KEY": "x", "CODEX_HOME": str(settings)}
            case _:
                (settings / "settings.json").write_text(json.dumps(_GEMINI))
                return {
                    "GEMINI_CLI_HOME": str(home),
                    "GOOGLE_GEMINI_BASE_URL": url,
                    "GEMINI_API_KEY": "scripted",
                    "GEMINI_TELEMETRY_ENABLED": "false",
                }

    def arguments(self, prompt: str, *, again: bool = False) -> list[str]:
        """The arguments that have the agent answer a prompt without a screen, in the same session if `again`."""
        match self._agent:
            case "claude":
                allowed = ["--allowedTools", "Write,Edit,Read,NotebookEdit,Bash"]
                return [*(["--continue"] if again else []), *allowed, "-p", prompt]
            case "codex":
                resumed = ["resume", "--last"] if again else []
                return ["exec", *resumed, "--skip-git-repo-check", "--dangerously-bypass-hook-trust", prompt]
            case _:
                resumed = ["--resume", "latest"] if again else []
                return ["-m", "gemini-2.5-pro", "--yolo", "--skip-trust", *resumed, "-p", prompt]

    def write_call(self, path: str, text: str) -> ScriptedCall:
        """The call that makes a file; where Codex has Code Mode on, out of a script."""
        if self._agent == "codex":
            added = "".join(f"+{line}\n" for line in text.splitlines())
            patch = f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"
            if self._code_mode:
                return ScriptedCall("exec", {}, _IN_CODE.format(patch=json.dumps(patch)))
            return ScriptedCall("apply_patch", {}, patch)
        name = "Write" if self._agent == "claude" else "write_file"
        return ScriptedCall(name, {"file_path": str(self.workspace / path), "content": text})
