"""Copies all files that git does not ignore before a command runs in place, and restores them after it.

After all files are copied, the pending changes are written to the workspace, so that the command finds them as it
would on an overlay. They are undone together with the command's own changes. The copies stay for the next command,
which copies only newer files. git's objects, which git never changes, are kept as hard links where the system allows
it; new ones stay, because another program may refer to them. Copies that no command uses for two weeks are removed.
A marker file exists while a command runs; if signoff is
killed, the next start finds it and restores the files.
"""

import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import astuple

from app.sandbox.captured_changes import (
    ChangedPathWithSize,
    CommandFileChanges,
    FileOrLink,
    FilesNotRestored,
    PathChange,
    PendingFiles,
    WrittenIgnoredPath,
)
from app.sandbox.files_and_links import (
    copy_file_content,
    has_same_content_and_mode,
    lstat_or_none,
    path_below_without_links,
    read_file_or_link,
    set_mode,
    write_file_or_link,
)
from app.sandbox.path_policy import (
    GIT_FOLDER,
    GIT_OBJECTS_FOLDER,
    StagingPathPolicy,
    StatFingerprint,
    scan_ignored_path_for_changes,
    stat_fingerprint,
    walk_watched_entries,
)
from app.sandbox.run_folders import hash_as_file_name, remove_entry, remove_tree
from app.workspace.path_rules import is_folder_path_too_deep_or_long
from app.workspace.reading import have_same_bytes

_TRIES, _PAUSE = 20, 0.1
_STORED_OBJECT = re.compile(rf"{re.escape(GIT_OBJECTS_FOLDER)}/(?:[0-9a-f]{{2}}(?:/[^/]+)?|pack/(?:pack-|tmp_)[^/]+)")
"""Paths of loose objects and packs; other files beside them, such as `info/alternates`, change what git reads."""
_STORE, _INDEX, _MARK, _LOCK = "guard-", "index.json", "running", "lock"
_LOST_COPIES_MESSAGE = (
    "A command that ran directly on your files was cut off, and what was kept of them can't be read: look through "
    "them (git status); nothing was put back."
)


MAX_BACKUP_BYTES = 4 * 1024**3
"""Limit of the total size of the files in a workspace in which a command runs in place."""
MAX_BACKUP_FILES = 300_000


class TooManyFilesToBackUp(OSError):
    """The workspace has more files than may be copied."""

    def __init__(self) -> None:
        super().__init__(
            f"it would run directly on your files, of which there are more here than the {MAX_BACKUP_FILES:,} or "
            f"{MAX_BACKUP_BYTES // 1024**3} GB that are kept to be put back; open a folder in it"
        )


class InPlaceCommandAlreadyRunning(OSError):
    """Another command runs in place in this workspace."""

    def __init__(self) -> None:
        super().__init__("another command runs directly on these files")


