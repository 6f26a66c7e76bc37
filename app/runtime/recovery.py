"""Puts right what a process left that ended in the middle of something; run before a workspace is used."""

from collections.abc import Callable, Iterable

from app.agent.deciding import changes
from app.conversation.events import Decision, ProposalDecided
from app.proposals.facts import FileStat
from app.proposals.models import Proposal, ProposalState
from app.runtime.workspace import Runtime
from app.storage.errors import StorageError

_PATIENCE = 10.0
"""Seconds that a living process has between a decision and its record."""

_DECISIONS = {
    ProposalState.APPLIED: Decision.APPROVED,
    ProposalState.PARTLY_APPROVED: Decision.PARTLY_APPROVED,
    ProposalState.DENIED: Decision.DENIED,
    ProposalState.UNDONE: Decision.UNDONE,
}


def recover(runtime: Runtime, *, patience: float = _PATIENCE) -> list[str]:
    """Finish or roll back what was being written, and record decisions that were carried out but not recorded.

    Args:
        runtime: the open workspace.
        patience: seconds after which a decision without a record is held to be left over.

    Returns:
        One line for the user for each thing that was put right.
    """
    lines = runtime.desk.recover()
    for proposal_id in runtime.proposals.unrecorded(patience):
        proposal = runtime.proposals.proposal(proposal_id)
        if proposal is None or (decision := _last_decision(proposal)) is None:
            continue
        state = "waiting again" if decision is Decision.REOPENED else proposal.state.replace("_", " ")
        try:
            record_decision(runtime, _decided(proposal, decision))
        except StorageError as error:
            lines.append(f"{proposal.id} is {state}: that is not recorded yet, since it can't be. {error}")
        else:
            lines.append(f"{proposal.id} is {state}: signoff could not record that at the time, and has now.")
    return lines


def put_right(runtime: Runtime, tell: Callable[[str], None]) -> None:
    """Recover, and have every line told; also what turns out later."""
    runtime.desk.tell = tell
    for line in recover(runtime):
        tell(line)


def record_decision(runtime: Runtime, decided: ProposalDecided, changed: Iterable[Proposal] = ()) -> None:
    """Write a decision to the session of its proposal, whose model reads it; and what followed, each to its own.

    Args:
        runtime: the open workspace.
        decided: the decision.
        changed: other proposals that were re-based or turned stale because of it.
    """
    session = runtime.desk.get(decided.proposal).session
    if session and runtime.sessions.exists(session):
        runtime.sessions.append(session, [decided])
    else:
        runtime.sessions.record_decision(decided)
    for owner, events in changes(changed).items():
        if owner and runtime.sessions.exists(owner):
            runtime.sessions.append(owner, events)


def _last_decision(proposal: Proposal) -> Decision | None:
    if proposal.reopened and proposal.state.waiting:
        return Decision.REOPENED
    return _DECISIONS.get(proposal.state)


def _decided(proposal: Proposal, decision: Decision) -> ProposalDecided:
    return ProposalDecided(
        proposal=proposal.id,
        decision=decision,
        files=tuple(
            FileStat(path=change.path, op=change.op, added=change.added, removed=change.removed)
            for change in proposal.files
        ),
        feedback=proposal.feedback,
        still_pending=proposal.state.waiting,
    )
