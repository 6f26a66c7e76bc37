"""The payload that an agent sends to the hook, in one form for all agents."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.doors.hook.agents import agent_of
from app.doors.hook.transcripts import TranscriptResponse, copilot_response, kimi_response

BEFORE_TOOL = ("PreToolUse", "BeforeTool")
BEFORE_PROMPT = ("UserPromptSubmit", "BeforeAgent")
_LONGEST = 200
"""Characters that are kept of an id or a name."""


class HookCall(NamedTuple):
    """One call of the hook by an agent."""

    agent: str
    """The short name of the agent that sent it, which may have run the hook of another one."""
    event: str
    """As the agent calls it: `PreToolUse`."""
    session: str
    prompt: str
    """The agent's id of the prompt or turn."""
    response: str
    """The id of the model response that has the call; empty if unknown."""
    model: str
    folder: str
    """Absolute; where the agent works."""
    tool: str
    arguments: Mapping[str, Any]


def parse_call(agent: str, text: str | bytes) -> HookCall:
    """Parse the payload from standard input.

    Args:
        agent: Whose hook was called.
        text: The payload.

    Raises:
        ValueError: it is not what the agents that are known send.
    """
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("it is not an object")
    event, session = _name(data, "hook_event_name"), _name(data, "session_id")
    if event not in BEFORE_TOOL + BEFORE_PROMPT:
        raise ValueError(f"it is for {event or 'no event'}; signoff is called before a tool or a prompt")
    if not session:
        raise ValueError("it names no session")
    agent = _sender(agent, data)
    arguments = data.get("tool_input", {})
    if agent == "copilot" and isinstance(arguments, str):
        arguments = {"input": arguments}
    if not isinstance(arguments, dict):
        raise ValueError("its tool_input is not an object")
    path, call = str(data.get("transcript_path") or ""), _name(data, "tool_use_id")
    response = TranscriptResponse(_name(data, "response_id"))
    if event in BEFORE_TOOL and not response.id:
        match agent:
            case "copilot":
                response = copilot_response(session, _name(data, "timestamp"))
            case "kimi":
                response = kimi_response(session)
            case _:
                response = agent_of(agent).response(path, call)
    prompt = _name(data, "prompt_id") or _name(data, "turn_id") or response.prompt
    model = _name(data, "model") or response.model
    folder = str(data.get("cwd") or "")
    if not folder.startswith("/"):
        raise ValueError("it does not say where the agent works")
    tool = _name(data, "tool_name")
    return HookCall(agent, event, session, prompt, response.id, model, folder, tool, arguments)


def _sender(agent: str, data: Mapping[str, Any]) -> str:
    """Return the agent that sent a payload, by its fields: several agents run the hooks of Claude Code, too."""
    if _name(data, "client_type").startswith("kimi"):
        return "kimi"
    if _name(data, "hook_event_name") in ("PreToolUse", "UserPromptSubmit") and "timestamp" in data:
        return "qwen" if "transcript_path" in data else "copilot"
    return agent


def _name(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value[:_LONGEST] if isinstance(value, str) else ""
