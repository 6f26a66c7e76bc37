"""What yes and no do to a proposal, and where it stands, in words: they differ for one that is on disk already."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.proposals.models import Proposal, ProposalState
from app.proposals.states import ON_DISK_WORDS, said_in_part


@dataclass(frozen=True, slots=True)
class Verbs:
    """The words of one kind of proposal."""

    approve: str
    deny: str
    request: str
    """To deny and say why."""
    go_on: str
    """To approve and let the model go on."""
    reopen: str
    """To take back a denial."""
    again: str
    """To redo."""
    states: Mapping[ProposalState, str]
    titles: Mapping[str, str]
    """Of actions of the review, where they are called otherwise."""


_STATES: Mapping[ProposalState, str] = {
    ProposalState.PENDING: "waiting",
    ProposalState.PARTLY_APPROVED: "partly applied",
    ProposalState.STALE: "stale",
    ProposalState.APPLIED: "applied",
    ProposalState.DENIED: "denied",
    ProposalState.SUPERSEDED: "superseded",
    ProposalState.UNDONE: "undone",
    ProposalState.FAILED: "failed",
}

TO_WRITE = Verbs(
    approve="approve",
    deny="deny",
    request="request changes",
    go_on="approve and go on",
    reopen="reopen",
    again="apply again",
    states=_STATES,
    titles={},
)
ON_DISK = Verbs(
    approve="keep",
    deny="take back off the disk",
    request="take back and say why",
    go_on="keep and go on",
    reopen="put back",
    again="take back again",
    states={**_STATES, **ON_DISK_WORDS},
    titles={
        "approve": "Keep",
        "approve_and_continue": "Keep and go on",
        "deny": "Take back",
        "deny_hunk": "Take hunk back",
        "request_changes": "Take back, say why",
    },
)


def verbs(proposal: Proposal) -> Verbs:
    """The words for a proposal."""
    return ON_DISK if proposal.on_disk else TO_WRITE


def state_words(proposal: Proposal) -> str:
    """Where it stands."""
    return said_in_part(proposal, verbs(proposal).states[proposal.state])
