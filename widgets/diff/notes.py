"""The lines of plain words above a change: what is special about a file, and about the whole proposal."""

from collections.abc import Iterator

from app.proposals.models import Conflict, FileChange, Op, Proposal, ProposalState, Rung
from widgets.diff.rows import NoteRow

_RUNG_WORDS = {
    Rung.EXACT: "exactly",
    Rung.TRAILING_SPACE: "ignoring trailing spaces",
    Rung.INDENTATION: "ignoring indentation",
    Rung.SPACING: "ignoring spacing and look-alike punctuation",
    Rung.ALIGNED: "by aligning lines: some context differs",
    Rung.LINE_HINT: "by the model's line number, among several equal places",
    Rung.DOUBTFUL: "with a doubt",
}

_CONFLICT_LINES = 3
"""Lines shown of each side of a conflict."""

_STATE_WORDS = {
    ProposalState.STALE: "Stale",
    ProposalState.FAILED: "Failed",
    ProposalState.SUPERSEDED: "Superseded",
}


def rung_words(rung: Rung) -> str:
    """How an edit was found, as the end of `found …`."""
    return _RUNG_WORDS[rung]


def size_words(size: int) -> str:
    """A file size for people: `512 B`, `1.2 kB`."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def proposal_notes(proposal: Proposal) -> Iterator[NoteRow]:
    """What stands above the first file."""
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


def file_notes(file: int, change: FileChange) -> Iterator[NoteRow]:
    """What stands under the head of a file."""
    for text in _facts(change):
        yield NoteRow(file, text, "note")
    for text in _cautions(change):
        yield NoteRow(file, text, "warning")
    for conflict in change.conflicts:
        yield from _conflict(file, conflict)


def _facts(change: FileChange) -> Iterator[str]:
    if change.already_applied:
        yield "The disk already holds this."
    if change.binary:
        yield _binary_words(change)
    elif not change.hunks and change.op is Op.RENAME:
        yield "Moved; the content stays the same."
    elif not change.hunks and change.op is Op.CREATE:
        yield "A new, empty file."
    if change.edited:
        yield "You changed the proposed text."
    if change.stacked_on:
        yield f"Builds on {', '.join(change.stacked_on)}, still pending."
    yield from change.notes


def _cautions(change: FileChange) -> Iterator[str]:
    if change.op is Op.DELETE:
        yield "The file is deleted."
    if change.trouble:
        yield change.trouble
    if change.base and change.result and change.base.mode != change.result.mode:
        yield f"Mode changes from {change.base.mode:o} to {change.result.mode:o}."
    for match in change.matches:
        if not match.rung.exact:
            extra = f" ({match.note})" if match.note else ""
            yield f"Line {match.line} was found {rung_words(match.rung)}{extra}."
    if change.rebased:
        yield "Re-based: the file changed after the model wrote this edit."
    for repeated in dict.fromkeys(hunk.repeat_of for hunk in change.hunks if hunk.repeat_of):
        yield f"Repeats an edit that you denied in {repeated} (↻)."


def _binary_words(change: FileChange) -> str:
    before = size_words(change.base.size) if change.base else "nothing"
    after = size_words(change.result.size) if change.result else "nothing"
    return f"Binary file: {before} → {after}. It is decided as a whole."


def _conflict(file: int, conflict: Conflict) -> Iterator[NoteRow]:
    yield NoteRow(file, f"Conflict at line {conflict.line}: the disk and the proposal both changed it.", "error")
    for title, lines in (("on disk ", conflict.disk), ("proposed", conflict.proposed)):
        for line in lines[:_CONFLICT_LINES] or ("(nothing)",):
            yield NoteRow(file, f"    {title} │ {line}", "error")
        if len(lines) > _CONFLICT_LINES:
            yield NoteRow(file, f"    {title} │ … {len(lines) - _CONFLICT_LINES} more lines", "error")
