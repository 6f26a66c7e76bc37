"""What the user decides on proposals, with a session and without one: carried out, recorded, committed if so set."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from app.agent.decision_events import approval, decided, edited, redone, undone
from app.conversation.events import Decision, ProposalDecided
from app.images.image import Image
from app.proposals.errors import ProposalError
from app.proposals.facts import UNKNOWN, Circumstances, LineComment
from app.proposals.models import FileVersion, Proposal
from app.proposals.reports import DecisionResult
from app.proposals.service import ProposalService

if TYPE_CHECKING:
    from app.proposals.conflicts import ConflictSide


class Decisions(ABC):
    """Each raises `ProposalError` where it cannot be done, and nothing has changed then.

    Each but that raises `NotRecorded` where it is carried out and stands, but has no record.
    """

    @property
    @abstractmethod
    def service(self) -> ProposalService:
        """What carries them out."""

    @property
    @abstractmethod
    def committer(self) -> Callable[[Proposal], str] | None:
        """Makes a git commit of an approved proposal and returns its id; None if the user has not asked for that."""

    @abstractmethod
    async def _record_decision(self, result: DecisionResult, event: ProposalDecided) -> None:
        """Record what was carried out; raises NotRecorded."""

    @abstractmethod
    async def _tell_commit(self, text: str, *, failed: bool) -> None:
        """Say what became of a commit."""

    async def approve(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        revision: int | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        circumstances: Circumstances = UNKNOWN,
        images: tuple[Image, ...] = (),
    ) -> DecisionResult:
        """Write a proposal, or some hunks of it, to disk. With words of the user the model goes on at once."""
        result = await asyncio.to_thread(
            self.service.approve, proposal_id, hunks, revision, feedback, comments, circumstances, images
        )
        try:
            event = approval(result, feedback=feedback, comments=tuple(comments), images=images)
            await self._record_decision(result, event)
        finally:
            await self._commit(result.proposal)
        return result

    async def deny(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        revision: int | None = None,
        circumstances: Circumstances = UNKNOWN,
        images: tuple[Image, ...] = (),
    ) -> DecisionResult:
        """Discard a proposal, or some hunks. With feedback the model goes on at once, with the user's words."""
        result = await asyncio.to_thread(
            self.service.deny, proposal_id, hunks, feedback, comments, circumstances, revision, images
        )
        event = decided(result, Decision.DENIED, feedback=feedback, comments=tuple(comments), images=images)
        await self._record_decision(result, event)
        return result

    async def undo(self, proposal_id: str) -> DecisionResult:
        """Undo an applied proposal, or have a denied one wait again."""
        result = await asyncio.to_thread(self.service.undo, proposal_id)
        await self._record_decision(result, undone(result))
        return result

    async def redo(self, proposal_id: str) -> DecisionResult:
        """Apply an undone proposal again, or deny again one whose denial was undone."""
        result = await asyncio.to_thread(self.service.redo, proposal_id)
        await self._record_decision(result, redone(result))
        return result

    async def edit_proposal(self, proposal_id: str, path: str, text: str, revision: int | None = None) -> Proposal:
        """Replace the proposed text of a file by the user's; the model is told as a fact."""
        proposal = await asyncio.to_thread(self.service.replace_result, proposal_id, path, text, revision)
        await self._record_decision(DecisionResult(proposal), edited(proposal, path))
        return proposal

    async def resolve_conflict(
        self, proposal_id: str, path: str, answer: "str | ConflictSide", seen: FileVersion | None
    ) -> Proposal:
        """Put the user's answer to a conflict into a stale proposal; the model is told as a fact."""
        proposal = await asyncio.to_thread(self.service.resolve, proposal_id, path, answer, seen)
        await self._record_decision(DecisionResult(proposal), edited(proposal, path))
        return proposal

    async def _commit(self, proposal: Proposal) -> None:
        if (commit := self.committer) is None or not proposal.can_be_committed:
            return
        try:
            name = await asyncio.to_thread(commit, proposal)
        except ProposalError as error:
            await self._tell_commit(str(error), failed=True)
        else:
            await self._tell_commit(f"{proposal.id} is committed as {name[:10]}.", failed=False)
