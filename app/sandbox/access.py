"""The places outside the workspace that a command may write or see."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.caches import cache_folders
from app.sandbox.mode import CommandPermissions
from app.sandbox.sockets import hidden_sockets, opened_sockets

_PROC = ("/proc",) if os.geteuid() else ()
"""Not for root, who sets there how the kernel works, for instance which program it starts at a crash."""
DEVICES = tuple(map(Path, (*_PROC, "/dev/null", "/dev/zero", "/dev/full", "/dev/tty")))
"""Devices that may be opened for writing, which changes no file.

Not all of `/dev`: the workspace may lie in `/dev/shm`. Not the terminals: a command could write to the user's.
"""


@dataclass(frozen=True, slots=True)
class Access:
    """The places outside the workspace that a command sees differently; all paths are resolved and exist."""

    writable: tuple[Path, ...]
    """Paths that the user lets commands write in place; an outer one before those in it."""
    caches: tuple[Path, ...]
    """Folders whose contents are seen, and writes to which go to a layer."""
    temporary: tuple[Path, ...]
    """Folders in place of which a command sees a private one."""
    shown: tuple[Path, ...]
    """Paths in a temporary folder that are seen read-only: the home, folders of programs, and files of a server."""
    hidden: tuple[Path, ...]
    """signoff's own folders, and sockets of other programs."""
    opened: tuple[Path, ...] = ()
    """Paths in a hidden or temporary folder that the user lets commands reach."""


def access(
    permissions: CommandPermissions,
    own: Iterable[Path],
    *,
    layered: bool = True,
    environment: Mapping[str, str] = os.environ,
    files: Iterable[Path] = (),
) -> Access:
    """Find these places.

    Args:
        permissions: The user's configuration; a path in it is never hidden.
        own: signoff's own folders.
        layered: Whether this system can lay an overlay over caches.
        environment: signoff's own environment, whose variables name caches and sockets.
        files: What a program of the user's consists of (`named_files`), which it sees in a temporary folder, too.
    """
    named = {_resolved(Path(each).expanduser()) for each in permissions.writable}
    # By lexists, for which a path in a folder that this user can't enter is missing: Path.exists() raises.
    writable = sorted(path for path in named if os.path.lexists(path) and path != Path("/"))
    usual = {_resolved(Path(each)) for each in ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())}
    kept = {Path("/"), _resolved(Path.home()), *writable}
    temporary = sorted(path for path in usual - kept if path.is_dir())
    programs = {_resolved(Path(each)) for each in environment.get("PATH", "").split(os.pathsep) if each}
    # Of a virtual environment all of it, not only its programs.
    programs = {path.parent if os.path.lexists(path.parent / "pyvenv.cfg") else path for path in programs}
    programs.add(_resolved(Path(sys.prefix)))
    shown = {
        path for path in (_resolved(Path.home()), *programs) if os.path.lexists(path) and is_below(path, temporary)
    }
    hidden = {_resolved(path) for path in own if os.path.lexists(path)}
    hidden |= set(hidden_sockets(environment, permissions.sockets))
    caches = cache_folders(environment) if layered else []
    seen = (*(shown - set(temporary)), *writable, *caches)
    shown |= {
        path
        for path in files
        if is_below(path, temporary) and not is_below(path, seen) and not is_below(path, hidden)
    }
    return Access(
        tuple(writable),
        tuple(path for path in caches if not is_below(path, writable)),
        tuple(temporary),
        tuple(sorted(shown - {*temporary, *writable})),
        tuple(sorted(hidden - set(writable))),
        tuple(opened_sockets(environment, permissions.sockets)),
    )


def named_files(command_line: Sequence[str], folder: Path) -> Iterator[Path]:
    """The files that a command line names, also as `--option=path`; of a program in a virtual environment, all of it.

    No folder, since somebody could put a socket there, and no socket.

    Args:
        command_line: The program and its arguments.
        folder: Where it runs.
    """
    for number, word in enumerate(command_line):
        for text in (word, word.partition("=")[2]):
            try:
                path = folder / text
                is_file = stat.S_ISREG(path.stat().st_mode)
            except (OSError, ValueError):
                continue
            if not is_file:
                continue
            around = _resolved(path.parent.parent)
            if not number and os.path.lexists(around / "pyvenv.cfg"):
                yield around
            else:
                yield _resolved(path.parent) / path.name
                yield _resolved(path)


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path is one of the folders, or lies in one of them."""
    return any(path.is_relative_to(each) for each in folders)


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))
