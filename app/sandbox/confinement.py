"""The modes in which commands run on a workspace, the interface of a run, and the kernel's restrictions in place."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from app.sandbox.captured_changes import CommandFileChanges, IgnoredPathsWriteBackReport, PathChange
from app.sandbox.process import Output, ProcessExit


class CommandWriteMode(StrEnum):
    """Where commands write: to an overlay, or in place to the user's own files; the best first."""

    OVERLAY = "overlay"
    """On an overlay that is mounted over the workspace."""
    IN_PLACE = "in place"
    """On the user's own files."""


class SandboxCapabilities(Struct, frozen=True):
    """The mode that the system allows, and the restrictions that it enforces."""

    mode: CommandWriteMode
    why_not: str = ""
    """Why a better mode is not possible; empty if this is the best one."""
    landlock: int = 0
    """Landlock's version; 0 if it can't be used. In place, Landlock keeps a command from other files."""
    filters_syscalls: bool = False
    """In place: whether a command's system calls are filtered."""
    refusal: str = ""
    """Why no command may run here; empty if commands may run."""

    @property
    def is_confined(self) -> bool:
        """Return whether a command can't write outside the workspace, except for a few paths."""
        return self.mode is CommandWriteMode.OVERLAY or self.landlock > 0

    @property
    def can_block_abstract_sockets(self) -> bool:
        """Return whether a command can be kept from abstract sockets, for example that of an X11 display."""
        return self.landlock > 5 or (self.mode is CommandWriteMode.IN_PLACE and self.filters_syscalls)


class ConfiguredCommandAccess(Struct, frozen=True):
    """The paths, sockets and environment variables that the user's configuration lets commands use."""

    writable: tuple[str, ...] = ()
    """Paths that commands may write in place; `~` is the home."""
    sockets: tuple[str, ...] = ()
    """Programs that commands may connect to: names in `SOCKET_SERVICES`, or absolute paths of sockets."""
    variables: tuple[str, ...] = ()
    """Environment variables that commands get besides the usual ones."""


class ChangedByCommandAndOtherProgram(Exception):
    """A command and another program have both changed a file while the command ran."""


class ChangesReaderWithIgnoredWriteBack(Protocol):
    """Reads what programs changed in the workspace with pending changes applied; writes back ignored paths."""

    async def find_changes(self) -> CommandFileChanges:
        """Return the changes so far. Raises OSError."""
        ...

    def read_change(self, path: str, limit: int) -> PathChange:
        """Return one of the changes with its contents. Raises OSError and ChangedByCommandAndOtherProgram."""
        ...

    async def write_back(self, paths: Sequence[str], *, dry_run: bool = False) -> IgnoredPathsWriteBackReport:
        """Write ignored paths back to the workspace, except for those that another program has changed there.

        Args:
            dry_run: Change nothing, and only report what would be written.
        """
        ...


class SandboxedWorkspace(ChangesReaderWithIgnoredWriteBack, Protocol):
    """The workspace with pending changes applied, in which commands run."""

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> ProcessExit:
        """Run a program (absolute path and arguments) in a folder of the workspace. Raises StartFailed."""
        ...


_LANDLOCK_CREATE = 444
_VERSION_FLAG = 1
_PR_SET_DUMPABLE = 4
_MIN_LANDLOCK_VERSION = 2
"""The first version of Landlock with which files can be moved between folders."""
_SCOPED_LANDLOCK_VERSION = 6
"""The first version that can restrict abstract sockets and signals."""


@cache
def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 if it has none, or one before `_MIN_LANDLOCK_VERSION`."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(_LANDLOCK_CREATE)
    version = int(libc.syscall(number, None, ctypes.c_size_t(0), _VERSION_FLAG))
    return version if version >= _MIN_LANDLOCK_VERSION else 0


def can_block_abstract_sockets() -> bool:
    """Return whether the kernel can block connections to abstract sockets of other processes."""
    return landlock_version() >= _SCOPED_LANDLOCK_VERSION


@cache
def can_filter_syscalls() -> bool:
    """Return whether seccomp with user notification works; a subprocess tries it."""
    if sys.platform != "linux":
        return False
    trial = [sys.executable, "-I", "-S", str(Path(__file__).with_name("syscall_filter.py"))]
    return not subprocess.run(trial, env={}, capture_output=True, check=False).returncode


def process_limit_problem() -> str:
    """Return why the number of processes of a command without a namespace can't be limited; empty if it can."""
    if sys.platform != "linux" or os.geteuid() or can_filter_syscalls():
        return ""
    return (
        "as root it could start processes without end, since the kernel binds root to no limit and has no filter "
        "for system calls here; run signoff as another user"
    )


def confinement_steps(
    writable: Iterable[Path], devices: Iterable[Path], unreadable: Iterable[Path], *, allow_unix_sockets: bool
) -> list[str]:
    """Return the steps of `sandbox_init.py` that restrict a program without a namespace, as far as the kernel can.

    Args:
        writable: Folders and files that it may write.
        devices: Further paths that it may write, but whose permissions it may not change.
        unreadable: Paths that it may not read, even inside `writable`.
        allow_unix_sockets: Whether it may connect to Unix sockets of the user's other programs.

    Raises:
        OSError: The number of its processes can't be limited.
    """
    if why := process_limit_problem():
        raise OSError(why)
    steps = []
    if version := landlock_version():
        steps = ["landlock", str(version)]
        for word, places in (("write-below", writable), ("device", devices), ("unreadable", unreadable)):
            steps += [each for path in places for each in (word, str(path))]
    return [*steps, "filter", "sockets" if allow_unix_sockets else "no-sockets"] if can_filter_syscalls() else steps


@cache
def hide_process_memory() -> None:
    """Make the memory and environment of this process, with the API key in it, unreadable for other processes."""
    if sys.platform == "linux" and os.geteuid():
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
