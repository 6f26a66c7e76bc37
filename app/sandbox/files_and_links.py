"""Reads, writes, compares and swaps files and symbolic links on disk."""

import ctypes
import errno
import fcntl
import os
import shutil
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path

from app.sandbox.captured_changes import LINK_MODE, FileOrLink
from app.workspace.reading import have_same_bytes, read_regular_file

_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD = -100
_NO_REPLACE, _EXCHANGE = 1, 2
_UNSUPPORTED_ERRORS = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems and C libraries that don't support renameat2(2) or its flag."""


def rename_without_replacing(source: Path, folder_descriptor: int, name: str) -> None:
    """Move a file or folder to a name in an open folder, unless the name exists there.

    Raises:
        FileExistsError: The name exists already.
        OSError: As by rename(2).
    """
    if _renameat2(source, folder_descriptor, name, _NO_REPLACE):
        return
    if stat.S_ISDIR(source.lstat().st_mode):
        # rename(2) replaces a folder only if it is empty.
        os.rename(source, name, dst_dir_fd=folder_descriptor)
    else:
        os.link(source, name, dst_dir_fd=folder_descriptor, follow_symlinks=False)
        source.unlink()


def exchange_files(source: Path, folder_descriptor: int, name: str) -> None:
    """Exchange two files.

    Raises:
        FileNotFoundError: One of them does not exist.
        FileExistsError: The system has no atomic exchange, and another program created the second file meanwhile.
        OSError: As by rename(2).
    """
    if _renameat2(source, folder_descriptor, name, _EXCHANGE):
        return
    taken = source.with_name(f"{source.name}.taken")
    os.rename(name, taken, src_dir_fd=folder_descriptor)
    try:
        rename_without_replacing(source, folder_descriptor, name)
    finally:
        if os.path.lexists(source):
            with suppress(FileExistsError):
                rename_without_replacing(taken, folder_descriptor, name)
        else:
            taken.rename(source)


def _renameat2(source: Path, folder: int, name: str, flags: int) -> bool:
    """Call renameat2(2); return False if the system does not support it or its flag. Raises OSError."""
    if not hasattr(_LIBC, "renameat2"):
        return False
    if not _LIBC.renameat2(_AT_FDCWD, os.fsencode(source), folder, os.fsencode(name), ctypes.c_uint(flags)):
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED_ERRORS:
        return False
    raise OSError(number, os.strerror(number), name)


class FileInUse(Exception):
    """Another program has the file open."""


class FileLease:
    """A lease on a file until `close`: another program that opens the file waits until then.

    Args:
        exclusive: Fail also if another program reads the file.

    Raises:
        FileInUse: Another program has the file open; with `exclusive`, also if this can't be found out.
        OSError: The file does not exist.
    """

    def __init__(self, folder_descriptor: int, name: str, *, exclusive: bool) -> None:
        self._kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
        self._descriptor = -1
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            self._descriptor = os.open(name, flags, dir_fd=folder_descriptor)
            # Signal when another program opens the file; SIGIO, the default, would end this process.
            fcntl.fcntl(self._descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, self._kind)
        except OSError as error:
            held = error.errno == errno.EAGAIN
            unknown = exclusive and not isinstance(error, FileNotFoundError)
            if held or (unknown and (self._descriptor < 0 or _is_open_in_other_process(os.fstat(self._descriptor)))):
                self.close()
                raise FileInUse from error
            self._kind = fcntl.F_UNLCK
            if isinstance(error, FileNotFoundError):
                raise

    @property
    def is_unbroken(self) -> bool:
        """Return whether no other program has tried to open the file; always True on file systems without leases."""
        return self._kind == fcntl.F_UNLCK or fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) == self._kind

    def close(self) -> None:
        """Release the lease."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_open_in_other_process(facts: os.stat_result) -> bool:
    """Return whether another process of this user has a file open; for file systems without leases."""
    own = str(os.getpid())
    for process in filter(str.isdigit, (folder.name for folder in Path("/proc").iterdir())):
        if process == own:
            continue
        with suppress(OSError):
            for link in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    there = link.stat()
                    if (there.st_dev, there.st_ino) == (facts.st_dev, facts.st_ino):
                        return True
    return False


_NO_FOLDER = Path(os.devnull, "none")


def folder_or_nonexistent_path(place: Path) -> Path:
    """Return the path of a folder; if it is a link, which may lead anywhere, a path that can't exist."""
    return _NO_FOLDER if place.is_symlink() else place


