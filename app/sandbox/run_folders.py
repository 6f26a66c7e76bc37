"""Creates the folders of a run, removes them at its end, and keeps the layers over caches between runs.

The next process removes the folders that a crash has left behind. Commands read the caches of the user's package
managers and compilers, but write to a layer that signoff keeps: if a command wrote to a cache in place, other
programs of the user would run or build from it. Each cache gets an overlay whose upper folder lies in signoff's state
folder. This layer is kept between commands, and never merged back. It is removed if it is too large or too old, and
after a restart of the machine (the overlay is mounted without flushing, so a power cut can leave torn files in it).
"""

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

_LOCK_NAME = "lock"
_NEW, _RUN = "new-", "run-"
_STALE_SECONDS = 60.0
"""Seconds after which an unlocked folder is stale."""


@contextmanager
def temporary_run_folder(parent: Path) -> Iterator[Path]:
    """Create a new folder, and remove it at the end. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=parent))
    lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Rename only now: another process would remove a run folder without a lock as stale.
        folder = folder.rename(parent / folder.name.replace(_NEW, _RUN, 1))
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


def remove_stale_folders(parent: Path) -> None:
    """Remove the folders of processes that have died."""
    try:
        folders = list(parent.iterdir())
    except OSError:
        return
    for folder in folders:
        if folder.name.startswith(_NEW):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
                    remove_tree(folder)
        if not folder.name.startswith(_RUN):
            continue
        with suppress(OSError), _try_lock(folder):
            remove_tree(folder)


@contextmanager
def _try_lock(folder: Path) -> Iterator[None]:
    """Lock a folder that this module has created. Raises OSError, also if another process holds the lock."""
    lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def remove_tree(folder: Path) -> None:
    """Remove a folder even if permissions forbid it, as those of the kernel's work folders and of commands may."""
    for unlock in (False, True):
        with suppress(OSError, RecursionError):
            if unlock:
                _unlock_folders(folder)
            shutil.rmtree(folder)
            return
    # The folders are nested too deep for Python's recursion limit or the longest path that the system allows.
    for words in (["/bin/chmod", "-R", "u+rwx"], ["/bin/rm", "-rf"]):
        subprocess.run([*words, "--", folder], stderr=subprocess.DEVNULL, check=False)


def remove_entry(path: Path) -> None:
    """Remove a file, a link or a folder, if it exists. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _unlock_folders(folder: Path) -> None:
    """Let this user list and write a folder and all folders in it."""
    folder.chmod(stat.S_IRWXU)
    for place, names, _ in os.walk(folder):
        for inner in (Path(place, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(stat.S_IRWXU)


MAX_KEPT_BYTES = 1024**3
"""Bytes that are kept for one workspace; the newest folder stays even if it is larger."""
MAX_KEPT_SECONDS = 30 * 86_400.0
"""Seconds for which file versions are kept."""


class FailedWriteBackStore(Struct, frozen=True):
    """Versions of one workspace's files that could not be written back: a folder for each command.

    In it the files have their workspace paths.
    """

    folder: Path

    def new_folder(self) -> Path:
        """Create a folder for a command, and remove old folders and those beyond the size limit. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove_excess()
        return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=self.folder))

    def list_folders(self) -> list[tuple[float, int, Path]]:
        """Return the time (Unix), size in bytes and path of each folder, the newest first."""
        found = []
        with suppress(OSError):
            for folder in self.folder.iterdir():
                with suppress(OSError):
                    size = sum(facts.st_size for facts in file_stats(folder))
                    found.append((folder.lstat().st_mtime, size, folder))
        return sorted(found, reverse=True)

    def prune(self, before: float) -> int:
        """Remove folders made before a time (Unix); return how many."""
        old = [place for made, _, place in self.list_folders() if made < before]
        for place in old:
            remove_tree(place)
        return len(old)

    def _remove_excess(self) -> None:
        self.prune(time.time() - MAX_KEPT_SECONDS)
        total = 0
        for number, (_, size, place) in enumerate(self.list_folders()):
            total += size
            if number and total > MAX_KEPT_BYTES:
                remove_tree(place)


def versions_kept_for_workspace(root: Path, folder: Path) -> FailedWriteBackStore:
    """Return the kept versions of a workspace; `folder` holds those of all workspaces."""
    return FailedWriteBackStore(folder / hash_as_file_name(root))


