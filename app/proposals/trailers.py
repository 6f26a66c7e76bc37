"""The trailers of a commit that holds what a proposal wrote: who assisted, and what was reviewed.

`Assisted-by` has the form of the Linux kernel's Documentation/process/coding-assistants.rst, `AGENT:MODEL`. There is
never a `Signed-off-by` nor a `Co-authored-by`, which are a person's to give. Kept apart: a commit of ours and one of
the user's own say the same.
"""

from app.proposals.origin import Origin, OriginKind
from app.proposals.record import Entry

_AGENTS = {
    "claude": "claude-code",
    "copilot": "copilot-cli",
    "gemini": "gemini-cli",
    "kimi": "kimi-code",
    "qwen": "qwen-code",
}


def trailers_of(entry: Entry) -> list[str]:
    """The lines for the last decision on a proposal of which something was written, `Assisted-by` first."""
    hunks, assisted = entry.hunks, assistant(entry.origin)
    facts = [f"{len(hunks.approved)}/{hunks.of} hunks"] if hunks.of else []
    facts += [f"{len(entry.edited)} edited"] if entry.edited else []
    what = f" ({', '.join(facts)})" if facts else ""
    said = [f"Assisted-by: {':'.join(filter(None, assisted))}"] if assisted else []
    return [*said, f"Reviewed-in: signoff {entry.proposal}{what}"]


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
