"""The versions of ignored files that commands made and that could not be written back, kept for some weeks."""

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.run_folders import remove_tree

MOST_BYTES = 1024**3
"""Bytes that are kept for one workspace; the newest folder stays, whatever its size."""
LONGEST = 30 * 86_400.0
"""Seconds for which anything is kept."""


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """The versions of one workspace: a folder for each command, with the files at their workspace paths."""

    folder: Path

    def new_folder(self) -> Path:
        """Make a folder for a command, and remove those that are too old or too large. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._bound()
        return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=self.folder))

    def folders(self) -> list[tuple[float, int, Path]]:
        """The time (Unix), size in bytes and path of each folder; the newest first."""
        found = []
        with suppress(OSError):
            for each in self.folder.iterdir():
                with suppress(OSError):
                    found.append((each.lstat().st_mtime, sum(_sizes(each)), each))
        return sorted(found, reverse=True)

    def prune(self, before: float) -> int:
        """Remove folders made before a time (Unix); returns how many."""
        old = [place for made, _, place in self.folders() if made < before]
        for place in old:
            remove_tree(place)
        return len(old)

    def _bound(self) -> None:
        self.prune(time.time() - LONGEST)
        total = 0
        for number, (_, size, place) in enumerate(self.folders()):
            total += size
            if number and total > MOST_BYTES:
                remove_tree(place)


def kept_versions_of(root: Path, folder: Path) -> KeptVersions:
    """The kept versions of a workspace, in a folder for those of all workspaces."""
    return KeptVersions(folder / hashlib.sha256(os.fsencode(root)).hexdigest()[:16])


def keep(source: Path, folder: Path, path: str) -> None:
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
