"""Facts about a file in one line: its sign, its name, and the effect of an approval."""

from collections.abc import Iterable, Iterator
from typing import Literal

from rich.cells import cell_len

from app.proposals.risk.change_summary import format_attention_reason
from app.proposals.text.file_warnings import describe_file_cautions, describe_file_facts, describe_mode_change
from app.proposals.values.attention_reason import ReasonKind
from app.proposals.values.models import (
    ConflictingLines,
    FileChange,
    FileDiff,
    FileOperation,
    Proposal,
    ProposalState,
)
from app.proposals.values.origin import OriginKind
from app.text.quantities import format_count, format_path
from widgets.diff.diff_rows import NoteRow
from widgets.diff.display_cells import display_text
from widgets.diff.render_context import RenderContext

_MAX_WARNINGS = 5
_ORIGINS_WITHOUT_NOTE = (OriginKind.MODEL, OriginKind.PATCH, OriginKind.COMMAND)
"""Origins that need no note, because the line above the diff and the summary show them."""

_REASONS_WITH_CAUTION = (ReasonKind.DELETED, ReasonKind.INEXACT, ReasonKind.MODE)
"""Reasons for which a caution gives more details."""

_MAX_CONFLICT_LINES = 3
"""Maximum lines shown of each side of a conflict."""

_STATE_WORDS = {ProposalState.STALE: "Stale", ProposalState.FAILED: "Failed", ProposalState.SUPERSEDED: "Superseded"}


def misleading_text_warning_notes(changes: Iterable[FileChange]) -> Iterator[NoteRow]:
    """Yield a note for each of the first warnings about invisible or misleading text; count the others."""
    warnings = [(change.path, warning) for change in changes for warning in change.warnings]
    for path, warning in warnings[:_MAX_WARNINGS]:
        yield NoteRow(-1, f"{path}: {warning}", "warning")
    if len(warnings) > _MAX_WARNINGS:
        yield NoteRow(-1, f"And {format_count(len(warnings) - _MAX_WARNINGS, 'more warning')}.", "warning")


def proposal_notes(proposal: Proposal) -> Iterator[NoteRow]:
    """Yield the notes above a proposal's first file: its origin, ignored files, state, and the user's feedback."""
    if proposal.origin.kind not in _ORIGINS_WITHOUT_NOTE:
        yield NoteRow(-1, f"From {proposal.origin.description}.", "note")
    if ignored_note := proposal.ignored_files_note:
        yield NoteRow(-1, f"{ignored_note[0].upper()}{ignored_note[1:]}.", "note")
    if state_word := _STATE_WORDS.get(proposal.state):
        superseded_by = f" by {proposal.superseded_by}" if proposal.superseded_by else ""
        reason = f": {proposal.reason}" if proposal.reason else ""
        level: Literal["warning", "error"] = "warning" if proposal.state is ProposalState.SUPERSEDED else "error"
        yield NoteRow(-1, f"{state_word}{superseded_by}{reason}", level)
    if proposal.feedback:
        first, *rest = proposal.feedback.splitlines() or [""]
        yield NoteRow(-1, f"You said: {first}", "note")
        for line in rest:
            yield NoteRow(-1, f"          {line}", "note")


def notes_below_file_heading(file: int, diff: FileDiff) -> Iterator[NoteRow]:
    """Yield the notes under the heading of a file: reasons for attention, facts, cautions, conflicts."""
    change = diff.change
    for reason in diff.reasons:
        if reason.kind not in _REASONS_WITH_CAUTION:
            yield NoteRow(file, format_attention_reason(reason, change), "warning" if reason.kind.is_risk else "note")
    for text in describe_file_facts(change):
        yield NoteRow(file, text, "note")
    for text in describe_file_cautions(change):
        yield NoteRow(file, text, "warning")
    for conflict in change.conflicts:
        yield from _conflict_notes(file, conflict)


