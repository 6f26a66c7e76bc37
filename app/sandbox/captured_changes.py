"""What lies over the workspace before a command, and what it has changed: the values of this package."""

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.text.plural import plural


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file, or a symbolic link."""

    data: bytes
    """Of a link, where it leads."""
    mode: int
    """Permission bits; of a link, `stat.S_IFLNK` and all of them."""
    written: float = field(default=0.0, compare=False)
    """When, as Unix time: what the file's time is to be; 0 for the time at which it is laid."""

    @property
    def is_link(self) -> bool:
        """Whether it is a link."""
        return stat.S_ISLNK(self.mode)


Pending = Mapping[str, Leaf | None]
"""What lies over the disk, by workspace path; None where there is nothing any more."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path that a command has changed."""

    path: str
    before: Leaf | None
    """What the command found there."""
    after: Leaf | None


@dataclass(frozen=True, slots=True)
class TouchedPath:
    """One path that a command has changed, not yet read."""

    path: str
    size: int
    """Bytes of what is there now; of what is gone, none."""
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class CapturedChanges:
    """What a command has changed."""

    touched: tuple[TouchedPath, ...] = ()
    """Paths that git does not ignore, sorted."""
    left_out: tuple[str, ...] = ()
    """What can't be kept, each with the reason: `a/pipe: not a regular file`."""
    through: tuple[str, ...] = ()
    """Ignored paths, the uppermost of each tree, sorted."""

    @property
    def size(self) -> int:
        """Bytes in all of what is there now."""
        return sum(each.size for each in self.touched)


@dataclass(frozen=True, slots=True)
class IgnoredPath:
    """An ignored file that a command has written, or an ignored folder with all that it has written in it."""

    path: str
    """The uppermost that git ignores; with a slash at the end of a folder."""
    written: int = 0
    """How many files."""
    removed: int = 0

    @property
    def words(self) -> str:
        """`node_modules/, 312 files`."""
        written = plural(self.written, "file") if self.written and self.path.endswith("/") else ""
        removed = f"{self.removed:,} removed" if self.removed else ""
        return ", ".join(filter(None, (self.path, written, removed)))


WRITTEN = "also written, ignored by git"
"""Words before a list of such paths."""


def ignored_words(ignored: Sequence[IgnoredPath], most: int = 10) -> str:
    """`also written, ignored by git: a.log; node_modules/, 312 files`; empty if nothing was."""
    return f"{WRITTEN}: {listed([each.words for each in ignored], most)}" if ignored else ""


def listed(words: Sequence[str], most: int = 3) -> str:
    """The first of some words for paths, and how many more there are."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return f"{'; '.join(words[:most])}{more}"


@dataclass(frozen=True, slots=True)
class ThroughReport:
    """What has become of the ignored paths that a command has changed."""

    written: tuple[IgnoredPath, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    """Paths that stay as they are, since they are somebody else's, each with the reason."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Paths of which not all could be written, each with the reason."""
    kept: Path | None = None
    """A folder with the command's versions of both."""


def link_mode() -> int:
    """The mode of every link."""
    return stat.S_IFLNK | 0o777
