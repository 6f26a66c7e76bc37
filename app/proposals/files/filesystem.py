"""Reads and writes the disk for proposals.

Paths are relative to the workspace, with no link on the way: every folder is opened with `O_NOFOLLOW` from the one
above. A link that another process creates between two operations causes an error; no operation follows it.
"""

import errno
import hashlib
import os
import pwd
import stat
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from app.proposals.values.models import FileIdentity, FileVersion
from app.sandbox.captured_changes import LINK_MODE
from app.workspace.path_rules import MAX_PATH_DEPTH
from app.workspace.reading import read_regular_file

# From linux/fs.h.
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_NO_HARD_LINK_ERRORS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
"""Errors of `os.link` for a folder, and for any file on exFAT, FAT and many mounted file systems."""


def exchange_names(first_folder: int, first: str, second_folder: int, second: str) -> bool:
    """Exchange two names atomically, each in an open folder.

    Returns:
        False if this system or file system does not support it; nothing has changed then.

    Raises:
        OSError: the exchange is supported, but failed.
    """
    return _rename(first_folder, first, second_folder, second, _RENAME_EXCHANGE)


def move_to_free_name(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """Rename a file or folder to a free name.

    Raises:
        OSError: the rename failed; FileExistsError if the new name is taken.
    """
    if _rename(folder, name, new_folder, new_name, _RENAME_NOREPLACE):
        return
    try:
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINK_ERRORS:
            raise
    else:
        os.unlink(name, dir_fd=folder)
        return
    with suppress(FileNotFoundError):
        os.stat(new_name, dir_fd=new_folder, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)
    # The last resort; it replaces a file that another process creates after the check.
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
    """Return the C library's renameat2; None if there is none or Python has no ctypes."""
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


_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SYNC_ERRORS = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Errors of `os.fsync` for a folder where it is unsupported, for instance one shared with a virtual machine."""
MAX_CHANGED_FILE_BYTES = 100_000_000
"""Maximum bytes of a file in a proposal; git hosts accept no larger one either."""
_MAX_KEPT_BYTES = 20 * 1024 * 1024
"""Maximum bytes of a file that is kept to compare the next one with."""
OPEN_FOLDERS = 128
"""Maximum folders kept open while applying; a process may usually have 1,024 descriptors, on macOS 256."""

NodeKind = Literal["file", "link", "folder", "other"]
Kind = Literal[NodeKind, "missing"]
_KINDS: dict[int, NodeKind] = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "folder"}


class DiskFile(Struct, frozen=True):
    """Content of a regular file, or target of a symbolic link, as read from disk."""

    data: bytes
    version: FileVersion
    identity: FileIdentity


@dataclass(frozen=True, slots=True)
class LstatResult:
    """What `lstat` says of a path: kind, identity, size, time of the last write, and permission bits."""

    kind: NodeKind
    identity: FileIdentity
    size: int
    modified_ns: int
    """Time of the last write to its content, in nanoseconds."""
    mode: int = field(compare=False)
    """Permission bits."""
    links: int = field(compare=False)
    """Number of names (hard links)."""
    owner: int = field(compare=False)
    """User id."""

    @property
    def foreign_owner(self) -> str:
        """Return the name of the owner if a new file in its place would belong to this user instead; else empty."""
        if os.geteuid() in (0, self.owner):
            return ""
        try:
            return pwd.getpwuid(self.owner).pw_name
        except KeyError:
            return f"user {self.owner}"


def make_file_version(data: bytes, mode: int) -> FileVersion:
    """Return the version of these bytes and permission bits."""
    return FileVersion(sha256=hashlib.sha256(data).hexdigest(), size=len(data), mode=mode)


def default_file_mode() -> int:
    """Return the permission bits of a new file under the user's umask."""
    # The umask can only be read by setting it; no other thread creates files with it.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def second_exchange_temp_name(temp: str) -> str:
    """Return the second temporary name for an exchange in several steps."""
    return f"{temp}~"


def list_files_below(filesystem: "ReadableDisk", folder: str) -> list[str]:
    """Return every file below a folder, and folders that are nested too deeply to enter."""
    found: list[str] = []
    for name in sorted(filesystem.list_names(folder)):
        path = f"{folder}/{name}"
        if filesystem.kind(path) == "folder" and path.count("/") < MAX_PATH_DEPTH:
            found += list_files_below(filesystem, path)
        else:
            found.append(path)
    return found


class ReadableDisk(Protocol):
    """The reading operations that an overlay needs; every method raises `OSError`."""

    def kind(self, path: str) -> Kind:
        """Return the kind of a path; `other` for devices and pipes."""
        ...

    def read(self, path: str, limit: int | None = None) -> DiskFile | None:
        """Return the file or link; None if there is none, or if the path is a folder.

        A file of more than `limit` bytes, if that is given, is refused (EFBIG) before it is read.
        """
        ...

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; empty if there is no such folder."""
        ...


class PosixFilesystem:
    """The disk below one root; methods raise OSError.

    They may be called from any thread, except `close` and `remove_folder`.

    Args:
        root: The workspace, resolved.
        read_limit: Maximum bytes of a file that is read.
        keep_open: Maximum number of folders that stay open between calls, until `close`.
    """

    def __init__(self, root: Path, read_limit: int, keep_open: int = 0) -> None:
        self._root = root
        self._read_limit = read_limit
        self._lock = threading.Lock()
        self._keep_open = keep_open
        self._open: dict[str, int] = {}
        self._latest: tuple[bytes, str] | None = None
        """The bytes that were read last, and their SHA-256."""

    def kind(self, path: str) -> Kind:
        """Return the kind of a path; `other` for devices and pipes."""
        node = self.stat_node(path)
        return node.kind if node else "missing"

    def stat_node(self, path: str) -> LstatResult | None:
        """Return the node at a path; None if there is none."""
        try:
            with _ParentFolder(self, path) as at:
                facts = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a folder on the way is a link
                return None
            raise
        return LstatResult(
            _KINDS.get(stat.S_IFMT(facts.st_mode), "other"),
            _identity(facts),
            facts.st_size,
            facts.st_mtime_ns,
            stat.S_IMODE(facts.st_mode),
            facts.st_nlink,
            facts.st_uid,
        )

    def read(self, path: str, limit: int | None = None) -> DiskFile | None:
        """Return the file or link, None if there is none; raise OSError (EFBIG), unread, over a limit."""
        try:
            with _ParentFolder(self, path) as at:
                if link := _read_link(at.name, at.folder):
                    return link
                limit = self._read_limit if limit is None else min(limit, self._read_limit)
                data, facts = read_regular_file(at.name, limit, folder_descriptor=at.folder)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        data, sha256 = self._hash(data)
        version = FileVersion(sha256=sha256, size=len(data), mode=stat.S_IMODE(facts.st_mode))
        return DiskFile(data, version, _identity(facts))

    def _hash(self, data: bytes) -> tuple[bytes, str]:
        """Return the bytes and their SHA-256, without a new hash if the file read before had the same bytes."""
        latest = self._latest
        if latest is None or latest[0] != data:
            latest = data, hashlib.sha256(data).hexdigest()
            self._latest = latest if len(data) <= _MAX_KEPT_BYTES else None
        return latest

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        try:
            with _ParentFolder(self, f"{folder}/." if folder else ".") as at:
                return os.listdir(at.folder)  # noqa: PTH208 (a Path can't be made of a descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def write_new(self, path: str, data: bytes, mode: int, like: str = "") -> FileIdentity:
        """Create a file with these bytes and sync it; copy attributes and owner from `like`.

        The mode of a link creates a link.
        """
        with _ParentFolder(self, path) as at:
            if stat.S_ISLNK(mode):
                os.symlink(os.fsdecode(data), at.name, dir_fd=at.folder)
                return _identity(os.stat(at.name, dir_fd=at.folder, follow_symlinks=False))
            descriptor = os.open(at.name, _CREATE_FLAGS, 0o600, dir_fd=at.folder)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if like:
                self._copy_attributes(descriptor, like)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            return _identity(os.fstat(descriptor))
        finally:
            os.close(descriptor)

    def exchange(self, path: str, temp: str) -> None:
        """Exchange the files, of whatever kind, at a path and at a temporary name.

        It is atomic if the system supports that. Otherwise the path is missing for an instant. If another process
        creates a file there in that instant, it stays: FileExistsError, with the former file at
        `second_exchange_temp_name(temp)`.
        """
        with _ParentFolder(self, path) as one, _ParentFolder(self, temp) as other:
            if exchange_names(one.folder, one.name, other.folder, other.name):
                return
        self.move_to_temp(path, second_exchange_temp_name(temp))
        self.move_to_path(temp, path)
        self.move_to_temp(second_exchange_temp_name(temp), temp)

    def move_to_temp(self, path: str, temp: str) -> None:
        """Move the file at the path, of whatever kind, to a free temporary name."""
        with _ParentFolder(self, path) as source, _ParentFolder(self, temp) as target:
            os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)

    def move_to_path(self, temp: str, path: str) -> None:
        """Move the file at a temporary name to a path; raise FileExistsError if the path is taken."""
        with _ParentFolder(self, temp) as source, _ParentFolder(self, path) as target:
            move_to_free_name(source.folder, source.name, target.folder, target.name)

    def remove(self, path: str) -> None:
        """Remove a file's name."""
        with _ParentFolder(self, path) as at:
            os.unlink(at.name, dir_fd=at.folder)

    def make_folder(self, path: str, mode: int | None = None) -> None:
        """Create a folder with these permission bits, None for the default; its parent exists."""
        with _ParentFolder(self, path) as at:
            os.mkdir(at.name, 0o777 if mode is None else mode, dir_fd=at.folder)
        if mode is not None:
            # `os.mkdir` applies the umask and ignores special bits.
            with _ParentFolder(self, f"{path}/.") as made:
                os.fchmod(made.folder, mode)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        self.close()
        with _ParentFolder(self, path) as at:
            os.rmdir(at.name, dir_fd=at.folder)

    def sync_folder(self, path: str) -> None:
        """Sync a folder's names to disk."""
        with _ParentFolder(self, f"{path}/." if path else ".") as at:
            try:
                os.fsync(at.folder)
            except OSError as error:
                if error.errno not in _NO_SYNC_ERRORS:
                    raise

    def free_bytes(self) -> int:
        """Return the bytes that this user may still write; unlimited where the file system reports only zeros."""
        facts = os.statvfs(self._root)
        return facts.f_bavail * facts.f_frsize if facts.f_blocks else sys.maxsize

    def is_writable(self, folder: str) -> bool:
        """Return whether names in the folder may be changed."""
        with _ParentFolder(self, f"{folder}/." if folder else ".") as at:
            return os.access(".", os.W_OK | os.X_OK, dir_fd=at.folder)

    def is_mounted_read_only(self, folder: str) -> bool:
        """Return whether the file system of the folder is mounted read-only."""
        with _ParentFolder(self, f"{folder}/." if folder else ".") as at:
            return bool(os.statvfs(at.folder).f_flag & os.ST_RDONLY)

    def close(self) -> None:
        """Close open folders; no operation may be under way."""
        with self._lock:
            for descriptor in self._open.values():
                os.close(descriptor)
            self._open.clear()

    def open_folder(self, path: str) -> tuple[int, bool]:
        """Return a descriptor of the folder (`""` is the root), and whether it stays open for later calls."""
        with self._lock:
            if path in self._open:
                return self._open[path], True
        if path:
            parent, _, name = path.rpartition("/")
            above, kept = self.open_folder(parent)
            try:
                descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=above)
            finally:
                if not kept:
                    os.close(above)
        else:
            descriptor = os.open(self._root, _FOLDER_FLAGS)
        with self._lock:
            if path in self._open or len(self._open) >= self._keep_open:
                return descriptor, False
            self._open[path] = descriptor
            return descriptor, True

    def _copy_attributes(self, descriptor: int, like: str) -> None:
        """Copy owner, group and extended attributes, as far as this user may set them."""
        try:
            with _ParentFolder(self, like) as at:
                source = os.open(at.name, _READ_FLAGS, dir_fd=at.folder)
        except OSError:
            return
        try:
            facts = os.fstat(source)
            # Set the group and the owner separately: a user may be allowed to set only the group.
            for owner, group in ((-1, facts.st_gid), (facts.st_uid, -1)):
                with suppress(OSError):
                    os.fchown(descriptor, owner, group)
            if hasattr(os, "listxattr"):
                with suppress(OSError):
                    for name in os.listxattr(source):
                        with suppress(OSError):
                            os.setxattr(descriptor, name, os.getxattr(source, name))
        finally:
            os.close(source)


def _read_link(name: str, folder: int) -> DiskFile | None:
    """Return the link of this name in a folder; None if it is not a link."""
    try:
        data = os.fsencode(os.readlink(name, dir_fd=folder))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return DiskFile(data, make_file_version(data, LINK_MODE), _identity(facts))


def _identity(facts: os.stat_result) -> FileIdentity:
    return FileIdentity(device=facts.st_dev, inode=facts.st_ino)


class _ParentFolder:
    """The open parent folder of a path and the last name in it, for the *at() family of calls."""

    __slots__ = ("_filesystem", "_kept", "_path", "folder", "name")

    def __init__(self, filesystem: PosixFilesystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path

    def __enter__(self) -> "_ParentFolder":
        parent, _, self.name = self._path.rpartition("/")
        self.folder, self._kept = self._filesystem.open_folder(parent)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            os.close(self.folder)
