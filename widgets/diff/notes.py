"""The lines of plain words above a change: what is special about a file, and about the whole proposal."""

from collections.abc import Iterable, Iterator

from app.proposals.attention.reason import ReasonKind
from app.proposals.attention.summary import reason_line
from app.proposals.models import Conflict, FileChange, FileDiff, Proposal, ProposalState
from app.proposals.origin import OriginKind
from app.proposals.remarks import cautions_of, facts_of
from widgets.diff.rows import NoteRow

_MOST_WARNINGS = 5
_OWN = (OriginKind.MODEL, OriginKind.PATCH, OriginKind.COMMAND)
"""Origins of which the line above the diff and the summary say enough."""

_SAID_BELOW = (ReasonKind.DELETED, ReasonKind.INEXACT, ReasonKind.MODE)
"""Reasons of which a caution says more."""

_CONFLICT_LINES = 3
"""Lines shown of each side of a conflict."""

_STATE_WORDS = {
    ProposalState.STALE: "Stale",
    ProposalState.FAILED: "Failed",
    ProposalState.SUPERSEDED: "Superseded",
}


def warning_notes(changes: Iterable[FileChange]) -> Iterator[NoteRow]:
    """One line for each file whose added lines or name hold something that a reader can't see or could mistake."""
    warned = [(change.path, words) for change in changes for words in change.warnings]
    for path, words in warned[:_MOST_WARNINGS]:
        yield NoteRow(-1, f"{path}: {words}", "warning")
    if len(warned) > _MOST_WARNINGS:
        yield NoteRow(-1, f"The same holds for {len(warned) - _MOST_WARNINGS} more files.", "warning")


def proposal_notes(proposal: Proposal) -> Iterator[NoteRow]:
    """What stands above the first file."""
    if proposal.origin.kind not in _OWN:
        yield NoteRow(-1, f"From {proposal.origin.words}.", "note")
    if words := proposal.ignored_words:
        yield NoteRow(-1, f"{words[0].upper()}{words[1:]}.", "note")
    if word := _STATE_WORDS.get(proposal.state):
        after = f" by {proposal.superseded_by}" if proposal.superseded_by else ""
        reason = f": {proposal.reason}" if proposal.reason else ""
        yield NoteRow(
            -1, f"{word}{after}{reason}", "warning" if proposal.state is ProposalState.SUPERSEDED else "error"
        )
    if proposal.feedback:
        first, *rest = proposal.feedback.splitlines() or [""]
        yield NoteRow(-1, f"You said: {first}", "note")
        for line in rest:
            yield NoteRow(-1, f"          {line}", "note")


def file_notes(file: int, diff: FileDiff) -> Iterator[NoteRow]:
    """What stands under the head of a file."""
    change = diff.change
    for reason in diff.reasons:
        if reason.kind not in _SAID_BELOW:
            yield NoteRow(file, reason_line(reason, change), "warning" if reason.kind.marks else "note")
    for text in facts_of(change):
        yield NoteRow(file, text, "note")
    for text in cautions_of(change):
        yield NoteRow(file, text, "warning")
    for conflict in change.conflicts:
        yield from _conflict(file, conflict)


def _conflict(file: int, conflict: Conflict) -> Iterator[NoteRow]:
    yield NoteRow(file, f"Conflict at line {conflict.line}: the disk and the proposal both changed it.", "error")
    for title, lines in (("on disk ", conflict.disk), ("proposed", conflict.proposed)):
        for line in lines[:_CONFLICT_LINES] or ("(nothing)",):
            yield NoteRow(file, f"    {title} │ {line}", "error")
        if len(lines) > _CONFLICT_LINES:
            yield NoteRow(file, f"    {title} │ … {len(lines) - _CONFLICT_LINES} more lines", "error")
