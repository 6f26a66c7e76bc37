"""A review by lines, without a screen: a proposal as text, and the user's position and answers among its hunks."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, field

from app.automation.check_results import CheckState, ProposalCheckResult, ProposalChecks
from app.proposals.risk.change_summary import (
    attribute_summary_to_author,
    format_attention_reason,
    summarize_size_and_risks,
)
from app.proposals.risk.edited_file import sort_in_path_order
from app.proposals.text.file_warnings import describe_file_cautions, describe_file_facts
from app.proposals.values.models import FileDiff, Hunk, HunkState, Proposal
from app.review.hunk_lines import (
    add_evidence_reasons,
    describe_hunk_lines,
    has_evidence_reason,
    hunk_line_numbers,
    uncovered_line_numbers,
)
from app.review.review_state import ReviewQueueState
from app.review.unfinished_review import pending_files_without_hunks
from app.review.verdicts import can_be_approved, describe_proposal_state_in_review
from app.text.quantities import format_count, join_first

_CONTEXT_LINES = 3
"""Unchanged lines above and below a hunk."""
_MAX_NAMED_LINES = 10
"""Maximum number of lines that a note about uncovered lines names."""
_NO_NEWLINE = "\\ No newline at the end"


def format_proposal_head(state: ReviewQueueState, proposal: Proposal) -> Iterator[str]:
    """Yield the head of a proposal: its summary, its origin, its changes, and cautions."""
    author_summary = attribute_summary_to_author(proposal)
    place = f"{state.queue_number(proposal.id)} of {state.waiting_count} waiting"
    yield f"{proposal.id}, {place}." if author_summary else f"{proposal.id}, {place}: {proposal.summary}"
    yield f"From {proposal.origin.description}."
    if proposal.supersedes:
        yield f"Version {proposal.version}, instead of {proposal.supersedes}."
    if author_summary:
        yield author_summary
    counts = f"+{proposal.added:,} -{proposal.removed:,} in {format_count(len(proposal.counted_changes), 'file')}"
    yield f"Changes: {summarize_size_and_risks(proposal) or counts}."
    if proposal.on_disk:
        yield "It is on disk already: yes keeps it, no reverts it."
    if proposal.ignored:
        yield proposal.ignored_files_note
    if not can_be_approved(proposal):
        reason = proposal.reason or "the files changed"
        yield f"It is {describe_proposal_state_in_review(proposal)} and cannot be approved: {reason}."
        yield from format_conflicts(proposal)


def format_conflicts(proposal: Proposal) -> Iterator[str]:
    """Yield each conflict of a stale proposal as `git merge-file --diff3` writes it."""
    for change in proposal.files:
        for conflict in change.conflicts:
            yield f"{change.old_path or change.path}, line {conflict.line}:"
            yield "<<<<<<< on disk now"
            yield from conflict.disk
            yield "||||||| before"
            yield from conflict.base
            yield "======="
            yield from conflict.proposed
            yield ">>>>>>> proposed"


def format_check_results(checked: ProposalChecks | None) -> Iterator[str]:
    """Yield the result of each check, with its failures."""
    if checked is None:
        return
    if checked.why_not:
        yield f"Not checked: {checked.why_not}."
    for result in checked.results:
        yield f"Check {_describe_check_result(result)}."
        if result.outcome is not None and result.state is not CheckState.PASSED:
            yield from (f"    {line}" for line in result.outcome.output.rstrip("\n").split("\n") if line)


def _describe_check_result(result: ProposalCheckResult) -> str:
    state = result.state.value.replace("_", " ")
    against = "" if result.has_new_failure or result.state is not CheckState.FAILED else " as before"
    return f"{result.name} {state}{against}{f': {result.summary}' if result.summary else ''}"


def format_file_head(diff: FileDiff, number: int, total: int) -> Iterator[str]:
    """Yield the head of a file, with the reasons to look at it, its cautions and its notes."""
    change = diff.change
    moved = f"{change.old_path} to " if change.old_path else ""
    yield f"File {number} of {total}: {moved}{change.path} ({change.op}, +{change.added:,} -{change.removed:,})"
    for reason in diff.reasons:
        yield f"Reason: {format_attention_reason(reason, change)}"
    for text in (*change.warnings, *describe_file_cautions(change)):
        yield f"Caution: {text}"
    for text in describe_file_facts(change):
        yield f"Note: {text}"
    if not change.hunks and change.state is HunkState.PENDING:
        yield "Note: This file is decided with the proposal as a whole."


def format_hunk_lines(diff: FileDiff, hunk: Hunk, context: int = _CONTEXT_LINES) -> Iterator[str]:
    """Yield a hunk with a sign before each line, and unchanged lines around it."""
    hunks = diff.change.hunks
    at = hunks.index(hunk)
    above = hunks[at - 1].old_start + hunks[at - 1].old_count if at else 0
    below = hunks[at + 1].old_start if at + 1 < len(hunks) else len(diff.old)
    old, new = hunk_line_numbers(hunk, "old"), hunk_line_numbers(hunk, "new")
    yield from (f" {line}" for line in diff.old[max(above, old.start - context) : old.start])
    yield from _format_changed_lines("-", diff.old, old, final_newline=diff.old_final_newline)
    yield from _format_changed_lines("+", diff.new, new, final_newline=diff.new_final_newline)
    yield from (f" {line}" for line in diff.old[old.stop : min(below, old.stop + context)])


def _format_changed_lines(sign: str, texts: Sequence[str], lines: range, *, final_newline: bool) -> Iterator[str]:
    yield from (f"{sign}{text}" for text in texts[lines.start : lines.stop])
    if lines and lines.stop == len(texts) and not final_newline:
        yield _NO_NEWLINE


def format_hunk_notes(state: ReviewQueueState, proposal: Proposal, diff: FileDiff, hunk: Hunk) -> Iterator[str]:
    """Yield the notes on a hunk: evidence, findings of checks, a repeated edit, the user's comments."""
    path = diff.change.path
    if (evidence := state.evidence.get(proposal.id)) is not None and (
        mark := evidence.marks.get(hunk.id)
    ) is not None:
        yield f"Without it: {mark.description}."
    if hunk.repeat_of:
        yield f"Caution: It repeats an edit that you denied in {hunk.repeat_of}."
    uncovered = [line + 1 for line in uncovered_line_numbers(diff) if line in hunk_line_numbers(hunk, "new")]
    if uncovered:
        verb = "are" if len(uncovered) > 1 else "is"
        named = join_first([*map(str, uncovered)], _MAX_NAMED_LINES)
        yield f"Reason: {format_count(len(uncovered), 'changed line')} {verb} run by no test (line {named})."
    checked = state.checks.get(proposal.id)
    for name, finding in checked.findings if checked is not None else ():
        if finding.path == path and finding.line - 1 in hunk_line_numbers(hunk, "new"):
            yield f"Finding of {name}, line {finding.line}: {finding.text}{'' if finding.new else ' (before, too)'}"
    for comment in state.feedback_drafts.remarks.get(proposal.id, ()):
        if comment.path == path and comment.line in hunk_line_numbers(hunk, comment.side):
            yield f"Your comment on line {comment.line + 1}: {comment.text}"


