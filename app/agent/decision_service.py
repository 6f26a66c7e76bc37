"""Decisions of the user on proposals: carry them out, record them, and commit if configured."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from app.conversation.events import DecisionKind, Event, ProposalChanged, ProposalDecided, UserNotice
from app.images.image import Image
from app.proposals.proposal_service import ProposalService
from app.proposals.values.decision_facts import UNKNOWN_CONTEXT, DecisionContext, LineComment
from app.proposals.values.models import DecisionResult, FileVersion, Proposal, ProposalState, describe_state
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_errors import DecisionMadeButNotRecorded, ProposalError

if TYPE_CHECKING:
    from app.agent.ports import OtherSession
    from app.proposals.decide.conflicts import ConflictChoice


def approval_event(
    result: DecisionResult,
    *,
    feedback: str = "",
    comments: tuple[LineComment, ...] = (),
    images: tuple[Image, ...] = (),
) -> ProposalDecided:
    """Return the event of an approval; PARTLY_APPROVED if the proposal has pending changes left."""
    decision = DecisionKind.PARTLY_APPROVED if result.proposal.state.is_pending else DecisionKind.APPROVED
    return decision_event(result, decision, feedback=feedback, comments=comments, images=images)


def undo_event(result: DecisionResult) -> ProposalDecided:
    """Return the event that records the undo of an approval or of a denial."""
    return decision_event(result, DecisionKind.REOPENED if result.denial else DecisionKind.UNDONE)


def redo_event(result: DecisionResult) -> ProposalDecided:
    """Return the event that records the redo of an undone approval or denial."""
    return decision_event(result, DecisionKind.DENIED if result.denial else DecisionKind.REDONE)


def edit_event(proposal: Proposal, path: str) -> ProposalDecided:
    """Return the event that records the user's edit of the proposed text of a file."""
    files = tuple(change.stat for change in proposal.files if change.path == path)
    return ProposalDecided(
        proposal=proposal.id, decision=DecisionKind.EDITED, files=files, still_pending=True, origin=proposal.origin
    )


def decision_event(
    result: DecisionResult,
    decision: DecisionKind,
    *,
    feedback: str = "",
    comments: tuple[LineComment, ...] = (),
    images: tuple[Image, ...] = (),
) -> ProposalDecided:
    """Return the event that records a decision."""
    return ProposalDecided(
        proposal=result.proposal.id,
        decision=decision,
        files=result.files,
        hunks=result.hunks,
        feedback=feedback,
        comments=comments,
        images=images,
        still_pending=result.proposal.state.is_pending,
        denied_in_part=result.proposal.is_denied_in_part,
        stale=result.proposal.last.stale if result.proposal.last else "",
        number=result.proposal.last.number if result.proposal.last else 0,
        origin=result.proposal.origin,
        on_disk=result.proposal.on_disk,
    )


def unrecorded_decision_error(result: DecisionResult, error: Exception) -> DecisionMadeButNotRecorded:
    """Return the error for a decision that was carried out but could not be recorded."""
    proposal = result.proposal
    files = {
        ProposalState.APPLIED: ", all its files are written",
        ProposalState.PARTLY_APPROVED: ", what you approved of it is written",
        ProposalState.UNDONE: ", its files are taken back",
    }.get(proposal.state, "")
    if proposal.on_disk:
        files = ", its changes are reverted on disk" if proposal.state is ProposalState.DENIED else ""
    why = str(error).rstrip(".") or type(error).__name__
    return DecisionMadeButNotRecorded(
        f"{proposal.id} is {describe_state(proposal.state)}{files}; this could not be recorded ({why}). "
        "Don't repeat it: signoff records it as soon as that works."
    )


def has_feedback(event: ProposalDecided) -> bool:
    """Return whether the user gave the model feedback or comments with the decision."""
    return bool(event.feedback.strip() or event.comments)


def session_id_of_proposal(proposal: Proposal, current_session: str = "") -> str:
    """Return the id of the session to which a proposal belongs.

    If the proposal has no session: empty for a proposal of another agent (its door delivers decisions to it, not
    signoff's model), else `current_session`.
    """
    return proposal.session or ("" if proposal.origin.kind is OriginKind.AGENT else current_session)


def changed_proposal_events_by_session(
    changed: Iterable[Proposal], current_session: str = ""
) -> dict[str, list[Event]]:
    """Return events for the states of other proposals that a decision or the disk changed, by session."""
    events_by_session: dict[str, list[Event]] = {}
    for proposal in changed:
        event = ProposalChanged(proposal=proposal.id, state=proposal.state, reason=proposal.reason)
        events_by_session.setdefault(session_id_of_proposal(proposal, current_session), []).append(event)
    return events_by_session


