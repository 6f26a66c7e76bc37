"""What signoff asks the kernel for itself, for commands that are in no namespace: Landlock, and to be left alone.

Kept apart: nothing else in signoff's own process calls the kernel past the standard library.
"""

import ctypes
import os
import sys
from functools import cache

_LANDLOCK_CREATE = 444
_ONLY_VERSION = 1
_DUMPABLE = 4
_WORKABLE = 2
"""The version of Landlock from which on files can be moved between folders."""
_SCOPED = 6
"""The version from which on abstract sockets and signals can be kept inside."""


@cache
def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 or less if it has none."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), _ONLY_VERSION))


def can_confine() -> bool:
    """Whether the kernel lets a process give up writing everywhere but below some folders."""
    return landlock_version() >= _WORKABLE


def can_block_abstract_sockets() -> bool:
    """Whether the kernel can keep a process from abstract sockets of others."""
    return landlock_version() >= _SCOPED


@cache
def hide_memory() -> None:
    """Have no other process of the user read this one's memory and environment, in which the key is."""
    if sys.platform == "linux" and os.geteuid():
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
