"""Carry out the decisions of a review and describe their outcome; the same for every kind of review."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from app.proposals.values.decision_facts import DecisionCommandCaller, DecisionContext
from app.proposals.values.models import DecisionResult, ProposalState
from app.proposals.values.proposal_errors import RequiredCheckFailed
from app.review.review_state import ReviewQueueState
from app.review.unfinished_review import FeedbackWithComments
from app.text.quantities import format_count, join_first

if TYPE_CHECKING:
    from app.agent.decision_service import DecisionService
    from app.automation.check_scheduler import CheckScheduler
    from app.images.image import Image


class ReviewDecisionService:
    """Carries out the user's decisions with their feedback, and records what was seen and checked.

    Args:
        state: The review whose proposals are decided.
        service: Returns the service that carries out and records decisions.
        checks: Returns the scheduler of the proposals' checks; None if no checks are configured.
        through: Name of the user interface, for the record: `app`.
        caller: How a deciding command was called.
    """

    def __init__(
        self,
        state: ReviewQueueState,
        service: "Callable[[], DecisionService]",
        checks: "Callable[[], CheckScheduler | None]",
        through: str,
        caller: DecisionCommandCaller | None = None,
    ) -> None:
        self._state = state
        self._service = service
        self._checks = checks
        self._interface = through
        self._caller = caller

    async def run_required_checks(self, proposal_id: str, revision: int, hunks: Collection[str] | None) -> None:
        """Run the checks that are required before a write; raise RequiredCheckFailed if one prevents it."""
        scheduler = self._checks()
        if scheduler is None:
            return
        chosen = None if hunks is None else tuple(hunks)
        if failed := await scheduler.run_before_approval(proposal_id, revision, chosen):
            failures = ", ".join(f"{check.name}: {check.summary}" for check in failed)
            hint = (
                ""
                if any(check.has_new_failure for check in failed)
                else "; approve it again to write it all the same"
            )
            raise RequiredCheckFailed(f"{proposal_id} was not written ({failures}){hint}.")

    async def approve(
        self,
        proposal_id: str,
        revision: int,
        hunks: tuple[str, ...] | None,
        words: FeedbackWithComments,
        images: "tuple[Image, ...]" = (),
    ) -> DecisionResult:
        """Approve and write these hunks of the shown revision; None for all pending ones."""
        context = self._stop_checks_and_describe_review(proposal_id)
        feedback, comments = words.feedback, words.comments
        return await self._service().approve(proposal_id, hunks, revision, feedback, comments, context, images)

    async def deny(
        self,
        proposal_id: str,
        revision: int | None,
        hunks: tuple[str, ...] | None,
        words: FeedbackWithComments,
        images: "tuple[Image, ...]" = (),
    ) -> DecisionResult:
        """Deny these hunks; None for all pending ones. `revision` is checked if the denial writes to disk."""
        context = self._stop_checks_and_describe_review(proposal_id)
        feedback, comments = words.feedback, words.comments
        return await self._service().deny(proposal_id, hunks, feedback, comments, revision, context, images)

    def _stop_checks_and_describe_review(self, proposal_id: str) -> DecisionContext:
        """Stop the checks of the proposal; return the seen lines and check results for the record."""
        if (scheduler := self._checks()) is not None:
            scheduler.stop((proposal_id,))
        proposal, checked = self._state.get(proposal_id), self._state.checks.get(proposal_id)
        unseen = None if proposal is None else self._state.unseen_parts(proposal)
        evidence = self._state.evidence.get(proposal_id)
        is_current_evidence = evidence is not None and proposal is not None and evidence.revision == proposal.revision
        return DecisionContext(
            through=self._interface,
            unseen_lines=None if unseen is None else unseen.lines,
            unseen_files=() if unseen is None else unseen.paths,
            checks=() if checked is None else tuple(result.as_record for result in checked.results),
            caller=self._caller,
            evidence=evidence.as_record if evidence is not None and is_current_evidence else None,
        )


class DecisionAndUndoText(NamedTuple):
    """A message about what a decision did, and a phrase for what undo (or redo) would do next."""

    text: str
    """For example `P1 written: a.py.`"""
    reversal_effect: str = ""
    """What undo (after an undo: redo) does next, such as `undoes it`; empty if it does nothing."""


def describe_approval(result: DecisionResult) -> DecisionAndUndoText:
    """Return what an approval wrote or kept, and what its undo would do, as text for the user."""
    rest = " Other hunks still wait." if result.proposal.state is ProposalState.PARTLY_APPROVED else ""
    verb, undoes = ("kept", "has it wait again") if result.proposal.on_disk else ("written", "undoes it")
    return DecisionAndUndoText(f"{result.proposal.id} {verb}: {_describe_paths(result)}.{rest}", undoes)


def describe_denial(result: DecisionResult, hunks: Collection[str] | None) -> DecisionAndUndoText:
    """Return what a denial of these hunks, or of all pending ones, did, and what its undo would do."""
    proposal, name = result.proposal, result.proposal.id
    if proposal.on_disk:
        return DecisionAndUndoText(f"{name} reverted on disk: {_describe_paths(result)}.", "puts it back")
    if hunks:
        fact = "what was written stays" if proposal.is_written_in_part else "nothing was written"
        reversal_effect = "takes that back" if proposal.state is not ProposalState.APPLIED else ""
        return DecisionAndUndoText(f"{format_count(len(hunks), 'hunk')} of {name} denied; {fact}.", reversal_effect)
    if proposal.state is ProposalState.APPLIED:
        return DecisionAndUndoText(f"The rest of {name} denied; what was written stays.", "undoes that")
    return DecisionAndUndoText(f"{name} denied; nothing was written.", "reopens it")


def describe_completed_undo(result: DecisionResult) -> DecisionAndUndoText:
    """Return what an undo restored or took back, and what a redo would do, as text for the user."""
    proposal, name = result.proposal, result.proposal.id
    hunks = format_count(len(result.hunks), "hunk") if result.hunks else ""
    if result.denial and proposal.on_disk:
        what = f"{hunks} of {name}" if hunks else name
        return DecisionAndUndoText(
            f"On disk and waiting again: {what}.", "takes it back again" if proposal.reopened else ""
        )
    if result.denial and hunks:
        return DecisionAndUndoText(f"Waiting again: {hunks} of {name}.")
    if result.denial:
        return DecisionAndUndoText(f"{name} waits again.", "denies it again")
    return DecisionAndUndoText(f"{name} undone: {_describe_paths(result)}.", "applies it again")


def _describe_paths(result: DecisionResult) -> str:
    return join_first([file.path for file in result.files], 4)
