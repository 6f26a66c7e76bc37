"""Hunks: the differences between two contents, with ids and numbers that survive re-bases and partial decisions."""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from msgspec import Struct

from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.text.document import Document
from app.proposals.values.models import Hunk, HunkState

Lines = Sequence[bytes]


class HunksWithLineCounts(Struct, frozen=True):
    """The hunks between two contents of a file, with the numbers of added and removed lines."""

    hunks: tuple[Hunk, ...]
    added: int
    removed: int


def split_document_lines(data: bytes) -> Lines:
    """Return the lines of a file's bytes, with endings, as `Document.lines` does."""
    return Document(data).lines


def has_changed_lines(hunk: Hunk) -> bool:
    """Return whether the hunk removes or adds lines; one without lines only marks the place of a decided hunk."""
    return bool(hunk.old_count or hunk.new_count)


def compare_contents(
    path: str,
    base: bytes,
    result: bytes,
    *,
    previous: Sequence[Hunk] = (),
    next_number: int = 1,
    state: HunkState = HunkState.PENDING,
    changes: Sequence[LineChange] | None = None,
) -> HunksWithLineCounts:
    """Return the hunks between two contents.

    Args:
        path: Part of the ids.
        previous: The hunks of this file so far. One with the same id and state keeps its number; those decided or
            already on disk stay as marks of their place.
        next_number: Number of the next new hunk.
        changes: The line changes from `base` to `result`, if they are known already.
    """
    old, new = split_document_lines(base), split_document_lines(result)
    earlier_hunks = {hunk.id: hunk for hunk in previous}
    split_parts = _group_split_parts(previous, state)
    content_counts: Counter[tuple[bytes, bytes]] = Counter()
    hunks: list[Hunk] = []
    has_new_hunk = False
    for change in diff_lines(old, new) if changes is None else changes:
        removed, added = old[change.old_start : change.old_end], new[change.new_start : change.new_end]
        content = (b"".join(removed), b"".join(added))
        identity = compute_hunk_id(path, *content, content_counts[content])
        while (earlier := earlier_hunks.get(identity)) and earlier.state is not state:
            content_counts[content] += 1
            identity = compute_hunk_id(path, *content, content_counts[content])
        content_counts[content] += 1
        parts = _move_parts(split_parts.get(identity, ()), change)
        # A hunk before it may equal one of the parts, and may have taken its id.
        if parts and all(part.id in earlier_hunks for part in parts):
            hunks += parts
            for part in parts:
                del earlier_hunks[part.id]
            continue
        hunks.append(
            Hunk(
                id=identity,
                number=earlier.number if earlier else next_number,
                old_start=change.old_start,
                old_count=len(removed),
                new_start=change.new_start,
                new_count=len(added),
                state=state,
                repeat_of=earlier.repeat_of if earlier else "",
            )
        )
        if earlier is None:
            next_number += 1
            has_new_hunk = True
        else:
            del earlier_hunks[identity]
    # If a hunk vanished and no new one appeared, it is on disk already; otherwise a new one absorbed it.
    marks = [hunk for hunk in earlier_hunks.values() if hunk.state is not state or not has_new_hunk]
    shifts = _LineShifts(hunks)
    placed = [*hunks, *(shifts.move_mark(hunk, len(old), len(new)) for hunk in marks)]
    return HunksWithLineCounts(
        tuple(sorted(placed, key=lambda hunk: (hunk.old_start, hunk.new_start, hunk.number)) if marks else hunks),
        sum(hunk.new_count for hunk in hunks),
        sum(hunk.old_count for hunk in hunks),
    )


def _group_split_parts(hunks: Iterable[Hunk], state: HunkState) -> dict[str, list[Hunk]]:
    """Return the parts of each hunk that the user has split, by the hunk's id."""
    parts_by_hunk: dict[str, list[Hunk]] = {}
    for hunk in hunks:
        if hunk.part_of and hunk.state is state and has_changed_lines(hunk):
            parts_by_hunk.setdefault(hunk.part_of, []).append(hunk)
    return parts_by_hunk


def _move_parts(parts: Sequence[Hunk], change: LineChange) -> list[Hunk]:
    """Return the parts of a hunk at its present place; empty if some of them do not exist any more."""
    removed, added = sum(part.old_count for part in parts), sum(part.new_count for part in parts)
    if not parts or (removed, added) != (change.removed, change.added):
        return []
    old_shift, new_shift = change.old_start - parts[0].old_start, change.new_start - parts[0].new_start
    return [
        part.model_copy(update={"old_start": part.old_start + old_shift, "new_start": part.new_start + new_shift})
        for part in parts
    ]


