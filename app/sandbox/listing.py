"""What there is in a workspace, by the facts that tell whether something has been written."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.keeping import Keeping
from app.workspace.path_rules import nested_too_deep

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


def listing(root: Path, keeping: Keeping, locked: set[int], *, unlock: bool = False) -> dict[str, Facts]:
    """All that `entries` finds."""
    return dict(entries(root, keeping, locked, unlock=unlock))


def entries(root: Path, keeping: Keeping, locked: set[int], *, unlock: bool = False) -> Iterator[tuple[str, Facts]]:
    """All that git does not ignore, folders too, and of its own what leads to commits.

    Args:
        root: The workspace.
        keeping: Judges the paths.
        locked: Inodes of folders that are not looked into, wherever they are by now, even if they can be read.
            Those that can't be read come to it.
        unlock: Make folders readable that are not, once their facts are taken.

    Raises:
        OSError: The disk would not.
    """
    yield from _below(root, "", keeping, locked, ignored=False, unlock=unlock)


def opened_folder(folder: Path, *, unlock: bool) -> list[os.DirEntry[str]]:
    """What is in a folder, sorted by name; with `unlock` also where its owner has kept himself from reading it.

    Raises:
        OSError: The disk would not; PermissionError for a folder that stays locked.
    """
    try:
        # To know the names is not enough: without the right to search it, nothing in it has facts.
        os.stat(f"{folder}/.")  # noqa: PTH116 - a Path has no dot at its end
        with os.scandir(folder) as scan:
            return sorted(scan, key=lambda entry: entry.name)
    except PermissionError:
        if not unlock:
            raise
    folder.chmod(stat.S_IMODE(folder.lstat().st_mode) | stat.S_IRWXU)
    return opened_folder(folder, unlock=False)


def _below(
    root: Path, folder: str, keeping: Keeping, locked: set[int], *, ignored: bool, unlock: bool
) -> Iterator[tuple[str, Facts]]:
    inode = (root / folder).lstat().st_ino
    if inode in locked:
        return
    try:
        found = opened_folder(root / folder, unlock=unlock)
    except PermissionError:
        locked.add(inode)
        return
    for entry in found:
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
        if is_folder and not nested_too_deep(path):
            yield from _below(root, path, keeping, locked, ignored=inside, unlock=unlock)
