"""Resolve and open the paths that tools name; none can lie outside the workspace.

A path is walked one component at a time, with a descriptor of each folder and `O_NOFOLLOW` (the *at() functions of
POSIX.1-2008), so a link that appears between a check and a read is never followed. The walk reads existing links and
follows them itself, as long as they stay inside.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock
from typing import Literal, NamedTuple

from app.workspace.path_rules import (
    FileTooLarge,
    UnsafePath,
    WorkspaceError,
    check_path_component,
    split_and_check_path,
)
from app.workspace.reading import FOLDER_FLAGS, OpenFolderChain, read_regular_file
from app.workspace.secrets import secret_reason

_SCAN_VALID_SECONDS = 5.0
"""Seconds for which a scan of the workspace is valid: after `cp -al`, every file of a copy has two names."""
_MAX_SCANNED_NAMES = 200_000
"""Maximum number of names that a scan examines."""


class SecretHardLinkIndex:
    """Finds whether a file is a hard link to a secret in the workspace, which it scans when needed; thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._secrets: dict[tuple[int, int], str] = {}
        self._valid_until = 0.0

    def find_secret_name(self, file_stat: os.stat_result) -> str:
        """Return a path under which the same file looks like a secret; empty if there is none.

        Scans the workspace if the last scan is too old.
        """
        if file_stat.st_nlink < 2 or not stat.S_ISREG(file_stat.st_mode):
            return ""
        with self._lock:
            if time.monotonic() >= self._valid_until:
                self._secrets = dict(self._find_secrets())
                self._valid_until = time.monotonic() + _SCAN_VALID_SECONDS
            return self._secrets.get((file_stat.st_dev, file_stat.st_ino), "")

    def _find_secrets(self) -> Iterator[tuple[tuple[int, int], str]]:
        """Yield the files that have a secret's name, including those that git ignores."""
        names_left = _MAX_SCANNED_NAMES
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if name != ".git"]
            folder_path = os.path.relpath(folder, self._root)
            for name in names[:names_left]:
                path = name if folder_path == "." else f"{folder_path}/{name}"
                if not secret_reason(path):
                    continue
                try:
                    file_stat = Path(folder, name).lstat()
                except OSError:
                    continue
                # Include a secret with one name: it may get another before the next scan.
                yield (file_stat.st_dev, file_stat.st_ino), path
            names_left -= len(names)
            if names_left <= 0:
                return


__all__ = [
    "FileTooLarge",
    "PathBecameLink",
    "ResolvedPathWithOpenParent",
    "UnsafePath",
    "WalkedFileContent",
    "Workspace",
    "WorkspaceError",
]

READ_LIMIT = 20 * 1024 * 1024
"""Maximum bytes of a file that is read into memory."""

_MAX_LINKS = 40
"""Maximum links in one path; more count as a loop, as in Linux."""
_KERNEL_FILE_SYSTEMS = tuple(map(Path, ("/dev", "/proc", "/sys")))
"""File systems of the kernel: their files may contain secrets, such as the environment of a process."""


class ResolvedPathWithOpenParent(NamedTuple):
    """A path with its links followed, and its parent folder held open."""

    folder: int | None
    """An open descriptor of the real parent folder; None if a folder on the way doesn't exist."""
    name: str
    """The last component in `folder`; `.` for the root and for a folder that a link leads to."""
    path: str
    """The real path, relative to the workspace; `.` for the root."""


class PathBecameLink(UnsafePath):
    """A file or folder that a walk found has been replaced by a link."""


class WalkedFileContent(NamedTuple):
    """The content of a regular file that a walk found, and the secret to which the file is a hard link, if any."""

    content: bytes
    secret_twin: str
    """A path under which the same file (hard link) looks like a secret; empty if there is none."""


