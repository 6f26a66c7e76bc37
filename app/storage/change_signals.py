"""Tells other processes on the same workspace about writes to the database, and receives their signals.

SQLite has no notifications across processes, so each write touches a small file that the others watch: the
kernel wakes them, nobody polls the database.
"""

import hashlib
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from app.workspace.file_watching import STEP_MS, start_watch, watch_changes

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_QUIET_MS = 150


class ChangeSignal:
    """A file per workspace, rewritten after each commit."""

    def __init__(self, folder: Path, workspace: str) -> None:
        """Make the file if it is missing; raises OSError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / hashlib.sha256(workspace.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path.touch(mode=0o600)

    def send(self) -> None:
        """Signal a write to other processes; a failure is ignored, since they also read the database when used."""
        try:
            self.path.write_bytes(b"")
        except OSError:
            return

    async def listen(self) -> AsyncGenerator[None, None]:
        """Yield once when listening has begun, so that the caller reads earlier writes, and after each later
        write."""
        async with aclosing(watch_changes([self.path], quiet_ms=_QUIET_MS)) as changes:
            async for _ in changes:
                yield None


class ChangeWatch:
    """Waits for writes on a blocking thread; no write after `__enter__` is missed."""

    def __init__(self, signal: ChangeSignal) -> None:
        self._path = signal.path
        self._notify: RustNotify | None = None

    def __enter__(self) -> "ChangeWatch":
        self._notify = start_watch([self._path])
        return self

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Return True soon after a write that no call has reported yet, False after `seconds` or when `stop` is set.

        Raises:
            KeyboardInterrupt: a signal came whose handler raised.
        """
        assert self._notify is not None, "entered"
        heard = self._notify.watch(_QUIET_MS, STEP_MS, max(1, int(seconds * 1000)), stop)
        if heard == "signal":
            raise KeyboardInterrupt
        return isinstance(heard, set)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._notify is not None:
            self._notify.close()
            self._notify = None
