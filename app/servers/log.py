"""What a server prints, its latest lines: filtered and bounded, however much of it comes.

Kept apart: the server fills it, a screen shows it.
"""

import time
from collections import deque

from app.text.safe_text import strip_unsafe
from app.tools.command.output import PlainText

MOST_LINES = 400
LONGEST = 500
"""Characters of one line."""
_LONGEST_NOTE = 4_000
"""Characters of a line of signoff's own, which may hold what a server says of an error."""


class Log:
    """Of one server."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._plain = PlainText()
        self._begun = ""

    @property
    def lines(self) -> list[str]:
        """The oldest first."""
        return [*self._lines, self._begun] if self._begun else list(self._lines)

    def feed(self, data: bytes) -> None:
        """Take what it has printed."""
        *whole, rest = (self._begun + self._plain.feed(data)).split("\n")
        self._begun = strip_unsafe(rest[:LONGEST], keep="\t")
        # Of a flood only the end is looked at.
        for line in whole[-MOST_LINES:]:
            self._lines.append(strip_unsafe(line[:LONGEST], keep="\t").rstrip())

    def note(self, text: str) -> None:
        """Take a line of signoff's own, with the time."""
        if self._begun:
            self._lines.append(self._begun)
            self._begun = ""
        self._lines.append(f"{time.strftime('%H:%M:%S')} signoff: {strip_unsafe(text[:_LONGEST_NOTE], keep='')}")
