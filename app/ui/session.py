"""The session on the screen and its model: what is shown and typed is there before they are."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.agent.session import Session
    from app.runtime.open_session import OpenSession
    from app.storage.sessions import SessionStore


@dataclass(frozen=True, slots=True)
class LeftSession:
    """What is to be known of a session that was left."""

    id: str
    waiting: int
    """How many proposals wait."""
    is_latest: bool = True

    def compared(self, sessions: "SessionStore") -> "LeftSession":
        """The same with whether it is the latest, as far as the store tells; blocks."""
        from app.storage.errors import StorageError

        with suppress(StorageError):
            latest = sessions.latest()
            return replace(self, is_latest=latest is None or latest.id == self.id)
        return self


class CurrentSession:
    """What the user talks to, as far as it is there yet."""

    def __init__(self) -> None:
        """Nothing is there."""
        self.demo = False
        """The model is the demo's."""
        self.ready = asyncio.Event()
        """Set once a workspace is attached; a session may still lack a model."""
        self.asked = asyncio.Event()
        """Set once a session is on the screen, or a question to the user stands before it."""
        self._open_session: OpenSession | None = None
        self._choose: Callable[[], Awaitable[None]] | None = None

    def attach(self, open_session: "OpenSession", choose: Callable[[], Awaitable[None]]) -> None:
        """Take the workspace with its session, and what lets the user choose a model where there is none."""
        self._open_session, self._choose = open_session, choose
        self.ready.set()

    @property
    def open_session(self) -> "OpenSession":
        """The workspace with its session, once it is there."""
        assert self._open_session is not None
        return self._open_session

    @property
    def now(self) -> "Session | None":
        """The open session, if there is one."""
        return self._open_session.session if self._open_session is not None else None

    def get(self) -> "Session":
        """The open session; raises NotConnected."""
        if (session := self.now) is None:
            from app.runtime.connection import NotConnected

            raise NotConnected("No session is open yet: choose a model first, with /model or in /settings.")
        return session

    async def opened(self) -> None:
        """Return once a session is on the screen, or a question to the user stands before it."""
        await self.ready.wait()
        await self.asked.wait()

    async def wanted(self) -> "Session":
        """The open session, once it is there; lets the user choose a model if it lacks one. Raises NotConnected."""
        await self.opened()
        if self.now is None and self._choose is not None:
            await self._choose()
        return self.get()
