"""Values of the sandbox: pending changes that are applied before a command, and changes that the command made."""

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from app.text.quantities import format_count, join_first


@dataclass(frozen=True, slots=True)
class FileOrLink:
    """A file, or a symbolic link."""

    data: bytes
    """The bytes of a file, or the target of a link."""
    mode: int
    """Permission bits; for a link, `LINK_MODE`."""
    modified_time: float = field(default=0.0, compare=False)
    """The mtime to set, in Unix seconds; 0 keeps the time at which the file is written."""

    @property
    def is_link(self) -> bool:
        """Return whether this is a symbolic link."""
        return stat.S_ISLNK(self.mode)


PendingFiles = Mapping[str, FileOrLink | None]
"""Pending changes by workspace path: the new content, or None where the path is removed."""


class PathChange(Struct, frozen=True):
    """A changed path, with its file or link before and after the change."""

    path: str
    before: FileOrLink | None
    """The state before the command."""
    after: FileOrLink | None


class ChangedPathWithSize(Struct, frozen=True):
    """A path that a command has changed, with its size and whether it was deleted, but without content."""

    path: str
    size: int
    """Current size in bytes; 0 if the path was deleted."""
    is_deleted: bool = False


class CommandFileChanges(Struct, frozen=True):
    """The changes that a command has made."""

    touched: tuple[ChangedPathWithSize, ...] = ()
    """Paths that git does not ignore, sorted."""
    unsupported: tuple[str, ...] = ()
    """Paths that can't be staged, each with the reason: `a/pipe: not a regular file`."""
    ignored_paths: tuple[str, ...] = ()
    """Paths that git ignores, sorted; for an ignored folder only the folder itself."""

    @property
    def size(self) -> int:
        """Return the total size of all touched paths in bytes."""
        return sum(path.size for path in self.touched)


@dataclass(frozen=True, slots=True)
class WrittenIgnoredPath:
    """An ignored file that a command has written, or an ignored folder in which a command has written files."""

    path: str
    """The topmost path that git ignores; a folder ends with a slash."""
    written: int = 0
    """Number of files that were written."""
    removed: int = 0

    @property
    def summary(self) -> str:
        """Return a line for the user: `node_modules/, 312 files`."""
        written = format_count(self.written, "file") if self.written and self.path.endswith("/") else ""
        removed = f"{self.removed:,} removed" if self.removed else ""
        return ", ".join(filter(None, (self.path, written, removed)))


IGNORED_FILES_LABEL = "also written, ignored by git"
"""Label before a list of ignored paths."""


def describe_written_ignored_paths(ignored: Sequence[WrittenIgnoredPath], limit: int = 10) -> str:
    """Return `also written, ignored by git: a.log; node_modules/, 312 files`; empty if there are none."""
    return f"{IGNORED_FILES_LABEL}: {join_first([path.summary for path in ignored], limit, '; ')}" if ignored else ""


class IgnoredPathsWriteBackReport(Struct, frozen=True):
    """The result of writing ignored paths back to the workspace."""

    written: tuple[WrittenIgnoredPath, ...] = ()
    skipped: Mapping[str, str] = {}
    """Paths that were not written because another program changed or uses them, each with the reason."""
    failed: Mapping[str, str] = {}
    """Paths that could not be written completely, each with the reason."""
    kept_folder: Path | None = None
    """Folder with the command's versions of skipped and failed paths."""


LINK_MODE = stat.S_IFLNK | 0o777
"""The mode of every symbolic link."""


class FilesNotRestored(OSError):
    """Files could not be restored after a command in place; their copies stay, and the next start tries again."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            "A command ran directly on your files, and not all of them could be put back "
            f"({cause.strerror or cause}). Their copies are kept: remove the cause, then start signoff again"
        )
