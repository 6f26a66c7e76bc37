"""Parse the arguments of slash commands; parsers raise BadArgument with one line for the user."""

from collections.abc import Sequence
from pathlib import Path

from app.keys.actions import ACTIONS, UserAction

COMMANDS = {action.command: action for action in ACTIONS if action.command}
"""The slash commands by name."""

_ON_WORDS = frozenset({"on", "yes", "true"})
_OFF_WORDS = frozenset({"off", "no", "false"})


class BadArgument(Exception):
    """The argument of a command is invalid; the message says what would be valid."""


def slash_command_usage(action: UserAction) -> str:
    """Return the usage of a slash command, such as `/gate [every-edit|chain N]`."""
    return f"/{action.command} {action.argument}".rstrip()


def parse_optional_word(command: str, argument: str) -> str:
    """Return the argument if it is one word or empty. Raises BadArgument."""
    if len(argument.split()) > 1:
        raise BadArgument(f"Write {slash_command_usage(COMMANDS[command])}.")
    return argument.strip()


def parse_optional_choice(command: str, argument: str, choices: Sequence[str]) -> str:
    """Return the argument if it is one of `choices` or empty. Raises BadArgument."""
    chosen = parse_optional_word(command, argument).lower()
    if chosen and chosen not in choices:
        raise BadArgument(f"/{command} takes {', '.join(choices[:-1])} or {choices[-1]}, not {chosen!r}.")
    return chosen


def parse_switch(command: str, argument: str, current: bool) -> bool:
    """Return whether the argument means on; an empty one toggles `current`. Raises BadArgument."""
    chosen = parse_optional_word(command, argument).lower()
    if not chosen:
        return not current
    if chosen in _ON_WORDS:
        return True
    if chosen in _OFF_WORDS:
        return False
    raise BadArgument(f"/{command} takes on or off, not {chosen!r}.")


def parse_optional_gate_policy(argument: str) -> tuple[str, int | None] | None:
    """Return the policy and, for a chain, its number of steps if given; None for no argument. Raises BadArgument."""
    words = argument.lower().split()
    match words:
        case []:
            return None
        case ["every-edit"]:
            return "every-edit", None
        case ["chain"]:
            return "chain", None
        case ["chain", number] if number.isascii() and number.isdigit() and 1 <= int(number[:4]) <= 50:
            return "chain", int(number)
        case ["chain", number]:
            raise BadArgument(f"/gate chain takes a number of steps from 1 to 50, not {number!r}.")
    raise BadArgument(f"/gate takes every-edit, or chain and a number of steps, not {argument!r}.")


def parse_output_path(argument: str, folder: Path) -> Path | None:
    """Return the path of a file to write, relative to `folder`; None for no argument. Raises BadArgument."""
    names = split_shell_words(argument)
    if len(names) > 1:
        raise BadArgument("Give one file; put quotes around a name with spaces.")
    try:
        return folder / Path(names[0]).expanduser() if names else None
    except RuntimeError as error:
        raise BadArgument(f"{names[0]} is in no user's home folder; write ./ before a name with ~.") from error


def split_shell_words(argument: str) -> list[str]:
    """Return the words, split as by a shell. Raises BadArgument."""
    import shlex

    try:
        return shlex.split(argument)
    except ValueError as error:
        raise BadArgument(f"The argument cannot be parsed: {error}.") from error
