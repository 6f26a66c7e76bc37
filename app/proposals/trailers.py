"""The trailers of a commit that holds what a proposal wrote: who assisted, and what was reviewed.

`Assisted-by` has the form of the Linux kernel's Documentation/process/coding-assistants.rst, `AGENT:MODEL`. There is
never a `Signed-off-by` nor a `Co-authored-by`, which are a person's to give. Kept apart: a commit of ours and one of
the user's own say the same.
"""

from app.proposals.models import HunkState, Proposal
from app.proposals.origin import Origin, OriginKind
from app.proposals.record import Entry

_AGENTS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli"}


def trailers(proposal: Proposal) -> list[str]:
    """The lines for a proposal of which something was written, `Assisted-by` first."""
    approved = sum(hunk.state is HunkState.APPLIED for hunk in proposal.hunks)
    edited = sum(change.edited for change in proposal.files)
    return _lines(proposal.origin, proposal.id, approved, len(proposal.hunks), edited)


def trailers_of(entry: Entry) -> list[str]:
    """The same of a decision in the record, whose proposal may be gone."""
    hunks = entry.hunks
    return _lines(entry.origin, entry.proposal, len(hunks.approved), hunks.of, len(entry.edited))


def _lines(origin: Origin, name: str, approved: int, hunks: int, edited: int) -> list[str]:
    assisted = assistant(origin)
    facts = [f"{approved}/{hunks} hunks"] if hunks else []
    facts += [f"{edited} edited"] if edited else []
    what = f" ({', '.join(facts)})" if facts else ""
    said = [f"Assisted-by: {':'.join(filter(None, assisted))}"] if assisted else []
    return [*said, f"Reviewed-in: signoff {name}{what}"]


def assistant(origin: Origin) -> tuple[str, str] | None:
    """Whose work it is, agent and model; None where it was a person's."""
    match origin.kind:
        case OriginKind.MODEL | OriginKind.COMMAND:
            agent = "signoff"
        case OriginKind.AGENT:
            agent = _AGENTS.get(origin.agent, origin.agent) or "agent"
        case _:
            return None
    return _word(agent), _word(origin.model)


def _word(text: str) -> str:
    """One word: a name that a server gives must not add a line, or a trailer of its own."""
    return "-".join("".join(character if character.isprintable() else " " for character in text).split())
