"""Position and answers of a review that goes through the hunks of one proposal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.proposals.risk.edited_file import sort_in_path_order
from app.proposals.values.models import FileDiff, Hunk, HunkState, Proposal
from app.review.evidence_reasons import add_evidence_reasons, has_evidence_reason
from app.review.hunk_lines import describe_hunk_lines
from app.review.plain_lines import summarize_checks
from app.review.review_state import ReviewState
from app.review.verdicts import can_be_approved
from app.text.plural import plural

Answer = Literal["yes", "no", "later"]


@dataclass
class HunkWalk:
    """The hunks of a proposal that wait, in reading order, with the user's answers."""

    proposal: Proposal
    diffs: Sequence[FileDiff]
    """In reading order."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """By hunk, in the order in which they were given."""
    printed: set[str] = field(default_factory=set)
    """Paths of the files whose heads were printed."""
    shown: str = ""
    """The hunk that was printed last."""

    @classmethod
    def from_diffs(cls, proposal: Proposal, diffs: Sequence[FileDiff]) -> "HunkWalk":
        """Return the walk through a proposal, from its beginning."""
        return cls(proposal, sort_in_path_order(diffs, [diff.change.path for diff in diffs], proposal.order))

    def add_evidence_reasons(self, state: ReviewState) -> None:
        """Put the files first that checks or tests give a reason to look at, with the reason."""
        checked, found = state.checks.get(self.proposal.id), state.evidence.get(self.proposal.id)
        self.diffs = sorted(
            add_evidence_reasons(self.diffs, checked, found), key=lambda diff: not has_evidence_reason(diff)
        )

    def copy_answers(self, before: "HunkWalk") -> None:
        """Take over the answers to hunks of files whose base is still the same."""
        bases = {(change.path, change.base) for change in before.proposal.files}
        still = {hunk.id for diff, hunk in self.hunks if (diff.change.path, diff.change.base) in bases}
        self.answers = {key: answer for key, answer in before.answers.items() if key in still}

    @property
    def hunks(self) -> list[tuple[FileDiff, Hunk]]:
        """The hunks that wait, each with its file."""
        every = ((diff, hunk) for diff in self.diffs for hunk in diff.change.hunks)
        return [(diff, hunk) for diff, hunk in every if hunk.state is HunkState.PENDING]

    @property
    def has_files_without_hunks(self) -> bool:
        """Whether files without hunks wait, which are decided with the proposal as a whole."""
        return any(not change.hunks and change.state is HunkState.PENDING for change in self.proposal.files)

    @property
    def current(self) -> tuple[FileDiff, Hunk] | None:
        """The first hunk without an answer; None where the proposal is decided as a whole."""
        if not can_be_approved(self.proposal):
            return None
        return next((item for item in self.hunks if item[1].id not in self.answers), None)

    @property
    def is_decided_by_one_answer(self) -> bool:
        """Whether the answer to its only hunk decides all of it."""
        return len(self.hunks) == 1 and not self.has_files_without_hunks

    def hunks_with_answer(self, answer: Answer) -> tuple[str, ...]:
        """Return the hunks with this answer."""
        return tuple(hunk.id for _, hunk in self.hunks if self.answers.get(hunk.id) == answer)

    def take_back_last_answer(self) -> bool:
        """Take the last answer back; return whether there was one."""
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
        parts = [f"{verb} {plural(count, 'hunk')}" for verb, count in ((write, yes), (refuse, no)) if count]
        return ", ".join(parts)

    def position_line(self, state: ReviewState) -> str:
        """Return the position of the review in one line."""
        hunks, current = self.hunks, self.current
        parts = [f"{self.proposal.id}: {len(hunks)} hunks" if hunks else f"{self.proposal.id}: no hunks"]
        if current is not None:
            diff, hunk = current
            number = hunks.index(current) + 1
            parts = [
                f"{self.proposal.id}: hunk {number} of {len(hunks)}, {diff.change.path}, {describe_hunk_lines(hunk)}"
            ]
        parts += [
            f"{len(found)} {answer}" for answer in ("yes", "no", "later") if (found := self.hunks_with_answer(answer))
        ]
        missing, lines = state.seen_tracker.seen_lines(self.proposal).count_unseen_of_hunks(
            (hunk for _, hunk in hunks), ()
        )
        if lines:
            parts.append(f"{lines - missing:,} of {plural(lines, 'changed line')} printed")
        if checks := summarize_checks(state.checks.get(self.proposal.id)):
            parts.append(checks)
        return "; ".join(parts) + "."
