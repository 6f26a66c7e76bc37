"""SignoffApp: composition, bindings, and routing of messages between session and panes; it does no work itself."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme

from app.actions import ACTIONS, bindings, in_scope
from app.agent.session import Session
from app.agent.updates import (
    ConfirmationRequested,
    ConfirmationResolved,
    Failed,
    GateChanged,
    PhaseChanged,
    ProposalsChanged,
    Recorded,
    Update,
)
from app.config import Settings
from app.connection import NotConnected
from app.conversation.events import TurnEnded
from app.host import Host
from app.keymap import KeymapError, checked
from app.messages import SessionUpdated
from app.proposals.errors import ProposalError
from app.proposals.models import Proposal, ProposalState
from app.runtime import Runtime
from app.screen_filter import UnsafeTextFilter
from app.screens.workbench import Workbench
from app.storage.errors import StorageError
from app.storage.sessions import SessionRecord
from app.theme_files import OWN_THEMES, load_themes
from app.workspace.git import branch
from widgets.approval import messages as review
from widgets.chat.composer import Composer
from widgets.chat.pane import ChatPane
from widgets.common.status_bar import Status
from widgets.diff.colours import diff_variable_defaults

FALLBACK_THEME = "signoff-dark"
"""The theme where the configured one does not exist."""

_RECENT = 20
"""Decided proposals that stay in the review's history."""


