"""The left side of the workbench: the chat, and the routing of what it says."""

from functools import partial
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical

from app.ui.screens.welcome import welcome
from widgets.chat.composer import Composer
from widgets.chat.pane import ChatPane

if TYPE_CHECKING:
    from app.config import Settings
    from app.ui.app import SignoffApp


class ChatSide(Vertical):
    """Holds the chat over an open workspace; what the chat says goes to the one who acts on it."""

    pane = getters.query_one(ChatPane)

    def __init__(self, app: "SignoffApp", composer: Composer) -> None:
        """The app that acts on what the chat says, and the composer that belongs to it."""
        super().__init__()
        self._owner = app
        self._composer = composer
        self._interventions = True
        """Whether the chat shows them, as far as the settings say."""

    def compose(self) -> ComposeResult:
        """The chat alone."""
        workspace = self._owner.runtime.workspace
        self._composer.set_files(lambda: list(workspace.files()))
        yield ChatPane(self._composer)

    def apply_settings(self, settings: "Settings") -> None:
        """Follow the settings, and leave alone what the user turned by key."""
        folder = self._owner.runtime.workspace.root.name
        self.pane.transcript.greet(welcome(folder, settings.keys, demo=self._owner.demo))
        if settings.show_interventions != self._interventions:
            self._interventions = settings.show_interventions
            self.pane.transcript.action_toggle_interventions()

    @on(ChatPane.QuestionAnswered)
    def answer(self, event: ChatPane.QuestionAnswered) -> None:
        """The answer to the model's question."""
        self._owner.work(partial(self._answer, event))

    async def _answer(self, event: ChatPane.QuestionAnswered) -> None:
        await self._owner.opened()
        await self._owner.session().answer(event.text, event.call)

    @on(ChatPane.ProposalOpened)
    def open_proposal(self, event: ChatPane.ProposalOpened) -> None:
        """Show a proposal in the review, however old it is."""
        self._owner.work(partial(self._open_proposal, event.proposal_id))

    async def _open_proposal(self, proposal_id: str) -> None:
        await self._owner.opened()
        await self._owner.host.bring_up(proposal_id)
        await self._owner.show_proposals()
        self._owner.workbench.review.show_item(proposal_id)
        self._owner.workbench.show_pane("diff")

    @on(ChatPane.TurnOver)
    def mark_tab(self) -> None:
        """What the model has said must not stay unseen behind another tab."""
        self._owner.workbench.tabs.note_words()

    @on(ChatPane.LinkOpened)
    def open_link(self, event: ChatPane.LinkOpened) -> None:
        """Open a web address that the user clicked; nothing else is ever opened."""
        if event.href.startswith(("https://", "http://")):
            self._owner.open_url(event.href)
        else:
            self._owner.tell(f"Not opened, since it is no web address: {event.href}", problem=True)
