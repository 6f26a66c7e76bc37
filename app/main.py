"""SignoffApp: start-up, bindings, and the way from what the user does to who does it; it does no work itself.

What this module imports is loaded before the first picture: keep it light. Everything that knows of models, files
and sessions comes after it.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from textual import on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme

from app.actions import bindings, in_scope
from app.attention import Attention
from app.command_runner import CommandRunner
from app.external_editor import EditorFailed, ExternalEditor
from app.first_theme import OWN_THEMES, STANDARD, own_theme
from app.messages import SessionUpdated
from app.opened import Opened, Opener
from app.problems import told
from app.screen_filter import UnsafeTextFilter
from app.screens.workbench import Workbench
from app.slash_commands import BadArgument
from widgets.chat.composer import Composer
from widgets.diff.colours import diff_variable_defaults

if TYPE_CHECKING:
    from app.agent.session import Session
    from app.agent.updates import Update
    from app.config import Settings
    from app.connecting import Connector
    from app.decisions import Decisions
    from app.host import Host
    from app.runtime import Runtime
    from app.storage.sessions import SessionRecord

Work = Coroutine[Any, Any, Any] | Callable[[], Coroutine[Any, Any, Any]]

_WORKBENCH_ACTIONS = frozenset({"focus_chat", "focus_diff", "focus_approvals", "interrupt", "command"})
"""Actions that make sense only while the workbench is in front."""
_ENDPOINT = ("base_url", "model", "api_key", "headers", "profile", "context_window")
"""Settings that a connection is made from."""


class SignoffApp(App[None]):
    """The app over one workspace."""

    TITLE = "signoff"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]
    CSS = """
    CommandPalette {
        background: $background 60%;
        & > Vertical { width: 84; max-width: 100%; }
    }
    """

    host: "Host"
    """The open session and its model."""
    connector: "Connector"
    """The way to a model."""
    decisions: "Decisions"
    """What is behind the keys of the review."""

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
        self._opener = opener
        self._log_file = log
        self._opened: Opened | None = None
        self._is_open = asyncio.Event()
        self.failure: Exception | None = None
        """Why the workspace could not be opened; the app has left then."""
        self.commands = CommandRunner(self)
        self.external_editor = ExternalEditor(self)
        self.workbench = Workbench()
        self.demo = False
        first = theme or own_theme(STANDARD)
        self.register_theme(first)
        self.theme = first.name

    # What is open

    @property
    def runtime(self) -> "Runtime":
        """The open workspace."""
        assert self._opened is not None, "the workspace is not open yet"
        return self._opened.runtime

    @property
    def current_session(self) -> "Session | None":
        """The open session, if there is one."""
        return self.host.session if self._is_open.is_set() else None

    def session(self) -> "Session":
        """The open session; raises NotConnected."""
        if (session := self.current_session) is None:
            from app.connection import NotConnected

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

    def get_line_filters(self) -> list[LineFilter]:
        """Textual's filters, and the one that lets no control character through to the terminal."""
        return [*super().get_line_filters(), UnsafeTextFilter()]

    def get_default_screen(self) -> Screen[Any]:
        """The workbench."""
        return self.workbench

    @on(Workbench.Ready)
    def begin(self) -> None:
        """The first picture is on its way; everything else comes after it."""
        self.call_after_refresh(self.work, self._begin(), group="begin")

    async def _begin(self) -> None:
        try:
            loading = asyncio.create_task(asyncio.to_thread(_load_panes))
            self._opened = opened = await self._opener()
            # Only the end of a session is shown at first: the whole log takes longer to read, the rest to import.
            end = await asyncio.to_thread(opened.last_turns)
            await loading
        except Exception as error:
            self.failure = error
            self.exit(return_code=1)
            return
        self.settings: Settings = opened.settings
        self.demo = opened.demo
        problems = [*self._load_themes(), *self._load_keymap()]
        self.theme = self.settings.theme
        from app.screens.panes import Panes

        await self.workbench.install(Panes(self), end)
        await self._painted()
        await asyncio.to_thread(_load_session_parts)
        self._make_parts()
        self._is_open.set()
        self.apply_settings()
        for line in problems:
            self.tell(line, problem=True)
        self.work(self.connector.begin(opened.record), group="connect")
        await self.connector.asked.wait()
        for line in await self.host.start():
            self.tell(line, problem=True)
        await self.show_proposals()

    async def _painted(self) -> None:
        painted = asyncio.Event()
        self.call_after_refresh(painted.set)
        await painted.wait()

    def _make_parts(self) -> None:
        from app.connecting import Connector
        from app.decisions import Decisions
        from app.host import Host

        self.host = Host(self.runtime, self.settings, self._take_update)
        self.connector = Connector(self)
        self.decisions = Decisions(self)

    def _load_themes(self) -> list[str]:
        from app.theme_files import load_themes

        loaded = load_themes((OWN_THEMES, self.runtime.places.themes))
        for theme in loaded.themes:
            self.register_theme(theme.as_theme())
        if self.settings.theme in self.available_themes:
            return list(loaded.problems)
        unknown = f"There is no theme {self.settings.theme!r}; /theme lists them."
        self.settings = self.settings.model_copy(update={"theme": STANDARD})
        return [*loaded.problems, unknown]

    def _load_keymap(self) -> list[str]:
        from app.keymap import KeymapError, checked, without_default

        try:
            keymap = checked(self.settings.keys)
        except KeymapError as error:
            self.settings = self.settings.model_copy(update={"keys": {}})
            return [f"{error} The standard keys are in force."]
        self.set_keymap(keymap)
        for action, keys in without_default(keymap):
            self.bind(keys, action.handler, description=action.title, show=False)
        return []

    async def open_session(self, record: "SessionRecord | None") -> None:
        """Show a session, a new one if none is given."""
        chat = self.workbench.chat
        left_behind = chat.composer.draft if self.host.session is not None else ""
        session = await self.host.open(record)
        chat.open_log(session.log.events)
        history = await asyncio.to_thread(self.runtime.sessions.sent_messages)
        draft = await self.host.draft(session.id)
        chat.composer.set_history(history)
        if chat.composer.draft == left_behind:
            # Else the user has typed meanwhile, and what is being typed is never taken away.
            chat.composer.restore(draft)
        self.draw_status()
        await self.show_proposals()

    async def opened(self) -> None:
        """Return once a session is on the screen, or a question to the user stands before it."""
        await self._is_open.wait()
        await self.connector.asked.wait()

    async def action_quit(self) -> None:
        """Leave; the session is valid whatever it was doing."""
        if self._is_open.is_set():
            await self.host.close()
        self.exit()

    # What the session says

    def _take_update(self, update: "Update") -> None:
        self.post_message(SessionUpdated(update))

    @on(SessionUpdated)
    async def show_update(self, event: SessionUpdated) -> None:
        """Pass an update on to the panes that show it."""
        from app.standing import calls_back, changes_status

        assert self.workbench.panes is not None
        await self.workbench.panes.show(event.update)
        if changes_status(event.update):
            self.draw_status()
        if (reason := calls_back(event.update)) and not self.app_focus:
            self.attention.call(self.settings.notify, reason)

    async def show_proposals(self) -> None:
        """Hand the review what waits and what was decided lately."""
        assert self.workbench.panes is not None
        self.workbench.tabs.waiting = self.workbench.panes.show_proposals(await self.host.proposals())
        self.draw_status()

    def draw_status(self) -> None:
        """Bring the status bar up to date."""
        from app.standing import standing

        self.workbench.status.status = standing(self)

    # What the user says

    @on(Composer.Submitted)
    def send(self, event: Composer.Submitted) -> None:
        """A message to the model; it goes back into the composer if it cannot be kept."""
        self.work(self._send(event.text))

    async def _send(self, text: str) -> None:
        try:
            await self._is_open.wait()
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
        self.work(self._run(event.name, event.argument), group="command")

    def action_command(self, name: str) -> None:
        """A command by key or from the palette."""
        self.work(self._run(name), group="command")

    async def _run(self, name: str, argument: str = "") -> None:
        if name != "quit":
            await self._is_open.wait()
        await self.commands.run(name, argument)

    @on(Composer.EditorRequested)
    def write_elsewhere(self, event: Composer.EditorRequested) -> None:
        """Go on writing in the user's own editor."""

        async def write() -> None:
            await self._is_open.wait()
            text = await self.external_editor.edit(event.text)
            self.workbench.composer.draft = text.rstrip("\n")

        self.work(write(), group="editor", exclusive=True)

    @on(Composer.DraftChanged)
    def keep_draft(self, event: Composer.DraftChanged) -> None:
        """What is being written survives a restart."""
        if (session := self.current_session) is not None:
            self.work(lambda: self.host.keep_draft(session.id, event.kept()), group="draft", exclusive=True)

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A dialog in front has the keys to itself; only quitting always works."""
        if action in _WORKBENCH_ACTIONS:
            return self.screen is self.workbench
        return True

    def action_focus_chat(self) -> None:
        """Go to the chat."""
        self.workbench.show_pane("chat")

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
        composer = self.workbench.composer
        queued = session.interrupt()
        if queued:
            composer.draft = "\n\n".join(part for part in (*queued, composer.draft) if part)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action of the registry that works everywhere."""
        for action in in_scope("app"):
            if action.id not in ("app.palette", "app.keys"):
                run = self.action_command if action.command else lambda handler: self.work(self.run_action(handler))
                what = action.command or action.handler
                yield SystemCommand(action.title, action.help, lambda run=run, what=what: run(what))

    # Settings

    def change_settings(self, **changes: Any) -> None:
        """Put settings in force, in this run only."""
        self.settings = self.settings.model_copy(update=changes)
        self.apply_settings()

    def save_settings(self, **changes: Any) -> None:
        """Write settings to the user's configuration; None takes one out. Raises ConfigError."""
        from app.config import save

        save(self.runtime.places.config_file, changes)

    async def reload_settings(self) -> None:
        """Read all configuration anew, as at the start."""
        configuration = await asyncio.to_thread(self.runtime.reload)
        before, self.settings = self.settings, configuration.settings
        self.apply_settings()
        if any(getattr(before, key) != getattr(self.settings, key) for key in _ENDPOINT):
            await self.connector.use(self.settings)

    def apply_settings(self) -> None:
        """Bring panes and session in line with the settings."""
        if self.settings.theme in self.available_themes:
            self.theme = self.settings.theme
        self.workbench.apply_settings(self.settings)
        self.host.apply(self.settings)
        self.draw_status()

    # Work

    def work(self, job: Work, *, group: str = "work", exclusive: bool = False) -> None:
        """Do something beside the message loop; whatever goes wrong is told in one line and does not end the app.

        Args:
            job: what to do; as a function where another of its group may take its place before it begins.
            group: what it belongs to.
            exclusive: cancels the others of its group.
        """

        async def guarded() -> None:
            try:
                await (job() if callable(job) else job)
            except Exception as error:
                line = told(error, self._log_file)
                if self.workbench.panes is not None and group != "command":
                    self.workbench.review.outcome(line, problem=True)
                self.tell(line, problem=not isinstance(error, BadArgument | EditorFailed))

        begin: Callable[[], Awaitable[None]] = guarded
        self.run_worker(begin, group=group, exclusive=exclusive, exit_on_error=False, description=group)

    def tell(self, text: str, *, problem: bool = False) -> None:
        """A line for the user that belongs to no pane."""
        self.notify(text, severity="warning" if problem else "information", markup=False)


def _load_panes() -> None:
    """Import what the second picture needs, on a thread."""
    import app.screens.panes
    import app.standing  # noqa: F401


def _load_session_parts() -> None:
    """Import what the model and its session need, on a thread, once their end is on the screen."""
    import app.connecting
    import app.decisions
    import app.host  # noqa: F401
