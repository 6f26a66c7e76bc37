"""Detects how far the kernel can confine commands without a namespace, and makes the steps for that."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from app.sandbox import syscall_filter

_LANDLOCK_CREATE = 444
_ONLY_VERSION = 1
_DUMPABLE = 4
_WORKABLE = 2
"""The first version of Landlock with which files can be moved between folders."""
_SCOPED = 6
"""The first version that can restrict abstract sockets and signals."""


@cache
def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 where it has none or a version too old to be used."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(_LANDLOCK_CREATE)
    version = int(libc.syscall(number, None, ctypes.c_size_t(0), _ONLY_VERSION))
    return version if version >= _WORKABLE else 0


def can_block_abstract_sockets() -> bool:
    """Whether the kernel can block connections to abstract sockets of other processes."""
    return landlock_version() >= _SCOPED


@cache
def can_filter_syscalls() -> bool:
    """Whether seccomp with user notification works; tried in another process."""
    if sys.platform != "linux":
        return False
    trial = [sys.executable, "-I", "-S", str(Path(syscall_filter.__file__))]
    return not subprocess.run(trial, env={}, capture_output=True, check=False).returncode


def unbounded_reason() -> str:
    """Return why the number of processes of a command without a namespace can't be limited; empty if it can."""
    if sys.platform != "linux" or os.geteuid() or can_filter_syscalls():
        return ""
    return (
        "as root it could start processes without end, since the kernel binds root to no limit and has no filter "
        "for system calls here; run signoff as another user"
    )


def confine_steps(
    writable: Iterable[Path], devices: Iterable[Path], unreadable: Iterable[Path], *, sockets: bool
) -> list[str]:
    """Return the steps of `sandbox_init.py` that restrict a program without a namespace, as far as the kernel can.

    Args:
        writable: Folders and files that it may write.
        devices: What it may write besides, but not change the permissions of.
        unreadable: What it may not read, whatever it lies in.
        sockets: Whether it may use Unix sockets, by which programs of the user can be reached.

    Raises:
        OSError: It could start processes without bound.
    """
    if why := unbounded_reason():
        raise OSError(why)
    steps = []
    if version := landlock_version():
        steps = ["landlock", str(version)]
        for word, places in (("write-below", writable), ("device", devices), ("unreadable", unreadable)):
            steps += [each for path in places for each in (word, str(path))]
    return [*steps, "filter", "sockets" if sockets else "no-sockets"] if can_filter_syscalls() else steps


@cache
def hide_memory() -> None:
    """Make memory and environment of this process, which hold the API key, unreadable for other processes."""
    if sys.platform == "linux" and os.geteuid():
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
