"""What a command may write and see besides the workspace."""

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.caches import cache_folders
from app.sandbox.mode import CommandPermissions
from app.sandbox.sockets import hidden_sockets, opened_sockets

DEVICES = tuple(map(Path, ("/proc", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty")))
"""What a program opens for writing that writes no file. Not all of `/dev`: the workspace may lie in `/dev/shm`.

Not the terminals either: those of the user are among them, and a command could paint over them.
"""


@dataclass(frozen=True, slots=True)
class Access:
    """The places outside the workspace that a command sees in a way of its own; all paths are resolved and exist."""

    writable: tuple[Path, ...]
    """What the user lets commands write in place; an outer one before those in it."""
    caches: tuple[Path, ...]
    """Folders that are seen as they are, with writes going to a layer."""
    temporary: tuple[Path, ...]
    """Folders in place of which a command sees one of its own."""
    shown: tuple[Path, ...]
    """What lies in one of these and is seen all the same, read-only: the home, and folders of programs."""
    hidden: tuple[Path, ...]
    """signoff's own folders, and by what other programs are reached."""
    opened: tuple[Path, ...] = ()
    """What lies in a hidden or temporary folder and is reached all the same, since the user says so."""


def access(
    permissions: CommandPermissions,
    own: Iterable[Path],
    *,
    layered: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> Access:
    """Find these places.

    Args:
        permissions: What the user opens; a path that is named there is never hidden.
        own: signoff's own folders.
        layered: Caches can have layers here.
        environment: signoff's own, whose variables say where caches and sockets lie.
    """
    # os.access, since a Path raises where a folder on the way may not be looked into.
    named = {_resolved(Path(each).expanduser()) for each in permissions.writable}
    writable = sorted(path for path in named if os.access(path, os.F_OK) and path != Path("/"))
    usual = {_resolved(Path(each)) for each in ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())}
    kept = {Path("/"), _resolved(Path.home()), *writable}
    temporary = sorted(path for path in usual - kept if path.is_dir())
    programs = {_resolved(Path(each)) for each in environment.get("PATH", "").split(os.pathsep) if each}
    # Of a virtual environment all of it, not only its programs.
    programs = {path.parent if os.access(path.parent / "pyvenv.cfg", os.F_OK) else path for path in programs}
    programs.add(_resolved(Path(sys.prefix)))
    seen = {path for path in (_resolved(Path.home()), *programs) if os.access(path / ".", os.F_OK)}
    shown = {path for path in seen if is_below(path, temporary)}
    hidden = {_resolved(path) for path in own if os.path.lexists(path)}
    hidden |= set(hidden_sockets(environment, permissions.sockets))
    caches = cache_folders(environment) if layered else []
    return Access(
        tuple(writable),
        tuple(path for path in caches if not is_below(path, writable)),
        tuple(temporary),
        tuple(sorted(shown - {*temporary, *writable})),
        tuple(sorted(hidden - set(writable))),
        tuple(opened_sockets(environment, permissions.sockets)),
    )


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path is one of the folders, or lies in one of them."""
    return any(path.is_relative_to(each) for each in folders)


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))
