"""Watch files and folders through kernel events; poll only where the kernel reports none.

`watchfiles.awatch` does the same through anyio, whose backend is slow to import.
"""

import errno
import os
import threading
from collections.abc import AsyncGenerator, Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

STEP_MS = 100
"""Milliseconds between checks whether a series of changes has ended, and whether the watch has to stop."""
_POLL_MS = 300
"""Milliseconds between two polls where the kernel reports no events."""


def start_watch(paths: Collection[Path]) -> "RustNotify":
    """Start to watch these paths, without the folders below them; the caller closes the watch.

    Raises:
        FileNotFoundError: a path does not exist.
        OSError: the system does not allow the watch.
    """
    # `watchfiles.watch` starts to watch only when it is iterated, and would miss earlier changes.
    from watchfiles._rust_notify import RustNotify

    watch = RustNotify([str(path) for path in paths], False, _must_poll(), _POLL_MS, False, True)
    # RustNotify ignores a missing path, as it does a path without permission, and never reports it.
    if missing := next((path for path in paths if not os.path.lexists(path)), None):
        watch.close()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(missing))
    return watch


def _must_poll() -> bool:
    """Return whether files must be polled, by watchfiles' rules: the user says so, or it is WSL."""
    if force_polling := os.environ.get("WATCHFILES_FORCE_POLLING"):
        return force_polling.lower() not in ("false", "disable", "disabled")
    return "microsoft-standard" in os.uname().release.lower()


async def watch_changes(
    paths: Collection[Path], *, quiet_ms: int, stop: threading.Event | None = None
) -> AsyncGenerator[frozenset[Path], None]:
    """Yield the changed paths after each change, until `stop` is set; first an empty set once the watch has begun.

    Args:
        paths: Files, or folders whose entries are watched.
        quiet_ms: Milliseconds for which changes are collected before they are yielded.

    Raises:
        FileNotFoundError: a path does not exist.
        OSError: the system does not allow the watch.
    """
    # Imported here: commands use `start_watch` without an event loop.
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    loop, stop = asyncio.get_running_loop(), stop or threading.Event()
    # Use a separate thread: a long wait must not occupy a thread of the loop's default executor.
    with start_watch(paths) as watch, ThreadPoolExecutor(1, "watch") as thread:
        try:
            yield frozenset()
            while isinstance(
                changes := await loop.run_in_executor(thread, watch.watch, quiet_ms, STEP_MS, 0, stop), set
            ):
                yield frozenset(Path(path) for _, path in changes)
        finally:
            stop.set()
            # Wait until `watch.watch` has returned.
            await loop.run_in_executor(thread, bool)