class Workspace:
    """The folder that the user opened.

    Every method that takes a path raises `UnsafePath` if no tool may touch it, and `OSError` for errors of the
    system.

    Args:
        off_limits: Files and folders that no tool may touch, inside or outside: the program's own state.
        read_limit: Maximum bytes of a file for `read`.

    Raises:
        WorkspaceError: `root` is not a folder.
    """

    def __init__(self, root: Path, *, off_limits: Collection[Path] = (), read_limit: int = READ_LIMIT) -> None:
        try:
            # Both fail if the current folder was deleted.
            self._given_root = root.absolute()
            self.root = root.resolve(strict=True)
            is_folder = self.root.is_dir()
        except OSError as error:
            raise WorkspaceError(f"{root} can't be opened: {error.strerror}") from error
        if not is_folder:
            raise WorkspaceError(f"{root} is not a folder")
        self.read_limit = read_limit
        self._hard_links = SecretHardLinkIndex(self.root)
        self._closed = Event()
        self._kernel_paths = (
            _paths_inside(self.root, _KERNEL_FILE_SYSTEMS) if self.root == Path(self.root.anchor) else ()
        )
        self._forbidden = (
            *_paths_inside(self.root, (Path(os.path.realpath(path)) for path in off_limits)),
            *self._kernel_paths,
        )

    @property
    def name(self) -> str:
        """Return the path of the root as the store has it: valid Unicode, with other bytes escaped."""
        return str(self.root).encode("utf-8", "backslashreplace").decode()

    def close(self) -> None:
        """End every walk, from any thread: each raises WorkspaceClosedDuringWalk at its next entry."""
        self._closed.set()

    def __repr__(self) -> str:
        return f"Workspace({str(self.root)!r})"

    def normalize_path(self, text: str) -> str:
        """Return the normalised, workspace-relative POSIX path for the model's text; `.` is the root.

        The file need not exist. An absolute path is accepted if it lies inside the workspace. A link is accepted if
        it ends inside; the result contains the link, not its target.

        Raises:
            UnsafePath: The message is one line that says why.
        """
        return self.resolve_both_paths(text)[0]

    def resolve_both_paths(self, text: str) -> tuple[str, str]:
        """Return the path as named and the real path, from one walk."""
        relative = self.relative_path(text) if text.startswith("/") else None
        path = "/".join(split_and_check_path(text if relative is None else relative)) or "."
        return path, self.resolve(path)

    def check_folder_entry(self, relative: str) -> None:
        """Raise UnsafePath for an entry of a folder that no tool may touch.

        If the entry is a link, it is not followed. A link on the way to the entry is refused.
        """
        *folders, name = split_and_check_path(relative) or ["."]
        folder = "/".join(folders) or "."
        if self.resolve(folder) != folder:
            raise UnsafePath(f"{relative} is reached through a link")
        check_path_component(name)
        self.check_not_off_limits(relative, relative)

    def resolve(self, relative: str) -> str:
        """Return the workspace path of the real file behind `relative`, with all links followed."""
        with self.open_parent(relative) as resolved:
            return resolved.path

    def read(self, relative: str, limit: int | None = None) -> bytes:
        """Return the bytes of a regular file of at most `limit` bytes (default: `read_limit`).

        Raises:
            FileNotFoundError: There is no such file.
            IsADirectoryError: It is a folder.
            UnsafePath: It leads out of the workspace, became a link during the read, or is a device or pipe.
            FileTooLarge: It has more bytes.
        """
        return self._read(relative, self.read_limit if limit is None else limit, head=False)[0]

    def read_with_mode(self, relative: str) -> tuple[bytes, int]:
        """Return the bytes of a regular file and its permission bits; raises as `read` does."""
        data, file_stat = self._read(relative, self.read_limit, head=False)
        return data, stat.S_IMODE(file_stat.st_mode)

    def read_head(self, relative: str, size: int) -> bytes:
        """Return the first `size` bytes of a regular file; raises as `read` does."""
        return self._read(relative, size, head=True)[0]

    def kind(self, relative: str) -> Literal["file", "folder", "other", "missing"]:
        """Return the kind of the file that the path leads to, with links followed."""
        with self.open_parent(relative) as resolved:
            if resolved.folder is None:
                return "missing"
            try:
                mode = os.stat(resolved.name, dir_fd=resolved.folder, follow_symlinks=False).st_mode
            except FileNotFoundError:
                return "missing"
        if stat.S_ISREG(mode):
            return "file"
        return "folder" if stat.S_ISDIR(mode) else "other"

    def find_secret_hard_link(self, relative: str) -> str:
        """Return a path under which the same file (hard link) looks like a secret; empty if there is none."""
        with self.open_parent(relative) as resolved:
            if resolved.folder is None:
                return ""
            try:
                return self._hard_links.find_secret_name(
                    os.stat(resolved.name, dir_fd=resolved.folder, follow_symlinks=False)
                )
            except FileNotFoundError:
                return ""

    def walk_files(self, under: str = ".", is_cancelled: Callable[[], bool] = lambda: False) -> Iterator[str]:
        """Yield all files in a folder that no ignore rule excludes, as sorted paths with links on the way resolved.

        Ignore rules apply to what is in `under`, not to `under` itself; if it is a file, only that file is yielded.
        Links to folders are not entered, and names that `normalize_path` would refuse are left out. Once
        `is_cancelled`, which is called at every entry of a folder, returns True, the walk ends.

        Raises:
            FileNotFoundError: There is no such folder.
            WorkspaceClosedDuringWalk: The workspace was closed during the walk.
        """
        from app.workspace.ignore import walk_files

        start = self.resolve(under)
        match self.kind(start):
            case "missing":
                raise FileNotFoundError(f"{under} does not exist")
            case "folder":
                under = "" if start == "." else start
                return walk_files(
                    self.root, under, self._leads_to_file, self.is_off_limits, is_cancelled, self._closed.is_set
                )
            case _:
                return iter((start,))

    def walk_folders(self) -> Iterator[str]:
        """Yield all folders that no ignore rule excludes, without the workspace itself; links are not followed."""
        from app.workspace.ignore import walk_files

        return walk_files(
            self.root, "", lambda link: False, self.is_off_limits, bool, self._closed.is_set, yield_folders=True
        )

    def is_off_limits(self, relative: str) -> bool:
        """Return whether the path is off limits, or lies in a folder that is."""
        return bool(self._forbidden) and any(
            not folder or f"{relative}/".startswith(f"{folder}/") for folder in self._forbidden
        )

    def check_not_off_limits(self, given_path: str, path: str) -> None:
        """Raise UnsafePath if a path is off limits; `given_path` is the path as the caller wrote it."""
        if self.is_off_limits(path):
            is_of_kernel = any(f"{path}/".startswith(f"{folder}/") for folder in self._kernel_paths)
            owner = "the kernel" if is_of_kernel else "signoff itself"
            raise UnsafePath(f"{given_path} belongs to {owner}; tools don't touch it")

    @contextmanager
    def open_parent(self, relative: str) -> Iterator[ResolvedPathWithOpenParent]:
        """Yield the real parent folder of `relative`, held open: the base of every read and write.

        Inside the `with` block, a link that another process creates cannot redirect `os.open` and similar calls with
        `place.name`, `dir_fd=place.folder` and `O_NOFOLLOW`.
        """
        walk = _PathWalk(self, relative)
        try:
            yield walk.run()
        finally:
            walk.close()

    @contextmanager
    def walked_file_reader(self) -> Iterator[Callable[[str], WalkedFileContent]]:
        """Yield a function that reads files that `walk_files` has found, without resolving their paths again.

        Each folder is opened once and no link is followed, so the function reads only files in the workspace. It is
        fastest for files in the order of the walk. It raises as `read` does, and PathBecameLink. Only one thread may
        use it.
        """
        chain = OpenFolderChain(self.root)

        def read(path: str) -> WalkedFileContent:
            folder, _, name = path.rpartition("/")
            try:
                content, file_stat = read_regular_file(
                    name, self.read_limit, folder_descriptor=chain.open_folder(folder)
                )
            except OSError as error:
                if translated_error := _translate_read_error(error, path, self.read_limit, PathBecameLink):
                    raise translated_error from error
                raise
            return WalkedFileContent(content, self._hard_links.find_secret_name(file_stat))

        try:
            yield read
        finally:
            chain.close()

    def relative_path(self, absolute: str) -> str | None:
        """Return an absolute path relative to the workspace, by its text alone; None if it lies outside."""
        path = Path(absolute)
        for root in (self.root, self._given_root):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return None

    def _leads_to_file(self, link: str) -> bool:
        try:
            return self.kind(link) == "file"
        except (OSError, UnsafePath):
            return False

    def _read(self, relative: str, limit: int, *, head: bool) -> tuple[bytes, os.stat_result]:
        with self.open_parent(relative) as resolved:
            if resolved.folder is None:
                raise FileNotFoundError(f"{relative} does not exist")
            try:
                return read_regular_file(
                    resolved.name, limit, folder_descriptor=resolved.folder, allow_truncated=head
                )
            except OSError as error:
                if translated_error := _translate_read_error(error, relative, limit, UnsafePath):
                    raise translated_error from error
                raise


