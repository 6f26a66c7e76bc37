"""Texts for the model about proposals: pending ones, decisions, and the user's feedback."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from app.conversation.events import (
    CallDeniedWithFeedback,
    DecisionKind,
    Event,
    ProposalChanged,
    ProposalDecided,
    ProposalStaged,
)
from app.copies import replace
from app.proposals.values.decision_facts import FileDiffStat, HunkOutcome, LineComment
from app.text.safe_text import make_code_fence


def format_decision_facts(decided: ProposalDecided) -> str:
    """Return the facts of a decision for a system message: proposal, files, hunks, and the current state on disk.

    They don't say that the user's feedback follows: `SystemItem.introduces` does.
    """
    lines = [_headline(decided)]
    if decided.stale:
        lines.append(decided.stale)
    lines += format_hunk_outcomes(decided.hunks, on_disk=decided.on_disk)
    if decided.still_pending and decided.decision is not DecisionKind.EDITED:
        lines.append(f"The other hunks of {decided.proposal} still await the user's decision.")
    return "\n".join(lines)


def format_call_denial(denied: CallDeniedWithFeedback) -> str:
    """Return the fact of a denied call, for a system message before the user's feedback."""
    return _CALL_DENIAL_TEXTS[denied.asked].format(subject=denied.subject)


def format_feedback(decided: ProposalDecided) -> str:
    """Return the user's feedback and line comments in full, as a user message; empty if there are none."""
    parts = [decided.feedback] if decided.feedback.strip() else []
    parts += [_format_comment(comment) for comment in decided.comments]
    return "\n\n".join(parts)


def format_file_stats(files: Iterable[FileDiffStat]) -> str:
    """Return e.g. `a.py (edit, +3 -1), b.py (create, +10 -0)`."""
    return ", ".join(f"{file.path} ({file.op}, +{file.added} -{file.removed})" for file in files)


_HEADLINES = {
    DecisionKind.APPROVED: "The user approved proposal {id}. It is written to disk now",
    DecisionKind.PARTLY_APPROVED: "The user approved proposal {id} in part. Only the hunks that landed are on disk; "
    "build on the files as they are now",
    DecisionKind.DENIED: "The user denied proposal {id}. Nothing of it was written",
    DecisionKind.UNDONE: "The user undid proposal {id}. Its changes are no longer on disk",
    DecisionKind.REDONE: "The user applied proposal {id} again. Its changes are on disk",
    DecisionKind.REOPENED: "The user took back the denial of proposal {id}. It awaits the user's decision again, and "
    "nothing of it is on disk",
    DecisionKind.EDITED: "The user changed the proposed text of {id} by hand. It awaits approval in the new form",
}
_CALL_DENIAL_TEXTS = {
    "command": "The user did not allow the command `{subject}`. It did not run.",
    "server": "The user did not allow the call of {subject}. It did not run.",
    "secret": "The user did not let you see {subject}.",
    "changes": "The user had the changes of `{subject}` thrown away. Nothing was staged.",
    "ignored": "The user had what `{subject}` wrote of what git ignores thrown away.",
}
_HUNK_HEADLINES = {
    DecisionKind.DENIED: "The user denied hunks of proposal {id}. They were not written",
    DecisionKind.REOPENED: "The user took back the denial of hunks of proposal {id}. They await the user's decision "
    "again",
}
_ON_DISK_HEADLINES = {
    DecisionKind.APPROVED: "The user keeps what proposal {id} shows of the files on disk. They are as they were",
    DecisionKind.PARTLY_APPROVED: "The user keeps a part of what proposal {id} shows of the files on disk",
    DecisionKind.DENIED: "The user denied proposal {id}, of changes that were on disk. They were taken off it; "
    "build on the files as they are now",
    DecisionKind.REOPENED: "The user took back the decision on proposal {id}. Its changes are on disk and await the "
    "user's decision again",
}


def _headline(decided: ProposalDecided) -> str:
    on_disk = _ON_DISK_HEADLINES.get(decided.decision) if decided.on_disk else None
    of_hunks = _HUNK_HEADLINES.get(decided.decision) if decided.hunks else None
    headline = on_disk or of_hunks or _HEADLINES[decided.decision]
    files = f": {format_file_stats(decided.files)}" if decided.files else ""
    return f"{headline.replace('{id}', decided.proposal)}{files}."


