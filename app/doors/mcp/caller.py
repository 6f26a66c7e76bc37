"""Identifies the agent that calls the server, and its model, session and turn if it sends them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CODEX_KEY = "x-codex-turn-metadata"
_LONGEST = 80
_AGENTS = {"claude-code": "claude", "codex-mcp-client": "codex", "gemini-cli-mcp-client": "gemini"}
"""Short names of agents by their MCP client names."""


@dataclass(frozen=True, slots=True)
class McpCaller:
    """The agent that makes a call; fields that it does not send are empty."""

    agent: str = ""
    """Its short name: `claude`."""
    model: str = ""
    session: str = ""
    turn: str = ""
    """Its own id of the turn; only some agents send one."""


def caller_of(client: dict[str, Any], meta: dict[str, Any], environment: Mapping[str, str] = os.environ) -> McpCaller:
    """Return the caller of a tool.

    Args:
        client: What the host said of itself when it was greeted.
        meta: The `_meta` of the call, where a stateless host says who it is, and Codex says more.
        environment: Where Claude Code names its session.
    """
    said = meta.get(_CLIENT_KEY)
    name = _text(said if isinstance(said, dict) else client, "name")
    turn = meta.get(_CODEX_KEY)
    turn = turn if isinstance(turn, dict) else {}
    agent = _AGENTS.get(name, name)
    session = _text(turn, "session_id")
    if agent == "claude":
        session = _text({**environment}, "CLAUDE_CODE_SESSION_ID")
    return McpCaller(
        agent=agent,
        model=_text(turn, "model"),
        session=session,
        turn=_text(turn, "turn_id"),
    )


def _text(values: dict[str, Any], key: str) -> str:
    """A short text of one line, whatever the host has sent."""
    value = values.get(key)
    line = " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""
    return line.encode("utf-8", "replace").decode("utf-8")
