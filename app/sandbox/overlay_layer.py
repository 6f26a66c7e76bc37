"""A layer over a workspace, in the mount namespace of a program, and the changes that programs made in it.

Mounts are made from the outermost path inwards. The source of each mount is opened before the first mount, which may
cover it: for example, the workspace may lie in `/tmp`, which is replaced by a private folder.
"""

import asyncio
import os
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from app.sandbox.captured_changes import CommandFileChanges, IgnoredPathsWriteBackReport, PathChange, PendingFiles
from app.sandbox.confinement import can_block_abstract_sockets
from app.sandbox.enclosed_process import ProcessResourceLimits, run_enclosed
from app.sandbox.files_and_links import folder_or_nonexistent_path, lstat_or_none
from app.sandbox.ignored_write_back import IgnoredFileWriter
from app.sandbox.outside_access import OutsidePathAccess, is_in_any_folder
from app.sandbox.path_policy import (
    StagingPathPolicy,
    StatFingerprint,
    git_folders,
    git_folders_inside,
    stat_fingerprint,
)
from app.sandbox.process import MARKER_VARIABLE, Output, ProcessExit, run_shielded
from app.sandbox.run_folders import CacheOverlayFolders, FailedWriteBackStore, file_stats, remove_entry
from app.sandbox.upper_layer import UpperLayer
from app.workspace.paths import Workspace

NEW_CACHES_PATH = "/tmp/.signoff-caches"
"""Path in a command's namespace of the folder for bytecode and for caches that the user doesn't have."""
_SHARED_MEMORY = Path("/dev/shm")
_MOUNT_TABLE = Path("/proc/self/mountinfo")
_ESCAPED_CHARACTER = re.compile(rb"\\([0-7]{3})")


class OverlayFolders(Struct, frozen=True):
    """The folders behind one overlay of a workspace; all of them lie in signoff's state folder."""

    run: Path
    """Folder of the run; contains an empty folder `empty` and an empty file `nothing`."""
    upper: Path
    """Upper folder of the overlay over the workspace."""
    temporary: Path
    """Parent of the private folders that replace the temporary folders for a command."""
    caches: CacheOverlayFolders


def mount_steps(
    root: Path, folders: OverlayFolders, access: OutsidePathAccess, policy: StagingPathPolicy
) -> list[str]:
    """Return the steps that set up a mount namespace for a command.

    Args:
        root: The resolved path of the workspace.
        folders: The folders of the run; missing private folders are created.
        access: The paths outside the workspace that a command may write or see.
        policy: Decides which mounts inside the workspace are ignored by git, and thus writable.

    Raises:
        OSError: A folder can't be created.
    """
    mounts = dict.fromkeys(_list_mounts(root, folders, access, policy))
    ordered = sorted(mounts, key=lambda mount: len(mount.target.parts))
    steps = ["namespaces", "read-only"]
    for path in dict.fromkeys((folders.run, folders.temporary, folders.caches.folder)):
        steps += ["writable", str(path)]
    for source in dict.fromkeys(source for mount in ordered for source in mount.sources):
        steps += ["keep", str(source)]
    for mount in ordered:
        steps += mount.step
    return [*steps, "terminals", *(["no-abstract-sockets"] if can_block_abstract_sockets() else [])]


class _MountStep(Struct, frozen=True):
    target: Path
    step: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    """Paths to open before the first mount."""


