"""Verdicts on decision keys: act, ask once, or refuse with a reason. Pure functions; the review acts on the
verdict.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from app.proposals.text.file_warnings import describe_mode_change
from app.proposals.values.models import (
    FileChange,
    FileOperation,
    Proposal,
    ProposalState,
    describe_proposal_state,
)
from app.proposals.values.pending_paths import has_undecided_part
from app.review.review_state import ReviewQueueState, UnseenPartsSummary
from app.text.quantities import format_count, join_first, join_with_and


class DecisionVerbs(Struct, frozen=True):
    """The words for the decisions on a proposal: one that is written on approval, or one that is on disk."""

    approve: str
    deny: str
    request: str
    """Deny and give a reason."""
    go_on: str
    """Approve and let the model continue."""
    reopen: str
    """Undo a denial."""
    again: str
    """Redo."""
    titles: Mapping[str, str]
    """Titles of the review's actions that differ from the usual ones."""


TO_WRITE = DecisionVerbs(
    approve="approve",
    deny="deny",
    request="request changes",
    go_on="approve and go on",
    reopen="reopen",
    again="apply again",
    titles={},
)
ON_DISK = DecisionVerbs(
    approve="keep",
    deny="revert",
    request="take back and say why",
    go_on="keep and go on",
    reopen="put back",
    again="take back again",
    titles={
        "approve": "Keep",
        "approve_and_continue": "Keep and go on",
        "deny": "Take back",
        "deny_hunk": "Take hunk back",
        "request_changes": "Take back, say why",
    },
)


def decision_verbs(proposal: Proposal) -> DecisionVerbs:
    """Return the words for deciding on a proposal: approve and deny, or keep and take back if it is on disk."""
    return ON_DISK if proposal.on_disk else TO_WRITE


def describe_proposal_state_in_review(proposal: Proposal) -> str:
    """Return the proposal's state in the words of the review: `waiting`, `partly approved`."""
    return "waiting" if proposal.state is ProposalState.PENDING else describe_proposal_state(proposal)


ActionKind = Literal["approve", "approve_and_continue", "deny", "approve_all", "deny_all"]


COMPARES_VERSIONS_MESSAGE = "This compares two versions; go back to the diff to decide."

_MAX_NAMED = 4
"""Maximum number of doubtful proposals in the question before all are approved; more would fill the screen."""
_MAX_QUOTED_CHARACTERS = 48
"""Maximum characters of the user's unsent words that a question quotes."""


class ActionRefused(Struct, frozen=True):
    """Verdict that an action is refused with a reason: its key does nothing now."""

    reason: str


class ActionNeedsConfirmation(Struct, frozen=True):
    """Verdict that an action is carried out only after the user confirms it."""

    question: str
    action: ActionKind
    subjects: tuple[Proposal, ...]
    """The proposals at the time of the question; the question lapses if one of them changes."""
    named: tuple[str, ...] = ()
    """Ids that a bulk approval leaves out unless the user includes them."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the proposals that a plain yes decides."""
        return tuple(subject.id for subject in self.subjects if subject.id not in self.named)


class ActionAllowedAtOnce(Struct, frozen=True):
    """Verdict that an action is carried out at once."""

    action: ActionKind
    ids: tuple[str, ...]


Verdict = ActionRefused | ActionNeedsConfirmation | ActionAllowedAtOnce


def judge_approval(
    state: ReviewQueueState,
    proposal: Proposal,
    *,
    is_diff_shown: bool = True,
    compares_versions: bool = False,
    action: Literal["approve", "approve_and_continue"] = "approve",
    doubts: Sequence[str] = (),
) -> Verdict:
    """Return whether the shown proposal can be approved now: at once, after a question, or not at all.

    Args:
        is_diff_shown: Whether the diff on screen is that of this revision.
        compares_versions: Whether the diff pane compares two versions instead.
        doubts: Further reasons to ask before the approval.
    """
    if not proposal.state.is_pending:
        return ActionRefused(f"{proposal.id} is not waiting any more.")
    if not can_be_approved(proposal):
        return ActionRefused(
            f"{proposal.id} is stale and cannot be approved: {proposal.reason or 'the files changed'}"
        )
    if compares_versions:
        return ActionRefused(COMPARES_VERSIONS_MESSAGE)
    if not is_diff_shown:
        return ActionRefused("The diff isn't on screen yet.")
    selection = state.hunk_exclusions.approval_selection(proposal)
    if selection.is_empty:
        return ActionRefused("No hunk is chosen; choose one, or deny the proposal.")
    reasons = []
    if unseen := state.unseen_parts(proposal):
        reproduced = proposal.is_reproduced and selection.decided_hunks is None
        reasons.append(
            describe_seen_and_reproduced_files(proposal, unseen)
            if reproduced
            else describe_unseen_parts(proposal.id, unseen)
        )
    deleted = [change.path for change in proposal.files if change.op is FileOperation.DELETE]
    if doubts:
        reasons.append(f"{proposal.id}: {', '.join(doubts)}")
    elif deleted and not proposal.on_disk:
        reasons.append(f"{proposal.id} deletes {_join_items(deleted)}")
    if failed_checks := describe_failed_checks(state, proposal.id):
        reasons.append(failed_checks)
    if unsent := state.feedback_drafts.describe_unsent(proposal, selection.decided_hunks):
        reasons.append(f"your unsent words go with it to the model, {_quote(unsent)}")
    return _confirm_if_needed(reasons, decision_verbs(proposal).approve, action, proposal)


