"""Runs an installed agent in a scratch folder with a scripted model, and reports whether its hook held an edit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from app.doors.hook.agents import ExternalAgent, HookOptions
from app.doors.hook.hook_installation import add_hook, render_toml_hooks
from app.sandbox.environment import absolute_search_path
from app.workspace.reading import read_regular_file

Json = dict[str, Any]


class ScriptedToolCall(NamedTuple):
    """A tool call that the scripted model makes: name and arguments."""

    name: str
    """In the Responses API with the namespace, if there is one: `mcp__signoff::propose_edit`."""
    arguments: Json
    freeform_input: str = ""
    """The input of a tool that takes no JSON."""


class ScriptedModelServer:
    """A model server with scripted answers; use it as a context manager."""

    def __init__(self) -> None:
        self.script: list[Sequence[ScriptedToolCall]] = []
        self.ready: Callable[[], object] = lambda: None
        """Called before each answer; the agent waits until it returns."""
        self.made = 0
        """Number of responses with calls."""
        self.requests: list[Json] = []
        """The bodies of the requests that offered tools."""
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_ModelRequestHandler,), {"model": self})
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next_calls(self, body: Json) -> tuple[Sequence[ScriptedToolCall], int]:
        """Return the calls that answer a request, and its number; only requests that offer tools advance the
        script."""
        calls: Sequence[ScriptedToolCall] = ()
        if body.get("tools"):
            self.requests.append(body)
            self.ready()
            if self.script:
                self.made += 1
                calls = self.script.pop(0)
        return calls, len(self.requests)


class _ModelRequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModelServer

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        self._send_body(b"", "text/plain")

    def do_GET(self) -> None:
        self._send_body(b'{"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []}')

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body: Json = json.loads(raw) if raw.startswith(b"{") else {}
        match self.path.split("?")[0].rpartition("/")[2].rpartition(":")[2]:
            case "messages":
                message = _make_anthropic_message(*self.model.next_calls(body))
                if body.get("stream"):
                    self._send_events(_anthropic_events(message))
                else:
                    self._send_body(json.dumps(message).encode())
            case "completions":
                self._send_events(_chat_completion_chunks(*self.model.next_calls(body)))
            case "responses":
                self._send_events(_openai_response_events(*self.model.next_calls(body)))
            case "streamGenerateContent":
                self._send_events([_make_gemini_answer(self.model.next_calls(body)[0])])
            case "generateContent":
                said = json.dumps({"reasoning": "x", "next_speaker": "user", "model_choice": "pro"})
                self._send_body(json.dumps(_gemini_candidate([{"text": said}])).encode())
            case _:
                self._send_body(b'{"input_tokens": 10}')

    def _send_events(self, events: Iterable[Json]) -> None:
        text = "".join(
            (f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event)}\n\n"
            for event in events
        )
        self._send_body(text.encode(), "text/event-stream")

    def _send_body(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _make_anthropic_message(calls: Sequence[ScriptedToolCall], number: int) -> Json:
    blocks: list[Json] = [
        {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": call.name, "input": call.arguments}
        for at, call in enumerate(calls)
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-scripted",
        "content": blocks or [{"type": "text", "text": "Done."}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _anthropic_events(message: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for at, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _openai_response_events(calls: Sequence[ScriptedToolCall], number: int) -> Iterator[Json]:
    items: list[Json] = []
    for at, call in enumerate(calls):
        namespace, _, name = call.name.rpartition("::")
        common = {"call_id": f"call_{number}_{at}", "name": name, "status": "completed"}
        common |= {"namespace": namespace} if namespace else {}
        if call.freeform_input:
            items.append(
                {"type": "custom_tool_call", "id": f"ctc_{number}_{at}", "input": call.freeform_input, **common}
            )
        else:
            text = json.dumps(call.arguments)
            items.append({"type": "function_call", "id": f"fc_{number}_{at}", "arguments": text, **common})
    if not items:
        said = [{"type": "output_text", "text": "Done.", "annotations": []}]
        items = [
            {"type": "message", "id": f"m_{number}", "role": "assistant", "status": "completed", "content": said}
        ]
    response = {"id": f"resp_{number}", "object": "response"}
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    for at, item in enumerate(items):
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": items, "usage": usage},
    }


def _chat_completion_chunks(calls: Sequence[ScriptedToolCall], number: int) -> Iterator[Json]:
    functions: list[Json] = [
        {
            "index": at,
            "id": f"call_{number}_{at}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for at, call in enumerate(calls)
    ]
    common = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    said = {"role": "assistant", **({"tool_calls": functions} if functions else {"content": "Done."})}
    yield {**common, "choices": [{"index": 0, "delta": said, "finish_reason": None}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    ending = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if functions else "stop"}
    yield {**common, "choices": [ending], "usage": usage}


def _make_gemini_answer(calls: Sequence[ScriptedToolCall]) -> Json:
    return _gemini_candidate(
        [{"functionCall": {"name": call.name, "args": call.arguments}} for call in calls] or [{"text": "Done."}]
    )


def _gemini_candidate(parts: Sequence[Json]) -> Json:
    answer = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    counts = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [answer], "usageMetadata": counts}


_PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_DEAD_PROXY = "http://127.0.0.1:9"
"""No server listens on this port, so all requests to other hosts fail."""
_CODEX_CONFIG = """model = "gpt-5.5"
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
_GEMINI_AND_QWEN_SETTINGS = """{{
"security": {{"auth": {{"selectedType": "{auth}"}}, "folderTrust": {{"enabled": false}}}},
"general": {{"disableAutoUpdate": true}},
"privacy": {{"usageStatisticsEnabled": false}}
}}"""
_KIMI_CONFIG = """default_model = "scripted"
[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 100000
[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "x"
"""
_WRITE_TOOLS = {
    "claude": ("Write", "file_path", "content"),
    "copilot": ("create", "path", "file_text"),
    "opencode": ("write", "filePath", "content"),
    "droid": ("Create", "file_path", "content"),
    "kimi": ("Write", "path", "content"),
}
"""The tool that creates a file, with its arguments for path and text, if it is not Gemini CLI's."""
_CODE_MODE_SCRIPT = "try {{ await tools.apply_patch({patch}) }} catch (error) {{ text(String(error)) }}"


