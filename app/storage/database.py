"""The connection to the database: opened safely, migrated by `user_version`, shared by threads with a lock."""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import cast

from app.storage import StorageError

_INITIAL_SCHEMA = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        workspace TEXT NOT NULL,
        title TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        forked_from TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        updated REAL NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sessions_of_workspace ON sessions (workspace, updated)",
    """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        time REAL NOT NULL,
        type TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX events_of_session ON events (session, id)",
    """
    CREATE TABLE proposals (
        workspace TEXT NOT NULL,
        number INTEGER NOT NULL,
        session TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,
        waiting INTEGER NOT NULL,
        created REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (workspace, number)
    ) STRICT
    """,
    "CREATE INDEX proposals_waiting ON proposals (workspace, waiting, number)",
    "CREATE TABLE proposal_numbers (workspace TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT",
    """
    CREATE TABLE decisions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        session TEXT NOT NULL DEFAULT '',
        time REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX decisions_of_workspace ON decisions (workspace, id)",
    "CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT, WITHOUT ROWID",
    """
    CREATE TABLE journal (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        state TEXT NOT NULL,
        time REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX journal_of_workspace ON journal (workspace, state, id)",
    """
    CREATE TABLE settings (
        scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key)
    ) STRICT
    """,
)

_CONTENT_AGE = ("ALTER TABLE blobs ADD COLUMN added REAL NOT NULL DEFAULT 0",)
"""Time at which a content was last put: pruning spares contents whose proposal may be written soon."""

_UNRECORDED_PROPOSALS = (
    """
    CREATE TABLE unrecorded (
        workspace TEXT NOT NULL, proposal TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (workspace, proposal)
    ) STRICT
    """,
)
"""Proposals whose state a decision has changed, until the decision is recorded; a crash may happen in between."""

_ALLOWED_COMMANDS = (
    """
    CREATE TABLE allowed_commands (
        workspace TEXT NOT NULL, form TEXT NOT NULL, added REAL NOT NULL, PRIMARY KEY (workspace, form)
    ) STRICT
    """,
)
"""Forms of commands that the user has allowed permanently in a workspace."""

_PROPOSAL_PATHS = (
    """
    CREATE TABLE proposal_paths (
        workspace TEXT NOT NULL,
        path TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (workspace, path, number),
        FOREIGN KEY (workspace, number) REFERENCES proposals (workspace, number) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX paths_of_proposal ON proposal_paths (workspace, number)",
    """
    INSERT OR IGNORE INTO proposal_paths
    SELECT workspace, json_extract(file.value, '$.path'), number FROM proposals, json_each(body, '$.files') file
    UNION
    SELECT workspace, json_extract(file.value, '$.old_path'), number FROM proposals, json_each(body, '$.files') file
    WHERE json_extract(file.value, '$.old_path') != ''
    """,
)
"""The files that proposals name, as an index for finding proposals by file."""

_UNRECORDED_DECISIONS = (
    "ALTER TABLE unrecorded RENAME TO unrecorded_proposals",
    """
    CREATE TABLE unrecorded (
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        number INTEGER NOT NULL,
        time REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (workspace, proposal, number)
    ) STRICT
    """,
    """
    INSERT INTO unrecorded
    SELECT old.workspace, old.proposal, 0, old.time, json_object(
        'number', 0,
        'decision', CASE state WHEN 'applied' THEN 'approved' WHEN 'pending' THEN 'undone' ELSE state END,
        'feedback', CASE state WHEN 'denied' THEN coalesce(json_extract(proposals.body, '$.feedback'), '') ELSE '' END
    )
    FROM unrecorded_proposals old JOIN proposals
    ON proposals.workspace = old.workspace AND proposals.number = CAST(substr(old.proposal, 2) AS INTEGER)
    WHERE state IN ('applied', 'partly_approved', 'denied', 'undone', 'pending')
    """,
    "DROP TABLE unrecorded_proposals",
)
"""Each unrecorded decision separately, with its complete feedback, so that later ones do not replace it. Decisions of
earlier versions are derived from the state of the proposal and get number 0."""

