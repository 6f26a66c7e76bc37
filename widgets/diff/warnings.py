"""Warnings about characters that make code read differently from what it does (the Trojan Source attacks)."""

from collections.abc import Iterator, Sequence

from app.proposals.models import FileDiff
from app.safe_text import Findings, inspect
from widgets.diff.rows import NoteRow

_MOST_FILES = 5


def character_warnings(diffs: Sequence[FileDiff]) -> Iterator[NoteRow]:
    """One line for each file whose added lines or name hold something that a reader can't see or could mistake."""
    warned = 0
    for diff in diffs:
        added = "\n".join(
            "\n".join(diff.new[hunk.new_start : hunk.new_start + hunk.new_count]) for hunk in diff.change.hunks
        )
        findings = inspect(f"{diff.change.path}\n{added}")
        if not findings:
            continue
        warned += 1
        if warned <= _MOST_FILES:
            yield NoteRow(-1, f"{diff.change.path}: {findings}. {_meaning(findings)}", "warning")
    if warned > _MOST_FILES:
        yield NoteRow(-1, f"The same holds for {warned - _MOST_FILES} more files.", "warning")


def _meaning(findings: Findings) -> str:
    if findings.bidi:
        return "The code may run in another order than it reads."
    if findings.lookalikes:
        return "A name may not be the name it looks like."
    if findings.invisible:
        return "Something is there that editors don't show."
    return "They are shown as glyphs."
