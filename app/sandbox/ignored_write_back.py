"""Writes ignored files of a layer back to the workspace, except those that another program has changed or opened.

A file is written if it differs from the workspace's version, and if that version has not changed since the layer was
filled. The check uses its ctime, which no program can set. The new file replaces the old one atomically. The old file
is checked once more before it is removed, and put back if a program has written to it. Versions that can't be written
are kept in another folder.
"""

import errno
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from msgspec import Struct, field

from app.copies import replace
from app.sandbox.captured_changes import IgnoredPathsWriteBackReport, WrittenIgnoredPath
from app.sandbox.files_and_links import (
    FileInUse,
    FileLease,
    copy_file_content,
    exchange_files,
    folder_or_nonexistent_path,
    has_same_content_and_mode,
    lstat_or_none,
    path_below_without_links,
    rename_without_replacing,
)
from app.sandbox.path_policy import SQLITE_SUFFIXES, is_bytecode, list_folder, stat_fingerprint
from app.sandbox.run_folders import move_to_unused_workspace_path, remove_entry
from app.sandbox.upper_layer import is_opaque, is_whiteout
from app.workspace.path_rules import is_folder_path_too_deep_or_long
from app.workspace.reading import read_regular_file

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OVERLAY_ATTRIBUTE_PREFIX = "user.overlay."
_COPIED_UP_ATTRIBUTE = f"{_OVERLAY_ATTRIBUTE_PREFIX}origin"
_SQLITE_HEADER = b"SQLite format 3\0"
_CHANGED_REASON = "changed by someone else meanwhile"
_IN_USE_REASON = "open in another program"


class _FolderPair(Struct, frozen=True):
    """A folder of the layer, and the corresponding folder of the workspace."""

    layer: Path
    """The folder of the layer; the path may be missing, or not be a folder, but it is never a link."""
    folder: int
    """Open descriptor of the workspace's folder; -1 if it is missing and not created."""
    path: str
    """Its workspace path."""
    merged: bool
    """Whether entries of the workspace are visible through the layer."""
    top: str
    """The ignored path that contains this folder; changed files are counted under it."""
    is_changed: bool = True
    """Whether another program may have added or removed entries of the workspace's folder."""

    def join(self, name: str) -> str:
        """Return the workspace path of an entry."""
        return f"{self.path}/{name}" if self.path else name

    def stat(self, name: str) -> os.stat_result | None:
        """Return the stat result of an entry in the workspace; None if it is missing."""
        try:
            return os.stat(name, dir_fd=self.folder, follow_symlinks=False) if self.folder >= 0 else None
        except FileNotFoundError:
            return None

    def fd_path(self, name: str) -> Path:
        """Return a path to an entry in the workspace that stays valid when a parent folder is moved."""
        return Path(f"/proc/self/fd/{self.folder}", name)


class _FileToWrite(Struct):
    """A file or link that the command may have changed."""

    name: str
    source: Path
    """Path of the command's version."""
    ours: os.stat_result | None
    """The command's version; None if the command has removed the file, or the layer has no entry."""
    there: os.stat_result | None
    """The workspace's version; None if it is missing."""
    differs: bool
    """Whether the two versions have different contents."""
    copied: bool
    """Whether the kernel copied it from the workspace: the command opened it, but may not have written to it."""
    lease: FileLease | None = None
    replaced: Path | None = None
    """Path to which the workspace's version was moved."""
    put: int = -1
    """Open descriptor of the command's version in the workspace; meanwhile no new file can get its inode."""

    def is_put(self, path: Path) -> bool:
        """Return whether the file at a path is the command's version that was put in the workspace."""
        return self.put >= 0 and os.path.samestat(path.lstat(), os.fstat(self.put))

    @property
    def is_unchanged(self) -> bool:
        """Return whether no program has written to or opened the replaced file since it was compared."""
        if self.lease is not None and not self.lease.is_unbroken:
            return False
        if self.replaced is None or self.there is None:
            return True
        # Ignore the ctime, which the move has changed.
        now, then = stat_fingerprint(self.replaced.lstat()), stat_fingerprint(self.there)
        return replace(now, changed=then.changed) == then


