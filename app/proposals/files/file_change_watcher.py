"""Watch the files of pending proposals through the kernel's notifications."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress
from pathlib import Path

from app.proposals.values.pending_paths import parent_folders
from app.workspace.file_watching import watch_changes

_QUIET_MS = 60
"""Milliseconds for which changes are collected before they are yielded."""


class FileChangeWatcher:
    """Yields the watched paths that any program, including this one, has changed.

    Folders are watched, not files: a watch on a file would end when an editor saves by renaming.

    Args:
        root: The workspace, resolved.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._stop = threading.Event()
        """Ends the watch on the former paths."""

    @property
    def paths(self) -> frozenset[str]:
        """Return the watched paths, relative to the workspace."""
        return self._paths

    def watch(self, paths: Collection[str]) -> None:
        """Watch these files from now on, whether they exist or not; call it on the event loop."""
        wanted = frozenset(paths)
        if wanted != self._paths:
            self._paths = wanted
            self._changed.set()
            self._stop.set()

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        """Yield the paths that may have changed, after each change, until closed.

        When `watch` changes the set of paths, all of them are yielded once as soon as the new watch has started,
        because earlier changes were not watched.
        """
        while True:
            self._changed.clear()
            self._stop.clear()
            folders, paths = self._folders(), self._paths
            if not paths:
                await self._changed.wait()
                continue
            # If a folder is removed now, the next round watches one further up.
            with suppress(FileNotFoundError):
                async with aclosing(watch_changes(folders, quiet_ms=_QUIET_MS, stop=self._stop)) as changes:
                    async for changed in changes:
                        if (
                            touched := _watched_among(paths, {self._relative(path) for path in changed})
                            if changed
                            else paths
                        ):
                            yield touched
                        # Also restart if a folder was created or removed: nearer to the files, or further up.
                        if self._changed.is_set() or self._folders() != folders:
                            break

    def _folders(self) -> frozenset[Path]:
        """Return the folders to watch: the folder of each file, or the nearest existing one above it."""
        # Thousands of files may lie in a few folders: look up each folder once.
        return frozenset(self._nearest(folder) for folder in {path.rpartition("/")[0] for path in self._paths})

    def _nearest(self, name: str) -> Path:
        folder = self._root / name
        # If the workspace itself does not exist any more, this ends above it.
        while not folder.is_dir():
            folder = folder.parent
        return folder

    def _relative(self, path: Path) -> str:
        with suppress(ValueError):
            return path.relative_to(self._root).as_posix()
        return str(path)


def _watched_among(paths: frozenset[str], names: set[str]) -> frozenset[str]:
    """Return the watched paths that are in `names`, or lie in a folder that is."""
    return frozenset(path for path in paths if not names.isdisjoint((path, *parent_folders(path))))
