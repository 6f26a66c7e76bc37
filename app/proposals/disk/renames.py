"""Renames that replace nothing, each in one step where Linux's `renameat2` can, for which Python has no function."""

import errno
import os
import sys
from contextlib import suppress
from functools import cache
from typing import Any

# From linux/fs.h.
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_NO_SECOND_NAME = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
"""What linking says of a folder, and of anything on exFAT, FAT and much that is mounted from elsewhere."""


def exchange(first_folder: int, first: str, second_folder: int, second: str) -> bool:
    """Exchange two names, each in an open folder, of whatever kind they are.

    Returns:
        False if this system or file system cannot do it; nothing has changed then.

    Raises:
        OSError: it can, but not with these.
    """
    return _rename(first_folder, first, second_folder, second, _RENAME_EXCHANGE)


def move(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """Give a file, or whatever it is, another name that is free.

    Raises:
        OSError: it can't be done with these; FileExistsError if the new name is taken.
    """
    if _rename(folder, name, new_folder, new_name, _RENAME_NOREPLACE):
        return
    try:
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_SECOND_NAME:
            raise
    else:
        os.unlink(name, dir_fd=folder)
        return
    with suppress(FileNotFoundError):
        os.stat(new_name, dir_fd=new_folder, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)
    # All that is left; it replaces what comes there in the instant after this look.
    os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)


def _rename(folder: int, name: str, new_folder: int, new_name: str, how: int) -> bool:
    function = _renameat2()
    if function is None:
        return False
    if not function(folder, os.fsencode(name), new_folder, os.fsencode(new_name), how):
        return True
    from ctypes import get_errno

    code = get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), name)


@cache
def _renameat2() -> Any:
    """The C library's function, or None where it has none, or where Python was built without a way to call it."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        from ctypes import CDLL, c_char_p, c_int, c_uint
    except ImportError:
        return None
    function = getattr(CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [c_int, c_char_p, c_int, c_char_p, c_uint]
        function.restype = c_int
    return function
