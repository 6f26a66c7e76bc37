"""What the user decides where no session is open: without a model there is none, yet what others propose waits."""

import asyncio
from collections.abc import Callable, Collection, Sequence

from app.agent.decision_events import approval, decided, edited, not_recorded, redone, undone
from app.conversation.events import Decision, ProposalDecided
from app.proposals.errors import ProposalError
from app.proposals.facts import UNKNOWN, Circumstances, LineComment
from app.proposals.models import Proposal
from app.proposals.reports import DecisionResult
from app.runtime.recovery import record_decision
from app.runtime.workspace import Runtime


class SessionlessDecisions:
    """The decisions of `Session`, recorded for whoever proposed: an agent reads them, a session when it is resumed.

    Each raises `ProposalError` where it cannot be done, and `NotRecorded` where it stands but has no record.
    """

    def __init__(
        self,
        runtime: Runtime,
        commit: Callable[[], Callable[[Proposal], str] | None],
        changed: Callable[[tuple[str, ...]], None],
        tell: Callable[[str], None],
    ) -> None:
        """Nothing is decided yet.

        Args:
            runtime: The open workspace.
            commit: Gives what makes a git commit of an approved proposal, if the settings ask for that.
            changed: Takes the ids of proposals that are different now.
            tell: Takes a line for the user.
        """
        self._runtime = runtime
        self._commit = commit
        self._changed = changed
        self._tell = tell

    async def approve(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        revision: int | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        circumstances: Circumstances = UNKNOWN,
    ) -> DecisionResult:
        """Write a proposal, or some hunks of it, to disk."""
        service = self._runtime.service
        result = await asyncio.to_thread(
            service.approve, proposal_id, hunks, revision, feedback, comments, circumstances
        )
        try:
            await self._record(result, approval(result, feedback=feedback, comments=tuple(comments)))
        finally:
            if commit := self._commit():
                try:
                    await asyncio.to_thread(commit, result.proposal)
                except ProposalError as error:
                    self._tell(str(error))
        return result

    async def deny(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        revision: int | None = None,
        circumstances: Circumstances = UNKNOWN,
    ) -> DecisionResult:
        """Discard a proposal, or some hunks."""
        service = self._runtime.service
        result = await asyncio.to_thread(
            service.deny, proposal_id, hunks, feedback, comments, circumstances, revision
        )
        event = decided(result, Decision.DENIED, feedback=feedback, comments=tuple(comments))
        return await self._record(result, event)

    async def undo(self, proposal_id: str) -> DecisionResult:
        """Undo an applied proposal, or have a denied one wait again."""
        result = await asyncio.to_thread(self._runtime.service.undo, proposal_id)
        return await self._record(result, undone(result))

    async def redo(self, proposal_id: str) -> DecisionResult:
        """Apply an undone proposal again, or deny again one whose denial was undone."""
        result = await asyncio.to_thread(self._runtime.service.redo, proposal_id)
        return await self._record(result, redone(result))

    async def edit_proposal(self, proposal_id: str, path: str, text: str) -> Proposal:
        """Replace the proposed text of a file by the user's."""
        proposal = await asyncio.to_thread(self._runtime.service.replace_result, proposal_id, path, text)
        await self._record(DecisionResult(proposal), edited(proposal))
        return proposal

    async def _record(self, result: DecisionResult, event: ProposalDecided) -> DecisionResult:
        """Record what was carried out; raises NotRecorded."""
        try:
            await asyncio.to_thread(record_decision, self._runtime, event, result.changed)
        except Exception as error:
            raise not_recorded(result, error) from error
        finally:
            self._changed((result.proposal.id, *(other.id for other in result.changed)))
        return result
