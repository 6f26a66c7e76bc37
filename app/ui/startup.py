"""Start-up from the first paint to an open session: the order of imports, and the app's controllers.

The user's first needs are loaded and painted first: the end of the session, then the review if something waits in it,
then the modules for the model and its session. Each import runs on a thread while the painted parts can be used.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.agent.updates import Update
    from app.config.settings import Settings
    from app.conversation.events import Event
    from app.proposals.values.models import Proposal
    from app.review.review_stores import UnfinishedReviewStore
    from app.runtime.open_workspace import OpenWorkspace
    from app.storage.session_store import SessionRecord
    from app.ui.chat_controller import ChatController
    from app.ui.context.app_context import AppContext
    from app.ui.context.current_session import UpdateBuffer
    from app.ui.context.preferences import LiveSettings
    from app.ui.controllers.app_commands import SlashCommandRunner
    from app.ui.controllers.connector import ModelConnector
    from app.ui.controllers.review_actions import ReviewActions
    from app.ui.controllers.review_services import CheckController, ReadingProgressController, SideQuestionController
    from app.ui.terminal.external_editor import ExternalEditor
    from app.ui.terminal.fitted_app import TerminalAdaptedApp


class ReviewControllers(NamedTuple):
    """The controllers of the review: stored reviews, checks, decisions, side questions and reading progress."""

    notes: "UnfinishedReviewStore"
    """Stores unfinished reviews."""
    checks: "CheckController"
    """Runs the user's checks on waiting proposals."""
    actions: "ReviewActions"
    """Carries out the user's decisions."""
    side_questions: "SideQuestionController"
    """Sends side questions to the model."""
    reading: "ReadingProgressController"
    """Saves the lines that the user has seen."""

    def handle_update(self, update: "Update") -> None:
        """Handle an update of the session."""
        self.actions.after_decision.handle_update(update)
        self.side_questions.handle_update(update)

    def handle_proposals(self, proposals: "Sequence[Proposal]") -> None:
        """Handle a new list of waiting proposals."""
        self.checks.check_proposals(proposals)
        self.actions.after_decision.return_to_composer_if_done()

    async def close(self) -> None:
        """Stop all work, and save seen lines and unfinished notes."""
        await self.reading.close()
        await self.notes.close()
        await self.checks.close()


class AppControllers:
    """The controllers of the app; each is set once its modules are loaded."""

    runtime: "OpenWorkspace"
    """The open workspace."""
    preferences: "LiveSettings"
    """The settings in force."""
    external_editor: "ExternalEditor"
    """Opens the user's editor."""
    review: "ReviewControllers | None" = None
    """None until the review is loaded."""
    connector: "ModelConnector"
    """Connects to a model."""
    commands: "SlashCommandRunner"
    """Runs the slash commands."""


class LazyReviewMounter:
    """Imports and mounts the review when it is first needed."""

    def __init__(self, controllers: AppControllers, chat: "ChatController", app_context: "AppContext") -> None:
        self._controllers = controllers
        self._workbench = chat.workbench
        self._current = chat.session
        self._chat = chat
        self._app_context = app_context
        self._loading_allowed = asyncio.Event()
        self._load_lock = asyncio.Lock()

    def allow_loading(self) -> None:
        """Allow loading: settings and store are open now."""
        self._loading_allowed.set()

    async def preload_modules(self) -> None:
        """Import the review on a thread, before the model stages its first edit."""
        await asyncio.to_thread(import_review_modules)

    async def ensure_loaded(self) -> None:
        """Return once the review is mounted and shows the waiting proposals. Raises StorageError."""
        await self._loading_allowed.wait()
        async with self._load_lock:
            if self._controllers.review is None:
                await self._mount_review()

    async def _mount_review(self) -> None:
        await self.preload_modules()
        from app.review.review_stores import UnfinishedReviewStore
        from app.storage import StorageError
        from app.ui.controllers.review_actions import ReviewActions
        from app.ui.controllers.review_services import ReadingProgressController, SideQuestionController
        from app.ui.review_area import ReviewArea
        from widgets.review.review import ReviewPane

        controllers, preferences = self._controllers, self._controllers.preferences
        keys = preferences.settings.keys
        review = ReviewPane(keys=keys)
        review.text_controller.dropped.find_dropped_files = self._chat.images_in_paste
        notes = UnfinishedReviewStore(controllers.runtime.sessions)
        actions = ReviewActions(
            review,
            self._current,
            controllers.runtime,
            preferences,
            controllers.external_editor,
            self._app_context,
            self._chat,
        )
        side_questions = SideQuestionController(review, self._current, controllers.runtime, self._app_context.notify)
        reading = ReadingProgressController(review, controllers.runtime)
        review_area = ReviewArea(review, actions, notes, side_questions, reading, self._app_context.run)
        try:
            unfinished_notes = await asyncio.to_thread(notes.load)
            share = await asyncio.to_thread(preferences.review_share)
        except StorageError as error:
            unfinished_notes, share = {}, None
            self._app_context.notify(str(error), problem=True)
        if share is not None:
            self._workbench.pane_split.set_review_share(share)
        await self._workbench.mount_review(review_area, preferences.settings)
        review.restore_notes(unfinished_notes)
        controllers.review = ReviewControllers(notes, actions.checks, actions, side_questions, reading)
        if self._current.workspace_attached.is_set():
            await self._chat.show_proposals()


