"""The upper layer of an overlay: filled with pending changes before a command, and scanned for changes after it.

Its format is described in the kernel's documentation (Documentation/filesystems/overlayfs.rst). A changed file is
stored completely. A removed file is a character device 0/0 (a *whiteout*). A folder that replaces a lower one has the
attribute `user.overlay.opaque`.
"""

import os
import stat
from pathlib import Path

from app.sandbox.captured_changes import ChangedPathWithSize, CommandFileChanges, PathChange, PendingFiles
from app.sandbox.confinement import ChangedByCommandAndOtherProgram
from app.sandbox.files_and_links import (
    folder_or_nonexistent_path,
    has_same_content_and_mode,
    lstat_or_none,
    path_below_without_links,
    read_file_or_link,
    write_file_or_link,
)
from app.sandbox.path_policy import StagingPathPolicy, list_folder
from app.workspace.reading import read_regular_file

_OPAQUE_ATTRIBUTE = "user.overlay.opaque"
_MAX_RULES_BYTES = 4096


class UpperLayer:
    """The upper folder of an overlay over a workspace: applies pending changes and reads a command's changes.

    Args:
        root: The workspace, which is the lower folder.
        folder: The upper folder, initially empty.
        pending: The pending changes, which are applied before the command.
    """

    def __init__(self, root: Path, folder: Path, pending: PendingFiles) -> None:
        self._root = root
        self._folder = folder
        self._pending = pending
        self.filled_at = 0
        """ctime in nanoseconds; a workspace file with a later ctime was changed by another program."""

    def write_pending(self) -> None:
        """Write the pending changes to the layer. Raises OSError."""
        modes = {self._folder: _mode(self._root)}
        self._folder.chmod(stat.S_IRWXU)
        for path, leaf in sorted(self._pending.items()):
            if leaf is not None:
                self._make_folders(path, modes)
                write_file_or_link(self._folder / path, leaf)
        for path, leaf in sorted(self._pending.items(), reverse=True):
            if leaf is None:
                self._remove_path(path, modes)
        # Set modes last: nothing can be created in an unwritable folder. This also sets the upper folder's ctime.
        for place, mode in modes.items():
            if place.is_dir():
                place.chmod(stat.S_IMODE(mode))
        self.filled_at = self._folder.stat().st_ctime_ns

    def find_changes(self, policy: StagingPathPolicy) -> CommandFileChanges:
        """Return the changes that the command has made, reading as few contents as possible. Raises OSError."""
        scan = _LayerScan(self._root, self._folder, self._pending, policy)
        scan.folder("", hidden=False, ignored=False)
        # A pending file that the command removed leaves no entry in the layer.
        for path, leaf in self._pending.items():
            if (
                leaf is not None
                and path not in scan.seen
                and not os.path.lexists(path_below_without_links(self._folder, path))
            ):
                scan.note_removed_leaf(path)
        touched = [each for path, each in sorted(scan.touched.items()) if self._differs_from_before(path)]
        return CommandFileChanges(tuple(touched), tuple(sorted(scan.left_out)), tuple(sorted(scan.ignored_paths)))

    def read_change(self, path: str, limit: int) -> PathChange:
        """Return one of the changes with its contents.

        Raises:
            OSError: It can't be read, or has more than `limit` bytes (EFBIG).
            ChangedByCommandAndOtherProgram: Another program has changed the file on disk while the command ran.
        """
        if path in self._pending:
            before = self._pending[path]
        else:
            lower = path_below_without_links(self._root, path)
            before = read_file_or_link(lower, limit)
            if before is not None and lower.lstat().st_ctime_ns > self.filled_at:
                raise ChangedByCommandAndOtherProgram(path)
        return PathChange(path, before, read_file_or_link(path_below_without_links(self._folder, path), limit))

    def _differs_from_before(self, path: str) -> bool:
        before = self._pending[path] if path in self._pending else path_below_without_links(self._root, path)
        return not has_same_content_and_mode(path_below_without_links(self._folder, path), before)

    def _make_folders(self, path: str, modes: dict[Path, int]) -> None:
        for above in reversed(Path(path).parents[:-1]):
            place = self._folder / above
            if not place.is_dir():
                place.mkdir()
                # The layer's folder hides the lower one, so it needs the same mode.
                below = _mode(self._root / above)
                if stat.S_ISDIR(below):
                    modes[place] = below

    def _remove_path(self, path: str, modes: dict[Path, int]) -> None:
        """Remove a path, and the folders that become empty, as an approval would."""
        if os.path.lexists(self._folder / path) or not self._is_visible(Path(path)) or not _mode(self._root / path):
            return
        self._make_folders(path, modes)
        os.mknod(self._folder / path, stat.S_IFCHR, 0)
        for above in Path(path).parents[:-1]:
            place = self._folder / above
            there = list(place.iterdir())
            if not all(map(is_whiteout, (*there, *(place / entry.name for entry in (self._root / above).iterdir())))):
                return
            for each in there:
                each.unlink()
            place.rmdir()
            os.mknod(place, stat.S_IFCHR, 0)

    def _is_visible(self, path: Path) -> bool:
        """Return whether no folder above a path is replaced by a file."""
        return all(
            (place := self._folder / above).is_dir() or not os.path.lexists(place) for above in path.parents[:-1]
        )


