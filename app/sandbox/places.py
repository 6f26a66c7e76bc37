"""Where a command may write besides the workspace, and what it does not get to see."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

CACHES = (
    "~/.cache",
    "~/.npm",
    "~/.pnpm-store",
    "~/.local/share/pnpm/store",
    "~/.yarn",
    "~/.bun/install/cache",
    "~/.cargo/registry",
    "~/.cargo/git",
    "~/go/pkg/mod",
    "~/.m2/repository",
    "~/.gradle/caches",
    "~/.ivy2/cache",
    "~/.nuget/packages",
    "~/.pub-cache",
    "~/.conan2/p",
    "~/.ccache",
    "~/Library/Caches",
)
"""What package managers and compilers keep; never a folder with programs in it that a shell would find."""

_SOCKETS = (
    *("/run/docker.sock", "~/.docker/run", "~/.docker/desktop", "/run/podman", "/run/containerd", "/run/crio"),
    *("/run/screen", "/run/dbus", "/run/systemd/private", "/run/snapd.socket", "/run/libvirt"),
    *("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket"),
)
"""By what listens there, a command could have something written by a process that is not in its namespace."""


DEVICES = tuple(map(Path, ("/proc", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty")))
"""What a program opens for writing that writes no file. Not all of `/dev`: the workspace may lie in `/dev/shm`.

Not the terminals either: those of the user are among them, and a command could paint over them.
"""


@dataclass(frozen=True, slots=True)
class Access:
    """What a command may write and not see, apart from the workspace."""

    writable: tuple[Path, ...]
    """Existing folders and files, an outer one before those in it."""
    hidden: tuple[Path, ...]


def access(wished: Sequence[str], own: Iterable[Path]) -> Access:
    """The temporary folders, the usual caches and what the user names; not signoff's own places nor sockets.

    Args:
        wished: Paths of the user's configuration, `~` for the home; what is named here is never hidden.
        own: signoff's own folders.
    """
    named = [Path(each).expanduser() for each in wished]
    own_cache = os.environ.get("XDG_CACHE_HOME")
    usual = [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", *CACHES, *([own_cache] if own_cache else [])]
    found = {Path(os.path.realpath(path)) for path in (*(Path(each).expanduser() for each in usual), *named)}
    writable = sorted(path for path in found if path.exists() and path != Path("/"))
    user = os.getuid()
    agents = [Path(f"/run/user/{user}"), Path(f"/tmp/tmux-{user}"), *(Path(each).expanduser() for each in _SOCKETS)]
    if terminal := os.environ.get("TMUX"):
        agents.append(Path(terminal.partition(",")[0]).parent)
    shown = {Path(os.path.realpath(each)) for each in named}
    hidden = {Path(os.path.realpath(path)) for path in (*own, *agents) if os.path.lexists(path)} - shown
    return Access(tuple(writable), tuple(sorted(hidden)))


def without_workspace(access: Access, root: Path) -> Access:
    """The same without the places that hold the workspace or lie in it, for a program that must not write there."""
    kept = (path for path in access.writable if not root.is_relative_to(path) and not path.is_relative_to(root))
    return replace(access, writable=tuple(kept))
