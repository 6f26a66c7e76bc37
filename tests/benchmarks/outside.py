"""What an app costs, measured from outside: CPU and memory of a process in a terminal, as the system counts them."""

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.terminal.terminal import Terminal, terminal_environment

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0
_KEY = "~"
_AT_REST = 0.04
"""Seconds of CPU in 1.5 s below which nothing goes on but the blinking of the cursor."""
_SAMPLE = 0.1
_SAMPLES = 15


def users_environment(home: Path) -> dict[str, str]:
    """An environment without anything of the user's, and with as many pictures a second as a user gets.

    Other tests have few pictures: a key would wait for the next of them.
    """
    environment = {**terminal_environment(home), "PYTHONPATH": str(ROOT)}
    del environment["TEXTUAL_FPS"]
    return environment


@dataclass(frozen=True)
class Start:
    """One start. CPU is of all threads, in user and system, without other processes."""

    prompt: float
    """Seconds on the clock until the first picture."""
    echo: float
    """Seconds of CPU until a key that was pressed at the first picture is on the screen."""
    seen: float
    """Seconds on the clock until that key is on the screen."""
    ready: float
    """Seconds of CPU until all is loaded and nothing goes on any more."""
    memory: float
    """Megabytes at rest of its own, without the pages of libraries: those that others use too count less."""

    @classmethod
    def of(cls, command: Sequence[str], marker: str, environment: Mapping[str, str], folder: Path) -> Self:
        """Start a command, press a key once `marker` is on the screen, wait until it is at rest, and end it."""
        begun = time.perf_counter()
        terminal = _Watched(command, folder=folder, environment=environment)
        try:
            terminal.read_until(marker)
            prompt = time.perf_counter() - begun
            terminal.type(_KEY)
            terminal.read_until(_KEY)
            echo, seen = terminal.cpu(), time.perf_counter() - begun
            ready = terminal.rest()
            return cls(prompt, echo, seen, ready, terminal.memory())
        finally:
            terminal.end()


class _Watched(Terminal):
    """A terminal that draws no picture: that would take more than the app that is measured."""

    def read_until(self, text: str) -> None:
        """Read until the text has come since the last time."""
        end, data = time.monotonic() + LIMIT, b""
        while text.encode() not in data:
            assert time.monotonic() < end, f"{text!r} did not come: {data[-300:]!r}"
            data = data[-200_000:] + self._take(LIMIT)

    def rest(self) -> float:
        """Read until the app is at rest; its CPU when it came to that."""
        samples = [self.cpu()]
        while len(samples) <= _SAMPLES or samples[-1] - samples[-_SAMPLES - 1] > _AT_REST:
            end = time.monotonic() + _SAMPLE
            while (left := end - time.monotonic()) > 0:
                self._take(left)
            samples.append(self.cpu())
        return samples[-_SAMPLES - 1]

    def cpu(self) -> float:
        """Seconds so far, also of threads that have ended: the process's own clock, by clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def memory(self) -> float:
        """Megabytes."""
        found = re.search(r"^Anonymous:\s+(\d+)", Path(f"/proc/{self.pid}/smaps_rollup").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1024

    def end(self) -> None:
        """Leave nothing of it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.close()

    def _take(self, timeout: float) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], timeout)
        return os.read(self._fd, 65536) if ready else b""
