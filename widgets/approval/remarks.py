"""The user's remarks on lines: where they stand in a diff, and what is sent of them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from app.proposals.answers import Answer
from app.proposals.attention.summary import clauses, computed, said
from app.proposals.models import FileDiff, Proposal
from app.tools.contract import escape_surrogates
from widgets.approval.notes import Remark
from widgets.approval.state import ReviewState
from widgets.diff.arrange import Comment
from widgets.diff.rows import NoteRow, Side, SourceLine, text_of

_ANSWERS = {
    Answer.CHANGED: "changed in v{}: ",
    Answer.BESIDE: "not changed, but what is beside it in v{}: ",
    Answer.SAME: "not changed in v{}: ",
    Answer.GONE: "not in v{}: ",
    Answer.UNKNOWN: "",
}
"""What the version that answers does at the line of a comment."""

AUTHORS_WORDS = "words"
"""The key of the note with what the author of a proposal says of it, which unfolds."""

_QUOTED_LINES = 3
"""Lines quoted above and below the one that a remark is on."""


def placed(remarks: Iterable[Remark], diffs: Sequence[FileDiff]) -> list[Comment]:
    """The remarks whose file and line are in these diffs."""
    files = {diff.change.path: number for number, diff in enumerate(diffs)}
    found = []
    for remark in remarks:
        file = files.get(remark.path)
        if file is not None and remark.line < len(text_of(diffs[file], remark.side)):
            found.append(Comment(SourceLine(file, remark.side, remark.line), remark.text))
    return found


def quoting(remark: Remark, diffs: Iterable[FileDiff]) -> Remark:
    """The remark with the lines around it as they are shown now, which is what its words are about."""
    diff = next((diff for diff in diffs if diff.change.path == remark.path), None)
    return remark if diff is None else replace(remark, quote=quote(diff, remark))


def top_notes(state: ReviewState, proposal: Proposal, words: Literal["", "folded", "unfolded"]) -> list[NoteRow]:
    """What stands above the first file: what it comes to, what its author says, what moved since it was last shown,
    and comments on the version before.

    Args:
        state: What is known of it.
        proposal: What is shown.
        words: How its author's words are shown; not at all where the pane below has room for them.
    """
    line = said(proposal) if words else ""
    notes = [
        *([NoteRow(-1, computed(proposal), "plain")] if clauses(proposal) else []),
        *([NoteRow(-1, line, words, AUTHORS_WORDS)] if words and line else []),
        *(
            NoteRow(
                -1, f"{path}: re-based since you last saw it here. Look again at what would be written.", "warning"
            )
            for path in (state.looked_at.moved(proposal) if proposal.state.waiting else ())
        ),
    ]
    return [*notes, *sent_notes(state, proposal)]


def sent_notes(state: ReviewState, proposal: Proposal) -> list[NoteRow]:
    """The comments on the version before, each to be ticked off as answered."""
    comments = state.unsaid.sent.get(proposal.supersedes, ())
    if not comments:
        return []
    keys = [f"{proposal.supersedes}/{number}" for number in range(len(comments))]
    open_count = sum(key not in state.unsaid.answered for key in keys)
    rows = [NoteRow(-1, f"Your comments on {proposal.supersedes}, {open_count} of {len(comments)} open:", "plain")]
    answers = state.unsaid.answers.get(proposal.id, ())
    for number, (key, comment) in enumerate(zip(keys, comments, strict=True)):
        text = " ".join(comment.text.split())
        became = _ANSWERS[answers[number]].format(proposal.version) if number < len(answers) else ""
        level: Literal["done", "open"] = "done" if key in state.unsaid.answered else "open"
        rows.append(NoteRow(-1, f"{comment.path}:{comment.line}  {became}{text}", level, key))
    return rows


def quote(diff: FileDiff, remark: Remark) -> str:
    """The lines around a remark as the diff shows them, with `+`, `-` or space; undecodable bytes written out."""
    shown: list[str] = []
    at = 0

    def take(side: Side, lines: Sequence[str], start: int, end: int, sign: str) -> None:
        nonlocal at
        if remark.side == side and start <= remark.line < end:
            at = len(shown) + remark.line - start
        shown.extend(f"{sign}{line}" for line in lines[start:end])

    new = 0
    for hunk in diff.change.hunks:
        take("new", diff.new, new, hunk.new_start, " ")
        new = hunk.new_start + hunk.new_count
        take("old", diff.old, hunk.old_start, hunk.old_start + hunk.old_count, "-")
        take("new", diff.new, hunk.new_start, new, "+")
    take("new", diff.new, new, len(diff.new), " ")
    return escape_surrogates("\n".join(shown[max(0, at - _QUOTED_LINES) : at + _QUOTED_LINES + 1]))