class _LayerScan:
    """Walks the layer once and collects the changes."""

    def __init__(self, root: Path, folder: Path, pending: PendingFiles, policy: StagingPathPolicy) -> None:
        self._root = root
        self._folder = folder
        self._pending = pending
        self._policy = policy
        self.touched: dict[str, ChangedPathWithSize] = {}
        self.seen: set[str] = set()
        self.left_out: set[str] = set()
        self.ignored_paths: set[str] = set()

    def folder(self, folder: str, *, hidden: bool, ignored: bool) -> None:
        """Walk a folder of the layer.

        Args:
            folder: Path of the folder; empty for the root.
            hidden: Whether the layer hides the lower folder.
            ignored: Whether the folder lies in an ignored one; tracked and pending paths in it are still reported.
        """
        lower_folder = folder_or_nonexistent_path(path_below_without_links(self._root, folder))
        # signoff owns the layer, so it can read folders that a command made unreadable.
        for entry in list_folder(self._folder / folder, unlock=True):
            path = f"{folder}/{entry.name}" if folder else entry.name
            facts = entry.stat(follow_symlinks=False)
            lower = _mode(lower_folder / entry.name)
            self._scan_entry(path, facts, 0 if hidden else lower, lower, ignored=ignored)

    def note_removed_leaf(self, path: str) -> None:
        """Report that a file or link was removed, unless it is ignored."""
        if not self._is_not_reported(path, is_folder=False, ignored=False):
            self._add_change(path, 0, is_gone=True)

    def _scan_entry(self, path: str, facts: os.stat_result, below: int, lower: int, *, ignored: bool) -> None:
        """Report an entry of the layer.

        Args:
            below: The mode of the lower entry that it changes; 0 if there is none, or the layer hides it.
            lower: The mode of the entry in the workspace; 0 if there is none.
        """
        gone = _has_no_device(facts)
        is_folder = stat.S_ISDIR(below if gone else facts.st_mode)
        if self._is_not_reported(path, is_folder=is_folder, ignored=ignored, lower=lower):
            return
        ignored = ignored or self._is_ignored(path, is_folder=is_folder, lower=lower)
        if gone:
            self._note_removed(path, below, ignored=ignored)
        elif stat.S_ISDIR(facts.st_mode):
            merged = stat.S_ISDIR(below) and not is_opaque(self._folder / path)
            self.folder(path, hidden=not merged, ignored=ignored)
            if not merged:
                self._note_removed(path, below, ignored=ignored)
        elif stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode):
            self._add_change(path, facts.st_size)
            if stat.S_ISDIR(below):
                self._note_removed(path, below, ignored=ignored)
        else:
            self.left_out.add(f"{path}: not a regular file")

    def _note_removed(self, path: str, below: int, *, ignored: bool) -> None:
        """Report the removal of a path of the workspace that is not in the layer."""
        if not stat.S_ISDIR(below):
            if below and path not in self.seen:
                self._add_change(path, 0, is_gone=True)
            return
        with os.scandir(self._root / path) as scan:
            for entry in scan:
                inside = f"{path}/{entry.name}"
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and stat.S_IFMT(_mode(path_below_without_links(self._folder, inside))) not in (
                    0,
                    stat.S_IFDIR,
                ):
                    continue
                if self._is_not_reported(inside, is_folder=is_folder, ignored=ignored):
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                self._note_removed(
                    inside, mode, ignored=ignored or self._policy.is_ignored(inside, is_folder=is_folder)
                )

    def _is_ignored(self, path: str, *, is_folder: bool, lower: int) -> bool:
        """Return whether an entry is ignored; if it replaces a file by a folder or vice versa, both must be."""
        kinds = {is_folder, stat.S_ISDIR(lower)} if lower else {is_folder}
        return all(self._policy.is_ignored(path, is_folder=each) for each in kinds)

    def _is_not_reported(self, path: str, *, is_folder: bool, ignored: bool, lower: int = 0) -> bool:
        """Return whether a path is not reported as a change, because it is ignored, dropped or unsupported."""
        if reason := self._policy.refusal_reason(path, in_ignored=ignored):
            self.left_out.add(f"{path}: {reason}")
            return True
        ignored = ignored or self._is_ignored(path, is_folder=is_folder, lower=lower)
        if not ignored and self._policy.is_untracked_bytecode(path, is_folder=is_folder):
            return True
        if is_folder and self._policy.is_tool_cache(path) and not ignored:
            if not self._ignores_itself(self._root / path):
                self.left_out.add(f"{path}: a cache that git does not ignore")
                return True
            self.ignored_paths.add(path)
            return True
        if not ignored or self._policy.is_tracked_or_pending(path):
            return False
        self.ignored_paths.add(path)
        return True

    @staticmethod
    def _ignores_itself(cache: Path) -> bool:
        """Return whether a cache contains a `.gitignore` that ignores all of it, as those of pytest and mypy do."""
        try:
            rules, _ = read_regular_file(cache / ".gitignore", _MAX_RULES_BYTES, allow_truncated=True)
        except OSError:
            return False
        return b"*" in rules.split()

    def _add_change(self, path: str, size: int, *, is_gone: bool = False) -> None:
        self.seen.add(path)
        self.touched[path] = ChangedPathWithSize(path, size, is_gone)


def _mode(path: Path) -> int:
    """Return the kind and permission bits of a path; 0 if it does not exist."""
    facts = lstat_or_none(path)
    return 0 if facts is None else facts.st_mode


def is_whiteout(path: Path) -> bool:
    """Return whether a path of the layer marks a removed file."""
    facts = lstat_or_none(path)
    return facts is not None and _has_no_device(facts)


def _has_no_device(facts: os.stat_result) -> bool:
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


def is_opaque(path: Path) -> bool:
    """Return whether a folder of the layer replaces the lower one instead of being merged with it."""
    try:
        return os.getxattr(path, _OPAQUE_ATTRIBUTE) == b"y"
    except OSError:
        return False
