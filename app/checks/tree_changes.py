"""Tells when the result of a check may be outdated: files in the workspace or the checked-out commit have changed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import islice
from pathlib import Path

from app.workspace.git import repository
from app.workspace.paths import Workspace
from app.workspace.watching import changes_of

_QUIET_MS = 150
"""How long changes are gathered."""
_LOOK_SECONDS = 3.0
_MOST_FOLDERS = 20_000
"""Folders that are watched, of a workspace that has more; each takes a kilobyte of the kernel's memory."""


async def tree_changes(workspace: Workspace) -> AsyncGenerator[None]:
    """Yields once the workspace is watched, and then soon after something in it may have changed.

    Where the system lets no more folders be watched, it yields every few seconds.
    """
    while True:
        folders = await asyncio.to_thread(_folders, workspace)
        try:
            async with aclosing(changes_of(folders, quiet_ms=_QUIET_MS)) as changes:
                async for changed in changes:
                    yield
                    if any(path in folders or path.is_dir() for path in changed):
                        break
        except FileNotFoundError:
            # A folder went away before it was watched; the workspace itself may come back.
            if not workspace.root.is_dir():
                await asyncio.sleep(_LOOK_SECONDS)
        except OSError:
            await asyncio.sleep(_LOOK_SECONDS)
            yield


def _folders(workspace: Workspace) -> frozenset[Path]:
    """What no ignore rule leaves out, and where git keeps the index and HEAD."""
    found = repository(workspace.root)
    git = (found.folder,) if found is not None else ()
    below = (workspace.root / path for path in islice(workspace.folders(), _MOST_FOLDERS))
    return frozenset((workspace.root, *git, *below))
