"""Opens and reads the files and folders of a workspace: no other module does.

What lies in a workspace may come from anyone: a name can be a link, a pipe that nobody writes to, or a device without
end. So nothing is followed, nothing is waited for, only regular files are read, and none beyond a limit.
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
    """Return the bytes of a regular file and its facts.

    Args:
        name: A path, or a name in `folder`. A link in its last place is not followed.
        folder: An open folder that `name` counts from.
        head: Take the first `limit` bytes of a longer file, rather than refuse it.

    Raises:
        OSError: As the system says; ELOOP for a link, EISDIR for a folder, EINVAL for what is no regular file, EFBIG
            for one over the limit.
    """
    # Not by `_opened`: in a search of very many small files a context manager costs noticeably.
    descriptor = os.open(name, _OPEN, dir_fd=folder)
    try:
        facts = _regular_file_facts(descriptor, name)
        if facts.st_size > limit and not head:
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(name))
        parts: list[bytes] = []
        left = limit
        # One byte more than the file's size also notices one that grows meanwhile.
        while left and (part := os.read(descriptor, min(left, max(facts.st_size, 0) + 1))):
            parts.append(part)
            left -= len(part)
        if not left and not head and os.read(descriptor, 1):
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(name))
        return b"".join(parts), facts
    finally:
        os.close(descriptor)


def read_tail(path: str | Path, limit: int) -> bytes:
    """The last `limit` bytes of a regular file, to which links may lead.

    Raises:
        OSError: As by `read_file`.
    """
    with _opened(os.path.realpath(path)) as (descriptor, facts):
        os.lseek(descriptor, max(0, facts.st_size - limit), os.SEEK_SET)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)


def have_same_bytes(one: Path, other: Path) -> bool:
    """Whether two regular files hold the same; however large they are, little of them is in memory at a time.

    Raises:
        OSError: As by `read_file`.
    """
    with _opened(one) as (first, _), _opened(other) as (second, _):
        while (piece := os.read(first, _PIECE)) == os.read(second, _PIECE):
            if not piece:
                return True
        return False


@contextmanager
def _opened(name: str | Path) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor of a regular file, and its facts."""
    descriptor = os.open(name, _OPEN)
    try:
        yield descriptor, _regular_file_facts(descriptor, name)
    finally:
        os.close(descriptor)


def _regular_file_facts(descriptor: int, name: str | Path) -> os.stat_result:
    """Return the facts of an open file; raises OSError if it is no regular file."""
    facts = os.fstat(descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder", str(name))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(name))
    return facts


FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened that must not be a link."""
_HELD = 40
"""Levels of folders that stay open; some systems allow a process 256 descriptors, and folders nest 200 deep."""


class FolderChain:
    """The open folders on the way to one folder; to be closed. One thread uses it at a time.

    What a descriptor leads to stays the same folder, whatever is put in the place of its path meanwhile.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: list[str] = []
        self._open: list[int] = []
        """The root, and the folder of each name."""
        self._deeper: int | None = None
        """The latest folder, if it lies deeper than those that are held."""
        self._path: str | None = None

    def open_folder(self, path: str) -> int:
        """Return the descriptor of a folder, which is open until the next call.

        Args:
            path: Real names below the root, as a walk found them; empty for the root.

        Raises:
            OSError: A folder on the way is gone (ENOENT), or is none or a link by now (ENOTDIR, ELOOP).
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
