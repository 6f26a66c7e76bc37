"""Applies some of the changes of a diff."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from app.proposals.text.diff import LineChange

Line = TypeVar("Line")


def apply_changes(old: Sequence[Line], new: Sequence[Line], changes: Iterable[LineChange]) -> list[Line]:
    """Return `old` with only these changes made; they are any subset, in order, of `diff_lines(old, new)`."""
    result: list[Line] = []
    at = 0
    for change in changes:
        result += old[at : change.old_start]
        result += new[change.new_start : change.new_end]
        at = change.old_end
    result += old[at:]
    return result
