"""The forms of commands that the user has allowed for good in one workspace, kept outside of it.

Kept apart: a table of its own, which nothing else in the database refers to.
"""

import time
from typing import cast

from app.storage.database import Database


class AllowedCommandStore:
    """Read anew for each question, so that what is revoked counts at once in every window."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    def forms(self) -> list[str]:
        """What is allowed, as it was added, the oldest first; raises StorageError."""
        rows = self._database.rows(
            "SELECT form FROM allowed_commands WHERE workspace = ? ORDER BY added, form", (self._workspace,)
        )
        return [cast(str, form) for (form,) in rows]

    def add(self, form: str) -> None:
        """Allow a form; raises StorageError."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO allowed_commands VALUES (?, ?, ?)", (self._workspace, form, time.time())
            )

    def remove(self, form: str) -> None:
        """Allow it no more; raises StorageError."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM allowed_commands WHERE workspace = ? AND form = ?", (self._workspace, form)
            )
