"""A program to kill: signoff with a server that has started another process.

Arguments: folder, seconds for which the process sleeps, and sandbox modes.
"""

import asyncio
import os
import sys
from pathlib import Path

from app.sandbox.confinement import CommandWriteMode
from tests.servers.stage import open_server_session, player
from tests.wire.server import WireServer


async def main(folder: str, mark: str, *modes: str) -> None:
    os.environ["SIGNOFF_HOME"] = f"{folder}/home"
    code = f"import subprocess; subprocess.Popen(['sleep', '{mark}'], start_new_session=True)"
    with WireServer() as wire:
        async with open_server_session(
            wire, Path(folder), {"play": player()}, modes=[CommandWriteMode(mode) for mode in modes]
        ) as on:
            await on.run_turn(("play__run", {"code": code}))
            print("ready", flush=True)
            await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
