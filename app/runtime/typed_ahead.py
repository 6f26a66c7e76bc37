"""What is typed while the app still starts, kept as it was typed.

As long as no program asks for single keys the kernel makes lines of them: it shows what is typed wherever the cursor
stands, takes Backspace for itself, and makes a line feed of Enter. The app could not tell that from Ctrl+J, which
begins a line in the composer where Enter sends. So the terminal is asked for single keys before anything is loaded.
"""

import os
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

_LINES = termios.ECHO | termios.ICANON | termios.IEXTEN
_TRANSLATED = termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON
_before: list[Any] | None = None
"""The terminal as its user had it, while it is kept otherwise."""


@contextmanager
def kept_as_typed() -> Iterator[None]:
    """While this is open, keys wait as they were typed; however it ends, the terminal is as it was before.

    Ctrl+C is a signal all the same, as long as the app does not read it. A SIGTERM raises SystemExit.
    """
    global _before
    ends = signal.signal(signal.SIGTERM, _end)
    try:
        _before = _ask_for_keys()
        yield
    finally:
        give_back()
        signal.signal(signal.SIGTERM, ends)


def give_back() -> None:
    """Make the terminal as it was before, if it is not; what waits in it stays."""
    global _before
    attributes, _before = _before, None
    if attributes is not None:
        with suppress(termios.error):
            termios.tcsetattr(_terminal(), termios.TCSANOW, attributes)


def attributes_before(terminal: int) -> list[Any]:
    """The terminal of this number as its user has it; raises termios.error where it is none."""
    return _before if _before is not None else termios.tcgetattr(terminal)


def _ask_for_keys() -> list[Any] | None:
    """The attributes before, None where there is nothing to change: in the background it is another's terminal."""
    try:
        terminal = _terminal()
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return None
        before, asked = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
        asked[0] &= ~_TRANSLATED
        asked[3] &= ~_LINES
        asked[6][termios.VMIN], asked[6][termios.VTIME] = 1, 0
        termios.tcsetattr(terminal, termios.TCSANOW, asked)
    except (OSError, termios.error):
        return None
    return before


def _terminal() -> int:
    """Where Textual reads keys."""
    return sys.__stdin__.fileno() if sys.__stdin__ else 0


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