def judge_denial(state: ReviewQueueState, proposal: Proposal) -> Verdict:
    """Return whether the shown proposal can be denied now: at once, after a question, or not at all."""
    if not proposal.state.is_pending:
        return ActionRefused(f"{proposal.id} is not waiting any more.")
    return _judge_denial(state, proposal, state.feedback_drafts.describe_unsent(proposal))


def judge_denial_with_feedback(state: ReviewQueueState, proposal: Proposal) -> Verdict:
    """Return the verdict of denying a proposal with feedback that the user sends now."""
    return _judge_denial(state, proposal, ())


def _judge_denial(state: ReviewQueueState, proposal: Proposal, unsent: Sequence[str]) -> Verdict:
    reasons = []
    if proposal.on_disk:
        if not can_be_approved(proposal):
            return ActionRefused(f"{proposal.id} is stale and cannot be taken back: {proposal.reason}")
        reasons += _describe_losses(state, proposal)
    if unsent:
        reasons.append(f"your unsent words go with it to the model, {_quote(unsent)}")
    return _confirm_if_needed(reasons, decision_verbs(proposal).deny, "deny", proposal)


def _confirm_if_needed(reasons: Sequence[str], verb: str, action: ActionKind, proposal: Proposal) -> Verdict:
    """Return the verdict to ask for the reasons; to act at once if there are none."""
    if not reasons:
        return ActionAllowedAtOnce(action, (proposal.id,))
    sentence = ", and ".join(reasons)
    question = f"{sentence[0].upper()}{sentence[1:]}. {verb.capitalize()}?"
    return ActionNeedsConfirmation(question, action, (proposal,))


def _describe_losses(state: ReviewQueueState, proposal: Proposal) -> list[str]:
    """Return what a denial removes from the disk: lines that were never on screen, and files that git does not
    have.
    """
    reasons = []
    if unseen := state.unseen_parts(proposal):
        reasons.append(describe_unseen_parts(proposal.id, unseen))
    if created := [
        change.path for change in proposal.files if change.op is FileOperation.CREATE and has_undecided_part(change)
    ]:
        reasons.append(f"that removes {_join_items(created)}, which git does not have")
    return reasons


def judge_approve_all(state: ReviewQueueState) -> Verdict:
    """Return the question before all waiting proposals are approved, without doubtful ones; or a refusal."""
    select = state.hunk_exclusions.approval_selection
    ready = [item for item in state.waiting if can_be_approved(item) and not select(item).is_empty]
    if not ready:
        return ActionRefused("Nothing waits that can be approved.")
    doubts: dict[str, list[str]] = {}
    for item in ready:  # after those that it builds on
        below = dict.fromkeys(name for change in item.files for name in change.stacked_on)
        left_out = [name for name in below if state.queue_number(name) and doubts.get(name, True)]
        doubts[item.id] = [*_describe_doubts(state, item), *(f"builds on {name}" for name in left_out)]
    safe = [item for item in ready if not doubts[item.id]]
    doubtful = [item for item in ready if doubts[item.id]]
    named, others = doubtful[:_MAX_NAMED], doubtful[_MAX_NAMED:]
    parts = []
    if safe:
        added, removed = sum(select(item).added for item in safe), sum(select(item).removed for item in safe)
        parts.append(f"Approve {_join_items([item.id for item in safe])} (+{added:,} -{removed:,})?")
    if unseen := {item.id: missing for item in safe if (missing := state.unseen_parts(item))}:
        lines, total = sum(one.lines for one in unseen.values()), sum(one.total for one in unseen.values())
        paths = dict.fromkeys(path for one in unseen.values() for path in one.paths)
        all_unseen = UnseenPartsSummary(lines, total, tuple(paths))
        parts.append(f"{describe_unseen_parts(_join_items([*unseen]), all_unseen)}.")
    if named:
        texts = (f"{item.id} ({join_first([*doubts[item.id], *_describe_unseen(state, item)], 4)})" for item in named)
        parts.append(f"{'Not with them' if safe else 'Left out'}: {'; '.join(texts)}.")
    if others:
        parts.append(f"Left out in any case: {_join_items([item.id for item in others])}.")
    feedback_note = _feedback_sentence(
        [item.id for item in (*safe, *named) if state.feedback_drafts.feedback_for(item, select(item).decided_hunks)]
    )
    return ActionNeedsConfirmation(
        " ".join(parts) + feedback_note, "approve_all", (*safe, *named), tuple(item.id for item in named)
    )