def delivery_notice(event: ProposalDecided, other: "OtherSession") -> UserNotice:
    """Return a notice that says where a decision on a proposal of another session or agent was delivered."""
    if event.origin is not None and event.origin.kind is OriginKind.AGENT:
        delivery = "reads your words" if has_feedback(event) else "is told"
        agent = event.origin.description
        return UserNotice(
            text=f"{event.proposal} is from {agent}: it {delivery} at once if it waits, or with its next prompt."
        )
    name = f"the session \u201c{other.title}\u201d" if other.title else "another session"
    if not has_feedback(event):
        delivery_text = "its model is told there"
    elif other.is_open:
        delivery_text = "its model reads your words there"
    else:
        delivery_text = "its model reads your words there once you resume it"
    return UserNotice(text=f"{event.proposal} belongs to {name}: {delivery_text}.")


class DecisionService(ABC):
    """Carries out and records the user's decisions on proposals.

    Each method raises `ProposalError` if it fails, and then nothing has changed. Exception: after
    `DecisionMadeButNotRecorded` the decision stays in effect, but could not be recorded.
    """

    @property
    @abstractmethod
    def proposal_service(self) -> ProposalService:
        """Return the proposal service."""

    @property
    @abstractmethod
    def commit_function(self) -> Callable[[Proposal], str] | None:
        """Return the function that commits an approved proposal and returns the commit id; None if not configured."""

    @abstractmethod
    async def _record_decision(self, result: DecisionResult, event: ProposalDecided) -> None:
        """Record a decision that was carried out; raises DecisionMadeButNotRecorded."""

    @abstractmethod
    async def _notify_commit(self, text: str, *, failed: bool) -> None:
        """Show the user the result of a commit."""

    async def approve(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        revision: int | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        circumstances: DecisionContext = UNKNOWN_CONTEXT,
        images: tuple[Image, ...] = (),
    ) -> DecisionResult:
        """Write a proposal, or some hunks of it, to disk. Feedback or comments start a turn of the model."""
        result = await asyncio.to_thread(
            self.proposal_service.approve, proposal_id, hunks, revision, feedback, comments, circumstances, images
        )
        try:
            event = approval_event(result, feedback=feedback, comments=tuple(comments), images=images)
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
        circumstances: DecisionContext = UNKNOWN_CONTEXT,
        images: tuple[Image, ...] = (),
    ) -> DecisionResult:
        """Discard a proposal, or some hunks of it. Feedback or comments start a turn of the model."""
        result = await asyncio.to_thread(
            self.proposal_service.deny, proposal_id, hunks, feedback, comments, circumstances, revision, images
        )
        event = decision_event(
            result, DecisionKind.DENIED, feedback=feedback, comments=tuple(comments), images=images
        )
        await self._record_decision(result, event)
        return result

    async def undo(self, proposal_id: str) -> DecisionResult:
        """Undo an applied proposal, or reopen a denied one."""
        result = await asyncio.to_thread(self.proposal_service.undo, proposal_id)
        await self._record_decision(result, undo_event(result))
        return result

    async def redo(self, proposal_id: str) -> DecisionResult:
        """Apply an undone proposal again, or deny again one whose denial was undone."""
        result = await asyncio.to_thread(self.proposal_service.redo, proposal_id)
        await self._record_decision(result, redo_event(result))
        return result

    async def edit_proposal(self, proposal_id: str, path: str, text: str, revision: int | None = None) -> Proposal:
        """Replace the proposed text of a file by the user's text; a system message informs the model."""
        proposal = await asyncio.to_thread(
            self.proposal_service.replace_proposed_text, proposal_id, path, text, revision
        )
        await self._record_decision(DecisionResult(proposal), edit_event(proposal, path))
        return proposal

    async def resolve_conflict(
        self, proposal_id: str, path: str, answer: "str | ConflictChoice", seen: FileVersion | None
    ) -> Proposal:
        """Write the user's resolution of a conflict into a stale proposal; a system message informs the model."""
        proposal = await asyncio.to_thread(self.proposal_service.resolve_conflict, proposal_id, path, answer, seen)
        await self._record_decision(DecisionResult(proposal), edit_event(proposal, path))
        return proposal

    async def _commit(self, proposal: Proposal) -> None:
        if (commit := self.commit_function) is None or not proposal.can_be_committed:
            return
        try:
            name = await asyncio.to_thread(commit, proposal)
        except ProposalError as error:
            await self._notify_commit(str(error), failed=True)
        else:
            await self._notify_commit(f"{proposal.id} is committed as {name[:10]}.", failed=False)
