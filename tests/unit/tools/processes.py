"""Looks at the processes of the machine."""

import secrets
from contextlib import suppress
from pathlib import Path


def new_mark() -> str:
    """Return seconds for `sleep`, years of them, that no other process on the machine was given: not even those of
    another run of these tests."""
    return f"{10**8 + secrets.randbelow(9 * 10**8)}.5"


def running(mark: str) -> bool:
    """Whether any process has this among its arguments; the number of a process is its own in each namespace."""
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark in (folder / "cmdline").read_bytes().decode(errors="replace").split(
                "\0"
            ):
                return True
    return False