_CAPTURED_EDITS = (
    """
    CREATE TABLE agent_turns (
        workspace TEXT NOT NULL,
        agent TEXT NOT NULL,
        session TEXT NOT NULL,
        prompt TEXT NOT NULL,
        response TEXT NOT NULL,
        model TEXT NOT NULL,
        proposal TEXT NOT NULL,
        closed INTEGER NOT NULL,
        told INTEGER NOT NULL DEFAULT 0,
        time REAL NOT NULL,
        PRIMARY KEY (workspace, proposal)
    ) STRICT
    """,
    "CREATE INDEX agent_turns_of_session ON agent_turns (workspace, agent, session, prompt)",
    """
    CREATE TABLE captured (
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        path TEXT NOT NULL,
        before BLOB,
        before_mode INTEGER NOT NULL,
        after BLOB,
        staged INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (workspace, proposal, path),
        FOREIGN KEY (workspace, proposal) REFERENCES agent_turns (workspace, proposal) ON DELETE CASCADE
    ) STRICT
    """,
    "CREATE INDEX captured_to_stage ON captured (workspace) WHERE staged = 0",
)
"""Edits of other agents that their hooks captured, until they are staged as proposals; and the turns with these
edits, which are closed until the user has decided or written a prompt."""

_DECISION_RECORD = (
    """
    CREATE TABLE record (
        workspace TEXT NOT NULL, number INTEGER NOT NULL, sha256 TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (workspace, number)
    ) STRICT
    """,
    "CREATE TABLE record_ends (workspace TEXT PRIMARY KEY, number INTEGER NOT NULL, sha256 TEXT NOT NULL) STRICT",
)
"""The chain of entries, byte for byte as they were hashed, and its end, so that deleted last entries are noticed."""

_PINNED_SESSIONS = (
    "ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sessions ADD COLUMN named INTEGER NOT NULL DEFAULT 0",
)
"""Whether a session is pinned, and whether the user has set its title."""

_SIDE_QUESTIONS = (
    """
    CREATE INDEX side_questions ON events (json_extract(body, '$.proposal'))
    WHERE type IN ('side_question', 'side_answer')
    """,
)
"""Side questions and answers by proposal, for all sessions."""

_DELETED_SEARCH_INDEX = (
    "DROP TABLE IF EXISTS search",
    "DELETE FROM settings WHERE scope = '' AND key = 'search.upto'",
)
"""Delete the search index; the next search builds it again, with side questions."""

EVENTS_IN_THE_RECORD = (
    "CREATE INDEX IF NOT EXISTS decided_events ON events (session) WHERE type = 'proposal_decided'",
)
"""The record also contains events about decisions; existing ones are entered by the migration."""

_SEEN_LINES = (
    """
    CREATE TABLE seen_lines (
        workspace TEXT NOT NULL,
        number INTEGER NOT NULL,
        hunk TEXT NOT NULL,
        seen INTEGER NOT NULL,
        lines BLOB NOT NULL,
        PRIMARY KEY (workspace, number, hunk)
    ) STRICT, WITHOUT ROWID
    """,
    "ALTER TABLE captured ADD COLUMN changed INTEGER NOT NULL DEFAULT 1",
)
"""The seen lines of each hunk and their number, and the number of lines that a captured edit changes."""

_AGENT_READS = (
    """
    CREATE TABLE agent_reads (
        workspace TEXT NOT NULL,
        agent TEXT NOT NULL,
        session TEXT NOT NULL,
        time REAL NOT NULL,
        kind TEXT NOT NULL,
        path TEXT NOT NULL,
        words TEXT NOT NULL,
        version TEXT NOT NULL,
        lines BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX agent_reads_of_session ON agent_reads (workspace, agent, session)",
)
"""Notes of hooks about the reads of other agents."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _INITIAL_SCHEMA,
    _CONTENT_AGE,
    _UNRECORDED_PROPOSALS,
    _ALLOWED_COMMANDS,
    _PROPOSAL_PATHS,
    _UNRECORDED_DECISIONS,
    _CAPTURED_EDITS,
    _DECISION_RECORD,
    _PINNED_SESSIONS,
    _SIDE_QUESTIONS,
    _DELETED_SEARCH_INDEX,
    EVENTS_IN_THE_RECORD,
    _SEEN_LINES,
    _AGENT_READS,
)
"""Each entry migrates the schema by one version; append entries, never change them."""