def summarize_checks(checked: ProposalChecks | None) -> str:
    """Return the state of the checks in one line: `checks: tests passed, lint failed`; empty without any."""
    if checked is None or not (checked.results or checked.why_not):
        return ""
    if checked.why_not:
        return "not checked"
    states = ", ".join(
        f"{result.name} {'outdated' if result.stale else result.state.replace('_', ' ')}"
        for result in checked.results
    )
    return f"checks: {states}"


HunkAnswer = Literal["yes", "no", "later"]


class HunkByHunkReview(Struct):
    """A review hunk by hunk: the pending hunks of a proposal in reading order, with the user's answers."""

    proposal: Proposal
    diffs: Sequence[FileDiff]
    """In reading order."""
    answers: dict[str, HunkAnswer] = field(default_factory=dict)
    """Answers by hunk id, in the order in which the user gave them."""
    printed: set[str] = field(default_factory=set)
    """Paths of the files whose heads were printed."""
    shown: str = ""
    """The hunk that was printed last."""

    @classmethod
    def from_diffs(cls, proposal: Proposal, diffs: Sequence[FileDiff]) -> "HunkByHunkReview":
        """Return a walk from the beginning of a proposal."""
        return cls(proposal, sort_in_path_order(diffs, [diff.change.path for diff in diffs], proposal.order))

    def add_evidence_reasons(self, state: ReviewQueueState) -> None:
        """Add reasons from checks and evidence to the files, and put the files with such reasons first."""
        checked, found = state.checks.get(self.proposal.id), state.evidence.get(self.proposal.id)
        self.diffs = sorted(
            add_evidence_reasons(self.diffs, checked, found), key=lambda diff: not has_evidence_reason(diff)
        )

    def copy_answers(self, before: "HunkByHunkReview") -> None:
        """Copy the answers to hunks of files whose base is still the same."""
        bases = {(change.path, change.base) for change in before.proposal.files}
        unchanged = {hunk.id for diff, hunk in self.hunks if (diff.change.path, diff.change.base) in bases}
        self.answers = {key: answer for key, answer in before.answers.items() if key in unchanged}

    @property
    def hunks(self) -> list[tuple[FileDiff, Hunk]]:
        """Return the pending hunks, each with its file."""
        return [(diff, hunk) for diff in self.diffs for hunk in diff.change.pending_hunks]

    @property
    def next_unanswered_hunk(self) -> tuple[FileDiff, Hunk] | None:
        """Return the first hunk without an answer; None if all have one, or the proposal cannot be approved."""
        if not can_be_approved(self.proposal):
            return None
        return next((item for item in self.hunks if item[1].id not in self.answers), None)

    @property
    def is_decided_by_one_answer(self) -> bool:
        """Return whether the answer to its only hunk decides the whole proposal."""
        return len(self.hunks) == 1 and not pending_files_without_hunks(self.proposal)

    def hunks_with_answer(self, answer: HunkAnswer) -> tuple[str, ...]:
        """Return the hunks with this answer."""
        return tuple(hunk.id for _, hunk in self.hunks if self.answers.get(hunk.id) == answer)

    def remove_last_answer(self) -> bool:
        """Remove the last answer; return whether there was one."""
        if self.answers:
            self.answers.popitem()
            return True
        return False

    @property
    def plan_description(self) -> str:
        """Return the result of the answers: `write 2 hunks, deny 1 hunk`; empty if they decide nothing."""
        yes, no = len(self.hunks_with_answer("yes")), len(self.hunks_with_answer("no"))
        write, refuse = ("keep", "take back") if self.proposal.on_disk else ("write", "deny")
        if not self.hunks or yes == len(self.hunks) or no == len(self.hunks):
            verb = refuse if no else write
            return f"{verb} all of {self.proposal.id}"
        parts = [f"{verb} {format_count(count, 'hunk')}" for verb, count in ((write, yes), (refuse, no)) if count]
        return ", ".join(parts)

    def position_line(self, state: ReviewQueueState) -> str:
        """Return the position of the review in one line."""
        hunks, current = self.hunks, self.next_unanswered_hunk
        parts = [f"{self.proposal.id}: {format_count(len(hunks), 'hunk') if hunks else 'no hunks'}"]
        if current is not None:
            diff, hunk = current
            position = hunks.index(current) + 1
            # `signoff show` and `--hunks` count all hunks, by path.
            number = "" if hunk.number == position else f" (number {hunk.number} for --hunks)"
            place = f"{diff.change.path}, {describe_hunk_lines(hunk)}"
            parts = [f"{self.proposal.id}: hunk {position} of {len(hunks)}{number}, {place}"]
        parts += [
            f"{len(hunk_ids)} {answer}"
            for answer in ("yes", "no", "later")
            if (hunk_ids := self.hunks_with_answer(answer))
        ]
        missing, lines = state.seen_tracker.seen_lines(self.proposal).count_unseen_of_hunks(
            (hunk for _, hunk in hunks), ()
        )
        if lines:
            parts.append(f"{lines - missing:,} of {format_count(lines, 'changed line')} printed")
        if checks := summarize_checks(state.checks.get(self.proposal.id)):
            parts.append(checks)
        return "; ".join(parts) + "."
