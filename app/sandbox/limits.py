"""Limits of a program with all that it starts, and the message when it exceeds one."""

import os
import signal
from dataclasses import dataclass

PROCESSES = 2_000
"""Processes and threads, if nothing else is set."""
_MEGABYTE = 1024**2


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one program."""

    memory: int
    """Bytes, of all its processes together."""
    processes: int
    """Processes and threads."""

    def steps(self) -> list[str]:
        """The steps of `enter.py` that set them."""
        return ["limits", str(self.memory), str(self.processes)]

    def hit(self, name: str, code: int) -> str:
        """Which one a program has hit, in words; empty if none.

        Args:
            name: As `enter.py` reports it.
            code: The program's exit code, a signal's number below zero.
        """
        match name:
            case "memory":
                return f"it used more than {_size(self.memory)} of memory, command_memory in config.toml"
            case "processes":
                return f"it had {self.processes:,} processes and threads, command_processes in config.toml"
            case "machine":
                return "the machine had no memory left, so the kernel ended it or a part of it"
        # A shell reports a signal as an exit code.
        return "it wrote a file of more than 100 GB" if code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ) else ""


def limits(megabytes: int | None = None, processes: int = PROCESSES) -> Limits:
    """Those that are set.

    Args:
        megabytes: Of memory; three quarters of the machine's if not given.
        processes: Processes and threads.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = machine * 3 // 4 if megabytes is None else min(megabytes * _MEGABYTE, machine)
    return Limits(memory, processes)


def _size(number: int) -> str:
    return f"{number / 1024**3:.3g} GB" if number >= 1024**3 else f"{number // _MEGABYTE} MB"
