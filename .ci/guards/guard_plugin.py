"""What pytest does in the copy: note what each test reaches, then take guards out in processes of their own."""

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

PATIENCE = 5.0
"""In units of what the tests of a guard took with all guards in, after some seconds to begin with: if they take more,
something waits for what never comes, and the guard counts as noticed."""
_BEGINNING = 10.0

_seconds: Counter[str] = Counter()
_failed: set[str] = set()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say to all processes which test runs."""
    guard_switches.forget()
    Path(guard_switches.TEST).write_text(nodeid, encoding="utf-8")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a test took, and whether it can be used."""
    _seconds[report.nodeid] += report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Keep which tests reach each guard, the quickest and most special first."""
    if not (kept := os.environ.get("GUARDS_KEEP")):
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
    Path(kept).write_text(json.dumps({"order": order, "seconds": _seconds}), encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run what there is to run for each guard that is to go."""
    if not (todo := os.environ.get("GUARDS_OUT")):
        return None
    asked = json.loads(Path(todo).read_text(encoding="utf-8"))
    items = {item.nodeid: item for item in session.items}
    with Path(asked["results"]).open("a", encoding="utf-8") as results:
        for guard in asked["guards"]:
            chosen: list[pytest.Item] = []
            left = asked["most"]
            for test in asked["order"].get(str(guard["number"]), ()):
                if test in items and left > 0:
                    chosen.append(items[test])
                    left -= asked["seconds"][test]
            limit = _BEGINNING + PATIENCE * (asked["most"] - left)
            noticed = _noticed(chosen, guard["number"], limit) if chosen else ""
            print(json.dumps({**guard, "noticed": noticed}), file=results, flush=True)
            where, what = f"{guard['file']}:{guard['line']}", " ".join(guard["source"].split())[:70]
            by = noticed or f"by none of {len(chosen)} tests"
            print(f"{'noticed' if noticed else 'MISSED '} {where} {what} ({by})", flush=True)
    return True


def _noticed(items: Sequence[pytest.Item], number: int, limit: float) -> str:
    """The test that fails without a guard, in a process of its own; empty if none does."""
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
    """What became of the tests of a guard, that may take so many seconds."""
    ending = os.pidfd_open(child)
    ended = bool(select.select([ending], [], [], limit)[0])
    os.close(ending)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return f"nothing ended within {limit:.0f} s"
    os.set_blocking(reader, False)
    try:
        said = os.read(reader, 10_000).decode()
    except BlockingIOError:
        said = ""
    code = os.waitstatus_to_exitcode(status)
    return said or (f"the process ended with {code}" if code else "")
