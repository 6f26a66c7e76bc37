"""A layer over the workspace for a program that runs for long, laid anew before each thing that it is asked for.

A command gets an overlay of its own, which is thrown away. A program that stays would see the workspace as it was
when it began: the kernel remembers names of the folders below an overlay, and calls it undefined what happens when
these change. So whenever something is to be asked of it, the layer is emptied and filled anew, and then mounted again
on itself, at which the kernel forgets all names that are not in use; the program goes on and notices nothing. What it
has written by the time it answers is looked at; whatever is not, is gone at the next such moment, and named then.
While any of that is done nothing of the program runs (`StandingProcess.still`): it could make a link of a folder.
"""

from collections.abc import Mapping
from pathlib import Path

from app.sandbox.access import Access
from app.sandbox.changes import Pending
from app.sandbox.keeping import Keeping
from app.sandbox.kept_versions import KeptVersions
from app.sandbox.listing import Facts, facts_of
from app.sandbox.mounting import LayerFolders, mount_steps
from app.sandbox.run_folders import remove_tree
from app.sandbox.upper import Upper
from app.sandbox.written_layer import WrittenLayer
from app.workspace.paths import Workspace


class StandingLayer(WrittenLayer):
    """The layer, as long as its folder exists."""

    def __init__(
        self,
        workspace: Workspace,
        folders: LayerFolders,
        access: Access,
        variables: Mapping[str, str],
        kept: KeptVersions,
    ) -> None:
        """Nothing is written yet.

        Args:
            workspace: What is below.
            folders: What the layer is made of; they are empty.
            access: What else may be written or seen.
            variables: The environment of the program.
            kept: Where versions of ignored files go that are not written.
        """
        super().__init__(workspace, folders.upper, {}, kept)
        self._workspace = workspace
        self._folders = folders
        self._access = access
        self.variables = variables
        self._seen: dict[str, Facts] = {}

    def prepare(self) -> None:
        """Make an empty layer. Raises OSError."""
        self._layer.chmod(self._root.stat().st_mode & 0o7777)

    def steps(self) -> list[str]:
        """The steps of `enter.py` by which a program is put on it, once. Raises OSError."""
        return mount_steps(self._root, self._folders, self._access, self._keeping)

    def lay(self, pending: Pending) -> None:
        """Have nothing in the layer but these changes; whoever runs on it has to look anew. Raises OSError."""
        for each in list(self._layer.iterdir()):
            if each.is_dir() and not each.is_symlink():
                remove_tree(each)
            else:
                each.unlink()
        # Its time is that from which on a change of the workspace is somebody else's.
        self._layer.chmod(self._root.stat().st_mode & 0o7777)
        self._keeping = Keeping(self._workspace, pending)
        self._upper = Upper(self._root, self._layer, pending)
        self._upper.fill()
        self._seen = {}

    def note_seen(self) -> None:
        """All that is written by now was looked at. Raises OSError."""
        self._seen = self._written()

    def unseen(self) -> list[str]:
        """The paths that were written since, sorted. Raises OSError."""
        return [path for path, facts in self._written().items() if facts != self._seen.get(path)]

    def _written(self) -> dict[str, Facts]:
        found = self._upper.look(self._keeping)
        return {each.path: _facts(self._layer / each.path) for each in found.touched}


def _facts(path: Path) -> Facts:
    """Of what is at a path of the layer; nothing is there where a folder around it is gone."""
    try:
        return facts_of(path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return Facts(0, 0, 0, 0, 0)
