"""Delivers the user's decision to another agent, and records the agent's last message with its proposal.

A decision is delivered with the agent's next prompt, as the answer to a waiting call, or as the answer to the first
call afterwards. Imported only when it is needed, because it loads the rest of signoff.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from app.doors.agent_decisions import read_decision_report, read_decision_status, wait_for_decision
from app.doors.hook.hook_messages import HookCallAnswer, deny_call_beside_reported_decision
from app.proposals.values.models import ProposalState
from app.proposals.values.proposal_errors import ProposalError, UnknownProposal
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.unfinished_work import stage_hook_edits_and_list_failures
from app.storage.captured_edit_store import CapturedAgentTurn
from app.storage.process_coordination import DecisionReportClaim

_WRITTEN_MESSAGE = "Approved edits are on disk: signoff wrote them, so do not repeat them. "
_CONTINUE_MESSAGE = "Read the files as they are now, and continue as the user's decision says."


def make_answer_with_unreported_decisions(root: Path, turns: Sequence[CapturedAgentTurn]) -> HookCallAnswer:
    """Return an answer that tells the agent the decisions that were not reported yet, as with a new prompt."""
    with _open_and_close_workspace(root) as runtime:
        parts = [(turn.proposal, *read_decision_report(runtime, turn.proposal, turn.reported)) for turn in turns]
        advice = _continue_advice(runtime, [turn.proposal for turn in turns])
    # Without a decision only stale proposals are reported, which the report says what to do about.
    words = "\n\n".join([text for _, text, _ in parts] + [advice] * any(number for _, _, number in parts))
    reported = tuple((name, number) for name, _, number in parts)
    return HookCallAnswer("tell", f"From signoff, on what you proposed before:\n\n{words}", reported=reported)


def add_decisions_to_call_answer(
    root: Path, turns: Sequence[CapturedAgentTurn], answer: HookCallAnswer, *, text_only_in_denial: bool
) -> HookCallAnswer:
    """Add unreported decisions to the answer to a call; deny the call if the agent should read them first.

    Args:
        turns: Turns whose proposals have decisions to report.
        answer: The answer to the call without the decisions.
        text_only_in_denial: Whether the agent reads text only in a denial.
    """
    report = make_answer_with_unreported_decisions(root, turns)
    if answer.verdict == "deny":
        words = f"{report.words}\n\nOn this call: {answer.words}"
        return answer._replace(words=words, reported=answer.reported + report.reported)
    if answer.verdict == "none" and not text_only_in_denial:
        return report
    words = f"{report.words}\n\nNothing of this call was done, so that you read this first. Make it again if it fits."
    return report._replace(verdict="deny", words=words)


def answer_call_with_decision_or_refusal(
    root: Path, turn: CapturedAgentTurn, refusal: HookCallAnswer, claim: DecisionReportClaim
) -> HookCallAnswer:
    """Answer a call of a closed turn: with the decision if there is one, else with `refusal`."""
    with _open_and_close_workspace(root) as runtime:
        return _wait_for_decision_report(runtime, turn.proposal, turn.reported, refusal, 0.0, claim)


def stage_edits_and_wait_for_decision(
    root: Path, fallback: HookCallAnswer, until: float, claim: DecisionReportClaim
) -> HookCallAnswer:
    """Stage captured edits and return the decision that comes until `until` (monotonic time); else `fallback`."""
    with _open_and_close_workspace(root) as runtime:
        if refused := [
            line for line in stage_hook_edits_and_list_failures(runtime) if line.startswith(f"{fallback.proposal},")
        ]:
            return fallback._replace(words=refused[0])
        return _wait_for_decision_report(runtime, fallback.proposal, 0, fallback, until, claim)


def set_summary_from_last_message(root: Path, proposal: str, message: str) -> None:
    """Make the agent's last message the summary of its turn's proposal, if that was not decided yet."""
    with _open_and_close_workspace(root) as runtime:
        stage_hook_edits_and_list_failures(runtime)
        with suppress(ProposalError):
            runtime.service.set_summary(proposal, message)


def _wait_for_decision_report(
    runtime: OpenWorkspace,
    proposal: str,
    reported: int,
    answer: HookCallAnswer,
    until: float,
    claim: DecisionReportClaim,
) -> HookCallAnswer:
    """Return the report of a decision, unless another call has it; `answer` if there is none until `until`."""
    try:
        now = read_decision_status(runtime, proposal, reported)
        seconds = until - time.monotonic()
        if not now.is_decided and seconds > 0:
            now = wait_for_decision(runtime, proposal, reported_count=reported, seconds=seconds)
    except UnknownProposal:
        return answer
    if not now.is_decided:
        return answer
    claim.take()
    turn = runtime.captured_edits.turn_of_proposal(proposal)
    if turn is not None and reported < turn.reported >= now.decisions:
        return deny_call_beside_reported_decision([proposal])
    words, number = read_decision_report(runtime, proposal, reported)
    # After a plain denial the agent waits for the user, as signoff's own model does.
    plain_no = now.state == ProposalState.DENIED and not now.has_feedback
    words = words if plain_no else f"{words}\n\n{_continue_advice(runtime, [proposal])}"
    return HookCallAnswer("deny", words, ends_turn=plain_no, proposal=proposal, reported=((proposal, number),))


def _continue_advice(runtime: OpenWorkspace, proposals: Sequence[str]) -> str:
    reported = map(runtime.service.get, proposals)
    is_on_disk = any(each.is_written_in_part and each.state is not ProposalState.UNDONE for each in reported)
    return f"{_WRITTEN_MESSAGE if is_on_disk else ''}{_CONTINUE_MESSAGE}"


@contextmanager
def _open_and_close_workspace(root: Path) -> Iterator[OpenWorkspace]:
    runtime = open_workspace(root)
    try:
        yield runtime
    finally:
        runtime.close()
