"""Open and read files and folders of a workspace: the only module that does.

The contents of a workspace are untrusted: a name can be a link, a pipe without a writer, or an endless device. So no
link is followed, no call blocks, only regular files are read, and none beyond a limit.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE_BYTES = 1024 * 1024


def read_regular_file(
    name: str | Path, limit: int, *, folder_descriptor: int | None = None, allow_truncated: bool = False
) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file and its `os.stat_result`.

    Args:
        name: A path, or a name in `folder_descriptor`. A link as its last component is not followed.
        folder_descriptor: An open folder to which `name` is relative.
        allow_truncated: Return the first `limit` bytes of a longer file instead of raising EFBIG.

    Raises:
        OSError: From the system; ELOOP for a link, EISDIR for a folder, EINVAL for any other file that is not
            regular, EFBIG for a file over the limit.
    """
    # Not through `_open_regular_file`: in a search of very many small files a context manager is noticeably slower.
    descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder_descriptor)
    try:
        file_stat = _stat_regular_file(descriptor, name)
        if file_stat.st_size > limit and not allow_truncated:
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(name))
        parts: list[bytes] = []
        bytes_left = limit
        # Request one byte more than the file's size, to notice a file that grows meanwhile.
        while bytes_left and (part := os.read(descriptor, min(bytes_left, max(file_stat.st_size, 0) + 1))):
            parts.append(part)
            bytes_left -= len(part)
        if not bytes_left and not allow_truncated and os.read(descriptor, 1):
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(name))
        return b"".join(parts), file_stat
    finally:
        os.close(descriptor)


def read_tail(path: str | Path, limit: int) -> bytes:
    """Return the last `limit` bytes of a regular file; links are followed.

    Raises:
        OSError: As in `read_regular_file`.
    """
    with _open_regular_file(os.path.realpath(path)) as (descriptor, file_stat):
        os.lseek(descriptor, max(0, file_stat.st_size - limit), os.SEEK_SET)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)


def have_same_bytes(first_path: Path, second_path: Path) -> bool:
    """Return whether two regular files have the same bytes; files of any size are read in small pieces.

    Raises:
        OSError: As in `read_regular_file`.
    """
    with _open_regular_file(first_path) as (first, _), _open_regular_file(second_path) as (second, _):
        while (piece := os.read(first, _PIECE_BYTES)) == os.read(second, _PIECE_BYTES):
            if not piece:
                return True
        return False


@contextmanager
def _open_regular_file(name: str | Path) -> Iterator[tuple[int, os.stat_result]]:
    """Yield a descriptor of a regular file and its `os.stat_result`."""
    descriptor = os.open(name, _FILE_FLAGS)
    try:
        yield descriptor, _stat_regular_file(descriptor, name)
    finally:
        os.close(descriptor)


def _stat_regular_file(descriptor: int, name: str | Path) -> os.stat_result:
    """Return the `os.stat_result` of an open file; raise OSError if it is not a regular file."""
    file_stat = os.fstat(descriptor)
    if stat.S_ISDIR(file_stat.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder", str(name))
    if not stat.S_ISREG(file_stat.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(name))
    return file_stat


FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open a folder; they refuse a link."""
_MAX_OPEN_LEVELS = 40
"""Levels of folders that stay open: some systems allow a process 256 descriptors, and folders nest 200 deep."""


class OpenFolderChain:
    """The open folders on the way to one folder; the caller closes it. One thread uses it at a time.

    A descriptor leads to the same folder even if another process replaces the folder's path.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: list[str] = []
        self._descriptors: list[int] = []
        """Descriptors of the root and of the folder of each name."""
        self._deepest_descriptor: int | None = None
        """Descriptor of the latest folder, if it lies deeper than `_MAX_OPEN_LEVELS` levels."""
        self._path: str | None = None

    def open_folder(self, path: str) -> int:
        """Return the descriptor of a folder; it stays open until the next call.

        Args:
            path: Real names below the root, as a walk found them; empty for the root.

        Raises:
            OSError: A folder on the way no longer exists (ENOENT), or is now a link or no folder (ELOOP, ENOTDIR).
        """
        if path == self._path:
            return self._descriptors[-1] if self._deepest_descriptor is None else self._deepest_descriptor
        self._path = None
        self._close_deepest()
        names = path.split("/") if path else []
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(names, self._names, strict=False)))
        while len(self._names) > shared:
            self._names.pop()
            os.close(self._descriptors.pop())
        if not self._descriptors:
            self._descriptors.append(os.open(self._root, FOLDER_FLAGS))
        for name in names[shared:]:
            if len(self._names) < _MAX_OPEN_LEVELS:
                self._descriptors.append(os.open(name, FOLDER_FLAGS, dir_fd=self._descriptors[-1]))
                self._names.append(name)
            else:
                parent = self._descriptors[-1] if self._deepest_descriptor is None else self._deepest_descriptor
                child = os.open(name, FOLDER_FLAGS, dir_fd=parent)
                self._close_deepest()
                self._deepest_descriptor = child
        self._path = path
        return self._descriptors[-1] if self._deepest_descriptor is None else self._deepest_descriptor

    def close(self) -> None:
        """Close every folder."""
        self._path = None
        self._close_deepest()
        while self._descriptors:
            os.close(self._descriptors.pop())
        self._names.clear()

    def _close_deepest(self) -> None:
        if self._deepest_descriptor is not None:
            os.close(self._deepest_descriptor)
            self._deepest_descriptor = None
