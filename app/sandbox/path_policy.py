"""Walks a workspace, and decides which paths that a command has written are staged, written back or dropped."""

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from app.sandbox.captured_changes import PendingFiles, WrittenIgnoredPath
from app.sandbox.files_and_links import lstat_or_none, path_below_without_links
from app.workspace.git_repository import find_repository
from app.workspace.ignore import (
    FolderIgnorePatterns,
    Rules,
    compile_ignore_patterns,
    is_entry_itself_ignored,
    read_ignore_file_text,
    read_ignore_rules_above_workspace,
    read_ignore_rules_of_file,
)
from app.workspace.path_rules import (
    UnsafePath,
    check_path_component,
    has_path_at_or_below,
    is_folder_path_too_deep_or_long,
)
from app.workspace.paths import Workspace
from app.workspace.reading import read_regular_file

_MAX_INDEX_BYTES = 1 << 30
_ENTRY_BYTES = 62
"""Bytes of an index entry before its name, with SHA-1; 74 with SHA-256."""
_EXTENDED, _LENGTH = 0x4000, 0x0FFF


def tracked_paths(root: Path) -> list[str] | None:
    """Return the paths that git tracks below a folder, relative to it and sorted; None if its index can't be read."""
    found = find_repository(root)
    if found is None or not os.path.lexists(found.folder / "index"):
        return []
    try:
        names = _read_index_paths(found.folder / "index", _uses_sha256(found.shared))
    except (OSError, IndexError, ValueError):
        return None
    lead = b"".join(b"%s/" % part.encode("utf-8", "surrogateescape") for part in root.relative_to(found.top).parts)
    return sorted(name[len(lead) :].decode("utf-8", "surrogateescape") for name in names if name.startswith(lead))


def _uses_sha256(shared: Path) -> bool:
    return "objectformat = sha256" in _read_git_config(shared / "config").lower()


def _read_index_paths(file: Path, sha256: bool) -> list[bytes]:
    """Return the paths of an index and, if it is split, of the index that it shares, removed ones included."""
    data, _ = read_regular_file(file, _MAX_INDEX_BYTES)
    names, end = _parse_index_paths(data, sha256)
    digest = 32 if sha256 else 20
    while end + 8 <= len(data) - digest:
        extension, size = data[end : end + 4], int.from_bytes(data[end + 4 : end + 8], "big")
        if extension == b"link" and any(shared := data[end + 8 : end + 8 + digest]):
            # An entry that replaces a shared one has no name. A shared index shares no other one.
            data, _ = read_regular_file(file.with_name(f"sharedindex.{shared.hex()}"), _MAX_INDEX_BYTES)
            return [*filter(None, names), *_parse_index_paths(data, sha256)[0]]
        end += 8 + size
    return names


def _parse_index_paths(data: bytes, sha256: bool) -> tuple[list[bytes], int]:
    """Return the paths of the entries, and the offset after them."""
    if data[:4] != b"DIRC":
        raise ValueError("no index")
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    fixed = _ENTRY_BYTES + (12 if sha256 else 0)
    names: list[bytes] = []
    at, name = 12, b""
    for _ in range(count):
        flags = data[at + fixed - 2] << 8 | data[at + fixed - 1]
        start = at + fixed + (2 if flags & _EXTENDED else 0)
        if version == 4:
            cut, start = _decode_offset(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - cut] + data[start:end]
            at = end + 1
        else:
            length = flags & _LENGTH
            end = start + length if length < _LENGTH else data.index(b"\0", start)
            name = data[start:end]
            # Padded with one to eight zeros to a multiple of eight bytes.
            at += (end - at + 8) // 8 * 8
        names.append(name)
    return names, at


