"""Gives the event loop priority: work on threads waits between two pieces while the loop is busy.

An import of many modules is such work: each module is a piece.

Python runs one thread at a time and lets those that want to run take turns. Beside a thread that computes, a picture
takes twice as long, and so does a key that waits for it. Where no loop is watched, as in a command, nothing waits.
"""

import selectors
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import TypeVar

_PATIENCE = 0.01
"""Seconds that a piece waits at most: it has its turn beside a loop that is never idle."""
_IMPORT_PATIENCE = 0.002
"""The same of a module: there are hundreds, and the loop may need one of them."""

_Piece = TypeVar("_Piece")

_free = threading.Event()
_free.set()


def yield_to_event_loop() -> None:
    """Wait while the event loop is busy; for threads, between two pieces of work of a millisecond or less."""
    _wait_for_loop(_PATIENCE)


def _wait_for_loop(patience: float) -> None:
    if not _free.is_set() and threading.current_thread() is not threading.main_thread():
        _free.wait(patience)


def iterate_cooperatively(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield the items; before each, wait while the event loop is busy."""
    for piece in pieces:
        yield_to_event_loop()
        yield piece


class _GivesWay:
    """Finds no module, but is asked first for each."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Wait while the loop is at work."""
        _wait_for_loop(_IMPORT_PATIENCE)


def make_imports_cooperative() -> None:
    """Have imports on threads wait, before each module, while the loop is at work.

    What a thread may be importing, the loop should not import: it would wait for that thread.
    """
    sys.meta_path.insert(0, _GivesWay())


class IdleTrackingSelector(selectors.DefaultSelector):
    """Selector of the event loop that has the right of way: tells when the loop waits for work."""

    def __init__(self) -> None:
        super().__init__()
        _free.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait, unless there is more to do at once."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        _free.set()
        try:
            return super().select(timeout)
        finally:
            _free.clear()

    def close(self) -> None:
        """Close the selector with its loop, after which threads no longer wait."""
        super().close()
        _free.set()