def judge_deny_all(state: ReviewQueueState) -> Verdict:
    """Return the verdict of `deny all`: a question if several proposals wait."""
    ids = tuple(item.id for item in state.waiting)
    if not ids:
        return ActionRefused("Nothing waits.")
    if len(ids) == 1:
        return judge_denial(state, state.waiting[0])
    with_feedback = [item.id for item in state.waiting if state.feedback_drafts.feedback_for(item)]
    feedback_note = _feedback_sentence(with_feedback)
    on_disk = [item.id for item in state.waiting if item.on_disk]
    disk_note = f" {_join_items(on_disk)} would be reverted on disk." if on_disk else ""
    return ActionNeedsConfirmation(
        f"Deny all {len(ids)}: {_join_items(ids)}?{disk_note}{feedback_note}", "deny_all", tuple(state.waiting)
    )


def _feedback_sentence(about: Sequence[str]) -> str:
    """Return the sentence that the user's words about these proposals go to the model; empty if there are none."""
    return f" What you wrote about {_join_items(about)} goes to the model." if about else ""


def _quote(texts: Sequence[str]) -> str:
    """Return the beginning of some texts on one line, in quotes."""
    line = " ".join(" ".join(texts).split())
    return f"“{line if len(line) <= _MAX_QUOTED_CHARACTERS else line[: _MAX_QUOTED_CHARACTERS - 1].rstrip() + '…'}”"


def _describe_doubts(state: ReviewQueueState, proposal: Proposal) -> list[str]:
    """Return why a proposal must be named before it is approved with others."""
    return list(filter(None, (*reasons_against_bulk_approval(proposal), describe_failed_checks(state, proposal.id))))


def describe_failed_checks(state: ReviewQueueState, proposal_id: str) -> str:
    """Return the failed checks: `the check tests fails (3 failed, 0 before)`; empty if none."""
    checked = state.checks.get(proposal_id)
    return ", ".join(f"the check {one.name} fails ({one.summary})" for one in checked.new_failures) if checked else ""


def _describe_unseen(state: ReviewQueueState, proposal: Proposal) -> list[str]:
    """Return in a few words how much of it was never on screen; empty if nothing."""
    missing = state.unseen_parts(proposal)
    if not missing.lines:
        return [f"{_join_items(missing.paths)} never on screen"] if missing else []
    verb = "was" if missing.lines == 1 else "were"
    return [f"{missing.lines:,} of {format_count(missing.total, 'changed line')} {verb} never on screen"]


def describe_unseen_parts(name: str, unseen: UnseenPartsSummary) -> str:
    """Return for example `1,973 of 2,000 changed lines of P1 were never on screen (big.py)`."""
    files = _join_items(unseen.paths)
    if not unseen.lines:
        return f"{files} of {name} {'was' if len(unseen.paths) == 1 else 'were'} never on screen"
    whole = f"{unseen.lines:,} of {format_count(unseen.total, 'changed line')} of {name}"
    return f"{whole} {'was' if unseen.lines == 1 else 'were'} never on screen ({files})"


def describe_seen_and_reproduced_files(proposal: Proposal, unseen: UnseenPartsSummary) -> str:
    """Return how many files of a proposal were seen, and that its command gave the rest twice alike.

    `3 of 412 files of P9 were on screen; the rest is what “make fmt” gave twice, byte for byte`.
    """
    seen = f"{len(proposal.files) - len(unseen.paths):,} of {format_count(len(proposal.files), 'file')}"
    command = " ".join(proposal.recipe.command.split()) if proposal.recipe else ""
    return f"{seen} of {proposal.id} were on screen; the rest is what {_quote((command,))} gave twice, byte for byte"


def _join_items(items: Sequence[str]) -> str:
    return join_first(items, 4) if len(items) > 4 else join_with_and(items)


def reasons_against_bulk_approval(proposal: Proposal) -> list[str]:
    """Return why a proposal must be named before it is approved with others."""
    return list(
        dict.fromkeys(caveat for change in proposal.files for caveat in find_file_bulk_approval_caveats(change))
    )


def find_file_bulk_approval_caveats(change: FileChange) -> list[str]:
    """Return why a file must be named before its proposal is approved with others."""
    caveats = []
    if change.op is FileOperation.DELETE:
        caveats.append(f"deletes {change.path}")
    if change.is_inexact:
        caveats.append(f"inexact match in {change.path}")
    if change.rebased:
        caveats.append(f"re-based {change.path}")
    if mode := describe_mode_change(change):
        caveats.append(f"{mode} of {change.path}")
    if change.warnings:
        caveats.append(f"deceiving text in {change.path}")
    for denied in dict.fromkeys(hunk.repeat_of for hunk in change.hunks if hunk.repeat_of):
        caveats.append(f"repeats in {change.path} what you denied in {denied}")
    return caveats


def can_be_approved(proposal: Proposal) -> bool:
    """Return whether the proposal's state allows an approval."""
    return proposal.state in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)


def can_ask_model_to_redo_stale_proposal(proposal: Proposal) -> bool:
    """Return whether a proposal is stale and not on disk, so that the model can be asked for it again."""
    return proposal.state is ProposalState.STALE and not proposal.on_disk
