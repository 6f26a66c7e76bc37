"""Folders that exist as long as a run: what a crash leaves of them is cleared away by whoever comes next."""

import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = "lock"
_NEW, _RUN = "new-", "run-"
_OLD = 60.0
"""Seconds after which nobody is still about to make a new one."""


@contextmanager
def run_folder(parent: Path) -> Iterator[Path]:
    """A new folder, gone at the end. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=parent))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Only now: one without a lock would be taken for what a crash has left.
        folder = folder.rename(parent / folder.name.replace(_NEW, _RUN, 1))
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


def clear_left_over(parent: Path) -> None:
    """Remove the folders of those that have died."""
    try:
        folders = list(parent.iterdir())
    except OSError:
        return
    for folder in folders:
        if folder.name.startswith(_NEW):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > _OLD:
                    remove_tree(folder)
        if not folder.name.startswith(_RUN):
            continue
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
            finally:
                os.close(lock)


def remove_tree(folder: Path) -> None:
    """Remove a folder whatever its permissions say: those of the kernel's own folders, or a command's."""
    for unlock in (False, True):
        with suppress(OSError, RecursionError):
            if unlock:
                _unlock(folder)
            shutil.rmtree(folder)
            return
    # Folders in folders without end are too much for Python, and for the longest path that the system takes.
    for words in (["/bin/chmod", "-R", "u+rwx"], ["/bin/rm", "-rf"]):
        subprocess.run([*words, "--", folder], stderr=subprocess.DEVNULL, check=False)


def _unlock(folder: Path) -> None:
    """Let this user list and write a folder and all folders in it."""
    folder.chmod(stat.S_IRWXU)
    for place, names, _ in os.walk(folder):
        for inner in (Path(place, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(stat.S_IRWXU)
