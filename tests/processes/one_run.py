"""A program to kill: runs a command in a sandbox. Arguments: workspace, folder for state, way, command."""

import asyncio
import sys
from pathlib import Path

from app.sandbox.captured_changes import FileOrLink
from app.sandbox.confinement import SandboxMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace

PENDING = {"a.txt": FileOrLink(b"proposed\n", 0o755), "d/y.bin": None, "n/o/new": FileOrLink(b"waits\n", 0o644)}
"""What lies over the workspace of `test_scripts.make`."""


async def main(root: str, state: str, way: str, command: str) -> None:
    """Run it to its end."""
    ways = list(SandboxMode)[list(SandboxMode).index(SandboxMode(way)) :]
    sandbox = Sandbox(Workspace(Path(root)), Path(state), own_folders=(), modes=ways)
    await sandbox.probe()
    print("ready", flush=True)
    async with sandbox.open_run(PENDING) as run:
        await run.execute(["/bin/sh", "-c", command], folder=".", seconds=60, output=lambda data: None)
        found = await run.find_changes()
        await run.write_back(found.ignored_paths)


Path(sys.argv[2]).mkdir(exist_ok=True)
asyncio.run(main(*sys.argv[1:]))
