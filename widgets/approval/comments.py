"""The user's remarks on lines: where they stand in a diff, and what is sent of them."""

from collections.abc import Iterable, Sequence

from app.conversation.events import LineComment
from app.proposals.models import FileDiff
from widgets.approval.state import Remark
from widgets.diff.arrange import Comment

_QUOTED_LINES = 3
"""Lines quoted above and below the one that a remark is on."""


def placed(remarks: Iterable[Remark], diffs: Sequence[FileDiff]) -> list[Comment]:
    """The remarks whose file and line are in these diffs."""
    files = {diff.change.path: number for number, diff in enumerate(diffs)}
    found = []
    for remark in remarks:
        file = files.get(remark.path)
        if file is not None:
            lines = diffs[file].old if remark.side == "old" else diffs[file].new
            if remark.line < len(lines):
                found.append(Comment(file, remark.side, remark.line, remark.text))
    return found


def line_comments(remarks: Iterable[Remark], diffs: Sequence[FileDiff]) -> tuple[LineComment, ...]:
    """The remarks as the model gets them, each with the lines around it."""
    files = {diff.change.path: diff for diff in diffs}
    return tuple(
        LineComment(
            path=remark.path,
            line=remark.line + 1,
            side=remark.side,
            quote=quote(files[remark.path], remark) if remark.path in files else "",
            text=remark.text,
        )
        for remark in remarks
    )


def quote(diff: FileDiff, remark: Remark) -> str:
    """The lines around a remark as the diff shows them, with their `+`, `-` or space."""
    shown: list[str] = []
    at = 0
    old = new = 0
    for hunk in (*diff.change.hunks, None):
        until = len(diff.new) if hunk is None else hunk.new_start
        for line in range(new, until):
            if remark.side == "new" and line == remark.line:
                at = len(shown)
            shown.append(f" {diff.new[line]}")
        if hunk is None:
            break
        for line in range(hunk.old_start, hunk.old_start + hunk.old_count):
            if remark.side == "old" and line == remark.line:
                at = len(shown)
            shown.append(f"-{diff.old[line]}")
        for line in range(hunk.new_start, hunk.new_start + hunk.new_count):
            if remark.side == "new" and line == remark.line:
                at = len(shown)
            shown.append(f"+{diff.new[line]}")
        old, new = hunk.old_start + hunk.old_count, hunk.new_start + hunk.new_count
    del old
    return "\n".join(shown[max(0, at - _QUOTED_LINES) : at + _QUOTED_LINES + 1])
