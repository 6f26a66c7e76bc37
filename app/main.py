"""SignoffApp: composition, bindings, and routing of messages between session and panes; it does no work itself."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme

from app.actions import bindings, in_scope
from app.agent.updates import ConfirmationRequested, ConfirmationResolved, Failed, ProposalsChanged, Update
from app.attention import Attention
from app.command_runner import CommandRunner
from app.config import Settings
from app.decisions import Decided, Decisions
from app.external_editor import EditorFailed, ExternalEditor
from app.keymap import KeymapError, checked, without_default
from app.messages import SessionUpdated
from app.problems import told
from app.screen_filter import UnsafeTextFilter
from app.screens.workbench import Workbench
from app.slash_commands import COMMANDS, BadArgument
from app.standing import calls_back, changes_status, standing
from app.theme_files import OWN_THEMES, load_themes
from widgets.approval import messages as review
from widgets.chat.composer import Composer
from widgets.chat.pane import ChatPane
from widgets.diff.colours import diff_variable_defaults

if TYPE_CHECKING:
    from app.agent.session import Session
    from app.connecting import Connector
    from app.host import Host
    from app.runtime import Runtime
    from app.storage.sessions import SessionRecord

FALLBACK_THEME = "signoff-dark"
"""The theme where the configured one does not exist."""

_PANE_ACTIONS = frozenset({"focus_chat", "focus_diff", "focus_approvals", "interrupt"})
"""Actions that make sense only while the workbench is in front."""


class SignoffApp(App[None]):
    """The app over one open workspace."""

    TITLE = "signoff"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]

    def __init__(
        self,
        runtime: "Runtime",
        settings: Settings,
        *,
        record: "SessionRecord | None" = None,
        demo: bool = False,
    ) -> None:
        """Make the app; nothing is opened before it runs.

        Args:
            runtime: the open workspace.
            settings: the merged settings.
            record: the session to go on with; a new one if None.
            demo: the endpoint is the demo model.
        """
        self.attention = Attention()
        super().__init__()
        self.runtime = runtime
        self.settings = settings
        self.demo = demo
        self._record = record
        self._host: Host | None = None
        self._connector: Connector | None = None
        self.commands = CommandRunner(self)
        self.decisions = Decisions(self)
        self.external_editor = ExternalEditor(self)
        self.workbench = Workbench(
            lambda: list(runtime.workspace.files()),
            [(name, action.help) for name, action in COMMANDS.items()],
        )
        self._problems: list[str] = []
        self._load_themes()
        self._load_keymap()

    # Set-up

    def _load_themes(self) -> None:
        loaded = load_themes((OWN_THEMES, self.runtime.places.themes))
        self._problems += loaded.problems
        for theme in loaded.themes:
            self.register_theme(theme.as_theme())
        wanted = self.settings.theme
        if wanted not in self.available_themes:
            self._problems.append(f"There is no theme {wanted!r}; /theme lists them.")
            wanted = FALLBACK_THEME
        self.theme = wanted

    def _load_keymap(self) -> None:
        try:
            keymap = checked(self.settings.keys)
        except KeymapError as error:
            self._problems.append(f"{error} The standard keys are in force.")
            self.settings = self.settings.model_copy(update={"keys": {}})
            return
        self.set_keymap(keymap)
        for action, keys in without_default(keymap):
            self.bind(keys, action.handler, description=action.title, show=False)

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
        self.draw_status()
        self.apply_settings()
        self.call_after_refresh(self.work, self._begin())

    async def _begin(self) -> None:
        await asyncio.to_thread(_load_core)
        for line in self._problems:
            self.tell(line, problem=True)
        self.work(self.connector.begin(self._record), group="connect")
        for line in await self.host.start():
            self.tell(line, problem=True)
        await self.show_proposals()

    @property
    def host(self) -> "Host":
        """The open session and its model."""
        if self._host is None:
            from app.host import Host

            self._host = Host(self.runtime, self.settings, self._take_update)
        return self._host

    @property
    def connector(self) -> "Connector":
        """The way to a model."""
        if self._connector is None:
            from app.connecting import Connector

            self._connector = Connector(self)
        return self._connector

    @property
    def current_session(self) -> "Session | None":
        """The open session, if there is one."""
        return self._host.session if self._host is not None else None

    def session(self) -> "Session":
        """The open session; raises NotConnected."""
        if self.host.session is None:
            from app.connection import NotConnected

            raise NotConnected("No session is open yet: choose a model first, with /model or in /settings.")
        return self.host.session

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
            chat.composer.draft = draft
        self.draw_status()
        await self.show_proposals()

    async def action_quit(self) -> None:
        """Leave; the session is valid whatever it was doing."""
        if self._host is not None:
            await self._host.close()
        self.exit()

    # What the session says

    def _take_update(self, update: Update) -> None:
        self.post_message(SessionUpdated(update))

    @on(SessionUpdated)
    async def show_update(self, event: SessionUpdated) -> None:
        """Pass an update on to the panes that show it."""
        match event.update:
            case ProposalsChanged():
                await self.show_proposals()
            case ConfirmationRequested(key=key, confirmation=confirmation):
                self.workbench.review.add_confirmation(key, confirmation)
            case ConfirmationResolved(key=key):
                self.workbench.review.remove_confirmation(key)
            case Failed(message=message):
                self.tell(message, problem=True)
            case update:
                self.workbench.chat.apply(update)
        if changes_status(event.update):
            self.draw_status()
        if (reason := calls_back(event.update)) and not self.app_focus:
            self.attention.call(self.settings.notify, reason)

    async def show_proposals(self) -> None:
        """Hand the review what waits and what was decided lately."""
        proposals = await self.host.proposals()
        self.workbench.show_proposals(proposals)
        self.draw_status()

    def draw_status(self) -> None:
        """Bring the status bar up to date."""
        self.workbench.status.status = standing(self)

    # What the user says

    @on(Composer.Submitted)
    def send(self, event: Composer.Submitted) -> None:
        """A message to the model; it goes back into the composer if it cannot be kept."""
        self.work(self._send(event.text))

    async def _send(self, text: str) -> None:
        composer = self.workbench.chat.composer
        if self.host.session is None:
            composer.draft = text
            await self.connector.begin(self._record)
            return
        try:
            await self.host.session.send(text)
        except Exception:
            composer.draft = "\n\n".join(part for part in (text, composer.draft) if part)
            raise

    @on(Composer.CommandEntered)
    def run_command(self, event: Composer.CommandEntered) -> None:
        """A slash command."""
        self.work(self.commands.run(event.name, event.argument), group="command")

    def action_command(self, name: str) -> None:
        """A command by key or from the palette."""
        self.work(self.commands.run(name), group="command")

    @on(Composer.EditorRequested)
    def write_elsewhere(self, event: Composer.EditorRequested) -> None:
        """Go on writing in the user's own editor."""

        async def write() -> None:
            text = await self.external_editor.edit(event.text)
            self.workbench.chat.composer.draft = text.rstrip("\n")

        self.work(write(), group="editor", exclusive=True)

    @on(ChatPane.QuestionAnswered)
    def answer(self, event: ChatPane.QuestionAnswered) -> None:
        """The answer to the model's question."""
        self.work(self.session().answer(event.text, event.call))

    @on(ChatPane.ProposalOpened)
    def open_proposal(self, event: ChatPane.ProposalOpened) -> None:
        """Show a proposal in the review, however old it is."""

        async def show() -> None:
            await self.host.bring_up(event.proposal_id)
            await self.show_proposals()
            self.workbench.review.show_item(event.proposal_id)
            self.workbench.show_pane("diff")

        self.work(show())

    @on(ChatPane.LinkOpened)
    def open_link(self, event: ChatPane.LinkOpened) -> None:
        """Open a web address that the user clicked; nothing else is ever opened."""
        if event.href.startswith(("https://", "http://")):
            self.open_url(event.href)
        else:
            self.tell(f"Not opened, since it is no web address: {event.href}", problem=True)

    @on(Composer.DraftChanged)
    def keep_draft(self, event: Composer.DraftChanged) -> None:
        """What is being written survives a restart."""
        if (session := self.current_session) is not None:
            self.work(self.host.keep_draft(session.id, event.text), group="draft", exclusive=True)

    # What the user decides

    @on(review.DiffsWanted)
    def load_diffs(self, event: review.DiffsWanted) -> None:
        """A diff is wanted."""
        self.work(self.decisions.load_diffs(event), group="diffs", exclusive=True)

    @on(review.VersionsWanted)
    def load_versions(self, event: review.VersionsWanted) -> None:
        """The diff between two versions is wanted."""
        self.work(self.decisions.load_versions(event), group="versions", exclusive=True)

    @on(review.Approve)
    @on(review.ApproveAll)
    @on(review.Deny)
    @on(review.DenyAll)
    @on(review.Undo)
    @on(review.Redo)
    def decide(self, event: Decided) -> None:
        """Carry out a decision."""
        self.work(self.decisions.carry_out(event))

    @on(review.Edit)
    def edit(self, event: review.Edit) -> None:
        """Change the proposed text."""
        self.work(self.decisions.edit(event), group="edit", exclusive=True)

    @on(review.Confirmed)
    def confirm(self, event: review.Confirmed) -> None:
        """The answer to a tool that asked."""
        self.session().confirm(event.key, event.answer)

    @on(review.FullScreen)
    def give_screen(self, event: review.FullScreen) -> None:
        """The review takes the whole screen, or gives it back."""
        self.workbench.set_full_screen(event.on)

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A dialog in front has the keys to itself; only quitting always works."""
        if action in _PANE_ACTIONS or action == "command":
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
        composer = self.workbench.chat.composer
        composer.draft = "\n\n".join(part for part in (*session.interrupt(), composer.draft) if part)

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
        endpoint = ("base_url", "model", "api_key", "headers", "profile", "context_window")
        if any(getattr(before, key) != getattr(self.settings, key) for key in endpoint):
            await self.connector.use(self.settings)

    def origin_of(self, key: str) -> str:
        """Where a setting comes from: a flag, a variable, a file; empty for the default."""
        return self.runtime.origin_of(key)

    def apply_settings(self) -> None:
        """Bring panes and session in line with the settings."""
        if self.settings.theme in self.available_themes:
            self.theme = self.settings.theme
        self.workbench.apply_settings(self.settings)
        if self._host is not None:
            self._host.apply(self.settings)
        self.draw_status()

    # Work

    def work(self, coroutine: Coroutine[Any, Any, Any], *, group: str = "work", exclusive: bool = False) -> None:
        """Do something beside the message loop; whatever goes wrong is told in one line and does not end the app."""

        async def guarded() -> None:
            try:
                await coroutine
            except Exception as error:
                line = told(error, self.runtime.places.log)
                if group != "command":
                    self.workbench.review.outcome(line, problem=True)
                self.tell(line, problem=not isinstance(error, BadArgument | EditorFailed))

        self.run_worker(guarded(), group=group, exclusive=exclusive, exit_on_error=False, description=group)

    def tell(self, text: str, *, problem: bool = False) -> None:
        """A line for the user that belongs to no pane."""
        self.notify(text, severity="warning" if problem else "information", markup=False)


def _load_core() -> None:
    """Import what runs sessions, on a thread while the first picture is on the screen."""
