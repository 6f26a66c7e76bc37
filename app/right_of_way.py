"""The event loop has the right of way: work on threads waits between two pieces while the loop is at work.

Python runs one thread at a time and lets those that want to run take turns. Beside a thread that computes, a picture
takes twice as long, and so does a key that waits for it. Where no loop is watched, as in a command, nothing waits.
"""

import selectors
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

_PATIENCE = 0.01
"""Seconds that a piece waits at most: it has its turn beside a loop that is never idle."""

_Piece = TypeVar("_Piece")

_free = threading.Event()
_free.set()


def give_way() -> None:
    """Wait while the loop is at work; for threads, between two pieces of work of a millisecond or less."""
    if not _free.is_set() and threading.current_thread() is not threading.main_thread():
        _free.wait(_PATIENCE)


def giving_way(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """The same pieces, each once it may be worked on."""
    for piece in pieces:
        give_way()
        yield piece


class WatchedSelector(selectors.DefaultSelector):
    """For the event loop that has the right of way: tells when it waits for something to do."""

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
        """The loop is over."""
        super().close()
        _free.set()
