"""A program to kill: it runs a command in a sandbox. Arguments: workspace, state folder, mode, command."""

import asyncio
import sys
from pathlib import Path

from app.sandbox.captured_changes import FileOrLink
from app.sandbox.confinement import CommandWriteMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace

PENDING = {"a.txt": FileOrLink(b"proposed\n", 0o755), "d/y.bin": None, "n/o/new": FileOrLink(b"waits\n", 0o644)}
"""Pending changes over the workspace of `test_scripts.make`."""


async def main(root: str, state: str, mode: str, command: str) -> None:
    modes = list(CommandWriteMode)[list(CommandWriteMode).index(CommandWriteMode(mode)) :]
    sandbox = Sandbox(Workspace(Path(root)), Path(state), own_folders=(), modes=modes)
    await sandbox.probe()
    print("ready", flush=True)
    async with sandbox.open_run(PENDING) as run:
        await run.execute(["/bin/sh", "-c", command], folder=".", seconds=60, output=lambda data: None)
        changes = await run.find_changes()
        await run.write_back(changes.ignored_paths)


Path(sys.argv[2]).mkdir(exist_ok=True)
asyncio.run(main(*sys.argv[1:]))