def import_review_modules() -> None:
    """Import the review, the code highlighting, and the modules that stage edits."""
    import app.proposals.stack.draft
    import app.proposals.stack.proposal_staging
    import app.ui.review_area  # noqa: F401
    from widgets.diff.syntax_tokens import preload_lexers

    preload_lexers()


class WorkspaceWithOptions(NamedTuple):
    """An open workspace, with the options of the command line."""

    runtime: "OpenWorkspace"
    settings: "Settings"
    record: "SessionRecord | None" = None
    """The session to continue; None for a new one."""
    demo: bool = False
    """Whether the endpoint is the demo model."""


OpenWorkspaceFunction = Callable[[], Awaitable[WorkspaceWithOptions]]
"""Opens the workspace; called after the first paint."""


async def open_workspace_and_import_chat(
    opener: OpenWorkspaceFunction,
) -> "tuple[WorkspaceWithOptions, Sequence[Event]]":
    """Open the workspace while the chat is imported; return it with the last events of its session."""
    import_task = asyncio.create_task(asyncio.to_thread(import_chat_modules))
    opened = await opener()
    last_events = await asyncio.to_thread(read_last_turns_of_session, opened)
    await import_task
    return opened, last_events


class AppStartup:
    """Opens the workspace: creates the controllers and mounts chat and review."""

    def __init__(
        self,
        app: "TerminalAdaptedApp",
        controllers: AppControllers,
        chat: "ChatController",
        app_context: "AppContext",
        update_buffer: "UpdateBuffer",
        update_status: Callable[[], None],
    ) -> None:
        self._app = app
        self._controllers = controllers
        self._workbench = chat.workbench
        self._current = chat.session
        self._chat = chat
        self._app_context = app_context
        self._update_buffer = update_buffer
        self._update_status = update_status
        self.review_loader = LazyReviewMounter(controllers, chat, app_context)
        """Loads the review when it is first needed."""

    async def show_workspace(self, opened: WorkspaceWithOptions, last_events: "Sequence[Event]") -> None:
        """Show the opened workspace, the end of its session first; open the session."""
        self._controllers.runtime, self._current.is_demo = opened.runtime, opened.demo
        problems = self._apply_first_settings(opened.settings)
        self.review_loader.allow_loading()
        if last_events:
            await self._show_chat(last_events)
            await self._wait_until_painted()
            problems += await self._show_waiting_review(opened)
        else:
            # An empty chat needs no paint before the review.
            review_problems, _ = await asyncio.gather(self._show_waiting_review(opened), self._show_chat())
            problems += review_problems
        await self._wait_until_painted()
        await asyncio.to_thread(import_session_modules)
        problems += self._controllers.preferences.register_themes()
        self._host_session()
        for line in problems:
            self._app_context.notify(line, problem=True)
        self._app_context.run(partial(self._controllers.connector.open_session, opened.record), group="connect")
        self._app_context.run(
            self._controllers.commands.custom_commands.refresh, group="own commands", exclusive=True
        )
        await self._current.session_or_question_shown.wait()
        for line in await self._current.host.start():
            self._app_context.notify(line, problem=True)
        await self._chat.show_proposals()

    async def preload_turn_modules(self) -> None:
        """Import on threads, one after the other, the modules that a turn needs.

        Called when the user starts to type or a turn starts. The review and the sandbox come last: nothing needs them
        before the first response is complete.
        """
        from app.ui.terminal.garbage_collection import freeze_loaded_objects

        await self._current.host.preload_turn()
        freeze_loaded_objects()
        await self.review_loader.preload_modules()
        await asyncio.to_thread(import_sandbox_modules)
        freeze_loaded_objects()

    def _apply_first_settings(self, settings: "Settings") -> list[str]:
        from app.ui.context.preferences import LiveSettings
        from app.ui.terminal.external_editor import ExternalEditor

        preferences = LiveSettings(self._app, self._controllers.runtime, settings, self._apply_settings)
        self._controllers.preferences = preferences
        self._controllers.external_editor = ExternalEditor(
            self._app,
            self._app.notifier,
            lambda: preferences.settings.editor,
            self._controllers.runtime.workspace.root,
        )
        problems = preferences.apply_keymap()
        self._workbench.composer.set_vim(settings.vim)
        self._update_status()
        return problems

    def _apply_settings(self, settings: "Settings") -> None:
        """Apply changed settings to panes and session."""
        self._workbench.apply_settings(settings)
        self._current.host.apply_settings(settings)
        self._update_status()

    async def _show_chat(self, last_events: "Sequence[Event]" = ()) -> None:
        from app.ui.chat_area import ChatArea

        chat_area = ChatArea(
            self._workbench.composer,
            self._controllers.runtime.workspace,
            self._current,
            self._chat,
            self._app_context,
        )
        await self._workbench.mount_chat(chat_area, self._controllers.preferences.settings, last_events)

    async def _show_waiting_review(self, opened: WorkspaceWithOptions) -> list[str]:
        """Show the review if proposals or unfinished notes wait in it; return a line for each problem."""
        from app.storage import StorageError

        def load() -> "tuple[list[Proposal], bool]":
            from app.review.review_stores import UnfinishedReviewStore

            store = UnfinishedReviewStore(opened.runtime.sessions)
            return opened.runtime.proposals.recent_proposals(), store.has_any()

        try:
            proposals, has_notes = await asyncio.to_thread(load)
        except StorageError as error:
            return [str(error)]
        self._workbench.show_proposals(proposals)
        if has_notes or any(proposal.state.is_pending for proposal in proposals):
            await self.review_loader.ensure_loaded()
        return []

    def _host_session(self) -> None:
        from app.runtime.session_host import SessionHost
        from app.ui.controllers.app_commands import CustomCommandRunner, SlashCommandRunner
        from app.ui.controllers.connector import ModelConnector

        controllers = self._controllers
        controllers.connector = ModelConnector(
            self._current, controllers.preferences, self._app_context, self._chat, controllers.runtime
        )
        controllers.commands = SlashCommandRunner(
            controllers.runtime,
            self._current,
            controllers.preferences,
            controllers.connector,
            self._app_context,
            self._chat,
            CustomCommandRunner(
                controllers.runtime,
                self._workbench.composer,
                self._current,
                self._app_context,
                self._chat.send_message,
            ),
        )
        session = SessionHost(controllers.runtime, controllers.preferences.settings, self._update_buffer.put)
        self._current.attach(session, controllers.connector.connect_or_choose)

    async def _wait_until_painted(self) -> None:
        painted = asyncio.Event()
        self._app.call_after_refresh(painted.set)
        await painted.wait()


def import_chat_modules() -> None:
    """Import the chat and the settings, after limiting the free memory that the C library holds."""
    from app.ui.terminal.garbage_collection import limit_glibc_free_memory

    limit_glibc_free_memory()
    import app.ui.chat_area
    import app.ui.context.preferences
    import app.ui.status
    import app.ui.terminal.external_editor  # noqa: F401


def read_last_turns_of_session(opened: WorkspaceWithOptions) -> "Sequence[Event]":
    """Return the events of the last turns of a session, and import the parsers to show them. Raises StorageError."""
    last_events = opened.runtime.sessions.last_turns(opened.record.id) if opened.record is not None else []
    if last_events:
        from widgets.chat.markdown.markdown_document import preload_markdown_and_code_parsers

        preload_markdown_and_code_parsers()
    return last_events


def import_session_modules() -> None:
    """Import the modules that the model and its session need."""
    import watchfiles  # noqa: F401

    import app.prompts.custom_commands
    import app.runtime.session_host
    import app.ui.controllers.app_commands
    import app.ui.controllers.connector  # noqa: F401


def import_sandbox_modules() -> None:
    """Import the modules that run commands."""
    import app.sandbox.sandbox  # noqa: F401
