"""What programs have written to the upper layer of an overlay, as whoever stages it asks for it.

Kept apart: the layer of one command and the layer of a program that stays are both looked at so.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from app.sandbox.changes import Change, Found, Pending, ThroughReport
from app.sandbox.keeping import Keeping
from app.sandbox.kept_versions import KeptVersions
from app.sandbox.through import IgnoredWriter
from app.sandbox.uncancelled import to_its_end
from app.sandbox.upper import Upper
from app.workspace.paths import Workspace


class WrittenLayer:
    """A layer over a workspace."""

    def __init__(self, workspace: Workspace, layer: Path, pending: Pending, kept: KeptVersions) -> None:
        """Nothing is written yet.

        Args:
            workspace: What is below.
            layer: Its folder.
            pending: What lies over the workspace.
            kept: Where versions of ignored files go that are not written.
        """
        self._root = workspace.root
        self._layer = layer
        self._kept = kept
        self._keeping = Keeping(workspace, pending)
        self._upper = Upper(workspace.root, layer, pending)

    async def changes(self) -> Found:
        """What has changed so far. Raises OSError."""
        return await asyncio.to_thread(self._upper.look, self._keeping)

    def read(self, path: str, limit: int) -> Change:
        """One of the changes with its contents; raises as `Upper.read` does."""
        return self._upper.read(path, limit)

    async def write_through(self, paths: Sequence[str], *, dry: bool = False) -> ThroughReport:
        """Have these ignored paths in the workspace as they are here, where nobody else has changed them.

        Args:
            paths: As `changes` has found them.
            dry: Change nothing, and only say what would be written.
        """
        writer = IgnoredWriter(self._root, self._layer, self._upper.since, self._kept.new_folder, dry=dry)
        # To its end: nothing of a program that stays may run beside it, which could make a link of a folder.
        return await to_its_end(asyncio.to_thread(writer.write, paths))
