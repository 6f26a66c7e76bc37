"""Computed one-line summary of a proposal, independent of its author's words."""

import re
from collections.abc import Sequence

from app.proposals.values.attention_reason import AttentionReason, ReasonKind, format_reason_clause
from app.proposals.values.models import FileChange, Proposal
from app.proposals.values.origin import OriginKind
from app.text.quantities import format_count, join_first

_KINDS = tuple(ReasonKind)
"""The gravest first."""
_AUTHORS = {
    OriginKind.MODEL: "The model",
    OriginKind.COMMAND: "The model",
    OriginKind.AGENT: "The agent",
    OriginKind.REF: "The commit",
}
_COMMAND_PREFIX = "Command: "
_COMMAND_PREFIXES = (_COMMAND_PREFIX, "Result of: ")
"""Prefixes of the summary of a command's result; the second is from earlier versions."""
_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_LINE_END_GLYPH = " ⏎ "
"""Replaces the line ends of a command in a summary of one line."""
_MAX_NAMED_LINES = 4
"""Maximum number of lines that a reason names."""


def default_proposal_summary(changes: Sequence[FileChange]) -> str:
    """Return the summary of a proposal whose author gives none: `Edit a.py and 2 more`."""
    return f"{changes[0].op.value.capitalize()} {join_first([change.path for change in changes], 1)}"


def default_command_summary(command: str) -> str:
    """Return the summary of a command's changes if the model gives none; white space of the command is preserved."""
    return f"{_COMMAND_PREFIX}{_LINE_ENDS.sub(_LINE_END_GLYPH, command.strip())}"


def is_default_command_summary(summary: str) -> bool:
    """Return whether a summary is the default one of a command: the command as it was run, with its white space."""
    return summary.startswith(_COMMAND_PREFIXES) and not _LINE_ENDS.search(summary)


def attribute_summary_to_author(proposal: Proposal) -> str:
    """Return the author's summary with its author, `The model says: …`; empty if there is none."""
    if proposal.origin.kind is OriginKind.COMMAND and is_default_command_summary(proposal.summary):
        return proposal.summary
    if proposal.origin.kind not in _AUTHORS or proposal.summary in ("", default_proposal_summary(proposal.files)):
        return ""
    return f"{_AUTHORS[proposal.origin.kind]} says: {proposal.summary}"


def summarize_size_and_risks(proposal: Proposal) -> str:
    """Return size and risks in a line: `+3 -41 in 2 files, removes 2 tests, touches .github/`.

    It is empty if it would only repeat the heading of the only file.
    """
    changes, reasons = proposal.counted_changes, risk_summary_clauses(proposal)
    if len(changes) == 1 and not reasons:
        return ""
    counts = [f"{sign}{count:,}" for sign, count in (("+", proposal.added), ("-", proposal.removed)) if count]
    files = format_count(len(changes), "file")
    return ", ".join((f"{' '.join(counts)} in {files}" if counts else files, *reasons))


def risk_summary_clauses(proposal: Proposal) -> list[str]:
    """Return a clause for each kind of risk, the gravest first: `removes 2 tests`, `touches .github/`."""
    paths = {change.path for change in proposal.counted_changes}
    groups: dict[tuple[ReasonKind, Sequence[str]], list[AttentionReason]] = {}
    for reason in proposal.reasons:
        if reason.kind.is_risk and reason.path in paths:
            # Which permission is gained belongs to its files.
            groups.setdefault((reason.kind, reason.names if reason.kind is ReasonKind.MODE else ()), []).append(
                reason
            )
    clauses = []
    for (kind, _), reasons in sorted(groups.items(), key=lambda item: _KINDS.index(item[0][0])):
        names = tuple(dict.fromkeys(name for reason in reasons for name in reason.names))
        count, files = sum(reason.count for reason in reasons), len(reasons) if len(paths) > 1 else 0
        clauses.append(format_reason_clause(kind, () if kind is ReasonKind.TESTS else names, count, files))
    return clauses


def format_attention_reason(reason: AttentionReason, change: FileChange) -> str:
    """Return a reason for the head of its file, with its lines: `Removes 2 asserts (old line 12).`"""
    text = reason.description
    lines = [_present_line_number(place.hunk, place.offset, place.side, change) for place in reason.places]
    numbers = list(dict.fromkeys(line for line in lines if line))
    if numbers:
        old = "old " if reason.places[0].side == "old" else ""
        named = join_first([*map(str, numbers)], _MAX_NAMED_LINES)
        text += f" ({old}{'line' if len(numbers) == 1 else 'lines'} {named})"
    return f"{text[0].upper()}{text[1:]}."


def _present_line_number(hunk_id: str, offset: int, side: str, change: FileChange) -> int:
    """Return the present number of a line, from 1; 0 if its hunk does not exist any more."""
    for hunk in change.hunks:
        start, count = (hunk.old_start, hunk.old_count) if side == "old" else (hunk.new_start, hunk.new_count)
        if hunk_id == hunk.id and offset < count:
            return start + offset + 1
    return 0