def _decode_offset(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number in git's variable-length encoding; return it and the offset after it."""
    byte = data[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        number = (number + 1) << 7 | byte & 0x7F
    return number, at + 1


def _find_hooks_and_included_files(root: Path) -> list[str]:
    """Return the workspace paths that git's configuration names as hooks folder or as more configuration."""
    found = find_repository(root)
    if found is None:
        return []
    paths: set[Path] = set()
    for file in (*_user_git_config_files(), found.shared / "config", found.folder / "config.worktree"):
        for key, name in _HOOKS_OR_INCLUDED_FILE.findall(_read_git_config(file)):
            folder = file.parent if key.lower() == "path" else found.top
            paths.add(Path(os.path.normpath(folder / Path(name).expanduser())))
    return sorted(path.relative_to(root).as_posix() for path in paths if root in path.parents)


def _find_own_environment(root: Path) -> set[str]:
    """Return the workspace paths of the virtual environment of signoff itself; empty if it is elsewhere."""
    paths = (Path(sys.prefix), Path(os.path.realpath(sys.prefix)))
    return {path.relative_to(root).as_posix() for path in paths if root in path.parents}


def _user_git_config_files() -> tuple[Path, ...]:
    """Return the files of the user's git configuration."""
    if (instead := os.environ.get("GIT_CONFIG_GLOBAL")) is not None:
        return (Path(instead),)
    return (Path.home() / ".gitconfig", _git_config_folder() / "config")


def _git_config_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"


def _read_git_config(file: Path) -> str:
    """Return the text of a configuration file; empty if it cannot be read."""
    try:
        return read_regular_file(file, 1 << 20, allow_truncated=True)[0].decode("utf-8", "replace")
    except OSError:
        return ""


IGNORE_FILE_NAME = ".gitignore"
"""Name of the ignore file that git reads."""
_EXCLUDES_FILE = re.compile(
    r"^[^\S\n]*excludesfile[^\S\n]*=[^\S\n]*\"?([^\"\n]+?)\"?[^\S\n]*$", re.IGNORECASE | re.MULTILINE
)

_HOOKS_OR_INCLUDED_FILE = re.compile(
    r"^(?:\[[^\n]*\])?[^\S\n]*(hookspath|path)[^\S\n]*=[^\S\n]*\"?([^\"\n;#]*[^\"\s;#])",
    re.IGNORECASE | re.MULTILINE,
)

_SETTINGS_THAT_RUN_PROGRAMS = (
    *(".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".codex", ".gemini/settings.json"),
    *(".qwen/settings.json", ".factory/hooks.json", ".factory/settings.json", ".github/hooks", ".opencode/plugin"),
    *(".opencode/plugins", "opencode.json", "opencode.jsonc", ".signoff.toml", ".cursor/hooks.json"),
    *(".cursor/mcp.json", ".vscode/settings.json", ".vscode/tasks.json", ".zed/settings.json", ".zed/tasks.json"),
    *(".vscode/launch.json", ".vscode/mcp.json", ".aider.conf.yml", ".amazonq/mcp.json", ".factory/mcp.json"),
    *(".kiro/hooks", ".kiro/settings/mcp.json", ".roo/mcp.json", ".envrc", ".exrc", ".nvim.lua", ".nvimrc", ".vimrc"),
)
"""Paths at the top of a workspace in which agents, editors and shells find hooks and programs to run."""


class GitIgnoreRules:
    """git's ignore rules of one workspace; each folder's rules are read once, when they are first needed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[str, Rules] = {}
        self._patterns: dict[str, str] = {}
        self._is_frozen = False

    def is_ignored(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a rule ignores an entry of a folder that is not ignored itself.

        Nothing is ignored if an index can't be read: git might track it.
        """
        folder, _, name = path.rpartition("/")
        return (
            is_entry_itself_ignored(self._rules_for_folder(folder), path, name, is_folder)
            and self._tracked_paths is not None
        )

    def _rules_for_folder(self, folder: str) -> Rules:
        if folder not in self._rules:
            if not folder:
                above = self._rules_above
            elif not self._is_frozen and self._is_nested_repository(folder):
                # The rules above do not apply there.
                above = self._user_rules
            else:
                above = self._rules_for_folder(folder.rpartition("/")[0])
            self._rules[folder] = self._own_rules(folder) + above
        return self._rules[folder]

    def _is_nested_repository(self, folder: str) -> bool:
        """Return whether a folder is the top of another repository, such as a submodule; read what that tracks."""
        top = self._root / folder
        if not os.path.lexists(top / GIT_FOLDER):
            return False
        repository = find_repository(top)
        if repository is None or repository.top != top:
            return False
        found = tracked_paths(top)
        if found is None or self._tracked_paths is None:
            self._tracked_paths = None
        else:
            self._tracked_paths = sorted([*self._tracked_paths, *(f"{folder}/{path}" for path in found)])
        return True

    def _own_rules(self, folder: str) -> Rules:
        """Return the rules of the ignore file in a folder."""
        if not self._is_frozen and (patterns := read_ignore_file_text(self._root / folder / IGNORE_FILE_NAME)):
            self._patterns[folder] = patterns
        patterns = self._patterns.get(folder, "")
        return (
            (FolderIgnorePatterns(compile_ignore_patterns(patterns), len(folder) + 1 if folder else 0),)
            if patterns
            else ()
        )

    def freeze(self) -> Mapping[str, str]:
        """Stop reading rules: folders whose rules were not read yet have none from now on.

        Returns:
            The rules of each folder that has some, for `restore`.
        """
        self._rules_for_folder("")
        # Read the index before it can change; the result is cached.
        self.is_tracked("")
        self._is_frozen = True
        return self._patterns

    def restore(self, patterns: Mapping[str, str], tracked: Iterable[str]) -> None:
        """Restore the state of frozen rules.

        Args:
            patterns: The result of `freeze`.
            tracked: All paths that the rules did not ignore at that time.
        """
        self._patterns, self._is_frozen = dict(patterns), True
        self._tracked_paths = sorted(tracked)

    def is_tracked(self, path: str) -> bool:
        """Return whether git tracks the path, or anything below it.

        Hooks and configuration of git, agents and editors count as tracked, because these run what is named there,
        and so does the environment from which signoff runs programs outside the layer.
        """
        return (
            has_path_at_or_below(self._tracked_paths or (), path)
            or has_path_at_or_below(self._never_ignored_paths, path)
            or any(path.startswith(f"{each}/") for each in self._never_ignored_paths)
        )

    @cached_property
    def _never_ignored_paths(self) -> list[str]:
        found = (*_find_hooks_and_included_files(self._root), *_find_own_environment(self._root))
        return sorted((*_SETTINGS_THAT_RUN_PROGRAMS, *found))

    @cached_property
    def _tracked_paths(self) -> list[str] | None:
        return tracked_paths(self._root)

    @cached_property
    def _rules_above(self) -> Rules:
        return read_ignore_rules_above_workspace(self._root, (IGNORE_FILE_NAME,)) + self._user_rules

    @cached_property
    def _user_rules(self) -> Rules:
        """Return the user's rules for all repositories (`core.excludesFile`), found in the same files as by git."""
        named = _git_config_folder() / "ignore"
        for text in map(_read_git_config, _user_git_config_files()):
            if found := _EXCLUDES_FILE.search(text):
                named = Path(found[1]).expanduser()
                break
        return read_ignore_rules_of_file(named)


_TOOL_CACHE_NAMES = frozenset(
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
"""Cache folders of tools: not reviewed, even if git does not ignore them."""
_BYTECODE_FOLDER = "__pycache__"
SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite creates beside a database and needs."""


def is_bytecode(path: str, *, is_folder: bool) -> bool:
    """Return whether a path is Python bytecode, which would run in place of the source that was reviewed."""
    return _BYTECODE_FOLDER in path.split("/") or (not is_folder and path.endswith((".pyc", ".pyo")))


GIT_FOLDER = ".git"
GIT_OBJECTS_FOLDER = ".git/objects"
"""Git adds files to it and removes some, but changes none."""


def git_folders(root: Path) -> list[Path]:
    """Return the resolved `.git` folders of the workspace's repository, inside or outside the workspace."""
    found = find_repository(root)
    if found is None:
        return []
    folders = {Path(os.path.realpath(path)) for path in (found.top / ".git", found.folder, found.shared)}
    return sorted(path for path in folders if path.exists())


def git_folders_inside(root: Path) -> list[str]:
    """Return the workspace paths of git's folders inside it: git would run files written there, for example hooks."""
    found = {path.relative_to(root).as_posix() for path in git_folders(root) if path.is_relative_to(root)}
    entry = root / ".git"
    if os.path.lexists(entry) and not entry.is_symlink():
        found.add(".git")
    found.discard(".")
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))


class StagingPathPolicy:
    """Decides which paths of a workspace are ignored by git, or can't be staged; proposed rules do not count.

    Args:
        pending: The pending changes; their paths never count as ignored.
    """

    def __init__(self, workspace: Workspace, pending: PendingFiles) -> None:
        self._workspace = workspace
        self.git_rules = GitIgnoreRules(workspace.root)
        self._pending = sorted(pending)

    def is_ignored(self, path: str, *, is_folder: bool) -> bool:
        """Return whether git's rules ignore an entry of a folder that is not ignored itself.

        The companion files of an ignored database are ignored with it. Ignore files are never ignored: they would
        hide later changes.
        """
        ends = () if is_folder else SQLITE_SUFFIXES
        names = (path, *(path.removesuffix(end) for end in ends if path.endswith(end)))
        found = any(self.git_rules.is_ignored(each, is_folder=is_folder) for each in names)
        return found and path.rpartition("/")[2] != IGNORE_FILE_NAME

    def is_tracked_or_pending(self, path: str) -> bool:
        """Return whether git tracks the path or a path below it, or one is pending: then no rule ignores it."""
        return has_path_at_or_below(self._pending, path) or self.git_rules.is_tracked(path)

    def is_untracked_bytecode(self, path: str, *, is_folder: bool) -> bool:
        """Return whether the path is bytecode that git does not track; it is dropped after a command."""
        return is_bytecode(path, is_folder=is_folder) and not self.is_tracked_or_pending(path)

    @cached_property
    def git_folders(self) -> tuple[str, ...]:
        """Return the paths of `.git`, and of other folders in the workspace in which its repository lies."""
        return tuple(sorted({GIT_FOLDER, *git_folders_inside(self._workspace.root)}))

    def find_git_folder(self, path: str) -> str:
        """Return the folder of the workspace's repository that is or contains a path; empty if none."""
        return next((folder for folder in self.git_folders if f"{path}/".startswith(f"{folder}/")), "")

    def is_off_limits(self, path: str) -> bool:
        """Return whether the path is off limits: signoff's own state, or files of the kernel."""
        return self._workspace.is_off_limits(path)

    def refusal_reason(self, path: str, *, in_ignored: bool) -> str:
        """Return why a path can be neither staged nor written back; empty if it can."""
        if self.is_off_limits(path):
            return "signoff's own"
        if is_folder_path_too_deep_or_long(path):
            return "nested too deep"
        if in_ignored:
            # Ignored folders may contain any names, for example the `.git` of a package that was checked out.
            return ""
        name = path.rpartition("/")[2]
        try:
            check_path_component(name)
        except UnsafePath as error:
            # The path is listed with the reason.
            return str(error).removeprefix(f"{name!r} ")
        return ""

    def is_tool_cache(self, path: str) -> bool:
        """Return whether a folder is the cache of a tool, and git neither tracks nor ignores it."""
        return (
            path.rpartition("/")[2] in _TOOL_CACHE_NAMES
            and not self.is_ignored(path, is_folder=True)
            and not self.is_tracked_or_pending(path)
        )


class StatFingerprint(Struct, frozen=True):
    """The fields of lstat(2) that are compared to detect a change; times in nanoseconds."""

    mode: int
    size: int
    modified: int
    changed: int
    inode: int

    @property
    def is_folder(self) -> bool:
        """Return whether this is a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file_or_link(self) -> bool:
        """Return whether this is a file or a link."""
        return stat.S_ISREG(self.mode) or stat.S_ISLNK(self.mode)


def stat_fingerprint(result: os.stat_result) -> StatFingerprint:
    """Return the compared fields of a stat result."""
    return StatFingerprint(result.st_mode, result.st_size, result.st_mtime_ns, result.st_ctime_ns, result.st_ino)


def scan_ignored_path_for_changes(
    root: Path, path: str, since: int, max_names: int
) -> tuple[WrittenIgnoredPath | None, int]:
    """Count the files that changed at and below an ignored path; also return how many names were examined.

    Args:
        since: Nanoseconds since the epoch.
        max_names: Limit of the number of names to examine.

    Returns:
        The changed files, None if there are none; and the number of examined names.
    """
    place = path_below_without_links(root, path)
    written, looked, folders, is_changed = 0, 1, [place], False
    if (facts := lstat_or_none(place)) is None:
        return WrittenIgnoredPath(path, removed=1), looked
    if not stat.S_ISDIR(facts.st_mode):
        return (WrittenIgnoredPath(path, 1) if facts.st_ctime_ns >= since else None), looked
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as scan:
            is_changed = is_changed or folder.lstat().st_ctime_ns >= since
            for entry in scan:
                looked += 1
                if looked > max_names:
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    written += entry.stat(follow_symlinks=False).st_ctime_ns >= since
    return (WrittenIgnoredPath(f"{path}/", written) if written or is_changed else None), looked


def list_folder(folder: Path, *, unlock: bool) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name; `unlock` makes an unreadable folder readable first.

    Raises:
        OSError: The folder can't be read; PermissionError if it stays locked.
    """
    try:
        # A folder may be listable but not searchable: its entries can't be read then. stat() raises in that case.
        os.stat(f"{folder}/.")  # noqa: PTH116 - a Path has no dot at its end
        with os.scandir(folder) as scan:
            return sorted(scan, key=lambda entry: entry.name)
    except PermissionError:
        if not unlock:
            raise
    folder.chmod(stat.S_IMODE(folder.lstat().st_mode) | stat.S_IRWXU)
    return list_folder(folder, unlock=False)


def walk_watched_entries(
    root: Path,
    policy: StagingPathPolicy,
    skipped_folder_inodes: set[int],
    ignored: dict[str, StatFingerprint],
    *,
    unlock: bool = False,
    folder: str = "",
    inside: bool = False,
) -> Iterator[tuple[str, StatFingerprint]]:
    """Yield path and stat of all entries that git does not ignore, of bytecode, and of `.git`.

    Args:
        policy: Decides which paths are ignored.
        skipped_folder_inodes: Inodes of folders that are not entered, even if they were moved. Receives those of
            folders that can't be read.
        ignored: Receives the ignored paths that it has not; for an ignored folder only the folder itself.
        unlock: Make unreadable folders readable, after their stat was taken.
        folder: The folder to walk.
        inside: Whether git ignores that folder.

    Raises:
        OSError: A folder can't be read.
    """
    inode = 0
    try:
        inode = (root / folder).lstat().st_ino
        if inode in skipped_folder_inodes:
            return
        found = list_folder(root / folder, unlock=unlock)
    except FileNotFoundError:
        # Another program has just removed it.
        return
    except PermissionError:
        skipped_folder_inodes.add(inode)
        return
    for entry in found:
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        below_ignored = inside
        try:
            facts = stat_fingerprint(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue
        if not policy.find_git_folder(path):
            if policy.is_off_limits(path):
                continue
            if inside or policy.is_ignored(path, is_folder=is_folder):
                # Bytecode is not skipped: Python would run it in place of the sources that are reviewed.
                if not (
                    policy.is_tracked_or_pending(path)
                    or has_path_at_or_below(policy.git_folders, path)
                    or is_bytecode(path, is_folder=is_folder)
                ):
                    ignored.setdefault(path, facts)
                    continue
                below_ignored = True
        yield path, facts
        if is_folder and not is_folder_path_too_deep_or_long(path):
            yield from walk_watched_entries(
                root, policy, skipped_folder_inodes, ignored, unlock=unlock, folder=path, inside=below_ignored
            )
