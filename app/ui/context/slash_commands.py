"""What may follow a slash command: each reader takes the argument's text and gives a value, or one clear line."""

from collections.abc import Sequence
from pathlib import Path

from app.keys.registry import ACTIONS, Action

COMMANDS = {action.command: action for action in ACTIONS if action.command}
"""The slash commands by name."""

_ON = frozenset({"on", "yes", "true"})
_OFF = frozenset({"off", "no", "false"})


class BadArgument(Exception):
    """What follows the command makes no sense; the message is one line that says what would."""


def usage(action: Action) -> str:
    """`/gate [every-edit|chain N]`."""
    return f"/{action.command} {action.argument}".rstrip()


def nothing(command: str, argument: str) -> None:
    """The command takes no argument."""
    if argument:
        raise BadArgument(f"/{command} takes nothing after it.")


def word(command: str, argument: str) -> str:
    """One word, or nothing."""
    if len(argument.split()) > 1:
        raise BadArgument(f"Write {usage(COMMANDS[command])}.")
    return argument.strip()


def one_of(command: str, argument: str, choices: Sequence[str]) -> str:
    """One of these words, or nothing."""
    chosen = word(command, argument).lower()
    if chosen and chosen not in choices:
        raise BadArgument(f"/{command} takes {', '.join(choices[:-1])} or {choices[-1]}, not {chosen!r}.")
    return chosen


def switch(command: str, argument: str, now: bool) -> bool:
    """On or off; nothing turns it round."""
    chosen = word(command, argument).lower()
    if not chosen:
        return not now
    if chosen in _ON:
        return True
    if chosen in _OFF:
        return False
    raise BadArgument(f"/{command} takes on or off, not {chosen!r}.")


def gate(argument: str) -> tuple[str, int | None] | None:
    """The policy and, for a chain, its steps if they are given; None if nothing was said."""
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


def file(argument: str, folder: Path) -> Path | None:
    """A file to write, from `folder` unless it is absolute; None if nothing was said."""
    names = words(argument)
    if len(names) > 1:
        raise BadArgument("Give one file; put quotes around a name with spaces.")
    return folder / Path(names[0]).expanduser() if names else None


def words(argument: str) -> list[str]:
    """The words as a shell would read them, for names that have spaces."""
    import shlex

    try:
        return shlex.split(argument)
    except ValueError as error:
        raise BadArgument(f"This cannot be read: {error}.") from error
