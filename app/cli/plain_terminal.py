"""A terminal that is used line by line: prints and asks, without colour, cursor movement or redraw."""

import asyncio
import os
import select
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from app.cli.command_output import CommandError, ExitCode, print_line, print_part

GRACE_SECONDS = 0.5
"""Seconds after a question in which a finished line does not count as an answer."""
_END_OF_TEXT = "."
"""A line with only this character ends a text of several lines."""


class LineInterrupted(Exception):
    """The user pressed Ctrl-C while a line was read."""


class PlainTerminal:
    """Prints lines on standard output and reads them from standard input; for one event loop.

    Raises:
        CommandError: Standard input is not a terminal, so no user can be asked.
    """

    def __init__(self) -> None:
        if not sys.stdin.isatty():
            raise CommandError(
                "Nobody can be asked here: standard input is no terminal. Scripts have `signoff show`, `approve` and "
                "`deny`.",
                ExitCode.USAGE,
            )
        self._input = sys.stdin.fileno()
        self.is_watched = sys.stdout.isatty()
        """Whether the output goes to a terminal; printed lines then count as seen."""
        self.on_interrupt: Callable[[], object] = lambda: None
        """Called when the user presses Ctrl-C while no line is read."""
        self._pending_read: asyncio.Future[bytes] | None = None

    def interrupt(self) -> None:
        """Handle Ctrl-C."""
        if self._pending_read is not None and not self._pending_read.done():
            self._pending_read.set_exception(LineInterrupted())
        else:
            self.on_interrupt()

    def print_lines(self, text: str = "") -> None:
        """Print a text, with control characters made visible."""
        print_line(text)

    async def read_line(self, prompt: str) -> str | None:
        """Read a line that decides nothing, even if it was typed ahead; None at the end of the input."""
        print_part(prompt)
        return await self._read_input_line()

    async def ask_for_decision(self, question: str) -> str:
        """Return the answer to a decision.

        Input from before the question, or from the first moment after it, is discarded.

        Raises:
            LineInterrupted: The user pressed Ctrl-C.
            EOFError: The input has ended.
        """
        while True:
            print_part(f"{question} ")
            if ahead := self._discard_typed_ahead():
                self.print_lines(f"\nNot taken, since it was typed before this question: {ahead}")
                continue
            asked = time.monotonic()
            answer = await self._read_input_line()
            if answer is None:
                raise EOFError
            if time.monotonic() - asked >= GRACE_SECONDS:
                return answer.strip()
            self.print_lines(f"Not taken, since it came too soon to be an answer: {answer.strip()}")

    async def confirm(self, question: str) -> bool:
        """Ask a question; return True only for `y` or `yes`."""
        return (await self.ask_for_decision(f"{question} [y/N]")).lower() in ("y", "yes")

    async def read_lines(self, prompt: str, at_once: str) -> AsyncIterator[str]:
        """Yield the lines of a text.

        Args:
            at_once: What a text without lines does: `leaves it as it was`.

        Raises:
            LineInterrupted: The user pressed Ctrl-C.
            EOFError: The input has ended before the text.
        """
        self.print_lines(f"{prompt} End with a line that has only a dot; a dot at once {at_once}.")
        while (line := await self.read_line("> ")) is not None:
            if line.rstrip() == _END_OF_TEXT:
                return
            yield line
        raise EOFError

    async def _read_input_line(self) -> str | None:
        loop, data = asyncio.get_running_loop(), b""
        while not data.endswith(b"\n"):
            waiting = self._pending_read = loop.create_future()
            loop.add_reader(self._input, self._read_available_bytes)
            try:
                piece = await waiting
            except LineInterrupted:
                self.print_lines()
                raise
            finally:
                loop.remove_reader(self._input)
                self._pending_read = None
            if not piece:
                if not data:
                    self.print_lines()
                    return None
                break
            data += piece
        return data.decode("utf-8", "replace").rstrip("\r\n")

    def _read_available_bytes(self) -> None:
        piece = b""
        # A terminal that was closed counts as the end of the input.
        with suppress(OSError):
            piece = os.read(self._input, 65536)
        if self._pending_read is not None and not self._pending_read.done():
            self._pending_read.set_result(piece)

    def _discard_typed_ahead(self) -> str:
        """Discard waiting input; return its complete lines joined into one."""
        found = b""
        with suppress(OSError, termios.error):
            while select.select([self._input], [], [], 0)[0] and (piece := os.read(self._input, 65536)):
                found += piece
            # An unfinished line can't be read, only flushed.
            termios.tcflush(self._input, termios.TCIFLUSH)
        return " ".join(found.decode("utf-8", "replace").split())
