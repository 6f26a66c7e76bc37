"""A layer over the workspace for a program that runs for long, filled anew before each request to the program.

The layer of a command is thrown away with it. A program that stays would see the workspace as it was when it started:
the kernel caches names of the folders below an overlay, and its behaviour is undefined when these folders change. So
before each request the layer is emptied and filled anew, and remounted, at which the kernel drops all names that are
not in use; the program goes on and notices nothing. What it has written when it answers is looked at; what it writes
later is removed before the next request, and named then. Meanwhile the program stands still
(`StandingProcess.still`), since it could replace a folder by a link.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from app.sandbox.changes import Pending
from app.sandbox.listing import Facts, facts_of
from app.sandbox.run_folders import remove_tree
from app.sandbox.written_layer import WrittenLayer


class StandingLayer(WrittenLayer):
    """The layer of such a program."""

    _seen: Mapping[str, Facts] = MappingProxyType({})

    def lay(self, pending: Pending) -> None:
        """Replace the contents of the layer by these changes; the program has to be remounted. Raises OSError."""
        for each in list(self._layer.iterdir()):
            if each.is_dir() and not each.is_symlink():
                remove_tree(each)
            else:
                each.unlink()
        self._set_pending(pending)
        self.fill()
        self._seen = {}

    def note_seen(self) -> None:
        """Remember all that is written by now as looked at. Raises OSError."""
        self._seen = self._written()

    def unseen(self) -> list[str]:
        """The paths that were written since, sorted. Raises OSError."""
        return [path for path, facts in self._written().items() if facts != self._seen.get(path)]

    def _written(self) -> dict[str, Facts]:
        found = self._upper.look(self._keeping)
        return {each.path: _facts(self._layer / each.path) for each in found.touched}


def _facts(path: Path) -> Facts:
    """The facts of a path of the layer; all zero where it, or a folder above it, is gone."""
    try:
        return facts_of(path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return Facts(0, 0, 0, 0, 0)
