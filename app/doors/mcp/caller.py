"""Identifies the agent that calls the server, and its model, session and turn if it sends them."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CODEX_KEY = "x-codex-turn-metadata"
_LONGEST = 80
_AGENTS = {"claude-code": "claude", "codex-mcp-client": "codex", "gemini-cli-mcp-client": "gemini"}
"""Short names of agents by their MCP client names."""


_UNNAMED = ("", "mcp")
"""What the MCP SDK for Python calls a client that does not name itself; so do kimi-cli and vibe."""
_INTERPRETERS = re.compile(r"(?:python|node|bun|deno|uv|sh|bash)[\d.]*")


@dataclass(frozen=True, slots=True)
class McpCaller:
    """The agent that makes a call; fields that it does not send are empty."""

    agent: str = ""
    """Its short name: `claude`."""
    model: str = ""
    session: str = ""
    turn: str = ""
    """Its own id of the turn; only some agents send one."""


def caller_of(
    client: dict[str, Any],
    meta: dict[str, Any],
    environment: Mapping[str, str] = os.environ,
    parent: Callable[[], str] | None = None,
) -> McpCaller:
    """Return the caller of a tool.

    Args:
        client: What the host said of itself when it was greeted.
        meta: The `_meta` of the call, where a stateless host says who it is, and Codex says more.
        environment: Where Claude Code names its session.
        parent: Gives the name of the program that started the server, for a host that does not name itself.
    """
    said = meta.get(_CLIENT_KEY)
    name = _text(said if isinstance(said, dict) else client, "name")
    turn = meta.get(_CODEX_KEY)
    turn = turn if isinstance(turn, dict) else {}
    agent = _AGENTS.get(name, name) if name not in _UNNAMED else (parent or _parent_name)() or name
    session = _text(turn, "session_id")
    if agent == "claude":
        session = _text({**environment}, "CLAUDE_CODE_SESSION_ID")
    return McpCaller(
        agent=agent,
        model=_text(turn, "model"),
        session=session,
        turn=_text(turn, "turn_id"),
    )


def _parent_name() -> str:
    """The name of the program that started this process; empty for an interpreter, or if the system doesn't tell."""
    try:
        name = _text({"name": Path(f"/proc/{os.getppid()}/comm").read_text(errors="replace")}, "name")
    except OSError:
        return ""
    return "" if _INTERPRETERS.fullmatch(name) else name


def _text(values: dict[str, Any], key: str) -> str:
    """A short text of one line, whatever the host has sent."""
    value = values.get(key)
    line = " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""
    return line.encode("utf-8", "replace").decode("utf-8")
