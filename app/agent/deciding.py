"""From what the desk did to the event that records it."""

from app.conversation.events import Decision, LineComment, ProposalDecided
from app.proposals.desk import DecisionResult
from app.proposals.errors import NotRecorded
from app.proposals.models import ProposalState
from app.proposals.states import words


def approval(
    result: DecisionResult, *, partial: bool, feedback: str = "", comments: tuple[LineComment, ...] = ()
) -> ProposalDecided:
    """The event of an approval; `partial` if only some hunks were chosen."""
    decision = Decision.PARTLY_APPROVED if partial or result.proposal.state.waiting else Decision.APPROVED
    return decided(result, decision, feedback=feedback, comments=comments)


def undone(result: DecisionResult) -> ProposalDecided:
    """The event of an undo."""
    return decided(result, Decision.REOPENED if result.denial else Decision.UNDONE)


def redone(result: DecisionResult) -> ProposalDecided:
    """The event of a redo."""
    return decided(result, Decision.DENIED if result.denial else Decision.REDONE)


def decided(
    result: DecisionResult,
    decision: Decision,
    *,
    feedback: str = "",
    comments: tuple[LineComment, ...] = (),
) -> ProposalDecided:
    """The event of any decision."""
    return ProposalDecided(
        proposal=result.proposal.id,
        decision=decision,
        files=result.files,
        hunks=result.hunks,
        feedback=feedback,
        comments=comments,
        still_pending=result.proposal.state.waiting,
    )


def not_recorded(result: DecisionResult, error: Exception) -> NotRecorded:
    """What to tell the user when a decision was carried out and the event of it could not be written."""
    proposal = result.proposal
    files = {
        ProposalState.APPLIED: ", all its files are written",
        ProposalState.PARTLY_APPROVED: ", what you approved of it is written",
        ProposalState.UNDONE: ", its files are taken back",
    }.get(proposal.state, "")
    why = str(error).rstrip(".") or type(error).__name__
    return NotRecorded(
        f"{proposal.id} is {words(proposal.state)}{files}; this could not be recorded ({why}). "
        "Don't repeat it: signoff records it at its next start."
    )
