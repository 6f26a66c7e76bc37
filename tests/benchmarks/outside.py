"""Measures CPU time and memory: of a call, of a process, and of an app in a terminal."""

import contextlib
import os
import re
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tests.terminal.terminal import Terminal, terminal_environment

ROOT = Path(__file__).resolve().parents[2]
MAX_WAIT_SECONDS = 60.0
_KEY = "~"
_IDLE_CPU_SECONDS = 0.04
"""CPU seconds in 1.5 s below which only the cursor blinks."""
_SAMPLE_SECONDS = 0.1
_SAMPLES = 15


def cpu_seconds() -> float:
    """Return the CPU seconds, user and system, of this process and its ended children until now."""
    return sum(os.times()[:4])


def children_cpu(command: Sequence[str], **options: Any) -> tuple[float, float]:
    """Run a command; return its CPU seconds and its wall-clock seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=options.pop("check", True), **options)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall


def best(action: Callable[[], object], rounds: int = 5) -> float:
    """Return the seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def private_memory(pid: int) -> float:
    match = re.search(r"^Anonymous:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024


needs_smaps = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from /proc")


def user_environment(home: Path) -> dict[str, str]:
    """Return an environment without the user's variables, and with the frame rate of a real terminal.

    Other tests use a low frame rate: a key would wait for the next frame.
    """
    environment = {**terminal_environment(home), "PYTHONPATH": str(ROOT)}
    del environment["TEXTUAL_FPS"]
    return environment


@dataclass(frozen=True)
class Start:
    """The figures of one start. CPU time includes all threads, user and system, but no other processes."""

    prompt: float
    """Wall-clock seconds until the first frame."""
    echo: float
    """CPU seconds until a key that was pressed at the first frame is on the screen."""
    seen: float
    """Wall-clock seconds until that key is on the screen."""
    ready: float
    """CPU seconds until everything is loaded and the app is idle."""
    memory: float
    """Private memory in megabytes at rest, without library pages: the size of shared pages depends on other
    processes.
    """

    @classmethod
    def measure(cls, command: Sequence[str], marker: str, environment: Mapping[str, str], folder: Path) -> Self:
        """Start a command, press a key when `marker` is on the screen, wait until it is idle, and end it."""
        started = time.perf_counter()
        terminal = _RawTerminal(command, folder=folder, environment=environment)
        try:
            terminal.read_until(marker)
            prompt = time.perf_counter() - started
            terminal.type(_KEY)
            terminal.read_until(_KEY)
            echo, seen = terminal.cpu(), time.perf_counter() - started
            ready = terminal.read_until_idle()
            return cls(prompt, echo, seen, ready, private_memory(terminal.pid))
        finally:
            terminal.end()


class _RawTerminal(Terminal):
    """A terminal without an emulator, which would need more CPU time than the measured app."""

    def read_until(self, text: str) -> None:
        """Read until the text has arrived since the last call."""
        end, data = time.monotonic() + MAX_WAIT_SECONDS, b""
        while text.encode() not in data:
            assert time.monotonic() < end, f"{text!r} did not come: {data[-300:]!r}"
            data = data[-200_000:] + self._take(MAX_WAIT_SECONDS)

    def read_until_idle(self) -> float:
        """Read until the app is idle; return its CPU time when it became idle."""
        samples = [self.cpu()]
        while len(samples) <= _SAMPLES or samples[-1] - samples[-_SAMPLES - 1] > _IDLE_CPU_SECONDS:
            end = time.monotonic() + _SAMPLE_SECONDS
            while (left := end - time.monotonic()) > 0:
                self._take(left)
            samples.append(self.cpu())
        return samples[-_SAMPLES - 1]

    def cpu(self) -> float:
        """Return the CPU seconds of all threads until now, by the process's clock: see clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.close()

    def _take(self, timeout: float) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], timeout)
        return os.read(self._fd, 65536) if ready else b""
