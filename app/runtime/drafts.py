"""What stands in the composer outlives the process, also one that is killed but for a fraction of a second."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, ValidationError

from app.storage.errors import StorageError
from app.storage.sessions import SessionStore

_GATHER_SECONDS = 0.3
"""How long keys are gathered before they are written, also while the user types without a pause."""
_PREFIX = "draft:"


class Kept(BaseModel):
    """The draft of one session, as it is stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    draft: str
    """As the composer keeps it."""
    process: int = 0
    """Whose composer it stands in."""
    time: float = 0.0
    """When it was written, in Unix time."""


class Drafts:
    """Keeps the drafts of the sessions of one workspace; use it on one event loop."""

    def __init__(self, sessions: SessionStore, failed: Callable[[str], None]) -> None:
        """Nothing is read yet.

        Args:
            sessions: the store.
            failed: called with a line for the user when a draft could not be kept.
        """
        self._sessions = sessions
        self._failed = failed
        self._now: dict[str, str] = {}
        self._due: set[str] = set()
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def recall(self, session_id: str, *, fresh: bool = False) -> str:
        """What was being written in a session.

        Args:
            session_id: the session.
            fresh: it is a new one; it takes over what a process that is gone left in one in which nothing was said.
        """
        await self.settled()
        kept = await asyncio.to_thread(self._adopted if fresh else self._stored, session_id)
        self._now[session_id] = kept
        return kept

    def keep(self, session_id: str, draft: str) -> None:
        """The composer has changed."""
        if draft == self._now.get(session_id, ""):
            return
        self._now[session_id] = draft
        self._due.add(session_id)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="drafts")

    async def settled(self) -> None:
        """Have everything written now."""
        if self._writer is not None:
            self._hurry.set()
            await asyncio.wait({self._writer})

    async def _write(self) -> None:
        try:
            while self._due:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), _GATHER_SECONDS)
                due, self._due = self._due, set()
                await asyncio.to_thread(self._store, {session_id: self._now[session_id] for session_id in due})
        except StorageError as error:
            self._failed(f"What you write is not kept for a restart: {error}")
        finally:
            self._writer = None
            self._hurry.clear()

    # On a thread

    def _store(self, drafts: dict[str, str]) -> None:
        for session_id, draft in drafts.items():
            kept = Kept(draft=draft, process=os.getpid(), time=time.time())
            self._sessions.set_setting(_PREFIX + session_id, kept.model_dump_json() if draft else None)

    def _stored(self, session_id: str) -> str:
        value = self._sessions.setting(_PREFIX + session_id)
        return _parsed(value).draft if value else ""

    def _adopted(self, session_id: str) -> str:
        found = {key: _parsed(value) for key, value in self._sessions.settings(_PREFIX).items()}
        for key, kept in sorted(found.items(), key=lambda each: -each[1].time):
            if not _is_alive(kept.process) and not self._sessions.last_events(key.removeprefix(_PREFIX), 1):
                self._sessions.rename_setting(key, _PREFIX + session_id)
                return kept.draft
        return ""


def _parsed(value: str) -> Kept:
    try:
        return Kept.model_validate_json(value)
    except ValidationError:
        # Earlier versions stored the bare text.
        return Kept(draft=value)


def _is_alive(process: int) -> bool:
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
