"""How a key fares, and what is held in memory, while tools pour: from outside, in a pty, with signoff as installed.

Run with `pytest tests/benchmarks/test_tool_flood.py -n0 -s` to see the figures.
"""

import re
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.benchmarks.test_flood import (
    APPROVALS,
    CHAT,
    LETTERS,
    MEDIAN_MORE_MS,
    QUIET,
    WORST_KEY_MS,
    WORST_RATIO,
    Probe,
    clear,
    pour,
    quiet_keys,
    served,
    signoff,
    started,
)

MEGABYTES = {"edits": 35.0, "reads": 35.0, "search": 35.0, "command": 20.0}
"""The most that comes to the memory of the quiet app meanwhile."""
WORST_MS = {"edits": 80.0, "reads": WORST_KEY_MS, "search": WORST_KEY_MS, "command": WORST_KEY_MS}
"""What the slowest key may take. With hundreds of edits the review comes, a picture of the whole screen."""
ENOUGH = 5
"""Keys of which the median says something."""
COUNTS = {"edits": 500, "reads": 500, "search": 100_000, "command": 200_000_000}
"""How many edits or reads in one response, of which no more than 512 are taken, how many lines that a search finds,
and how many bytes that a command prints."""
LINES = {"read.txt": 1_000, "found.txt": COUNTS["search"]}

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from /proc"),
]


class Memory:
    """Watches how much a program holds of its own."""

    def __init__(self, pid: int) -> None:
        self._rollup = Path(f"/proc/{pid}/smaps_rollup")
        self.first = self.most = self._now()
        self._over = threading.Event()

    def _now(self) -> float:
        found = re.search(r"^Anonymous:\s+(\d+)", self._rollup.read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1024

    def watch(self) -> None:
        """Look ten times a second until it is over."""
        while not self._over.wait(0.1):
            self.most = max(self.most, self._now())

    @classmethod
    @contextmanager
    def watched(cls, probe: Probe) -> "Iterator[Memory]":
        """Watch a program in a terminal."""
        memory = cls(probe.pid)
        thread = threading.Thread(target=memory.watch)
        thread.start()
        try:
            yield memory
        finally:
            memory._over.set()
            thread.join()


@pytest.mark.parametrize("what", COUNTS)
def test_a_key_does_not_wait_behind_tools(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name, count in LINES.items():
        (folder / name).write_text("".join(f"line {number}\n" for number in range(count)))
    letters = iter(LETTERS * 40)
    with served(what, COUNTS[what]) as base_url, started(signoff(base_url), folder) as probe:
        probe.wait_until(lambda: probe.since(0, "test-model"), "the status bar")
        probe.settle(2 * QUIET)
        # The review is loaded once, with the first proposal or here.
        for place in (APPROVALS, CHAT):
            probe.type(place)
            probe.settle(2 * QUIET)
        clear(probe)
        quiet = quiet_keys(probe, letters)
        with Memory.watched(probe) as memory:
            flood = pour(probe, 1, letters, pressing=what != "edits", permit=what == "command")
    median, bare = statistics.median(flood.keys), statistics.median(quiet)
    print(
        f"\n{what}: {flood.seconds:.1f} s, {flood.cpu:.1f} s of CPU; {len(flood.keys)} keys, median {median:.0f} ms, "
        f"worst {max(flood.keys):.0f} ms; quiet app {bare:.0f} ms, worst {max(quiet):.0f}: x{median / bare:.1f}; "
        f"memory {memory.first:.0f} MB, at most {memory.most:.0f}"
    )
    assert len(flood.keys) < ENOUGH or median - bare <= MEDIAN_MORE_MS
    assert max(flood.keys) <= max(WORST_MS[what], WORST_RATIO * max(quiet))
    assert memory.most - memory.first <= MEGABYTES[what]
