"""Finds, adds and removes signoff's hook in the settings of another agent, and reports what lets calls bypass it.

OpenCode runs no hook commands: a plugin in `.opencode/plugin` calls `signoff hook opencode` before each tool. An
error that its `tool.execute.before` throws replaces the call as its result. https://opencode.ai/docs/plugins
"""

import io
import json
import math
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any, NamedTuple

from app.config.toml_files import parse_toml
from app.doors.hook.agents import ExternalAgent, HookOptions, parse_hook_arguments
from app.sandbox.environment import environment_without_workspace

_SPACE_AND_COMMENTS = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_JSON_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\[\]{}"/]+')


class JsonNode(NamedTuple):
    """A value in a JSON text, with its position."""

    start: int
    end: int
    """Offset after the value."""
    members: "dict[str, JsonNode] | None" = None
    """The members of an object."""
    items: "tuple[JsonNode, ...] | None" = None
    """The items of an array."""
    key_start: int = -1
    """Offset of its key, for a member of an object."""


def parse_json_with_comments(text: str) -> JsonNode:
    """Parse a JSON text, which may have comments and a byte order mark, into nodes with their positions.

    Raises:
        ValueError: It is not JSON, or an object has a key twice, of which programs read one or the other.
    """
    node, at = _parse_value(text, _skip_space(text, int(text.startswith("\ufeff"))), 0)
    if _skip_space(text, at) != len(text):
        raise ValueError(f"there is more after the end, from character {at}")
    return node


def json_node_value(text: str, node: JsonNode) -> object:
    """Return the Python value of a node."""
    if node.members is not None:
        return {key: json_node_value(text, each) for key, each in node.members.items()}
    if node.items is not None:
        return [json_node_value(text, item) for item in node.items]
    return json.loads(text[node.start : node.end])


def insert_json_member(text: str, node: JsonNode, key: str, value: object) -> str:
    """Return the text with one more member at the end of an object."""
    return _append_child(text, node, f"{json.dumps(key)}: ", value, list((node.members or {}).values()))


def append_json_item(text: str, node: JsonNode, value: object) -> str:
    """Return the text with one more item at the end of an array."""
    return _append_child(text, node, "", value, list(node.items or ()))


def remove_json_child(text: str, parent: JsonNode, child: JsonNode) -> str:
    """Return the text without one member or item of `parent`, and without its comma."""
    every = list(parent.members.values()) if parent.members is not None else list(parent.items or ())
    at = every.index(child)
    begins = [item.key_start if item.key_start >= 0 else item.start for item in every]
    if at and at + 1 == len(every):
        return text[: every[at - 1].end] + text[child.end :]
    comma = _skip_space(text, child.end)
    rest = f"{text[child.end : comma]}{text[comma:].removeprefix(',')}"
    if at + 1 < len(every):
        return text[: begins[at]] + rest.lstrip()
    return text[: begins[at]].rstrip(" \t") + rest.lstrip("\r\n")


def _append_child(text: str, node: JsonNode, key: str, added: object, every: list[JsonNode]) -> str:
    outer = _line_indentation(text, node.start)
    step = _indentation_step(text)
    if every:
        first = every[0].key_start if every[0].key_start >= 0 else every[0].start
        between = text[node.start + 1 : first]
        on_lines = "\n" in between
        inner = f"\n{_line_indentation(text, first)}" if on_lines else " "
        at = every[-1].end
        put = (
            _render_indented(added, inner.removeprefix("\n"), step)
            if on_lines
            else json.dumps(added, ensure_ascii=False)
        )
        return f"{text[:at]},{inner}{key}{put}{text[at:]}"
    inner = outer + step
    body = f"\n{inner}{key}{_render_indented(added, inner, step)}\n{outer}"
    return text[: node.end - 1].rstrip() + body + text[node.end - 1 :]


def _render_indented(other: object, indent: str, step: str) -> str:
    return json.dumps(other, indent=step, ensure_ascii=False).replace("\n", f"\n{indent}")


