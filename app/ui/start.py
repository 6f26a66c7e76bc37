"""The way from the first picture to an open session: what is looked at first is loaded and painted first.

That is the end of the session, then the review, then all that the model and its session need. Each is imported on a
thread while what was painted before can be used.
"""

import asyncio
from typing import TYPE_CHECKING

from app.ui.opened import Opened, Opener
from app.ui.terminal import garbage_collection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.config import Settings
    from app.conversation.events import Event
    from app.proposals.models import Proposal
    from app.ui.app import SignoffApp
    from widgets.approval.notes import Notes


class Start:
    """Starts one app."""

    def __init__(self, app: "SignoffApp", opener: Opener) -> None:
        """Nothing happens before `run`.

        Args:
            app: what is started.
            opener: opens the workspace.
        """
        self._app = app
        self._opener = opener

    async def run(self) -> None:
        """Open the workspace, show it, open the session; a workspace that cannot be opened ends the app."""
        try:
            await self._run()
        finally:
            garbage_collection.go_on()

    async def _run(self) -> None:
        app = self._app
        try:
            loading = asyncio.create_task(asyncio.to_thread(_load_chat_side))
            opened = await self._opener()
            # Only the end of a session is shown at first: to read the whole log takes longer.
            end = await asyncio.to_thread(_read_end, opened)
            await loading
        except Exception as error:
            app.failure = error
            app.exit(return_code=1)
            return
        app.runtime, app.demo = opened.runtime, opened.demo
        problems = self._take_settings(opened.settings)
        if end:
            await self._show_chat(end)
            await self._painted()
            await asyncio.to_thread(_load_review_side)
            problems += await self._show_review(opened)
        else:
            # Nothing in the chat is worth a picture of its own.
            await asyncio.to_thread(_load_review_side)
            found, _ = await asyncio.gather(self._show_review(opened), self._show_chat())
            problems += found
        await self._painted()
        await asyncio.to_thread(_load_session_parts)
        problems += app.preferences.load_themes()
        self._make_parts()
        app.is_open.set()
        for line in problems:
            app.tell(line, problem=True)
        app.work(lambda: app.connector.begin(opened.record), group="connect")
        await app.connector.asked.wait()
        for line in await app.host.start():
            app.tell(line, problem=True)
        await app.show_proposals()

    def _take_settings(self, settings: "Settings") -> list[str]:
        from app.ui.preferences import Preferences

        self._app.preferences = Preferences(self._app, settings)
        problems = self._app.preferences.load_keymap()
        self._app.draw_status()
        return problems

    async def _show_chat(self, end: "Sequence[Event]" = ()) -> None:
        from app.ui.chat_side import ChatSide

        workbench = self._app.workbench
        await workbench.install_chat(ChatSide(self._app, workbench.composer), self._app.settings, end)

    async def _show_review(self, opened: Opened) -> list[str]:
        from app.storage.errors import StorageError
        from app.ui.review_actions import Decisions
        from app.ui.review_notes import ReviewNotes
        from app.ui.review_side import ReviewSide

        app = self._app
        app.decisions, app.review_notes = Decisions(app), ReviewNotes(opened.runtime.sessions)
        problems: list[str] = []
        proposals: Sequence[Proposal] = ()
        notes: Mapping[str, Notes] = {}
        try:
            proposals = await asyncio.to_thread(opened.proposals)
            notes = await asyncio.to_thread(app.review_notes.load)
            await app.recall_share()
        except StorageError as error:
            problems.append(str(error))
        await app.workbench.install_review(ReviewSide(app), app.settings, proposals)
        app.workbench.review.recall(notes)
        return problems

    def _make_parts(self) -> None:
        from app.runtime.open_session import Host
        from app.ui.connector import Connector

        app = self._app
        app.host = Host(app.runtime, app.settings, app.take_update)
        app.connector = Connector(app)

    async def _painted(self) -> None:
        painted = asyncio.Event()
        self._app.call_after_refresh(painted.set)
        await painted.wait()


def _load_chat_side() -> None:
    import app.ui.chat_side
    import app.ui.preferences
    import app.ui.status  # noqa: F401


def _read_end(opened: Opened) -> "Sequence[Event]":
    end = opened.last_turns()
    if end:
        from widgets.chat import inline

        # Else the first message loads it, while the keyboard waits.
        inline.parser()
    return end


def _load_review_side() -> None:
    pass


def _load_session_parts() -> None:
    import app.runtime.open_session
    import app.ui.connector
    import app.ui.themes.files  # noqa: F401
