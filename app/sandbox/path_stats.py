"""What there is in a workspace, by the facts that tell whether something has been written."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.captured_changes import IgnoredPath
from app.sandbox.path_policy import PathPolicy, is_bytecode
from app.workspace.path_rules import nested_too_deep

REPOSITORY = ".git"
_OBJECTS = ".git/objects"
"""Only ever added to, and without a name that leads there what is new in it is nothing."""


@dataclass(frozen=True, slots=True)
class PathStat:
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


def facts_of(result: os.stat_result) -> PathStat:
    """The facts of a name."""
    return PathStat(result.st_mode, result.st_size, result.st_mtime_ns, result.st_ctime_ns, result.st_ino)


def entries(
    root: Path, keeping: PathPolicy, locked: set[int], ignored: set[str], *, unlock: bool = False
) -> Iterator[tuple[str, PathStat]]:
    """All that git does not ignore, folders too, of its own what leads to commits, and bytecode beside sources.

    Args:
        root: The workspace.
        keeping: Judges the paths.
        locked: Inodes of folders that are not looked into, wherever they are by now, even if they can be read.
            Those that can't be read come to it.
        ignored: Paths that git ignores come to it, the uppermost of each tree.
        unlock: Make folders readable that are not, once their facts are taken.

    Raises:
        OSError: The disk would not.
    """
    yield from _below(root, "", keeping, locked, ignored, inside=False, unlock=unlock)


def changed_since(root: Path, path: str, since: int, most: int) -> tuple[IgnoredPath | None, int]:
    """Look at what has changed at an ignored path and below it.

    Args:
        root: The workspace.
        path: In it.
        since: Nanoseconds since the epoch.
        most: How many names are looked at.

    Returns:
        The changed files, None if there are none; and how many names were looked at.
    """
    written, looked, folders, is_changed = 0, 1, [root / path], False
    try:
        facts = (root / path).lstat()
    except FileNotFoundError:
        return IgnoredPath(path, removed=1), looked
    if not stat.S_ISDIR(facts.st_mode):
        return (IgnoredPath(path, 1) if facts.st_ctime_ns >= since else None), looked
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as scan:
            is_changed = is_changed or folder.lstat().st_ctime_ns >= since
            for entry in scan:
                looked += 1
                if looked > most:
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    written += entry.stat(follow_symlinks=False).st_ctime_ns >= since
    return (IgnoredPath(f"{path}/", written) if written or is_changed else None), looked


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
    root: Path, folder: str, keeping: PathPolicy, locked: set[int], ignored: set[str], *, inside: bool, unlock: bool
) -> Iterator[tuple[str, PathStat]]:
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
        below_ignored = inside
        if path.partition("/")[0] == REPOSITORY:
            if path == _OBJECTS:
                continue
        elif keeping.forbidden(path):
            continue
        elif inside or keeping.ignores(path, is_folder=is_folder):
            # Bytecode would run in place of the sources that are reviewed.
            if not keeping.holds(path) and not is_bytecode(path, is_folder=is_folder):
                ignored.add(path)
                continue
            below_ignored = True
        yield path, facts_of(entry.stat(follow_symlinks=False))
        if is_folder and not nested_too_deep(path):
            yield from _below(root, path, keeping, locked, ignored, inside=below_ignored, unlock=unlock)