class AgentTrialEnvironment:
    """The home, workspace, settings and environment variables for the trial of one agent; creates them."""

    def __init__(self, agent: str, folder: Path, url: str, *, uses_code_mode: bool = False) -> None:
        self._agent = agent
        self._code_mode = uses_code_mode
        self.workspace = folder / "workspace"
        home = folder / "home"
        for each in (self.workspace, home):
            each.mkdir()
        self.environment = {
            **{name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ},
            "HOME": str(home),
            "TERM": "dumb",
            "SIGNOFF_HOME": str(folder / "signoff"),
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _DEAD_PROXY),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
            **self._write_settings(home, url),
        }

    def _write_settings(self, home: Path, url: str) -> Mapping[str, str]:
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
                text = _CODEX_CONFIG.format(url=url, workspace=workspace, code_mode=code_mode)
                _write_new_file(home / ".codex" / "config.toml", text)
                return {"SCRIPTED_KEY": "x", "CODEX_HOME": str(home / ".codex")}
            case "gemini":
                _write_new_file(
                    home / ".gemini" / "settings.json", _GEMINI_AND_QWEN_SETTINGS.format(auth="gemini-api-key")
                )
                return {
                    "GEMINI_CLI_HOME": str(home),
                    "GOOGLE_GEMINI_BASE_URL": url,
                    "GEMINI_API_KEY": "scripted",
                    "GEMINI_TELEMETRY_ENABLED": "false",
                }
            case "qwen":
                _write_new_file(home / ".qwen" / "settings.json", _GEMINI_AND_QWEN_SETTINGS.format(auth="openai"))
                return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": "scripted"}
            case "copilot":
                _write_new_file(
                    home / ".copilot" / "config.json", json.dumps({"trusted_folders": [str(self.workspace)]})
                )
                return {
                    "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                    "COPILOT_PROVIDER_API_KEY": "x",
                    # The model's name decides which tools the agent offers.
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
                config = {"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": False}
                config |= {"share": "disabled", "provider": {"scripted": provider}}
                _write_new_file(home / ".config" / "opencode" / "opencode.json", json.dumps(config))
                switches = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
                return {f"OPENCODE_DISABLE_{name}": "1" for name in switches}
            case "droid":
                model = {"model": "scripted", "id": "custom:scripted", "displayName": "Scripted", "apiKey": "x"}
                model |= {"baseUrl": f"{url}/v1", "provider": "generic-chat-completion-api"}
                _write_new_file(home / ".factory" / "settings.json", json.dumps({"customModels": [model]}))
                return {"FACTORY_API_KEY": "fk-scripted"}
            case _:
                _write_new_file(home / ".kimi-code" / "config.toml", _KIMI_CONFIG.format(url=url))
                return {}

    def arguments(self, prompt: str, *, again: bool = False) -> list[str]:
        """Return the arguments to answer a prompt without a screen; `again` continues the session."""
        resumed = ["--continue"] if again else []
        match self._agent:
            case "claude":
                return [*resumed, "--allowedTools", "Write,Edit,Read,NotebookEdit,Bash", "-p", prompt]
            case "codex":
                resumed = ["resume", "--last"] if again else []
                return ["exec", *resumed, "--skip-git-repo-check", "--dangerously-bypass-hook-trust", prompt]
            case "gemini":
                resumed = ["--resume", "latest"] if again else []
                return ["-m", "gemini-2.5-pro", "--yolo", "--skip-trust", *resumed, "-p", prompt]
            case "qwen":
                return ["--yolo", *resumed, "-p", prompt]
            case "copilot":
                return ["--allow-all-tools", *resumed, "-p", prompt]
            case "opencode":
                return ["run", *resumed, prompt]
            case "droid":
                resumed = ["--session-id", self._droid_session()] if again else []
                return ["exec", "--auto", "high", "-m", "custom:scripted", *resumed, prompt]
            case _:
                return [*resumed, "-p", prompt]

    def _droid_session(self) -> str:
        """Return the id of its only session."""
        found = (Path(self.environment["HOME"]) / ".factory" / "sessions").rglob("*.jsonl")
        return next(found).stem

    def make_write_call(self, path: str, text: str) -> ScriptedToolCall:
        """Return the call that creates a file; with Codex's Code Mode, a script that creates it."""
        if self._agent == "codex":
            added = "".join(f"+{line}\n" for line in text.splitlines())
            patch = f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"
            if self._code_mode:
                return ScriptedToolCall("exec", {}, _CODE_MODE_SCRIPT.format(patch=json.dumps(patch)))
            return ScriptedToolCall("apply_patch", {}, patch)
        tool, path_argument, text_argument = _WRITE_TOOLS.get(self._agent, ("write_file", "file_path", "content"))
        return ScriptedToolCall(tool, {path_argument: str(self.workspace / path), text_argument: text})


def _write_new_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


TRIAL_SECONDS = 120
"""Maximum duration of one edit in seconds."""
_FILE, _TEXT = "tried.txt", "An edit by which signoff tries a door.\n"
_MAX_SETTINGS_BYTES = 65_536
"""Bytes of the settings in the scratch folder that are read."""
_Verdict = Literal["held", "not held", "not tried"]


class EditTrialResult(NamedTuple):
    """The result of one trial edit of an agent: held by signoff's hook, not held, or not tried; and why."""

    edit: str
    """`an edit`, or the special way of editing."""
    verdict: _Verdict
    why: str
    """The observation, as one line."""


def try_agent_edits(
    agent: ExternalAgent, program: str, options: HookOptions, root: Path
) -> Iterator[EditTrialResult]:
    """Run an agent with a scripted model, and yield for each way of editing whether the hook holds the edit.

    Args:
        program: Path of its program.
        options: Options of the hook; `wait` is ignored, because no user decides.
        root: The workspace; the agent finds no programs there.
    """
    search_path = absolute_search_path(os.environ, root)
    yield EditTrialResult("an edit", *_try_edit(agent, program, options, search_path, code_mode=False))
    if agent.name == "codex":
        yield EditTrialResult(
            "an edit in Code Mode", *_try_edit(agent, program, options, search_path, code_mode=True)
        )


def _try_edit(
    agent: ExternalAgent, program: str, options: HookOptions, search_path: str, *, code_mode: bool
) -> tuple[_Verdict, str]:
    if shutil.which("signoff", path=search_path) is None:
        return "not tried", "signoff is not on the PATH, where the agent looks for it: every call would be denied"
    try:
        with tempfile.TemporaryDirectory(prefix="signoff-door-", ignore_cleanup_errors=True) as name:
            with ScriptedModelServer() as model:
                scratch = AgentTrialEnvironment(agent.name, Path(name).resolve(), model.url, uses_code_mode=code_mode)
                scratch.environment["PATH"] = search_path
                install_hook_in_scratch(agent, scratch, options._replace(wait=0))
                # Make it a repository, because the system's temporary folder may lie in another one.
                (scratch.workspace / ".git").mkdir()
                model.script.append([scratch.make_write_call(_FILE, _TEXT)])
                ending = _run_agent([program, *scratch.arguments("Make the edit.")], scratch)
            if (scratch.workspace / _FILE).exists():
                return "not held", "the agent wrote the file, though it had signoff's hook"
            if _FILE in _staged_paths(scratch):
                return "held", "nothing was written, and the edit waited as a proposal"
            if not model.made:
                return "not tried", f"the agent never called the scripted model; {ending}"
            return "not tried", f"the edit was neither written nor staged; {ending}"
    except (OSError, ValueError) as error:
        return "not tried", " ".join(str(error).split())


def install_hook_in_scratch(agent: ExternalAgent, scratch: AgentTrialEnvironment, options: HookOptions) -> None:
    """Write signoff's hook into the settings of an agent in its scratch folder."""
    if agent.form == "toml":
        path = Path(scratch.environment["HOME"]) / str(agent.user_settings)
        path.write_text(
            f"{read_regular_file(path, _MAX_SETTINGS_BYTES)[0].decode()}\n{render_toml_hooks(agent, options)}"
        )
        return
    path = scratch.workspace / agent.settings
    path.parent.mkdir(parents=True)
    path.write_text(add_hook(agent, "", options))


def _run_agent(command: list[str], scratch: AgentTrialEnvironment) -> str:
    """Run the agent and return how it ended."""
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
            lines = process.communicate(timeout=TRIAL_SECONDS)[0].decode("utf-8", "replace").split("\n")
        except subprocess.TimeoutExpired:
            return f"it did not end within {TRIAL_SECONDS} seconds"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"it exited with {process.returncode}; its last line: {last or '(nothing)'}"


def _staged_paths(scratch: AgentTrialEnvironment) -> list[str]:
    """Return the files of all proposals in the scratch folder."""
    command = [sys.executable, "-P", "-m", "signoff", "proposals", "--all", "--json"]
    done = subprocess.run(
        command,
        cwd=scratch.workspace,
        env=scratch.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return [file["path"] for proposal in json.loads(done.stdout or "[]") for file in proposal["files"]]
