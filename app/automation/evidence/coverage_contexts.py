"""Tests that ran a line in the last coverage run: contexts of coverage.py, and data of pytest-testmon."""

import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

_COVERAGE, _TESTMON = ".coverage", ".testmondata"
_LARGEST = 128 << 20
"""Bytes of a database that is looked at."""
_SECONDS = 5.0
"""Of one look into it."""
_STEPS = 100_000
"""Instructions of SQLite between two looks at the clock."""


def find_recorded_tests(workspace: Workspace, lines: Mapping[str, Collection[int]]) -> tuple[frozenset[str], str]:
    """Return the ids of the tests that ran some lines, and where that is recorded; both empty if nowhere.

    Where tests are known to have run the file but none of the lines, they are all returned: the lines may have moved.

    Args:
        workspace: Where the tools leave their data.
        lines: Lines from 1 by workspace path, as the files are on disk.
    """
    for name, read in ((_COVERAGE, _of_coverage), (_TESTMON, _of_testmon)):
        with suppress(OSError, WorkspaceError, sqlite3.Error), closing(sqlite3.connect(":memory:")) as database:
            # A copy in memory, whose views and triggers count for nothing: it may come from anyone.
            data = workspace.read(name, _LARGEST)
            # A database with a journal beside it says so in its header, and would not be opened without.
            database.deserialize(b"".join((data[:18], b"\1\1", data[20:])))
            database.execute("PRAGMA trusted_schema = OFF")
            end = time.monotonic() + _SECONDS
            database.set_progress_handler(partial(_is_late, end), _STEPS)
            if found := frozenset(read(database, workspace.root, lines)):
                return found, name
    return frozenset(), ""


def _is_late(end: float) -> int:
    return time.monotonic() > end


def _of_coverage(database: sqlite3.Connection, root: Path, lines: Mapping[str, Collection[int]]) -> Iterator[str]:
    """From coverage.py's schema 7 (https://coverage.readthedocs.io/en/latest/dbschema.html)."""
    contexts = dict(database.execute("SELECT id, context FROM context"))
    files = {path: number for number, path in database.execute("SELECT id, path FROM file")}
    for path, wanted in lines.items():
        number = next((files[name] for name in (str(root / path), path) if name in files), None)
        if number is None:
            continue
        by_context = _lines_by_context(database, number)
        near = {each for each, ran in by_context.items() if not ran.isdisjoint(wanted)}
        for each in near or by_context:
            if test := _test_of(contexts.get(each, "")):
                yield test


def _lines_by_context(database: sqlite3.Connection, file: int) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for context, bits in database.execute("SELECT context_id, numbits FROM line_bits WHERE file_id = ?", (file,)):
        ran = found.setdefault(context, set())
        ran.update(at * 8 + bit for at, byte in enumerate(bits) for bit in range(8) if byte & 1 << bit)
    for context, line in database.execute("SELECT context_id, ABS(tono) FROM arc WHERE file_id = ?", (file,)):
        found.setdefault(context, set()).add(line)
    return found


def _test_of(context: str) -> str:
    """Return the test id in a context of pytest-cov, `tests/test_a.py::test_b|run`; empty without one."""
    test, _, phase = context.rpartition("|")
    test = test if phase in ("setup", "run", "teardown") else context
    return test if "::" in test and not test.startswith("-") else ""


def _of_testmon(database: sqlite3.Connection, root: Path, lines: Mapping[str, Collection[int]]) -> Iterator[str]:
    """From the tables of pytest-testmon 2; it knows files and the methods in them, not lines."""
    for path in lines:
        yield from (
            name
            for (name,) in database.execute(
                "SELECT DISTINCT t.test_name FROM test_execution t "
                "JOIN test_execution_file_fp x ON x.test_execution_id = t.id "
                "JOIN file_fp f ON f.id = x.fingerprint_id WHERE f.filename = ?",
                (path,),
            )
            if not name.startswith("-")
        )
