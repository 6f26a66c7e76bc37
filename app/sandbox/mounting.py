"""The steps of `enter.py` by which a command sees the workspace with a layer over it, and can write little else.

Mounts are made from the outermost path inwards. The source of each is opened before the first one, since that may
cover it: the workspace may lie in `/tmp`, in place of which a command sees a private folder.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.cache_layers import CacheLayers
from app.sandbox.outside_access import OutsideAccess, is_below
from app.sandbox.own_process import can_block_abstract_sockets
from app.sandbox.path_policy import PathPolicy
from app.workspace.git_repository import repository

MADE_CACHES = "/tmp/.signoff-caches"
"""Path at which a command sees the folder for bytecode, and for caches that the user doesn't have."""
_SHARED_MEMORY = Path("/dev/shm")
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class LayerFolders:
    """The folders behind one overlay of a workspace; all of them lie in signoff's state folder."""

    run: Path
    """Folder of the run; has an empty folder `empty` and an empty file `nothing` in it."""
    upper: Path
    """Upper folder of the overlay over the workspace."""
    temporary: Path
    """Parent of the private folders that a command sees in place of the temporary folders."""
    caches: CacheLayers


def mount_steps(root: Path, folders: LayerFolders, access: OutsideAccess, keeping: PathPolicy) -> list[str]:
    """The steps that set up a mount namespace for a command.

    Args:
        root: The resolved path of the workspace.
        folders: The folders behind the mounts.
        access: The places outside the workspace that a command may write or see.
        keeping: Tells which mounts inside the workspace are ignored, and so writable.

    Raises:
        OSError: A folder can't be made.
    """
    mounts = dict.fromkeys(_mounts(root, folders, access, keeping))
    ordered = sorted(mounts, key=lambda mount: len(mount.target.parts))
    steps = ["namespaces", "read-only"]
    for path in dict.fromkeys((folders.run, folders.temporary, folders.caches.folder)):
        steps += ["writable", str(path)]
    for source in dict.fromkeys(source for mount in ordered for source in mount.sources):
        steps += ["keep", str(source)]
    for mount in ordered:
        steps += mount.step
    return [*steps, "terminals", *(["no-abstract-sockets"] if can_block_abstract_sockets() else [])]


@dataclass(frozen=True, slots=True)
class _Mount:
    target: Path
    step: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    """Paths to open before anything is mounted."""


def _mounts(root: Path, folders: LayerFolders, access: OutsideAccess, keeping: PathPolicy) -> Iterator[_Mount]:
    # New each time: the kernel refuses a used work folder of a volatile overlay, as after a crash.
    work = Path(tempfile.mkdtemp(prefix="work-", dir=folders.run))
    yield _Mount(root, ("overlay", str(root), str(folders.upper), str(work)), (root, folders.upper, work))
    for mounted in mounts_below(root):
        mode = "writable" if keeping.ignores(mounted, is_folder=(root / mounted).is_dir()) else "read-only"
        yield _through(root, mounted, mode)
    for cache in access.caches:
        if cache != root:
            upper, work = folders.caches.upper(cache), folders.caches.work()
            yield _Mount(cache, ("cache-layer", str(cache), str(upper), str(work)), (cache, upper, work))
    yield from _temporary(root, folders, access)
    covered = [*access.temporary, *access.caches]
    repositories = [path for path in _git_folders(root) if not path.is_relative_to(root)]
    for path in access.writable:
        if path != root:
            yield _shown(path, "writable")
    for path in (*access.shown, *(each for each in repositories if is_below(each, (*covered, *access.writable)))):
        if path != root:
            yield _shown(path, "read-only")
    for protected in (root, *repositories, *access.hidden):
        for above in protected.parents:
            # A command could move a folder above away, with all that is in it; a mount point it can't.
            if any(above != each and above.is_relative_to(each) for each in access.writable):
                yield _shown(above, "writable")
    for inside in _read_only_inside(root):
        yield _through(root, inside, "read-only")
    yield from _hidden(folders, access)


def _temporary(root: Path, folders: LayerFolders, access: OutsideAccess) -> Iterator[_Mount]:
    for number, path in enumerate(access.temporary):
        if path == root:
            continue
        if path == _SHARED_MEMORY:
            yield _Mount(path, ("memory", str(path)))
            continue
        own = folders.temporary / str(number)
        if not own.is_dir():
            own.mkdir()
            own.chmod(0o1777)
        yield _Mount(path, ("cover", str(path), str(own)), (own,))
    made = folders.caches.made
    yield _Mount(Path(MADE_CACHES), ("cover", MADE_CACHES, str(made)), (made,))


def _hidden(folders: LayerFolders, access: OutsideAccess) -> Iterator[_Mount]:
    empty, nothing = folders.run / "empty", folders.run / "nothing"
    for number, path in enumerate(access.hidden):
        inside = [each for each in access.opened if path in each.parents]
        if inside:
            replacement = folders.run / f"replacement-{number}"
            replacement.mkdir(exist_ok=True)
            yield _Mount(path, ("cover", str(path), str(replacement)), (replacement,))
        else:
            instead = empty if path.is_dir() else nothing
            yield _Mount(path, ("hide", str(path), str(instead)), (instead,))
    for path in access.opened:
        if is_below(path, (*access.hidden, *access.temporary)):
            yield _shown(path, "writable")


def _shown(path: Path, mode: str) -> _Mount:
    return _Mount(path, ("show", str(path), mode), (path,))


def _through(root: Path, inside: str, mode: str) -> _Mount:
    return _Mount(root / inside, ("through", inside, f"{root}/{inside}", mode))


def _git_folders(root: Path) -> list[Path]:
    """The resolved folders of the repository that the workspace is part of, wherever they lie."""
    found = repository(root)
    if found is None:
        return []
    folders = {Path(os.path.realpath(path)) for path in (found.top / ".git", found.folder, found.shared)}
    return sorted(path for path in folders if path.exists())


def _read_only_inside(root: Path) -> list[str]:
    """The workspace paths of git's folders in it: what is written there, such as hooks and settings, is run."""
    found = {path.relative_to(root).as_posix() for path in _git_folders(root) if path.is_relative_to(root)}
    entry = root / ".git"
    if os.path.lexists(entry) and not entry.is_symlink():
        found.add(".git")
    found.discard(".")
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))


def mounts_below(root: Path) -> list[str]:
    """Paths in a folder at which something else is mounted, the outer ones first."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return []
    found = set()
    for line in lines:
        point = Path(os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), line.split(b" ")[4])))
        if point != root and point.is_relative_to(root):
            found.add(point.relative_to(root).as_posix())
    # A mount inside another one is bound with it.
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))
