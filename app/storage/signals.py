"""Tells other processes on the same workspace that something was written, and hears it from them.

SQLite has no notifications across processes, so each write touches a small file that the others watch: the
kernel wakes them, nobody polls the database.
"""

import hashlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_QUIET_MS = 150
_STEP_MS = 100


class Signal:
    """One file per workspace, rewritten after each commit."""

    def __init__(self, folder: Path, workspace: str) -> None:
        """Make the file if it is missing; raises OSError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / hashlib.sha256(workspace.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path.touch(mode=0o600)

    def send(self) -> None:
        """Wake the others; a failure to do so loses nothing, since they read the database anyway when used."""
        try:
            self.path.write_bytes(b"")
        except OSError:
            return

    async def heard(self) -> AsyncIterator[None]:
        """Yields once it listens, so that what was written before is looked for, and soon after any process wrote."""
        import asyncio

        from watchfiles import awatch

        changes = awatch(
            self.path, debounce=_QUIET_MS, step=_STEP_MS, rust_timeout=60_000, recursive=False, watch_filter=None
        )
        following = asyncio.ensure_future(anext(changes))
        try:
            # The watch is in place as soon as the generator has come to its first wait.
            await asyncio.sleep(0)
            yield None
            while True:
                await following
                yield None
                following = asyncio.ensure_future(anext(changes))
        finally:
            following.cancel()
            await asyncio.wait({following})
            await changes.aclose()


class Watch:
    """The same on a thread that may wait: hears every write from the moment that this is entered."""

    def __init__(self, signal: Signal) -> None:
        self._path = signal.path
        self._notify: RustNotify | None = None

    def __enter__(self) -> "Watch":
        # Not through `watchfiles.watch`: that begins to watch only while it waits, and would miss what came before.
        from watchfiles._rust_notify import RustNotify

        self._notify = RustNotify([str(self._path)], False, False, 0, False, False)
        return self

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Return True soon after a write that no call has told of yet, False when the time is over or `stop` is set.

        Raises:
            KeyboardInterrupt: a signal came whose handler raised.
        """
        assert self._notify is not None, "entered"
        if seconds <= 0:
            return False
        heard = self._notify.watch(_QUIET_MS, _STEP_MS, max(1, int(seconds * 1000)), stop)
        if heard == "signal":
            raise KeyboardInterrupt
        return isinstance(heard, set)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._notify is not None:
            self._notify.close()
            self._notify = None
