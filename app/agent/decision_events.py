"""From what the proposal service did to the events that record it, and the sessions that they belong to."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.conversation.events import Decision, Event, Notice, ProposalChanged, ProposalDecided
from app.images.image import Image
from app.proposals.errors import NotRecorded
from app.proposals.facts import LineComment
from app.proposals.models import Proposal, ProposalState
from app.proposals.origin import OriginKind
from app.proposals.reports import DecisionResult
from app.proposals.states import words

if TYPE_CHECKING:
    # A command that decides needs none of what a session works with.
    from app.agent.ports import OtherSession


def approval(
    result: DecisionResult,
    *,
    feedback: str = "",
    comments: tuple[LineComment, ...] = (),
    images: tuple[Image, ...] = (),
) -> ProposalDecided:
    """The event of an approval: it is in part if something still waits, however it was asked for."""
    decision = Decision.PARTLY_APPROVED if result.proposal.state.waiting else Decision.APPROVED
    return decided(result, decision, feedback=feedback, comments=comments, images=images)


def undone(result: DecisionResult) -> ProposalDecided:
    """The event of an undo."""
    return decided(result, Decision.REOPENED if result.denial else Decision.UNDONE)


def redone(result: DecisionResult) -> ProposalDecided:
    """The event of a redo."""
    return decided(result, Decision.DENIED if result.denial else Decision.REDONE)


def edited(proposal: Proposal, path: str) -> ProposalDecided:
    """The event of the user's change to what is proposed for a file."""
    files = tuple(change.stat for change in proposal.files if change.path == path)
    return ProposalDecided(
        proposal=proposal.id, decision=Decision.EDITED, files=files, still_pending=True, origin=proposal.origin
    )


def decided(
    result: DecisionResult,
    decision: Decision,
    *,
    feedback: str = "",
    comments: tuple[LineComment, ...] = (),
    images: tuple[Image, ...] = (),
) -> ProposalDecided:
    """The event of any decision."""
    return ProposalDecided(
        proposal=result.proposal.id,
        decision=decision,
        files=result.files,
        hunks=result.hunks,
        feedback=feedback,
        comments=comments,
        images=images,
        still_pending=result.proposal.state.waiting,
        denied_in_part=result.proposal.denied_in_part,
        stale=result.proposal.last.stale if result.proposal.last else "",
        number=result.proposal.last.number if result.proposal.last else 0,
        origin=result.proposal.origin,
        on_disk=result.proposal.on_disk,
    )


def not_recorded(result: DecisionResult, error: Exception) -> NotRecorded:
    """What to tell the user when a decision was carried out and the event of it could not be written."""
    proposal = result.proposal
    files = {
        ProposalState.APPLIED: ", all its files are written",
        ProposalState.PARTLY_APPROVED: ", what you approved of it is written",
        ProposalState.UNDONE: ", its files are taken back",
    }.get(proposal.state, "")
    if proposal.on_disk:
        files = ", its text is off the disk" if proposal.state is ProposalState.DENIED else ""
    why = str(error).rstrip(".") or type(error).__name__
    return NotRecorded(
        f"{proposal.id} is {words(proposal.state)}{files}; this could not be recorded ({why}). "
        "Don't repeat it: signoff records it as soon as that works."
    )


def speaks(event: ProposalDecided) -> bool:
    """Whether the decision has words for the model."""
    return bool(event.feedback.strip() or event.comments)


def owner_of(proposal: Proposal, here: str = "") -> str:
    """The session that a proposal belongs to.

    It is empty for what another agent proposed, which is told by its own door: the decision is no business of our
    model. It is `here` for what else comes from no session.
    """
    return proposal.session or ("" if proposal.origin.kind is OriginKind.AGENT else here)


def changes(changed: Iterable[Proposal], here: str = "") -> dict[str, list[Event]]:
    """What a decision or the disk did to other proposals, by the session that it is to be recorded in."""
    by_owner: dict[str, list[Event]] = {}
    for one in changed:
        event = ProposalChanged(proposal=one.id, state=one.state, reason=one.reason)
        by_owner.setdefault(owner_of(one, here), []).append(event)
    return by_owner


def told_elsewhere(event: ProposalDecided, other: "OtherSession") -> Notice:
    """Where a decision on another session's or another agent's proposal went, for the user who made it here."""
    if event.origin is not None and event.origin.kind is OriginKind.AGENT:
        hears = "reads your words" if speaks(event) else "is told"
        who = event.origin.words
        return Notice(
            text=f"{event.proposal} is from {who}: it {hears} at once if it waits, or with its next prompt."
        )
    name = f"the session \u201c{other.title}\u201d" if other.title else "another session"
    if not speaks(event):
        told = "its model is told there"
    elif other.is_open:
        told = "its model reads your words there"
    else:
        told = "its model reads your words there once you resume it"
    return Notice(text=f"{event.proposal} belongs to {name}: {told}.")
