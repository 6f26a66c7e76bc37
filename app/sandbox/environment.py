"""The environment that a command of the model runs in: the user's, without what looks like a secret."""

import re
from collections.abc import Mapping

MARKER = "SIGNOFF_COMMAND_ID"
"""Variable that every process of one command inherits, by which strays are found."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH_?KEY|_KEY$|_PAT$|_PW$|^PG_?PASS"
    r"|(?:^|_|SSH)PASS(?:$|_)|[A-Z]_PWD$|(?:^|_)DSN(?:$|_)|(?:^|_)AUTH(?:$|_(?!SOCK))|COOKIE|WEBHOOK|SESSION_?(?:ID|KEY)$"
    r"|^(?:OPENAI|ANTHROPIC|AWS|AZURE|GOOGLE|GEMINI|MISTRAL|GROQ|OPENROUTER|HF|HUGGINGFACE|SIGNOFF)_"
)
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|https?://[^/\s@]+@|://[^/\s]*(?:hooks\.slack|discord(?:app)?)\.com/|/webhooks?/"
    r"|^(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|eyJ[\w-]+\.eyJ)\w|-----BEGIN [A-Z ]*PRIVATE KEY"
)
OWN_KEYS = frozenset({"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SIGNOFF_API_KEY"})
"""What signoff itself takes from the environment to talk to endpoints."""
_NO_SECRETS = frozenset({"XDG_SESSION_ID", "PWD", "OLDPWD"})
_OF_OTHERS = frozenset({"TMUX", "TMUX_PANE", "STY", "DBUS_SESSION_BUS_ADDRESS"})
"""Where programs of the user listen that act for whoever asks."""
_STARTS_CODE = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND"})
"""Variables by which a shell would run something that the user has not approved."""

_PLAIN = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Keeps programs from colouring, paging and asking."""


def command_environment(environment: Mapping[str, str], marker: str) -> dict[str, str]:
    """The variables for a command.

    Args:
        environment: The program's own environment.
        marker: Unique text that identifies the processes of this command.
    """
    kept = {name: value for name, value in environment.items() if not is_secret(name, value)}
    return {**kept, **_PLAIN, MARKER: marker}


def without_own_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for a program that may need the user's other secrets: git asks helpers that take a token."""
    return {name: value for name, value in environment.items() if name not in OWN_KEYS}


def with_git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with which git neither writes nor takes every file of an overlay for a changed one."""
    count = environment.get("GIT_CONFIG_COUNT", "0")
    number = int(count) if count.isdecimal() else 0
    return {
        **environment,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(number + 1),
        f"GIT_CONFIG_KEY_{number}": "core.checkStat",
        f"GIT_CONFIG_VALUE_{number}": "minimal",
    }


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is kept from commands: a secret by name or by value, or a way to run something elsewhere."""
    if name in _STARTS_CODE or name in _OF_OTHERS or name.startswith("BASH_FUNC_"):
        return True
    return holds_secret(name, value)


def holds_secret(name: str, value: str) -> bool:
    """Whether a variable holds a key, a password or a token, by its name or by its value."""
    if name in _NO_SECRETS:
        return False
    return _SECRET_NAME.search(name.upper()) is not None or _SECRET_VALUE.search(value) is not None
