"""Finds, adds and removes signoff's hook in the settings of another agent."""

import io
import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from typing import Any, NamedTuple

from app.doors import json_text
from app.doors.hook.agents import Agent
from app.doors.hook.options import HookOptions, hook_options
from app.doors.json_text import JsonNode
from app.doors.opencode_plugin import plugin_command, plugin_text

_SPARE_SECONDS = 570
"""Seconds by which the limit in the settings of the agent exceeds that of signoff, which counts from its first
instruction: a busy machine needs time to start it, and the agent lets a call through if its limit is exceeded."""
_LEAST_SPARE_SECONDS = 20
"""Fewer of these are reported as a weakness."""
_ALL_TOOLS = ("", "*", ".*")
_DENIAL = "|| sh -c 'echo Denied by signoff. >&2; exit 2'"
"""What makes any failure of the hook a denial. Codex and Gemini CLI let a call through if exit code 2 comes without a
word, as when SIGINT or SIGPIPE ends the hook. Every login shell can run it, fish and csh too."""


class UnreadableSettings(ValueError):
    """The settings are not JSON that signoff can change; the message is one line."""


class InstalledHook(NamedTuple):
    """signoff's hook as it is written in settings."""

    command: str
    limit: float
    """Seconds after which the agent lets an unanswered call through; infinite if it never does."""
    matcher: str
    is_synchronous: bool
    """Whether the agent waits for the answer at all."""
    is_altered: bool = False
    """Whether the program that calls the hook is not as signoff writes it."""

    @property
    def options(self) -> HookOptions:
        """The options in its command; the defaults if they can't be parsed."""
        with suppress(SystemExit, ValueError), redirect_stderr(io.StringIO()):
            words = shlex.split(self.command.partition("||")[0])
            return hook_options(words[words.index("hook") + 1 :])[2]
        return HookOptions()

    def weaknesses(self, agent: Agent) -> Iterator[str]:
        """Yield each way in which this hook lets calls through that signoff did not see or answer."""
        longest = self.options.longest
        if self.is_altered:
            yield f"it is not as signoff writes it; `signoff doors install {agent.name}` does"
        if not self.is_synchronous:
            yield f"{agent.title} does not wait for the hook there (async)"
        elif self.limit < longest + _LEAST_SPARE_SECONDS:
            yield (
                f"the time limit of {self.limit:g} s there is too short: signoff takes up to {longest} s, and "
                f"{agent.title} lets a call through that is not answered in time"
            )
        if self.matcher not in _ALL_TOOLS:
            yield f"the hook is called there only for the tools {self.matcher!r}"
        if _DENIAL not in self.command and not ("|| exit 2" in self.command and agent.silent_denial):
            yield (
                f"without `{_DENIAL}` {agent.title} lets a call through when signoff is killed or gone; "
                f"`signoff doors install {agent.name}` adds it"
            )


def command(agent: Agent, options: HookOptions) -> str:
    """The command line that the agent runs before each call: a denial also if signoff is killed or gone."""
    return f"signoff hook {f'{agent.name} {options}'.strip()} {_DENIAL}"


def installed_hook(agent: Agent, text: str) -> InstalledHook | None:
    """Return signoff's hook before each tool; None if there is none. Raises UnreadableSettings."""
    if agent.form == "plugin":
        line = plugin_command(text)
        plugin = InstalledHook(line, math.inf, "", True)
        return plugin._replace(is_altered=text != plugin_text(line, plugin.options.longest)) if line else None
    if agent.form == "toml":
        return _toml_hook(agent, text)
    for _, group, hook in _ours(agent, text, agent.before_tool):
        found: Any = json_text.value(text, hook)
        matcher: Any = json_text.value(text, _members(group)["matcher"]) if "matcher" in _members(group) else ""
        given = found.get("timeout")
        limit = given / (1000 if agent.milliseconds else 1) if isinstance(given, int | float) else agent.default_limit
        return InstalledHook(str(found["command"]), limit, str(matcher), not found.get("async"))
    return None


