"""The trailers of a commit that holds what a proposal wrote: who assisted, and what was reviewed.

`Assisted-by` has the form of the Linux kernel's Documentation/process/coding-assistants.rst, `AGENT:MODEL`. There is
never a `Signed-off-by` nor a `Co-authored-by`, which are a person's to give. Kept apart: a commit of ours and one of
the user's own say the same.
"""

from app.proposals.models import HunkState, Proposal
from app.proposals.origin import Origin, OriginKind

_AGENTS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli"}


def trailers(proposal: Proposal) -> list[str]:
    """The lines for a proposal of which something was written, `Assisted-by` first."""
    assisted = _assistant(proposal.origin)
    hunks = proposal.hunks
    approved = sum(hunk.state is HunkState.APPLIED for hunk in hunks)
    edited = sum(change.edited for change in proposal.files)
    facts = [f"{approved}/{len(hunks)} hunks"] if hunks else []
    facts += [f"{edited} edited"] if edited else []
    what = f" ({', '.join(facts)})" if facts else ""
    return [*([f"Assisted-by: {assisted}"] if assisted else []), f"Reviewed-in: signoff {proposal.id}{what}"]


def _assistant(origin: Origin) -> str:
    """Whose work it is, where it was no person's."""
    match origin.kind:
        case OriginKind.MODEL | OriginKind.COMMAND:
            agent = "signoff"
        case OriginKind.AGENT:
            agent = _AGENTS.get(origin.agent, origin.agent) or "agent"
        case _:
            return ""
    return ":".join(filter(None, (_word(agent), _word(origin.model))))


def _word(text: str) -> str:
    """One word: a name that a server gives must not add a line, or a trailer of its own."""
    return "-".join("".join(character if character.isprintable() else " " for character in text).split())
