"""The way from the first picture to an open session: what is opened, what is loaded when, and the parts made of it.

What is looked at first is loaded and painted first: the end of the session, then the review if something waits in it,
then all that the model and its session need. Each is imported on a thread while what was painted before can be used.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from app.ui.parts import Parts
from app.ui.review_loading import ReviewLoading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.config.settings import Settings
    from app.conversation.events import Event
    from app.proposals.models import Proposal
    from app.runtime.workspace import Runtime
    from app.storage.sessions import SessionRecord
    from app.ui.chat_actions import Talk
    from app.ui.inbox import Inbox
    from app.ui.means import Means
    from app.ui.session import CurrentSession
    from app.ui.terminal.fitted import FittedApp
    from app.ui.workbench import Workbench


class Opened(NamedTuple):
    """An open workspace, with what the command line asked for."""

    runtime: "Runtime"
    settings: "Settings"
    record: "SessionRecord | None" = None
    """The session to go on with; a new one if None."""
    demo: bool = False
    """The endpoint is the demo model."""

    def last_turns(self) -> "Sequence[Event]":
        """The end of the session to go on with; raises StorageError."""
        return self.runtime.sessions.last_turns(self.record.id) if self.record is not None else []

    def proposals(self) -> "list[Proposal]":
        """What the review shows, as the store has it; raises StorageError."""
        return self.runtime.proposals.recent()

    def has_notes(self) -> bool:
        """Whether something is begun in the review that was not sent yet; raises StorageError."""
        from app.ui.review_notes import ReviewNotes

        return ReviewNotes(self.runtime.sessions).are_there()


Opener = Callable[[], Awaitable[Opened]]
"""Opens the workspace; called once the first picture is on the screen."""


async def begun(opener: Opener) -> "tuple[Opened, Sequence[Event]]":
    """Open the workspace while the chat is loaded; with it the end of its session, which is shown first."""
    loading = asyncio.create_task(asyncio.to_thread(load_chat_side))
    opened = await opener()
    end = await asyncio.to_thread(read_end, opened)
    await loading
    return opened, end


class Startup:
    """Makes the parts and shows them, one after the other."""

    def __init__(
        self,
        app: "FittedApp",
        parts: Parts,
        workbench: "Workbench",
        current: "CurrentSession",
        talk: "Talk",
        means: "Means",
        inbox: "Inbox",
        *,
        show_proposals: Callable[[], Awaitable[None]],
        draw_status: Callable[[], None],
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        """Nothing is made yet.

        Args:
            app: has themes, keys and the terminal.
            parts: where they go.
            workbench: where they are shown.
            current: the session, which is attached last.
            talk: is behind the chat.
            means: of the app.
            inbox: takes what the session says.
            show_proposals: brings the review up to date.
            draw_status: brings the status bar up to date.
            leave: ends the app.
        """
        self._app = app
        self._parts = parts
        self._workbench = workbench
        self._current = current
        self._talk = talk
        self._means = means
        self._inbox = inbox
        self._show_proposals = show_proposals
        self._draw_status = draw_status
        self._leave = leave
        self.review = ReviewLoading(parts, workbench, current, talk, means, show_proposals)
        """Makes the review when it is wanted."""

    async def show(self, opened: Opened, end: "Sequence[Event]") -> None:
        """Show what was opened: the end of its session first, if it has one."""
        self._parts.runtime, self._current.demo = opened.runtime, opened.demo
        problems = self._take_settings(opened.settings)
        self.review.begin()
        if end:
            await self._show_chat(end)
            await self._painted()
            problems += await self._show_waiting(opened)
        else:
            # Nothing in the chat is worth a picture of its own.
            found, _ = await asyncio.gather(self._show_waiting(opened), self._show_chat())
            problems += found
        await self._painted()
        await asyncio.to_thread(load_session_parts)
        problems += self._parts.preferences.load_themes()
        self._host_session()
        for line in problems:
            self._means.tell(line, problem=True)
        self._means.work(partial(self._parts.connector.begin, opened.record), group="connect")
        self._means.work(self._parts.commands.own.look, group="own commands", exclusive=True)
        await self._current.asked.wait()
        for line in await self._current.open_session.start():
            self._means.tell(line, problem=True)
        await self._show_proposals()

    async def expect_turn(self) -> None:
        """Load on threads what a turn needs, one after the other: the user is writing, or the model is.

        The review comes last: nothing waits in it before the first response is over.
        """
        await self._current.open_session.expect_turn()
        await self.review.preload()

    def _take_settings(self, settings: "Settings") -> list[str]:
        from app.ui.preferences import Preferences
        from app.ui.terminal.editor import ExternalEditor

        preferences = Preferences(self._app, self._parts.runtime, settings, self._follow)
        self._parts.preferences = preferences
        self._parts.external_editor = ExternalEditor(
            self._app,
            self._app.attention,
            lambda: preferences.settings.editor,
            self._parts.runtime.workspace.root,
        )
        problems = preferences.load_keymap()
        self._workbench.composer.set_vim(settings.vim)
        self._draw_status()
        return problems

    def _follow(self, settings: "Settings") -> None:
        """Bring panes and session in line with the settings."""
        self._workbench.apply_settings(settings)
        self._current.open_session.apply(settings)
        self._draw_status()

    async def _show_chat(self, end: "Sequence[Event]" = ()) -> None:
        from app.ui.chat_side import ChatSide

        side = ChatSide(
            self._workbench.composer, self._parts.runtime.workspace, self._current, self._talk, self._means
        )
        await self._workbench.install_chat(side, self._parts.preferences.settings, end)

    async def _show_waiting(self, opened: Opened) -> list[str]:
        """Show the review if the user left something in it; returns a line for each problem."""
        from app.storage.errors import StorageError

        try:
            proposals, has_notes = await asyncio.to_thread(lambda: (opened.proposals(), opened.has_notes()))
        except StorageError as error:
            return [str(error)]
        self._workbench.show_proposals(proposals)
        if has_notes or any(one.state.waiting for one in proposals):
            await self.review.there()
        return []

    def _host_session(self) -> None:
        from app.runtime.open_session import OpenSession
        from app.ui.commands import CommandRunner
        from app.ui.connector import Connector
        from app.ui.own_commands import OwnCommands

        parts = self._parts
        parts.connector = Connector(
            self._current,
            parts.preferences,
            self._means,
            open_session=self._talk.open_session,
            hint=self._workbench.composer.set_placeholder,
            runtime=parts.runtime,
        )
        parts.commands = CommandRunner(
            parts.runtime,
            self._current,
            parts.preferences,
            parts.connector,
            self._means,
            open_session=self._talk.open_session,
            go_to=self._talk.go_to,
            turn_todos=lambda: self._workbench.chat.todo_bar.turn(),
            leave=self._leave,
            themes=lambda: self._app.available_themes,
            own=OwnCommands(parts.runtime, self._workbench.composer, self._current, self._means, self._talk.send),
        )
        session = OpenSession(parts.runtime, parts.preferences.settings, self._inbox.put)
        self._current.attach(session, parts.connector.choose)

    async def _painted(self) -> None:
        painted = asyncio.Event()
        self._app.call_after_refresh(painted.set)
        await painted.wait()


def load_chat_side() -> None:
    """Import the chat and what shows the settings."""
    import app.ui.chat_side
    import app.ui.preferences
    import app.ui.status
    import app.ui.terminal.editor  # noqa: F401


def read_end(opened: Opened) -> "Sequence[Event]":
    """The end of the session: to read the whole log takes longer."""
    end = opened.last_turns()
    if end:
        from widgets.chat.markdown import preload

        preload()
    return end


def load_session_parts() -> None:
    """Import all that the model and its session need."""
    import watchfiles  # noqa: F401

    import app.runtime.open_session
    import app.runtime.own_commands
    import app.ui.commands
    import app.ui.connector
    import app.ui.own_commands
    import app.ui.stray_decisions  # noqa: F401
