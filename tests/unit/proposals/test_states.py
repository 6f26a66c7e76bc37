"""The state machine, over every pair of states."""

from itertools import product

import pytest

from app.proposals.values.models import (
    TRANSITIONS,
    FileChange,
    FileOperation,
    Hunk,
    HunkState,
    Proposal,
    ProposalState,
    compute_state,
    set_state,
)
from app.proposals.values.proposal_errors import InvalidTransition

ALLOWED = {
    "pending": "pending partly_approved applied denied stale superseded failed",
    "partly_approved": "partly_approved pending applied stale failed",
    "stale": "stale pending partly_approved applied denied superseded failed",
    "applied": "undone failed",
    "undone": "applied failed",
    "failed": "pending partly_approved applied undone",
    "denied": "pending",
    "superseded": "",
}


def proposal(state: ProposalState, *hunks: HunkState) -> Proposal:
    made = tuple(
        Hunk(id=str(n), number=n, old_start=n, old_count=1, new_start=n, new_count=1, state=each)
        for n, each in enumerate(hunks)
    )
    pending = HunkState.PENDING in hunks
    whole = HunkState.PENDING if pending or not hunks else hunks[0]
    change = FileChange(path="a", op=FileOperation.EDIT, base=None, result=None, hunks=made, state=whole)
    return Proposal(id="P1", workspace="/w", created=0.0, summary="s", state=state, files=(change,))


@pytest.mark.parametrize(("start", "end"), product(ProposalState, ProposalState))
def test_every_pair(start: ProposalState, end: ProposalState) -> None:
    if end.value in ALLOWED[start.value].split():
        moved = set_state(proposal(start), end, "why")
        assert moved.state is end
        assert moved.reason == "why"
    else:
        with pytest.raises(InvalidTransition, match=r"P1 is .* and can't become"):
            set_state(proposal(start), end)


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(ProposalState)


@pytest.mark.parametrize(
    ("hunks", "state"),
    [
        ("pending pending", ProposalState.PENDING),
        ("pending denied", ProposalState.PENDING),
        ("pending applied", ProposalState.PARTLY_APPROVED),
        ("applied denied", ProposalState.APPLIED),
        ("applied applied", ProposalState.APPLIED),
        ("denied denied", ProposalState.DENIED),
    ],
)
def test_standing_follows_from_the_hunks(hunks: str, state: ProposalState) -> None:
    states = [HunkState(each) for each in hunks.split()]
    assert compute_state(proposal(ProposalState.PENDING, *states)) is state