class WorkspaceBackup(Struct):
    """Copies of a workspace's files, made before a command runs in place, to find its changes and undo them."""

    root: Path
    store: Path
    """A folder outside the workspace, used only for the backup."""
    kept: dict[str, StatFingerprint] = field(default_factory=dict)
    """Stat of every file and folder before the command, by path."""
    _names: dict[str, str] = field(default_factory=dict)
    """Name of each file's copy in the store, by path; for a link `>` and its target."""
    lock: int = -1
    """Descriptor of the lock while it is held. A process that inherits it holds the lock, too."""
    _pending: PendingFiles = field(default_factory=dict)
    """Changes that were written to the files for the command."""
    _found: dict[str, StatFingerprint] = field(default_factory=dict)
    """Stat of every path when the command began, pending changes included."""
    _rules: Mapping[str, str] = field(default_factory=dict)
    """git's rules before the command, by folder."""
    _git_folders: tuple[str, ...] = ()
    """Folders of the workspace's repository in it, before the command."""
    _number: int = 0
    _mode: int = 0
    """Permission bits of the workspace's root folder."""
    _locked: set[int] = field(default_factory=set)
    """Inodes of folders that could not be read before the command: their contents are not changed."""
    _ignored: dict[str, StatFingerprint] = field(default_factory=dict)
    """First stat of the ignored paths, before and after the command; for an ignored folder only the folder itself."""
    _moved: Mapping[str, str] = field(default_factory=dict)
    """Result of the latest `_find_moved_ignored`."""
    _since: int = 0
    """Start of the command in nanoseconds since the epoch."""

    @property
    def marker_file(self) -> Path:
        """Return a file that exists while the workspace's files may differ from their copies."""
        return self.store / _MARK

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock; with `wait`, wait up to two seconds for it. Raises InPlaceCommandAlreadyRunning."""
        self.store.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.lock = os.open(self.store / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._try_lock(_TRIES if wait else 1)
            yield
        finally:
            os.close(self.lock)
            self.lock = -1

    def _try_lock(self, tries: int) -> None:
        for number in range(tries):
            if number:
                time.sleep(_PAUSE)
            with suppress(BlockingIOError):
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
        raise InPlaceCommandAlreadyRunning

    def back_up_and_write_pending(self, policy: StagingPathPolicy, pending: PendingFiles) -> None:
        """Copy new files, create the marker file, and write pending changes to the workspace.

        Raises:
            OSError: Not all files could be copied; don't run the command.
        """
        self._load_index()
        # Copies of an interrupted backup may be hard links to git's objects: a new copy must not overwrite them.
        self._remove_unnamed_copies()
        now: dict[str, StatFingerprint] = {}
        size = count = 0
        links_objects = self.root.stat().st_dev == self.store.stat().st_dev
        self._locked, self._ignored = set(), {}
        for path, facts in walk_watched_entries(self.root, policy, self._locked, self._ignored):
            now[path] = facts
            if links_objects and _is_git_object(path):
                continue
            count += 1
            size += facts.size if stat.S_ISREG(facts.mode) else 0
            if size > MAX_BACKUP_BYTES or count > MAX_BACKUP_FILES:
                raise TooManyFilesToBackUp
        # Freeze the rules: the command works on the files themselves, and may change ignore files.
        self._rules = policy.git_rules.freeze()
        self._git_folders = policy.git_folders
        for path, facts in now.items():
            if stat.S_ISREG(facts.mode) and (self.kept.get(path) != facts or path not in self._names):
                self._number += 1
                self._names[path] = str(self._number)
                if _is_git_object(path):
                    if not _link_or_copy(self.root / path, self.store / str(self._number)) and links_objects:
                        size += facts.size
                        if size > MAX_BACKUP_BYTES:
                            raise TooManyFilesToBackUp
                    now[path] = stat_fingerprint((self.root / path).lstat())
                else:
                    copy_file_content(self.root / path, self.store / str(self._number))
            elif stat.S_ISLNK(facts.mode):
                self._names[path] = f">{(self.root / path).readlink()}"
        self.kept, self._pending = now, pending
        self._mode = stat.S_IMODE(self.root.stat().st_mode)
        self._names = {path: name for path, name in self._names.items() if path in now}
        self._save_index()
        self.marker_file.touch()
        self._since = self.marker_file.stat().st_ctime_ns
        self._remove_unnamed_copies()
        _write_pending(pending, self.root)
        self._found = dict(walk_watched_entries(self.root, policy, self._locked, self._ignored)) if pending else now

    def find_changes(self, policy: StagingPathPolicy) -> CommandFileChanges:
        """Return the changes that the command has made. Raises OSError."""
        now = self._current_stats(policy)
        self._moved = self._find_moved_ignored(now)
        touched: list[ChangedPathWithSize] = []
        left_out: set[str] = set()
        for path in sorted(self._found.keys() | now.keys()):
            before, after = self._found.get(path), now.get(path)
            if before == after or self._is_new_object(path) or not self._has_changed(path, before, after):
                continue
            if folder := policy.find_git_folder(path):
                left_out.add(f"{folder}: put back as it was, commits are the user's")
            elif refused := next(filter(None, map(partial(_describe_refusal, policy), _path_and_parents(path))), ""):
                left_out.add(refused)
            elif policy.is_untracked_bytecode(path, is_folder=False):
                continue
            elif cache := next((above for above in _path_and_parents(path) if policy.is_tool_cache(above)), ""):
                left_out.add(f"{cache}: a cache that git does not ignore")
            elif after is not None and not after.is_file_or_link and not after.is_folder:
                left_out.add(f"{path}: not a regular file")
            else:
                there = after is not None and after.is_file_or_link
                touched.append(ChangedPathWithSize(path, after.size if after and there else 0, not there))
        return CommandFileChanges(tuple(touched), tuple(sorted(left_out)))

    def find_changed_ignored(self) -> tuple[WrittenIgnoredPath, ...]:
        """Return ignored files that any program changed meanwhile; call `find_changes` before. Raises OSError."""
        found: list[WrittenIgnoredPath] = []
        room = MAX_BACKUP_FILES
        for path in sorted(self._ignored.keys() - self._moved.keys()):
            changed, looked = scan_ignored_path_for_changes(self.root, path, self._since, room)
            found += [changed] if changed else []
            room = max(0, room - looked)
        return tuple(found)

    def read_change(self, path: str, limit: int) -> PathChange:
        """Return one of the changes with its contents. Raises OSError."""
        after = read_file_or_link(path_below_without_links(self.root, path), limit)
        return PathChange(path, self._content_before(path, limit), after)

    def restore_files(self, policy: StagingPathPolicy) -> int:
        """Restore all files; return how many had changed. Raises FilesNotRestored."""
        try:
            return self._restore_changed_files(policy)
        except OSError as error:
            raise FilesNotRestored(error) from error

    def _restore_changed_files(self, policy: StagingPathPolicy) -> int:
        if not self.marker_file.exists():
            # The backup is incomplete and no command has run: copies of an earlier command may be out of date.
            return 0
        now = self._move_ignored_back(policy)
        changed = [
            path
            for path in self.kept.keys() | now.keys()
            if self.kept.get(path) != now.get(path) and not self._is_new_object(path)
        ]
        for path in sorted(changed):
            if (after := now.get(path)) and after.is_folder:
                # The command may have made it unreadable; its mode is restored at the end.
                set_mode(self.root / path, after.mode | stat.S_IRWXU)
        for path in sorted(changed, reverse=True):
            before, after = self.kept.get(path), now.get(path)
            if before is None and after is not None:
                self._remove_path(path, after)
            elif before is not None:
                place = path_below_without_links(self.root, path)
                if (facts := lstat_or_none(place)) and stat.S_IFMT(facts.st_mode) != stat.S_IFMT(before.mode):
                    # Perhaps a folder with ignored files, or one that git ignores, in place of a file.
                    remove_entry(place)
        count, errors = 0, []
        for path in sorted(changed):
            try:
                count += (before := self.kept.get(path)) is None or self._restore_path(path, before)
            except OSError as error:
                errors.append(error)
        for path in sorted(changed, reverse=True):
            if (before := self.kept.get(path)) and before.is_folder:
                set_mode(self.root / path, before.mode)
        if errors:
            raise errors[0]
        there = {path: lstat_or_none(self.root / path) for path in changed if path in self.kept}
        # A removed socket is missing: only its server can create it again.
        self.kept = {path: facts for path, facts in self.kept.items() if path not in there} | {
            path: stat_fingerprint(facts) for path, facts in there.items() if facts
        }
        self._pending = {}
        self._save_index()
        self.marker_file.unlink(missing_ok=True)
        return count

    def _move_ignored_back(self, policy: StagingPathPolicy) -> dict[str, StatFingerprint]:
        """Move back what `_find_moved_ignored` finds; return the stat of every path then. Raises OSError."""
        now = self._current_stats(policy)
        moved = self._find_moved_ignored(now)
        for old, new in moved.items():
            with suppress(OSError):
                place = path_below_without_links(self.root, old)
                place.parent.mkdir(parents=True, exist_ok=True)
                (self.root / new).rename(place)
        return self._current_stats(policy) if moved else now

    def _find_moved_ignored(self, now: Mapping[str, StatFingerprint]) -> dict[str, str]:
        """Return the ignored paths that the command has moved to paths that are restored, with those paths."""
        new_paths = {_identity(facts): path for path, facts in now.items() if self.kept.get(path) != facts}
        return {
            path: new_paths[_identity(facts)]
            for path, facts in self._ignored.items()
            if _identity(facts) in new_paths and not os.path.lexists(path_below_without_links(self.root, path))
        }

    def _current_stats(self, policy: StagingPathPolicy) -> dict[str, StatFingerprint]:
        """Return the stat of every path now, also in folders that the command made unreadable. Raises OSError."""
        if self._mode:
            set_mode(self.root, self._mode)
        return dict(walk_watched_entries(self.root, policy, self._locked, self._ignored, unlock=True))

    def restore_interrupted(self, policy_with: Callable[[PendingFiles], StagingPathPolicy]) -> str:
        """Restore the files after a command that was killed together with signoff; the lock must be held.

        Args:
            policy_with: Makes the `StagingPathPolicy` for the changes that were pending then.

        Returns:
            A line for the user; empty if there was no such command.

        Raises:
            FilesNotRestored: The files can't be written.
        """
        if not self.marker_file.exists():
            return ""
        if not self._load_index():
            self.marker_file.unlink()
            return _LOST_COPIES_MESSAGE
        policy = policy_with(self._pending)
        policy.git_rules.restore(self._rules, self.kept)
        policy.git_folders = self._git_folders
        self.restore_files(policy)
        return "A command that ran directly on your files was cut off; every file is as it was before."

    def _is_new_object(self, path: str) -> bool:
        """Return whether this is an object that the repository did not have before the command."""
        return path not in self.kept and GIT_OBJECTS_FOLDER in self.kept and bool(_STORED_OBJECT.fullmatch(path))

    def _has_changed(self, path: str, before: StatFingerprint | None, after: StatFingerprint | None) -> bool:
        if after is None:
            return before is not None and before.is_file_or_link
        if before is None:
            return not after.is_folder or is_folder_path_too_deep_or_long(path)
        if before.is_folder or after.is_folder:
            return before.is_folder != after.is_folder
        if before.mode != after.mode or before.size != after.size:
            return True
        if path in self._pending:
            return not has_same_content_and_mode(self.root / path, self._pending[path])
        if stat.S_ISLNK(after.mode):
            return self._content_before(path, before.size) != read_file_or_link(self.root / path, after.size)
        return stat.S_ISREG(after.mode) and not have_same_bytes(self.store / self._names[path], self.root / path)

    def _content_before(self, path: str, limit: int) -> FileOrLink | None:
        if path in self._pending:
            return self._pending[path]
        facts = self._found.get(path)
        if facts is None or not facts.is_file_or_link:
            return None
        name = self._names[path]
        if name.startswith(">"):
            return FileOrLink(os.fsencode(name[1:]), stat.S_IFLNK | 0o777)
        kept = read_file_or_link(self.store / name, limit)
        return kept and FileOrLink(kept.data, stat.S_IMODE(facts.mode))

    def _remove_path(self, path: str, facts: StatFingerprint) -> None:
        place = self.root / path
        if not facts.is_folder:
            place.unlink(missing_ok=True)
            return
        if is_folder_path_too_deep_or_long(path):
            remove_tree(place)
            return
        # It may contain ignored files, which stay.
        with suppress(OSError):
            place.rmdir()

    def _restore_path(self, path: str, before: StatFingerprint) -> bool:
        """Restore one path; return whether it had changed."""
        place = self.root / path
        if before.is_folder:
            if not place.is_dir():
                place.mkdir(parents=True)
                return True
            return False
        if not before.is_file_or_link:
            if stat.S_ISFIFO(before.mode) and not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                os.mkfifo(place, stat.S_IMODE(before.mode))
                return True
            return False
        name = self._names[path]
        if not name.startswith(">") and (self.store / name).stat().st_size < before.size:
            # A power cut has truncated the copy: leave the file as it is.
            return False
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith(">"):
            place.unlink(missing_ok=True)
            place.symlink_to(name[1:])
            return True
        if _is_git_object(path):
            if not place.exists() or not place.samefile(self.store / name):
                remove_entry(place)
                _link_or_copy(self.store / name, place)
            set_mode(place, before.mode)
            return True
        with suppress(OSError):
            # Overwrite the same file and don't replace it: its hard links and its owner stay.
            if place.lstat().st_ino != before.inode:
                place.unlink()
            place.chmod(0o600)
        copy_file_content(self.store / name, place)
        set_mode(place, before.mode)
        with suppress(PermissionError):
            # Only the owner of a file may set its mtime.
            os.utime(place, ns=(before.modified, before.modified))
        return True

    def _load_index(self) -> bool:
        """Read the index; return whether it is valid."""
        try:
            index = json.loads((self.store / _INDEX).read_bytes())
            self._number, self._mode = index["number"], index.get("mode", 0)
            self.kept = {path: StatFingerprint(*facts) for path, (facts, _) in index["paths"].items()}
            self._names = {path: name for path, (_, name) in index["paths"].items() if name}
            self._pending = dict.fromkeys(index.get("laid", ()))
            self._locked = set(index.get("locked", ()))
            self._ignored = {path: StatFingerprint(*facts) for path, facts in index.get("ignored", {}).items()}
            self._rules = dict(index.get("rules", {}))
            self._git_folders = tuple(index.get("git", (GIT_FOLDER,)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.kept, self._names = {}, {}
            return False
        return True

    def _save_index(self) -> None:
        index = {
            "number": self._number,
            "mode": self._mode,
            "laid": sorted(self._pending),
            "locked": sorted(self._locked),
            "ignored": {path: astuple(facts) for path, facts in self._ignored.items()},
            "rules": dict(self._rules),
            "git": self._git_folders,
            "paths": {path: (astuple(facts), self._names.get(path, "")) for path, facts in self.kept.items()},
        }
        temporary = self.store / f"{_INDEX}.new"
        with temporary.open("w", encoding="ascii") as file:
            json.dump(index, file)
            file.flush()
            # Flush it, so that it is complete after a power cut.
            os.fsync(file.fileno())
        temporary.replace(self.store / _INDEX)

    def _remove_unnamed_copies(self) -> int:
        """Remove copies that the index does not name; return the number of bytes freed."""
        wanted = set(self._names.values()) | {_INDEX, _MARK, _LOCK}
        freed = 0
        for place in self.store.iterdir():
            if place.name not in wanted:
                facts = place.lstat()
                freed += facts.st_blocks * 512 if facts.st_nlink == 1 else 0
                place.unlink()
        return freed

    def prune(self, before: float) -> int:
        """Remove all copies if no command ran since a time (Unix), or is to be undone; return the bytes freed.

        Raises:
            OSError: A command is running, or the copies can't be removed.
        """
        with self.locked(wait=False):
            if self.store.stat().st_mtime >= before or self.marker_file.exists():
                return 0
            (self.store / _INDEX).unlink(missing_ok=True)
            return self._remove_unnamed_copies()


def prune_workspace_backups(state: Path, before: float) -> int:
    """Remove the copies of workspaces in which no command ran since a time (Unix); return the bytes freed."""
    freed = 0
    for store in state.glob(f"{_STORE}*"):
        with suppress(OSError):
            freed += WorkspaceBackup(store, store).prune(before)
    return freed


def locate_workspace_backup(root: Path, state: Path) -> WorkspaceBackup:
    """Return the backup of a workspace, with its store below `state`; nothing is copied yet."""
    return WorkspaceBackup(root, state / f"{_STORE}{hash_as_file_name(root)}")


def _identity(facts: StatFingerprint) -> tuple[int, ...]:
    """Return what stays the same when a file or folder is moved."""
    return facts.inode, facts.mode, facts.size, facts.modified


def _is_git_object(path: str) -> bool:
    return path.startswith(f"{GIT_OBJECTS_FOLDER}/")


def _link_or_copy(source: Path, target: Path) -> bool:
    """Make a hard link to a file, or a copy where the system refuses the link; return whether it is a link.

    Raises:
        OSError: Neither can be made.
    """
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
        return False
    return True


def _describe_refusal(policy: StagingPathPolicy, path: str) -> str:
    reason = policy.refusal_reason(path, in_ignored=False)
    return f"{path}: {reason}" if reason else ""


def _path_and_parents(path: str) -> Iterator[str]:
    names = path.split("/")
    for end in range(len(names)):
        yield "/".join(names[: end + 1])


def _write_pending(pending: PendingFiles, folder: Path) -> None:
    """Write pending changes to a folder, as an approval would. Raises OSError."""
    for path, leaf in pending.items():
        place = folder / path
        if leaf is None and _is_file_or_link(place) and not _blocking_leaf(folder, path):
            place.unlink()
            with suppress(OSError):
                for above in Path(path).parents[:-1]:
                    (folder / above).rmdir()
    for path, leaf in sorted(pending.items()):
        if leaf is None:
            continue
        place = folder / path
        for blocking in _blocking_leaf(folder, path):
            blocking.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink() or (leaf.is_link and _is_file_or_link(place)):
            place.unlink()
        elif place.is_dir():
            try:
                for below, _, _ in os.walk(place, topdown=False):
                    Path(below).rmdir()
            except OSError as error:
                # The backup does not contain an ignored file.
                why = f"a proposal makes the folder {path} a file, and ignored files are in it"
                raise OSError(error.errno, why) from error
        elif place.exists():
            # Overwrite the file and don't replace it: its hard links and its owner stay.
            with suppress(PermissionError):
                place.chmod(0o600)
        write_file_or_link(place, leaf)


def _is_file_or_link(place: Path) -> bool:
    return os.path.lexists(place) and (place.is_symlink() or not place.is_dir())


def _blocking_leaf(folder: Path, path: str) -> list[Path]:
    """Return the first file or link above a path, if there is one. Links are not followed: they may lead outside."""
    return [place for above in reversed(Path(path).parents[:-1]) if _is_file_or_link(place := folder / above)][:1]