def _conflict_notes(file: int, conflict: ConflictingLines) -> Iterator[NoteRow]:
    yield NoteRow(file, f"Conflict at line {conflict.line}: the disk and the proposal both changed it.", "error")
    for title, lines in (("on disk ", conflict.disk), ("proposed", conflict.proposed)):
        for line in lines[:_MAX_CONFLICT_LINES] or ("(nothing)",):
            yield NoteRow(file, f"    {title} │ {line}", "error")
        if len(lines) > _MAX_CONFLICT_LINES:
            more = format_count(len(lines) - _MAX_CONFLICT_LINES, "more line")
            yield NoteRow(file, f"    {title} │ … {more}", "error")


_OPERATION_LABELS = {
    FileOperation.CREATE: ("+", "new file"),
    FileOperation.EDIT: ("~", ""),
    FileOperation.DELETE: ("-", "deleted"),
    FileOperation.RENAME: ("→", "renamed"),
    FileOperation.MODE: ("±", ""),
}

_SORTED_LAST_LABELS = {ReasonKind.LOCK: "lock file", ReasonKind.GENERATED: "generated"}

StyledFact = tuple[str, str]
"""Safe text and its component class."""


def file_operation_sign(change: FileChange) -> StyledFact:
    """Return the sign of the operation on a file, and its component class."""
    glyph = _OPERATION_LABELS[change.op][0]
    return glyph, {"+": "diff--file-added", "-": "diff--file-removed"}.get(glyph, "diff--file")


def format_file_name(change: FileChange, max_cells: int) -> str:
    """Return a file's name for display: `old → new` if it is renamed, shortened at its start to fit."""
    name = format_path(display_text(change.path).text, display_text(change.old_path).text)
    return name if cell_len(name) <= max_cells else f"…{_last_cells(name, max_cells - 1)}"


def attention_sign(diff: FileDiff) -> str:
    """Return a sign for a file that needs attention; a space for others."""
    return "!" if any(reason.kind.is_risk for reason in diff.reasons) else " "


def format_main_attention_reason(diff: FileDiff) -> list[StyledFact]:
    """Return the most serious reason why a file needs attention, with the number of other reasons; empty if none."""
    risks = [reason for reason in diff.reasons if reason.kind.is_risk]
    if not risks:
        return []
    # The kinds are defined from the most serious to the least.
    main_risk = min(risks, key=lambda reason: list(ReasonKind).index(reason.kind))
    more = f" and {len(risks) - 1} more" if len(risks) > 1 else ""
    return [(f"{display_text(main_risk.description).text}{more}", "diff--file-warning")]


def file_heading_facts(diff: FileDiff, context: RenderContext) -> list[StyledFact]:
    """Return the facts right of a file's name: hunks, kind of change, line counts of the chosen hunks."""
    change = diff.change
    facts: list[StyledFact] = []
    if diff.is_sorted_last:
        facts.append((_SORTED_LAST_LABELS[diff.reasons[0].kind], "diff--file-quiet"))
    added, removed = change.added, change.removed
    # Examine the hunks only if some are excluded: there may be many, and this function is called often.
    has_exclusions = context.undecided and bool(context.left_out)
    pending = change.pending_hunks if has_exclusions else []
    chosen = [hunk for hunk in pending if hunk.id not in context.left_out]
    if len(chosen) < len(pending):
        facts.append((f"{len(chosen)} of {len(pending)} hunks", "diff--file-warning"))
        added, removed = sum(hunk.new_count for hunk in chosen), sum(hunk.old_count for hunk in chosen)
    elif len(change.hunks) > 1:
        facts.append((format_count(len(change.hunks), "hunk"), "diff--file-quiet"))
    if operation := _OPERATION_LABELS[change.op][1]:
        facts.append((operation, "diff--file-quiet"))
    if mode_change := describe_mode_change(change):
        facts.append((mode_change, "diff--file-warning"))
    if added:
        facts.append((f"+{added:,}", "diff--file-added"))
    if removed:
        facts.append((f"-{removed:,}", "diff--file-removed"))
    return facts


def _last_cells(text: str, width: int) -> str:
    """Return the end of a text, at most `width` cells."""
    while cell_len(text) > width:
        text = text[1:]
    return text
