"""The command patterns that the user has allowed permanently in one workspace, stored outside of it."""

import time
from typing import cast

from app.storage.database import Database


class AllowedCommandStore:
    """Reads the database for each question, so that a revocation takes effect at once in every window."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    def forms(self) -> list[str]:
        """Return the allowed patterns, oldest first; raises StorageError."""
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
        """Revoke a pattern; raises StorageError."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM allowed_commands WHERE workspace = ? AND form = ?", (self._workspace, form)
            )
