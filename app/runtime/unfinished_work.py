"""Completes work that other processes left: interrupted writes, unrecorded decisions, captured edits of agents."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from app.agent.decision_service import changed_proposal_events_by_session, decision_event, session_id_of_proposal
from app.conversation.events import DecisionKind, Event, ProposalDecided, TurnEnded, TurnStarted, UserNotice
from app.proposals.files.filesystem import default_file_mode
from app.proposals.text.hunks import format_hunk_header
from app.proposals.values.decision_facts import HunkOutcome, LastDecision
from app.proposals.values.models import DecisionResult, HunkState, Proposal, ProposalState, describe_state
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import NothingToStage, ProposalError
from app.runtime.agent_reads import find_agent_reads_before_proposal
from app.runtime.open_workspace import OpenWorkspace
from app.sandbox.captured_changes import FileOrLink, FilesNotRestored, PathChange
from app.storage import StorageError
from app.storage.captured_edit_store import CapturedAgentTurn, CapturedFileEdit
from app.workspace.path_rules import WorkspaceError

INTERRUPTED_NOTICE = "signoff was ended in the middle of this turn; what had streamed in is lost. /continue goes on."
PATIENCE = 10.0
"""Seconds that a living process has between a decision and its record."""


def recover_interrupted_work(runtime: OpenWorkspace, *, grace_seconds: float = PATIENCE) -> list[str]:
    """Finish or roll back interrupted writes, stage captured edits, and record unrecorded decisions.

    Args:
        grace_seconds: Seconds after which a decision counts as unrecorded: its process may still record it before.

    Returns:
        One line for the user for each completed or failed item.
    """
    lines = runtime.service.recover()
    lines += stage_hook_edits_and_list_failures(runtime)
    try:
        if runtime.dirs.runs.exists() and (line := runtime.sandbox.restore_after_crash()):
            lines.append(line)
    except FilesNotRestored as error:
        lines.append(f"{error}.")
    except OSError:
        # A command is running.
        pass
    try:
        lines += record_unrecorded_decisions(runtime, patience=grace_seconds)
    except StorageError as error:
        lines.append(f"A decision stands that is not recorded yet, since it can't be. {error}")
    return lines


def recover_interrupted_work_and_notify(runtime: OpenWorkspace, notify: Callable[[str], None]) -> None:
    """Finish unfinished work; pass lines about it, also later ones of the proposal service, to `notify`."""
    runtime.service.notify = notify
    for line in recover_interrupted_work(runtime):
        notify(line)


async def settle_unrecorded_decisions(runtime: OpenWorkspace, notify: Callable[[str], None]) -> None:
    """Wait until other processes have recorded their decisions; record those of a process that does not.

    A request that is sent before lacks their feedback.
    """
    end = time.monotonic() + 2 * PATIENCE
    while runtime.proposals.unrecorded_decisions() and time.monotonic() < end:
        await asyncio.sleep(0.1)
        for line in record_unrecorded_decisions(runtime):
            notify(line)


def has_unreported_interruption(log: Sequence[Event]) -> bool:
    """Return whether the log ends within a turn without a notice of that; no process may have the session open."""
    for event in reversed(log):
        match event:
            case TurnStarted():
                return True
            case TurnEnded():
                return False
            case UserNotice(text=text) if text == INTERRUPTED_NOTICE:
                return False
    return False


def record_unrecorded_decisions(
    runtime: OpenWorkspace, *, patience: float = PATIENCE, current_session: str = ""
) -> list[str]:
    """Record decisions that were carried out but not recorded, oldest first, with their complete feedback.

    Args:
        patience: As for `recover_interrupted_work`.
        current_session: The session that records decisions on proposals without a session.

    Returns:
        One line for the user for each decision.

    Raises:
        StorageError: the store fails; a later call tries again.
    """
    lines: list[str] = []
    for proposal_id, last in runtime.proposals.unrecorded_decisions(patience):
        proposal = runtime.service.get(proposal_id)
        append_decision_and_resulting_changes(
            runtime, unrecorded_decision_event(proposal, last), current_session=current_session
        )
        state = "waiting again" if last.decision == DecisionKind.REOPENED else describe_state(proposal.state)
        lines.append(f"{proposal.id} is {state}: signoff could not record that at the time, and has now.")
    return lines


def append_decision_and_resulting_changes(
    runtime: OpenWorkspace, decided: ProposalDecided, changed: Iterable[Proposal] = (), current_session: str = ""
) -> None:
    """Append a decision to the session of its proposal, and the resulting changes to their sessions.

    Args:
        changed: Other proposals that were re-based or turned stale by it.
        current_session: The session for proposals without a session.
    """
    session = session_id_of_proposal(runtime.service.get(decided.proposal), current_session)
    if session and runtime.sessions.exists(session):
        runtime.sessions.append_events(session, [decided])
    else:
        runtime.sessions.record_decision(decided)
    for owner, events in changed_proposal_events_by_session(changed).items():
        if owner and runtime.sessions.exists(owner):
            runtime.sessions.append_events(owner, events)


def unrecorded_decision_event(proposal: Proposal, last: LastDecision) -> ProposalDecided:
    """Return the event of an unrecorded decision, from the facts that are stored with the proposal."""
    files = last.files or tuple(change.stat for change in proposal.files)
    result = DecisionResult(proposal, files, tuple(_hunk_outcomes(proposal, last)) if last.hunks else ())
    event = decision_event(
        result, DecisionKind(last.decision), feedback=last.feedback, comments=last.comments, images=last.images
    )
    return event.model_copy(update={"stale": last.stale, "number": last.number})


def _hunk_outcomes(proposal: Proposal, last: LastDecision) -> Iterator[HunkOutcome]:
    """Yield the outcome of the decided hunks and of those that still wait."""
    is_written = last.decision in (DecisionKind.APPROVED, DecisionKind.PARTLY_APPROVED)
    for change in proposal.files:
        for hunk in change.hunks:
            if (is_decided := hunk.id in last.hunks) or hunk.state is HunkState.PENDING:
                landed, header = is_decided and is_written, format_hunk_header(hunk)
                reason = "" if landed else "denied" if is_decided else "still awaits a decision"
                yield HunkOutcome(path=change.path, hunk=hunk.id, header=header, landed=landed, reason=reason)


def stage_hook_edits_and_list_failures(runtime: OpenWorkspace) -> list[str]:
    """Stage edits of other agents that hooks captured; return one line for each failure.

    Returns:
        One line for the user for each failure; the next call tries again.
    """
    lines = []
    try:
        for name in runtime.captured_edits.proposals_to_stage():
            try:
                _stage_captured_proposal(runtime, name)
            except (ProposalError, WorkspaceError, OSError) as error:
                lines.append(f"{name}, which another agent proposed, can't be staged: {error}")
    except StorageError as error:
        lines.append(f"What other agents proposed can't be staged: {error}")
    return lines


def _stage_captured_proposal(runtime: OpenWorkspace, name: str) -> None:
    captured = runtime.captured_edits
    turn, files = captured.turn_of_proposal(name), captured.captured_files(name)
    assert turn is not None, "a turn is kept for as long as what was captured in it"
    existing = runtime.proposals.proposal(name)
    # Keep a proposal that the user has begun to decide: the turn's other edits become a second one.
    keeps_id = existing is None or (existing.state is ProposalState.PENDING and existing.last is None)
    draft = runtime.service.new_draft("", name if keeps_id else "")
    draft.origin = ProposalOrigin(
        kind=OriginKind.AGENT, agent=turn.agent, model=turn.model, session=turn.session, prompt=turn.prompt
    )
    draft.add_changes([_path_change(file) for file in files])
    draft.read_history = find_agent_reads_before_proposal(
        captured, runtime.proposals, name, draft.changed_paths.keys()
    )
    staged_id = name
    try:
        staged_id = runtime.service.stage(draft, "", [denied.id for denied in _unanswered_denials(runtime, turn)]).id
    except NothingToStage:
        if existing is None:
            # No proposal gets the id that the agent was told: a repeated edit must get another one.
            captured.discard_captured_files(name, files)
            raise
    captured.mark_staged(name, staged_id, files)


def _unanswered_denials(runtime: OpenWorkspace, turn: CapturedAgentTurn) -> Iterator[Proposal]:
    """Yield the proposals of the agent's session that the user denied with feedback, latest first."""
    for turn_before in reversed(runtime.captured_edits.turns_of_session(turn.agent, turn.session)):
        earlier = runtime.proposals.proposal(turn_before.proposal)
        if earlier and earlier.state is ProposalState.DENIED and earlier.feedback and not earlier.superseded_by:
            yield earlier


def _path_change(file: CapturedFileEdit) -> PathChange:
    before = None if file.before is None else FileOrLink(file.before, file.before_mode)
    after = None if file.after is None else FileOrLink(file.after, file.before_mode or default_file_mode())
    return PathChange(file.path, before, after)
