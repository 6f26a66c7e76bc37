"""Arguments that open the app, read without the parsers: most starts have none and need no parser."""

from collections.abc import Mapping
from typing import Any, NamedTuple

COMMANDS = (
    "run",
    "proposals",
    "show",
    "ask",
    "approve",
    "deny",
    "check",
    "checks",
    "undo",
    "redo",
    "stage",
    "push",
    "mcp",
    "hook",
    "doors",
    "sessions",
    "search",
    "export",
    "import",
    "log",
    "trailers",
    "notes",
    "doctor",
    "keys",
    "servers",
    "completion",
    "demo-server",
)
"""First words that are commands; anything else is a workspace."""


class AppArguments(NamedTuple):
    """Arguments that open the app, with the defaults of a start without any."""

    workspace: str | None = None
    resume: bool = False
    session: str | None = None
    model: str | None = None
    base_url: str | None = None
    reasoning_effort: str | None = None
    gate: str | None = None
    theme: str | None = None
    demo: bool = False
    debug: str | None = None


def settings_of_flags(arguments: object) -> Mapping[str, Any]:
    """Return the settings that the command line sets, by name; None for those that it does not set."""
    named = {
        key: getattr(arguments, key, None) for key in ("model", "base_url", "reasoning_effort", "theme", "max_steps")
    }
    gate = getattr(arguments, "gate", None)
    if gate and gate.startswith("chain"):
        _, _, steps = gate.partition(":")
        return {**named, "gate": "chain", "chain_steps": int(steps) if steps else None}
    return {**named, "gate": gate}
