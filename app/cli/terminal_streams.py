"""Standard streams that show control characters instead of sending them to a terminal."""

import os
import sys
from io import TextIOWrapper
from typing import Any, TextIO, cast

from app.text.safe_text import escape_unsafe


class _VisibleText:
    """A stream that shows control characters instead of sending them, and has no way around."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write all of it, made visible."""
        self._stream.write(escape_unsafe(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError("bytes are not for a terminal: use write")
        return getattr(self._stream, name)


def open_closed_streams() -> None:
    """Open the null device in the place of closed standard streams.

    From such an input nothing comes; to such an output nothing can be written, as to one that is full.
    """
    for number, name, access in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, access), number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))


def show_control_characters() -> None:
    """Wrap the standard streams that are terminals; pipes and files stay unchanged."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty() and not isinstance(stream, _VisibleText):
            if hasattr(stream, "reconfigure"):
                # A glyph that the terminal's encoding lacks is no reason to fail.
                stream.reconfigure(errors="replace")
            setattr(sys, name, cast(TextIO, _VisibleText(stream)))
        elif isinstance(stream, TextIOWrapper):
            # Nor is a letter that the locale lacks; in JSON it is the same letter.
            stream.reconfigure(errors="backslashreplace")
