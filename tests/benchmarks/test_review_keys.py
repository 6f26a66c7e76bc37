"""Key latency in the terminal, in the diff pane and in a bare line widget, in a real pty.

Run with `pytest tests/benchmarks/test_review_keys.py -n0 -s` to see the figures. The two programs run at the same
time and their keys alternate, so that other load affects both.
"""

import statistics
import sys
import time
from pathlib import Path

import pytest

from tests.benchmarks.outside import ROOT, user_environment
from tests.terminal.terminal import Terminal

CHANGED_LINES = 50_000
KEYS = 25
"""Number of measured presses of each key."""

RATIO = 2.0
"""Maximum time of a key, relative to the same key in the line prototype."""


def key_to_paint(terminal: Terminal, key: str) -> float:
    """Return the milliseconds from a key to the first bytes of output."""
    terminal.settle(0.06)
    started = time.perf_counter()
    size = len(terminal.raw)
    terminal.type(key)
    terminal.wait_until(lambda: len(terminal.raw) > size, f"an answer to {key!r}")
    return (time.perf_counter() - started) * 1000


@pytest.mark.timeout(180)
def test_key_latency_is_at_most_twice_the_prototypes(tmp_path: Path) -> None:
    environment = user_environment(tmp_path)
    programs: dict[str, Terminal] = {}
    try:
        for kind in ("view", "prototype"):
            command = [sys.executable, "-P", "-m", "tests.benchmarks.review_program", kind, str(CHANGED_LINES)]
            programs[kind] = Terminal(command, folder=ROOT, environment=environment)
        for terminal in programs.values():
            terminal.wait_for("compute(")
            terminal.settle(1.0)
        failures = []
        for name, key in {"line": "j", "hunk": "]", "page": "\x04"}.items():
            latencies: dict[str, list[float]] = {kind: [] for kind in programs}
            for _ in range(KEYS):
                for kind, terminal in programs.items():
                    latencies[kind].append(key_to_paint(terminal, key))
            view, bare = (statistics.median(latencies[kind]) for kind in ("view", "prototype"))
            late, late_bare = (statistics.quantiles(latencies[kind], n=20)[-1] for kind in ("view", "prototype"))
            print(
                f"\n{name}: diff pane {view:.1f} ms (p95 {late:.1f}), prototype {bare:.1f} ms (p95 {late_bare:.1f}), "
                f"x{view / bare:.2f}"
            )
            if view > RATIO * bare:
                failures.append(f"{name}: {view:.1f} ms against {bare:.1f} ms")
        assert not failures, failures
    finally:
        for terminal in programs.values():
            terminal.close()
