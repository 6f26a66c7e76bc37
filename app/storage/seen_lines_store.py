"""Lines of waiting proposals that the user has seen, shared by all processes, and the number of unread lines.

A hunk's id is a hash of its text, so its seen lines stay valid as long as its text does. This module imports little,
because the hooks of other agents use it.
"""

import sqlite3
from collections.abc import Mapping
from typing import cast

from app.proposals.values.proposal_errors import TooManyUnreadLinesToStage
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal


class SeenLinesStore:
    """The seen lines of one workspace's proposals; data is on disk when a method returns."""

    def __init__(self, database: Database, workspace: str, signal: DatabaseChangeSignal) -> None:
        self._database = database
        self._workspace = workspace
        self._signal = signal

    def unread_line_count(self) -> int:
        """Return how many changed lines wait unread, in proposals and in captured edits. Raises StorageError.

        A file without hunks counts as one line.
        """
        return cast(int, self._database.query_rows(_COUNT_UNREAD, {"workspace": self._workspace})[0][0])

    def seen_line_count(self) -> int:
        """Return how many lines were ever seen, also of decided proposals. Raises StorageError."""
        rows = self._database.query_rows("SELECT total(seen) FROM seen_lines WHERE workspace = ?", (self._workspace,))
        return int(cast(float, rows[0][0]))

    def seen_lines(self) -> dict[str, dict[str, bytes]]:
        """Return the seen lines of waiting proposals, by proposal and hunk id: a byte per line, 1 if seen.

        A file without hunks has its path in place of the hunk id. Raises StorageError.
        """
        lines_by_proposal: dict[str, dict[str, bytes]] = {}
        rows = self._database.query_rows(
            "SELECT number, hunk, lines FROM seen_lines JOIN proposals USING (workspace, number)"
            " WHERE workspace = ? AND waiting = 1",
            (self._workspace,),
        )
        for number, hunk, lines in rows:
            lines_by_proposal.setdefault(f"P{number}", {})[cast(str, hunk)] = cast(bytes, lines)
        return lines_by_proposal

    def add_seen(self, seen: Mapping[str, Mapping[str, bytes]]) -> None:
        """Add seen lines, in the form of `seen_lines`. Raises StorageError."""
        with self._database.transaction() as connection:
            for proposal, hunks in seen.items():
                for hunk, lines in hunks.items():
                    key = (self._workspace, int(proposal[1:]), hunk)
                    row = connection.execute(_SELECT_SEEN, key).fetchone()
                    joined = bytes(map(max, lines, row[0])) if row and len(row[0]) == len(lines) else lines
                    connection.execute(_REPLACE_SEEN, (*key, sum(joined), joined))
        self._signal.send()


def raise_if_too_many_unread_lines(connection: sqlite3.Connection, workspace: str, limit: int) -> None:
    """Raise TooManyUnreadLinesToStage if more lines wait unread than `limit`; 0 means no limit.

    Call it in the transaction that adds lines, so that two writers cannot both pass with the same count.
    """
    if limit:
        (unread,) = connection.execute(_COUNT_UNREAD, {"workspace": workspace}).fetchone()
        if unread > limit:
            raise TooManyUnreadLinesToStage(unread)


_SELECT_SEEN = "SELECT lines FROM seen_lines WHERE workspace = ? AND number = ? AND hunk = ?"
_REPLACE_SEEN = "INSERT OR REPLACE INTO seen_lines VALUES (?, ?, ?, ?, ?)"
_SEEN_COUNT_EXPRESSION = """
    coalesce((
        SELECT seen FROM seen_lines WHERE seen_lines.workspace = proposals.workspace
        AND seen_lines.number = proposals.number AND seen_lines.hunk = json_extract({key})
    ), 0)
"""
_COUNT_UNREAD = f"""
    SELECT coalesce(sum(max(0, changed - seen)), 0) FROM (
        SELECT
            json_extract(hunk.value, '$.old_count') + json_extract(hunk.value, '$.new_count') AS changed,
            {_SEEN_COUNT_EXPRESSION.format(key="hunk.value, '$.id'")} AS seen
        FROM proposals, json_each(body, '$.files') AS file, json_each(file.value, '$.hunks') AS hunk
        WHERE proposals.workspace = :workspace AND waiting = 1 AND json_extract(hunk.value, '$.state') = 'pending'
        UNION ALL
        SELECT 1, {_SEEN_COUNT_EXPRESSION.format(key="file.value, '$.path'")}
        FROM proposals, json_each(body, '$.files') AS file
        WHERE proposals.workspace = :workspace AND waiting = 1 AND json_extract(file.value, '$.state') = 'pending'
        AND json_array_length(file.value, '$.hunks') = 0
        UNION ALL
        SELECT changed, 0 FROM captured WHERE workspace = :workspace AND staged = 0
    )
"""
