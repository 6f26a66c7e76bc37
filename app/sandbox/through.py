"""Writes the ignored part of a layer to the workspace, as the command would have done it there."""

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from app.sandbox.listing import opened_folder
from app.sandbox.upper import is_opaque, is_whiteout

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_ATTRIBUTES = "user.overlay."


def write_through(root: Path, layer: Path, path: str) -> None:
    """Have an ignored path in the workspace as the layer shows it.

    Args:
        root: The workspace.
        layer: The upper layer over it, moved from: it is no use afterwards.
        path: With no link on the way.

    Raises:
        OSError: The disk would not; a part may be done.
    """
    *folders, name = path.split("/")
    place = layer
    merged = True
    target = os.open(root, _FOLDER)
    try:
        for folder in folders:
            place /= folder
            merged = merged and not is_whiteout(place) and not is_opaque(place)
            target = _enter(target, folder, make=os.path.lexists(place))
            if target < 0:
                return
        _bring(place / name, target, name, merged=merged)
    except RecursionError:
        raise OSError(errno.ENAMETOOLONG, "folders are nested too deep", path) from None
    finally:
        if target >= 0:
            os.close(target)


def _enter(above: int, name: str, *, make: bool) -> int:
    """Open the folder below and close the one above; -1 if there is none and none is wanted."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
        return os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        return -1
    finally:
        os.close(above)


def _bring(source: Path, target: int, name: str, *, merged: bool) -> None:
    """Bring one entry of the layer to a folder of the workspace; `merged` says that what is there shows through."""
    try:
        facts = source.lstat()
    except (FileNotFoundError, NotADirectoryError):
        if not merged:
            _remove(target, name)
        return
    there = _mode(target, name)
    if is_whiteout(source):
        _remove(target, name)
    elif not stat.S_ISDIR(facts.st_mode):
        if stat.S_ISDIR(there):
            _remove(target, name)
        _move(source, target, name)
    elif merged and stat.S_ISDIR(there) and not is_opaque(source):
        inner = os.open(name, _FOLDER, dir_fd=target)
        try:
            # The command may have unlocked it first.
            os.fchmod(inner, stat.S_IMODE(facts.st_mode) | stat.S_IRWXU)
            for each in opened_folder(source, unlock=True):
                _bring(source / each.name, inner, each.name, merged=True)
            os.fchmod(inner, stat.S_IMODE(facts.st_mode))
        finally:
            os.close(inner)
    else:
        if there:
            _remove(target, name)
        _strip(source)
        _move(source, target, name)


def _move(source: Path, target: int, name: str) -> None:
    _strip_one(source)
    try:
        os.rename(source, name, dst_dir_fd=target)
    except OSError:
        # On another file system, or a folder that was locked: a copy beside it, which then takes the name.
        beside = f".signoff-{os.getpid()}.tmp"
        _remove(target, beside)
        try:
            if _copy(source, Path(f"/proc/self/fd/{target}", beside)):
                os.rename(beside, name, src_dir_fd=target, dst_dir_fd=target)
        finally:
            _remove(target, beside)


def _copy(source: Path, target: Path) -> bool:
    """Copy a file, link or folder of the layer; False for what is none of these, such as a pipe, and is left out."""
    facts = source.lstat()
    if stat.S_ISLNK(facts.st_mode):
        target.symlink_to(source.readlink())
        return True
    if stat.S_ISDIR(facts.st_mode):
        target.mkdir()
        for each in opened_folder(source, unlock=True):
            _copy(Path(each.path), target / each.name)
    elif stat.S_ISREG(facts.st_mode):
        # The layer is ours, so what a command has locked in it can be read.
        source.chmod(facts.st_mode | stat.S_IRUSR)
        shutil.copyfile(source, target)
    else:
        return False
    target.chmod(stat.S_IMODE(facts.st_mode))
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return True


def _remove(folder: int, name: str) -> None:
    mode = _mode(folder, name)
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=folder)
    elif mode:
        os.unlink(name, dir_fd=folder)


def _mode(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _strip(folder: Path) -> None:
    """Take from all in a folder what the overlay has noted there for itself."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            each = Path(place, name)
            if is_whiteout(each):
                each.unlink()
            else:
                _strip_one(each)


def _strip_one(path: Path) -> None:
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            if name.startswith(_OWN_ATTRIBUTES):
                os.removexattr(path, name, follow_symlinks=False)
