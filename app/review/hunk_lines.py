"""Lines of a hunk: their numbers on both sides, and their texts."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from app.proposals.values.models import FileDiff, Hunk

Side = Literal["old", "new"]
"""Which text of a file a line belongs to."""


class HunkRange(NamedTuple):
    """The lines of a part of a hunk."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


def hunk_line_numbers(hunk: Hunk | HunkRange, side: Side) -> range:
    """Return the line numbers of a hunk on one side."""
    if side == "old":
        return range(hunk.old_start, hunk.old_start + hunk.old_count)
    return range(hunk.new_start, hunk.new_start + hunk.new_count)


def hunk_texts(diff: FileDiff, hunk: Hunk | HunkRange) -> tuple[Sequence[str], Sequence[str]]:
    """Return the removed and the added lines of a hunk."""
    return (
        diff.old[hunk.old_start : hunk.old_start + hunk.old_count],
        diff.new[hunk.new_start : hunk.new_start + hunk.new_count],
    )


def side_text(diff: FileDiff, side: Side) -> Sequence[str]:
    """Return the old or the new text of a file."""
    return diff.old if side == "old" else diff.new


def changed_line_index(hunk: Hunk, side: Side, line: int) -> int:
    """Return the index of a changed line in its hunk, removed lines before added ones."""
    return line - hunk.old_start if side == "old" else hunk.old_count + line - hunk.new_start


def changed_line_at(hunk: Hunk | HunkRange, number: int) -> tuple[Side, int]:
    """Return the changed line of a hunk with this index."""
    if number < hunk.old_count:
        return "old", hunk.old_start + number
    return "new", hunk.new_start + number - hunk.old_count


def proposed_text(diff: FileDiff, *, before: bool = False) -> str:
    """Return the text that an approval would write; with `before`, the text that it replaces."""
    lines, ends = (diff.old, diff.old_final_newline) if before else (diff.new, diff.new_final_newline)
    return "\n".join(lines) + ("\n" if lines and ends else "")


def describe_hunk_lines(hunk: Hunk) -> str:
    """Return the lines of a hunk in words: `lines 12 to 15`, `old line 3`."""
    side, lines = ("", hunk_line_numbers(hunk, "new")) if hunk.new_count else ("old ", hunk_line_numbers(hunk, "old"))
    if len(lines) == 1:
        return f"{side}line {lines.start + 1}"
    return f"{side}lines {lines.start + 1} to {lines.stop}"
