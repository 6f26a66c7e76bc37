"""Folders of a workspace, opened from its root down by descriptors, and never through a link.

A walk goes through folders in order, so the next one shares most of its path with the one before: each folder is
opened once, by `openat` with `O_NOFOLLOW`, however many files in it are looked at (POSIX.1-2008, open).
"""

import os
from itertools import takewhile
from pathlib import Path

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

    def folder(self, path: str) -> int:
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
