"""Locks a session for one process, which runs its turns; other processes can only read it."""

import contextlib
import fcntl
import os
from pathlib import Path

from app.storage.storage_errors import StorageError

_LONGEST_NOTE = 100
"""Bytes."""


class SessionLock:
    """A lock on a file, which the operating system releases when the process dies.

    The file goes when the lock is released, so that a folder of sessions does not become a folder of locks.

    Args:
        path: The same for every process that opens the session.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self) -> bool:
        """Take the lock if no other process has it; return whether it is ours.

        Raises:
            StorageError: the file cannot be locked.
        """
        try:
            while not self.is_held:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                if not self._locked(descriptor):
                    return False
        except OSError as error:
            raise StorageError(f"{self._path} cannot be locked: {error.strerror}. Check its folder.") from error
        return True

    def write_note(self, text: str) -> None:
        """Write a few words that other processes can read while the lock is held; a full disk leaves it empty."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, text.encode(), 0)

    def _locked(self, descriptor: int) -> bool:
        """Lock an open file; True also if it was removed meanwhile, so that another try is due."""
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
        # A child that is being started may hold a copy of the descriptor: closing ours would not be enough.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
        self._descriptor = None


def is_session_open(path: Path) -> bool:
    """Whether any process, this one included, holds the lock at this path."""
    return read_session_note(path) is not None


def read_session_note(path: Path) -> str | None:
    """Return what the holder of the lock at this path has written to it; None if no process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, _LONGEST_NOTE, 0).decode(errors="replace")
    finally:
        os.close(descriptor)
    return None
