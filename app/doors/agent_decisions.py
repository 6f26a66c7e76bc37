"""Waits for the user's decision on an agent's proposal, made in any signoff process, and describes it.

A wait reads only the database, and the signal file that every write touches. The description is one text with the
state on disk and the user's feedback. signoff's own model gets the same sentences in two messages.
"""

import threading
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct

from app.conversation.events import DecisionKind, ProposalDecided
from app.conversation.proposal_reports import format_feedback, format_file_stats, format_hunk_outcomes
from app.proposals.values.decision_facts import HunkOutcome
from app.proposals.values.models import HunkState, Proposal, ProposalState
from app.proposals.values.proposal_errors import UnknownProposal
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.unfinished_work import unrecorded_decision_event
from app.storage.process_coordination import DatabaseChangeSignal, DatabaseChangeWatch
from app.storage.seen_lines_store import SeenLinesStore
from app.text.quantities import format_path, join_with_and

RECORD_WAIT_SECONDS = 2.0
"""Seconds to wait until a decision is recorded with the text of its hunks; the user's feedback is stored earlier."""
_UNDECIDED_STATES = ("pending", "partly_approved")


class ProposalDecisionStatus(Struct, frozen=True):
    """The state of a proposal and of the user's decisions on it."""

    state: str
    """A value of `ProposalState`."""
    decisions: int
    """Number of the user's decisions on it, which is also the number of the last one."""
    has_feedback: bool
    """Whether a decision that was not reported yet has feedback or comments."""
    is_recorded: bool
    """Whether all decisions are recorded with the state of each hunk; False only briefly, or after a crash."""

    @property
    def is_decided(self) -> bool:
        """Return whether the agent can continue: nothing is pending, or the user has given feedback.

        Feedback counts even if other hunks are pending: signoff's own model continues in that case, too.
        """
        return self.has_feedback or self.state not in _UNDECIDED_STATES

    @property
    def is_denial_without_new_feedback(self) -> bool:
        """Return whether it was denied without unreported feedback: the agent waits for the user."""
        return self.state == "denied" and not self.has_feedback


def read_decision_status(runtime: OpenWorkspace, proposal: str, reported_count: int = 0) -> ProposalDecisionStatus:
    """Read the status once.

    Args:
        reported_count: Number of the last decision that was reported to the agent.

    Raises:
        UnknownProposal: No proposal has this id.
        StorageError: The database can't be read.
    """
    digits = proposal.strip()[1:]
    number = int(digits[:15]) if proposal.strip()[:1] in "Pp" and digits.isascii() and digits.isdigit() else 0
    values = {"workspace": runtime.name, "number": number, "id": f"P{number}", "reported": reported_count}
    rows = runtime.database.query_rows(_SELECT_STATUS, values)
    if not rows:
        raise UnknownProposal(f"There is no proposal {proposal.strip()[:40] or '(empty)'} in this workspace.")
    state, decisions, has_feedback, unrecorded = rows[0]
    return ProposalDecisionStatus(str(state), int(str(decisions)), bool(has_feedback), not unrecorded)


def wait_for_decision(
    runtime: OpenWorkspace,
    proposal: str,
    *,
    seconds: float,
    reported_count: int = 0,
    stop: threading.Event | None = None,
) -> ProposalDecisionStatus:
    """Wait until a proposal is decided (`ProposalDecisionStatus.is_decided`) and the decision is recorded.

    Args:
        seconds: Maximum wait.
        reported_count: Number of the last decision that was reported to the agent.
        stop: Ends the wait when it is set.

    Returns:
        The status when the wait ends, for any reason.

    Raises:
        UnknownProposal: No proposal has this id.
        StorageError: The database can't be read.
        OSError: The system does not allow watching the signal file.
    """
    end = time.monotonic() + seconds
    with DatabaseChangeWatch(runtime.signal) as watch:
        patient_until = 0.0
        while True:
            # Read after the watch has started: it reports all later writes.
            now = read_decision_status(runtime, proposal, reported_count)
            until = end
            if now.is_decided:
                patient_until = patient_until or time.monotonic() + RECORD_WAIT_SECONDS
                until = min(end, patient_until)
            if (
                (now.is_decided and now.is_recorded)
                or time.monotonic() >= until
                or (stop is not None and stop.is_set())
            ):
                return now
            watch.wait(until - time.monotonic(), stop)


def wait_until_lines_are_read(
    seen_lines: SeenLinesStore,
    signal: DatabaseChangeSignal,
    max_unread: int,
    seconds: float,
    stop: threading.Event | None = None,
) -> None:
    """Wait until at most `max_unread` lines are unread, `seconds` have passed, or `stop` is set.

    Raises:
        StorageError: The database can't be read.
        OSError: The system does not allow watching the signal file.
    """
    end = time.monotonic() + seconds
    with DatabaseChangeWatch(signal) as watch:
        while seen_lines.unread_line_count() > max_unread and (left := end - time.monotonic()) > 0:
            if stop is not None and stop.is_set():
                return
            watch.wait(left, stop)


