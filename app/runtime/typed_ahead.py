"""Keeps keys that are typed while the app starts, as they were typed.

As long as no program asks for single keys the kernel makes lines of them: it shows what is typed wherever the cursor
stands, takes Backspace for itself, and makes a line feed of Enter. The app could not tell that from Ctrl+J, which
begins a line in the composer where Enter sends. So the terminal is asked for single keys before anything is loaded.

While Python itself starts that can't be done yet. Lines that were ended until then are taken out of the terminal at
that moment: what ended them was Enter, as it would be for any program that reads lines.
"""

import os
import select
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
_lines = b""
"""Those that were ended before it was asked for single keys, until somebody takes them."""
_MOST_LINES = 1_000
"""More than the kernel keeps; whoever pours lines into the terminal does not hold the start up."""


@contextmanager
def capture_typed_keys() -> Iterator[None]:
    """While this is open, keys wait as they were typed; however it ends, the terminal is as it was before.

    Ctrl+C is a signal all the same, as long as the app does not read it. A SIGTERM raises SystemExit.
    """
    global _before
    ends = signal.signal(signal.SIGTERM, _end)
    try:
        _before = _ask_for_keys()
        yield
    finally:
        restore_terminal()
        signal.signal(signal.SIGTERM, ends)


def restore_terminal() -> None:
    """Restore the terminal's attributes if they have changed; waiting input stays."""
    global _before
    attributes, _before = _before, None
    if attributes is not None:
        with suppress(termios.error):
            termios.tcsetattr(_terminal(), termios.TCSANOW, attributes)


def pop_typed_lines() -> str:
    """The lines that were ended before the terminal was asked for single keys, each with its end; only once."""
    global _lines
    lines, _lines = _lines, b""
    return lines.decode("utf-8", "ignore")


def read_terminal_attributes(terminal: int) -> list[Any]:
    """The terminal of this number as its user has it; raises termios.error where it is none."""
    return _before if _before is not None else termios.tcgetattr(terminal)


def _ask_for_keys() -> list[Any] | None:
    """The attributes before, None where there is nothing to change: in the background it is another's terminal."""
    global _lines
    try:
        terminal = _terminal()
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return None
        before, asked = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
        if before[0] & termios.ICRNL and before[3] & termios.ICANON:
            _lines = _ended_lines(terminal)
        asked[0] &= ~_TRANSLATED
        asked[3] &= ~_LINES
        asked[6][termios.VMIN], asked[6][termios.VTIME] = 1, 0
        termios.tcsetattr(terminal, termios.TCSANOW, asked)
    except (OSError, termios.error):
        return None
    return before


def _ended_lines(terminal: int) -> bytes:
    """Return the lines that a terminal in line mode has ready."""
    found: list[bytes] = []
    while len(found) < _MOST_LINES and select.select([terminal], [], [], 0)[0]:
        found.append(os.read(terminal, 4096))
    return b"".join(found)


def _terminal() -> int:
    """Return the descriptor from which Textual reads keys."""
    return sys.__stdin__.fileno() if sys.__stdin__ else 0


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
