"""Walks a workspace, and judges which paths that a command has written are kept, written back, or left out."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from app.sandbox.captured_changes import IgnoredPath, Pending
from app.workspace.git_repository import repository
from app.workspace.ignore import (
    IgnoreFile,
    Rules,
    compile_patterns,
    ignored,
    patterns_in,
    rules_above,
    rules_of_file,
)
from app.workspace.path_rules import UnsafePath, check_name, names_at_or_below, nested_too_deep
from app.workspace.paths import Workspace
from app.workspace.reading import read_file

_LARGEST = 1 << 30
_ENTRY = 62
"""Bytes of an entry before its name, with SHA-1; 74 with SHA-256."""
_EXTENDED, _LENGTH = 0x4000, 0x0FFF


def tracked_paths(root: Path) -> list[str]:
    """The paths in a folder's repository that git tracks below it, relative to it and sorted.

    Nothing where there is no repository, or its index can't be read.
    """
    found = repository(root)
    if found is None:
        return []
    try:
        data, _ = read_file(found.folder / "index", _LARGEST)
        names = _names(data, _uses_sha256(found.shared))
    except (OSError, IndexError, ValueError):
        return []
    lead = b"".join(b"%s/" % part.encode("utf-8", "surrogateescape") for part in root.relative_to(found.top).parts)
    return [name[len(lead) :].decode("utf-8", "surrogateescape") for name in sorted(names) if name.startswith(lead)]


def _uses_sha256(shared: Path) -> bool:
    config, _ = read_file(shared / "config", 1 << 20, head=True)
    return b"objectformat = sha256" in config.lower()


def _names(data: bytes, sha256: bool) -> list[bytes]:
    if data[:4] != b"DIRC":
        raise ValueError("no index")
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    fixed = _ENTRY + (12 if sha256 else 0)
    names: list[bytes] = []
    at, name = 12, b""
    for _ in range(count):
        flags = data[at + fixed - 2] << 8 | data[at + fixed - 1]
        start = at + fixed + (2 if flags & _EXTENDED else 0)
        if version == 4:
            cut, start = _offset(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - cut] + data[start:end]
            at = end + 1
        else:
            length = flags & _LENGTH
            end = start + length if length < _LENGTH else data.index(b"\0", start)
            name = data[start:end]
            # Padded with one to eight zeros, so that the entry is a multiple of eight long.
            at += (end - at + 8) // 8 * 8
        names.append(name)
    return names


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number in git's encoding of variable length, and where what follows it begins."""
    byte = data[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        number = (number + 1) << 7 | byte & 0x7F
    return number, at + 1


RULES = ".gitignore"
"""Of the files with ignore patterns, the one that git reads."""
_EXCLUDES_FILE = re.compile(
    r"^[^\S\n]*excludesfile[^\S\n]*=[^\S\n]*\"?([^\"\n]+?)\"?[^\S\n]*$", re.IGNORECASE | re.MULTILINE
)


class GitIgnored:
    """Answers for one workspace; each folder's rules are as they were when it was first asked about."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[str, Rules] = {}
        self._patterns: dict[str, str] = {}
        self._fixed = False

    def entry(self, path: str, *, is_folder: bool) -> bool:
        """Whether a rule ignores the entry itself; whoever asks knows that nothing above it is ignored."""
        folder, _, name = path.rpartition("/")
        return ignored(self._rules_in(folder), path, name, is_folder)

    def _rules_in(self, folder: str) -> Rules:
        if folder not in self._rules:
            above = self._rules_in(folder.rpartition("/")[0]) if folder else self._from_outside
            self._rules[folder] = self._own_rules(folder) + above
        return self._rules[folder]

    def _own_rules(self, folder: str) -> Rules:
        """The rules of the file in a folder."""
        if not self._fixed and (patterns := patterns_in(self._root / folder / RULES)):
            self._patterns[folder] = patterns
        patterns = self._patterns.get(folder, "")
        return (IgnoreFile(compile_patterns(patterns), len(folder) + 1 if folder else 0),) if patterns else ()

    def fix(self) -> Mapping[str, str]:
        """Read no more rules: folders that have not been asked about have none of their own from now on.

        Returns:
            The rules of each folder that has some, for `restore`.
        """
        self._rules_in("")
        # Read now, whenever it is asked for.
        self.tracks("")
        self._fixed = True
        return self._patterns

    def restore(self, patterns: Mapping[str, str], tracked: Iterable[str]) -> None:
        """Be as one was that was fixed.

        Args:
            patterns: What `fix` has returned.
            tracked: All that it did not ignore.
        """
        self._patterns, self._fixed = dict(patterns), True
        self._tracked = sorted(tracked)

    def tracks(self, path: str) -> bool:
        """Whether git tracks the path, or anything below it."""
        return names_at_or_below(self._tracked, path)

    @cached_property
    def _tracked(self) -> list[str]:
        return sorted(tracked_paths(self._root))

    @cached_property
    def _from_outside(self) -> Rules:
        return rules_above(self._root, (RULES,)) + self._of_the_user

    @cached_property
    def _of_the_user(self) -> Rules:
        """The rules that the user has for every repository, found as git finds them."""
        home = Path.home()
        configs = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
        named = configs / "ignore"
        instead = os.environ.get("GIT_CONFIG_GLOBAL")
        for config in (home / ".gitconfig", configs / "config") if instead is None else (Path(instead),):
            try:
                text = read_file(config, 1 << 20, head=True)[0].decode("utf-8", "replace")
            except OSError:
                continue
            if found := _EXCLUDES_FILE.search(text):
                named = Path(found[1]).expanduser()
                break
        return rules_of_file(named)


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


class PathPolicy:
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


REPOSITORY = ".git"
_OBJECTS = ".git/objects"
"""Only ever added to, and without a name that leads there what is new in it is nothing."""


@dataclass(frozen=True, slots=True)
class PathStat:
    """What lstat(2) says of a name."""

    mode: int
    size: int
    written: int
    changed: int
    inode: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, of which only the mode counts."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_leaf(self) -> bool:
        """Whether it is a file or a link."""
        return stat.S_ISREG(self.mode) or stat.S_ISLNK(self.mode)


def facts_of(result: os.stat_result) -> PathStat:
    """The facts of a name."""
    return PathStat(result.st_mode, result.st_size, result.st_mtime_ns, result.st_ctime_ns, result.st_ino)


def entries(
    root: Path, keeping: PathPolicy, locked: set[int], ignored: set[str], *, unlock: bool = False
) -> Iterator[tuple[str, PathStat]]:
    """All that git does not ignore, folders too, of its own what leads to commits, and bytecode beside sources.

    Args:
        root: The workspace.
        keeping: Judges the paths.
        locked: Inodes of folders that are not looked into, wherever they are by now, even if they can be read.
            Those that can't be read come to it.
        ignored: Paths that git ignores come to it, the uppermost of each tree.
        unlock: Make folders readable that are not, once their facts are taken.

    Raises:
        OSError: The disk would not.
    """
    yield from _below(root, "", keeping, locked, ignored, inside=False, unlock=unlock)


def changed_since(root: Path, path: str, since: int, most: int) -> tuple[IgnoredPath | None, int]:
    """Look at what has changed at an ignored path and below it.

    Args:
        root: The workspace.
        path: In it.
        since: Nanoseconds since the epoch.
        most: How many names are looked at.

    Returns:
        The changed files, None if there are none; and how many names were looked at.
    """
    written, looked, folders, is_changed = 0, 1, [root / path], False
    try:
        facts = (root / path).lstat()
    except FileNotFoundError:
        return IgnoredPath(path, removed=1), looked
    if not stat.S_ISDIR(facts.st_mode):
        return (IgnoredPath(path, 1) if facts.st_ctime_ns >= since else None), looked
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as scan:
            is_changed = is_changed or folder.lstat().st_ctime_ns >= since
            for entry in scan:
                looked += 1
                if looked > most:
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    written += entry.stat(follow_symlinks=False).st_ctime_ns >= since
    return (IgnoredPath(f"{path}/", written) if written or is_changed else None), looked


def opened_folder(folder: Path, *, unlock: bool) -> list[os.DirEntry[str]]:
    """What is in a folder, sorted by name; with `unlock` also where its owner has kept himself from reading it.

    Raises:
        OSError: The disk would not; PermissionError for a folder that stays locked.
    """
    try:
        # To know the names is not enough: without the right to search it, nothing in it has facts.
        os.stat(f"{folder}/.")  # noqa: PTH116 - a Path has no dot at its end
        with os.scandir(folder) as scan:
            return sorted(scan, key=lambda entry: entry.name)
    except PermissionError:
        if not unlock:
            raise
    folder.chmod(stat.S_IMODE(folder.lstat().st_mode) | stat.S_IRWXU)
    return opened_folder(folder, unlock=False)


def _below(
    root: Path, folder: str, keeping: PathPolicy, locked: set[int], ignored: set[str], *, inside: bool, unlock: bool
) -> Iterator[tuple[str, PathStat]]:
    inode = (root / folder).lstat().st_ino
    if inode in locked:
        return
    try:
        found = opened_folder(root / folder, unlock=unlock)
    except PermissionError:
        locked.add(inode)
        return
    for entry in found:
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        below_ignored = inside
        if path.partition("/")[0] == REPOSITORY:
            if path == _OBJECTS:
                continue
        elif keeping.forbidden(path):
            continue
        elif inside or keeping.ignores(path, is_folder=is_folder):
            # Bytecode would run in place of the sources that are reviewed.
            if not keeping.holds(path) and not is_bytecode(path, is_folder=is_folder):
                ignored.add(path)
                continue
            below_ignored = True
        yield path, facts_of(entry.stat(follow_symlinks=False))
        if is_folder and not nested_too_deep(path):
            yield from _below(root, path, keeping, locked, ignored, inside=below_ignored, unlock=unlock)
