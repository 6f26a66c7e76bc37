"""A real terminal for tests: a program on a pty, its bytes read by a terminal emulator."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyte

from tests.forking import TEXTUAL_ENVIRONMENT, ForkedProcess, Forking
from tests.wire.server import WireServer

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "ctrl+j": "\n",
    "ctrl+q": "\x11",
    "ctrl+s": "\x13",
    "ctrl+p": "\x10",
    "ctrl+z": "\x1a",
}

LIMIT = 60.0
"""Seconds after which what was waited for is held not to come."""


class Start(Protocol):
    """How a program is started in a terminal: by its number among the open files."""

    def __call__(
        self, command: Sequence[str], /, *, folder: Path, environment: Mapping[str, str], terminal: int
    ) -> "subprocess.Popen[bytes] | ForkedProcess": ...


def start(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], terminal: int
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )


class Terminal:
    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 120,
        rows: int = 40,
        folder: Path,
        environment: Mapping[str, str],
        start: Start = start,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.raw = bytearray()
        self._stream = pyte.ByteStream(self.screen)
        self._fd, theirs = os.openpty()
        _tell_the_size(self._fd, columns, rows)
        self._process = start(command, folder=folder, environment=environment, terminal=theirs)
        os.close(theirs)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def modes(self) -> list[Any]:
        """What the kernel does with what is typed: the attributes of termios(3)."""
        return termios.tcgetattr(self._fd)

    def make_raw(self) -> None:
        """Have the kernel give each key as it was typed, as a program before this one may have left it."""
        tty.setraw(self._fd)

    def resize(self, columns: int, rows: int) -> None:
        _tell_the_size(self._fd, columns, rows)
        self.screen.resize(rows, columns)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGWINCH)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.type(KEYS.get(key, key))

    def wait_for(self, *texts: str, without: Sequence[str] = ()) -> None:
        """Wait until the screen shows all of these texts and none of those in `without`."""

        def shown() -> bool:
            screen = self.text
            return all(text in screen for text in texts) and not any(text in screen for text in without)

        self.wait_until(shown, f"the screen to show {texts} without {tuple(without)}")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"Waited in vain for {what}:\n{self.text}")
            if not self._read(0.1) and self.exit_code is not None and not condition():
                raise AssertionError(f"The program ended ({self.exit_code}) before {what}:\n{self.text}")

    def decide(self, key: str, decided: Callable[[], bool]) -> None:
        """Press a key that decides, as a person does: again after it said that it came too soon, or asked."""
        refusals = ("changed just now", "came before this was on the screen", "never on screen")
        while not decided():
            self.settle(0.7)
            self.press(key)
            self.wait_until(lambda: decided() or any(text in self.text for text in refusals), f"what {key} does")

    def read_out(self) -> None:
        """Read what a program that has ended left to be read."""
        while self._read(LIMIT):
            pass

    def settle(self, quiet: float = 0.3) -> None:
        """Read until nothing has come for a while."""
        while self._read(quiet):
            pass

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait_for_exit(self) -> int:
        """Read until the program has ended; its exit code."""
        self.wait_until(lambda: self.exit_code is not None, "the program to end")
        # What it printed last may not have been read yet.
        while self._read(0):
            pass
        return self._process.wait()

    def vanish(self) -> None:
        """Hang up, as a closed window does, and wait until the program has ended."""
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), self._fd)
        end = time.monotonic() + LIMIT
        while self.exit_code is None and time.monotonic() < end:
            time.sleep(0.05)
        assert self.exit_code is not None, "The program did not end."

    def close(self) -> None:
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
        os.close(self._fd)

    def _read(self, timeout: float) -> bool:
        """Take in all that has come, or comes first within so many seconds; whether that was anything."""
        data = b""
        while select.select([self._fd], [], [], 0 if data else timeout)[0]:
            try:
                data += os.read(self._fd, 65536)
            except OSError:
                # Linux reports the end of a pty as EIO.
                time.sleep(0.01)
                break
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def signoff_command(*arguments: str) -> list[str]:
    """The installed command, through the interpreter that runs the tests."""
    return [sys.executable, "-P", "-m", "signoff", *arguments]


def terminal_environment(home: Path, **more: str) -> dict[str, str]:
    """An environment without anything of the user's that signoff reads."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "HOME", "TMPDIR") if key in os.environ}
    return {
        **kept,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LC_ALL": "C.UTF-8",
        "SIGNOFF_HOME": str(home),
        **TEXTUAL_ENVIRONMENT,
        **more,
    }


def endpoint_environment(server: WireServer) -> dict[str, str]:
    """Variables with which signoff asks a test server."""
    return {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k", "SIGNOFF_MODEL": "m"}


@contextlib.contextmanager
def running(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    columns: int = 120,
    rows: int = 40,
    start: Start = start,
) -> Iterator[Terminal]:
    """A program in a terminal, ended at the end of the block."""
    terminal = Terminal(command, columns=columns, rows=rows, folder=folder, environment=environment, start=start)
    try:
        yield terminal
    finally:
        terminal.close()


def running_signoff(
    processes: Forking,
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str],
    columns: int = 120,
    rows: int = 40,
) -> contextlib.AbstractContextManager[Terminal]:
    """The same with signoff, which needs not start Python."""
    return running(
        arguments, folder=folder, environment=environment, columns=columns, rows=rows, start=processes.start
    )


def _tell_the_size(file: int, columns: int, rows: int) -> None:
    fcntl.ioctl(file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
