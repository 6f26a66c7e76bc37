"""Which paths that a command has written are kept, written through, or left out."""

from collections.abc import Iterable, Mapping

from app.sandbox.changes import Pending
from app.workspace.git_ignored import RULES, GitIgnored
from app.workspace.path_rules import UnsafePath, check_name, names_at_or_below, nested_too_deep
from app.workspace.paths import Workspace

_CACHES = frozenset(
    {
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".ipynb_checkpoints",
        ".turbo",
        ".parcel-cache",
        ".gradle",
    }
)
"""Folders that programs fill by themselves: where git does not ignore them, they are nothing to review either."""
_BYTECODE_FOLDER = "__pycache__"
COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite writes beside a database, and can't do without."""


def is_bytecode(path: str, *, is_folder: bool) -> bool:
    """Whether Python would run what is at a path in place of the source that was reviewed."""
    return _BYTECODE_FOLDER in path.split("/") or (not is_folder and path.endswith((".pyc", ".pyo")))


class Keeping:
    """Judges the paths of one workspace, by the rules that are on disk: what is proposed does not count."""

    def __init__(self, workspace: Workspace, pending: Pending) -> None:
        """Nothing is read yet.

        Args:
            workspace: Whose paths.
            pending: What lies over it, which is never written through.
        """
        self._workspace = workspace
        self._git = GitIgnored(workspace.root)
        self._pending = sorted(pending)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether git's rules ignore an entry; of a folder in which nothing is ignored so far.

        What lies beside an ignored database is part of it. Rules are never ignored: they would hide what comes next.
        """
        names = (path, *(path.removesuffix(end) for end in COMPANIONS if path.endswith(end)))
        found = any(self._git.entry(each, is_folder=is_folder) for each in names)
        return found and path.rpartition("/")[2] != RULES

    def fix(self) -> Mapping[str, str]:
        """Judge by the rules that were read so far, whatever is written from now on; returns these for `restore`."""
        return self._git.fix()

    def restore(self, rules: Mapping[str, str], known: Iterable[str]) -> None:
        """Judge as one did that was fixed, with the rules that it returned and all paths that it did not ignore."""
        self._git.restore(rules, known)

    def holds(self, path: str) -> bool:
        """Whether the path, or anything below it, is tracked by git or is pending: then no rule ignores it."""
        return names_at_or_below(self._pending, path) or self._git.tracks(path)

    def drops(self, path: str, *, is_folder: bool) -> bool:
        """Whether it is bytecode that git does not track: what a command writes of it is thrown away."""
        return is_bytecode(path, is_folder=is_folder) and not self.holds(path)

    def forbidden(self, path: str) -> bool:
        """Whether it is signoff's own."""
        return self._workspace.forbidden(path)

    def refuses(self, path: str, *, in_ignored: bool) -> str:
        """Why a path can be neither kept nor written through; empty if it can."""
        if self.forbidden(path):
            return "signoff's own"
        if nested_too_deep(path):
            return "nested too deep"
        if in_ignored:
            # There git and its like may do as they please, as in a package that was checked out.
            return ""
        try:
            check_name(path.rpartition("/")[2])
        except UnsafePath as error:
            return str(error)
        return ""

    def is_cache(self, path: str) -> bool:
        """Whether a folder is one that a program fills by itself, of which git knows nothing."""
        return path.rpartition("/")[2] in _CACHES and not self.ignores(path, is_folder=True) and not self.holds(path)
