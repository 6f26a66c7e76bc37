"""Facts and warnings about a file that a reviewer should know before deciding."""

import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.concurrency import iterate_when_event_loop_idle
from app.proposals.text.document import MAX_BYTES, MAX_COMPARED_LINES, Document
from app.proposals.values.models import FileChange, FileOperation, FileVersion, Hunk, MatchLevel, Proposal
from app.proposals.values.pending_paths import abbreviate_proposal_ids, has_undecided_part

if TYPE_CHECKING:
    from app.text.deceiving_text import DeceptiveTextFindings

_LEVEL_DESCRIPTIONS = {
    MatchLevel.EXACT: "exactly",
    MatchLevel.TRAILING_SPACE: "ignoring trailing spaces",
    MatchLevel.INDENTATION: "ignoring indentation",
    MatchLevel.SPACING: "ignoring spacing and look-alike punctuation",
    MatchLevel.ALIGNED: "by aligning lines: some context differs",
    MatchLevel.LINE_HINT: "by its line number, among several equal places",
    MatchLevel.DOUBTFUL: "with a doubt",
}

_SPECIAL_BITS = ((stat.S_ISUID, "setuid"), (stat.S_ISGID, "setgid"), (stat.S_ISVTX, "sticky"))
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH

_MAX_INSPECTED_LINES = 1_000
"""Maximum lines that are inspected at once."""


def describe_match_level(level: MatchLevel) -> str:
    """Return a matching level in words that follow `found`: `exactly`, `ignoring indentation`."""
    return _LEVEL_DESCRIPTIONS[level]


def format_size(size: int) -> str:
    """Return a file size for display: `512 B`, `1.2 kB`."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def describe_file_facts(change: FileChange) -> Iterator[str]:
    """Yield the facts about a changed file that the review shows as notes."""
    if change.already_applied:
        yield "It is no longer on disk." if change.on_disk else "The disk already holds this."
    if change.involves_link:
        yield "A symbolic link is decided as a whole."
    elif change.binary:
        before = format_size(change.base.size) if change.base else "nothing"
        after = format_size(change.result.size) if change.result else "nothing"
        sizes = (version.size for version in (change.base, change.result) if version)
        largest = max(sizes, default=0)
        kind = "Large file" if largest > MAX_BYTES else "Binary file"
        if MAX_COMPARED_LINES < largest <= MAX_BYTES:
            kind = f"Binary file, or text of over {MAX_COMPARED_LINES:,} lines"
        yield f"{kind}: {before} → {after}. It is decided as a whole."
    elif not change.hunks and change.op is FileOperation.RENAME:
        yield "Moved; the content stays the same."
    elif not change.hunks and change.op is FileOperation.CREATE:
        yield "A new, empty file."
    if change.edited:
        yield "You changed the proposed text."
    if change.stacked_on and has_undecided_part(change):
        yield f"Builds on {abbreviate_proposal_ids(change.stacked_on)}, still pending."
    yield from change.notes
    yield from change.mentions


def describe_file_cautions(change: FileChange) -> Iterator[str]:
    """Yield what a reviewer has to know about a file before approving it."""
    if change.op is FileOperation.DELETE:
        yield "The file was deleted." if change.on_disk else "The file is deleted."
    if change.name_problem:
        yield change.name_problem
    yield from _describe_mode_cautions(change)
    for match in change.matches:
        if match.rung is MatchLevel.DOUBTFUL:
            yield f"Line {match.line} is in doubt{f': {match.note}' if match.note else ''}."
        elif not match.rung.is_exact:
            extra = f" ({match.note})" if match.note else ""
            yield f"Line {match.line} was found {describe_match_level(match.rung)}{extra}."
    if change.rebased and change.on_disk:
        yield "The file changed after this was staged; what is shown is what is on disk now."
    elif change.rebased:
        yield "Re-based: this edit was written for another version of the file."
    for repeated in dict.fromkeys(hunk.repeat_of for hunk in change.hunks if hunk.repeat_of):
        yield f"Repeats an edit that you denied in {repeated}."


def describe_proposal_cautions(proposal: Proposal) -> Iterator[tuple[str, str]]:
    """Yield the cautions of all files, including deceptive text, each with its path."""
    for change in proposal.files:
        for caution in (*change.warnings, *describe_file_cautions(change)):
            yield change.path, caution


def describe_mode_change(change: FileChange) -> str:
    """Return the change of the mode in a word or two: `755` for a new executable file, `644 → 755`."""
    base, result = change.base, change.result
    if change.involves_link:
        return "symbolic link"
    if result is None or (base is not None and base.mode == result.mode and not _describe_special_bits(result)):
        return ""
    if base is None or base.mode == result.mode:
        return f"mode {result.mode:o}" if base or result.mode & _EXECUTABLE or _describe_special_bits(result) else ""
    return f"mode {base.mode:o} → {result.mode:o}"


def _describe_mode_cautions(change: FileChange) -> Iterator[str]:
    base, result = change.base, change.result
    if result is None:
        return
    if change.involves_link:
        if base is not None and base.is_link != result.is_link:
            yield "The file becomes a symbolic link." if result.is_link else "The symbolic link becomes a file."
        elif base is None:
            yield "It is a symbolic link."
        return
    if base is None:
        if result.mode & _EXECUTABLE:
            yield f"The new file can be executed: its mode is {result.mode:o}."
    elif base.mode != result.mode:
        effect = ", which lets it be executed" if result.mode & _EXECUTABLE & ~base.mode else ""
        condition = ", with whichever hunk is approved" if change.hunks and not change.on_disk else ""
        verb = "changed" if change.on_disk else "changes"
        yield f"Mode {verb} from {base.mode:o} to {result.mode:o}{effect}{condition}."
    if special_bits := _describe_special_bits(result):
        verb = "stays" if base is not None and _describe_special_bits(base) == special_bits else "becomes"
        yield f"The file {verb} {special_bits} (mode {result.mode:o})."


def _describe_special_bits(version: FileVersion) -> str:
    return " and ".join(name for bit, name in _SPECIAL_BITS if version.mode & bit)


def deceptive_text_warnings_and_remarks(
    path: str, result: Document, hunks: Sequence[Hunk]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return warnings about deceptive text in a file's path and added lines, and remarks on harmless text."""
    # Imported here: opening a session imports this module, but inspects no text.
    from app.text.deceiving_text import merge_deceptive_text_findings

    findings = merge_deceptive_text_findings(_inspect_changed_text(path, result, hunks))
    return (f"{findings}. {findings.worst_effect}",) if findings else (), findings.harmless_remarks


def _inspect_changed_text(path: str, result: Document, hunks: Sequence[Hunk]) -> "Iterable[DeceptiveTextFindings]":
    """Yield the findings of a few lines at a time, so that other threads can run in between."""
    from app.text.deceiving_text import find_deceptive_characters

    yield find_deceptive_characters(path)
    for hunk in hunks:
        last = hunk.new_start + hunk.new_count
        for start in iterate_when_event_loop_idle(range(hunk.new_start, last, _MAX_INSPECTED_LINES)):
            yield find_deceptive_characters(
                "\n".join(result.line_texts[start : min(last, start + _MAX_INSPECTED_LINES)])
            )