def format_hunk_outcomes(hunks: Sequence[HunkOutcome], *, on_disk: bool = False) -> list[str]:
    """Return lines for each hunk: whether it was applied, why not, and the current text of the file there.

    Args:
        on_disk: the hunks were on disk before the decision.
    """
    lines: list[str] = []
    for fact in hunks:
        state = "landed" if fact.landed else "did not land"
        if on_disk:
            state = "not on disk any more" if fact.reason == "denied" else "on disk"
        reason = f" ({fact.reason})" if fact.reason else ""
        lines.append(f"- {fact.path} {fact.header}: {state}{reason}")
        if fact.excerpt:
            lines.append(f"  {fact.path} reads there now:")
            lines += [f"    {line}" for line in fact.excerpt.splitlines()]
    return lines


def _format_comment(comment: LineComment) -> str:
    side = " (before the change)" if comment.side == "old" else ""
    fence = make_code_fence(comment.quote)
    quote = f"\n{fence}diff\n{comment.quote}\n{fence}" if comment.quote else ""
    return f"{comment.path}:{comment.line}{side}{quote}\n{comment.text}"


_FINAL_STATES = frozenset({"applied", "denied", "superseded", "undone", "failed"})


class PendingProposal(Struct, frozen=True):
    """A proposal that the user has not decided completely."""

    id: str
    summary: str
    files: tuple[FileDiffStat, ...]
    partly_decided: bool = False
    state: str = "pending"
    """`stale` if its files have changed."""
    reason: str = ""

    def describe(self) -> str:
        """Return one line for the model."""
        notes = [self.state] if self.state != "pending" else []
        notes += ["some hunks decided"] if self.partly_decided else []
        notes += [self.reason] if self.reason else []
        note = f" ({'; '.join(notes)})" if notes else ""
        return f"{self.id}{note}: {self.summary or 'no summary'} [{format_file_stats(self.files)}]"


class PendingAndDeniedTracker:
    """Fold that tracks the pending proposals, oldest first, and the denials since the last approval."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingProposal] = {}
        self._denied: dict[str, PendingProposal] = {}
        """Denied proposals as they were before the denial."""
        self._denied_in_row: frozenset[str] = frozenset()
        """Ids of the proposals denied since the user's last approval."""
        self.proposed: set[str] = set()
        """Ids of all proposals that this log records as staged."""

    @property
    def denials_in_row(self) -> int:
        """Return how many whole proposals of the model were denied since the last approval; not those of others."""
        return len(self._denied_in_row)

    @property
    def pending(self) -> tuple[PendingProposal, ...]:
        """Return the proposals that still wait for a decision."""
        return tuple(self._pending.values())

    def count_denials_after(self, events: Iterable[Event]) -> int:
        """Return `denials_in_row` as if these events had been applied; this fold does not change."""
        row = self._denied_in_row
        for event in events:
            if isinstance(event, ProposalDecided):
                row = self._denials_after(row, event)
        return len(row)

    def _denials_after(self, row: frozenset[str], decided: ProposalDecided) -> frozenset[str]:
        """Return the proposals denied in a row after this decision."""
        if decided.proposal not in self.proposed:
            return row
        match decided.decision:
            case DecisionKind.APPROVED | DecisionKind.PARTLY_APPROVED:
                return frozenset()
            case DecisionKind.DENIED if not decided.still_pending:
                return row | {decided.proposal}
            case DecisionKind.REOPENED:
                return row - {decided.proposal}
        return row

    def apply(self, event: Event) -> None:
        match event:
            case ProposalStaged():
                self.proposed.add(event.proposal)
                self._pending[event.proposal] = PendingProposal(event.proposal, event.summary, event.files)
                self._pending.pop(event.supersedes, None)
            case ProposalDecided():
                self._apply_decision(event)
            case ProposalChanged() if event.state in _FINAL_STATES:
                self._pending.pop(event.proposal, None)
            case ProposalChanged():
                if proposal := self._pending.get(event.proposal):
                    self._pending[event.proposal] = replace(proposal, state=event.state, reason=event.reason)

    def _apply_decision(self, decided: ProposalDecided) -> None:
        self._denied_in_row = self._denials_after(self._denied_in_row, decided)
        match decided.decision:
            case DecisionKind.DENIED if not decided.still_pending:
                if proposal := self._pending.get(decided.proposal):
                    self._denied[decided.proposal] = proposal
            case DecisionKind.REOPENED:
                if proposal := self._denied.pop(decided.proposal, None):
                    self._pending[decided.proposal] = proposal
                return
            case DecisionKind.EDITED:
                return
        proposal = self._pending.pop(decided.proposal, None)
        if proposal is not None and decided.still_pending:
            self._pending[decided.proposal] = replace(proposal, partly_decided=True)
