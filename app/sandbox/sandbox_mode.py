"""The modes in which commands run on a workspace, and the interface of a run in either mode."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.sandbox.captured_changes import CapturedChanges, PathChange, WriteBackReport
from app.sandbox.process import Output, ProcessResult


class SandboxMode(StrEnum):
    """The ways in which commands run, the best first."""

    OVERLAY = "overlay"
    """On a layer that is mounted over the workspace."""
    IN_PLACE = "in place"
    """On the user's own files."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The mode that the system allows, and what it enforces."""

    mode: SandboxMode
    why_not: str = ""
    """Why a better mode is not possible; empty for the best one."""
    landlock: int = 0
    """The version of Landlock, which keeps a command in place from files; 0 without."""
    filters_syscalls: bool = False
    """In place: whether the system calls of a command are filtered."""
    refusal: str = ""
    """Why no command may run here; empty if commands may."""

    @property
    def is_confined(self) -> bool:
        """Whether a command is kept from writing outside the workspace, apart from some places."""
        return self.mode is SandboxMode.OVERLAY or self.landlock > 0

    @property
    def can_block_abstract_sockets(self) -> bool:
        """Whether it is kept from sockets without a path, on which for instance an X11 display listens."""
        return self.landlock > 5 or (self.mode is SandboxMode.IN_PLACE and self.filters_syscalls)


@dataclass(frozen=True, slots=True)
class CommandPermissions:
    """The resources that the user's configuration lets commands use."""

    writable: tuple[str, ...] = ()
    """Paths that they may write in place; `~` is the home."""
    sockets: tuple[str, ...] = ()
    """Programs that they may reach: names of `outside_access.SERVICES`, or absolute paths of sockets."""
    variables: tuple[str, ...] = ()
    """Environment variables that they get besides the usual ones."""


class ChangedMeanwhile(Exception):
    """Another program changed a file on disk while a command ran that has changed it too."""


class WorkspaceWrites(Protocol):
    """Reads what programs have written to the workspace with pending changes."""

    async def changes(self) -> CapturedChanges:
        """Return the changes so far. Raises OSError."""
        ...

    def read(self, path: str, limit: int) -> PathChange:
        """Return one of the changes with its contents; raises OSError and ChangedMeanwhile."""
        ...

    async def write_back(self, paths: Sequence[str], *, dry: bool = False) -> WriteBackReport:
        """Write ignored paths back to the workspace, except for those that another program has changed there.

        Args:
            paths: As `changes` has found them.
            dry: Change nothing, and only report what would be written.
        """
        ...


class SandboxRun(WorkspaceWrites, Protocol):
    """The workspace with pending changes, for commands."""

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> ProcessResult:
        """Run a program (absolute path, arguments) in a folder of the workspace; raises StartFailed."""
        ...