class IgnoredFileWriter(Struct):
    """Writes git-ignored files from the layer of a command back to the workspace.

    An instance serves one call of `write`, because it moves files out of the layer.
    """

    root: Path
    """The workspace."""
    layer: Path
    """Upper folder of the overlay over it."""
    since: int
    """ctime in nanoseconds; a workspace file with a later ctime was changed by another program."""
    new_kept_folder: Callable[[], Path]
    """Creates the folder for versions that can't be written."""
    dry: bool = False
    """Change nothing, and only count."""
    copies: bool = False
    """Copy entries of the layer: a program that keeps running may have them open, and could write to moved ones."""
    _written: Counter[str] = field(default_factory=Counter)
    _removed: Counter[str] = field(default_factory=Counter)
    _left: dict[str, str] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _kept: Path | None = None
    _number: int = 0

    def write(self, paths: Iterable[str]) -> IgnoredPathsWriteBackReport:
        """Write paths to the workspace with the content that they have in the layer.

        Args:
            paths: Ignored paths, none of them inside another one; no parent folder is a link.
        """
        tops = {path: any(_is_folder(place / path) for place in (self.layer, self.root)) for path in paths}
        folders: dict[str, dict[str, str]] = {}
        for path in tops:
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, {})[name] = path
        # Sorted, because a missing folder is created in the one above it.
        for folder, names in sorted(folders.items()):
            try:
                self._write_root_entries(folder, names)
            except OSError as error:
                for path in names.values():
                    self._note_failure(path, error)
        counted = [
            WrittenIgnoredPath(f"{path}/" if is_folder else path, self._written[path], self._removed[path])
            for path, is_folder in tops.items()
        ]
        written = tuple(each for each in counted if each.written or each.removed)
        return IgnoredPathsWriteBackReport(written, self._left, self._failed, self._kept)

    def _write_root_entries(self, folder: str, names: dict[str, str]) -> None:
        layer, merged, existed = self.layer, True, os.path.lexists(self.root / folder)
        with ExitStack() as stack:
            target = os.open(self.root, _FOLDER_FLAGS)
            stack.callback(os.close, target)
            for name in filter(None, folder.split("/")):
                layer = folder_or_nonexistent_path(layer / name)
                merged = merged and not is_whiteout(layer) and not is_opaque(layer)
                target = _open_subfolder(target, name, make=not self.dry and os.path.lexists(layer))
                if target >= 0:
                    stack.callback(os.close, target)
            if target >= 0 or self.dry:
                is_changed = (existed or _was_copied_up(layer)) and self._is_changed(target)
                self._write_entries(_FolderPair(layer, target, folder, merged, "", is_changed), names)

    def _write_entries(self, at: _FolderPair, tops: dict[str, str] | None = None) -> None:
        """Write the entries of a folder.

        Args:
            tops: The names to write, each with the ignored path that contains it; None for all names.
        """
        _check_depth(at.path)
        theirs = set(os.listdir(at.folder)) if at.folder >= 0 else set()  # noqa: PTH208 - an open folder
        if not self.dry and _is_folder(at.layer):
            # Entries are moved out of it, and the command may have made it unwritable.
            at.layer.chmod(stat.S_IMODE(at.layer.lstat().st_mode) | stat.S_IRWXU)
        ours = {entry.name for entry in list_folder(at.layer, unlock=True)} if _is_folder(at.layer) else set()
        names = tops if tops is not None else dict.fromkeys(ours if at.merged else ours | theirs, at.top)
        done: set[str] = set()
        # Removals last: if signoff is killed between, a moved file is in both places rather than in none.
        for name in sorted(names, key=lambda name: (name not in ours or is_whiteout(at.layer / name), name)):
            if name in done:
                continue
            here = replace(at, top=names[name])
            database = self._database_files(here, name, ours, theirs)
            if any(each not in names and (each in ours or not at.merged) for each in database):
                # A changed file that git does not ignore waits for a review.
                database = []
            done.update(database)
            try:
                if database:
                    self._write_files(here, database, exclusive=True)
                else:
                    self._write_entry(here, name)
            except OSError as error:
                if tops is None:
                    raise
                self._note_failure(names[name], error)

    def _database_files(self, at: _FolderPair, name: str, ours: set[str], theirs: set[str]) -> list[str]:
        """Return the files of the SQLite database that `name` belongs to; empty if it belongs to none."""
        base = next((name.removesuffix(end) for end in SQLITE_SUFFIXES if name.endswith(end)), name)
        names = [path for path in (base, *(base + end for end in SQLITE_SUFFIXES)) if path in ours or path in theirs]
        if base not in names or (len(names) < 2 and not (base in theirs and _is_sqlite(at.fd_path(base)))):
            return []
        if is_bytecode(at.join(base), is_folder=False):
            return []
        places = [place / each for each in names for place in (at.layer, at.fd_path("."))]
        return [] if any(map(_is_folder, places)) else names

    def _write_entry(self, at: _FolderPair, name: str) -> bool:
        """Write one entry of the layer; return whether the workspace now matches the layer."""
        source, there = at.layer / name, at.stat(name)
        facts = lstat_or_none(source)
        if facts is None and at.merged:
            return True
        was_folder = there is not None and stat.S_ISDIR(there.st_mode)
        if facts is None or is_whiteout(source):
            return self._remove_folder(at, name) if was_folder else self._write_files(at, [name])
        is_folder = stat.S_ISDIR(facts.st_mode)
        if is_bytecode(at.join(name), is_folder=is_folder) and not (is_folder and was_folder):
            return True
        if is_folder:
            return self._write_folder(at, name, facts)
        if was_folder and not self._remove_folder(at, name):
            self._skip_and_keep_version(at, name, source, _CHANGED_REASON)
            return False
        return self._write_files(at, [name])

    def _write_folder(self, at: _FolderPair, name: str, facts: os.stat_result) -> bool:
        source, there = at.layer / name, at.stat(name)
        if there is not None and not stat.S_ISDIR(there.st_mode):
            if not self._write_files(at, [name], gone=True):
                self._skip_and_keep_version(at, name, source, _CHANGED_REASON)
                return False
            there = None
        merged = at.merged and not is_opaque(source)
        if there is None and not (at.merged and _was_copied_up(source)):
            if self.dry:
                self._written[at.top] += _clean_new_folder(source, at.join(name), dry=True)
                return True
            if self._move_new_folder(at, name, facts):
                return True
        self._merge_folder(at, name, facts, merged=merged)
        return True

    def _move_new_folder(self, at: _FolderPair, name: str, facts: os.stat_result) -> bool:
        """Move a new folder to the workspace as a whole; return False if the name exists there."""
        source = at.layer / name
        count = _clean_new_folder(source, at.join(name))
        source.chmod(stat.S_IMODE(facts.st_mode) | stat.S_IRWXU)
        try:
            self._move_or_copy_entry(at, source, lambda place: rename_without_replacing(place, at.folder, name))
        except (FileExistsError, NotADirectoryError):
            return False
        os.chmod(name, stat.S_IMODE(facts.st_mode), dir_fd=at.folder)
        self._written[at.top] += count
        return True

    def _merge_folder(self, at: _FolderPair, name: str, facts: os.stat_result, *, merged: bool) -> None:
        """Write the contents of a folder; create the folder if it is missing."""
        source, mode, inner, made = at.layer / name, stat.S_IMODE(facts.st_mode), -1, False
        if not self.dry:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=at.folder)
                made = True
        with suppress(FileNotFoundError):
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=at.folder) if at.folder >= 0 else -1
        try:
            is_changed = self._is_changed(inner)
            if not self.dry:
                # The command may have made it writable and then unwritable again.
                _set_mode(inner, mode | stat.S_IRWXU)
                source.chmod(mode | stat.S_IRWXU)
            self._write_entries(_FolderPair(source, inner, at.join(name), merged, at.top, is_changed))
            if not self.dry:
                _set_mode(inner, mode)
        finally:
            if inner >= 0:
                os.close(inner)
        if made:
            # The folder was created here; remove it if nothing was written to it.
            with suppress(OSError):
                os.rmdir(name, dir_fd=at.folder)

    def _remove_folder(self, at: _FolderPair, name: str) -> bool:
        """Remove a folder that the command has removed; files in it that another program has changed stay."""
        inner = os.open(name, _FOLDER_FLAGS, dir_fd=at.folder)
        try:
            layer = folder_or_nonexistent_path(at.layer / name)
            self._write_entries(_FolderPair(layer, inner, at.join(name), merged=False, top=at.top))
        finally:
            os.close(inner)
        try:
            if not self.dry:
                os.rmdir(name, dir_fd=at.folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        return True

    # Files

    def _write_files(self, at: _FolderPair, names: list[str], *, exclusive: bool = False, gone: bool = False) -> bool:
        """Write files to the workspace with the content of the layer, all of them or none.

        Args:
            exclusive: Write only if no other program has one of them open, even for reading.
            gone: Remove them, even if the layer has entries with these names.

        Returns:
            Whether the workspace matches the layer.
        """
        leaves = [self._plan_file(at, name, gone=gone) for name in names]
        changed = [leaf for leaf in leaves if leaf.differs]
        if not changed:
            if not exclusive:
                self._copy_mtime(at, leaves[0])
            return True
        why = next(filter(None, (self._conflict_reason(leaf, at) for leaf in leaves)), "")
        if not why and not self.dry:
            why = self._replace_files(at, leaves, changed, exclusive=exclusive)
        if not why:
            for leaf in changed:
                (self._removed if leaf.ours is None else self._written)[at.top] += 1
        elif not all(map(self._is_only_copied, changed)):
            for leaf in changed:
                self._skip_and_keep_version(at, leaf.name, leaf.source if leaf.ours is not None else None, why)
        return not why

    def _plan_file(self, at: _FolderPair, name: str, *, gone: bool) -> _FileToWrite:
        source, there = at.layer / name, at.stat(name)
        ours = None if gone else lstat_or_none(source)
        untouched = ours is None and at.merged and not gone
        if untouched or ours is None or (stat.S_ISCHR(ours.st_mode) and ours.st_rdev == 0):
            return _FileToWrite(name, source, None, there, differs=not untouched and there is not None, copied=False)
        differs = there is None or not has_same_content_and_mode(source, at.fd_path(name))
        return _FileToWrite(name, source, ours, there, differs=differs, copied=at.merged and _was_copied_up(source))

    def _is_changed(self, folder: int) -> bool:
        return folder < 0 or os.fstat(folder).st_ctime_ns > self.since

    def _conflict_reason(self, leaf: _FileToWrite, at: _FolderPair) -> str:
        """Return how another program has changed a file, which must not be written then; empty if unchanged."""
        if leaf.there is None:
            # In an unchanged folder, the command has moved the file there.
            return "removed by someone else meanwhile" if leaf.copied and at.is_changed else ""
        return _CHANGED_REASON if leaf.there.st_ctime_ns > self.since else ""

    def _is_only_copied(self, leaf: _FileToWrite) -> bool:
        """Return whether the command only opened a file for writing: the copy then keeps the original's mtime."""
        if leaf.ours is None or leaf.there is None:
            return False
        return leaf.copied and leaf.ours.st_mtime_ns < self.since

    def _copy_mtime(self, at: _FolderPair, leaf: _FileToWrite) -> None:
        """Give a file with equal content the mtime of the command's version, because build tools compare it."""
        ours, there = leaf.ours, leaf.there
        if (
            ours is None
            or there is None
            or self.dry
            or self._conflict_reason(leaf, at)
            or ours.st_mtime_ns == there.st_mtime_ns
        ):
            return
        with suppress(PermissionError):
            times = (ours.st_atime_ns, ours.st_mtime_ns)
            os.utime(leaf.name, ns=times, dir_fd=at.folder, follow_symlinks=False)

    def _replace_files(
        self, at: _FolderPair, leaves: list[_FileToWrite], changed: list[_FileToWrite], *, exclusive: bool
    ) -> str:
        """Replace files. If another program uses or changes one of them, undo all, and return the reason."""
        done: list[_FileToWrite] = []
        with ExitStack() as stack:
            try:
                for leaf in leaves:
                    if leaf.there is not None and stat.S_ISREG(leaf.there.st_mode):
                        leaf.lease = stack.enter_context(
                            closing(FileLease(at.folder, leaf.name, exclusive=exclusive))
                        )
                for leaf in leaves:
                    now = at.stat(leaf.name)
                    if (now and stat_fingerprint(now)) != (leaf.there and stat_fingerprint(leaf.there)):
                        return _CHANGED_REASON
                for leaf in changed:
                    self._swap_in_version(at, leaf, stack)
                    done.append(leaf)
                if all(leaf.is_unchanged for leaf in done):
                    for leaf in done:
                        if leaf.replaced is not None:
                            leaf.replaced.unlink()
                    return ""
            except FileInUse:
                return _IN_USE_REASON
            except (FileExistsError, FileNotFoundError):
                self._undo_replacements(at, done)
                return _CHANGED_REASON
            except OSError:
                self._undo_replacements(at, done)
                raise
            self._undo_replacements(at, done)
            return _CHANGED_REASON

    def _swap_in_version(self, at: _FolderPair, leaf: _FileToWrite, stack: ExitStack) -> None:
        """Put the command's version into the workspace, and move the workspace's version to `leaf.replaced`."""
        if leaf.ours is None:
            leaf.replaced = self._move_out_of_workspace(at, leaf.name)
            return

        def move(place: Path) -> None:
            leaf.put = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, leaf.put)
            if leaf.there is None:
                rename_without_replacing(place, at.folder, leaf.name)
            else:
                exchange_files(place, at.folder, leaf.name)
                leaf.replaced = place

        _strip_entry(leaf.source)
        self._move_or_copy_entry(at, leaf.source, move)

    def _undo_replacements(self, at: _FolderPair, done: list[_FileToWrite]) -> None:
        """Put replaced files back; a file that another program has put there stays, and the old one is stored."""
        for leaf in reversed(done):
            if leaf.put >= 0 and leaf.replaced is not None:
                self._exchange_back(at, leaf, leaf.replaced)
                continue
            with suppress(FileNotFoundError):
                out = leaf.replaced or self._move_out_of_workspace(at, leaf.name)
                if leaf.is_put(out):
                    leaf.source = out
                else:
                    self._move_back(at, leaf.name, out)

    def _exchange_back(self, at: _FolderPair, leaf: _FileToWrite, place: Path) -> None:
        """Exchange the command's version with the file that it replaced, only if it is still in the workspace."""
        expected = os.fstat(leaf.put)
        with suppress(FileNotFoundError, FileExistsError):
            while (there := at.stat(leaf.name)) is not None and os.path.samestat(there, expected):
                given = place.lstat()
                exchange_files(place, at.folder, leaf.name)
                if os.path.samestat(place.lstat(), expected):
                    break
                # Another program has replaced it just before: put that file back.
                expected = given
        if leaf.is_put(place):
            leaf.source = place
        else:
            self._keep_version(place, at.join(leaf.name))

    def _move_back(self, at: _FolderPair, name: str, place: Path) -> None:
        try:
            rename_without_replacing(place, at.folder, name)
        except (FileExistsError, FileNotFoundError):
            self._keep_version(place, at.join(name))

    def _unused_path_outside_workspace(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="replaced-", dir=self.layer.parent), "entry")

    def _copy_outside_workspace(self, source: Path) -> Path | None:
        """Copy an entry of the layer; return the path of the copy, None for kinds that are not copied (a pipe)."""
        copy = self._unused_path_outside_workspace()
        return copy if _copy_entry(source, copy) else None

    def _move_out_of_workspace(self, at: _FolderPair, name: str) -> Path:
        """Move a file out of the workspace; return its new path."""
        aside = self._unused_path_outside_workspace()
        try:
            os.rename(name, aside, src_dir_fd=at.folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            aside = self._unused_path(at)
            os.rename(name, aside, src_dir_fd=at.folder)
        return aside

    def _move_or_copy_entry(self, at: _FolderPair, source: Path, move: Callable[[Path], None]) -> None:
        """Call `move` with a file or folder of the layer; on another file system, with a copy beside the target."""
        movable = self._copy_outside_workspace(source) if self.copies else source
        if movable is None:
            return
        try:
            move(movable)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            beside = self._unused_path(at)
            try:
                if _copy_entry(movable, beside):
                    move(beside)
            except BaseException:
                remove_entry(beside)
                raise

    def _unused_path(self, at: _FolderPair) -> Path:
        """Return an unused path beside the target."""
        while True:
            self._number += 1
            place = at.fd_path(f".signoff-{os.getpid()}-{self._number}.tmp")
            if lstat_or_none(place) is None:
                return place

    # Versions that can't be written

    def _note_failure(self, path: str, error: OSError) -> None:
        self._failed[path] = (error.strerror or str(error)).lower()
        if not self.dry:
            with suppress(OSError):
                self._keep_version(path_below_without_links(self.layer, path), path)

    def _skip_and_keep_version(self, at: _FolderPair, name: str, source: Path | None, why: str) -> None:
        """Leave a path of the workspace unchanged, and keep the command's version in another folder."""
        self._left[at.join(name)] = why
        if source is not None and not self.dry:
            self._keep_version(source, at.join(name))

    def _keep_version(self, source: Path, path: str) -> None:
        facts = lstat_or_none(source)
        if facts is None or not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode) or _is_folder(source)):
            return
        if stat.S_ISDIR(facts.st_mode):
            _clean_new_folder(source, path)
        self._kept = self._kept or self.new_kept_folder()
        if self.copies and source.is_relative_to(self.layer):
            source = self._copy_outside_workspace(source) or source
        move_to_unused_workspace_path(source, self._kept, path)


