"""The ways in which commands run on a workspace, and what a run of one offers, whichever way it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.sandbox.captured_changes import CapturedChanges, PathChange, ThroughReport
from app.sandbox.process import Output, ProcessResult


class SandboxMode(StrEnum):
    """How commands run, the best first."""

    OVERLAY = "overlay"
    """On the workspace's own path, which in truth is another layer."""
    IN_PLACE = "in place"
    """On the user's own files."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What the probe has found."""

    mode: SandboxMode
    why_not: str = ""
    """Why it is none of the better ways."""
    landlock: int = 0
    """The version of Landlock, which keeps a command in place from files; 0 without."""
    filtered: bool = False
    """In place: whether the system calls of a command are filtered."""
    refusal: str = ""
    """Why no command may run here; empty if commands may."""

    @property
    def confined(self) -> bool:
        """Whether a command is kept from writing outside the workspace, apart from some places."""
        return self.mode is SandboxMode.OVERLAY or self.landlock > 0

    @property
    def blocks_abstract_sockets(self) -> bool:
        """Whether it is kept from sockets without a path, on which for instance an X11 display listens."""
        return self.landlock > 5 or (self.mode is SandboxMode.IN_PLACE and self.filtered)


@dataclass(frozen=True, slots=True)
class CommandPermissions:
    """What the user's configuration opens to commands."""

    writable: tuple[str, ...] = ()
    """Paths that they may write in place; `~` is the home."""
    sockets: tuple[str, ...] = ()
    """Programs that they may reach: names of `sockets.SERVICES`, or absolute paths of sockets."""
    variables: tuple[str, ...] = ()
    """Environment variables that they get besides the usual ones."""


class ChangedMeanwhile(Exception):
    """A file changed on disk while a command ran that has changed it too."""


class WorkspaceWrites(Protocol):
    """What programs have made of the workspace with pending changes."""

    async def changes(self) -> CapturedChanges:
        """What has changed so far. Raises OSError."""
        ...

    def read(self, path: str, limit: int) -> PathChange:
        """One of the changes with its contents; raises OSError, and ChangedMeanwhile."""
        ...

    async def write_through(self, paths: Sequence[str], *, dry: bool = False) -> ThroughReport:
        """Have ignored paths in the workspace as they are here, where nobody else has changed them.

        Args:
            paths: As `changes` has found them.
            dry: Change nothing, and only say what would be written.
        """
        ...


class SandboxRun(WorkspaceWrites, Protocol):
    """The workspace with pending changes, for commands."""

    async def execute(self, program: Sequence[str], *, folder: str, seconds: float, output: Output) -> ProcessResult:
        """Run a program (absolute path, arguments) in a folder of the workspace; raises StartFailed."""
        ...
