"""Whether anything is to be done in a workspace, asked without loading what would do it.

Kept apart: `signoff proposals` asks this before anything else is loaded.
"""

from pathlib import PurePath

from app.storage.database import Database


def is_at_rest(database: Database, workspace: str) -> bool:
    """Whether no proposal awaits a decision, no record of an apply is unfinished, no decision unrecorded, no edit
    of another agent still to be made a proposal."""
    rows = database.rows(
        "SELECT EXISTS (SELECT 1 FROM proposals WHERE workspace = ? AND waiting = 1)"
        " OR EXISTS (SELECT 1 FROM journal WHERE workspace = ? AND state IN ('open', 'blocked'))"
        " OR EXISTS (SELECT 1 FROM unrecorded WHERE workspace = ?)"
        " OR EXISTS (SELECT 1 FROM captured WHERE workspace = ? AND staged = 0)",
        (workspace, workspace, workspace, workspace),
    )
    return not rows[0][0]


def waiting_above(database: Database, workspace: str) -> list[str]:
    """Folders above a workspace that were opened as workspaces themselves and have waiting proposals."""
    rows = database.rows("SELECT DISTINCT workspace FROM proposals WHERE waiting = 1")
    above = {str(folder) for folder in PurePath(workspace).parents}
    return sorted((name for (name,) in rows if isinstance(name, str) and name in above), key=len, reverse=True)