def compute_hunk_id(path: str, removed: bytes, added: bytes, count: int) -> str:
    """Return the id of a hunk: by its contents and its place among equals, not by line number."""
    digest = hashlib.sha256()
    for part in (path.encode("utf-8", "surrogateescape"), removed, added, b"%d" % count):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()[:12]


def apply_hunks_to_lines(base: Lines, result: Lines, hunks: Iterable[Hunk], chosen: Collection[str]) -> list[bytes]:
    """Return the lines of `base` with only the chosen hunks applied."""
    lines: list[bytes] = []
    position = 0
    sorted_hunks = sorted(filter(has_changed_lines, hunks), key=lambda hunk: hunk.old_start)
    for hunk in sorted_hunks:
        lines += base[position : hunk.old_start]
        position = hunk.old_start + hunk.old_count
        if hunk.id in chosen:
            lines += result[hunk.new_start : hunk.new_start + hunk.new_count]
        else:
            lines += base[hunk.old_start : position]
    lines += base[position:]
    return _terminate_inner_lines(lines) if any(hunk.part_of for hunk in sorted_hunks) else lines


def _terminate_inner_lines(lines: list[bytes]) -> list[bytes]:
    """Return the lines with an ending added to one that ended its file and now precedes others."""
    ending = b"\r\n" if any(line.endswith(b"\r\n") for line in lines[:1]) else b"\n"
    last = len(lines) - 1
    return [line if line.endswith(b"\n") or at == last else line + ending for at, line in enumerate(lines)]


def format_hunk_header(hunk: Hunk) -> str:
    """Return the hunk's `@@ -3,2 +3,4 @@` header as a unified diff without context has it."""
    return f"@@ -{_format_range(hunk.old_start, hunk.old_count)} +{_format_range(hunk.new_start, hunk.new_count)} @@"


def set_state_of_pending_hunks(
    hunks: Iterable[Hunk], state: HunkState, ids: Collection[str] | None = None
) -> tuple[Hunk, ...]:
    """Return the hunks with another state for the pending ones among `ids` (None: for all pending ones)."""
    return tuple(
        hunk.model_copy(update={"state": state})
        if hunk.state is HunkState.PENDING and (ids is None or hunk.id in ids)
        else hunk
        for hunk in hunks
    )


def update_hunk_positions_after_decision(
    hunks: Iterable[Hunk], chosen: Collection[str], state: HunkState
) -> tuple[Hunk, ...]:
    """Return the hunks after some are decided: those keep only their place (counts 0), the others move to fit.

    Applied hunks are part of the base from then on; denied ones are not part of the result.
    """
    marked: list[Hunk] = []
    shift = 0
    for hunk in sorted(hunks, key=lambda hunk: (hunk.old_start, hunk.new_start, hunk.number)):
        update: dict[str, object] = {"old_start": hunk.old_start + shift}
        if state is HunkState.DENIED:
            update = {"new_start": hunk.new_start - shift}
        if hunk.id in chosen:
            shift += hunk.new_count - hunk.old_count
            update |= {"old_count": 0, "new_count": 0, "state": state}
        marked.append(hunk.model_copy(update=update))
    return tuple(marked)


def _format_range(start: int, count: int) -> str:
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


class _LineShifts:
    """Distance between the lines of base and result at any place."""

    def __init__(self, found: Sequence[Hunk]) -> None:
        self._old = [hunk.old_start for hunk in found]
        self._new = [hunk.new_start for hunk in found]
        self._total = [0, *accumulate(hunk.new_count - hunk.old_count for hunk in found)]

    def move_mark(self, hunk: Hunk, old_length: int, new_length: int) -> Hunk:
        """Return the hunk without lines, as a mark at its place.

        A denied hunk is not in the result, so its place in the base is known. Any other hunk is in both sides now, so
        its place in the result is known.
        """
        if hunk.state is HunkState.DENIED:
            old = hunk.old_start
            new = old + self._total[bisect_left(self._old, old)]
        else:
            new = hunk.new_start
            old = new - self._total[bisect_left(self._new, new)]
        old, new = min(max(old, 0), old_length), min(max(new, 0), new_length)
        return hunk.model_copy(update={"old_start": old, "old_count": 0, "new_start": new, "new_count": 0})
