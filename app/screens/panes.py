"""The panes over an open workspace, and the routing of what they say: each message goes to the one who acts on it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Horizontal

from app.agent.updates import ConfirmationRequested, ConfirmationResolved, Failed, ProposalsChanged, Update
from app.decisions import Decided
from app.slash_commands import COMMANDS
from widgets.approval import messages as wishes
from widgets.approval.review import Review
from widgets.chat.pane import ChatPane

if TYPE_CHECKING:
    from app.config import Settings
    from app.main import SignoffApp
    from app.proposals.models import Proposal


class Panes(Horizontal):
    """Chat at the left; diff over approvals at the right."""

    DEFAULT_CSS = """
    Panes {
        height: 1fr;
        ChatPane { width: 1fr; }
        Review { width: 1fr; border-left: vkey $panel; }
    }
    """

    chat = getters.query_one(ChatPane)
    review = getters.query_one(Review)

    def __init__(self, app: "SignoffApp") -> None:
        """The app that acts on what the panes say."""
        super().__init__()
        self._owner = app
        self._look: tuple[str, bool, bool, dict[str, str]] = ("auto", False, True, {})
        """Of the settings, those that the panes follow already."""

    def compose(self) -> ComposeResult:
        """Left and right."""
        workspace = self._owner.runtime.workspace
        yield ChatPane(lambda: list(workspace.files()), [(name, action.help) for name, action in COMMANDS.items()])
        yield Review()

    # What the session says

    async def show(self, update: Update) -> None:
        """Show an update of the session."""
        match update:
            case ProposalsChanged():
                await self._owner.show_proposals()
            case ConfirmationRequested(key=key, confirmation=confirmation):
                self.review.add_confirmation(key, confirmation)
            case ConfirmationResolved(key=key):
                self.review.remove_confirmation(key)
            case Failed(message=message):
                self._owner.tell(message, problem=True)
            case _:
                self.chat.apply(update)

    def show_proposals(self, proposals: Sequence["Proposal"]) -> int:
        """Show what waits and what was decided; returns how many wait."""
        self.review.set_proposals(proposals)
        return sum(one.state.waiting for one in proposals)

    def apply_settings(self, settings: "Settings") -> None:
        """Follow the settings, and leave alone what the user turned by key."""
        look = (settings.layout, settings.wrap, settings.show_interventions, settings.keys)
        before, self._look = self._look, look
        if look[0] != before[0]:
            self.review.view.set_split({"auto": None, "unified": False, "split": True}[settings.layout])
        if look[1] != before[1]:
            self.review.view.set_wrap(settings.wrap)
        if look[2] != before[2]:
            self.chat.transcript.action_toggle_interventions()
        if look[3] != before[3]:
            self.review.set_keys(settings.keys)

    # What the user says

    @on(ChatPane.QuestionAnswered)
    def answer(self, event: ChatPane.QuestionAnswered) -> None:
        """The answer to the model's question."""

        async def answer() -> None:
            await self._owner.opened()
            await self._owner.session().answer(event.text, event.call)

        self._owner.work(answer())

    @on(ChatPane.ProposalOpened)
    def open_proposal(self, event: ChatPane.ProposalOpened) -> None:
        """Show a proposal in the review, however old it is."""

        async def show() -> None:
            await self._owner.opened()
            await self._owner.host.bring_up(event.proposal_id)
            await self._owner.show_proposals()
            self.review.show_item(event.proposal_id)
            self._owner.workbench.show_pane("diff")

        self._owner.work(show())

    @on(ChatPane.LinkOpened)
    def open_link(self, event: ChatPane.LinkOpened) -> None:
        """Open a web address that the user clicked; nothing else is ever opened."""
        if event.href.startswith(("https://", "http://")):
            self._owner.open_url(event.href)
        else:
            self._owner.tell(f"Not opened, since it is no web address: {event.href}", problem=True)

    # What the user decides

    @on(wishes.DiffsWanted)
    def load_diffs(self, event: wishes.DiffsWanted) -> None:
        """A diff is wanted."""
        self._owner.work(self._owner.decisions.load_diffs(event), group="diffs", exclusive=True)

    @on(wishes.VersionsWanted)
    def load_versions(self, event: wishes.VersionsWanted) -> None:
        """The diff between two versions is wanted."""
        self._owner.work(self._owner.decisions.load_versions(event), group="versions", exclusive=True)

    @on(wishes.Approve)
    @on(wishes.ApproveAll)
    @on(wishes.Deny)
    @on(wishes.DenyAll)
    @on(wishes.Undo)
    @on(wishes.Redo)
    def decide(self, event: Decided) -> None:
        """Carry out a decision."""
        self._owner.work(self._owner.decisions.carry_out(event))

    @on(wishes.Edit)
    def edit(self, event: wishes.Edit) -> None:
        """Change the proposed text."""
        self._owner.work(self._owner.decisions.edit(event), group="edit", exclusive=True)

    @on(wishes.Confirmed)
    def confirm(self, event: wishes.Confirmed) -> None:
        """The answer to a tool that asked."""
        self._owner.session().confirm(event.key, event.answer)

    @on(wishes.FullScreen)
    def give_screen(self, event: wishes.FullScreen) -> None:
        """The review takes the whole screen, or gives it back."""
        self._owner.workbench.set_full_screen(event.on)
