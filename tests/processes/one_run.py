"""A program to kill: runs a command in a sandbox. Arguments: workspace, folder for state, way, command."""

import asyncio
import shutil
import sys
from pathlib import Path

from app.sandbox import cloning
from app.sandbox.changes import Leaf
from app.sandbox.sandbox import Sandbox
from app.sandbox.ways import Way
from app.workspace.paths import Workspace

PENDING = {"a.txt": Leaf(b"proposed\n", 0o755), "d/y.bin": None, "n/o/new": Leaf(b"waits\n", 0o644)}
"""What lies over the workspace of `test_scripts.make`."""


async def main(root: str, state: str, way: str, command: str) -> None:
    """Run it to its end."""
    ways = list(Way)[list(Way).index(Way(way)) :]
    sandbox = Sandbox(Workspace(Path(root)), Path(state), own=(), ways=ways)
    await sandbox.means()
    print("ready", flush=True)
    async with sandbox.open(PENDING) as run:
        await run.execute(["/bin/sh", "-c", command], folder=".", seconds=60, output=lambda data: None)
        found = await run.changes()
        await run.write_through(found.through)


Path(sys.argv[2]).mkdir(exist_ok=True)
if not cloning.can_clone(Path(sys.argv[1]), Path(sys.argv[2])):
    cloning.reflink = shutil.copyfile  # type: ignore[assignment]
asyncio.run(main(*sys.argv[1:]))