_SELECT_STATUS = """
    SELECT
        state,
        coalesce(json_extract(body, '$.last.number'), 0),
        EXISTS (
            SELECT 1 FROM decisions WHERE decisions.workspace = :workspace AND decisions.proposal = :id
            AND json_extract(decisions.body, '$.number') > :reported AND (
                trim(json_extract(decisions.body, '$.feedback'), char(9, 10, 11, 12, 13, 32)) != ''
                OR json_array_length(decisions.body, '$.comments') > 0
            )
        ) OR (
            coalesce(json_extract(body, '$.last.number'), 0) > :reported AND (
                trim(json_extract(body, '$.last.feedback'), char(9, 10, 11, 12, 13, 32)) != ''
                OR json_array_length(body, '$.last.comments') > 0
            )
        ),
        EXISTS (SELECT 1 FROM unrecorded WHERE unrecorded.workspace = :workspace AND unrecorded.proposal = :id)
    FROM proposals WHERE workspace = :workspace AND number = :number
"""


_STATE_WORDS = {HunkState.APPLIED: "written", HunkState.DENIED: "denied", HunkState.PENDING: "waiting for the user"}
_ON_DISK_STATE_WORDS = {
    HunkState.APPLIED: "kept",
    HunkState.DENIED: "reverted on disk",
    HunkState.PENDING: "on disk and waiting for the user",
}
"""As `_STATE_WORDS`, for proposals whose changes were on disk already."""
_EDITED_BY_USER_NOTE = "The user changed the proposed text of {names} by hand; read it before you build on it."


def read_decision_report(runtime: OpenWorkspace, proposal_id: str, reported_count: int = 0) -> tuple[str, int]:
    """Return a description of the decisions on a proposal for the agent that made it.

    Args:
        reported_count: Number of the last decision whose feedback the agent has read; it is not repeated.

    Returns:
        The text, and the number of the last decision in it.

    Raises:
        UnknownProposal: No proposal has this id.
        StorageError: The database can't be read.
    """
    # Unrecorded ones first: a decision that is recorded meanwhile is in both lists, and counted once.
    proposal = runtime.service.get(proposal_id)
    not_yet = [
        unrecorded_decision_event(proposal, last)
        for name, last in runtime.proposals.unrecorded_decisions()
        if name == proposal.id
    ]
    decisions = [record.decided for record in runtime.sessions.decisions(proposal.id)]
    known = {decision.number for decision in decisions}
    decisions += [decision for decision in not_yet if decision.number not in known]
    return format_decision_report(proposal, decisions, reported_count), proposal.last.number if proposal.last else 0


def format_decision_report(proposal: Proposal, decisions: Sequence[ProposalDecided], reported_count: int = 0) -> str:
    """Return the report for the agent: the state, the user's feedback, then each hunk with its context.

    Args:
        decisions: All decisions on it, oldest first.
        reported_count: Number of the last decision whose feedback the agent has read.
    """
    parts = [_headline(proposal)]
    if names := [change.path for change in proposal.files if change.edited]:
        parts.append(_EDITED_BY_USER_NOTE.format(names=", ".join(names)))
    parts += [
        decision.stale
        for decision in decisions
        if decision.stale and (decision.number > reported_count or decision.number == 0)
    ]
    # The feedback comes before the excerpts, because long texts are cut at the end.
    said = [
        words
        for decision in decisions
        if decision.number > reported_count or decision.number == 0
        if (words := format_feedback(decision))
    ]
    if said:
        parts.append("\n\n".join(["The user says:", *said]))
    if lines := format_hunk_outcomes(_latest_hunk_states(decisions), on_disk=proposal.on_disk):
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _headline(proposal: Proposal) -> str:
    """Return a summary line: `P7: hunks 1 and 3 written, 2 denied.`"""
    name, files = proposal.id, format_file_stats(change.stat for change in proposal.files)
    because = f": {proposal.reason}" if proposal.reason else ""
    match proposal.state:
        case ProposalState.PENDING | ProposalState.APPLIED | ProposalState.DENIED if proposal.on_disk:
            pass
        case ProposalState.PENDING if not proposal.has_denied_part:
            return f"{name} waits for the user's decision; nothing of it is on disk: {files}."
        case ProposalState.APPLIED if not proposal.superseded_by and not _is_denied_in_part(proposal):
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
    return f"{name}: {', '.join(_describe_state_groups(proposal))}."


def _is_denied_in_part(proposal: Proposal) -> bool:
    states = [hunk.state for hunk in proposal.hunks]
    states += [change.state for change in proposal.files if not change.hunks]
    return HunkState.DENIED in states


def _describe_state_groups(proposal: Proposal) -> Iterable[str]:
    """Yield `hunks 1 and 3 written`, `2 denied`, `logo.png written`; a file without hunks is named by its path."""
    is_first = True
    for state, word in (_ON_DISK_STATE_WORDS if proposal.on_disk else _STATE_WORDS).items():
        numbers = sorted(hunk.number for hunk in proposal.hunks if hunk.state is state)
        files = [change for change in proposal.files if not change.hunks and change.state is state]
        names = [format_path(change.path, change.old_path) for change in files]
        if numbers:
            noun = ("hunk " if len(numbers) == 1 else "hunks ") if is_first else ""
            yield f"{noun}{join_with_and(map(str, numbers))} {word}"
            is_first = False
        if names:
            yield f"{join_with_and(names)} {word}"


def _latest_hunk_states(decisions: Sequence[ProposalDecided]) -> list[HunkOutcome]:
    """Return the last state of each hunk; empty if the last decision was about the whole proposal."""
    facts: dict[str, HunkOutcome] = {}
    for decision in decisions:
        if decision.decision is DecisionKind.EDITED:
            continue
        if not decision.hunks:
            facts.clear()
        facts |= {fact.hunk: fact for fact in decision.hunks}
    return list(facts.values())
