"""The form of a line that calls a slash command.

Kept apart: the composer reads it before anything else is loaded, and the command line without any widget.
"""

import re

_LINE = re.compile(r"/([^\W\d_][\w:-]*)(?:\s+(.*))?$", re.DOTALL)


def slash_call(text: str) -> tuple[str, str] | None:
    """Name, in lower case, and argument; None if the text, without space around it, calls nothing."""
    found = _LINE.match(text)
    return None if found is None else (found[1].lower(), (found[2] or "").strip())
