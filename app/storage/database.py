"""The connection to the database: opened safely, migrated by `user_version`, shared by threads under a lock."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.storage.errors import StorageError
from app.storage.schema import EVENTS_IN_THE_RECORD, MIGRATIONS

_BUSY_SECONDS = 15.0
_FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises; the second for its own message about a damaged schema, which quotes it."""


class Database:
    """One SQLite database in WAL mode; every method may be called from any thread.

    WAL with `synchronous=FULL` makes each committed transaction durable, also across a power cut
    (https://www.sqlite.org/pragma.html#pragma_synchronous).
    """

    def __init__(self, path: Path) -> None:
        """Open the database, make it if it is missing, and bring it up to the present schema.

        Raises:
            StorageError: it is damaged, made by a newer signoff, or the folder cannot be written.
        """
        self.path = path
        self._lock = threading.RLock()
        try:
            _make_private(path)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            why = getattr(error, "strerror", None) or error
            raise StorageError(f"Cannot open {path}: {why}. Set SIGNOFF_HOME to a folder that you own.") from error
        try:
            self._prepare()
        except _FAILURES as error:
            self._connection.close()
            raise StorageError(_explain(path, error)) from error
        except StorageError:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        version = self._version()
        if version > len(MIGRATIONS):
            raise StorageError(
                f"{self.path} was written by a newer signoff (format {version}, this one knows {len(MIGRATIONS)}): "
                "update signoff, or set SIGNOFF_HOME to another folder. Nothing was changed."
            )
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("PRAGMA foreign_keys=ON")
        # In kilobytes: what was read once is hardly ever read again.
        self._connection.execute("PRAGMA cache_size=-512")
        if version == len(MIGRATIONS):
            return
        with self.transaction() as connection:
            # Another process may have migrated while this one waited for the lock.
            for script in MIGRATIONS[self._version() :]:
                for statement in script:
                    connection.execute(statement)
                if script is EVENTS_IN_THE_RECORD:
                    _chain_events(connection)
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: all or nothing, on disk when the block ends.

        Raises:
            StorageError: the disk is full, the database is locked for too long or has become unreadable.
        """
        with self._lock, self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A failed COMMIT (a full disk) leaves the transaction open, or has ended it already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def rows(
        self, statement: str, values: tuple[object, ...] | Mapping[str, object] = ()
    ) -> list[tuple[object, ...]]:
        """All rows of a query."""
        with self._lock, self._explained():
            return self._connection.execute(statement, values).fetchall()

    def foreign_writes(self) -> int:
        """A number that changes once another process has written, and never by what this one writes."""
        # https://www.sqlite.org/pragma.html#pragma_data_version
        return int(str(self.rows("PRAGMA data_version")[0][0]))

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise StorageError(_explain(self.path, error)) from error


def _make_private(path: Path) -> None:
    """Make the folder (0700) and the file (0600) so that no one else ever could read them."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.parent.stat().st_uid == os.getuid():
        path.parent.chmod(0o700)
    # One that is there is not opened: to close it would drop the locks of this process's other connections, and with
    # them gone another process may take the log away under their feet (https://www.sqlite.org/howtocorrupt.html).
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    path.chmod(0o600)


def _chain_events(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM decisions LIMIT 1").fetchone():
        # Needed once in the life of a database.
        from app.storage.record_chain import add_earlier_events

        add_earlier_events(connection)


def _explain(path: Path, error: Exception) -> str:
    damage = sqlite3.SQLITE_CORRUPT if isinstance(error, UnicodeDecodeError) else 0
    code = getattr(error, "sqlite_errorcode", damage) & 0xFF
    match code:
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return (
                f"{path} is damaged ({error}). It was left as it is: "
                "move it away to start afresh, or restore it from a backup."
            )
        case sqlite3.SQLITE_FULL:
            return f"The disk is full, so {path} could not be written. Free some space and try again."
        case sqlite3.SQLITE_IOERR:
            return f"{path} could not be used: {error}. Check that its disk works and has room, and try again."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"Another process keeps {path} locked. Close it and try again."
        case sqlite3.SQLITE_READONLY:
            return f"{path} cannot be written. Check its permissions, or set SIGNOFF_HOME to a folder that you own."
        case _:
            return f"{path} could not be used: {error}."
