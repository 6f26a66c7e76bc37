"""The body of a response, read beside whoever takes it: what has come is taken in one go.

Servers send each token in a piece of its own. Waited for one by one, each would cost a timer and the way through all
that stands between the socket and the screen: in a flood more than what is in it.
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

_SLICE = 0.002
"""Seconds of work that a response takes of the event loop at a time, however much of it has come."""
_TURNS = 64
"""Turns of the event loop in between that are the others', at most: twice what a key takes to the screen."""
_IDLE = 2
"""Times the shortest turn so far that a turn takes in which the others still had something to do."""
_PIECE = 2**13
"""Bytes that are taken at a time, about: what is made of them takes half a slice."""
_PIECES = 64
"""Pieces that are read before any of them is taken: reading them takes a quarter of a slice."""


class Arrivals:
    """Reads the pieces of a body while it is entered."""

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        """`pieces` may be of any size."""
        self._pieces = pieces
        self._read: deque[bytes] = deque()
        """What was not taken yet; no queue of asyncio's, which costs as much as what is in a piece."""
        self._more, self._room = asyncio.Event(), asyncio.Event()
        """Something was read, or the end has come; some of it was taken."""
        self._ended = False
        self._failure: Exception | None = None
        """Why the end came too soon."""
        self._others = Others()
        self._since = 0.0

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._fill(), name="read response")
        self._since = time.thread_time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reading.cancel()
        await asyncio.wait({self._reading})

    async def take(self) -> bytes:
        """What has come since the last time, or comes next; empty at the end. Raises what reading has raised."""
        if time.thread_time() - self._since > _SLICE:
            await self._others.go_first()
            self._since = time.thread_time()
        while not self._read:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return b""
            self._more.clear()
            await self._more.wait()
        taken: list[bytes] = []
        size = 0
        while self._read and size < _PIECE:
            taken.append(self._read.popleft())
            size += len(taken[-1])
        self._room.set()
        return b"".join(taken)

    async def drain(self, seconds: float) -> None:
        """Wait for the end, but not longer, nor for a good one."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(seconds):
                while await self.take():
                    pass

    async def _fill(self) -> None:
        try:
            async with contextlib.aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    if len(piece) <= _PIECE:
                        self._read.append(piece)
                    else:
                        self._read.extend(piece[start : start + _PIECE] for start in range(0, len(piece), _PIECE))
                    self._more.set()
                    while len(self._read) >= _PIECES:
                        self._room.clear()
                        await self._room.wait()
        except Exception as problem:
            self._failure = problem
        self._ended = True
        self._more.set()


class Others:
    """Everything else on the event loop: all of it goes before what streams in."""

    def __init__(self) -> None:
        self._shortest = math.inf
        """Seconds that a turn took in which nobody did anything."""

    async def go_first(self) -> None:
        """Return once a turn of the loop shows that nobody has anything to do, or after so many that it is fair."""
        for _ in range(_TURNS):
            begun = time.thread_time()
            await asyncio.sleep(0)
            took = time.thread_time() - begun
            self._shortest = min(self._shortest, took)
            if took < _IDLE * self._shortest:
                return
