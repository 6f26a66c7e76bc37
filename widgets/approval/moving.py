"""Where a line that the user has a remark on stands, once other hunks of its file are decided or edited."""

from dataclasses import replace

from app.proposals.models import FileChange, Hunk, Proposal
from widgets.approval.notes import Remark


def moved(remark: Remark, before: Proposal, after: Proposal) -> Remark:
    """The remark at its line in the proposal as it is now; as it was if that can't be told."""
    old = next((change for change in before.files if change.path == remark.path), None)
    new = next((change for change in after.files if change.path == remark.path), None)
    if old is None or new is None:
        return remark
    for hunk in old.hunks:
        start, count = _lines(hunk, remark.side)
        if start <= remark.line < start + count:
            same = next((one for one in new.hunks if one.id == hunk.id and _lines(one, remark.side)[1]), None)
            return (
                remark if same is None else replace(remark, line=remark.line - start + _lines(same, remark.side)[0])
            )
    if old.base != new.base or remark.side == "old":
        return remark
    in_base = remark.line - _shift(old, remark.line, proposed=True)
    return replace(remark, line=in_base + _shift(new, in_base, proposed=False))


def _lines(hunk: Hunk, side: str) -> tuple[int, int]:
    """First line and number of lines of a hunk on a side."""
    return (hunk.old_start, hunk.old_count) if side == "old" else (hunk.new_start, hunk.new_count)


def _shift(change: FileChange, line: int, *, proposed: bool) -> int:
    """By how much the hunks before a line, of the proposed text or of the base, make the file longer."""
    return sum(
        hunk.new_count - hunk.old_count
        for hunk in change.hunks
        if (hunk.new_start if proposed else hunk.old_start) <= line
    )
