"""Taking decisions back: what was written is undone and redone, what was denied waits again.

All of it happens within `LockedProposals.writing`.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from app.proposals import on_disk
from app.proposals.disk.journal import Transition, effective, undone
from app.proposals.disk.replay import Replay, Step, backward, forward
from app.proposals.errors import NothingToUndo, UndoConflict
from app.proposals.facts import Circumstances, FileStat
from app.proposals.locked import LockedProposals
from app.proposals.models import HunkState, Proposal, ProposalState
from app.proposals.outcomes import NOTHING, hunk_facts
from app.proposals.overlay import undecided
from app.proposals.reopening import reopened, transition_stats, undenied, undenied_part
from app.proposals.reports import DecisionResult
from app.proposals.stacking import paths_of
from app.proposals.states import advance, state_of, words
from app.proposals.store import JournalRecord


def undo(proposals: LockedProposals, proposal_id: str, circumstances: Circumstances) -> DecisionResult:
    """Take back what a proposal has written, or the denial of it or of its hunks, whichever came last.

    Raises:
        NothingToUndo: it has written nothing, or was undone; or another waits in its stead.
        UndoConflict: a file has changed in the same places.
    """
    proposals.restack(paths_of(proposals.get(proposal_id)))
    proposal = proposals.get(proposal_id)
    if proposal.on_disk:
        return _reopen_on_disk(proposals, proposal, circumstances)
    if proposal.state is ProposalState.DENIED:
        return _reopen(proposals, proposal, circumstances)
    records = effective(proposals.records(proposal))
    latest = proposal.last.decision if proposal.last else ""
    if proposal.denied_part and (not records or latest in ("denied", "reopened")):
        return _reopen_part(proposals, proposal, circumstances)
    if proposal.state is ProposalState.STALE and records:
        raise NothingToUndo(f"{proposal.id} has a part that no longer fits; deny that first, then undo the rest.")
    if proposal.state not in (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED) or not records:
        raise NothingToUndo(f"{proposal.id} is {words(proposal.state)}; there is nothing to undo.")
    replay, transitions = _replay(proposals, proposal, backward(records), "undone")
    if proposal.state is ProposalState.APPLIED:
        after = advance(proposal, ProposalState.UNDONE)
    else:
        again = reopened(proposals.contents, proposal, records, replay.before, replay.after)
        after = advance(again, ProposalState.PENDING)
    after = after.decided("undone", circumstances=circumstances)
    folders = {folder for record in records for folder in record.made_folders}
    proposals.carry_out("undo", proposal, after, transitions, folders)
    return _replayed(proposals, proposal, after, transitions, backwards=True)


def redo(proposals: LockedProposals, proposal: Proposal, circumstances: Circumstances) -> DecisionResult:
    """Write an undone proposal again.

    Raises:
        NothingToUndo: it is not undone.
        UndoConflict: a file has changed in the same places.
    """
    records = undone(proposals.records(proposal))
    if proposal.state is not ProposalState.UNDONE or not records:
        raise NothingToUndo(f"{proposal.id} is {words(proposal.state)}; there is nothing to redo.")
    _, transitions = _replay(proposals, proposal, forward(records), "redone")
    folders = {folder for record in records for folder in record.dropped_folders}
    after = advance(proposal, ProposalState.APPLIED).decided("redone", circumstances=circumstances)
    proposals.carry_out("redo", proposal, after, transitions, folders)
    return _replayed(proposals, proposal, after, transitions, backwards=False)


def _reopen(proposals: LockedProposals, proposal: Proposal, circumstances: Circumstances) -> DecisionResult:
    """Have a denied proposal wait again, re-based onto the present; stale if it does not fit any more."""
    _check_successor(proposals, proposal)
    again = undenied(proposal).decided("reopened", circumstances=circumstances)
    proposals.save(again)
    changed = proposals.settle(proposal)
    waits = tuple(change.stat for change in again.files)
    return DecisionResult(proposals.get(proposal.id), waits, (), changed, denial=True)


def _check_successor(proposals: LockedProposals, proposal: Proposal) -> None:
    """Raises NothingToUndo if another proposal waits in its stead."""
    successor = proposals.store.proposal(proposal.superseded_by) if proposal.superseded_by else None
    if successor is not None and successor.state.waiting:
        raise NothingToUndo(f"{successor.id} stands in for {proposal.id} and still waits; decide on that first.")


def _reopen_part(proposals: LockedProposals, proposal: Proposal, circumstances: Circumstances) -> DecisionResult:
    """Have the hunks wait again that were denied last."""
    again = undenied_part(proposals.contents, proposal)
    waited = {hunk.id for hunk in proposal.hunks if hunk.state is HunkState.PENDING}
    back = [hunk.id for hunk in again.hunks if hunk.state is HunkState.PENDING and hunk.id not in waited]
    again = again.decided("reopened", hunks=back, circumstances=circumstances)
    proposals.save(again)
    changed = proposals.settle(proposal)
    facts = hunk_facts(proposals.contents, proposals.filesystem, again, NOTHING, ())
    wait_again = tuple(fact for fact in facts if fact.hunk in back)
    return DecisionResult(proposals.get(proposal.id), (), wait_again, changed, denial=True)


def _reopen_on_disk(proposals: LockedProposals, proposal: Proposal, circumstances: Circumstances) -> DecisionResult:
    """Have wait again what was decided last of a proposal that is on disk; what was taken off the disk comes back."""
    _check_successor(proposals, proposal)
    decision = on_disk.last_decision(proposal)
    again = on_disk.waiting_again(proposals.contents, proposal, decision)
    waited = {hunk.id for hunk in proposal.hunks if hunk.state is HunkState.PENDING}
    back = [hunk.id for hunk in again.hunks if hunk.state is HunkState.PENDING and hunk.id not in waited]
    whole = len(back) == len(again.hunks)
    record = next((each for each in proposals.records(proposal) if _wrote(each, decision)), None)
    again = again.model_copy(update={"reopened": whole and record is not None})
    again = advance(again, state_of(again)).decided(
        "reopened", hunks=[] if whole else back, circumstances=circumstances
    )
    transitions: list[Transition] = []
    if record is not None:
        _, transitions = _replay(proposals, proposal, backward([record]), "undone")
    proposals.carry_out("undo", proposal, again, transitions, set(record.made_folders) if record else None)
    changed = proposals.settle(proposal)
    after = proposals.get(proposal.id)
    facts = hunk_facts(proposals.contents, proposals.filesystem, after, NOTHING, back)
    files = tuple(change.stat for change in after.files if undecided(change)) if whole else ()
    return DecisionResult(
        after, files, () if whole else tuple(fact for fact in facts if fact.hunk in back), changed, denial=True
    )


def _wrote(record: JournalRecord, decision: int) -> bool:
    """Whether a decision of this number is what a record carried out."""
    if record.state != "done" or record.action != "apply":
        return False
    last = Proposal.model_validate_json(record.after_proposal).last
    return last is not None and last.number == decision


def _replay(
    proposals: LockedProposals, proposal: Proposal, steps: Iterator[Step], word: str
) -> tuple[Replay, list[Transition]]:
    replay = Replay(proposals.filesystem, proposals.contents)
    try:
        return replay, replay.run(steps)
    except UndoConflict as conflict:
        raise UndoConflict(f"{proposal.id} can't be {word}: {conflict}.") from None


def _replayed(
    proposals: LockedProposals,
    before: Proposal,
    after: Proposal,
    transitions: Sequence[Transition],
    *,
    backwards: bool,
) -> DecisionResult:
    """What an undo or redo came to; it stands whatever happens here."""
    changed = proposals.settle(after)
    files: tuple[FileStat, ...] = ()
    with suppress(Exception):
        files = transition_stats(proposals.contents, before, transitions, backwards=backwards)
        after = proposals.get(after.id)
    return DecisionResult(after, files, (), changed)
