"""The app: start-up, bindings, and routing of the user's actions to the controllers.

The imports of this module are loaded before the first paint: keep them light, and import the rest later.
"""

import asyncio
import io
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from textual import events, on
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.command import Provider
from textual.driver import Driver
from textual.message import Message
from textual.screen import Screen
from textual.theme import Theme

from app.keys.actions import UserAction, make_key_bindings_of_scopes
from app.keys.keymap import first_key_name
from app.ui.chat_controller import ChatController
from app.ui.context.app_context import AppContext, Job, describe_and_log_error, is_user_error
from app.ui.context.current_session import CurrentSession, ExitedSession, UpdateBuffer
from app.ui.startup import AppControllers, AppStartup, OpenWorkspaceFunction, open_workspace_and_import_chat
from app.ui.terminal import garbage_collection
from app.ui.terminal.fitted_app import TerminalAdaptedApp
from app.ui.themes.first_theme import STANDARD_THEME, load_signoff_theme
from app.ui.workbench import PaneSplit, Workbench
from widgets.chat.composer import Composer
from widgets.chat.composer_lists import QueuedMessages
from widgets.common.workbench_bars import SeenLinesSaved

if TYPE_CHECKING:
    from app.agent.session import Session
    from app.agent.updates import Update
    from app.config.settings import Settings

_WORKBENCH_ACTIONS = frozenset(
    {"focus_chat", "focus_diff", "focus_approvals", "go_where_needed", "interrupt", "command"}
)
"""Actions that make sense only while the workbench is in front."""


class SessionUpdatesWaiting(Message, bubble=False):
    """Message: updates of the session wait in the update buffer to be shown."""


def _palette_provider() -> type[Provider]:
    from app.ui.controllers.app_commands import PaletteCommands

    return PaletteCommands


