"""Coordinates processes in one workspace: locks for sessions and reports, and signals after writes to the database.

The process that locks a session runs its turns; others can only follow it. SQLite has no notifications across
processes, so each write touches a small file that the other processes watch; no process polls the database.
"""

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from app.storage import StorageError
from app.workspace.file_watching import STEP_MS, start_watch, watch_changes

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify


_MAX_NOTE_BYTES = 100
"""Largest size of a note in bytes."""
_RETRY_SECONDS = 0.01
_MAX_CLAIM_SECONDS = 10.0
"""Seconds to wait for a claim; a report takes less than a second."""


class SessionLock:
    """A lock on a file, which the operating system releases when the process dies.

    The file is deleted when the lock is released, so that lock files do not accumulate.

    Args:
        path: The lock file; every process must use the same path for a session.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Return whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self, seconds: float = 0.0) -> bool:
        """Take the lock if no other process has it; return whether this object holds it.

        Args:
            seconds: Time in which another process may release it, or die.

        Raises:
            StorageError: the file cannot be locked.
        """
        end = time.monotonic() + seconds
        try:
            while not self.is_held:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                if not self._try_lock(descriptor):
                    if time.monotonic() >= end:
                        return False
                    time.sleep(_RETRY_SECONDS)
        except OSError as error:
            raise StorageError(f"{self._path} cannot be locked: {error.strerror}. Check its folder.") from error
        return True

    def write_lock_note(self, text: str) -> None:
        """Write a short text that other processes can read while the lock is held; storage errors are ignored."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, text.encode(), 0)

    def _try_lock(self, descriptor: int) -> bool:
        """Try to lock an open file; return False if another process holds the lock.

        If the file was deleted meanwhile, return True without the lock: the caller tries again.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self._path.stat()):
                    self._descriptor = descriptor
        except BlockingIOError:
            return False
        finally:
            if self._descriptor != descriptor:
                os.close(descriptor)
        return True

    def release(self) -> None:
        """Release the lock; safe to call twice."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        # A child process that is being started may have a copy of the descriptor, so closing ours is not enough.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
        self._descriptor = None


class DecisionReportClaim:
    """The right to report the user's decisions to one session of another agent.

    The calls of one model response arrive at the same time, each in its own process. One at a time reads which
    decisions are unreported, gives them to the agent and marks them as reported; the others wait for that. The claim
    ends with the process: what it has not given is still unreported, and the next process gives it. A process that
    dies after the agent has the answer, but before the mark, makes a report appear twice; none is lost.

    Args:
        locks: The folder of the lock files.
        names: What identifies the session: workspace, agent, the agent's id of the session.
    """

    def __init__(self, locks: Path, *names: str) -> None:
        digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()
        self._lock = SessionLock(locks / f"agent-{digest[:16]}.lock")
        self._folder = locks

    def take(self) -> None:
        """Wait until no other process has the claim, and take it; read afterwards what is unreported.

        Without a claim the caller reports nevertheless, because twice is better than not at all: if the file cannot
        be locked, or if a process has the claim so long that it is probably stopped.
        """
        with contextlib.suppress(StorageError, OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire(_MAX_CLAIM_SECONDS)

    def release(self) -> None:
        """Give the claim back; safe to call twice."""
        self._lock.release()


def is_session_open(path: Path) -> bool:
    """Return whether any process, this one included, holds the lock at this path."""
    return read_lock_note(path) is not None


def read_lock_note(path: Path) -> str | None:
    """Return the note of the process that holds the lock at this path; None if no process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, _MAX_NOTE_BYTES, 0).decode(errors="replace")
    finally:
        os.close(descriptor)
    return None


_QUIET_MS = 150


class DatabaseChangeSignal:
    """Signals each write of the database to other processes: a file per workspace that is rewritten."""

    def __init__(self, folder: Path, workspace: str) -> None:
        """Create the file if it is missing. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / hashlib.sha256(workspace.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path.touch(mode=0o600)

    def send(self) -> None:
        """Signal a write to other processes; errors are ignored, since they also read the database before each
        use."""
        with contextlib.suppress(OSError):
            self.path.write_bytes(b"")

    async def listen(self) -> AsyncGenerator[None, None]:
        """Yield once when listening has started, so that the caller reads earlier writes, and after each later
        write."""
        async with aclosing(watch_changes([self.path], quiet_ms=_QUIET_MS)) as changes:
            async for _ in changes:
                yield None


class DatabaseChangeWatch:
    """Waits on a thread for writes of the database by any process; misses no write after `__enter__`."""

    def __init__(self, signal: DatabaseChangeSignal) -> None:
        self._path = signal.path
        self._notify: RustNotify | None = None

    def __enter__(self) -> "DatabaseChangeWatch":
        self._notify = start_watch([self._path])
        return self

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Return True soon after a write that no earlier call reported, False after `seconds` or when `stop` is set.

        Raises:
            KeyboardInterrupt: a signal arrived whose handler raised.
        """
        assert self._notify is not None, "entered"
        result = self._notify.watch(_QUIET_MS, STEP_MS, max(1, int(seconds * 1000)), stop)
        if result == "signal":
            raise KeyboardInterrupt
        return isinstance(result, set)

    def __exit__(self, *error: object) -> None:
        if self._notify is not None:
            self._notify.close()
            self._notify = None
