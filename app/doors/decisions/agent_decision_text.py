"""Describes decisions to another agent in one text: what is on disk, and the user's words.

signoff's own model reads the facts and the user's words as two messages; the words themselves are the same.
"""

from collections.abc import Iterable, Sequence

from app.conversation.decision_words import feedback_words, file_list, hunk_lines
from app.conversation.events import Decision, ProposalDecided
from app.proposals.values.decision_facts import HunkFact
from app.proposals.values.models import FileChange, HunkState, Proposal, ProposalState
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.workspace_recovery import decision_event
from app.text.plural import plural

_STATES = {HunkState.APPLIED: "written", HunkState.DENIED: "denied", HunkState.PENDING: "waiting for the user"}
_ON_DISK_STATES = {
    HunkState.APPLIED: "kept",
    HunkState.DENIED: "taken back off the disk",
    HunkState.PENDING: "on disk and waiting for the user",
}
"""The same for proposals whose changes were on disk before."""
_BY_HAND = "The user changed the proposed text of {names} by hand; read it before you build on it."


def proposal_report(runtime: OpenWorkspace, proposal_id: str, reported: int = 0) -> tuple[str, int]:
    """Describe the decisions on a proposal for the agent that made it.

    Args:
        runtime: The open workspace.
        proposal_id: Any.
        reported: The number of the last decision whose words the agent has read; they are not repeated.

    Returns:
        The text, and the number of the last decision in it.

    Raises:
        UnknownProposal: there is none of this id.
        StorageError: the database cannot be read.
    """
    # In this order: a decision recorded in between is in one of the two lists, and counted once.
    proposal = runtime.service.get(proposal_id)
    not_yet = [decision_event(proposal, last) for name, last in runtime.proposals.unrecorded() if name == proposal.id]
    decisions = [record.decided for record in runtime.sessions.decisions(proposal.id)]
    known = {each.number for each in decisions}
    decisions += [each for each in not_yet if each.number not in known]
    return decision_words(proposal, decisions, reported), proposal.last.number if proposal.last else 0


def decision_words(proposal: Proposal, decisions: Sequence[ProposalDecided], reported: int = 0) -> str:
    """The text: first the state, then the user's words, whole, then each hunk with the file's text around it.

    Args:
        proposal: As it stands now.
        decisions: All on it, oldest first.
        reported: The number of the last decision whose words the agent has read.
    """
    parts = [_headline(proposal)]
    if names := [change.path for change in proposal.files if change.edited]:
        parts.append(_BY_HAND.format(names=", ".join(names)))
    parts += [each.stale for each in decisions if each.stale and (each.number > reported or each.number == 0)]
    # The words come before the excerpts: whoever cuts a long text off cuts its end.
    said = [
        words for each in decisions if each.number > reported or each.number == 0 if (words := feedback_words(each))
    ]
    if said:
        parts.append("\n\n".join(["The user says:", *said]))
    if lines := hunk_lines(_latest(decisions), on_disk=proposal.on_disk):
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _headline(proposal: Proposal) -> str:
    """`P7: hunks 1 and 3 written, 2 denied.`"""
    name, files = proposal.id, file_list(change.stat for change in proposal.files)
    because = f": {proposal.reason}" if proposal.reason else ""
    match proposal.state:
        case ProposalState.PENDING | ProposalState.APPLIED | ProposalState.DENIED if proposal.on_disk:
            pass
        case ProposalState.PENDING if not proposal.denied_part:
            return f"{name} waits for the user's decision; nothing of it is on disk: {files}."
        case ProposalState.APPLIED if not proposal.superseded_by and not _apart(proposal):
            return f"{name} is approved and written to disk: {files}."
        case ProposalState.DENIED:
            return f"{name} is denied; nothing of it was written: {files}."
        case ProposalState.UNDONE:
            return f"{name} is undone: the user took back what had been written of it; it is not on disk."
        case ProposalState.STALE:
            return (
                f"{name} is stale and can't be approved{because}. "
                "Read the files as they are now, and propose the change anew."
            )
        case ProposalState.SUPERSEDED:
            return f"{name} no longer waits: {proposal.superseded_by or 'another proposal'} stands in its stead."
        case ProposalState.FAILED:
            return f"{name} could not be written{because}. The user has to put the files right."
    return f"{name}: {', '.join(_groups(proposal))}."


def _apart(proposal: Proposal) -> bool:
    """Whether a part of it was denied."""
    states = [hunk.state for hunk in proposal.hunks]
    states += [change.state for change in proposal.files if not change.hunks]
    return HunkState.DENIED in states


def _groups(proposal: Proposal) -> Iterable[str]:
    """`hunks 1 and 3 written`, `2 denied`, `logo.png written`; what is decided as a whole has no number."""
    noun = "hunk"
    for state, word in (_ON_DISK_STATES if proposal.on_disk else _STATES).items():
        numbers = sorted(hunk.number for hunk in proposal.hunks if hunk.state is state)
        names = [_name(change) for change in proposal.files if not change.hunks and change.state is state]
        if numbers:
            counted = noun if len(numbers) == 1 else plural(2, noun).removeprefix("2 ")
            yield f"{f'{counted} ' if noun else ''}{_listed(map(str, numbers))} {word}"
            noun = ""
        if names:
            yield f"{_listed(names)} {word}"


def _name(change: FileChange) -> str:
    return f"{change.old_path} → {change.path}" if change.old_path else change.path


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _latest(decisions: Sequence[ProposalDecided]) -> list[HunkFact]:
    """The last state of each hunk; empty if the last decision was on the whole proposal."""
    facts: dict[str, HunkFact] = {}
    for each in decisions:
        if each.decision is Decision.EDITED:
            continue
        if not each.hunks:
            facts.clear()
        facts |= {fact.hunk: fact for fact in each.hunks}
    return list(facts.values())
