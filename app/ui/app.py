"""SignoffApp: start-up, bindings, and the way from what the user does to who does it; it does no work itself.

What this module imports is loaded before the first picture: keep it light. Everything that knows of models, files
and sessions comes after it.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from textual import on
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme

from app.actions import Action, bindings, in_scope
from app.ui.commands import CommandRunner
from app.ui.messages import SessionUpdated
from app.ui.opened import Opener
from app.ui.problems import told
from app.ui.slash_commands import BadArgument
from app.ui.start import Start
from app.ui.terminal.attention import Attention
from app.ui.terminal.editor import EditorFailed, ExternalEditor
from app.ui.terminal.filter import UnsafeTextFilter
from app.ui.themes.first import STANDARD, fitting, own_theme
from app.ui.workbench import Workbench
from widgets.chat.composer import Composer
from widgets.chat.queue import Queue
from widgets.common.input_order import OrderedApp
from widgets.diff.colours import diff_variable_defaults

if TYPE_CHECKING:
    from app.agent.session import Session
    from app.agent.updates import Update
    from app.config import Settings
    from app.runtime.open_session import Host
    from app.runtime.workspace import Runtime
    from app.storage.sessions import SessionRecord
    from app.ui.connector import Connector
    from app.ui.preferences import Preferences
    from app.ui.review_actions import Decisions
    from app.ui.review_notes import ReviewNotes

Work = Callable[[], Coroutine[Any, Any, Any]]
"""Something to do, as a function: a coroutine that is never begun would be a defect."""

FOLLOWS = (
    "This session is open in another window, which runs it; here you see what happens, and can decide. "
    "/fork goes on with a copy."
)

REVIEW_SHARE = "review_share"
"""The setting that keeps how much of the width the review has."""

_WORKBENCH_ACTIONS = frozenset({"focus_chat", "focus_diff", "focus_approvals", "interrupt", "command"})
"""Actions that make sense only while the workbench is in front."""


class SignoffApp(OrderedApp):
    """The app over one workspace."""

    TITLE = "signoff"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]
    CSS = """
    CommandPalette {
        background: $background 60%;
        & > Vertical { width: 84; max-width: 100%; border: round $primary 80%; }
        #--input { border: none; border-bottom: hkey $panel; }
    }
    ToastRack { dock: top; align: left top; }
    ToastHolder { align-horizontal: left; }
    .-narrow, .-review-only {
        ToastRack { margin: 4 0 0 0; }
        Toast { max-width: 100%; }
    }
    """

    runtime: "Runtime"
    """The open workspace."""
    preferences: "Preferences"
    """The settings in force."""
    host: "Host"
    """The open session and its model."""
    connector: "Connector"
    """The way to a model."""
    decisions: "Decisions"
    """What is behind the keys of the review."""
    review_notes: "ReviewNotes"
    """Keeps what the user has begun in the review."""

    def __init__(self, opener: Opener, log: Path, theme: Theme | None = None) -> None:
        """Make the app; nothing is opened before it runs.

        Args:
            opener: opens the workspace, once the first picture is on the screen.
            log: where the details of a defect go.
            theme: of the first picture.
        """
        self.attention = Attention()
        super().__init__()
        self.crash_report = io.StringIO()
        """What Textual has to say of an exception that nobody caught: with values, so it is not for the screen."""
        self.error_console = Console(file=self.crash_report, markup=False, highlight=False, width=120)
        self._start = Start(self, opener)
        self._log_file = log
        self.is_open = asyncio.Event()
        """Set once there is all that `Start` makes; a session may still lack a model."""
        self._sending = asyncio.Lock()
        self._leaving: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """Why the workspace could not be opened; the app has left then."""
        self.left_waiting: int | None = None
        """How many proposals wait, once a session was left that has something in it."""
        self.commands = CommandRunner(self)
        self.external_editor = ExternalEditor(self)
        self.workbench = Workbench()
        self.demo = False
        first = theme or own_theme(STANDARD)
        self.register_theme(first)
        self.theme = fitting(first.name, self.console.color_system)

    # What is open

    @property
    def settings(self) -> "Settings":
        """The settings in force."""
        return self.preferences.settings

    @property
    def current_session(self) -> "Session | None":
        """The open session, if there is one."""
        return self.host.session if self.is_open.is_set() else None

    def session(self) -> "Session":
        """The open session; raises NotConnected."""
        if (session := self.current_session) is None:
            from app.runtime.connection import NotConnected

            raise NotConnected("No session is open yet: choose a model first, with /model or in /settings.")
        return session

    # Start and end

    def get_driver_class(self) -> type[Driver]:
        """The platform's driver, through which attention is called for."""
        return self.attention.listen_in(super().get_driver_class())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Defaults of the variables that our own style sheets use, mixed from the theme."""
        theme: Theme | None = self.available_themes.get(self.theme)
        return diff_variable_defaults(theme) if theme is not None else {}

    def get_css_variables(self) -> dict[str, str]:
        """The theme's variables, fitted to a terminal of 256 colours."""
        variables = super().get_css_variables()
        if self._has_palette:
            from app.ui.themes.palette import with_tints

            variables = self.theme_variables = with_tints(variables, self.current_theme)
        return variables

    @property
    def _has_palette(self) -> bool:
        """Whether the terminal knows just 256 colours."""
        return self.console.color_system == "256"

    def get_line_filters(self) -> list[LineFilter]:
        """Textual's filters, and our own; always the same ones, since what they made is kept by filter."""
        return [*super().get_line_filters(), *self._line_filters]

    @cached_property
    def _line_filters(self) -> list[LineFilter]:
        """The filter that lets no control character through to the terminal, and the one for its palette."""
        filters: list[LineFilter] = [UnsafeTextFilter()]
        if self._has_palette:
            from app.ui.themes.palette import PaletteFilter

            filters.append(PaletteFilter())
        return filters

    def get_default_screen(self) -> Screen[Any]:
        """The workbench."""
        return self.workbench

    @on(Workbench.Ready)
    def begin(self) -> None:
        """The first picture is on its way; everything else comes after it."""
        self.call_after_refresh(self.work, self._start.run, group="begin")

    async def recall_share(self) -> None:
        """Share the width as the user did the last time."""
        kept = await asyncio.to_thread(self.runtime.sessions.setting, REVIEW_SHARE, shared=True)
        if kept is not None and kept.isdecimal():
            self.workbench.share(int(kept))

    async def open_session(self, record: "SessionRecord | None") -> None:
        """Show a session, a new one if none is given."""
        chat = self.workbench.chat
        left_behind = chat.composer.draft if self.host.session is not None else ""
        session = await self.host.open(record)
        chat.open_log(session.log.events)
        history = await asyncio.to_thread(self.runtime.sessions.sent_messages)
        draft = await self.host.drafts.recall(session.id, fresh=record is None)
        chat.composer.set_history(history)
        if chat.composer.draft == left_behind:
            # Else the user has typed meanwhile, and what is being typed is never taken away.
            chat.composer.restore(draft)
        self.host.drafts.keep(session.id, chat.composer.kept_draft)
        chat.composer.set_queue(session.queue)
        self.back_to_composer(session.take_back())
        if session.follows:
            self.tell(FOLLOWS)
        self.draw_status()
        self.workbench.recall_comments(session.log.events)
        await self.show_proposals()

    async def opened(self) -> None:
        """Return once a session is on the screen, or a question to the user stands before it."""
        await self.is_open.wait()
        await self.connector.asked.wait()

    async def action_quit(self) -> None:
        """Leave; the session is valid whatever it was doing."""
        await self._leave(0)

    def leave_soon(self, code: int) -> None:
        """Begin to leave because the system asks for it, with this exit code."""
        self._leaving = asyncio.create_task(self._leave(code))

    async def _leave(self, code: int) -> None:
        if self.is_open.is_set():
            await self.review_notes.close()
            if (session := self.current_session) is not None and session.log.events:
                self.left_waiting = self.workbench.tabs.waiting
            await self.host.close()
        self.exit(return_code=code)

    @on(Driver.SignalResume)
    def come_back(self) -> None:
        """The shell has let the app go on: the terminal shows nothing of it any more, nor is anything in sight."""
        self.workbench.lose_picture()
        self.refresh(layout=True)

    # What the session says

    def take_update(self, update: "Update") -> None:
        """An update of the session, from whichever of its tasks."""
        self.post_message(SessionUpdated(update))

    @on(SessionUpdated)
    async def show_update(self, event: SessionUpdated) -> None:
        """Pass an update on to the side that shows it."""
        from app.agent.updates import ConfirmationRequested, ConfirmationResolved, Failed, ProposalsChanged
        from app.ui.status import begins_turn, calls_back, changes_status

        update = event.update
        match update:
            case ProposalsChanged():
                await self.show_proposals()
            case ConfirmationRequested(key=key, confirmation=confirmation):
                self.workbench.review.add_confirmation(key, confirmation)
                self.workbench.chat.status_line.show_permissions(self.workbench.review.permissions)
            case ConfirmationResolved(key=key):
                self.workbench.review.remove_confirmation(key)
                self.workbench.chat.status_line.show_permissions(self.workbench.review.permissions)
            case Failed(message=message):
                self.tell(message, problem=True)
            case _:
                self.workbench.chat.apply(update)
                if begins_turn(update):
                    self.workbench.rest_review()
        if changes_status(update):
            self.draw_status()
            self.decisions.aftermath.follow(update)
        if (reason := calls_back(update)) and not self.app_focus:
            self.attention.call(self.settings.notify, reason)

    async def show_proposals(self) -> None:
        """Hand the review what waits and what was decided lately."""
        self.workbench.show_proposals(await self.host.proposals())
        self.decisions.aftermath.settle()
        self.draw_status()

    def draw_status(self) -> None:
        """Bring the status bar up to date."""
        from app.ui.status import standing

        status = standing(self)
        self.workbench.status.status = status
        self.workbench.note_asked(status.asks)

    # What the user says

    @on(Composer.Submitted)
    def send(self, event: Composer.Submitted) -> None:
        """A message to the model; it goes back into the composer if it cannot be kept."""
        self.work(partial(self._send, event.text))

    async def _send(self, text: str) -> None:
        from app.ui.stray_decisions import meant_for_review

        try:
            if self.is_open.is_set() and await meant_for_review(self, text):
                self.workbench.show_pane("approvals")
                return
            async with self._sending:
                # Until the session that was asked for is open, messages wait here, in their order.
                await self.opened()
                if self.host.session is None:
                    await self.connector.choose()
            await self.session().send(text)
        except Exception:
            composer = self.workbench.composer
            composer.draft = "\n\n".join(part for part in (text, composer.draft) if part)
            raise

    @on(Composer.CommandEntered)
    def run_command(self, event: Composer.CommandEntered) -> None:
        """A slash command."""
        self.work(partial(self._run, event.name, event.argument), group="command")

    def action_command(self, name: str) -> None:
        """A command by key or from the palette."""
        self.work(partial(self._run, name), group="command")

    async def _run(self, name: str, argument: str = "") -> None:
        if name != "quit":
            await self.is_open.wait()
        await self.commands.run(name, argument)

    @on(Composer.EditorRequested)
    def write_elsewhere(self, event: Composer.EditorRequested) -> None:
        """Go on writing in the user's own editor."""

        async def write() -> None:
            await self.is_open.wait()
            text = await self.external_editor.edit(event.text)
            self.workbench.composer.draft = text.rstrip("\n")

        self.work(write, group="editor", exclusive=True)

    @on(Workbench.Parted)
    def keep_share(self, event: Workbench.Parted) -> None:
        """How the width is shared is remembered, for every workspace."""

        async def keep() -> None:
            await self.is_open.wait()
            await asyncio.to_thread(self.runtime.sessions.set_setting, REVIEW_SHARE, str(event.review), shared=True)

        self.work(keep, group="share", exclusive=True)

    @on(Composer.DraftChanged)
    def keep_draft(self, event: Composer.DraftChanged) -> None:
        """What is being written survives a restart."""
        if (session := self.current_session) is not None:
            self.host.drafts.keep(session.id, event.kept())

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A dialog in front has the keys to itself; only quitting always works."""
        if action in _WORKBENCH_ACTIONS:
            return self.screen is self.workbench
        return True

    def action_focus_chat(self) -> None:
        """Go to the chat."""
        self.workbench.show_pane("chat")
        self.workbench.rest_review()

    def action_focus_diff(self) -> None:
        """Go to the diff."""
        self.workbench.show_pane("diff")

    def action_focus_approvals(self) -> None:
        """Go to the approvals."""
        self.workbench.show_pane("approvals")

    def action_interrupt(self) -> None:
        """Stop the model; what was queued goes back to the composer."""
        if (session := self.current_session) is None or not session.busy:
            return
        self.back_to_composer(session.interrupt())

    @on(Queue.Wanted)
    def take_queue_back(self) -> None:
        """What was queued goes back to the composer to be changed; the model works on."""
        if (session := self.current_session) is not None:
            self.back_to_composer(session.take_back())

    def back_to_composer(self, texts: Sequence[str]) -> None:
        """Put the user's words before what is being written, to be sent again or not."""
        composer = self.workbench.composer
        if texts:
            composer.draft = "\n\n".join(part for part in (*texts, composer.draft) if part)
            self.work(partial(self.host.keep_taken, composer.kept_draft), group="queue")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action but those that move a cursor, and those that decide, which Enter never does."""
        from app.keymap import DECISIONS

        for action in in_scope("app", "review", "diff"):
            if action.id in ("app.palette", "app.keys") or action.id in DECISIONS or action.moves:
                continue
            place = "" if action.scope == "app" else "Review: "
            yield SystemCommand(f"{place}{action.title}", action.help, partial(self._perform, action))

    def _perform(self, action: Action) -> None:
        if action.command:
            self.action_command(action.command)
        elif action.scope == "app":
            self.work(partial(self.run_action, action.handler))
        else:
            self.work(partial(self._perform_in_review, action))

    async def _perform_in_review(self, action: Action) -> None:
        await self.opened()
        self.workbench.show_pane("diff")
        review = self.workbench.review
        self.workbench.set_focus(review.view)
        await self.run_action(action.handler, review if action.scope == "review" else review.view)

    # Work

    def work(self, job: Work, *, group: str = "work", exclusive: bool = False) -> None:
        """Do something beside the message loop; whatever goes wrong is told in one line and does not end the app.

        Args:
            job: what to do.
            group: what it belongs to.
            exclusive: cancels the others of its group.
        """

        async def guarded() -> None:
            try:
                await job()
            except Exception as error:
                line = told(error, self._log_file)
                if group != "command":
                    self.workbench.tell_outcome(line)
                self.tell(line, problem=not isinstance(error, BadArgument | EditorFailed))

        begin: Callable[[], Awaitable[None]] = guarded
        self.run_worker(begin, group=group, exclusive=exclusive, exit_on_error=False, description=group)

    def tell(self, text: str, *, problem: bool = False) -> None:
        """A line for the user that belongs to no pane."""
        self.notify(text, severity="warning" if problem else "information", markup=False)
