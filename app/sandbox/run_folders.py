"""Folders that exist as long as a run: what a crash leaves of them is cleared away by whoever comes next."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_LOCK = "lock"


@contextmanager
def run_folder(parent: Path) -> Iterator[Path]:
    """A new folder, gone at the end. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


def clear_left_over(parent: Path) -> None:
    """Remove the folders of those that have died."""
    try:
        folders = [folder for folder in parent.iterdir() if folder.name.startswith("run-")]
    except OSError:
        return
    for folder in folders:
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
            finally:
                os.close(lock)


def remove_tree(folder: Path) -> None:
    """Remove a folder whatever its permissions say: the kernel's, or a command's."""

    def allow(remove: Callable[[str], Any], path: str, _: object) -> None:
        with suppress(OSError):
            place = Path(path)
            place.parent.chmod(0o700)
            if place.is_dir() and not place.is_symlink():
                place.chmod(0o700)
                shutil.rmtree(place, ignore_errors=True)
            else:
                remove(path)

    shutil.rmtree(folder, onerror=allow)
