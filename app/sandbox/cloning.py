"""Clones a folder where the file system has files share their blocks until one is written (btrfs, XFS)."""

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from app.sandbox.changes import Pending
from app.sandbox.disk_leaf import write_leaf
from app.sandbox.listing import Facts, facts_of, opened_folder
from app.workspace.path_rules import nested_too_deep

_FICLONE = 0x40049409


def reflink(source: Path, target: Path) -> None:
    """Make a new file of the same blocks. Raises OSError where the file system can't."""
    reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.ioctl(writer, _FICLONE, reader)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def can_clone(root: Path, folder: Path) -> bool:
    """Whether files of a workspace can be cloned to a folder; leaves nothing in either."""
    source, target = folder / "source", folder / "target"
    try:
        if root.stat().st_dev != folder.stat().st_dev:
            return False
        source.write_bytes(b"x" * 8192)
        reflink(source, target)
        return target.read_bytes() == source.read_bytes()
    except OSError:
        return False
    finally:
        for path in (source, target):
            path.unlink(missing_ok=True)


def clone_tree(root: Path, target: Path, skips: Callable[[str], bool]) -> dict[str, Facts]:
    """Clone what is in a folder to another one, which is empty; returns the facts of what is there now.

    What the user may not read is left out, and so is what is neither file, folder nor link.

    Args:
        root: What is cloned.
        target: Outside of it.
        skips: Whether a path is left out, with all in it.

    Raises:
        OSError: The disk would not.
    """
    there: dict[str, Facts] = {}

    def below(folder: str) -> None:
        with os.scandir(root / folder) as scan:
            entries = list(scan)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if skips(path):
                continue
            place = target / path
            with suppress(PermissionError, FileNotFoundError):
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    os.close(os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
                    place.mkdir()
                    if not nested_too_deep(path):
                        below(path)
                elif stat.S_ISLNK(mode):
                    place.symlink_to(Path(entry.path).readlink())
                elif stat.S_ISREG(mode):
                    _clone_file(Path(entry.path), place)
                else:
                    continue
                shutil.copystat(entry.path, place, follow_symlinks=False)
                there[path] = facts_of(place.lstat())

    below("")
    return there


def lay(pending: Pending, folder: Path) -> None:
    """Have pending changes in a folder, as an approval would. Raises OSError."""
    for path, leaf in pending.items():
        place = folder / path
        if leaf is None and _is_leaf(place) and not _blocked(folder, path):
            place.unlink()
            with suppress(OSError):
                for above in Path(path).parents[:-1]:
                    (folder / above).rmdir()
    for path, leaf in sorted(pending.items()):
        if leaf is None:
            continue
        place = folder / path
        for blocking in _blocked(folder, path):
            blocking.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink() or (leaf.is_link and _is_leaf(place)):
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place)
        elif place.exists():
            # Written and not replaced: in place, its other names and its owner are to stay.
            with suppress(PermissionError):
                place.chmod(0o600)
        write_leaf(place, leaf)


def make_layer(clone: Path, there: Mapping[str, Facts], layer: Path) -> None:
    """Make of a clone what would be in the upper layer of an overlay, had the command run on that.

    Args:
        clone: By now.
        there: What was in it.
        layer: An empty folder on the same file system; its files are those of the clone.

    Raises:
        OSError: The disk would not.
    """
    seen: set[str] = set()
    made: set[str] = set()

    def have(folder: str) -> None:
        if folder and folder not in made:
            have(folder.rpartition("/")[0])
            (layer / folder).mkdir()
            made.add(folder)

    def below(folder: str) -> None:
        for entry in opened_folder(clone / folder, unlock=True):
            path = f"{folder}/{entry.name}" if folder else entry.name
            facts, before = facts_of(entry.stat(follow_symlinks=False)), there.get(path)
            if facts.is_folder:
                seen.add(path)
                if before is None or not before.is_folder:
                    have(path)
                if not nested_too_deep(path):
                    below(path)
            else:
                if facts != before:
                    have(folder)
                    os.link(entry.path, layer / path, follow_symlinks=False)
                seen.add(path)

    below("")
    for path in there.keys() - seen:
        folder = path.rpartition("/")[0]
        if not folder or (folder in seen and not _is_leaf(clone / folder)):
            have(folder)
            os.mknod(layer / path, stat.S_IFCHR, 0)
    for path in sorted(made, reverse=True):
        (layer / path).chmod(stat.S_IMODE((clone / path).lstat().st_mode))


def _is_leaf(place: Path) -> bool:
    return os.path.lexists(place) and (place.is_symlink() or not place.is_dir())


def _blocked(folder: Path, path: str) -> list[Path]:
    """What is on the way to a path and no folder: never followed, since a link may lead out."""
    return [place for above in reversed(Path(path).parents[:-1]) if _is_leaf(place := folder / above)][:1]


def _clone_file(source: Path, target: Path) -> None:
    try:
        reflink(source, target)
    except OSError:
        # One that is kept out of it, as by `chattr +C`; what may not be read can't be copied either.
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target, follow_symlinks=False)