def _open_subfolder(above: int, name: str, *, make: bool) -> int:
    """Open a folder in an open one; return -1 if it is missing and not created."""
    if above < 0:
        return -1
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
        return os.open(name, _FOLDER_FLAGS, dir_fd=above)
    except FileNotFoundError:
        return -1


def _copy_entry(source: Path, target: Path) -> bool:
    """Copy a file, link or folder of the layer; return False for other kinds (a pipe), which are not copied."""
    facts = source.lstat()
    if stat.S_ISLNK(facts.st_mode):
        target.symlink_to(source.readlink())
        return True
    if stat.S_ISDIR(facts.st_mode):
        target.mkdir()
        for entry in list_folder(source, unlock=True):
            _copy_entry(Path(entry.path), target / entry.name)
    elif stat.S_ISREG(facts.st_mode):
        # signoff owns the files of the layer, so it can make files readable that a command has made unreadable.
        source.chmod(facts.st_mode | stat.S_IRUSR)
        copy_file_content(source, target)
    else:
        return False
    target.chmod(stat.S_IMODE(facts.st_mode))
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return True


def _clean_new_folder(folder: Path, path: str, *, dry: bool = False) -> int:
    """Remove overlay attributes, whiteouts and bytecode from a new folder of the layer.

    Args:
        dry: Only count.

    Returns:
        The number of its files and links.

    Raises:
        OSError: ENAMETOOLONG if folders are nested too deep.
    """
    _check_depth(path)
    mode, count = folder.lstat().st_mode, 0
    entries = list_folder(folder, unlock=True)
    if not dry:
        folder.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
    for entry in entries:
        place, inside, is_folder = Path(entry.path), f"{path}/{entry.name}", entry.is_dir(follow_symlinks=False)
        if is_whiteout(place) or is_bytecode(inside, is_folder=is_folder):
            if not dry:
                remove_entry(place)
        elif is_folder:
            count += _clean_new_folder(place, inside, dry=dry)
        else:
            count += 1
            if not dry:
                _strip_entry(place)
    if not dry:
        _strip_entry(folder)
        folder.chmod(stat.S_IMODE(mode))
    return count