def with_hook(agent: Agent, text: str, options: HookOptions) -> str:
    """Return the settings with signoff's hook, which replaces an earlier one; raises UnreadableSettings."""
    if agent.form == "plugin":
        return plugin_text(command(agent, options), options.longest)
    text = without_hook(agent, text) if text.strip() else "{}\n"
    limit = _limit(agent, options) * (1000 if agent.milliseconds else 1)
    before_tool = {"type": "command", "command": command(agent, options), "timeout": limit, **agent.on_failure}
    # Nothing is at stake before a prompt: a failure there is not to take the user's words away.
    before_prompt = {"type": "command", "command": f"signoff hook {agent.name}"}
    text = _with_group(text, agent.before_tool, {"matcher": "*", "hooks": [before_tool]})
    return _with_group(text, agent.before_prompt, {"hooks": [before_prompt]})


def without_hook(agent: Agent, text: str) -> str:
    """Return the settings without signoff's hook and without emptied lists; raises UnreadableSettings."""
    if agent.form == "plugin":
        return "" if plugin_command(text) else text
    for event in (agent.before_tool, agent.before_prompt):
        while found := next(_ours(agent, text, event), None):
            groups, group, hook = found
            hooks = _members(group)["hooks"]
            if hooks.items and len(hooks.items) > 1:
                text = json_text.without(text, hooks, hook)
            elif groups.items and len(groups.items) > 1:
                text = json_text.without(text, groups, group)
            else:
                text = _without_event(text, event)
    return text


def toml_hooks(agent: Agent, options: HookOptions) -> str:
    """Return the tables that add signoff's hook to TOML settings, which only the user can write."""
    tables = (
        {"event": agent.before_tool, "command": command(agent, options), "timeout": _limit(agent, options)},
        {"event": agent.before_prompt, "command": f"signoff hook {agent.name}"},
    )
    return "\n".join(
        "\n".join(["[[hooks]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()), ""])
        for table in tables
    )


def _toml_hook(agent: Agent, text: str) -> InstalledHook | None:
    try:
        found: Any = tomllib.loads(text).get("hooks", [])
    except tomllib.TOMLDecodeError as error:
        raise UnreadableSettings(f"they are no TOML: {error}") from error
    for hook in found if isinstance(found, list) else []:
        match hook:
            case {"event": agent.before_tool, "command": str(line)} if _is_ours(agent, line):
                limit = hook.get("timeout", agent.default_limit)
                return InstalledHook(line, float(limit), str(hook.get("matcher", "")), True)
    return None


def _limit(agent: Agent, options: HookOptions) -> int:
    """Seconds for the settings of the agent."""
    limit = options.longest + _SPARE_SECONDS
    return min(limit, agent.longest_limit) if agent.longest_limit else limit


def _is_ours(agent: Agent, line: str) -> bool:
    return re.search(rf"\bsignoff hook {agent.name}\b", line) is not None


def _without_event(text: str, event: str) -> str:
    root = _parsed(text)
    hooks = _members(root)["hooks"]
    if len(_members(hooks)) > 1:
        return json_text.without(text, hooks, _members(hooks)[event])
    return json_text.without(text, root, hooks)


def _with_group(text: str, event: str, group: object) -> str:
    root = _parsed(text)
    hooks = _members(root).get("hooks")
    if hooks is None:
        return json_text.with_member(text, root, "hooks", {event: [group]})
    if hooks.members is None:
        raise UnreadableSettings("their hooks are not an object")
    groups = hooks.members.get(event)
    if groups is None:
        return json_text.with_member(text, hooks, event, [group])
    if groups.items is None:
        raise UnreadableSettings(f"their {event} is not a list")
    return json_text.with_item(text, groups, group)


def _ours(agent: Agent, text: str, event: str) -> Iterator[tuple[JsonNode, JsonNode, JsonNode]]:
    """signoff's hooks for an event, each with its group and all groups."""
    if not text.strip():
        # Settings that nobody has written yet.
        return
    groups = _members(_members(_parsed(text)).get("hooks")).get(event)
    for group in (groups.items or ()) if groups else ():
        hooks = _members(group).get("hooks")
        for hook in (hooks.items or ()) if hooks else ():
            found: Any = json_text.value(text, hook)
            line = found.get("command") if isinstance(found, dict) else None
            if groups and isinstance(line, str) and _is_ours(agent, line):
                yield groups, group, hook


def _members(node: JsonNode | None) -> dict[str, JsonNode]:
    return (node.members or {}) if node else {}


def _parsed(text: str) -> JsonNode:
    try:
        root = json_text.parse(text)
    except ValueError as error:
        raise UnreadableSettings(f"they are no JSON: {error}") from error
    if root.members is None:
        raise UnreadableSettings("they are not an object")
    return root