def _list_mounts(
    root: Path, folders: OverlayFolders, access: OutsidePathAccess, policy: StagingPathPolicy
) -> Iterator[_MountStep]:
    # A new one each time: the kernel refuses a used work folder of a volatile overlay, for example after a crash.
    work = Path(tempfile.mkdtemp(prefix="work-", dir=folders.run))
    yield _MountStep(root, ("overlay", str(root), str(folders.upper), str(work)), (root, folders.upper, work))
    for mounted in mount_points_below(root):
        mode = "writable" if policy.is_ignored(mounted, is_folder=(root / mounted).is_dir()) else "read-only"
        yield _show_lower_mount(root, mounted, mode)
    for cache in access.caches:
        if cache != root:
            upper, work = folders.caches.upper_folder(cache), folders.caches.make_work_folder()
            yield _MountStep(cache, ("cache-layer", str(cache), str(upper), str(work)), (cache, upper, work))
    yield from _temporary_mounts(root, folders, access)
    covered = [*access.temporary, *access.caches]
    repositories = [path for path in git_folders(root) if not path.is_relative_to(root)]
    for path in access.writable:
        if path != root:
            yield _show_mount(path, "writable")
    for path in (
        *access.shown,
        *(repository for repository in repositories if is_in_any_folder(repository, (*covered, *access.writable))),
    ):
        if path != root:
            yield _show_mount(path, "read-only")
    for protected in (root, *repositories, *access.hidden):
        for above in protected.parents:
            # A command could move a parent folder away with everything in it, unless it is a mount point.
            if any(above != path and above.is_relative_to(path) for path in access.writable):
                yield _show_mount(above, "writable")
    for inside in git_folders_inside(root):
        yield _show_lower_mount(root, inside, "read-only")
    yield from _hiding_mounts(folders, access)


def _temporary_mounts(root: Path, folders: OverlayFolders, access: OutsidePathAccess) -> Iterator[_MountStep]:
    for number, path in enumerate(access.temporary):
        if path == root:
            continue
        if path == _SHARED_MEMORY:
            yield _MountStep(path, ("memory", str(path)))
            continue
        own = folders.temporary / str(number)
        if not own.is_dir():
            own.mkdir()
            own.chmod(0o1777)
        yield _MountStep(path, ("cover", str(path), str(own)), (own,))
    made = folders.caches.new_caches_folder
    yield _MountStep(Path(NEW_CACHES_PATH), ("cover", NEW_CACHES_PATH, str(made)), (made,))


def _hiding_mounts(folders: OverlayFolders, access: OutsidePathAccess) -> Iterator[_MountStep]:
    empty, nothing = folders.run / "empty", folders.run / "nothing"
    for number, path in enumerate(access.hidden):
        inside = [each for each in access.opened if path in each.parents]
        if inside:
            replacement = folders.run / f"replacement-{number}"
            replacement.mkdir(exist_ok=True)
            yield _MountStep(path, ("cover", str(path), str(replacement)), (replacement,))
        else:
            instead = empty if path.is_dir() else nothing
            yield _MountStep(path, ("hide", str(path), str(instead)), (instead,))
    for path in access.opened:
        if is_in_any_folder(path, (*access.hidden, *access.temporary)):
            yield _show_mount(path, "writable")


def _show_mount(path: Path, mode: str) -> _MountStep:
    return _MountStep(path, ("show", str(path), mode), (path,))


def _show_lower_mount(root: Path, inside: str, mode: str) -> _MountStep:
    return _MountStep(root / inside, ("through", inside, f"{root}/{inside}", mode))


def mount_points_below(root: Path) -> list[str]:
    """Return the mount points below a folder, as relative paths, without those inside another one."""
    try:
        lines = _MOUNT_TABLE.read_bytes().splitlines()
    except OSError:
        return []
    found = set()
    for line in lines:
        point = Path(os.fsdecode(_ESCAPED_CHARACTER.sub(lambda code: bytes([int(code[1], 8)]), line.split(b" ")[4])))
        if point != root and point.is_relative_to(root):
            found.add(point.relative_to(root).as_posix())
    # A mount point inside another one is bound together with it.
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))


