"""Ends a command with everything that it has started."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from app.sandbox.environment import MARKER

PLATFORM: str = sys.platform
"""`linux` has the processes below `PROCESSES`, in which strays are found."""
PROCESSES = Path("/proc")
GRACE = 1.0
"""Seconds between asking processes to end and killing them; signoff itself may be given no more than two."""
_ROUNDS = 5
"""How often strays are searched for again, as one may start another meanwhile."""
_BEGINNING, _LOOK = 0.5, 0.001
"""Seconds in which a new process shows its environment, even on a busy machine, and between two looks at it."""
_SIZE, _ENVIRONMENT_END = 23 - 3, 51 - 3
"""Which fields of `/proc/PID/stat`, by the numbers of proc(5), behind the name that is its second."""


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
    killed, rounds, end = False, 0, time.monotonic() + _BEGINNING
    while rounds < _ROUNDS:
        found = beginning = False
        for folder in PROCESSES.glob("[0-9]*"):
            with suppress(OSError):
                environment = (folder / "environ").read_bytes()
                if wanted in environment:
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
                elif not environment and _begins(folder):
                    beginning = True
        killed = killed or found
        if found:
            rounds += 1
        elif beginning and time.monotonic() < end:
            time.sleep(_LOOK)
        else:
            break
    return killed


def _begins(folder: Path) -> bool:
    """Whether a process has let go of the program before, and the kernel has yet to lay out the next one's memory.

    Its parent may run on by then. The kernel's own threads have no memory at all.
    """
    fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
    return fields[_SIZE] != b"0" and fields[_ENVIRONMENT_END] == b"0"
