"""Finds how far the kernel can confine commands that are in no namespace, and words that as steps of `enter.py`."""

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
"""The version of Landlock from which on files can be moved between folders."""
_SCOPED = 6
"""The version from which on abstract sockets and signals can be kept inside."""


@cache
def landlock_version() -> int:
    """The version of Landlock in the kernel; 0 where there is none, or none that is of use here."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(_LANDLOCK_CREATE)
    version = int(libc.syscall(number, None, ctypes.c_size_t(0), _ONLY_VERSION))
    return version if version >= _WORKABLE else 0


def can_block_abstract_sockets() -> bool:
    """Whether the kernel can keep a process from abstract sockets of others."""
    return landlock_version() >= _SCOPED


@cache
def can_filter() -> bool:
    """Whether the kernel filters system calls of a process and hands some over; tried in another process."""
    if sys.platform != "linux":
        return False
    trial = [sys.executable, "-I", "-S", str(Path(syscall_filter.__file__))]
    return not subprocess.run(trial, env={}, capture_output=True, check=False).returncode


def why_unbounded() -> str:
    """Why the number of processes of a command in no namespace can't be bounded; empty if it can."""
    if sys.platform != "linux" or os.geteuid() or can_filter():
        return ""
    return (
        "as root it could start processes without end, since the kernel binds root to no limit and has no filter "
        "for system calls here; run signoff as another user"
    )


def confine_steps(
    writable: Iterable[Path], devices: Iterable[Path], unreadable: Iterable[Path], *, sockets: bool
) -> list[str]:
    """The steps of `enter.py` that keep a program in no namespace from the rest, as far as the kernel can.

    Args:
        writable: Folders and files that it may write.
        devices: What it may write besides, but not change the permissions of.
        unreadable: What it may not read, whatever it lies in.
        sockets: Whether it may use Unix sockets, by which programs of the user can be reached.

    Raises:
        OSError: It could start processes without bound.
    """
    if why := why_unbounded():
        raise OSError(why)
    steps = []
    if version := landlock_version():
        steps = ["landlock", str(version)]
        for word, places in (("write-below", writable), ("device", devices), ("unreadable", unreadable)):
            steps += [each for path in places for each in (word, str(path))]
    return [*steps, "filter", "sockets" if sockets else "no-sockets"] if can_filter() else steps


@cache
def hide_memory() -> None:
    """Have no other process of the user read this one's memory and environment, in which the key is."""
    if sys.platform == "linux" and os.geteuid():
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
