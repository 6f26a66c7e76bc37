"""Folders that exist as long as a run; the next process removes those that a crash has left."""

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_LOCK = "lock"
_NEW, _RUN = "new-", "run-"
_OLD = 60.0
"""Seconds after which an unlocked folder is stale."""


@contextmanager
def temporary_run_folder(parent: Path) -> Iterator[Path]:
    """Make a new folder, and remove it at the end. Raises OSError."""
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


def remove_stale_folders(parent: Path) -> None:
    """Remove the folders of processes that have died."""
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


MAX_KEPT_BYTES = 1024**3
"""Bytes that are kept for one workspace; the newest folder stays, whatever its size."""
MAX_KEPT_SECONDS = 30 * 86_400.0
"""Seconds for which anything is kept."""


@dataclass(frozen=True, slots=True)
class KeptFileVersions:
    """The versions of one workspace: a folder for each command, with the files at their workspace paths."""

    folder: Path

    def new_folder(self) -> Path:
        """Make a folder for a command, and remove those that are too old or too large. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove_excess()
        return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=self.folder))

    def list_folders(self) -> list[tuple[float, int, Path]]:
        """Return time (Unix), size in bytes and path of each folder, the newest first."""
        found = []
        with suppress(OSError):
            for each in self.folder.iterdir():
                with suppress(OSError):
                    found.append((each.lstat().st_mtime, sum(_sizes(each)), each))
        return sorted(found, reverse=True)

    def prune(self, before: float) -> int:
        """Remove folders made before a time (Unix); returns how many."""
        old = [place for made, _, place in self.list_folders() if made < before]
        for place in old:
            remove_tree(place)
        return len(old)

    def _remove_excess(self) -> None:
        self.prune(time.time() - MAX_KEPT_SECONDS)
        total = 0
        for number, (_, size, place) in enumerate(self.list_folders()):
            total += size
            if number and total > MAX_KEPT_BYTES:
                remove_tree(place)


def kept_file_versions(root: Path, folder: Path) -> KeptFileVersions:
    """Return the kept versions of a workspace; `folder` holds those of all workspaces."""
    return KeptFileVersions(folder / hashlib.sha256(os.fsencode(root)).hexdigest()[:16])


def move_to_workspace_path(source: Path, folder: Path, path: str) -> None:
    """Move a file, link or folder to its workspace path below a folder. Raises OSError."""
    place = folder / path
    number = 1
    while os.path.lexists(place):
        # A replaced file of the workspace can be kept at the same path.
        number += 1
        place = folder / f"{path}.{number}"
    place.parent.mkdir(parents=True, exist_ok=True)
    mode = source.lstat().st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        # The user has to be able to read it.
        source.chmod(stat.S_IMODE(mode) | (stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR))
    shutil.move(source, place)


def _sizes(folder: Path) -> Iterator[int]:
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                yield Path(place, name).lstat().st_size