def _check_depth(path: str) -> None:
    if is_folder_path_too_deep_or_long(path):
        raise OSError(errno.ENAMETOOLONG, "folders are nested too deep", path)


def _strip_entry(path: Path) -> None:
    """Remove the overlay's own attributes, and the bits that let others run a file as its owner or its group."""
    with suppress(OSError):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
            path.chmod(stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))
        for name in os.listxattr(path, follow_symlinks=False):
            if name.startswith(_OVERLAY_ATTRIBUTE_PREFIX):
                os.removexattr(path, name, follow_symlinks=False)


def _was_copied_up(path: Path) -> bool:
    """Return whether the kernel copied a file from the workspace, that is, the command did not create it."""
    try:
        os.getxattr(path, _COPIED_UP_ATTRIBUTE, follow_symlinks=False)
    except OSError:
        return False
    return True


def _is_sqlite(path: Path) -> bool:
    try:
        return read_regular_file(path, len(_SQLITE_HEADER), allow_truncated=True)[0] == _SQLITE_HEADER
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    facts = lstat_or_none(path)
    return facts is not None and stat.S_ISDIR(facts.st_mode)


def _set_mode(folder: int, mode: int) -> None:
    if stat.S_IMODE(os.fstat(folder).st_mode) != mode:
        os.fchmod(folder, mode)
