"""One writer per workspace, across threads and processes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.proposals.errors import WorkspaceBusy

WAIT_SECONDS = 15.0
"""How long to wait for another process; an apply of a thousand files takes about a second."""


class WorkspaceLock:
    """A file lock that the operating system drops when its process dies; reentrant in a thread."""

    def __init__(self, path: Path, wait_seconds: float = WAIT_SECONDS) -> None:
        self._path = path
        self._wait_seconds = wait_seconds
        self._threads = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            WorkspaceBusy: another process has held it for too long, or the lock file can't be made.
        """
        from filelock import FileLock, Timeout

        with self._threads:
            if self._depth:
                yield
                return
            lock = FileLock(self._path, timeout=self._wait_seconds, mode=0o600)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                lock.acquire()
            except Timeout as error:
                raise WorkspaceBusy("Another signoff is writing in this workspace; try again in a moment.") from error
            except OSError as error:
                raise WorkspaceBusy(f"{self._path} can't be locked ({error.strerror}); check its folder.") from error
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                lock.release()