class OverlayLayer:
    """A layer of written changes over a workspace; it exists as long as its folders do.

    Args:
        workspace: The folder below.
        folders: The empty folders that the layer uses.
        access: Paths outside the workspace that programs may write and see.
        variables: The environment of programs in the layer, without a marker.
        kept_versions: Receives versions of ignored files that can't be written back.
        limits: Resource limits of each program.
        pending: The pending changes that `write_pending` applies.
    """

    _keeps_running = False
    """Whether programs may run, and have files of the layer open, while ignored paths are written back."""

    def __init__(
        self,
        workspace: Workspace,
        folders: OverlayFolders,
        access: OutsidePathAccess,
        variables: Mapping[str, str],
        kept_versions: FailedWriteBackStore,
        limits: ProcessResourceLimits,
        pending: PendingFiles,
    ) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._folders = folders
        self._layer = folders.upper
        self._access = access
        self._kept = kept_versions
        self._limits = limits
        self.variables = variables
        self._set_pending(pending)

    def _set_pending(self, pending: PendingFiles) -> None:
        self._policy = StagingPathPolicy(self._workspace, pending)
        self._upper = UpperLayer(self._root, self._layer, pending)

    def write_pending(self) -> None:
        """Write the pending changes to the empty layer. Raises OSError."""
        self._upper.write_pending()

    def mount_steps(self) -> list[str]:
        """Return the steps of `sandbox_init.py` that mount the layer for one program. Raises OSError."""
        return mount_steps(self._root, self._folders, self._access, self._policy)

    async def find_changes(self) -> CommandFileChanges:
        """Return the changes so far. Raises OSError."""
        return await asyncio.to_thread(self._upper.find_changes, self._policy)

    def read_change(self, path: str, limit: int) -> PathChange:
        """Return one of the changes with its contents. Raises like `UpperLayer.read_change`."""
        return self._upper.read_change(path, limit)

    async def write_back(self, paths: Sequence[str], *, dry_run: bool = False) -> IgnoredPathsWriteBackReport:
        """Write ignored paths back to the workspace, except for files that another program has changed there.

        Args:
            paths: Ignored paths, as in `CommandFileChanges.ignored_paths`.
            dry_run: Change nothing, and only report what would be written.
        """
        writer = IgnoredFileWriter(
            self._root, self._layer, self._upper.filled_at, self._kept.new_folder, dry_run, self._keeps_running
        )
        # Not cancelled half-way: a program that keeps running could replace a folder by a link meanwhile.
        return await run_shielded(asyncio.to_thread(writer.write, paths))


class OverlaySandboxedWorkspace(OverlayLayer):
    """A layer for commands that run to their end, one after the other."""

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> ProcessExit:
        """Run a program and wait for its end.

        Args:
            program: The absolute path of the program, and its arguments.
            folder: Its working directory, as a workspace path.

        Raises:
            StartFailed: It could not be started.
        """
        environment = {**self.variables, MARKER_VARIABLE: uuid.uuid4().hex}
        steps = [*self.mount_steps(), "folder", str(self._root / folder)]
        return await run_enclosed(
            steps,
            program,
            environment=environment,
            root=self._root,
            seconds=seconds,
            output=output,
            limits=self._limits,
        )


class PersistentProcessOverlay(OverlayLayer):
    """A layer for one program that keeps running while pending changes are added and removed."""

    _keeps_running = True
    _seen: Mapping[str, list[StatFingerprint]] = MappingProxyType({})

    def replace_contents(self, pending: PendingFiles) -> None:
        """Replace the contents of the layer by these changes; the caller must remount the program. Raises OSError."""
        for entry in list(self._layer.iterdir()):
            remove_entry(entry)
        self._set_pending(pending)
        self.write_pending()
        self._seen = {}

    def mark_seen(self) -> None:
        """Mark all current changes as seen. Raises OSError."""
        self._seen = self._written_stats()

    def unseen_paths(self) -> list[str]:
        """Return the paths that were written since the last `mark_seen`, sorted. Raises OSError."""
        return sorted(path for path, facts in self._written_stats().items() if facts != self._seen.get(path, ...))

    def _written_stats(self) -> dict[str, list[StatFingerprint]]:
        """Return the stats of each changed path and of the files below it; none for a removed one."""
        found = self._upper.find_changes(self._policy)
        stats = {}
        for path in (*(change.path for change in found.touched), *found.ignored_paths):
            place = self._layer / path
            facts = (lstat_or_none(place), *file_stats(folder_or_nonexistent_path(place)))
            stats[path] = [stat_fingerprint(each) for each in facts if each]
        return stats