class SignoffApp(TerminalAdaptedApp):
    """The app for one workspace.

    Args:
        opener: Opens the workspace; called after the first paint.
        log: File for the details of unexpected errors.
        theme: Theme of the first paint.
    """

    TITLE = "signoff"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette_provider}
    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("app")]
    CSS = """
    CommandPalette {
        background: $background 60%;
        & > Vertical { width: 84; max-width: 100%; margin-top: 4; }
        #--input { border: none; border-bottom: hkey $panel; }
    }
    ToastRack { dock: top; align: left top; }
    ToastHolder { align-horizontal: left; }
    .-wide Toast { max-width: 32%; }
    .-chat-only Toast { max-width: 50%; }
    .-narrow, .-review-only { ToastRack { margin: 4 0 0 0; } Toast { max-width: 100%; } }
    /* Below the input of a dialog, and in the five rows above that of the palette, whose list reaches the bottom. */
    ModalScreen { ToastRack { dock: bottom; } Toast { max-width: 100%; } }
    CommandPalette { ToastRack { margin: 0; max-height: 5; } Toast { width: 100%; max-width: 100%; } }
    """

    def __init__(self, opener: OpenWorkspaceFunction, log: Path, theme: Theme | None = None) -> None:
        super().__init__(theme or load_signoff_theme(STANDARD_THEME))
        self.crash_report = io.StringIO()
        """Textual's report of an uncaught exception; never on the screen, since it contains values of variables."""
        self.error_console = Console(file=self.crash_report, markup=False, highlight=False, width=120)
        self._opener = opener
        self._log_file = log
        self._exit_task: asyncio.Task[None] | None = None
        self._has_preloaded_turn = False
        self.end_if_stuck: Callable[[Callable[[], None]], None] = lambda settle: None
        """Called with a function that waits for running approvals, when the user quits; the default does nothing."""
        self.failure: Exception | None = None
        """The exception that kept the workspace from opening; the app exits when it is set."""
        self.closed_session: ExitedSession | None = None
        """The session that was open when the user quit, if it has events."""
        self.workbench = Workbench()
        self.current = CurrentSession()
        """The session on the screen."""
        self._update_buffer = UpdateBuffer(lambda: self.post_message(SessionUpdatesWaiting()))
        """Updates of the session that are not on the screen yet."""
        self._app_context = AppContext(self.run_background, self.notify_user, self.push_screen_wait, self.action_quit)
        self._chat = ChatController(self.workbench, self.current, self._app_context, self)
        self.controllers = AppControllers()
        """The controllers behind the panes."""
        self._startup = AppStartup(
            self, self.controllers, self._chat, self._app_context, self._update_buffer, self.update_status_bar
        )

    # Workspace and session

    @property
    def settings(self) -> "Settings":
        """Return the settings in force."""
        return self.controllers.preferences.settings

    @property
    def keymap(self) -> Mapping[str, str]:
        """Return the user's key changes by action id; empty until the settings are loaded."""
        return self.settings.keys if self.current.workspace_attached.is_set() else {}

    @property
    def current_session(self) -> "Session | None":
        """Return the open session, if there is one."""
        return self.current.current

    def require_session(self) -> "Session":
        """Return the open session; raises ModelNotConfigured."""
        return self.current.require_session()

    async def wait_until_open(self) -> None:
        """Return once a session, or a question to the user that precedes it, is on the screen."""
        await self.current.wait_until_open()

    def open_url(self, url: str, *, new_tab: bool = True) -> None:
        """Open a web address in the browser, which is not taken from a folder of the workspace in PATH."""
        from app.sandbox.environment import environment_without_workspace, remove_signoff_api_keys

        # The module finds browsers in the PATH of its process. A thread, because text browsers do not return.
        command = [sys.executable, "-I", "-m", "webbrowser", "-t" if new_tab else "-n", url]
        environment = remove_signoff_api_keys(environment_without_workspace(self.controllers.runtime.workspace.root))
        null = subprocess.DEVNULL
        start = partial(subprocess.run, command, env=environment, stdin=null, stdout=null, stderr=null, check=False)
        threading.Thread(target=start, daemon=True).start()

    # Start and end

    def get_default_screen(self) -> Screen[Any]:
        return self.workbench

    @on(Workbench.Ready)
    def start_after_first_paint(self) -> None:
        """Start everything else after the first paint: imports on threads would delay keys."""
        self.call_after_refresh(self.call_after_refresh, self.run_background, self._open_workspace, group="begin")

    async def _open_workspace(self) -> None:
        """Open the workspace, show it, open the session; exit the app if the workspace cannot be opened."""
        try:
            opened, last_events = await open_workspace_and_import_chat(self._opener)
        except Exception as error:
            self.failure = error
            self.exit(return_code=1)
        else:
            await self._startup.show_workspace(opened, last_events)
        finally:
            garbage_collection.freeze_and_resume_idle_collection(self._clear_query_caches)

    def _clear_query_caches(self) -> None:
        """Clear Textual's query caches: old entries would only use memory."""
        for screen in self.screen_stack:
            for node in screen.walk_children(with_self=True):
                node._query_one_cache.clear()

    async def action_quit(self) -> None:
        """Leave the app; the session stays valid in any state."""
        self.end_if_stuck(
            self.controllers.runtime.service.wait_until_idle
            if self.current.workspace_attached.is_set()
            else lambda: None
        )
        await self._close_and_exit(0)

    def action_help_quit(self) -> None:
        """Say which key quits, after Ctrl+C; the app's name for the key replaces Textual's."""
        self.notify_user(f"Press {first_key_name('app.quit', self.keymap)} to quit signoff.")

    def exit_soon(self, code: int) -> None:
        """Start to leave the app with this exit code, after a signal."""
        self._exit_task = asyncio.create_task(self._close_and_exit(code))

    async def _close_and_exit(self, code: int) -> None:
        if self.current.workspace_attached.is_set():
            if self.controllers.review is not None:
                await self.controllers.review.close()
            if (session := self.current_session) is not None and session.log.events:
                self.closed_session = ExitedSession(session.id, self.workbench.waiting)
            await self.current.host.close()
        self.exit(return_code=code)

    @on(Driver.SignalResume)
    def redraw_after_suspend(self) -> None:
        """Redraw everything after the shell has resumed the app."""
        self.workbench.require_repaint()
        self.refresh(layout=True)

    # Updates of the session

    @on(SessionUpdatesWaiting)
    def show_updates(self) -> None:
        """Show the buffered updates of the session, as many as the buffer allows at once."""
        for update in self._update_buffer.take_updates():
            if self.is_running:
                self._show_update(update)

    def _show_update(self, update: "Update") -> None:
        """Pass an update on to the pane that shows it."""
        from app.agent.updates import PermissionRequested, PermissionResolved, ProposalsChanged, SessionFailed
        from app.ui.status import attention_notification_text, changes_status, starts_turn

        match update:
            case ProposalsChanged():
                self.run_background(self._update_buffer.wrap_to_pause_updates(self.show_proposals), group="proposals")
            case PermissionRequested(key=key, permission_request=permission_request):
                self.workbench.chat.apply_update(update)
                self.workbench.update_permission_requests(
                    lambda review: review.add_permission_request(key, permission_request)
                )
            case PermissionResolved(key=key):
                self.workbench.chat.apply_update(update)
                self.workbench.update_permission_requests(lambda review: review.remove_permission_request(key))
            case SessionFailed(message=message):
                self.notify_user(message, problem=True)
            case _:
                self.workbench.chat.apply_update(update)
                if starts_turn(update):
                    self.workbench.release_review_width()
                    self._preload_turn_modules()
        if changes_status(update):
            self.update_status_bar()
        if self.controllers.review is not None:
            self.controllers.review.handle_update(update)
        if (reason := attention_notification_text(update)) and not self.app_focus:
            self.notifier.notify(self.settings.notify, reason)

    @on(Workbench.ReviewWanted)
    def load_review(self) -> None:
        """Load and show the review when it is first needed, in the background."""
        self.run_background(self._startup.review_loader.ensure_loaded, group="review")

    async def wait_until_shown(self) -> None:
        """Return once all updates of the session are on the screen."""
        await self._update_buffer.wait_until_empty()

    async def show_proposals(self) -> None:
        """Show the waiting and the latest decided proposals in the review."""
        proposals = await self.current.host.proposals()
        if self.controllers.review is not None:
            await self.controllers.review.reading.load()
        if not self.is_running:
            # The app was left meanwhile: its panes are unmounted.
            return
        self.workbench.show_proposals(proposals)
        if self.controllers.review is not None:
            self.controllers.review.handle_proposals(proposals)
        self.update_status_bar()

    @on(events.DescendantFocus)
    def update_answer_key_hint(self) -> None:
        """Show the key that answers an open question; it depends on the focus."""
        if self.workbench.session_status.asks:
            self.update_status_bar()

    @on(SeenLinesSaved)
    def update_status_bar(self) -> None:
        """Update the status bar and the window title."""
        from app.ui.status import make_status_values
        from app.ui.terminal.attention import window_title

        workbench, side = self.workbench, self.controllers.review
        workbench.session_status = make_status_values(
            self.settings,
            self.current,
            self.controllers.runtime.workspace.root,
            workbench.waiting,
            side.reading.status if side is not None else None,
            in_review=workbench.is_in_review,
            in_composer=workbench.is_in_composer,
        )
        needed = workbench.waiting + bool(workbench.session_status.asks)
        self.notifier.set_title(window_title(needed, self.controllers.runtime.workspace.root.name))

    # Input of the user

    @on(Composer.Submitted)
    def send_message(self, event: Composer.Submitted) -> None:
        """Send a message to the model, or put it back into the composer if it cannot be sent."""
        self.run_background(partial(self._chat.send_message, event.text, mentions=event.mentions), group="command")

    @on(Composer.CommandEntered)
    def run_command(self, event: Composer.CommandEntered) -> None:
        """Run a slash command."""
        self.run_background(partial(self._run_slash_command, event.name, event.argument), group="command")

    def action_command(self, name: str) -> None:
        """Run a slash command from a key or the palette."""
        self.run_background(partial(self._run_slash_command, name), group="command")

    async def _run_slash_command(self, name: str, argument: str = "") -> None:
        if name != "quit":
            await self.current.wait_until_open()
        await self.controllers.commands.run(name, argument)

    @on(Composer.CommandsWanted)
    def refresh_custom_commands(self) -> None:
        """Read the files of the user's custom commands again, and offer the commands."""
        if self.current.workspace_attached.is_set():
            self.run_background(
                self.controllers.commands.custom_commands.refresh, group="own commands", exclusive=True
            )

    @on(Composer.EditorRequested)
    def open_editor(self, event: Composer.EditorRequested) -> None:
        """Open the draft in the user's external editor."""

        async def edit_draft() -> None:
            await self.current.workspace_attached.wait()
            text = await self.controllers.external_editor.edit(event.text)
            self.workbench.composer.draft = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")

        self.run_background(edit_draft, group="editor", exclusive=True)

    @on(PaneSplit.Resized)
    def save_review_share(self, event: PaneSplit.Resized) -> None:
        """Save the review's share of the width, for all workspaces."""

        async def save() -> None:
            await self.current.workspace_attached.wait()
            await asyncio.to_thread(self.controllers.preferences.save_review_share, event.review)

        self.run_background(save, group="share", exclusive=True)

    @on(Composer.DraftChanged)
    def save_draft(self, event: Composer.DraftChanged) -> None:
        """Save the composer's draft for the next start, and preload the modules that a turn needs."""
        self._chat.save_draft(event.to_stored())
        if event.text:
            self._preload_turn_modules()

    def _preload_turn_modules(self) -> None:
        """Preload the modules that a turn needs, once."""
        if not self._has_preloaded_turn and self.current_session is not None:
            self._has_preloaded_turn = True
            self.run_background(self._startup.preload_turn_modules, group="turn")

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action works now: while a dialog is open, workbench actions don't."""
        if action in _WORKBENCH_ACTIONS:
            return self.screen is self.workbench
        return True

    def action_focus_chat(self) -> None:
        """Go to the chat."""
        self.workbench.show_pane("chat")
        self.workbench.release_review_width()

    def action_focus_diff(self) -> None:
        """Go to the diff."""
        self.workbench.show_pane("diff")

    def action_focus_approvals(self) -> None:
        """Go to the approvals."""
        self.workbench.show_pane("approvals")

    def action_go_where_needed(self) -> None:
        """Focus a permission request, question or proposal that waits; else look for one in other sessions."""
        if self.workbench.needs_permission:
            self.workbench.show_pane("approvals")
        elif self.workbench.session_status.asks:
            self.action_focus_chat()
        elif self.workbench.waiting:
            self.workbench.show_pane("diff")
        elif self.current.workspace_attached.is_set():
            self.run_background(self.controllers.commands.open_session_awaiting_user, group="command")

    def action_interrupt(self) -> None:
        """Stop the model; queued messages go back to the composer."""
        self._chat.interrupt()

    @on(QueuedMessages.TakeBackWanted)
    def take_back_queued_messages(self) -> None:
        """Move the queued messages back to the composer; the model continues."""
        self._chat.take_back_queued_messages()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Yield the commands of the palette."""
        from app.ui.controllers.app_commands import palette_commands_without_decisions

        custom_commands = (
            self.controllers.commands.custom_commands.catalogue.commands.values()
            if self.current.workspace_attached.is_set()
            else ()
        )
        return palette_commands_without_decisions(self._perform_palette_action, custom_commands, self.action_command)

    def _perform_palette_action(self, action: UserAction) -> None:
        if action.command:
            self.action_command(action.command)
        elif action.scope == "app":
            self.run_background(partial(self.run_action, action.handler))
        else:
            self.run_background(partial(self._perform_in_review, action))

    async def _perform_in_review(self, action: UserAction) -> None:
        await self.wait_until_open()
        await self._startup.review_loader.ensure_loaded()
        self.workbench.show_pane("diff")
        review = self.workbench.review
        self.workbench.set_focus(review.view)
        if action.scope == "review":
            await review.perform_action(action.handler)
        else:
            await self.run_action(action.handler, review.view)

    # Work

    def run_background(self, job: Job, *, group: str = "work", exclusive: bool = False) -> None:
        """Run a coroutine in a worker; errors are shown in one line and do not end the app."""

        async def guarded() -> None:
            try:
                await job()
            except Exception as error:
                line = describe_and_log_error(error, self._log_file)
                if group != "command":  # Input of the composer is not about the review.
                    self.workbench.show_review_problem(line)
                self.notify_user(line, problem=not is_user_error(error))

        worker_function: Callable[[], Awaitable[None]] = guarded
        self.run_worker(worker_function, group=group, exclusive=exclusive, exit_on_error=False, description=group)

    def notify_user(self, text: str, *, problem: bool = False) -> None:
        """Show a line in a toast."""
        self.notify(text, severity="warning" if problem else "information", markup=False)
