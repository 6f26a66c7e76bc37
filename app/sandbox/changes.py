"""What lies over the workspace before a command, and what it has changed: the values of this package."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field


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
class Change:
    """One path that a command has changed."""

    path: str
    before: Leaf | None
    """What the command found there."""
    after: Leaf | None


@dataclass(frozen=True, slots=True)
class Touched:
    """One path that a command has changed, not yet read."""

    path: str
    size: int
    """Bytes of what is there now; of what is gone, none."""
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a command has changed."""

    touched: tuple[Touched, ...] = ()
    """Paths that git does not ignore, sorted."""
    left_out: tuple[str, ...] = ()
    """What can't be kept, each with the reason: `a/pipe: not a regular file`."""
    through: tuple[str, ...] = ()
    """Ignored paths, the uppermost of each tree, sorted."""

    @property
    def size(self) -> int:
        """Bytes in all of what is there now."""
        return sum(each.size for each in self.touched)


def link_mode() -> int:
    """The mode of every link."""
    return stat.S_IFLNK | 0o777
