"""Removes old sessions, proposals and unused contents, and frees their space.

What goes: sessions that were last used before a moment and are not pinned; proposals that are decided, were last
moved before that moment and belong to no session that is kept, with their part of the apply journal; and contents
that no proposal and no journal record of any workspace names any more. What stays whatever its age: what waits for a
decision, what an unfinished apply needs, and the decisions themselves, which are the audit trail. A proposal that
went can no longer be undone; one that stays can.
"""

import contextlib
import re
import sqlite3
import time
from dataclasses import dataclass
from typing import cast

from app.storage import StorageError, session_search
from app.storage.database import Database
from app.storage.sqlite_proposal_store import FRESH_SECONDS

_NAME = re.compile(r'"([0-9a-f]{64})"')
"""A content's name, wherever in a document it stands; one too many keeps a content, one too few would lose it."""


@dataclass(frozen=True, slots=True)
class PruneReport:
    """Counts of what was removed."""

    sessions: int
    proposals: int
    contents: int
    freed: int
    """Bytes of the contents."""


def prune_workspace(database: Database, workspace: str, before: float) -> PruneReport:
    """Remove what was last used before the moment `before` (Unix time) in one workspace.

    Raises:
        StorageError: the database cannot be written; nothing was removed then.
    """
    with database.transaction() as connection:
        sessions = [one for (one,) in connection.execute(_OLD_SESSIONS, (workspace, before))]
        session_search.remove_from_index(connection, sessions)
        connection.executemany("DELETE FROM sessions WHERE id = ?", [(one,) for one in sessions])
        old = [number for (number,) in connection.execute(_OLD_PROPOSALS, (workspace, before, before))]
        connection.executemany(
            "DELETE FROM journal WHERE workspace = ? AND proposal = ?", [(workspace, f"P{number}") for number in old]
        )
        connection.executemany(
            "DELETE FROM proposals WHERE workspace = ? AND number = ?", [(workspace, number) for number in old]
        )
        connection.executemany(
            "DELETE FROM seen_lines WHERE workspace = ? AND number = ?", [(workspace, number) for number in old]
        )
        contents, freed = _drop_contents(connection)
    if sessions or old or contents:
        _reclaim(database)
    return PruneReport(len(sessions), len(old), contents, freed)


_OLD_SESSIONS = "SELECT id FROM sessions WHERE workspace = ? AND updated < ? AND NOT pinned"
_OLD_PROPOSALS = """
    SELECT number FROM proposals
    WHERE workspace = ? AND waiting = 0 AND created < ?
      AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = proposals.session)
      AND NOT EXISTS (
        SELECT 1 FROM journal
        WHERE journal.workspace = proposals.workspace AND journal.proposal = 'P' || proposals.number
          AND (journal.time >= ? OR journal.state IN ('open', 'blocked'))
      )
"""


def _drop_contents(connection: sqlite3.Connection) -> tuple[int, int]:
    """Remove contents that nothing names; how many, and their bytes."""
    named: set[str] = set()
    for statement in ("SELECT body FROM proposals", "SELECT body FROM journal", _WITH_IMAGES):
        for (body,) in connection.execute(statement):
            # A journal record holds a whole proposal as JSON in a string, where quotes are escaped.
            named.update(_NAME.findall(cast(str, body).replace("\\", "")))
    found = connection.execute(
        "SELECT sha256, length(data) FROM blobs WHERE added < ?", (time.time() - FRESH_SECONDS,)
    ).fetchall()
    unnamed = [(name, size) for name, size in found if name not in named]
    connection.executemany("DELETE FROM blobs WHERE sha256 = ?", [(name,) for name, _ in unnamed])
    return len(unnamed), sum(size for _, size in unnamed)


_WITH_IMAGES = """
    SELECT json_extract(body, '$.images') FROM events
    WHERE type IN ('user_message', 'message_queued', 'answer', 'proposal_decided', 'tool_result')
      AND body LIKE '%"images":[{%'
"""
"""The images of messages and of results; bytes that none of any session names any more go."""


def _reclaim(database: Database) -> None:
    """Give the space back to the disk, unless another process is busy with the database right now."""
    # https://www.sqlite.org/lang_vacuum.html; the copy goes through the write-ahead log, which is then cut.
    with contextlib.suppress(StorageError):
        database.query_rows("VACUUM")
        database.query_rows("PRAGMA wal_checkpoint(TRUNCATE)")
