"""What the demo model answers with."""

from dataclasses import dataclass
from typing import Any


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
