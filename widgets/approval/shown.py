"""Which content the diff on screen is of, so that a key never decides on anything else."""

from collections.abc import Sequence

from app.proposals.models import FileChange, FileDiff, Proposal

Content = tuple[tuple[object, ...], ...]
"""What an approval would write, as a value to compare."""


def content_of(proposal: Proposal) -> Content:
    """What an approval of a proposal would write."""
    return tuple(_of_file(change) for change in proposal.files)


def content_of_diffs(diffs: Sequence[FileDiff]) -> Content:
    """What these diffs show."""
    return tuple(_of_file(diff.change) for diff in diffs)


def _of_file(change: FileChange) -> tuple[object, ...]:
    base = change.base and (change.base.sha256, change.base.mode)
    result = change.result and (change.result.sha256, change.result.mode)
    return (change.path, change.old_path, change.op, base, result, tuple(hunk.id for hunk in change.hunks))
