"""Edits of lines: apply them to the bytes of a file, and merge those of two sides (diff3).

An edit replaces runs of lines; everything else stays unchanged. In a merge, two changes that touch or overlap in the
base form one region. If both sides have the same result in it, it is taken once; otherwise it is a conflict. `git
merge-file` does the same, and wherever that merges cleanly, the result here is equal. The theory is in S. Khanna, K.
Kunal, B. Pierce, "A Formal Investigation of Diff3" (2007).
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.text.document import Document


class LineEdit(Struct, frozen=True):
    """The replacement of the lines from `start` to `end` of a document by other lines."""

    start: int
    end: int
    lines: tuple[bytes, ...]


class LineEdits:
    """Replacements of line ranges of one document, in order of place, without overlaps."""

    def __init__(self) -> None:
        self._edits: list[LineEdit] = []

    def __bool__(self) -> bool:
        return bool(self._edits)

    def _find_index(self, start: int, end: int) -> int:
        return bisect_right(self._edits, (start, end), key=lambda edit: (edit.start, edit.end))

    def has_changes_within(self, start: int, end: int) -> bool:
        """Return whether an edit changes a line from `start` to `end` or inserts one between them."""
        at = self._find_index(start, end)
        return any(edit.start < end and start < edit.end for edit in self._edits[max(at - 1, 0) : at + 1])

    def has_overlap_with(self, edits: Iterable[LineEdit]) -> bool:
        """Return whether one of the edits replaces a line that is edited already, or inserts inside such lines."""
        return any(self.has_changes_within(edit.start, edit.end) for edit in edits)

    def add(self, edits: Iterable[LineEdit]) -> None:
        """Add edits; of two insertions at one place, the later one comes second."""
        for edit in edits:
            self._edits.insert(self._find_index(edit.start, edit.end), edit)

    def apply_to(self, document: Document) -> bytes:
        """Return the bytes of the document with all edits applied."""
        lines = document.lines_without_mark
        pieces = [document.byte_order_mark]
        at = 0
        for edit in self._edits:
            pieces += lines[at : edit.start]
            pieces += edit.lines
            at = edit.end
        pieces += lines[at:]
        return b"".join(pieces)


class InsertedLine(Struct, frozen=True):
    """A line to insert."""

    text: str
    ending: str | None = None
    """Its ending if the edit specifies it (`""` for a last line without newline), None for that of its
    surroundings.
    """


Parts = Sequence[int | InsertedLine]
"""The new content of a range of lines: numbers of kept lines, in order, and new lines between them."""


def diff_kept_and_inserted_lines(
    document: Document, start: int, end: int, new_texts: Sequence[str]
) -> list[int | InsertedLine]:
    """Return the kept and inserted lines that turn lines `start` to `end` into `new_texts`, by a diff."""
    parts: list[int | InsertedLine] = []
    at = 0
    for change in diff_lines(document.line_texts[start:end], new_texts):
        parts.extend(range(start + at, start + change.old_start))
        parts.extend(InsertedLine(text) for text in new_texts[change.new_start : change.new_end])
        at = change.old_end
    parts.extend(range(start + at, end))
    return parts


def make_edits_between_kept_lines(document: Document, start: int, end: int, parts: Parts) -> list[LineEdit]:
    """Return the smallest runs of lines to replace so that `start` to `end` reads as `parts`."""
    edits = []
    at = start
    new_lines: list[InsertedLine] = []
    for part in [*parts, end]:
        if isinstance(part, InsertedLine):
            new_lines.append(part)
            continue
        if at < part or new_lines:
            edits.append(_make_line_edit(document, at, part, new_lines))
            new_lines = []
        at = part + 1
    return edits


def _make_line_edit(document: Document, start: int, end: int, new: Sequence[InsertedLine]) -> LineEdit:
    is_open_end = end == len(document.lines_without_mark) and not document.has_final_newline
    endings = [
        document.ending_for_line(min(start + index, end - 1) if start < end else start)
        if line.ending is None
        else line.ending
        for index, line in enumerate(new)
    ]
    lines = [document.encode_text(line.text) for line in new]
    if is_open_end and new and new[-1].ending is None:
        endings[-1] = ""
    encoded = tuple(line + document.encode_ending(ending) for line, ending in zip(lines, endings, strict=True))
    if is_open_end and new and start == end and start:
        last = document.lines_without_mark[start - 1] + document.encode_ending(document.ending_for_line(start - 1))
        return LineEdit(start - 1, end, (last, *encoded))
    return LineEdit(start, end, encoded)


Line = TypeVar("Line", bound=Hashable)


class MergeConflict(Struct, Generic[Line], frozen=True):
    """A region that both sides changed differently."""

    base_start: int
    """First line of the region in the base, from 0."""
    ours_start: int
    """First line of the region in ours, from 0."""
    theirs_start: int
    """First line of the region in theirs, from 0."""
    merged_start: int
    """First line of the region in the merged lines, from 0."""
    base: tuple[Line, ...]
    ours: tuple[Line, ...]
    theirs: tuple[Line, ...]


class MergeResult(Struct, Generic[Line], frozen=True):
    """The result of a three-way merge: the merged lines, the conflicts, and each side's changes from the base."""

    lines: tuple[Line, ...]
    conflicts: tuple[MergeConflict[Line], ...]
    ours_changes: tuple[LineChange, ...]
    """From base to ours."""
    theirs_changes: tuple[LineChange, ...]
    """From base to theirs."""


