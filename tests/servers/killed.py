"""A program to kill: signoff with a server that has started something.

Arguments: folder, seconds for which that sleeps, and how it may run.
"""

import asyncio
import os
import sys
from pathlib import Path

from app.sandbox.confinement import SandboxMode
from tests.servers.stage import player, stage
from tests.wire.server import WireServer


async def main(folder: str, mark: str, *ways: str) -> None:
    """Start it and wait."""
    os.environ["SIGNOFF_HOME"] = f"{folder}/home"
    code = f"import subprocess; subprocess.Popen(['sleep', '{mark}'], start_new_session=True)"
    with WireServer() as wire:
        async with stage(wire, Path(folder), {"play": player()}, modes=[SandboxMode(way) for way in ways]) as on:
            await on.say(("play__run", {"code": code}))
            print("ready", flush=True)
            await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
