"""The terminal while the app is loaded: shows the first picture at once, and keeps typed keys.

One start saves its first picture for the next starts in a terminal of the same kind and size. The picture is the same
each time, since it is painted before the workspace is opened. So the prompt is visible before Textual is imported;
Textual then paints over it. After a change of the theme, the picture still has the old colours.

In line mode, the kernel echoes typed text at the cursor, handles Backspace, and turns Enter into a line feed. The app
could not distinguish this from Ctrl+J, which starts a new line in the composer, while Enter sends. So line mode is
disabled before anything else is loaded.

Lines that are complete by then were typed while Python started. They are read at that moment; Enter ended them, as
for any program that reads lines.
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

from app.workspace.reading import read_regular_file

ENTER_ALTERNATE_SCREEN, LEAVE_ALTERNATE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR, _HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
_LINE_MODE_FLAGS = termios.ECHO | termios.ICANON | termios.IEXTEN
_TRANSLATION_FLAGS = termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON
_PICTURE_VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "SIGNOFF_THEME")
"""Variables that the first picture depends on, besides the size of the terminal and the options."""
_MAX_PICTURE_BYTES = 500_000
_MAX_PICTURES = 12
_original_attributes: list[Any] | None = None
"""The terminal's original attributes while they are changed."""
_is_picture_shown = False
"""Whether the alternate screen shows the first picture and Textual has not taken it over yet."""
_typed_lines = b""
"""Lines that were complete before line mode was disabled, until `pop_typed_lines`."""
_MAX_LINES = 1_000
"""Most lines that are read, more than the kernel buffers: endless input must not block the start."""


@contextmanager
def hold_terminal_and_show_first_picture(pictures: Path, theme: str | None = None) -> Iterator[None]:
    """Show the first picture and keep typed keys during the block; then restore the terminal.

    Ctrl+C still raises a signal until the app reads keys. SIGTERM raises SystemExit.

    Args:
        pictures: Folder of the first pictures.
        theme: Name of the theme from the command line.
    """
    global _original_attributes
    former_handler = signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        _original_attributes = _disable_line_mode()
        if _original_attributes is not None:
            _show_picture(pictures, theme)
        yield
    finally:
        if take_over_first_picture_screen():
            _write_to_screen((LEAVE_ALTERNATE_SCREEN + SHOW_CURSOR).encode())
        restore_terminal()
        signal.signal(signal.SIGTERM, former_handler)


def take_over_first_picture_screen() -> bool:
    """Return whether the first picture is shown; the caller then must leave its alternate screen."""
    global _is_picture_shown
    is_shown, _is_picture_shown = _is_picture_shown, False
    return is_shown


def save_first_picture(pictures: Path, theme: str | None, size: tuple[int, int], picture: str) -> None:
    """Save the first picture for later starts; errors of the file system are ignored.

    Args:
        pictures: Folder of the first pictures.
        theme: Name of the theme from the command line.
        size: Columns and lines of the terminal.
        picture: Text and control sequences that draw the picture.
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
    """Restore the terminal's attributes if they were changed; pending input stays."""
    global _original_attributes
    attributes, _original_attributes = _original_attributes, None
    if attributes is not None:
        with suppress(termios.error):
            termios.tcsetattr(_input_descriptor(), termios.TCSANOW, attributes)


def pop_typed_lines() -> str:
    """Return the lines that were complete before line mode was disabled, and forget them."""
    global _typed_lines
    lines, _typed_lines = _typed_lines, b""
    return lines.decode("utf-8", "ignore")


def original_terminal_attributes(terminal: int) -> list[Any]:
    """Return the original attributes of a terminal, given its descriptor. Raises termios.error if it is none."""
    return _original_attributes if _original_attributes is not None else termios.tcgetattr(terminal)


def _show_picture(pictures: Path, theme: str | None) -> None:
    global _is_picture_shown
    with suppress(OSError):
        if picture := _read_picture(pictures / _picture_name(os.get_terminal_size(_screen_descriptor()), theme)):
            _is_picture_shown = True
            _write_to_screen((ENTER_ALTERNATE_SCREEN + _HIDE_CURSOR).encode() + picture)


def _read_picture(path: Path) -> bytes:
    """Return a saved picture; empty if there is none."""
    with suppress(OSError):
        return read_regular_file(path, _MAX_PICTURE_BYTES)[0]
    return b""


def _picture_name(size: tuple[int, int], theme: str | None) -> str:
    """Return the file name of the first picture in a terminal of this size, with the variables of this process."""
    parts = (f"{size[0]}x{size[1]}", *(os.environ.get(name, "") for name in _PICTURE_VARIABLES), theme or "")
    return "_".join("".join(letter if letter.isalnum() else "-" for letter in part)[:40] for part in parts)


def _write_to_screen(data: bytes) -> None:
    with suppress(OSError):
        while data:
            data = data[os.write(_screen_descriptor(), data) :]


def _screen_descriptor() -> int:
    """Return the descriptor on which Textual draws."""
    return sys.__stderr__.fileno() if sys.__stderr__ else 2


def _disable_line_mode() -> list[Any] | None:
    """Disable line mode; return the attributes before, None if there is no terminal or the process is in the
    background."""
    global _typed_lines
    try:
        terminal = _input_descriptor()
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return None
        original, changed = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
        if original[0] & termios.ICRNL and original[3] & termios.ICANON:
            _typed_lines = _read_complete_lines(terminal)
        changed[0] &= ~_TRANSLATION_FLAGS
        changed[3] &= ~_LINE_MODE_FLAGS
        changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
        # Disable Ctrl+Z: the shell would draw over the picture.
        changed[6][termios.VSUSP] = bytes([os.fpathconf(terminal, "PC_VDISABLE")])
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
    except (OSError, termios.error):
        return None
    return original


def _read_complete_lines(terminal: int) -> bytes:
    """Read and return the complete lines of a terminal in line mode."""
    chunks: list[bytes] = []
    while len(chunks) < _MAX_LINES and select.select([terminal], [], [], 0)[0]:
        chunks.append(os.read(terminal, 4096))
    return b"".join(chunks)


def _input_descriptor() -> int:
    """Return the descriptor from which Textual reads keys."""
    return sys.__stdin__.fileno() if sys.__stdin__ else 0


def _exit_on_signal(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
