"""Whether commands and checks can run over a layer or on a clone here, as they can't in many containers."""

import asyncio
import tempfile
from functools import cache
from pathlib import Path

from app.sandbox.sandbox import Sandbox
from app.sandbox.ways import Way
from app.workspace.paths import Workspace


@cache
def why_no_layer() -> str:
    """Why there is none; empty if there can be one."""
    with tempfile.TemporaryDirectory(prefix="signoff-tests-") as folder:
        workspace = Path(folder).resolve() / "ws"
        workspace.mkdir()
        means = asyncio.run(Sandbox(Workspace(workspace), workspace.parent / "runs", own=()).means())
    return means.why_not if means.way is Way.IN_PLACE else ""
