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


@cache
def can_confine() -> bool:
    """Whether the kernel lets a process give up writing everywhere but below some folders."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(_LANDLOCK_CREATE)
    return bool(libc.syscall(number, None, ctypes.c_size_t(0), _ONLY_VERSION) >= _WORKABLE)


@cache
def hide_memory() -> None:
    """Have no other process of the user read this one's memory and environment, in which the key is."""
    if sys.platform == "linux" and os.geteuid():
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