def merge_lines(
    base: Sequence[Line], ours: Sequence[Line], theirs: Sequence[Line], *, favour_theirs: bool = False
) -> MergeResult[Line]:
    """Merge the changes that `ours` and `theirs` made to `base`. Lines are compared by equality and must be hashable.

    With `favour_theirs`, the lines in a conflict are those of their side.
    """
    ours_changes = diff_lines(base, ours, anchored=False)
    theirs_changes = diff_lines(base, theirs, anchored=False)
    merged: list[Line] = []
    conflicts: list[MergeConflict[Line]] = []
    at = our_shift = their_shift = 0
    for start, end, our_part, their_part in _find_regions(ours_changes, theirs_changes):
        merged += base[at:start]
        at = end
        our_start, their_start = start + our_shift, start + their_shift
        our_shift += sum(change.added - change.removed for change in our_part)
        their_shift += sum(change.added - change.removed for change in their_part)
        our_lines = list(ours[our_start : end + our_shift])
        their_lines = list(theirs[their_start : end + their_shift])
        is_conflict = our_part and their_part and our_lines != their_lines
        if is_conflict:
            conflicts.append(
                MergeConflict(
                    base_start=start,
                    ours_start=our_start,
                    theirs_start=their_start,
                    merged_start=len(merged),
                    base=tuple(base[start:end]),
                    ours=tuple(our_lines),
                    theirs=tuple(their_lines),
                )
            )
        merged += our_lines if our_part and not (is_conflict and favour_theirs) else their_lines
    merged += base[at:]
    return MergeResult(tuple(merged), tuple(conflicts), tuple(ours_changes), tuple(theirs_changes))


def _find_regions(
    ours: Sequence[LineChange], theirs: Sequence[LineChange]
) -> Iterator[tuple[int, int, list[LineChange], list[LineChange]]]:
    """Yield ranges of the base with changes that touch or overlap each other, and the changes of each side in
    them.
    """
    our_next = their_next = 0
    while our_next < len(ours) or their_next < len(theirs):
        our_first, their_first = our_next, their_next
        start = min(
            changes[at].old_start for changes, at in ((ours, our_next), (theirs, their_next)) if at < len(changes)
        )
        end = start
        has_grown = True
        while has_grown:
            has_grown = False
            while our_next < len(ours) and ours[our_next].old_start <= end:
                end = max(end, ours[our_next].old_end)
                our_next += 1
                has_grown = True
            while their_next < len(theirs) and theirs[their_next].old_start <= end:
                end = max(end, theirs[their_next].old_end)
                their_next += 1
                has_grown = True
        yield start, end, list(ours[our_first:our_next]), list(theirs[their_first:their_next])
