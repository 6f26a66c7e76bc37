"""What became of the lines that the user commented on, in the version that answers: whether they changed."""

from collections.abc import Sequence
from enum import StrEnum

from app.proposals.facts import LineComment
from app.proposals.models import FileChange, FileVersion, Hunk, Proposal
from app.proposals.overlay import Contents
from app.proposals.store import ProposalStore
from app.proposals.text.diff import diff
from app.proposals.text.document import Document


class Answer(StrEnum):
    """What a new version does at a comment on the one before."""

    CHANGED = "changed"
    BESIDE = "beside"
    """The line is as it was, but what stands right above or below it is not."""
    SAME = "same"
    GONE = "gone"
    """The file is not in the new version, which so changes nothing of it."""
    UNKNOWN = "unknown"
    """The line is not where the comment says, since a part was decided or re-based meanwhile."""


def answers_to(store: ProposalStore, proposal_id: str, comments: Sequence[LineComment]) -> tuple[Answer, ...]:
    """What a proposal does at each of the comments on the version that it supersedes.

    Raises:
        MissingContent: what one of the two would write is not stored any more.
    """
    new = store.proposal(proposal_id)
    old = store.proposal(new.supersedes) if new is not None and new.supersedes else None
    if new is None or old is None:
        return (Answer.UNKNOWN,) * len(comments)
    contents = Contents(store)
    return tuple(_answer(contents, old, new, comment) for comment in comments)


def _answer(contents: Contents, old: Proposal, new: Proposal, comment: LineComment) -> Answer:
    before = _change(old, comment.path)
    after = _change(new, comment.path)
    if before is None:
        return Answer.UNKNOWN
    if after is None:
        return Answer.GONE
    line = comment.line - 1
    if comment.side == "old":
        return _of_removed(contents, before, after, line)
    for version in (before.result, *(part.before for part in reversed(before.denied))):
        texts = _texts(contents, version)
        if line < len(texts) and _is_quoted(texts[line], comment):
            return _of_text(texts, _texts(contents, after.result), line)
    return Answer.UNKNOWN


def _change(proposal: Proposal, path: str) -> FileChange | None:
    return next((change for change in proposal.files if path in (change.path, change.old_path)), None)


def _texts(contents: Contents, version: FileVersion | None) -> Sequence[str]:
    document = Document(contents.get(version))
    return () if document.binary else document.texts


def _is_quoted(text: str, comment: LineComment) -> bool:
    """Whether a line is the one that was commented on, as far as the quote tells."""
    return not comment.quote or any(quoted[1:] == text for quoted in comment.quote.split("\n"))


def _of_text(before: Sequence[str], after: Sequence[str], line: int) -> Answer:
    """What became of a line from one text to the next."""
    beside = False
    for change in diff(before, after):
        if change.old_start <= line < change.old_end:
            return Answer.CHANGED
        beside = beside or change.old_end == line or change.old_start == line + 1
    return Answer.BESIDE if beside else Answer.SAME


def _of_removed(contents: Contents, before: FileChange, after: FileChange, line: int) -> Answer:
    """What became of a line that the version before takes away: it stays, or something else takes its place."""
    if before.base != after.base:
        return Answer.UNKNOWN
    first, second = _hunk_at(before, line), _hunk_at(after, line)
    if first is None:
        return Answer.UNKNOWN
    if second is None or (first.old_start, first.old_count) != (second.old_start, second.old_count):
        return Answer.CHANGED
    same = _put_in(contents, before, first) == _put_in(contents, after, second)
    return Answer.SAME if same else Answer.CHANGED


def _hunk_at(change: FileChange, line: int) -> Hunk | None:
    return next((hunk for hunk in change.hunks if hunk.old_start <= line < hunk.old_start + hunk.old_count), None)


def _put_in(contents: Contents, change: FileChange, hunk: Hunk) -> Sequence[str]:
    return _texts(contents, change.result)[hunk.new_start : hunk.new_start + hunk.new_count]
