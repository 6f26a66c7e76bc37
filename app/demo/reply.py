"""What the demo model answers with."""

import re
from dataclasses import dataclass
from typing import Any

_MOST_QUOTED = 14
"""Lines of a quotation."""


@dataclass(frozen=True, slots=True)
class NewCall:
    """A tool call to make."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """Text, Markdown, and the calls that follow it."""

    text: str
    calls: tuple[NewCall, ...] = ()


def quoted(text: str, *, language: str = "") -> str:
    """The last lines of `text` as a fenced code block that nothing in it can close."""
    shown = "\n".join(text.strip("\n").splitlines()[-_MOST_QUOTED:])
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"