def hash_as_file_name(text: str | Path) -> str:
    """Return a file name for a path, or for a text that other people chose, such as `x/../../..`."""
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


def move_to_unused_workspace_path(source: Path, folder: Path, path: str) -> None:
    """Move an entry to its workspace path below a folder, with a number added if that exists. Raises OSError."""
    place = folder / path
    number = 1
    while os.path.lexists(place):
        # A replaced file of the workspace may be kept at the same path.
        number += 1
        place = folder / f"{path}.{number}"
    place.parent.mkdir(parents=True, exist_ok=True)
    mode = source.lstat().st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        # The user must be able to read it.
        source.chmod(stat.S_IMODE(mode) | (stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR))
    shutil.move(source, place)


def file_stats(folder: Path) -> Iterator[os.stat_result]:
    """Yield the lstat(2) results of all files in a folder."""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield os.lstat(f"{place}/{name}")


MAX_LAYER_BYTES = 8 * 1024**3
"""Size of a kept layer in bytes above which the next command starts with an empty one."""
MAX_LAYER_DAYS = 14
"""Days after which a kept layer, or a backup that no command uses, is emptied."""
_MEASURING_SECONDS = 600.0
"""Seconds between two measurements of a layer; each one walks the whole layer."""
CACHE_FOLDER = "caches"
"""Folder of all kept layers, in the folder of the runs: `caches/WORKSPACE/USE`."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MADE, _BOOT, _MEASURED = "made", "boot", "measured"


class ToolCache(Struct, frozen=True):
    """The cache of one program, such as pip or uv: the variable that names its folder, and the usual path."""

    variable: str
    """Environment variable with its path; empty if there is none."""
    default: str
    """Its path if the variable is not set; `~` is the home."""
    inner: tuple[str, ...] = ("",)
    """The folders in it with downloads and builds; other folders may hold settings and programs."""


_TOOL_CACHES = (
    ToolCache("XDG_CACHE_HOME", "~/.cache"),
    ToolCache("UV_CACHE_DIR", "~/.cache/uv"),
    ToolCache("PIP_CACHE_DIR", "~/.cache/pip"),
    ToolCache("POETRY_CACHE_DIR", "~/.cache/pypoetry"),
    ToolCache("PRE_COMMIT_HOME", "~/.cache/pre-commit"),
    ToolCache("npm_config_cache", "~/.npm"),
    ToolCache("YARN_CACHE_FOLDER", "~/.cache/yarn"),
    ToolCache("YARN_GLOBAL_FOLDER", "~/.yarn"),
    ToolCache("npm_config_store_dir", "~/.local/share/pnpm/store"),
    ToolCache("", "~/.pnpm-store"),
    ToolCache("BUN_INSTALL_CACHE_DIR", "~/.bun/install/cache"),
    ToolCache("DENO_DIR", "~/.cache/deno"),
    ToolCache("CARGO_HOME", "~/.cargo", ("registry", "git")),
    ToolCache("GOCACHE", "~/.cache/go-build"),
    ToolCache("GOMODCACHE", "~/go/pkg/mod"),
    ToolCache("", "~/.m2/repository"),
    ToolCache("GRADLE_USER_HOME", "~/.gradle", ("caches",)),
    ToolCache("", "~/.ivy2/cache"),
    ToolCache("NUGET_PACKAGES", "~/.nuget/packages"),
    ToolCache("PUB_CACHE", "~/.pub-cache"),
    ToolCache("CONAN_HOME", "~/.conan2", ("p",)),
    ToolCache("CCACHE_DIR", "~/.ccache"),
    ToolCache("COMPOSER_CACHE_DIR", "~/.cache/composer"),
    ToolCache("", "~/Library/Caches"),
)


def cache_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the resolved paths of the user's existing caches, without those inside another one."""
    found = set()
    for cache in _TOOL_CACHES:
        place = Path(environment.get(cache.variable) or cache.default).expanduser()
        for name in cache.inner:
            # Path.is_dir() raises if this user can't enter a parent folder; os.path.isdir() doesn't.
            if os.path.isdir(place / name):  # noqa: PTH112
                found.add(Path(os.path.realpath(place / name)))
    existing = sorted(found - {Path("/"), Path.home()})
    return [path for path in existing if not any(path != other and path.is_relative_to(other) for other in existing)]


