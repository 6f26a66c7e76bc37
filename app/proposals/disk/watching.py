"""Watching the files of waiting proposals, and those alone: the kernel says when one changes, nothing is polled."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from app.proposals.pending_paths import parents

_QUIET_MS = 60
"""How long changes are gathered before they are told."""
_STEP_MS = 100
_TIMEOUT_MS = 3_600_000
"""How long the watching thread sleeps at most; it wakes at once for a change or to be stopped."""


class ProposalWatcher:
    """Tells which of the watched paths changed, by any program, this one included.

    Folders are watched, not files: an editor that saves by renaming would take a watch on the file away with it.
    """

    def __init__(self, root: Path) -> None:
        """Nothing is watched yet.

        Args:
            root: The workspace, resolved.
        """
        self._root = root
        self._paths: frozenset[str] = frozenset()
        self._changed = asyncio.Event()

    @property
    def paths(self) -> frozenset[str]:
        """The watched paths, relative to the workspace."""
        return self._paths

    def watch(self, paths: Collection[str]) -> None:
        """Watch these files from now on, whether they exist or not; call it on the event loop."""
        wanted = frozenset(paths)
        if wanted != self._paths:
            self._paths = wanted
            self._changed.set()

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        """Yields the paths that may have changed, whenever some have, until it is closed.

        Each time the set of paths changes, all of them are yielded once when the watch is in place: whatever happened
        before that would have been missed.
        """
        while True:
            self._changed.clear()
            folders, paths = self._folders(), self._paths
            if not paths:
                await self._changed.wait()
                continue
            async with aclosing(self._events(folders)) as events:
                async for names in events:
                    touched = paths if names is None else _touched(paths, names)
                    if touched:
                        yield touched
                    # A folder that came up or went away moves the watch: nearer to the files, or further up.
                    if self._changed.is_set() or self._folders() != folders:
                        break

    async def _events(self, folders: frozenset[Path]) -> AsyncGenerator[set[str] | None, None]:
        """Names of what changed in the folders; None when the watch has just begun. Ends when the set changes."""
        from watchfiles import awatch

        stop = asyncio.Event()
        events = awatch(
            *folders,
            watch_filter=None,
            debounce=_QUIET_MS,
            step=_STEP_MS,
            stop_event=stop,
            rust_timeout=_TIMEOUT_MS,
            recursive=False,
            ignore_permission_denied=True,
        )
        changed = asyncio.ensure_future(self._changed.wait())
        following = asyncio.ensure_future(anext(events))
        try:
            # One turn of the loop is enough: the watch is set up before the generator first waits.
            await asyncio.sleep(0)
            yield None
            while True:
                await asyncio.wait({following, changed}, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    return
                try:
                    found = following.result()
                except (StopAsyncIteration, FileNotFoundError):
                    return
                yield {self._relative(path) for _, path in found}
                following = asyncio.ensure_future(anext(events))
        finally:
            stop.set()
            changed.cancel()
            following.add_done_callback(_heed)
            # Not `await following`: that would take this task's own cancellation for the end of the other.
            await asyncio.wait({following})
            await events.aclose()

    def _folders(self) -> frozenset[Path]:
        """The folders to watch: of each file its own, or the nearest above it that exists."""
        # Thousands of files lie in a few folders.
        return frozenset(self._nearest(folder) for folder in {path.rpartition("/")[0] for path in self._paths})

    def _nearest(self, name: str) -> Path:
        folder = self._root / name
        while folder != self._root and not folder.is_dir():
            folder = folder.parent
        return folder

    def _relative(self, path: str) -> str:
        with suppress(ValueError):
            return Path(path).relative_to(self._root).as_posix()
        return path


def _heed(done: "asyncio.Future[Any]") -> None:
    """Take note of how a step ended, so that its error does not pass for an unnoticed one."""
    if not done.cancelled():
        done.exception()


def _touched(paths: frozenset[str], names: set[str]) -> frozenset[str]:
    """Watched paths that are among the names, or lie in a folder that is."""
    return frozenset(path for path in paths if not names.isdisjoint((path, *parents(path))))
