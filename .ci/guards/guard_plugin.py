"""Pytest plugin in the copy: record which guards each test reaches, or disable guards in forked processes."""

import contextlib
import json
import os
import select
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import guard_switches
import pytest
from _pytest.runner import runtestprotocol

MAX_SLOWDOWN = 5.0
"""Maximum duration, as a multiple of the time with all guards enabled. If tests take longer, one of them waits
forever, and the guard counts as noticed.
"""
_EXTRA_SECONDS = 10.0

_seconds: Counter[str] = Counter()
_failed: set[str] = set()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Tell all processes which test runs."""
    guard_switches.reset()
    Path(guard_switches.TEST).write_text(nodeid, encoding="utf-8")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the duration of a test, and whether it passed."""
    _seconds[report.nodeid] += report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write which tests reach each guard, the fastest and most specific first."""
    if not (reached_file := os.environ.get("GUARDS_KEEP")):
        return
    reached: defaultdict[int, set[str]] = defaultdict(set)
    breadth: Counter[str] = Counter()
    for line in Path(guard_switches.REACHED).read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition("\t")
        if number.isdecimal() and test in _seconds and test not in _failed and test not in reached[int(number)]:
            reached[int(number)].add(test)
            breadth[test] += 1
    order = {
        number: sorted(tests, key=lambda test: breadth[test] * (0.15 + _seconds[test]))
        for number, tests in reached.items()
    }
    Path(reached_file).write_text(json.dumps({"order": order, "seconds": _seconds}), encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests of each guard that is to be disabled."""
    if not (todo := os.environ.get("GUARDS_OUT")):
        return None
    task = json.loads(Path(todo).read_text(encoding="utf-8"))
    items = {item.nodeid: item for item in session.items}
    with Path(task["results"]).open("a", encoding="utf-8") as results:
        for guard in task["guards"]:
            chosen: list[pytest.Item] = []
            seconds_left = task["most"]
            for test in task["order"].get(str(guard["number"]), ()):
                if test in items and seconds_left > 0:
                    chosen.append(items[test])
                    seconds_left -= task["seconds"][test]
            limit = _EXTRA_SECONDS + MAX_SLOWDOWN * (task["most"] - seconds_left)
            noticed = _noticed(chosen, guard["number"], limit) if chosen else ""
            print(json.dumps({**guard, "noticed": noticed}), file=results, flush=True)
            where, what = f"{guard['file']}:{guard['line']}", " ".join(guard["source"].split())[:70]
            by = noticed or f"by none of {len(chosen)} tests"
            print(f"{'noticed' if noticed else 'MISSED '} {where} {what} ({by})", flush=True)
    return True


def _noticed(items: Sequence[pytest.Item], number: int, limit: float) -> str:
    """Return the test that fails without a guard, run in a forked process; empty if none does."""
    Path(guard_switches.OUT).write_text(str(number), encoding="utf-8")
    reader, writer = os.pipe()
    sys.stdout.flush()
    if not (child := os.fork()):
        os.setpgid(0, 0)
        guard_switches.out = number
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(reader)
        try:
            for item, following in zip(items, [*items[1:], None], strict=True):
                if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                    os.write(writer, item.nodeid.encode())
                    break
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    try:
        return _outcome(child, reader, limit)
    finally:
        os.close(reader)
        Path(guard_switches.OUT).write_text("0", encoding="utf-8")


def _outcome(child: int, reader: int, limit: float) -> str:
    """Return the result of a guard's tests; kill them after `limit` seconds."""
    process_fd = os.pidfd_open(child)
    ended = bool(select.select([process_fd], [], [], limit)[0])
    os.close(process_fd)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return f"nothing ended within {limit:.0f} s"
    os.set_blocking(reader, False)
    try:
        result = os.read(reader, 10_000).decode()
    except BlockingIOError:
        result = ""
    code = os.waitstatus_to_exitcode(status)
    return result or (f"the process ended with {code}" if code else "")