def path_below_without_links(folder: Path, path: str) -> Path:
    """Return the path of an entry below a folder; if one of its parent folders is a link, a path that can't exist."""
    # With strings, because this runs for each changed file.
    place = f"{folder}/{path}"
    end = len(place) - len(path)
    while (end := place.find("/", end + 1)) >= 0:
        if os.path.islink(place[:end]):  # noqa: PTH114
            return _NO_FOLDER
    return Path(place)


def read_file_or_link(path: Path, limit: int) -> FileOrLink | None:
    """Return the file or link at a path; None for anything else.

    Raises:
        OSError: It can't be read; EFBIG if it has more than `limit` bytes.
    """
    try:
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return FileOrLink(os.fsencode(path.readlink()), LINK_MODE)
        if not stat.S_ISREG(facts.st_mode):
            return None
        data, facts = read_regular_file(path, limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileOrLink(data, stat.S_IMODE(facts.st_mode))


def write_file_or_link(path: Path, content: FileOrLink) -> None:
    """Write a file, which may exist, or create a link at a path that does not exist. Raises OSError."""
    if content.is_link:
        path.symlink_to(os.fsdecode(content.data))
    else:
        path.write_bytes(content.data)
        set_mode(path, content.mode)
    if content.modified_time:
        os.utime(path, (content.modified_time, content.modified_time), follow_symlinks=False)


def copy_file_content(source: Path, target: Path) -> None:
    """Copy the content of a file; on Linux the copy has the same holes. Raises OSError."""
    if not sys.platform.startswith("linux"):
        shutil.copyfile(source, target)
        return
    with source.open("rb") as file, target.open("wb") as copy:
        start = end = 0
        while True:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                # No data follows; the file may end with a hole.
                copy.truncate(os.fstat(file.fileno()).st_size)
                return
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            os.lseek(copy.fileno(), start, os.SEEK_SET)
            while start < end and (count := os.sendfile(copy.fileno(), file.fileno(), start, end - start)):
                start += count


def lstat_or_none(path: Path) -> os.stat_result | None:
    """Return the lstat(2) result of a path; None if it, or a folder above it, does not exist."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def set_mode(path: Path, mode: int) -> None:
    """Set the permission bits of a file or folder, only if they differ: another user may own it. Raises OSError."""
    if stat.S_IMODE(path.stat().st_mode) != stat.S_IMODE(mode):
        path.chmod(stat.S_IMODE(mode))


def has_same_content_and_mode(path: Path, other: FileOrLink | Path | None) -> bool:
    """Return whether two files or links have equal content and mode, or both are missing; times are not compared."""
    kinds = _kind(path), _kind(other)
    if kinds[0] != kinds[1]:
        return False
    if kinds[0] is None or other is None:
        return True
    try:
        if isinstance(other, FileOrLink):
            return path.lstat().st_size == len(other.data) and read_file_or_link(path, len(other.data)) == other
        return path.readlink() == other.readlink() if path.is_symlink() else have_same_bytes(path, other)
    except PermissionError:
        # A file that its own owner can't read is treated as equal; its content can't be compared.
        return True


def _kind(what: FileOrLink | Path | None) -> int | None:
    """Return the mode of a file or link; None for anything else."""
    if what is None:
        return None
    if isinstance(what, FileOrLink):
        return what.mode if what.is_link else stat.S_IFREG | what.mode
    facts = lstat_or_none(what)
    if facts is None or not (stat.S_ISLNK(facts.st_mode) or stat.S_ISREG(facts.st_mode)):
        return None
    return LINK_MODE if stat.S_ISLNK(facts.st_mode) else facts.st_mode
