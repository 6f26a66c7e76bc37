"""Where the files of a skill lie, in the workspace or in a folder of the user's: nothing leads out of it."""

import os
from itertools import islice
from pathlib import Path
from typing import Protocol

from app.workspace.path_rules import UnsafePath
from app.workspace.paths import Workspace
from app.workspace.reading import read_file
from app.workspace.secrets import secret_reason

LARGEST = 256 * 1024
"""Bytes of one file."""
MOST_FILES = 100
"""Files of a skill that are listed."""
_LOOKED_AT = 2_000


class SkillFolder(Protocol):
    """The folder of one skill."""

    @property
    def path(self) -> str:
        """As commands can name it: from the workspace's root, or absolute."""
        ...

    def read(self, file: str) -> bytes:
        """A file in it, of at most `LARGEST` bytes.

        Raises:
            OSError: It can't be read.
            WorkspaceError: It is not in it, or looks like a secret, by its name or by where it leads.
        """
        ...

    def files(self) -> list[str]:
        """What is in it, sorted; not more than `MOST_FILES`."""
        ...


class WorkspaceFolder:
    """One in the workspace."""

    def __init__(self, workspace: Workspace, path: str) -> None:
        """`path` leads to it from the root."""
        self._workspace = workspace
        self.path = path

    def read(self, file: str) -> bytes:
        """A file in it."""
        real = self._workspace.resolve(self._workspace.locate(f"{self.path}/{file}"))
        if not real.startswith(f"{self._workspace.resolve(self.path)}/"):
            raise UnsafePath(f"{file} is not in the folder of the skill")
        return _no_secret(file, real, self._workspace.read(real, LARGEST))

    def files(self) -> list[str]:
        """What is in it."""
        under = self._workspace.resolve(self.path)
        return [path.removeprefix(f"{under}/") for path in islice(self._workspace.files(under), MOST_FILES)]


class UserFolder:
    """One of the user's, which may be a link itself."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder."""
        self._root = root

    @property
    def path(self) -> str:
        """Absolute."""
        return str(self._root)

    def read(self, file: str) -> bytes:
        """A file in it."""
        root = self._root.resolve()
        # A loop of links it leaves as it is, which then can't be read.
        real = Path(os.path.realpath(root / file))
        if not real.is_relative_to(root):
            raise UnsafePath(f"{file} is not in the folder of the skill")
        return _no_secret(file, real.name, read_file(real, LARGEST)[0])

    def files(self) -> list[str]:
        """What is in it."""
        found: list[str] = []
        root = self._root.resolve()
        for seen, (at, folders, names) in enumerate(os.walk(root)):
            folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__", "node_modules"))
            found += [Path(at, name).relative_to(root).as_posix() for name in sorted(names)]
            if len(found) >= MOST_FILES or seen > _LOOKED_AT:
                break
        return sorted(found[:MOST_FILES])


def _no_secret(file: str, real: str, content: bytes) -> bytes:
    if reason := secret_reason(file, content) or secret_reason(real, content):
        raise UnsafePath(f"{file} looks like a secret ({reason}), which is kept from the model")
    return content
