"""Telling our own files, and the expected ones, from whatever else may have their names by now.

A file is recognised by which one it is and by its content. What is another one is not even opened, so that no pipe,
device, link or file of any size can hold up a recovery.
"""

import errno

from app.proposals.disk.filesystem import Filesystem
from app.proposals.models import Identity, Op
from app.proposals.store import JournalEntry

_NOT_OURS = (errno.ELOOP, errno.EFBIG, errno.EINVAL, errno.ENXIO, errno.EACCES, errno.EPERM)
"""What reading says of a link, a file over the limit, a device, a socket and what may not be read."""


def is_found(filesystem: Filesystem, entry: JournalEntry, path: str) -> bool:
    """Whether a path holds the very file that the plan was made on. Raises OSError if the disk won't say."""
    return _holds(filesystem, path, entry.before, entry.before_mode, entry.found)


def is_made(filesystem: Filesystem, entry: JournalEntry, path: str) -> bool:
    """Whether a path holds the very file that was prepared, unchanged. Raises OSError if the disk won't say."""
    mode = entry.after_mode if entry.op is Op.MODE else None
    return _holds(filesystem, path, entry.after, mode, entry.made)


def is_as(filesystem: Filesystem, path: str, sha256: str | None) -> bool:
    """Whether a path holds this content, in whichever file; for None, nothing. Raises OSError as the others."""
    if sha256 is None:
        return filesystem.node(path) is None
    return _holds(filesystem, path, sha256, None, None)


def _holds(
    filesystem: Filesystem, path: str, sha256: str | None, mode: int | None, identity: Identity | None
) -> bool:
    node = filesystem.node(path)
    if sha256 is None or node is None or node.kind not in ("file", "link") or identity not in (None, node.identity):
        return False
    try:
        file = filesystem.read(path)
    except OSError as error:
        if error.errno in _NOT_OURS:
            return False
        raise
    return (
        file is not None
        and file.version.sha256 == sha256
        and mode in (None, file.version.mode)
        and identity in (None, file.identity)
    )