class SignoffApp(App[None]):
    """The app over one open workspace."""

    TITLE = "signoff"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        *,
        record: SessionRecord | None = None,
        demo: bool = False,
    ) -> None:
        """Make the app; nothing is opened before it runs.

        Args:
            runtime: the open workspace.
            settings: the merged settings.
            record: the session to go on with; a new one if None.
            demo: the endpoint is the demo model.
        """
        super().__init__()
        self._runtime = runtime
        self._settings = settings
        self._record = record
        self._demo = demo
        self._unsent: list[str] = []
        """Messages from before there was a model."""
        self._connecting = asyncio.Lock()
        self.host = Host(runtime, settings, self._take_update)
        self.workbench = Workbench(
            lambda: list(runtime.workspace.files()),
            [(action.command, action.help) for action in ACTIONS if action.command],
        )
        self._load_themes()
        self._load_keymap()

    # Set-up

    def _load_themes(self) -> None:
        loaded = load_themes((OWN_THEMES, self._runtime.places.themes))
        self._problems = list(loaded.problems)
        for theme in loaded.themes:
            self.register_theme(theme.as_theme())
        wanted = self._settings.theme
        if wanted not in self.available_themes:
            self._problems.append(f"There is no theme {wanted!r}; /theme lists them.")
            wanted = FALLBACK_THEME
        self.theme = wanted

    def _load_keymap(self) -> None:
        try:
            self.set_keymap(checked(self._settings.keys))
        except KeymapError as error:
            self._problems.append(f"{error} The standard keys are in force.")

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
    async def begin(self) -> None:
        """Show what is there, then connect."""
        self.workbench.status.status = Status(model=self._settings.model, demo=self._demo)
        for line in (*self._problems, *await self.host.start()):
            self.tell(line, problem=True)
        await self._show_proposals()
        self.work(self._connect())

    async def _connect(self) -> None:
        """Connect and open the session, then say what waits; without an endpoint, say what is missing."""
        async with self._connecting:
            while self.host.session is None:
                try:
                    await self.host.connect(self._settings)
                except NotConnected as error:
                    if not await self._set_up(str(error)):
                        break
                else:
                    await self.open_session(self._record)
        unsent, self._unsent = self._unsent, []
        for text in unsent:
            if self.host.session is not None:
                await self._send(text)
            else:
                self.workbench.chat.composer.draft = text

    async def _set_up(self, missing: str) -> bool:
        """Offer what is there; whether the user picked an endpoint to connect to."""
        from app.screens.setup import DEMO, SetupScreen

        choice = await self.push_screen_wait(SetupScreen(missing, str(self._runtime.places.config_file)))
        if choice is None:
            self.workbench.chat.composer.set_placeholder("No model yet: send anything to choose one")
            return False
        if choice == DEMO:
            choice = await self.host.start_demo()
            self._demo = True
        base_url, model = choice
        self._settings = self._settings.model_copy(update={"base_url": base_url, "model": model})
        return True

    async def open_session(self, record: SessionRecord | None) -> None:
        """Show a session, a new one if none is given."""
        session = await self.host.open(record)
        chat = self.workbench.chat
        chat.open_log(session.log.events)
        chat.composer.set_history(await asyncio.to_thread(self._runtime.sessions.sent_messages))
        draft = await asyncio.to_thread(lambda: self._runtime.sessions.setting(_draft_key(session.id)))
        if draft and not chat.composer.draft:
            chat.composer.draft = draft
        self._draw_status()

    async def action_quit(self) -> None:
        """Leave; the session is valid whatever it was doing."""
        await self.host.close()
        self.exit()

    # What the session says

    def _take_update(self, update: Update) -> None:
        self.post_message(SessionUpdated(update))

    @on(SessionUpdated)
    async def show_update(self, event: SessionUpdated) -> None:
        """Pass an update on to the panes that show it."""
        match event.update:
            case ProposalsChanged():
                await self._show_proposals()
            case ConfirmationRequested(key=key, confirmation=confirmation):
                self.workbench.review.add_confirmation(key, confirmation)
            case ConfirmationResolved(key=key):
                self.workbench.review.remove_confirmation(key)
            case Failed(message=message):
                self.tell(message, problem=True)
            case update:
                self.workbench.apply(update)
        match event.update:
            case GateChanged() | PhaseChanged() | ProposalsChanged():
                self._draw_status()
            case Recorded(event=TurnEnded()):
                self._call_back()

    async def _show_proposals(self) -> None:
        proposals = await self.host.proposals()
        waiting = [one for one in proposals if one.state.waiting]
        decided = [one for one in proposals if not one.state.waiting]
        self.workbench.review.set_proposals([*decided[-_RECENT:], *waiting])
        self.workbench.tabs.waiting = len(waiting)
        self._draw_status()

    def _call_back(self) -> None:
        """Control is with the user: call for attention if the terminal is elsewhere."""
        if not self.app_focus and self._settings.notify != "off":
            self.bell()

    def _draw_status(self) -> None:
        bar, session = self.workbench.status, self.host.session
        waiting = self.workbench.tabs.waiting
        here = branch(self._runtime.workspace.root)
        if session is None:
            bar.status = Status(model=self._settings.model, demo=self._demo, waiting=waiting, branch=here)
            return
        policy = session.gate.policy
        chain = f"chain {len(session.gate.staged)}/{policy.staging_steps}"
        bar.status = Status(
            model=self.host.settings.model,
            demo=self._demo,
            gate_closed=session.gate.closed,
            policy=chain if policy.kind == "chain" else "every-edit",
            waiting=waiting,
            context_tokens=session.context.used if session.log.events else 0,
            context_window=session.ports.model.profile.context_window or 0,
            session_tokens=session.spent.tokens,
            cost=session.spent.cost,
            branch=here,
            denials=session.pending.denials_in_row,
        )

    # What the user says

    @on(Composer.Submitted)
    def send(self, event: Composer.Submitted) -> None:
        """A message to the model; it goes back into the composer if it cannot be kept."""
        self.work(self._send(event.text))

    async def _send(self, text: str) -> None:
        if self.host.session is None:
            # Said before there is a model: it is the first thing that the model hears.
            self._unsent.append(text)
            await self._connect()
            return
        try:
            await self.host.session.send(text)
        except StorageError:
            self.workbench.chat.composer.draft = text
            raise

    @on(ChatPane.QuestionAnswered)
    def answer(self, event: ChatPane.QuestionAnswered) -> None:
        """The answer to the model's question."""
        if (session := self.host.session) is not None:
            self.work(session.answer(event.text, event.call))

    @on(ChatPane.ProposalOpened)
    def open_proposal(self, event: ChatPane.ProposalOpened) -> None:
        """Show a proposal in the review."""
        self.workbench.review.show_item(event.proposal_id)
        self.workbench.show_pane("diff")

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
        if (session := self.host.session) is not None:
            keep = asyncio.to_thread(self._runtime.sessions.set_setting, _draft_key(session.id), event.text or None)
            self.work(keep, group="draft", exclusive=True)

    # What the user decides

    @on(review.DiffsWanted)
    def load_diffs(self, event: review.DiffsWanted) -> None:
        """Compute a proposal's diffs off the event loop."""

        async def load() -> None:
            diffs = await asyncio.to_thread(self._runtime.desk.diffs, event.proposal_id)
            self.workbench.review.set_diffs(event.proposal_id, diffs)

        self.work(load(), group="diffs", exclusive=True)

    @on(review.Approve)
    def approve(self, event: review.Approve) -> None:
        """Write a proposal, or some hunks of it."""

        async def decide() -> None:
            result = await self._session().approve(event.proposal_id, event.hunks, event.revision)
            self._report_written(result.proposal, [file.path for file in result.files])

        self.work(decide())

    @on(review.ApproveAll)
    def approve_all(self, event: review.ApproveAll) -> None:
        """Write several proposals, the oldest first; the first that cannot be written stops it."""

        async def decide() -> None:
            for proposal_id, revision, hunks in zip(event.ids, event.revisions, event.hunks, strict=True):
                result = await self._session().approve(proposal_id, hunks, revision)
                self._report_written(result.proposal, [file.path for file in result.files])

        self.work(decide())

    @on(review.Deny)
    def deny(self, event: review.Deny) -> None:
        """Discard a proposal; with feedback the model goes on at once."""

        async def decide() -> None:
            await self._session().deny(event.proposal_id, event.hunks, event.feedback, event.comments)
            said = " Your words are on their way to the model." if event.feedback or event.comments else ""
            self.workbench.review.outcome(f"{event.proposal_id} denied; nothing was written.{said}")

        self.work(decide())

    @on(review.DenyAll)
    def deny_all(self, event: review.DenyAll) -> None:
        """Discard several proposals."""

        async def decide() -> None:
            for proposal_id in event.ids:
                await self._session().deny(proposal_id)
            self.workbench.review.outcome(f"{len(event.ids)} proposals denied; nothing was written.")

        self.work(decide())

    @on(review.Undo)
    def undo(self, event: review.Undo) -> None:
        """Take an applied proposal back."""

        async def decide() -> None:
            result = await self._session().undo(event.proposal_id)
            names = ", ".join(file.path for file in result.files)
            self.workbench.review.outcome(f"{event.proposal_id} undone: {names}. U applies it again.")

        self.work(decide())

    @on(review.Redo)
    def redo(self, event: review.Redo) -> None:
        """Apply an undone proposal again."""

        async def decide() -> None:
            result = await self._session().redo(event.proposal_id)
            self._report_written(result.proposal, [file.path for file in result.files])

        self.work(decide())

    @on(review.Confirmed)
    def confirm(self, event: review.Confirmed) -> None:
        """The answer to a tool that asked."""
        if (session := self.host.session) is not None:
            session.confirm(event.key, event.answer)

    def _report_written(self, proposal: Proposal, paths: list[str]) -> None:
        rest = " Other hunks still wait." if proposal.state is ProposalState.PARTLY_APPROVED else ""
        self.workbench.review.outcome(f"{proposal.id} written: {', '.join(paths)}.{rest} u undoes it.")

    # Actions

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
        if (session := self.host.session) is None or not session.busy:
            return
        queued = session.interrupt()
        if queued:
            composer = self.workbench.chat.composer
            composer.draft = "\n\n".join((*queued, *((composer.draft,) if composer.draft else ())))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action of the registry that works everywhere."""
        for action in in_scope("app"):
            if action.id != "app.palette":
                yield SystemCommand(
                    action.title, action.help, lambda name=action.handler: self.work(self.run_action(name))
                )

    # Work

    def work(self, coroutine: Coroutine[Any, Any, Any], *, group: str = "work", exclusive: bool = False) -> None:
        """Do something beside the message loop; what the user can cause is told in one line."""

        async def guarded() -> None:
            try:
                await coroutine
            except (ProposalError, StorageError, NotConnected) as error:
                self.workbench.review.outcome(str(error), problem=True)
                self.tell(str(error), problem=True)

        self.run_worker(guarded(), group=group, exclusive=exclusive, exit_on_error=True, description=group)

    def tell(self, text: str, *, problem: bool = False) -> None:
        """A line for the user that belongs to no pane."""
        self.notify(text, severity="warning" if problem else "information", markup=False)

    def _session(self) -> Session:
        if self.host.session is None:
            raise NotConnected("No session is open yet: connect a model first.")
        return self.host.session


def _draft_key(session_id: str) -> str:
    return f"draft:{session_id}"
