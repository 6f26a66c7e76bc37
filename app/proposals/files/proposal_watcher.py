"""Watch the files of pending proposals through the kernel's notifications."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress
from pathlib import Path

from app.proposals.values.pending_paths import parent_folders
from app.workspace.file_watching import watch_changes

_QUIET_MS = 60
"""How long changes are gathered before they are told."""


class ProposalWatcher:
    """Yields the watched paths that changed, by any program, this one included.

    Folders are watched, not files: an editor that saves by renaming would take a watch on the file away with it.

    Args:
        root: The workspace, resolved.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._stop = threading.Event()
        """Ends the watch on the paths that there were before."""

    @property
    def paths(self) -> frozenset[str]:
        """The watched paths, relative to the workspace."""
        return self._paths

    def watch(self, paths: Collection[str]) -> None:
        """Watch these files from now on, whether they exist or not; to be called on the event loop."""
        wanted = frozenset(paths)
        if wanted != self._paths:
            self._paths = wanted
            self._changed.set()
            self._stop.set()

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        """Yield the paths that may have changed, whenever some have, until closed.

        Each time the set of paths changes, all of them are yielded once when the watch is in place: whatever happened
        before that would have been missed.
        """
        while True:
            self._changed.clear()
            self._stop.clear()
            folders, paths = self._folders(), self._paths
            if not paths:
                await self._changed.wait()
                continue
            # A folder that goes away just now moves the watch further up.
            with suppress(FileNotFoundError):
                async with aclosing(watch_changes(folders, quiet_ms=_QUIET_MS, stop=self._stop)) as changes:
                    async for changed in changes:
                        if (
                            touched := _touched(paths, {self._relative(path) for path in changed})
                            if changed
                            else paths
                        ):
                            yield touched
                        # So does one that came up or went away: nearer to the files, or further up.
                        if self._changed.is_set() or self._folders() != folders:
                            break

    def _folders(self) -> frozenset[Path]:
        """The folders to watch: of each file its own, or the nearest above it that exists."""
        # Thousands of files lie in a few folders.
        return frozenset(self._nearest(folder) for folder in {path.rpartition("/")[0] for path in self._paths})

    def _nearest(self, name: str) -> Path:
        folder = self._root / name
        # At last above the workspace, where that is gone itself.
        while not folder.is_dir():
            folder = folder.parent
        return folder

    def _relative(self, path: Path) -> str:
        with suppress(ValueError):
            return path.relative_to(self._root).as_posix()
        return str(path)


def _touched(paths: frozenset[str], names: set[str]) -> frozenset[str]:
    """Watched paths that are among the names, or lie in a folder that is."""
    return frozenset(path for path in paths if not names.isdisjoint((path, *parent_folders(path))))
