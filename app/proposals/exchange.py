"""Two names exchanged in one step: Linux's `renameat2(RENAME_EXCHANGE)`, for which Python has no function."""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any

_RENAME_EXCHANGE = 2
"""From linux/fs.h."""


def exchange_names(first_folder: int, first: str, second_folder: int, second: str) -> bool:
    """Exchange two names, each in an open folder.

    Returns:
        False if this system or file system cannot do it; nothing has changed then.

    Raises:
        OSError: it can, but not with these.
    """
    function = _renameat2()
    if function is None:
        return False
    if not function(first_folder, os.fsencode(first), second_folder, os.fsencode(second), _RENAME_EXCHANGE):
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), first)


@cache
def _renameat2() -> Any:
    """The C library's function, or None where it has none."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
        function.restype = ctypes.c_int
    return function
