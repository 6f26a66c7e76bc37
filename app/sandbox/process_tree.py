"""Ends a command with everything that it has started."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from app.sandbox.environment import MARKER

PLATFORM: str = sys.platform
"""`linux` has the `/proc` in which strays are found."""
GRACE = 1.0
"""Seconds between asking processes to end and killing them; signoff itself may be given no more than two."""
_ROUNDS = 5
"""How often strays are looked for again, in case one starts another meanwhile."""


async def end_tree(process: asyncio.subprocess.Process, marker: str) -> bool:
    """SIGTERM to the process group, then SIGKILL to it and to strays; returns once nothing is left.

    The process must be the leader of its own group. Where `/proc` exists, processes that left the group are found by
    the marker in their environment.

    Returns:
        Whether anything was still running.
    """
    alive = _signal_group(process.pid, signal.SIGTERM)
    try:
        if alive and process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE)
    finally:
        # A second cancellation must not keep anything alive: the signal needs no `await`, and a thread ends its work.
        _signal_group(process.pid, signal.SIGKILL)
        strays = await asyncio.to_thread(kill_strays, marker)
    await process.wait()
    return alive or strays


def _signal_group(group: int, number: signal.Signals) -> bool:
    """Whether there was anyone to signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_strays(marker: str) -> bool:
    """Kill every process with the marker in its environment; does nothing where there is no `/proc`."""
    if PLATFORM != "linux":
        return False
    wanted = f"{MARKER}={marker}".encode()
    killed = False
    for _ in range(_ROUNDS):
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
        if not found:
            break
        killed = True
    return killed
