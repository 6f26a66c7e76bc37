"""Deletes old sessions, proposals and unused contents, and frees their space.

Deleted are: sessions that were last used before a given time and are neither pinned nor open; decided proposals
that were last changed before that time and belong to no remaining session, with their journal records; and contents
that no proposal and no journal record of any workspace names. Kept at any age are: waiting proposals, contents and
records that an unfinished apply needs, and the decisions, which are the audit trail. A deleted proposal can no longer
be undone.
"""

import contextlib
import re
import sqlite3
import time
from collections.abc import Callable
from typing import cast

from msgspec import Struct

from app.storage import StorageError, session_search
from app.storage.database import Database
from app.storage.sqlite_proposal_store import FRESH_SECONDS

_QUOTED_SHA256 = re.compile(r'"([0-9a-f]{64})"')
"""The SHA-256 of a content anywhere in a document. A false match keeps a content; a missed one would lose it."""


class PruneReport(Struct, frozen=True):
    """Counts of the deleted sessions, proposals and contents, and the freed bytes."""

    sessions: int
    proposals: int
    contents: int
    freed: int
    """Bytes of the deleted contents."""


def prune_workspace(
    database: Database, workspace: str, unused_since: float, is_open: Callable[[str], bool] = lambda session_id: False
) -> PruneReport:
    """Delete old sessions and decided proposals of a workspace, and contents that nothing uses; return counts.

    Args:
        unused_since: Unix time; data that was used since then is kept.
        is_open: Returns whether a window has the session with this id open; then it is kept.

    Raises:
        StorageError: the database cannot be written; nothing was deleted then.
    """
    with database.transaction() as connection:
        sessions = [
            session_id
            for (session_id,) in connection.execute(_SELECT_OLD_SESSIONS, (workspace, unused_since))
            if not is_open(session_id)
        ]
        session_search.remove_sessions_from_search_index(connection, sessions)
        connection.executemany("DELETE FROM sessions WHERE id = ?", [(session_id,) for session_id in sessions])
        rows = connection.execute(_SELECT_OLD_PROPOSALS, (workspace, unused_since, unused_since)).fetchall()
        numbers, names = (
            [(workspace, number) for (number,) in rows],
            [(workspace, f"P{number}") for (number,) in rows],
        )
        connection.executemany("DELETE FROM journal WHERE workspace = ? AND proposal = ?", names)
        connection.executemany("DELETE FROM proposals WHERE workspace = ? AND number = ?", numbers)
        connection.executemany("DELETE FROM seen_lines WHERE workspace = ? AND number = ?", numbers)
        contents, freed = _delete_unused_contents(connection)
    if sessions or rows or contents:
        _vacuum(database)
    return PruneReport(len(sessions), len(rows), contents, freed)


_SELECT_OLD_SESSIONS = "SELECT id FROM sessions WHERE workspace = ? AND updated < ? AND NOT pinned"
_SELECT_OLD_PROPOSALS = """
    SELECT number FROM proposals
    WHERE workspace = ? AND waiting = 0 AND created < ?
      AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = proposals.session)
      AND NOT EXISTS (
        SELECT 1 FROM journal
        WHERE journal.workspace = proposals.workspace AND journal.proposal = 'P' || proposals.number
          AND (journal.time >= ? OR journal.state IN ('open', 'blocked'))
      )
"""


def _delete_unused_contents(connection: sqlite3.Connection) -> tuple[int, int]:
    """Delete contents that nothing names; return their number and size in bytes."""
    used_hashes: set[str] = set()
    for statement in ("SELECT body FROM proposals", "SELECT body FROM journal", _SELECT_IMAGES):
        for (body,) in connection.execute(statement):
            # A journal record contains a proposal as JSON within a string, with escaped quotes.
            used_hashes.update(_QUOTED_SHA256.findall(cast(str, body).replace("\\", "")))
    old_contents = connection.execute(
        "SELECT sha256, length(data) FROM blobs WHERE added < ?", (time.time() - FRESH_SECONDS,)
    ).fetchall()
    unused = [(name, size) for name, size in old_contents if name not in used_hashes]
    connection.executemany("DELETE FROM blobs WHERE sha256 = ?", [(name,) for name, _ in unused])
    return len(unused), sum(size for _, size in unused)


_SELECT_IMAGES = """
    SELECT json_extract(body, '$.images') FROM events
    WHERE type IN ('user_message', 'message_queued', 'answer', 'proposal_decided', 'tool_result')
      AND body LIKE '%"images":[{%'
"""
"""The images of messages and results, in all sessions."""


def _vacuum(database: Database) -> None:
    """Return free space to the file system, unless another process is using the database."""
    # https://www.sqlite.org/lang_vacuum.html; the copy goes through the write-ahead log, which is then truncated.
    with contextlib.suppress(StorageError):
        database.query_rows("VACUUM")
        database.query_rows("PRAGMA wal_checkpoint(TRUNCATE)")
