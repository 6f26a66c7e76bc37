"""What there is in a workspace, by the facts that tell whether something has been written."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.keeping import Keeping

REPOSITORY = ".git"
_OBJECTS = ".git/objects"
"""Only ever added to, and without a name that leads there what is new in it is nothing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What lstat(2) says of a name."""

    mode: int
    size: int
    written: int
    changed: int
    inode: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, of which only the mode counts."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_leaf(self) -> bool:
        """Whether it is a file or a link."""
        return stat.S_ISREG(self.mode) or stat.S_ISLNK(self.mode)


def facts_of(result: os.stat_result) -> Facts:
    """The facts of a name."""
    return Facts(result.st_mode, result.st_size, result.st_mtime_ns, result.st_ctime_ns, result.st_ino)


def listing(root: Path, keeping: Keeping) -> dict[str, Facts]:
    """All that git does not ignore, folders too, and of its own what leads to commits. Raises OSError."""
    return dict(_below(root, "", keeping, ignored=False))


def _below(root: Path, folder: str, keeping: Keeping, *, ignored: bool) -> Iterator[tuple[str, Facts]]:
    try:
        with os.scandir(root / folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except PermissionError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        inside = ignored
        if path.partition("/")[0] == REPOSITORY:
            if path == _OBJECTS:
                continue
        elif keeping.forbidden(path):
            continue
        elif ignored or keeping.ignores(path, is_folder=is_folder):
            if not keeping.holds(path):
                continue
            inside = True
        yield path, facts_of(entry.stat(follow_symlinks=False))
        if is_folder:
            yield from _below(root, path, keeping, ignored=inside)