_BUSY_SECONDS = 15.0
_RETRY_SECONDS = 0.01
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of sqlite3; UnicodeDecodeError comes from its message about a damaged schema, which quotes it."""


class Database:
    """A SQLite database in WAL mode; every method is thread-safe.

    WAL with `synchronous=FULL` makes each committed transaction durable, even after a power failure
    (https://www.sqlite.org/pragma.html#pragma_synchronous).
    """

    def __init__(self, path: Path) -> None:
        """Open the database, create it if it is missing, and migrate it to the present schema.

        Raises:
            StorageError: it is damaged or from a newer signoff, or the folder cannot be written.
        """
        self.path = path
        self._lock = threading.RLock()
        try:
            _make_private(path)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise StorageError(f"Cannot open {path}: {reason}. Set SIGNOFF_HOME to a folder that you own.") from error
        try:
            self._migrate()
        except _SQLITE_ERRORS as error:
            self._connection.close()
            raise StorageError(_describe_error(path, error)) from error
        except StorageError:
            self._connection.close()
            raise

    def _migrate(self) -> None:
        version = self._schema_version()
        if version > len(MIGRATIONS):
            raise StorageError(
                f"{self.path} was written by a newer signoff (format {version}, this one knows {len(MIGRATIONS)}): "
                "update signoff, or set SIGNOFF_HOME to another folder. Nothing was changed."
            )
        self._switch_to_wal()
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("PRAGMA foreign_keys=ON")
        # In kilobytes; small, because rows are rarely read twice.
        self._connection.execute("PRAGMA cache_size=-512")
        if version == len(MIGRATIONS):
            return
        with self.transaction() as connection:
            # Another process may have migrated the database while this one waited for the lock.
            for script in MIGRATIONS[self._schema_version() :]:
                for statement in script:
                    connection.execute(statement)
                if script is EVENTS_IN_THE_RECORD:
                    _chain_events(connection)
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")

    def _switch_to_wal(self) -> None:
        end = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                # SQLite does not wait here if several processes open a new database at once.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                    raise
            time.sleep(_RETRY_SECONDS)

    def _schema_version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a write transaction; roll back on any exception, and commit durably at the end.

        Raises:
            StorageError: the disk is full, the database is locked for too long or has become unreadable.
        """
        with self._lock, self._translate_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A failed COMMIT (disk full) may leave the transaction open, or have ended it.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def query_rows(
        self, statement: str, values: tuple[object, ...] | Mapping[str, object] = ()
    ) -> list[tuple[object, ...]]:
        """Return all rows of a query."""
        with self._lock, self._translate_errors():
            return self._connection.execute(statement, values).fetchall()

    def foreign_write_counter(self) -> int:
        """Return a number that changes after writes of other processes, and never after writes of this one."""
        # https://www.sqlite.org/pragma.html#pragma_data_version
        return int(str(self.query_rows("PRAGMA data_version")[0][0]))

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except _SQLITE_ERRORS as error:
            raise StorageError(_describe_error(self.path, error)) from error


def _make_private(path: Path) -> None:
    """Create the folder (0700) and the file (0600), without a moment in which other users can read them."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.parent.stat().st_uid == os.getuid():
        path.parent.chmod(0o700)
    # Do not open an existing file: closing it would drop the locks of this process's other connections, and another
    # process could then delete the log that they use (https://www.sqlite.org/howtocorrupt.html).
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    path.chmod(0o600)


def _chain_events(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM decisions LIMIT 1").fetchone():
        # Imported only for this one migration.
        from app.storage.record_chain import chain_events_of_older_versions

        chain_events_of_older_versions(connection)


def _describe_error(path: Path, error: Exception) -> str:
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


def has_no_unfinished_work(database: Database, workspace: str) -> bool:
    """Return whether no proposal waits, no apply is unfinished, no decision unrecorded and no edit unstaged."""
    rows = database.query_rows(
        "SELECT EXISTS (SELECT 1 FROM proposals WHERE workspace = ? AND waiting = 1)"
        " OR EXISTS (SELECT 1 FROM journal WHERE workspace = ? AND state IN ('open', 'blocked'))"
        " OR EXISTS (SELECT 1 FROM unrecorded WHERE workspace = ?)"
        " OR EXISTS (SELECT 1 FROM captured WHERE workspace = ? AND staged = 0)",
        (workspace, workspace, workspace, workspace),
    )
    return not rows[0][0]


def parent_workspaces_with_pending_proposals(database: Database, workspace: str) -> list[str]:
    """Return the folders above a workspace that are workspaces themselves and have waiting proposals."""
    rows = database.query_rows("SELECT DISTINCT workspace FROM proposals WHERE waiting = 1")
    parents = {str(folder) for folder in PurePath(workspace).parents}
    return sorted((name for (name,) in rows if isinstance(name, str) and name in parents), key=len, reverse=True)


class AllowedCommandStore:
    """The commands that the user always allows in a workspace, read from the database each time."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    def forms(self) -> list[str]:
        """Return the allowed forms, oldest first. Raises StorageError."""
        rows = self._database.query_rows(
            "SELECT form FROM allowed_commands WHERE workspace = ? ORDER BY added, form", (self._workspace,)
        )
        return [cast(str, form) for (form,) in rows]

    def add(self, form: str) -> None:
        """Allow a form. Raises StorageError."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO allowed_commands VALUES (?, ?, ?)", (self._workspace, form, time.time())
            )

    def remove(self, form: str) -> None:
        """Revoke a form. Raises StorageError."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM allowed_commands WHERE workspace = ? AND form = ?", (self._workspace, form)
            )
