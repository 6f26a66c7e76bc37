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

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = 1024 * 1024


def read_file(
    name: str | Path, limit: int, *, folder: int | None = None, head: bool = False
) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file and its `os.stat_result`.

    Args:
        name: A path, or a name in `folder`. A link as its last component is not followed.
        folder: An open folder to which `name` is relative.
        head: Return the first `limit` bytes of a longer file instead of raising EFBIG.

    Raises:
        OSError: From the system; ELOOP for a link, EISDIR for a folder, EINVAL for any other file that is not
            regular, EFBIG for a file over the limit.
    """
    # Not through `_opened`: in a search of very many small files a context manager is noticeably slower.
    descriptor = os.open(name, _OPEN, dir_fd=folder)
    try:
        facts = _regular_file_facts(descriptor, name)
        if facts.st_size > limit and not head:
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(name))
        parts: list[bytes] = []
        left = limit
        # Request one byte more than the file's size, to notice a file that grows meanwhile.
        while left and (part := os.read(descriptor, min(left, max(facts.st_size, 0) + 1))):
            parts.append(part)
            left -= len(part)
        if not left and not head and os.read(descriptor, 1):
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(name))
        return b"".join(parts), facts
    finally:
        os.close(descriptor)


def read_tail(path: str | Path, limit: int) -> bytes:
    """Return the last `limit` bytes of a regular file; links are followed.

    Raises:
        OSError: As in `read_file`.
    """
    with _opened(os.path.realpath(path)) as (descriptor, facts):
        os.lseek(descriptor, max(0, facts.st_size - limit), os.SEEK_SET)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)


def have_same_bytes(one: Path, other: Path) -> bool:
    """Return whether two regular files have the same bytes; files of any size are read in small pieces.

    Raises:
        OSError: As in `read_file`.
    """
    with _opened(one) as (first, _), _opened(other) as (second, _):
        while (piece := os.read(first, _PIECE)) == os.read(second, _PIECE):
            if not piece:
                return True
        return False


@contextmanager
def _opened(name: str | Path) -> Iterator[tuple[int, os.stat_result]]:
    """Yield a descriptor of a regular file and its `os.stat_result`."""
    descriptor = os.open(name, _OPEN)
    try:
        yield descriptor, _regular_file_facts(descriptor, name)
    finally:
        os.close(descriptor)


def _regular_file_facts(descriptor: int, name: str | Path) -> os.stat_result:
    """Return the `os.stat_result` of an open file; raise OSError if it is not a regular file."""
    facts = os.fstat(descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder", str(name))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(name))
    return facts


FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open a folder; they refuse a link."""
_HELD = 40
"""Levels of folders that stay open: some systems allow a process 256 descriptors, and folders nest 200 deep."""


class OpenFolderChain:
    """The open folders on the way to one folder; the caller closes it. One thread uses it at a time.

    A descriptor leads to the same folder even if another process replaces the folder's path.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: list[str] = []
        self._open: list[int] = []
        """Descriptors of the root and of the folder of each name."""
        self._deeper: int | None = None
        """Descriptor of the latest folder, if it lies deeper than `_HELD` levels."""
        self._path: str | None = None

    def open_folder(self, path: str) -> int:
        """Return the descriptor of a folder; it stays open until the next call.

        Args:
            path: Real names below the root, as a walk found them; empty for the root.

        Raises:
            OSError: A folder on the way no longer exists (ENOENT), or is now a link or no folder (ELOOP, ENOTDIR).
        """
        if path == self._path:
            return self._open[-1] if self._deeper is None else self._deeper
        self._path = None
        self._close_deeper()
        names = path.split("/") if path else []
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(names, self._names, strict=False)))
        while len(self._names) > shared:
            self._names.pop()
            os.close(self._open.pop())
        if not self._open:
            self._open.append(os.open(self._root, FOLDER_FLAGS))
        for name in names[shared:]:
            if len(self._names) < _HELD:
                self._open.append(os.open(name, FOLDER_FLAGS, dir_fd=self._open[-1]))
                self._names.append(name)
            else:
                above = self._open[-1] if self._deeper is None else self._deeper
                below = os.open(name, FOLDER_FLAGS, dir_fd=above)
                self._close_deeper()
                self._deeper = below
        self._path = path
        return self._open[-1] if self._deeper is None else self._deeper

    def close(self) -> None:
        """Close every folder."""
        self._path = None
        self._close_deeper()
        while self._open:
            os.close(self._open.pop())
        self._names.clear()

    def _close_deeper(self) -> None:
        if self._deeper is not None:
            os.close(self._deeper)
            self._deeper = None
