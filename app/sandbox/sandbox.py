"""Probes whether commands can run on an overlay or only in place, and opens their runs."""

import asyncio
import os
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from app.copies import replace
from app.sandbox.captured_changes import (
    CommandFileChanges,
    FileOrLink,
    IgnoredPathsWriteBackReport,
    PathChange,
    PendingFiles,
)
from app.sandbox.confinement import (
    CommandWriteMode,
    ConfiguredCommandAccess,
    SandboxCapabilities,
    SandboxedWorkspace,
    can_filter_syscalls,
    confinement_steps,
    hide_process_memory,
    landlock_version,
    process_limit_problem,
)
from app.sandbox.enclosed_process import ProcessResourceLimits, SandboxStepFailed, process_limits, run_enclosed
from app.sandbox.environment import absolute_search_path, add_git_settings_for_overlay, command_environment
from app.sandbox.outside_access import WRITABLE_DEVICES, OutsidePathAccess, find_outside_access, variables_of_services
from app.sandbox.overlay_layer import (
    NEW_CACHES_PATH,
    OverlayFolders,
    OverlaySandboxedWorkspace,
    PersistentProcessOverlay,
)
from app.sandbox.path_policy import StagingPathPolicy
from app.sandbox.process import (
    MARKER_VARIABLE,
    PLATFORM,
    Output,
    ProcessExit,
    StartFailed,
    end_process_tree,
    run_process,
    run_shielded,
)
from app.sandbox.run_folders import (
    CACHE_FOLDER,
    MAX_LAYER_DAYS,
    cache_redirect_variables,
    create_cache_overlay_folders,
    hash_as_file_name,
    lock_kept_cache_overlays,
    prune_kept_cache_overlays,
    remove_stale_folders,
    temporary_run_folder,
    versions_kept_for_workspace,
)
from app.sandbox.workspace_backup import WorkspaceBackup, locate_workspace_backup, prune_workspace_backups
from app.workspace.paths import Workspace


class InPlaceSandboxedWorkspace(Struct, frozen=True):
    """Runs programs in the workspace itself."""

    backup: WorkspaceBackup
    """The backup: locked, with all files copied and pending changes written."""
    policy: StagingPathPolicy
    """Decides which changes are staged."""
    writable: tuple[Path, ...]
    """Paths besides the workspace that programs may write, by Landlock."""
    unreadable: tuple[Path, ...]
    """Paths that programs may not read, by Landlock."""
    variables: Mapping[str, str]
    """The environment of programs, without a marker."""
    limits: ProcessResourceLimits
    """Resource limits of each program."""
    sockets: bool
    """Whether programs may use Unix sockets."""

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> ProcessExit:
        """Run a program and wait for its end. Raises StartFailed, and OSError if its processes can't be limited."""
        marker = uuid.uuid4().hex
        environment = {**self.variables, MARKER_VARIABLE: marker}
        where = self.backup.root / folder
        if PLATFORM == "linux":
            hide_process_memory()
            steps = confinement_steps(
                (self.backup.root, *self.writable),
                WRITABLE_DEVICES,
                self.unreadable,
                allow_unix_sockets=self.sockets,
            )
            return await run_enclosed(
                [*steps, "folder", str(where)],
                program,
                environment=environment,
                root=self.backup.root,
                seconds=seconds,
                output=output,
                limits=self.limits,
                keep_open=(self.backup.lock,),
            )

        async def end(process: asyncio.subprocess.Process) -> bool:
            return await end_process_tree(process, marker)

        return await run_process(
            program, folder=where, environment=environment, seconds=seconds, output=output, end_process=end
        )

    async def find_changes(self) -> CommandFileChanges:
        """Return the changes so far. Raises OSError."""
        return await asyncio.to_thread(self.backup.find_changes, self.policy)

    def read_change(self, path: str, limit: int) -> PathChange:
        """Return one of the changes with its contents. Raises OSError."""
        return self.backup.read_change(path, limit)

    async def write_back(self, paths: Sequence[str], *, dry_run: bool = False) -> IgnoredPathsWriteBackReport:
        """Return the ignored paths that have changed; they are in the workspace already, so nothing is written."""
        return (
            IgnoredPathsWriteBackReport()
            if dry_run
            else IgnoredPathsWriteBackReport(await asyncio.to_thread(self.backup.find_changed_ignored))
        )


_NO_PERMISSIONS = ConfiguredCommandAccess()


