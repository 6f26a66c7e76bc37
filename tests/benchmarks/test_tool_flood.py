"""Key latency and memory during floods of tool calls, in a pty, with the installed signoff.

Run with `pytest tests/benchmarks/test_tool_flood.py -n0 -s` to see the figures.
"""

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.benchmarks.outside import needs_smaps, private_memory
from tests.benchmarks.test_flood import (
    APPROVALS,
    CHAT,
    LETTERS,
    MAX_ADDED_MEDIAN_MS,
    MAX_KEY_MS,
    MAX_KEY_RATIO,
    QUIET,
    clear,
    flood_server,
    quiet_keys,
    run_flood,
    run_program,
    signoff_with_server,
)

MEGABYTES = {"edits": 35.0, "reads": 35.0, "search": 35.0, "command": 20.0}
"""Maximum growth of the idle app's memory in megabytes."""
MAX_KEY_MS_BY_KIND = {"edits": 80.0, "reads": MAX_KEY_MS, "search": MAX_KEY_MS, "command": MAX_KEY_MS}
"""Maximum time of the slowest key in milliseconds. With hundreds of edits the review opens, which paints the whole
screen.
"""
MIN_KEYS = 5
"""Minimum number of keys for a meaningful median."""
COUNTS = {"edits": 500, "reads": 500, "search": 100_000, "command": 200_000_000}
"""Number of edits or reads in one response (at most 512 are accepted), of matching lines, and of bytes that a command
prints.
"""
LINES = {"read.txt": 1_000, "found.txt": COUNTS["search"]}

pytestmark = [pytest.mark.timeout(300), needs_smaps]


class Memory:
    """Records the private memory of a program ten times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.first = self.peak = private_memory(pid)
        self._stopped = threading.Event()

    def _watch(self) -> None:
        while not self._stopped.wait(0.1):
            self.peak = max(self.peak, private_memory(self._pid))

    @contextmanager
    def recording(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()


@pytest.mark.parametrize("kind", COUNTS)
def test_key_latency_during_a_tool_flood(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name, count in LINES.items():
        (folder / name).write_text("".join(f"line {number}\n" for number in range(count)))
    letters = iter(LETTERS * 40)
    with flood_server(kind, COUNTS[kind]) as base_url, run_program(signoff_with_server(base_url), folder) as probe:
        probe.wait_until(lambda: probe.has_output(0, "test-model"), "the status bar")
        probe.settle(2 * QUIET)
        # The review is loaded only once, with the first proposal or here.
        for place in (APPROVALS, CHAT):
            probe.type(place)
            probe.settle(2 * QUIET)
        clear(probe)
        quiet = quiet_keys(probe, letters)
        memory = Memory(probe.pid)
        with memory.recording():
            flood = run_flood(probe, 1, letters, pressing=kind != "edits", permit=kind == "command")
    median, bare = statistics.median(flood.keys), statistics.median(quiet)
    print(
        f"\n{kind}: {flood.seconds:.1f} s, {flood.cpu:.1f} s of CPU; {len(flood.keys)} keys, median {median:.0f} ms, "
        f"worst {max(flood.keys):.0f} ms; quiet app {bare:.0f} ms, worst {max(quiet):.0f}: x{median / bare:.1f}; "
        f"memory {memory.first:.0f} MB, at most {memory.peak:.0f}"
    )
    assert len(flood.keys) < MIN_KEYS or median - bare <= MAX_ADDED_MEDIAN_MS
    assert max(flood.keys) <= max(MAX_KEY_MS_BY_KIND[kind], MAX_KEY_RATIO * max(quiet))
    assert memory.peak - memory.first <= MEGABYTES[kind]
