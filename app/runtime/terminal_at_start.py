"""The terminal while the app is being loaded: shows the first picture at once, and keeps keys as they are typed.

The first picture is saved at one start for the next in a terminal of the same kind and size. It is the same at every
start, since it is painted before the workspace is opened. So the prompt is there before Textual is imported, which
then paints over it. After a change of the theme, the former colours are shown once more until then.

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
from pathlib import Path
from typing import Any, NoReturn

from app.workspace.reading import read_file

ENTER_ALTERNATE_SCREEN, LEAVE_ALTERNATE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR, _HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
_LINES = termios.ECHO | termios.ICANON | termios.IEXTEN
_TRANSLATED = termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON
_VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "SIGNOFF_THEME")
"""What the first picture depends on besides the size of the terminal and the options."""
_MAX_PICTURE_BYTES = 500_000
_MAX_PICTURES = 12
_before: list[Any] | None = None
"""The terminal as its user had it, while it is kept otherwise."""
_is_picture_shown = False
"""Whether the alternate screen shows the first picture, and Textual has not taken it over."""
_lines = b""
"""Those that were ended before it was asked for single keys, until somebody takes them."""
_MAX_LINES = 1_000
"""More than the kernel keeps; whoever pours lines into the terminal does not hold the start up."""


@contextmanager
def hold_terminal(pictures: Path, theme: str | None = None) -> Iterator[None]:
    """Show the first picture and keep typed keys while this is open; at its end, the terminal is as it was before.

    Ctrl+C is a signal all the same, as long as the app does not read it. A SIGTERM raises SystemExit.

    Args:
        pictures: The folder of the first pictures.
        theme: The name of the theme in the options of the command line.
    """
    global _before
    ends = signal.signal(signal.SIGTERM, _end)
    try:
        _before = _ask_for_keys()
        if _before is not None:
            _show_picture(pictures, theme)
        yield
    finally:
        if take_over_screen():
            _write((LEAVE_ALTERNATE_SCREEN + SHOW_CURSOR).encode())
        restore_terminal()
        signal.signal(signal.SIGTERM, ends)


def take_over_screen() -> bool:
    """Return whether the alternate screen shows the first picture; from now on the caller leaves it."""
    global _is_picture_shown
    is_shown, _is_picture_shown = _is_picture_shown, False
    return is_shown


def save_first_picture(pictures: Path, theme: str | None, size: tuple[int, int], picture: str) -> None:
    """Save the first picture for later starts; errors of the file system are ignored.

    Args:
        pictures: The folder of the first pictures.
        theme: The name of the theme in the options of the command line.
        size: Columns and lines of the terminal.
        picture: Text, colours and movements of the cursor, as they go to the terminal.
    """
    path = pictures / _picture_name(size, theme)
    with suppress(OSError):
        if _read_picture(path) == picture.encode():
            return
        pictures.mkdir(exist_ok=True)
        others = sorted(pictures.iterdir(), key=lambda other: other.stat().st_mtime)
        for old in others[: max(0, len(others) - _MAX_PICTURES + 1)]:
            old.unlink()
        new = pictures / f"{path.name}.{os.getpid()}"
        new.write_bytes(picture.encode())
        new.replace(path)


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


def _show_picture(pictures: Path, theme: str | None) -> None:
    global _is_picture_shown
    with suppress(OSError):
        if picture := _read_picture(pictures / _picture_name(os.get_terminal_size(_screen()), theme)):
            _is_picture_shown = True
            _write((ENTER_ALTERNATE_SCREEN + _HIDE_CURSOR).encode() + picture)


def _read_picture(path: Path) -> bytes:
    """Return a saved picture; empty if there is none."""
    with suppress(OSError):
        return read_file(path, _MAX_PICTURE_BYTES)[0]
    return b""


def _picture_name(size: tuple[int, int], theme: str | None) -> str:
    """Return the file name of the first picture in a terminal of this size, with the variables of this process."""
    parts = (f"{size[0]}x{size[1]}", *(os.environ.get(name, "") for name in _VARIABLES), theme or "")
    return "_".join("".join(letter if letter.isalnum() else "-" for letter in part)[:40] for part in parts)


def _write(data: bytes) -> None:
    with suppress(OSError):
        while data:
            data = data[os.write(_screen(), data) :]


def _screen() -> int:
    """Return the descriptor on which Textual draws."""
    return sys.__stderr__.fileno() if sys.__stderr__ else 2


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
        # No key suspends the process: the shell would draw on the picture.
        asked[6][termios.VSUSP] = bytes([os.fpathconf(terminal, "PC_VDISABLE")])
        termios.tcsetattr(terminal, termios.TCSANOW, asked)
    except (OSError, termios.error):
        return None
    return before


def _ended_lines(terminal: int) -> bytes:
    """Return the lines that a terminal in line mode has ready."""
    found: list[bytes] = []
    while len(found) < _MAX_LINES and select.select([terminal], [], [], 0)[0]:
        found.append(os.read(terminal, 4096))
    return b"".join(found)


def _terminal() -> int:
    """Return the descriptor from which Textual reads keys."""
    return sys.__stdin__.fileno() if sys.__stdin__ else 0


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
