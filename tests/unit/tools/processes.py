"""Looks at the processes of the machine."""

from contextlib import suppress
from pathlib import Path


def running(mark: str) -> bool:
    """Whether any process has this among its arguments; the number of a process is its own in each namespace."""
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark in (folder / "cmdline").read_bytes().decode(errors="replace").split(
                "\0"
            ):
                return True
    return False