class Sandbox:
    """Runs the commands of one workspace; used on one event loop.

    Args:
        state: A folder for the files of runs, and for the layers over caches.
        own_folders: signoff's own folders, which are hidden from commands.
        permissions: Resources that the user opens to commands.
        modes: The modes to choose from; in place is always possible.
        kept: A folder for versions of ignored files that can't be written back; by default one in `state`.
        limits: Limits of the memory and the processes of each program; by default those of `process_limits`.
    """

    def __init__(
        self,
        workspace: Workspace,
        state: Path,
        *,
        own_folders: Sequence[Path],
        permissions: ConfiguredCommandAccess = _NO_PERMISSIONS,
        modes: Sequence[CommandWriteMode] = tuple(CommandWriteMode),
        kept: Path | None = None,
        limits: ProcessResourceLimits | None = None,
    ) -> None:
        self._workspace = workspace
        # Resolved, because `sandbox_init.py` compares these paths, and adds no Landlock rule for a link.
        self._state = Path(os.path.realpath(state))
        self._own_folders = tuple(own_folders)
        self.permissions = permissions
        self._modes = tuple(modes)
        self.kept = versions_kept_for_workspace(workspace.root, kept or self._state / "kept")
        self.limits = limits or process_limits()
        self._probing = asyncio.Lock()
        self._probed: SandboxCapabilities | None = None
        self._layered = True
        self._temporary: Path | None = None
        self._stack = ExitStack()
        self.close = weakref.finalize(self, self._stack.close)
        """Removes the temporary folder of the session's commands."""

    async def probe(self) -> SandboxCapabilities:
        """Return how commands can run here; the result of the first call is cached."""
        async with self._probing:
            if self._probed is None:
                await asyncio.to_thread(self._remove_stale_folders)
                self._probed = await self._find_mode()
            return self._probed

    @asynccontextmanager
    async def open_run(self, pending: PendingFiles, *, keep_files: bool = False) -> AsyncIterator[SandboxedWorkspace]:
        """Open the workspace with pending changes applied; changes that were not read are removed at the end.

        Args:
            keep_files: Use the session's temporary folder and this workspace's layers over caches, so that programs
                see what earlier ones wrote there; otherwise both are new and empty.

        Raises:
            OSError: The folders can't be created, or the files can't be written.
        """
        is_layer = (await self.probe()).mode is CommandWriteMode.OVERLAY
        opened: AbstractAsyncContextManager[SandboxedWorkspace] = (
            self._open_overlay(pending, keep_files=keep_files) if is_layer else self._open_in_place(pending)
        )
        async with opened as run:
            yield run

    @asynccontextmanager
    async def open_persistent(
        self,
        name: str,
        writable: Sequence[str] = (),
        environment: Mapping[str, str] = os.environ,
        files: Iterable[Path] = (),
    ) -> AsyncIterator[PersistentProcessOverlay]:
        """Open a layer for a program that keeps running; only in mode `CommandWriteMode.OVERLAY`.

        Args:
            name: Name of the program; the next program with this name sees what it wrote to caches.
            writable: Further paths outside the workspace that it may write.
            environment: The variables to choose its environment from.
            files: As for `find_outside_access`.

        Raises:
            OSError: The folders can't be created, or the files can't be written.
        """
        async with self._open_run_folders(f"server-{hash_as_file_name(name)}") as folders:
            may = self._outside_access(writable, files)
            variables = self._command_variables(may, NEW_CACHES_PATH, environment, bytecode=True)
            layer = PersistentProcessOverlay(self._workspace, folders, may, variables, self.kept, self.limits, {})
            await run_shielded(asyncio.to_thread(layer.write_pending))
            yield layer

    @asynccontextmanager
    async def open_confined(
        self, name: str, writable: Sequence[str] = (), environment: Mapping[str, str] = os.environ
    ) -> AsyncIterator[tuple[list[str], dict[str, str]]]:
        """Yield the steps and variables for a program that can't write to the workspace, by Landlock.

        Args:
            name: As for `open_persistent`.
            writable: As for `open_persistent`.
            environment: As for `open_persistent`.

        Raises:
            OSError: The folders can't be created, or the number of its processes can't be limited.
        """
        async with self._open_run_folders(f"server-{hash_as_file_name(name)}") as folders:
            root = self._workspace.root
            named = self._outside_access(writable).writable
            kept = [path for path in named if not root.is_relative_to(path) and not path.is_relative_to(root)]
            places = (*kept, *self._writable_folders(folders))
            # The user has configured the program, so it may use sockets.
            steps = confinement_steps(places, WRITABLE_DEVICES, self._unreadable, allow_unix_sockets=True)
            yield steps, self._confined_variables(folders, environment)

    @property
    def _unreadable(self) -> tuple[Path, ...]:
        """Return the paths that a program without a namespace may not read: signoff's own folders."""
        return tuple(Path(os.path.realpath(path)) for path in self._own_folders if path.exists())

    @asynccontextmanager
    async def _open_in_place(self, pending: PendingFiles) -> AsyncIterator[InPlaceSandboxedWorkspace]:
        guard, policy = self._backup(), self._path_policy(pending)
        async with self._open_run_folders("commands", keep_files=True) as folders:
            with ExitStack() as stack:
                await run_shielded(asyncio.to_thread(stack.enter_context, guard.locked()))
                if line := await run_shielded(asyncio.to_thread(guard.restore_interrupted, self._path_policy)):
                    # The pending changes were read while the files were not the user's.
                    raise OSError(f"{line} Try this one again")
                try:
                    await run_shielded(asyncio.to_thread(guard.back_up_and_write_pending, policy, pending))
                    yield InPlaceSandboxedWorkspace(
                        guard,
                        policy,
                        (*self._outside_access().writable, *self._writable_folders(folders)),
                        self._unreadable,
                        self._confined_variables(folders, os.environ),
                        self.limits,
                        bool(self.permissions.sockets),
                    )
                finally:
                    await run_shielded(asyncio.to_thread(guard.restore_files, policy))

    def restore_after_crash(self, *, wait_for_lock: bool = True) -> str:
        """Restore the files after a command in place that was killed together with signoff.

        Args:
            wait_for_lock: Wait for a command that is just ending.

        Returns:
            A line for the user; empty if no command was killed.

        Raises:
            InPlaceCommandAlreadyRunning: A command is running.
            FilesNotRestored: The files can't be written.
        """
        guard = self._backup()
        if not guard.marker_file.exists():
            return ""
        with guard.locked(wait=wait_for_lock):
            return guard.restore_interrupted(self._path_policy)

    def _path_policy(self, pending: PendingFiles) -> StagingPathPolicy:
        return StagingPathPolicy(self._workspace, pending)

    def _backup(self) -> WorkspaceBackup:
        return locate_workspace_backup(self._workspace.root, self._state)

    @asynccontextmanager
    async def _open_overlay(
        self, pending: PendingFiles, *, keep_files: bool = False
    ) -> AsyncIterator[OverlaySandboxedWorkspace]:
        async with self._open_run_folders("commands" if keep_files else "", keep_files=keep_files) as folders:
            may = self._outside_access()
            variables = self._command_variables(may, NEW_CACHES_PATH, os.environ, bytecode=keep_files)
            run = OverlaySandboxedWorkspace(self._workspace, folders, may, variables, self.kept, self.limits, pending)
            await run_shielded(asyncio.to_thread(run.write_pending))
            yield run

    @asynccontextmanager
    async def _open_run_folders(self, kept: str, *, keep_files: bool = False) -> AsyncIterator[OverlayFolders]:
        """Create the folders of a run, and remove them at its end.

        Args:
            kept: The name under which its layers over caches are kept; empty for new ones.
            keep_files: Use the temporary folder of the session's commands.
        """
        with ExitStack() as stack:
            folders = await run_shielded(asyncio.to_thread(self._make_folders, stack, kept, keep_files))
            try:
                yield folders
            finally:
                # In a thread, because there may be many files to remove.
                await run_shielded(asyncio.to_thread(stack.close))

    def _make_folders(self, stack: ExitStack, kept: str, keep_files: bool) -> OverlayFolders:
        folder = stack.enter_context(temporary_run_folder(self._state))
        for name in ("upper", "empty"):
            (folder / name).mkdir()
        (folder / "nothing").touch()
        temporary = folder / "tmp"
        if keep_files:
            if self._temporary is None:
                self._temporary = self._stack.enter_context(temporary_run_folder(self._state))
            temporary = self._temporary
        else:
            temporary.mkdir()
        if kept:
            kept_layers = self._state / CACHE_FOLDER / hash_as_file_name(self._workspace.root) / kept
            layers = stack.enter_context(lock_kept_cache_overlays(kept_layers, folder / "caches"))
        else:
            layers = create_cache_overlay_folders(folder / "caches")
        return OverlayFolders(folder, folder / "upper", temporary, layers)

    def _outside_access(self, writable: Sequence[str] = (), files: Iterable[Path] = ()) -> OutsidePathAccess:
        permissions = replace(self.permissions, writable=(*self.permissions.writable, *writable))
        outside = [path for path in files if not path.is_relative_to(self._workspace.root)]
        return find_outside_access(permissions, self._own_folders, can_overlay_caches=self._layered, files=outside)

    def _command_variables(
        self, may: OutsidePathAccess, made: str, environment: Mapping[str, str], *, bytecode: bool
    ) -> dict[str, str]:
        """Return the environment of a command, without its marker.

        Args:
            may: The paths outside the workspace that the command may write and see.
            made: Path in the command's namespace of the folder for caches without a layer.
            environment: The variables to choose from.
            bytecode: Make Python store bytecode in that folder; otherwise it reads the bytecode beside the sources.
        """
        named = (*self.permissions.variables, *variables_of_services(self.permissions.sockets))
        variables = add_git_settings_for_overlay(command_environment(environment, "", named))
        variables |= cache_redirect_variables(made, os.environ, may.caches)
        if bytecode and "PYTHONDONTWRITEBYTECODE" not in variables:
            variables["PYTHONPYCACHEPREFIX"] = f"{made}/python"
        return variables

    def _confined_variables(self, folders: OverlayFolders, environment: Mapping[str, str]) -> dict[str, str]:
        without_layers = find_outside_access(self.permissions, self._own_folders, can_overlay_caches=False)
        variables = self._command_variables(
            without_layers, str(folders.caches.new_caches_folder), environment, bytecode=True
        )
        return {**variables, "TMPDIR": str(folders.temporary)}

    @staticmethod
    def _writable_folders(folders: OverlayFolders) -> tuple[Path, ...]:
        """Return the folders of a run that a program in place may write."""
        return folders.temporary, folders.caches.new_caches_folder

    def _remove_stale_folders(self) -> None:
        """Remove the folders of runs that were killed, old backups, and layers that are too old or too large."""
        remove_stale_folders(self._state)
        prune_workspace_backups(self._state, time.time() - MAX_LAYER_DAYS * 86_400)
        prune_kept_cache_overlays(self._state / CACHE_FOLDER, everything=False)

    async def _find_mode(self) -> SandboxCapabilities:
        if CommandWriteMode.OVERLAY not in self._modes:
            why_not = "it is not wanted"
        elif not (why_not := await self._overlay_problem()):
            return SandboxCapabilities(CommandWriteMode.OVERLAY, landlock=landlock_version())
        filtered = await asyncio.to_thread(can_filter_syscalls)
        return SandboxCapabilities(
            CommandWriteMode.IN_PLACE, why_not, landlock_version(), filtered, process_limit_problem()
        )

    async def _overlay_problem(self) -> str:
        printed = bytearray()
        # The workspace can neither contain these names nor ignore them, since they are random and pending.
        name = f".signoff-{uuid.uuid4().hex}"
        path = absolute_search_path(os.environ, self._workspace.root)
        try:
            async with self._open_overlay({name: FileOrLink(b"", 0o644), f"{name}.2/file": None}) as run:
                ended = await run.execute(
                    ["/bin/sh", "-c", _PROBE_COMMAND, path, name], folder=".", seconds=10, output=printed.extend
                )
                found = await run.find_changes()
        except SandboxStepFailed as failed:
            if failed.step == "cache-layer" and self._layered:
                self._layered = False
                return await self._overlay_problem()
            return _REASON_BY_STEP.get(failed.step, str(failed))
        except (OSError, StartFailed) as error:
            return str(error)
        if ended.code or [change.path for change in found.touched] != [name, f"{name}.2/file"]:
            error_line = printed.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return "a layer over this file system does not hold what is written" + (error_line and f" ({error_line})")
        return ""


_PROBE_COMMAND = "PATH=$0; chmod u+w .; mkdir $1.1 && echo > $1.1/file && mv $1.1 $1.2 && echo > $1"
_NO_NAMESPACES = "the system does not let users make namespaces"
_REASON_BY_STEP = {
    "namespaces": _NO_NAMESPACES,
    "read-only": "the kernel is older than 5.12, or does not let a mount be made read-only",
    "overlay": "the system does not let users mount an overlay here",
    "start": "the system does not let users mount a /proc of their own",
}
"""Reasons by the step of `sandbox_init.py` that the system refused."""
