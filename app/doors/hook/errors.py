"""What keeps a call from being staged, in words for the agent that made it.

Kept apart: the readers of edits raise it, and import nothing else of the hook.
"""

from collections.abc import Mapping
from typing import Any


class NotStaged(Exception):
    """The call is denied, with these words; the agent may make it again as they say."""


def unknown_place(path: str, what: str, found: int) -> NotStaged:
    """A text that has to be in a file once, and is not."""
    if found:
        more = "Give more of the lines around it, so that there is one place, or say that all are meant."
        return NotStaged(f"{what} is in {path} {found} times. {more}")
    return NotStaged(f"{what} is not in {path}, as it is on disk. Read the file again and copy the text exactly.")


def text_of(arguments: Mapping[str, Any], key: str) -> str:
    """An argument that has to be a text; raises NotStaged for what an agent's own tool would refuse."""
    value = arguments.get(key)
    if not isinstance(value, str):
        raise NotStaged(f"{key} has to be a text.")
    return value
