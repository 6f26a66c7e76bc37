"""State machine of proposals: the allowed transitions and the wording of states."""

from app.proposals.values.models import HunkState, Proposal
from app.proposals.values.models import ProposalState as State
from app.proposals.values.proposal_errors import InvalidTransition

TRANSITIONS: dict[State, frozenset[State]] = {
    State.PENDING: frozenset(
        {State.PARTLY_APPROVED, State.APPLIED, State.DENIED, State.STALE, State.SUPERSEDED, State.FAILED}
    ),
    State.PARTLY_APPROVED: frozenset({State.PENDING, State.APPLIED, State.STALE, State.FAILED}),
    State.STALE: frozenset(
        {State.PENDING, State.PARTLY_APPROVED, State.APPLIED, State.DENIED, State.SUPERSEDED, State.FAILED}
    ),
    State.APPLIED: frozenset({State.UNDONE, State.FAILED}),
    State.UNDONE: frozenset({State.APPLIED, State.FAILED}),
    State.FAILED: frozenset({State.PENDING, State.PARTLY_APPROVED, State.APPLIED, State.UNDONE}),
    State.DENIED: frozenset({State.PENDING}),
    State.SUPERSEDED: frozenset(),
}
"""From each state to those that may follow.

A partly approved proposal becomes pending again when its approved hunks are undone, and applied when the rest is
approved, denied or superseded. A denied one waits again when the denial is taken back. A stale one returns when the
disk does. A failed one is where an apply broke off and
the files were changed by someone else before it could be finished: recovery brings it back to where it was.
"""

ON_DISK_TRANSITIONS: dict[State, frozenset[State]] = {
    State.APPLIED: frozenset({State.PENDING, State.PARTLY_APPROVED}),
}
"""And those of a proposal that was on disk before it was decided on: to take back that it is kept writes nothing."""

REMAINING: frozenset[State] = frozenset({State.PENDING, State.PARTLY_APPROVED, State.STALE})
"""States in which a proposal may change (a re-base, a hunk decided) and stay where it is."""


def set_state(proposal: Proposal, state: State, reason: str = "") -> Proposal:
    """Return the proposal in another state, or in the same one where it may stay.

    Raises:
        InvalidTransition: there is no such transition.
    """
    allowed = state in TRANSITIONS[proposal.state] or (state is proposal.state and state in REMAINING)
    if proposal.on_disk and state in ON_DISK_TRANSITIONS.get(proposal.state, ()):
        allowed = True
    if not allowed:
        raise InvalidTransition(
            f"{proposal.id} is {state_words(proposal.state)} and can't become {state_words(state)}."
        )
    return proposal.model_copy(update={"state": state, "reason": reason})


def state_words(state: State) -> str:
    """Return the state as the user reads it."""
    return state.value.replace("_", " ")


ON_DISK_WORDS = {State.PARTLY_APPROVED: "partly kept", State.APPLIED: "kept", State.DENIED: "taken back"}
"""Where a proposal stands that was on disk before it was decided on, where that is called otherwise."""


def proposal_state_words(proposal: Proposal) -> str:
    """Return the state of a proposal as the user reads it."""
    return partial_state_words(
        proposal, (ON_DISK_WORDS if proposal.on_disk else {}).get(proposal.state) or state_words(proposal.state)
    )


def partial_state_words(proposal: Proposal, state: str) -> str:
    """The words for where a proposal stands, or that this is true of a part of it and the rest was denied."""
    return f"{state} in part" if proposal.denied_in_part else state


def compute_state(proposal: Proposal) -> State:
    """Return the state that follows from the hunks and files of a proposal, re-bases and undos aside."""
    states = {change.state for change in proposal.files} | {hunk.state for hunk in proposal.hunks}
    if HunkState.PENDING in states:
        return State.PARTLY_APPROVED if HunkState.APPLIED in states else State.PENDING
    return State.APPLIED if HunkState.APPLIED in states else State.DENIED
