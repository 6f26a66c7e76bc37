"""signoff's hook in the settings of another agent: whether it is there, how it gets in, how it goes out."""

import re
from collections.abc import Iterator
from typing import Any

from app.doors import json_text
from app.doors.agents import Agent
from app.doors.json_text import Node

_SPARE_SECONDS = 60
"""How much longer than signoff waits the agent waits for it: a locked store is tried for a while."""


class UnreadableSettings(ValueError):
    """The settings are no JSON that signoff can change; the message is one line."""


def command(agent: Agent, wait: int, commands: str) -> str:
    """What the agent runs before each call; whatever becomes of signoff itself, killed or gone, it is a denial."""
    options = f"{f' --wait {wait}' if wait else ''}{f' --commands {commands}' if commands != 'allow' else ''}"
    return f"signoff hook {agent.name}{options} || exit 2"


def installed(agent: Agent, text: str) -> str:
    """The command with which signoff is called before each tool; empty if it is not. Raises UnreadableSettings."""
    for _, _, hook in _ours(agent, text, agent.before_tool):
        found: Any = json_text.value(text, hook)
        return str(found["command"])
    return ""


def with_hook(agent: Agent, text: str, wait: int, commands: str) -> str:
    """The settings with signoff's hook in them, and none of an earlier installation; raises UnreadableSettings."""
    text = without_hook(agent, text) if text.strip() else "{}\n"
    limit = (wait + _SPARE_SECONDS) * (1000 if agent.milliseconds else 1)
    before_tool = {"type": "command", "command": command(agent, wait, commands), "timeout": limit}
    # Nothing is at stake before a prompt: a failure there is not to take the user's words away.
    before_prompt = {"type": "command", "command": f"signoff hook {agent.name}"}
    text = _with_group(text, agent.before_tool, {"matcher": "*", "hooks": [before_tool]})
    return _with_group(text, agent.before_prompt, {"hooks": [before_prompt]})


def without_hook(agent: Agent, text: str) -> str:
    """The settings without signoff's hook, and without what would be empty then; raises UnreadableSettings."""
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


def _ours(agent: Agent, text: str, event: str) -> Iterator[tuple[Node, Node, Node]]:
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
            if groups and isinstance(line, str) and re.search(rf"\bsignoff hook {agent.name}\b", line):
                yield groups, group, hook


def _members(node: Node | None) -> dict[str, Node]:
    return (node.members or {}) if node else {}


def _parsed(text: str) -> Node:
    try:
        root = json_text.parse(text)
    except ValueError as error:
        raise UnreadableSettings(f"they are no JSON: {error}") from error
    if root.members is None:
        raise UnreadableSettings("they are not an object")
    return root
