"""Whether commands and checks can run over a layer here, as they can't in many containers."""

import asyncio
import tempfile
from functools import cache
from pathlib import Path

from app.sandbox.sandbox import Sandbox
from app.sandbox.sandbox_mode import SandboxMode
from app.workspace.paths import Workspace


@cache
def why_no_layer() -> str:
    """Why there is none; empty if there can be one."""
    with tempfile.TemporaryDirectory(prefix="signoff-tests-") as folder:
        workspace = Path(folder).resolve() / "ws"
        workspace.mkdir()
        probe = asyncio.run(Sandbox(Workspace(workspace), workspace.parent / "runs", own=()).probe())
    return probe.why_not if probe.mode is SandboxMode.IN_PLACE else ""
