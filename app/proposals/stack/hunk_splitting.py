"""Split a hunk into smaller ones, so that single lines can be decided.

A part is a hunk like any other: it has an id, a number and a state, and is written, denied and reported separately.
Its lines are contiguous in both texts, and old and new lines follow each other as they are paired side by side. So
any choice of parts gives a text that the review has shown.
"""

from collections.abc import Collection, Iterator
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from app.proposals.files.file_changes import next_hunk_number
from app.proposals.files.overlay import ContentStore
from app.proposals.text.document import Document
from app.proposals.text.hunks import compute_hunk_id, has_changed_lines
from app.proposals.text.line_comparison import pair_lines
from app.proposals.values.models import FileChange, Hunk, HunkState, Proposal
from app.proposals.values.proposal_errors import NoSuchPendingHunk


class SelectedLines(Struct, frozen=True):
    """Selected lines of a file of a proposal, by number from 0."""

    path: str
    old: frozenset[int] = frozenset()
    """Removed lines."""
    new: frozenset[int] = frozenset()
    """Added lines."""


class HunkPart(Struct, frozen=True):
    """A hunk that results from splitting another."""

    whole: str
    """Id of the hunk that was split."""
    hunk: Hunk
    picked: bool
    """Whether its lines were selected: all of them were, or none."""


def split_hunks(
    contents: ContentStore, proposal: Proposal, lines: SelectedLines
) -> tuple[Proposal, tuple[HunkPart, ...]]:
    """Return the proposal with hunks split so that the selected lines are in separate hunks, and the resulting parts.

    Returns the same object if nothing has to be split: of each hunk all lines are selected, or none.

    Raises:
        NoSuchPendingHunk: the file has no pending hunks, or is in UTF-16.
    """
    change = next((each for each in proposal.files if each.path == lines.path), None)
    if change is None or not change.pending_hunks:
        raise NoSuchPendingHunk(f"Nothing of {lines.path} in {proposal.id} waits.")
    base, result = Document(contents.get(change.base)), Document(contents.get(change.result))
    if base.is_utf16 or result.is_utf16:
        raise NoSuchPendingHunk(f"{lines.path} is not in UTF-8: its hunks are decided on as wholes.")
    number = next_hunk_number(proposal.files)
    hunks: list[Hunk] = []
    parts: list[HunkPart] = []
    ids = {hunk.id for hunk in change.hunks}
    for hunk in change.hunks:
        pieces = (
            list(_split_hunk(base, result, hunk, lines))
            if hunk.state is HunkState.PENDING and has_changed_lines(hunk)
            else []
        )
        if len(pieces) < 2:
            hunks.append(hunk)
            continue
        for piece, is_selected in pieces:
            piece = piece.model_copy(update={"id": _free_id(change, base, result, piece, ids), "number": number})
            ids.add(piece.id)
            number += 1
            hunks.append(piece)
            parts.append(HunkPart(hunk.id, piece, is_selected))
    if not parts:
        return proposal, ()
    split = change.model_copy(update={"hunks": tuple(hunks)})
    return proposal.next_revision(split if each is change else each for each in proposal.files), tuple(parts)


def _split_hunk(base: Document, result: Document, hunk: Hunk, selected: SelectedLines) -> Iterator[tuple[Hunk, bool]]:
    """Yield the pieces of a hunk in order, and whether each was selected."""
    old_at, new_at = hunk.old_start, hunk.new_start
    for is_selected, lines in groupby(_ordered_lines(base, result, hunk, selected), key=itemgetter(1)):
        kinds = [is_old for is_old, _ in lines]
        removed, added = kinds.count(True), kinds.count(False)
        place = {"old_start": old_at, "old_count": removed, "new_start": new_at, "new_count": added}
        yield hunk.model_copy(update={**place, "part_of": hunk.part_of or hunk.id}), is_selected
        old_at, new_at = old_at + removed, new_at + added


def _ordered_lines(
    base: Document, result: Document, hunk: Hunk, selected: SelectedLines
) -> Iterator[tuple[bool, bool]]:
    """Yield the lines of a hunk in the order of a partial choice: whether a line is removed, whether selected."""
    old = [(True, line in selected.old) for line in range(hunk.old_start, hunk.old_start + hunk.old_count)]
    new = [(False, line in selected.new) for line in range(hunk.new_start, hunk.new_start + hunk.new_count)]
    if not any(is_selected for _, is_selected in old):
        # If all removed lines go or stay together, the added ones can be one piece too.
        yield from (*old, *new)
        return
    pairs = pair_lines(
        base.line_texts[hunk.old_start : hunk.old_start + hunk.old_count],
        result.line_texts[hunk.new_start : hunk.new_start + hunk.new_count],
    )
    for at_old, at_new in pairs:
        if at_old is not None:
            yield old[at_old]
        if at_new is not None:
            yield new[at_new]


def _free_id(change: FileChange, base: Document, result: Document, piece: Hunk, taken: Collection[str]) -> str:
    """Return an id for a piece, as for a hunk of the two texts, that no other hunk of the file has."""
    removed = b"".join(base.lines[piece.old_start : piece.old_start + piece.old_count])
    added = b"".join(result.lines[piece.new_start : piece.new_start + piece.new_count])
    count = 0
    while (identity := compute_hunk_id(change.path, removed, added, count)) in taken:
        count += 1
    return identity