def _line_indentation(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    found = re.match(r"[ \t]*", text[start:at])
    return found[0] if found else ""


def _indentation_step(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _skip_space(text: str, at: int) -> int:
    found = _SPACE_AND_COMMENTS.match(text, at)
    return found.end() if found else at


def _parse_value(text: str, at: int, depth: int) -> tuple[JsonNode, int]:
    if depth > 100:
        raise ValueError("it is nested too deep")
    if text[at : at + 1] == "{":
        return _parse_object(text, at, depth)
    if text[at : at + 1] == "[":
        return _parse_array(text, at, depth)
    found = _JSON_SCALAR.match(text, at)
    if not found:
        raise ValueError(f"there is no value at character {at}")
    json.loads(found[0])
    return JsonNode(at, found.end()), found.end()


def _parse_object(text: str, start: int, depth: int) -> tuple[JsonNode, int]:
    members: dict[str, JsonNode] = {}
    at = _skip_space(text, start + 1)
    while text[at : at + 1] != "}":
        key = _JSON_SCALAR.match(text, at)
        if not key or not key[0].startswith('"'):
            raise ValueError(f"there is no key at character {at}")
        colon = _skip_space(text, key.end())
        if text[colon : colon + 1] != ":":
            raise ValueError(f"there is no colon at character {colon}")
        node, after = _parse_value(text, _skip_space(text, colon + 1), depth + 1)
        if (name := json.loads(key[0])) in members:
            raise ValueError(f"the key {key[0]} is there twice, again at character {at}")
        members[name] = node._replace(key_start=at)
        at = _skip_comma(text, after, "}")
    return JsonNode(start, at + 1, members=members), at + 1


def _parse_array(text: str, start: int, depth: int) -> tuple[JsonNode, int]:
    items: list[JsonNode] = []
    at = _skip_space(text, start + 1)
    while text[at : at + 1] != "]":
        node, after = _parse_value(text, at, depth + 1)
        items.append(node)
        at = _skip_comma(text, after, "]")
    return JsonNode(start, at + 1, items=tuple(items)), at + 1


def _skip_comma(text: str, at: int, end: str) -> int:
    """Return the offset of the next member or item, or of the closing bracket. Raises ValueError."""
    at = _skip_space(text, at)
    if text[at : at + 1] == ",":
        return _skip_space(text, at + 1)
    if text[at : at + 1] != end:
        raise ValueError(f"a comma or {end} is missing at character {at}")
    return at


_SPARE_SECONDS = 570
"""Seconds by which the limit in the agent's settings exceeds signoff's own limit, which starts with its first
instruction. A busy machine needs time to start it, and the agent lets a call through if its limit is exceeded.
"""
_MIN_SPARE_SECONDS = 20
"""A smaller difference is reported as a weakness."""
_SESSION_START = "SessionStart"
_ALL_TOOLS = ("", "*", ".*")
_DENY_ON_FAILURE = "|| sh -c 'echo Denied by signoff. >&2; exit 2'"
"""Turns any failure of the hook into a denial. Codex and Gemini CLI let a call through if exit code 2 comes without a
message, for example when SIGINT or SIGPIPE ends the hook. Works in every login shell, including fish and csh.
"""


class UneditableSettings(ValueError):
    """The settings are not JSON that signoff can change; the message is one line."""


class InstalledHook(NamedTuple):
    """signoff's hook as found in an agent's settings: command, time limit, matcher, and what is missing."""

    command: str
    limit: float
    """Seconds after which the agent lets an unanswered call through; infinite if it never does."""
    matcher: str
    is_synchronous: bool
    """Whether the agent waits for the answer."""
    is_altered: bool = False
    """Whether the plugin that calls the hook differs from the one that signoff writes."""
    missing_events: tuple[str, ...] = ()
    """Events besides tool calls for which settings of an earlier release do not call the hook."""

    @property
    def options(self) -> HookOptions:
        """Return the options in its command; the defaults if they can't be parsed."""
        with suppress(SystemExit, ValueError), redirect_stderr(io.StringIO()):
            words = shlex.split(self.command.partition("||")[0])
            return parse_hook_arguments(words[words.index("hook") + 1 :])[2]
        return HookOptions()

    def weaknesses(self, agent: ExternalAgent) -> Iterator[str]:
        """Yield each way in which this hook lets calls through unseen or unanswered."""
        longest = self.options.max_seconds
        if self.is_altered:
            yield f"it is not as signoff writes it; `signoff doors install {agent.name}` does"
        if not self.is_synchronous:
            yield f"{agent.title} does not wait for the hook there (async)"
        elif self.limit < longest + _MIN_SPARE_SECONDS:
            yield (
                f"the time limit of {self.limit:g} s there is too short: signoff takes up to {longest} s, and "
                f"{agent.title} lets a call through that is not answered in time"
            )
        if self.matcher not in _ALL_TOOLS:
            yield f"the hook is called there only for the tools {self.matcher!r}"
        if _DENY_ON_FAILURE not in self.command and not ("|| exit 2" in self.command and agent.silent_denial):
            yield (
                f"without `{_DENY_ON_FAILURE}` {agent.title} lets a call through when signoff is killed or gone; "
                f"`signoff doors install {agent.name}` adds it"
            )


def make_hook_command(agent: ExternalAgent, options: HookOptions) -> str:
    """Return the command line that the agent runs before each call; it denies if signoff cannot run."""
    return f"signoff hook {f'{agent.name} {options}'.strip()} {_DENY_ON_FAILURE}"


def find_hook(agent: ExternalAgent, settings_text: str) -> InstalledHook | None:
    """Return signoff's hook as the settings have it; None if there is none. Raises UneditableSettings."""
    if agent.form == "plugin":
        line = parse_plugin_command(settings_text)
        plugin = InstalledHook(line, math.inf, "", True)
        return (
            plugin._replace(is_altered=settings_text != render_hook_plugin(line, plugin.options.max_seconds))
            if line
            else None
        )
    if agent.form == "toml":
        return _find_toml_hook(agent, settings_text)
    for _, group, hook in _find_signoff_hooks(agent, settings_text, agent.before_tool):
        found: Any = json_node_value(settings_text, hook)
        matcher: Any = (
            json_node_value(settings_text, _members_or_none(group)["matcher"])
            if "matcher" in _members_or_none(group)
            else ""
        )
        given = found.get("timeout")
        limit = given / (1000 if agent.milliseconds else 1) if isinstance(given, int | float) else agent.default_limit
        missing = tuple(
            event
            for event in _events_besides_calls(agent)
            if not any(_find_signoff_hooks(agent, settings_text, event))
        )
        command = str(found["command"])
        return InstalledHook(command, limit, str(matcher), not found.get("async"), missing_events=missing)
    return None


def add_hook(agent: ExternalAgent, settings_text: str, options: HookOptions) -> str:
    """Return the settings with signoff's hook, which replaces an earlier one. Raises UneditableSettings."""
    if agent.form == "plugin":
        return render_hook_plugin(make_hook_command(agent, options), options.max_seconds)
    settings_text = remove_hook(agent, settings_text) if settings_text.strip() else "{}\n"
    limit = _agent_limit_seconds(agent, options) * (1000 if agent.milliseconds else 1)
    before_tool = {
        "type": "command",
        "command": make_hook_command(agent, options),
        "timeout": limit,
        **agent.on_failure,
    }
    # These hooks may fail: a denial before a prompt would discard the user's prompt, and one after a turn would make
    # the agent continue.
    beside = {"type": "command", "command": f"signoff hook {agent.name}"}
    settings_text = _insert_hook_group(settings_text, agent.before_tool, {"matcher": "*", "hooks": [before_tool]})
    for event in _events_besides_calls(agent):
        matcher = {"matcher": "|".join(agent.searches)} if event == agent.after_tool else {}
        settings_text = _insert_hook_group(settings_text, event, {**matcher, "hooks": [beside]})
    return settings_text


def _events_besides_calls(agent: ExternalAgent) -> tuple[str, ...]:
    """Return the events besides tool calls for which the hook is called."""
    reads = (_SESSION_START, agent.after_tool) if agent.after_tool else ()
    return tuple(filter(None, (agent.before_prompt, agent.after_turn, *reads)))


def remove_hook(agent: ExternalAgent, settings_text: str) -> str:
    """Return the settings without signoff's hook and without emptied lists. Raises UneditableSettings."""
    if agent.form == "plugin":
        return "" if parse_plugin_command(settings_text) else settings_text
    for event in (agent.before_tool, *_events_besides_calls(agent)):
        while found := next(_find_signoff_hooks(agent, settings_text, event), None):
            groups, group, hook = found
            hooks = _members_or_none(group)["hooks"]
            if hooks.items and len(hooks.items) > 1:
                settings_text = remove_json_child(settings_text, hooks, hook)
            elif groups.items and len(groups.items) > 1:
                settings_text = remove_json_child(settings_text, groups, group)
            else:
                settings_text = _remove_event(settings_text, event)
    return settings_text


def render_toml_hooks(agent: ExternalAgent, options: HookOptions) -> str:
    """Return the tables that add signoff's hook to TOML settings, for the user to insert."""
    tables = (
        {
            "event": agent.before_tool,
            "command": make_hook_command(agent, options),
            "timeout": _agent_limit_seconds(agent, options),
        },
        {"event": agent.before_prompt, "command": f"signoff hook {agent.name}"},
    )
    return "\n".join(
        "\n".join(["[[hooks]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()), ""])
        for table in tables
    )


def _find_toml_hook(agent: ExternalAgent, text: str) -> InstalledHook | None:
    try:
        found = parse_toml(text.encode()).get("hooks", [])
    except ValueError as error:
        raise UneditableSettings(f"they are no TOML: {error}") from error
    for hook in found if isinstance(found, list) else []:
        match hook:
            case {"event": agent.before_tool, "command": str(line)} if _is_signoff_hook(agent, line):
                given = hook.get("timeout")
                limit = given if isinstance(given, int | float) else agent.default_limit
                return InstalledHook(line, limit, str(hook.get("matcher", "")), True)
    return None


def _agent_limit_seconds(agent: ExternalAgent, options: HookOptions) -> int:
    limit = options.max_seconds + _SPARE_SECONDS
    return min(limit, agent.longest_limit) if agent.longest_limit else limit


def _is_signoff_hook(agent: ExternalAgent, line: str) -> bool:
    return re.search(rf"\bsignoff hook {agent.name}\b", line) is not None


def _remove_event(text: str, event: str) -> str:
    hooks = _members_or_none(_parse_settings(text))["hooks"]
    text = remove_json_child(text, hooks, _members_or_none(hooks)[event])
    root = _parse_settings(text)
    hooks = _members_or_none(root)["hooks"]
    return text if text[hooks.start + 1 : hooks.end - 1].strip() else remove_json_child(text, root, hooks)


def _insert_hook_group(text: str, event: str, group: object) -> str:
    root = _parse_settings(text)
    hooks = _members_or_none(root).get("hooks")
    if hooks is None:
        return insert_json_member(text, root, "hooks", {event: [group]})
    if hooks.members is None:
        raise UneditableSettings("their hooks are not an object")
    groups = hooks.members.get(event)
    if groups is None:
        return insert_json_member(text, hooks, event, [group])
    if groups.items is None:
        raise UneditableSettings(f"their {event} is not a list")
    return append_json_item(text, groups, group)


def _find_signoff_hooks(agent: ExternalAgent, text: str, event: str) -> Iterator[tuple[JsonNode, JsonNode, JsonNode]]:
    """Yield signoff's hooks for an event, each with all groups, its own group and itself."""
    if not text.strip():
        # The settings file is missing or empty.
        return
    groups = _members_or_none(_members_or_none(_parse_settings(text)).get("hooks")).get(event)
    for group in (groups.items or ()) if groups else ():
        hooks = _members_or_none(group).get("hooks")
        for hook in (hooks.items or ()) if hooks else ():
            found: Any = json_node_value(text, hook)
            line = found.get("command") if isinstance(found, dict) else None
            if groups and isinstance(line, str) and _is_signoff_hook(agent, line):
                yield groups, group, hook


def _members_or_none(node: JsonNode | None) -> dict[str, JsonNode]:
    return (node.members or {}) if node else {}


def _parse_settings(text: str) -> JsonNode:
    try:
        root = parse_json_with_comments(text)
    except ValueError as error:
        raise UneditableSettings(f"they are no usable JSON: {error}") from error
    if root.members is None:
        raise UneditableSettings("they are not an object")
    return root


_PLUGIN_SPARE_SECONDS = 60
"""Seconds by which the limit of the plugin exceeds signoff's own: a busy machine needs time to start it."""
_PLUGIN_COMMAND = re.compile(r'^const COMMAND = (".*")$', re.MULTILINE)
_PLUGIN_TEXT = """\
// Has each edit of OpenCode wait in signoff until the user has decided. `signoff doors remove opencode` takes it out.
import { spawn } from "node:child_process"

const COMMAND = %s
const SECONDS = %d

function ask(payload) {
  return new Promise((resolve) => {
    const child = spawn("sh", ["-c", COMMAND], { cwd: payload.cwd, detached: true })
    const said = { stdout: "", stderr: "" }
    // A hook without an answer is a denial, also if it has ended and a program that it started holds its output open.
    const timer = setTimeout(() => {
      const stderr = `Denied, and nothing was written: signoff's hook did not answer within ${SECONDS} seconds.`
      resolve({ code: 2, stdout: "", stderr })
      try {
        process.kill(-child.pid, "SIGKILL")
      } catch {
        // It has ended.
      }
    }, SECONDS * 1000)
    for (const name of ["stdout", "stderr"]) {
      child[name].setEncoding("utf8").on("data", (piece) => (said[name] += piece))
    }
    const end = (answer) => {
      clearTimeout(timer)
      resolve(answer)
    }
    child.on("error", (error) => end({ code: 2, stdout: "", stderr: String(error) }))
    child.on("close", (code) => end({ code, ...said }))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

export const Signoff = async ({ client, directory }) => {
  const prompts = new Map()

  // The session that the user talks to: what its subagents do belongs to its turn.
  async function root(id) {
    const { data } = await client.session.get({ path: { id } })
    return data?.parentID ? root(data.parentID) : id
  }

  // The response that made the call, and the prompt in a session that was begun before this file was loaded.
  async function found(id, call) {
    const { data } = await client.session.messages({ path: { id } })
    const isOf = (message) => message.parts.some((part) => part.callID === call)
    return data?.findLast(isOf)?.info
  }

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      try {
        if ((await root(sessionID)) !== sessionID) return
        prompts.set(sessionID, message.id)
        const event = { hook_event_name: "UserPromptSubmit", session_id: sessionID, prompt_id: message.id }
        const { stdout } = await ask({ ...event, cwd: directory })
        const text = stdout && JSON.parse(stdout).hookSpecificOutput?.additionalContext
        const last = parts.at(-1)
        if (text && last) {
          const id = last.id.slice(0, -14) + "z".repeat(14)
          parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
        }
      } catch {
        // Nothing is at stake before a prompt.
      }
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const session = await root(sessionID)
      const response = await found(sessionID, callID)
      const { code, stderr } = await ask({
        hook_event_name: "PreToolUse",
        session_id: session,
        prompt_id: prompts.get(session) ?? (session === sessionID ? response?.parentID : "") ?? "",
        response_id: response?.id ?? "",
        model: response?.modelID ?? "",
        cwd: directory,
        tool_name: tool,
        tool_input: args,
        tool_use_id: callID,
      })
      if (code !== 0) throw new Error(stderr.trim() || "Denied by signoff.")
    },
  }
}
"""


def render_hook_plugin(command: str, max_answer_seconds: int) -> str:
    """Return the source of the OpenCode plugin that runs signoff's hook before each prompt and tool call.

    Args:
        command: The command line that the plugin runs.
        max_answer_seconds: Most seconds that signoff may take; the plugin denies `_PLUGIN_SPARE_SECONDS` later.
    """
    return _PLUGIN_TEXT % (json.dumps(command), max_answer_seconds + _PLUGIN_SPARE_SECONDS)


def parse_plugin_command(text: str) -> str:
    """Return the command line that a plugin runs; empty if it is not signoff's plugin."""
    found = _PLUGIN_COMMAND.search(text)
    return str(json.loads(found[1])) if found else ""


_VERSION_SECONDS = 20
"""Seconds that an agent may take to print its version."""
_RELEASE_WEAKNESSES: Mapping[str, tuple[tuple[tuple[int, int, int], str], ...]] = {
    "codex": (((0, 141, 0), "releases before 0.141.0 edit files without calling the hook, in Code Mode or not"),)
}
"""For each agent: the first release without a weakness, and the weakness of earlier ones."""


def read_agent_version(program: str, root: Path) -> str:
    """Run an agent's program with `--version` and return the version, such as `0.169.0`; empty if it prints none.

    Args:
        root: The workspace; the agent finds no programs there.
    """
    # Agents write to their home even for `--version`; use a temporary one.
    with tempfile.TemporaryDirectory(prefix="signoff-door-", ignore_cleanup_errors=True) as home:
        environment = {
            **environment_without_workspace(root),
            **dict.fromkeys(("HOME", "CODEX_HOME", "GEMINI_CLI_HOME"), home),
        }
        command = [program, "--version"]
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    found = re.search(rb"\d+\.\d+\.\d+", done.stdout)
    return found[0].decode() if found else ""


def known_release_weaknesses(agent: ExternalAgent, version: str) -> Iterator[str]:
    """Yield the known weaknesses of a release, those of all releases first."""
    if agent.fails_open:
        yield (
            f"{agent.title} fails open: a call passes if its hook ends without exit code 2 and a word, which "
            "signoff's command avoids, or if its time limit stops the hook"
        )
    numbers = tuple(map(int, version.split("."))) if version else ()
    for right, words in _RELEASE_WEAKNESSES.get(agent.name, ()):
        if numbers and numbers < right:
            yield f"{agent.title} {version}: {words}; update it"


def reasons_why_settings_disable_hooks(agent: ExternalAgent, name: str, text: str) -> Iterator[str]:
    """Yield a reason for each setting that turns hooks off; nothing if the settings can't be parsed."""
    try:
        found: Any = (
            parse_toml(text.encode())
            if name.endswith(".toml")
            else json_node_value(text, parse_json_with_comments(text))
        )
    except ValueError:
        return
    match agent.name, found:
        case "claude", {"disableAllHooks": True}:
            yield f"{name}: disableAllHooks turns all hooks off"
        case "codex", {"features": {"hooks": False} | {"codex_hooks": False}}:
            yield f"{name}: features.hooks = false turns all hooks off"
        case "gemini", {"hooksConfig": {"enabled": False}}:
            yield f"{name}: hooksConfig.enabled turns all hooks off"
        case "qwen", {"disableAllHooks": True}:
            yield f"{name}: disableAllHooks turns all hooks off"
        case "droid", {}:
            if name.endswith("hooks.json"):
                yield f"{name} is there: Droid then takes no hooks from {agent.settings}; put signoff's into it"
        case "gemini", {"hooksConfig": {"disabled": [*names]}} if "signoff hook gemini" in json.dumps(names):
            yield f"{name}: hooksConfig.disabled has signoff's hook in it"
