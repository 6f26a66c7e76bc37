"""From what the desk did to the event that records it."""

from app.conversation.events import Decision, LineComment, ProposalDecided
from app.proposals.desk import DecisionResult


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
