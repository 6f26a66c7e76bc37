"""Watches files and folders by events of the kernel; polls only where it reports none.

`watchfiles.awatch` does the same through anyio, whose backend takes longer to import than all else here.
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
"""How often it is looked whether changes have come to an end, and whether the watch has."""
_POLL_MS = 300
"""How often files are looked at where the kernel says nothing."""


def start_watch(paths: Collection[Path]) -> "RustNotify":
    """Start a watch of these paths, not of folders below them; the caller closes it.

    Raises:
        FileNotFoundError: one of them is gone.
        OSError: the system does not let them be watched.
    """
    # Not through `watchfiles.watch`: that begins to watch only while it waits, and would miss what came before.
    from watchfiles._rust_notify import RustNotify

    watch = RustNotify([str(path) for path in paths], False, _kernel_is_silent(), _POLL_MS, False, True)
    # It passes over what is gone, as it does over what may not be watched, and would hear nothing of it ever.
    if gone := next((path for path in paths if not os.path.lexists(path)), None):
        watch.close()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(gone))
    return watch


def _kernel_is_silent() -> bool:
    """Return whether files must be polled, by watchfiles' rules: the user says so, or it is WSL."""
    if said := os.environ.get("WATCHFILES_FORCE_POLLING"):
        return said.lower() not in ("false", "disable", "disabled")
    return "microsoft-standard" in os.uname().release.lower()


async def watch_changes(
    paths: Collection[Path], *, quiet_ms: int, stop: threading.Event | None = None
) -> AsyncGenerator[frozenset[Path], None]:
    """Yield an empty set once all are watched, then the changed paths soon after each change, until `stop` is set.

    Args:
        paths: Files, or folders for what lies in them.
        quiet_ms: How long changes are gathered before they are told.
        stop: Ends it when it is set.

    Raises:
        FileNotFoundError: one of them is gone.
        OSError: the system does not let them be watched.
    """
    # Commands watch without an event loop.
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    loop, stop = asyncio.get_running_loop(), stop or threading.Event()
    # A thread of its own: the loop's have to be free for what comes to an end.
    with start_watch(paths) as watch, ThreadPoolExecutor(1, "watch") as thread:
        try:
            yield frozenset()
            while isinstance(
                found := await loop.run_in_executor(thread, watch.watch, quiet_ms, STEP_MS, 0, stop), set
            ):
                yield frozenset(Path(path) for _, path in found)
        finally:
            stop.set()
            # After what it is still at.
            await loop.run_in_executor(thread, bool)
