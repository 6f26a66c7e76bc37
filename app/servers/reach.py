"""What a server can do to the files of the workspace, found out before it is started and said before it is asked.

Kept apart: the server is started by it, the permission question words it.
"""

from enum import StrEnum

from app.sandbox.mode import SandboxMode
from app.sandbox.own_process import landlock_version
from app.sandbox.sandbox import Sandbox
from app.servers.definition import Definition


class Reach(StrEnum):
    """How far its writes go."""

    LAYER = "layer"
    """To a layer over the workspace, as those of commands: what it writes becomes part of a proposal."""
    READ_ONLY = "read-only"
    """Nowhere in the workspace: where there can be no layer, the kernel keeps it from writing there."""
    DIRECT = "direct"
    """To the files, without review."""
    REMOTE = "remote"
    """It runs elsewhere and has no files of ours."""


REACH_WORDS = {
    Reach.LAYER: "What it changes in your files will wait as a proposal.",
    Reach.READ_ONLY: "This server can read your files, and can't write to them.",
    Reach.DIRECT: "This server can write to your files directly, without review.",
    Reach.REMOTE: "This server runs elsewhere: the arguments leave this machine.",
}
"""What the user has to know of it."""


async def reach_of(definition: Definition, sandbox: Sandbox) -> Reach:
    """How far a server's writes go here."""
    if definition.is_remote:
        return Reach.REMOTE
    if not definition.table.layer:
        return Reach.DIRECT
    if (await sandbox.probe()).mode is SandboxMode.OVERLAY:
        return Reach.LAYER
    return Reach.READ_ONLY if landlock_version() else Reach.DIRECT
