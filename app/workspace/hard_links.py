"""Secrets under another name: files that are the same as one whose name secrets have, by a hard link.

What a file is called says nothing then of what is in it, and a token needs no form by which its content would tell.
"""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from app.workspace.secrets import secret_reason

_FRESH = 5.0
"""Seconds for which one look through the workspace holds: all files of a copy by `cp -al` have two names."""
_MOST = 200_000
"""Names that are looked at."""


class HardLinks:
    """Of one workspace; may be asked from any thread."""

    def __init__(self, root: Path) -> None:
        """Nothing is looked at before a file with more than one name comes up."""
        self._root = root
        self._lock = Lock()
        self._secrets: dict[tuple[int, int], str] = {}
        self._until = 0.0

    def secret(self, facts: os.stat_result) -> str:
        """The path by which a file looks like a secret, whatever it was found by; empty if there is none."""
        if facts.st_nlink < 2 or not stat.S_ISREG(facts.st_mode):
            return ""
        with self._lock:
            if time.monotonic() >= self._until:
                self._secrets = dict(self._found())
                self._until = time.monotonic() + _FRESH
            return self._secrets.get((facts.st_dev, facts.st_ino), "")

    def _found(self) -> Iterator[tuple[tuple[int, int], str]]:
        """Yield the files that have a secret's name, also where git ignores them, as it should."""
        left = _MOST
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if name != ".git"]
            above = os.path.relpath(folder, self._root)
            for name in names[:left]:
                path = name if above == "." else f"{above}/{name}"
                if not secret_reason(path):
                    continue
                try:
                    facts = Path(folder, name).lstat()
                except OSError:
                    continue
                # A secret with one name may get another until the next look.
                yield (facts.st_dev, facts.st_ino), path
            left -= len(names)
            if left <= 0:
                return
