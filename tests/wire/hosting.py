"""An app without its screen, as the first of several processes on a workspace."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from app.agent.session import Session
from app.agent.updates import EventRecorded, Update
from app.conversation.events import TurnEnded
from app.runtime.session_host import SessionHost
from tests.forking import Forking
from tests.waiting import MAX_WAIT_SECONDS


class Hosted:
    """An app without its screen, and the other process beside it."""

    def __init__(self, host: SessionHost, root: Path, home: Path, processes: Forking) -> None:
        self.host = host
        self.root = root
        self._home = home
        self.processes = processes
        self.updates: list[Update] = []
        self._changed = asyncio.Event()

    def take(self, update: Update) -> None:
        self.updates.append(update)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def other(self, *words: str, stdin: str = "", code: int = 0) -> str:
        """What the command prints in another process, which ends with this exit code."""
        environment = {**os.environ, "SIGNOFF_HOME": str(self._home)}
        done = await asyncio.to_thread(
            self.processes.run, words, folder=self.root, environment=environment, stdin=stdin
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def turns(self) -> int:
        return sum(
            isinstance(update, EventRecorded) and isinstance(update.event, TurnEnded) for update in self.updates
        )

    @property
    def session(self) -> Session:
        assert self.host.session is not None
        return self.host.session
