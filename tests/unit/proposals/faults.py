"""A disk and a store that fail, or kill the process, at a chosen step."""

import errno
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.proposals.files.filesystem import OPEN_FOLDERS, PosixFilesystem
from app.proposals.values.models import FileIdentity

CHANGING = {
    "write_new",
    "exchange",
    "move_to_path",
    "move_to_temp",
    "remove",
    "make_folder",
    "remove_folder",
    "sync_folder",
    "save_proposal",
    "put_blobs",
    "open_journal_record",
    "mark_journal_prepared",
    "close_journal_record",
}
"""Operations of the disk and the store that change something, or make it last."""


@dataclass
class Steps:
    """Counts the steps of all that it watches, and calls `fault` at those that `at` picks."""

    fault: Callable[[str], None] = lambda name: None
    at: Callable[[int], bool] = lambda number: False
    number: int = 0
    names: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, name: str) -> None:
        with self._lock:
            self.number += 1
            self.names.append(name)
            due = self.at(self.number)
        if due:
            self.fault(name)


class Watched:
    """Anything, with a step before each of its changing operations."""

    def __init__(self, inner: Any, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in CHANGING:
            return method

        def watched(*arguments: Any, **named: Any) -> Any:
            self._steps.reach(name)
            return method(*arguments, **named)

        return watched


class TornDisk(PosixFilesystem):
    """A disk on which a write stops half-way at a step of its own."""

    def __init__(self, root: Path, read_limit: int, steps: Steps) -> None:
        super().__init__(root, read_limit, OPEN_FOLDERS)
        self._steps = steps

    def write_new(self, path: str, data: bytes, mode: int, like: str = "") -> FileIdentity:
        half = self._inner_half(path, data, mode)
        try:
            self._steps.reach("write_new half")
        finally:
            half()
        return super().write_new(path, data, mode, like)

    def _inner_half(self, path: str, data: bytes, mode: int) -> Callable[[], None]:
        """Leave half a file for as long as the step takes; the fault, if there is one, leaves it for good."""
        super().write_new(path, data[: len(data) // 2], mode)

        def complete() -> None:
            if not self._steps.at(self._steps.number):
                super(TornDisk, self).remove(path)

        return complete


def kill(name: str) -> None:
    """What a power cut is to a process."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_space(name: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def broken(name: str) -> None:
    raise OSError(errno.EIO, "Input/output error")


def in_child(work: Callable[[], object]) -> int:
    """Run in a forked process; returns the signal that ended it, 0 for a normal end, 1 for an exception."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
