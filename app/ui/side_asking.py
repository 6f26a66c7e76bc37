"""Carries out what the user asks aside in the review: sends it, stops it, and brings what was asked before."""

import asyncio
from typing import TYPE_CHECKING

from app.agent.updates import Recorded, SideDiscarded, SideStreamed, Update
from app.conversation.side_events import SideAnswer, SideQuestion
from app.ui.means import Tell
from app.ui.session import CurrentSession
from widgets.approval import messages
from widgets.approval.review import Review
from widgets.chat.markdown import preload

if TYPE_CHECKING:
    from app.runtime.workspace import Runtime


class SideAsking:
    """The effects behind the questions of a review."""

    def __init__(self, review: Review, session: CurrentSession, runtime: "Runtime", tell: Tell) -> None:
        """Nothing was asked.

        Args:
            review: where the user asks.
            session: whose model is asked.
            runtime: the open workspace.
            tell: shows a line that belongs to no pane.
        """
        self._review = review
        self._session = session
        self._runtime = runtime
        self.tell = tell

    async def ask(self, event: messages.AskAside) -> None:
        """Ask; what comes of it comes as updates of the session.

        Whatever stands in the way is raised, and the words are back where they were written.
        """
        try:
            await self._session.opened()
            await self._session.get().aside.ask(event.place, event.text, event.picked)
            await asyncio.to_thread(preload)
        except BaseException:
            self._review.asking.give_back(event.place, event.text)
            raise

    def stop(self, event: messages.StopAside) -> None:
        """Wait for an answer no longer; the turn that runs goes on.

        One that another window asked for is that window's: here nobody waits for it any more.
        """
        session = self._session.now
        if session is None or not session.aside.stop(event.question):
            self._review.take_aside(SideDiscarded(event.question, over=True))

    def follow(self, update: Update) -> None:
        """Show what the session says of a question."""
        match update:
            case SideStreamed() | SideDiscarded() | Recorded(event=SideQuestion() | SideAnswer()):
                self._review.take_aside(update)

    async def load(self, event: messages.ThreadsWanted) -> None:
        """Bring what was asked about a proposal, in whichever session; raises StorageError."""
        asked = await asyncio.to_thread(self._runtime.sessions.side_questions, event.proposal_id)
        if asked:
            self._review.load_threads(asked)
