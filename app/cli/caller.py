"""How a command that decides was called, for the record: with a terminal or not, by which program, for which agent.

An agent that types `signoff approve` in its shell sees the same program as a person does. What tells the two apart is
the terminal, the parent process, and variables by which agents mark the shells that they start. A program that wants
to can hide all of it, so that this is a trace and no proof.
"""

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from app.proposals.facts import Caller
from app.text.safe_text import strip_unsafe

_MARKER = re.compile(
    r"AGENT|AI_AGENT|CLAUDECODE|GEMINI_CLI|QWEN_CODE|OPENCODE|REPL_ID|ANTIGRAVITY_AGENT"
    r"|(?:CLAUDE_CODE|CODEX|CURSOR|AIDER|OPENCODE|GEMINI_CLI|QWEN_CODE|CLINE|GOOSE|AMP|AUGMENT|COPILOT|WINDSURF|KIRO"
    r"|DEVIN)(?:_[A-Z0-9_]{1,60})?"
)
"""Names of variables that agents set in their shells: of those that @vercel/detect-agent, am-i-vibing and aws-cdk
look at, and of the agents' own settings."""
_MOST = 20
"""Names that are kept."""
_STDIN, _STDOUT = 0, 1


def caller(environment: Mapping[str, str] = os.environ) -> Caller:
    """How this process was called; of variables their names alone."""
    markers = sorted(name for name in environment if _MARKER.fullmatch(name))
    return Caller(
        stdin_is_terminal=_is_terminal(_STDIN),
        stdout_is_terminal=_is_terminal(_STDOUT),
        parent=_name_of(os.getppid()),
        agent_variables=tuple(markers[:_MOST]),
    )


def _is_terminal(descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        return os.isatty(descriptor)
    return False


def _name_of(process: int) -> str:
    """The name of a process; empty where the system does not tell it in a file."""
    with contextlib.suppress(OSError):
        return strip_unsafe(Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip())
    return ""