def cache_redirect_variables(
    new_caches: str, environment: Mapping[str, str], layered: Collection[Path]
) -> dict[str, str]:
    """Return variables that move every cache without a layer into a folder that commands may write.

    Args:
        new_caches: Path of that folder in the command's namespace.
        environment: The user's variables, which may set paths of caches.
        layered: The caches that have a layer.
    """
    moved = {}
    for cache in _TOOL_CACHES:
        if not cache.variable:
            continue
        place = Path(environment.get(cache.variable) or cache.default).expanduser()
        inner = [Path(os.path.realpath(place / name)) for name in cache.inner]
        if not all(any(path.is_relative_to(each) for each in layered) for path in inner):
            moved[cache.variable] = f"{new_caches}/{cache.default.removeprefix('~/').lstrip('.').replace('/', '-')}"
    return moved


class CacheOverlayFolders(Struct, frozen=True):
    """The folders behind the overlays over the caches of one command."""

    folder: Path

    @property
    def new_caches_folder(self) -> Path:
        """Return the folder for caches that the user does not have, and for bytecode."""
        return self.folder / _MADE

    def upper_folder(self, cache: Path) -> Path:
        """Return the upper folder of the overlay over one cache; create it if it is missing. Raises OSError."""
        upper = self.folder / hash_as_file_name(cache)
        if not upper.is_dir():
            upper.mkdir()
            upper.chmod(cache.stat().st_mode & 0o7777)
        return upper

    def make_work_folder(self) -> Path:
        """Create a work folder for an overlay; a volatile overlay can't use one twice. Raises OSError."""
        return Path(tempfile.mkdtemp(prefix="work-", dir=self.folder))

    def clear_work(self) -> None:
        """Remove the work folders of overlays that are no longer mounted."""
        for folder in self.folder.glob("work-*"):
            remove_tree(folder)


def create_cache_overlay_folders(folder: Path) -> CacheOverlayFolders:
    """Create a new folder for the layers over caches, which the caller removes. Raises OSError."""
    (folder / _MADE).mkdir(parents=True)
    return CacheOverlayFolders(folder)


@contextmanager
def lock_kept_cache_overlays(folder: Path, fallback: Path) -> Iterator[CacheOverlayFolders]:
    """Lock and yield the layers that are kept in a folder; while another command uses them, empty ones in `fallback`.

    The kernel allows one mount of an upper folder at a time; a file lock ensures that.

    Raises:
        OSError: The folder can't be created.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield create_cache_overlay_folders(fallback)
            return
        layers = CacheOverlayFolders(folder)
        if _is_outdated(folder):
            _clear_folder(folder)
        layers.clear_work()
        layers.new_caches_folder.mkdir(exist_ok=True)
        if not (folder / _BOOT).exists():
            (folder / _BOOT).write_text(_boot_id())
        yield layers
        layers.clear_work()
    finally:
        os.close(lock)


def prune_kept_cache_overlays(folder: Path, *, everything: bool) -> int:
    """Empty kept layers that no command uses: all, or the outdated ones. Return the number of bytes freed."""
    freed = 0
    for each in folder.glob("*/*"):
        with suppress(OSError), _try_lock(each):
            if everything or _is_outdated(each):
                freed += _disk_usage(each)
                _clear_folder(each)
    return freed


def _is_outdated(folder: Path) -> bool:
    """Return whether a layer is too old, too large, or from before a restart of the machine."""
    try:
        boot = folder / _BOOT
        if boot.read_text() != _boot_id() or time.time() - boot.stat().st_mtime > MAX_LAYER_DAYS * 86_400:
            return True
        measured = folder / _MEASURED
        if measured.exists() and time.time() - measured.stat().st_mtime < _MEASURING_SECONDS:
            return False
        measured.touch()
        return _disk_usage(folder) > MAX_LAYER_BYTES
    except OSError:
        return True


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text()
    except OSError:
        return ""


def _disk_usage(folder: Path) -> int:
    """Return the bytes on disk of all files in a folder."""
    return sum(facts.st_blocks * 512 for facts in file_stats(folder))


def _clear_folder(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.name != _LOCK_NAME:
            remove_entry(entry)
