"""What many turns leave behind: memory, and pauses of the garbage collector, from outside, in a pty, with signoff.

Each turn is a message, a read, an edit, an answer of 400 tokens, and `y` or `n`. Run with
`pytest tests/benchmarks/test_turns.py -n0 -s` to see the figures, and before a release with `SIGNOFF_TURNS=500`,
which takes half an hour. Memory is bounded in megabytes, since no other process changes it; the pauses, in CPU, by
what a key costs in the same app while nothing happens.
"""

import contextlib
import json
import os
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks.outside import ROOT
from tests.benchmarks.test_flood import APPROVALS, CHAT, LETTERS, QUIET, Probe, clear, press, started
from tests.benchmarks.turns_program import END, FILE, content

TURNS = int(os.environ.get("SIGNOFF_TURNS", "50"))
"""More than `FIRST_TURNS`."""
FIRST_TURNS = 20
"""Turns until all is loaded and the caches are full; growth counts from there."""
SECONDS_PER_TURN = 20
GRACE = 0.6
"""Seconds after which a proposal that was shown may be decided."""
DENIED = 3
"""Every third proposal is denied."""
REST = 4.0
"""Seconds after which an app at rest has collected its garbage."""

MEGABYTES = {False: 82.0, True: 95.0}
"""The most that signoff holds of its own after all turns: few, or many. The aim is 90 after 300 turns; 76 to 78 was
measured after 60, 87 after 300, and 89 after 400."""
GROWTH_KILOBYTES = {False: 65.0, True: 36.0}
"""The most that comes per turn beyond what is written to the log: in few turns more than in many, since caches still
fill. 36 to 42 was measured in 60 turns, 27 in 400, and 23 in the last 200 of these."""
MANY = 300
PAUSE_RATIO = 10.0
"""The longest that the garbage collector may hold up a key, in units of what the key itself takes: the aim is 30 ms,
and a key takes 3 where this was measured."""

PROGRAM = [sys.executable, "-P", "-m", "tests.benchmarks.turns_program"]

pytestmark = [
    pytest.mark.timeout(120 + SECONDS_PER_TURN * TURNS),
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from /proc"),
]


@dataclass(frozen=True)
class Sample:
    """What the app holds, and what happened in it since the last sample."""

    memory: float
    """Kilobytes of its own."""
    log: float
    """Kilobytes of the events in the store."""
    collections: dict[int, list[float]]
    """Milliseconds of CPU of each garbage collection, by generation."""
    held: float
    """The longest time, in milliseconds of CPU, for which the event loop was held."""


class Turns:
    """An app in a terminal in which one turn comes after the other."""

    def __init__(self, probe: Probe, folder: Path) -> None:
        self._probe = probe
        self._folder = folder
        self._report = folder / "report.json"

    def sample(self) -> Sample:
        """Ask the app, and the system, how it is."""
        self._report.unlink(missing_ok=True)
        os.kill(self._probe.pid, signal.SIGUSR2)
        self._probe.wait_until(self._report.exists, "the report")
        report = json.loads(self._report.read_text())
        rollup = Path(f"/proc/{self._probe.pid}/smaps_rollup").read_text()
        found = re.search(r"^Anonymous:\s+(\d+)", rollup, re.MULTILINE)
        assert found is not None
        collections: dict[int, list[float]] = {}
        for generation, milliseconds in report["collections"]:
            collections.setdefault(generation, []).append(milliseconds)
        log = self._query("SELECT coalesce(sum(length(body)), 0) FROM events") / 1024
        return Sample(float(found[1]), log, collections, report["held"][-1])

    def take(self, number: int) -> None:
        """Say something, wait for the answer, and decide on what was proposed."""
        probe = self._probe
        start = len(probe.raw)
        probe.type(f"turn {number}")
        probe.settle(0.05)
        probe.type("\r")
        probe.wait_until(lambda: probe.since(start, f"{END} {number}."), "the end of the answer")
        probe.settle(0.2)
        key = "y" if number % DENIED else "n"
        end = time.monotonic() + SECONDS_PER_TURN
        while self._waiting:
            assert time.monotonic() < end, "the decision was not made"
            probe.type(APPROVALS)
            probe.until(time.perf_counter() + GRACE)
            probe.type(key)
            soon = time.perf_counter() + 2 * GRACE
            while self._waiting and time.perf_counter() < soon:
                probe.until(time.perf_counter() + 0.05)
        probe.settle(0.2)
        probe.type(CHAT)
        probe.settle(0.1)
        probe.raw.clear()

    @property
    def _waiting(self) -> int:
        return self._query("SELECT count(*) FROM proposals WHERE waiting")

    def _query(self, statement: str) -> int:
        (database,) = self._folder.rglob("*.db")
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as connection:
            return int(connection.execute(statement).fetchone()[0])


@contextlib.contextmanager
def model(workspace: Path) -> Iterator[str]:
    """The model, in a process of its own; its base URL."""
    with subprocess.Popen(
        [*PROGRAM, "serve", str(workspace)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


def quiet_key(probe: Probe) -> float:
    """Milliseconds of CPU that a key takes, in the median, while nothing else happens."""
    taken = []
    for letter in LETTERS[:20]:
        probe.until(time.perf_counter() + 0.1)
        before = probe.cpu()
        press(probe, letter)
        taken.append((probe.cpu() - before) * 1e3)
    clear(probe)
    return statistics.median(taken)


def print_sample(number: int, sample: Sample) -> None:
    """Print a sample."""
    collections = ", ".join(
        f"{len(taken)} of generation {generation} up to {max(taken):.1f} ms"
        for generation, taken in sorted(sample.collections.items())
    )
    print(
        f"\nturn {number}: {sample.memory / 1024:.1f} MB, log {sample.log:.0f} kB; "
        f"loop held {sample.held:.0f} ms; collections: {collections or 'none'}",
        end="",
        flush=True,
    )


def test_memory_follows_the_log_and_collections_stay_short(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / FILE).write_text(content(0))
    samples: dict[int, Sample] = {}
    with model(workspace) as base_url:
        command = [
            *PROGRAM, "app", str(tmp_path / "report.json"), str(workspace), "--base-url", base_url, "--model", "m"
        ]  # fmt: skip
        with started(command, tmp_path) as probe:
            turns = Turns(probe, tmp_path)
            probe.wait_until(lambda: probe.since(0, "model may act"), "the status bar")
            probe.settle(2 * QUIET)
            key = quiet_key(probe)
            turns.sample()
            for number in range(1, TURNS + 1):
                turns.take(number)
                if number % FIRST_TURNS == 0 or number in (1, TURNS):
                    probe.until(time.perf_counter() + REST)
                    probe.raw.clear()
                    samples[number] = turns.sample()
                    print_sample(number, samples[number])
    first, last = samples[FIRST_TURNS], samples[TURNS]
    grown = (last.memory - first.memory - (last.log - first.log)) / (TURNS - FIRST_TURNS)
    pause = max(
        milliseconds for sample in samples.values() for taken in sample.collections.values() for milliseconds in taken
    )
    print(
        f"\n{TURNS} turns: {last.memory / 1024:.1f} MB, {grown:.1f} kB a turn beyond the log; "
        f"the longest collection {pause:.1f} ms, a quiet key {key:.1f} ms: x{pause / key:.1f}"
    )
    assert last.memory / 1024 <= MEGABYTES[TURNS >= MANY]
    assert grown <= GROWTH_KILOBYTES[TURNS >= MANY]
    assert pause <= PAUSE_RATIO * key
