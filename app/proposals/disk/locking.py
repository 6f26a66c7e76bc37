"""One writer per workspace, across threads and processes."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

from app.proposals.errors import WorkspaceBusy

WAIT_SECONDS = 15.0
"""How long to wait for another process; an apply of a thousand files takes about a second."""
_RETRY_SECONDS = 0.02
"""Between two tries: the system tells no one with a deadline that a lock is free."""


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
        with self._threads:
            if self._depth:
                yield
                return
            descriptor = self._locked()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                flock(descriptor, LOCK_UN)
                os.close(descriptor)

    def wait_until_free(self) -> None:
        """Return once no other thread of this process holds the lock, or after as long as others wait for it."""
        if self._threads.acquire(timeout=self._wait_seconds):
            self._threads.release()

    def _locked(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                self._wait_for(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise WorkspaceBusy(f"{self._path} can't be locked ({error.strerror}); check its folder.") from error
        return descriptor

    def _wait_for(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                flock(descriptor, LOCK_EX | LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise WorkspaceBusy(
                        "Another signoff is writing in this workspace; try again in a moment."
                    ) from error
            time.sleep(_RETRY_SECONDS)
