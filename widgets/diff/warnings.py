"""Warnings about characters that make code read differently from what it does (the Trojan Source attacks)."""

from collections.abc import Iterator, Sequence

from app.proposals.models import FileDiff
from app.safe_text import Findings, inspect
from widgets.diff.rows import NoteRow

_MOST_FILES = 5

_INSPECTED_LINES = 1_000
"""Lines inspected in one go."""


def character_warnings(diffs: Sequence[FileDiff]) -> Iterator[NoteRow]:
    """One line for each file whose added lines or name hold something that a reader can't see or could mistake."""
    warned = 0
    for diff in diffs:
        findings = _findings(diff)
        if not findings:
            continue
        warned += 1
        if warned <= _MOST_FILES:
            yield NoteRow(-1, f"{diff.change.path}: {findings}. {_meaning(findings)}", "warning")
    if warned > _MOST_FILES:
        yield NoteRow(-1, f"The same holds for {warned - _MOST_FILES} more files.", "warning")


def _findings(diff: FileDiff) -> Findings:
    """What is in the name and the added lines of a file; a little at a time, so that keys come in between."""
    parts = [inspect(diff.change.path)]
    for hunk in diff.change.hunks:
        last = hunk.new_start + hunk.new_count
        for start in range(hunk.new_start, last, _INSPECTED_LINES):
            parts.append(inspect("\n".join(diff.new[start : min(last, start + _INSPECTED_LINES)])))
    return Findings(
        sum(part.control for part in parts),
        sum(part.bidi for part in parts),
        sum(part.invisible for part in parts),
        tuple(dict.fromkeys(word for part in parts for word in part.lookalikes)),
    )


def _meaning(findings: Findings) -> str:
    if findings.bidi:
        return "The code may run in another order than it reads."
    if findings.lookalikes:
        return "A name may not be the name it looks like."
    if findings.invisible:
        return "Something is there that editors don't show."
    return "They are shown as glyphs."
