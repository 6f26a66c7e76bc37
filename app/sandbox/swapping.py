"""Puts files in the place of others that somebody may be changing: renames that overwrite nothing, and leases.

A lease (fcntl(2), F_SETLEASE) is granted only as long as nobody else has the file open, and says afterwards whether
somebody has tried to open it meanwhile.
"""

import ctypes
import errno
import fcntl
import os
import signal
import stat
from contextlib import suppress
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_HERE = -100
_NO_REPLACE, _EXCHANGE = 1, 2
_MISSING = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""What file systems and C libraries say to a flag of renameat2(2) that they don't know."""


def rename_new(source: Path, folder: int, name: str) -> None:
    """Move a file or folder to a name in an open folder.

    Raises:
        FileExistsError: There is something of this name.
        OSError: As by rename(2).
    """
    try:
        _rename(source, folder, name, _NO_REPLACE)
    except OSError as error:
        if error.errno not in _MISSING:
            raise
        if stat.S_ISDIR(source.lstat().st_mode):
            # Of folders, rename(2) itself replaces none but an empty one.
            os.rename(source, name, dst_dir_fd=folder)
        else:
            os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
            source.unlink()


def exchange(source: Path, folder: int, name: str) -> None:
    """Have two files change places.

    Raises:
        FileNotFoundError: One of them is gone.
        FileExistsError: Only where the system can't do it in one step: somebody else has made the second one anew.
        OSError: As by rename(2).
    """
    try:
        _rename(source, folder, name, _EXCHANGE)
    except OSError as error:
        if error.errno not in _MISSING:
            raise
        taken = source.with_name(f"{source.name}.taken")
        os.rename(name, taken, src_dir_fd=folder)
        try:
            rename_new(source, folder, name)
        finally:
            if os.path.lexists(source):
                with suppress(FileExistsError):
                    rename_new(taken, folder, name)
            else:
                taken.rename(source)


def _rename(source: Path, folder: int, name: str, flags: int) -> None:
    if not hasattr(_LIBC, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _LIBC.renameat2(_HERE, os.fsencode(source), folder, os.fsencode(name), ctypes.c_uint(flags)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


class InUse(Exception):
    """Another program has the file open."""


class Lease:
    """A lease on a file, as long as it is not closed: whoever wants to open the file waits until then."""

    def __init__(self, folder: int, name: str, *, exclusive: bool) -> None:
        """Take it.

        Args:
            folder: An open folder.
            name: A regular file in it.
            exclusive: Nobody else may have the file open, also not to read it.

        Raises:
            InUse: Somebody has, or, for an exclusive one, it can't be known.
            OSError: The file is gone.
        """
        self._kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
        self._descriptor = -1
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            self._descriptor = os.open(name, flags, dir_fd=folder)
            # Of the signal that comes when somebody wants to open the file, the usual one would end this process.
            fcntl.fcntl(self._descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, self._kind)
        except OSError as error:
            held = error.errno == errno.EAGAIN
            unknown = exclusive and not isinstance(error, FileNotFoundError)
            if held or (unknown and (self._descriptor < 0 or _is_open(os.fstat(self._descriptor)))):
                self.close()
                raise InUse from error
            self._kind = fcntl.F_UNLCK
            if isinstance(error, FileNotFoundError):
                raise

    @property
    def holds(self) -> bool:
        """Whether nobody has tried to open the file; always so where the system knows no leases."""
        return self._kind == fcntl.F_UNLCK or fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) == self._kind

    def close(self) -> None:
        """Give it back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_open(facts: os.stat_result) -> bool:
    """Whether a process that this user can look into has a file open; for file systems without leases."""
    own = str(os.getpid())
    for process in filter(str.isdigit, (each.name for each in Path("/proc").iterdir())):
        if process == own:
            continue
        with suppress(OSError):
            for link in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    there = link.stat()
                    if (there.st_dev, there.st_ino) == (facts.st_dev, facts.st_ino):
                        return True
    return False
