"""Tests that open a workspace need a database: run all schema migrations once, then copy the result."""

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
def _empty_database() -> bytes:
    """Return the bytes of a new database with the current schema."""
    with tempfile.TemporaryDirectory(prefix="signoff-tests-") as folder:
        path = Path(folder, "db")
        _make_private(path)
        _database.Database(path).close()
        return path.read_bytes()


def _make_private_copy(path: Path) -> None:
    """Create a file that only its owner can read; a new file holds an empty database."""
    if _database.MIGRATIONS is _migrations and not path.exists():
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=path.parent) as file:
                file.write(_empty_database())
                file.flush()
                # Other processes may create it too: the first link wins, and its file is complete.
                os.link(file.name, path)
    _make_private(path)


def copy_new_databases() -> None:
    """Patch the program to create a missing database as a copy of one that is created now."""
    _empty_database()
    _database._make_private = _make_private_copy