def _translate_read_error(
    error: OSError, path: str, limit: int, link_error: type[UnsafePath]
) -> OSError | WorkspaceError | None:
    """Return the error that `Workspace.read` raises for a system error; None if it raises the system error itself."""
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{path} does not exist")
    if isinstance(error, IsADirectoryError):
        return IsADirectoryError(f"{path} is a folder")
    match error.errno:
        case errno.ELOOP:
            return link_error(f"{path} turned into a link while it was being read")
        case errno.EINVAL | errno.ENXIO:
            return UnsafePath(f"{path} is not a regular file")
        case errno.EFBIG:
            return FileTooLarge(f"{path} is too large: the limit is {limit:,} bytes")
    return None


def _paths_inside(root: Path, paths: Iterable[Path]) -> tuple[str, ...]:
    """Return the places in the workspace, relative to it; an empty text for one that contains the workspace."""
    relative_paths: list[str] = []
    for path in paths:
        if root.is_relative_to(path):
            relative_paths.append("")
        elif path.is_relative_to(root):
            relative_paths.append(path.relative_to(root).as_posix())
    return tuple(relative_paths)


class _PathWalk:
    """One walk down a path; it keeps a descriptor of every folder on the way, because `..` in a link can go back."""

    def __init__(self, workspace: Workspace, relative: str) -> None:
        self._workspace = workspace
        self._relative = relative
        self._folders: list[int | None] = []
        """Open folders from the root down; None for those that don't exist."""
        self._names: list[str] = []
        """Real names below the root; `_folders` has one more item."""
        self._link_count = 0

    def run(self) -> ResolvedPathWithOpenParent:
        """Walk to the last component and return it with its open parent folder; raises UnsafePath."""
        names_to_walk = split_and_check_path(self._relative)[::-1]
        self._folders.append(os.open(self._workspace.root, FOLDER_FLAGS))
        while names_to_walk:
            name = names_to_walk.pop()
            match name:
                case "" | ".":
                    continue
                case "..":
                    self._leave_folder()
                    continue
            check_path_component(name)
            self._workspace.check_not_off_limits(self._relative, "/".join([*self._names, name]))
            if (target := self._read_link(name)) is not None:
                names_to_walk.extend(self._split_link_target(target))
            elif names_to_walk:
                self._enter_folder(name)
            else:
                return ResolvedPathWithOpenParent(self._folders[-1], name, "/".join([*self._names, name]))
        return ResolvedPathWithOpenParent(self._folders[-1], ".", "/".join(self._names) or ".")

    def close(self) -> None:
        """Close every folder."""
        for folder in self._folders:
            if folder is not None:
                os.close(folder)
        self._folders.clear()

    def _leave_folder(self) -> None:
        if not self._names:
            raise UnsafePath(f"{self._relative} leads out of the workspace through a link")
        self._names.pop()
        folder = self._folders.pop()
        if folder is not None:
            os.close(folder)

    def _enter_folder(self, name: str) -> None:
        folder: int | None = None
        if self._folders[-1] is not None:
            try:
                folder = os.open(name, FOLDER_FLAGS, dir_fd=self._folders[-1])
            except FileNotFoundError:
                pass
            except PermissionError as error:
                raise UnsafePath(f"{self._relative} can't be checked: no access to the folder {name}") from error
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                if self._read_link(name) is not None:
                    raise UnsafePath(f"{self._relative} turned into a link while it was being checked") from error
        self._folders.append(folder)
        self._names.append(name)

    def _read_link(self, name: str) -> str | None:
        """Return the target of a link; None for anything else."""
        if self._folders[-1] is None:
            return None
        with suppress(OSError):
            return os.readlink(name, dir_fd=self._folders[-1])
        return None

    def _split_link_target(self, target: str) -> list[str]:
        """Return the components of a link's target, last first; for an absolute target go back to the root."""
        self._link_count += 1
        if self._link_count > _MAX_LINKS:
            raise UnsafePath(f"{self._relative} is a loop of links")
        if not target.startswith("/"):
            return target.split("/")[::-1]
        relative_target = self._workspace.relative_path(target)
        if relative_target is None:
            raise UnsafePath(f"{self._relative} leads out of the workspace through a link")
        while self._names:
            self._leave_folder()
        return relative_target.split("/")[::-1]
