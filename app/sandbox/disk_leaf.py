"""Reads files and links of the disk as leaves, writes them, and compares them."""

import os
import stat
from pathlib import Path

from app.sandbox.changes import Leaf, link_mode
from app.workspace.reading import read_file, same_bytes


def leaf_at(path: Path, limit: int) -> Leaf | None:
    """The file or link at a path; None for anything else.

    Raises:
        OSError: It can't be read; EFBIG for one with more bytes than `limit`.
    """
    try:
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return Leaf(os.fsencode(path.readlink()), link_mode())
        if not stat.S_ISREG(facts.st_mode):
            return None
        data, facts = read_file(path, limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Leaf(data, stat.S_IMODE(facts.st_mode))


def write_leaf(place: Path, leaf: Leaf) -> None:
    """Make the file or link at a path where there is nothing. Raises OSError."""
    if leaf.is_link:
        place.symlink_to(os.fsdecode(leaf.data))
    else:
        place.write_bytes(leaf.data)
        set_mode(place, leaf.mode)
    if leaf.written:
        os.utime(place, (leaf.written, leaf.written), follow_symlinks=False)


def set_mode(place: Path, mode: int) -> None:
    """Give a file or folder these permission bits; one that has them may be somebody else's. Raises OSError."""
    if stat.S_IMODE(place.stat().st_mode) != stat.S_IMODE(mode):
        place.chmod(stat.S_IMODE(mode))


def same_content(path: Path, other: Leaf | Path | None) -> bool:
    """Whether what is at a path, or its not being there, is the same as the other; times don't count."""
    kinds = _kind(path), _kind(other)
    if kinds[0] != kinds[1]:
        return False
    if kinds[0] is None or other is None:
        return True
    try:
        if isinstance(other, Leaf):
            return path.lstat().st_size == len(other.data) and leaf_at(path, len(other.data)) == other
        return path.readlink() == other.readlink() if path.is_symlink() else same_bytes(path, other)
    except PermissionError:
        # What its own owner can't read has no content to compare; its times would have to do.
        return True


def _kind(what: Leaf | Path | None) -> int | None:
    """The mode of a file or link; None where there is neither."""
    if what is None:
        return None
    if isinstance(what, Leaf):
        return what.mode if what.is_link else stat.S_IFREG | what.mode
    try:
        mode = what.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(mode):
        return link_mode()
    return mode if stat.S_ISREG(mode) else None
