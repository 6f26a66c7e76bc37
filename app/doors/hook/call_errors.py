"""The error for a call that can't be staged, with a message for the agent."""

from collections.abc import Mapping
from typing import Any


class EditNotStaged(Exception):
    """An edit could not be staged: the call is denied with this message, and the agent may make it again."""


def not_exactly_once_error(path: str, label: str, count: int) -> EditNotStaged:
    """Return the error for a text that a file does not contain exactly once."""
    if count:
        more = "Give more of the lines around it, so that there is one place, or say that all are meant."
        return EditNotStaged(f"{label} is in {path} {count} times. {more}")
    return EditNotStaged(
        f"{label} is not in {path}, as it is on disk. Read the file again and copy the text exactly."
    )


def require_string_argument(arguments: Mapping[str, Any], key: str) -> str:
    """Return a string argument. Raises EditNotStaged if it is not a string."""
    value = arguments.get(key)
    if not isinstance(value, str):
        raise EditNotStaged(f"{key} has to be a text.")
    return value
