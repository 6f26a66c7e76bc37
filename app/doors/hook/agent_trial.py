"""Has an installed agent make an edit in a scratch folder, and says whether its hook held the edit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from app.doors.hook.agents import Agent
from app.doors.hook.hook_settings import toml_hooks, with_hook
from app.doors.hook.options import HookOptions
from app.doors.hook.scripted_model import ScriptedCall, ScriptedModel
from app.workspace.reading import read_file

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
_QWEN = {
    "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
    "general": {"disableAutoUpdate": True},
    "privacy": {"usageStatisticsEnabled": False},
}
_KIMI = """default_model = "scripted"
[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 100000
[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "x"
"""
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
                _write(home / ".codex" / "config.toml", text)
                return {"SCRIPTED_KEY": "x", "CODEX_HOME": str(home / ".codex")}
            case "gemini":
                _write(home / ".gemini" / "settings.json", json.dumps(_GEMINI))
                return {
                    "GEMINI_CLI_HOME": str(home),
                    "GOOGLE_GEMINI_BASE_URL": url,
                    "GEMINI_API_KEY": "scripted",
                    "GEMINI_TELEMETRY_ENABLED": "false",
                }
            case "qwen":
                _write(home / ".qwen" / "settings.json", json.dumps(_QWEN))
                return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": "scripted"}
            case "copilot":
                _write(home / ".copilot" / "config.json", json.dumps({"trusted_folders": [str(self.workspace)]}))
                return {
                    "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                    "COPILOT_PROVIDER_API_KEY": "x",
                    # The model decides which tools it has.
                    "COPILOT_MODEL": "claude-sonnet-4.5",
                    "COPILOT_OFFLINE": "true",
                    "COPILOT_AUTO_UPDATE": "false",
                }
            case "opencode":
                provider = {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
                    "models": {"scripted": {}},
                }
                settings = {"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": False}
                settings |= {"share": "disabled", "provider": {"scripted": provider}}
                _write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
                switches = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
                return {f"OPENCODE_DISABLE_{name}": "1" for name in switches}
            case "droid":
                model = {"model": "scripted", "id": "custom:scripted", "displayName": "Scripted", "apiKey": "x"}
                model |= {"baseUrl": f"{url}/v1", "provider": "generic-chat-completion-api"}
                _write(home / ".factory" / "settings.json", json.dumps({"customModels": [model]}))
                return {"FACTORY_API_KEY": "fk-scripted"}
            case _:
                _write(home / ".kimi-code" / "config.toml", _KIMI.format(url=url))
                return {}

    def arguments(self, prompt: str, *, again: bool = False) -> list[str]:
        """The arguments that have the agent answer a prompt without a screen, in the same session if `again`."""
        match self._agent:
            case "claude":
                allowed = ["--allowedTools", "Write,Edit,Read,NotebookEdit,Bash"]
                return [*(["--continue"] if again else []), *allowed, "-p", prompt]
            case "codex":
                resumed = ["resume", "--last"] if again else []
                return ["exec", *resumed, "--skip-git-repo-check", "--dangerously-bypass-hook-trust", prompt]
            case "gemini":
                resumed = ["--resume", "latest"] if again else []
                return ["-m", "gemini-2.5-pro", "--yolo", "--skip-trust", *resumed, "-p", prompt]
            case "qwen":
                return ["--yolo", *(["--continue"] if again else []), "-p", prompt]
            case "copilot":
                return ["--allow-all-tools", *(["--continue"] if again else []), "-p", prompt]
            case "opencode":
                return ["run", *(["--continue"] if again else []), prompt]
            case "droid":
                resumed = ["--session-id", self._droid_session()] if again else []
                return ["exec", "--auto", "high", "-m", "custom:scripted", *resumed, prompt]
            case _:
                return [*(["--continue"] if again else []), "-p", prompt]

    def _droid_session(self) -> str:
        """The id of its only session."""
        found = (Path(self.environment["HOME"]) / ".factory" / "sessions").rglob("*.jsonl")
        return next(found).stem

    def write_call(self, path: str, text: str) -> ScriptedCall:
        """The call that makes a file; where Codex has Code Mode on, out of a script."""
        if self._agent == "codex":
            added = "".join(f"+{line}\n" for line in text.splitlines())
            patch = f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"
            if self._code_mode:
                return ScriptedCall("exec", {}, _IN_CODE.format(patch=json.dumps(patch)))
            return ScriptedCall("apply_patch", {}, patch)
        absolute = str(self.workspace / path)
        match self._agent:
            case "claude":
                return ScriptedCall("Write", {"file_path": absolute, "content": text})
            case "copilot":
                return ScriptedCall("create", {"path": absolute, "file_text": text})
            case "opencode":
                return ScriptedCall("write", {"filePath": absolute, "content": text})
            case "droid":
                return ScriptedCall("Create", {"file_path": absolute, "content": text})
            case "kimi":
                return ScriptedCall("Write", {"path": absolute, "content": text})
            case _:
                return ScriptedCall("write_file", {"file_path": absolute, "content": text})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


SECONDS = 120
"""How long an agent may take for one edit."""
_FILE, _TEXT = "tried.txt", "An edit by which signoff tries a door.\n"
_LARGEST = 65_536
"""Bytes of the settings in the scratch folder that are read."""
_Verdict = Literal["held", "not held", "not tried"]


class Trial(NamedTuple):
    """The result of one edit."""

    edit: str
    """`an edit`, or how else it was made."""
    verdict: _Verdict
    why: str
    """What was seen, in a line."""


def try_door(agent: Agent, program: str, options: HookOptions) -> Iterator[Trial]:
    """Try each way in which the agent edits that works without a screen.

    Args:
        agent: Which.
        program: Where it is installed.
        options: Those of its hook; `wait` is ignored, since nobody decides.
    """
    yield Trial("an edit", *_try_edit(agent, program, options, code_mode=False))
    if agent.name == "codex":
        yield Trial("an edit in Code Mode", *_try_edit(agent, program, options, code_mode=True))


def _try_edit(agent: Agent, program: str, options: HookOptions, *, code_mode: bool) -> tuple[_Verdict, str]:
    if shutil.which("signoff") is None:
        return "not tried", "signoff is not on the PATH, where the agent looks for it: every call would be denied"
    try:
        with tempfile.TemporaryDirectory(prefix="signoff-door-", ignore_cleanup_errors=True) as name:
            with ScriptedModel() as model:
                scratch = AgentScratch(agent.name, Path(name).resolve(), model.url, code_mode=code_mode)
                put_hook(agent, scratch, options._replace(wait=0))
                # A repository, also where the system's temporary folder lies in another one.
                (scratch.workspace / ".git").mkdir()
                model.script.append([scratch.write_call(_FILE, _TEXT)])
                ending = _run([program, *scratch.arguments("Make the edit.")], scratch)
            if (scratch.workspace / _FILE).exists():
                return "not held", "the agent wrote the file, though it had signoff's hook"
            if _FILE in _staged_paths(scratch):
                return "held", "nothing was written, and the edit waited as a proposal"
            if not model.made:
                return "not tried", f"the agent never called the scripted model; {ending}"
            return "not tried", f"the edit was neither written nor staged; {ending}"
    except (OSError, ValueError) as error:
        return "not tried", " ".join(str(error).split())


def put_hook(agent: Agent, scratch: AgentScratch, options: HookOptions) -> None:
    """Write signoff's hook into the settings of an agent in its scratch folder."""
    if agent.form == "toml":
        path = Path(scratch.environment["HOME"]) / str(agent.user_settings)
        path.write_text(f"{read_file(path, _LARGEST)[0].decode()}\n{toml_hooks(agent, options)}")
        return
    path = scratch.workspace / agent.settings
    path.parent.mkdir(parents=True)
    path.write_text(with_hook(agent, "", options))


def _run(command: list[str], scratch: AgentScratch) -> str:
    """Run the agent and say how it ended."""
    with subprocess.Popen(
        command,
        cwd=scratch.workspace,
        env=scratch.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            lines = process.communicate(timeout=SECONDS)[0].decode("utf-8", "replace").split("\n")
        except subprocess.TimeoutExpired:
            return f"it did not end within {SECONDS} seconds"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"it exited with {process.returncode}; its last line: {last or '(nothing)'}"


def _staged_paths(scratch: AgentScratch) -> list[str]:
    """The files of all proposals in the scratch folder."""
    command = [sys.executable, "-P", "-m", "signoff", "proposals", "--all", "--json"]
    done = subprocess.run(
        command,
        cwd=scratch.workspace,
        env=scratch.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return [file["path"] for one in json.loads(done.stdout or "[]") for file in one["files"]]
