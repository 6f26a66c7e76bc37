"""Each test that opens a workspace makes a database: the schema's history is gone through once, and copied."""

import contextlib
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import app.storage.database

_database: Any = app.storage.database
_make_private = _database._make_private
_migrations = _database.MIGRATIONS


@cache
def _empty() -> bytes:
    """A database as the program makes one that is missing."""
    with tempfile.TemporaryDirectory(prefix="signoff-tests-") as folder:
        path = Path(folder, "db")
        _make_private(path)
        _database.Database(path).close()
        return path.read_bytes()


def _copied_once_made(path: Path) -> None:
    """Make a file that only its owner can read, which holds an empty database if it is new."""
    if _database.MIGRATIONS is _migrations and not path.exists():
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=path.parent) as file:
                file.write(_empty())
                file.flush()
                # Others may be making it, too: whoever is first has made a whole one.
                os.link(file.name, path)
    _make_private(path)


def copy_new_databases() -> None:
    """Have a database that is missing made as a copy of one that is made now."""
    _empty()
    _database._make_private = _copied_once_made
