"""The arguments of `signoff hook`, which `signoff doors install` writes into the settings of an agent."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from app.doors.hook.agents import AGENTS

DEFAULT_LIMIT_SECONDS = 30
"""Seconds within which a call is answered, `--wait` apart."""
_MOST_SECONDS = 86_400


class HookOptions(NamedTuple):
    """The options of the hook."""

    wait: int = 0
    commands: str = "allow"
    """deny, ask or allow: the answer to shell commands while nothing is pending."""
    decisions: str = "deny"
    """deny or allow: the answer to shell commands that decide in signoff."""
    limit: int = DEFAULT_LIMIT_SECONDS

    @property
    def max_seconds(self) -> int:
        """Return how many seconds the hook may take."""
        return self.wait + self.limit

    def __str__(self) -> str:
        """The arguments after `signoff hook AGENT`; empty if all are defaults."""
        chosen = zip(self._fields, self, self._field_defaults.values(), strict=True)
        return " ".join(f"--{name} {value}" for name, value, default in chosen if value != default)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "HookOptions":
        """Return the options that `add_hook_options` parsed."""
        return cls(*(getattr(arguments, name) for name in cls._fields))


def parse_hook_options(arguments: Sequence[str]) -> tuple[str, str, HookOptions]:
    """Return the agent, the workspace (empty for the agent's) and the options. Raises SystemExit.

    The parser is of the hook alone: that of all commands takes longer to make than an answer.
    """
    parser = argparse.ArgumentParser(prog="signoff hook", allow_abbrev=False)
    add_hook_arguments(parser)
    found = parser.parse_args(arguments)
    return found.agent, found.workspace, HookOptions.from_arguments(found)


def add_hook_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all arguments of the hook to a parser."""
    parser.add_argument("agent", choices=[agent.name for agent in AGENTS], help="which agent calls")
    parser.add_argument("--workspace", default="", metavar="FOLDER", help="the workspace (default: the agent's)")
    add_hook_options(parser)


def add_hook_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the hook to a parser."""
    parser.add_argument(
        "--wait",
        type=parse_seconds,
        default=0,
        metavar="SECONDS",
        help="hold an edit until you have decided, up to SECONDS, and return the decision as its result",
    )
    parser.add_argument(
        "--commands",
        choices=("deny", "ask", "allow"),
        default="allow",
        help="answer to its shell commands (allow: its own rules decide; signoff does not see what they write)",
    )
    parser.add_argument(
        "--decisions",
        choices=("deny", "allow"),
        default="deny",
        help="answer to its shell commands that decide in signoff (approve, deny, undo, redo, stage …) and, in "
        "Codex, that start a shell; recognised by their words, which an agent can avoid (default: deny)",
    )
    parser.add_argument(
        "--limit",
        type=parse_positive_seconds,
        default=DEFAULT_LIMIT_SECONDS,
        metavar="SECONDS",
        help="answer within that time, --wait apart; a call that takes longer is denied "
        f"(default: {DEFAULT_LIMIT_SECONDS})",
    )


def parse_seconds(text: str) -> int:
    """Parse a number of seconds, at most a day."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= _MOST_SECONDS):
        raise argparse.ArgumentTypeError(f"give whole seconds, up to {_MOST_SECONDS}")
    return int(text)


def parse_positive_seconds(text: str) -> int:
    """Parse a number of seconds above 0."""
    if not parse_seconds(text):
        raise argparse.ArgumentTypeError(f"give whole seconds, from 1 to {_MOST_SECONDS}")
    return int(text)
