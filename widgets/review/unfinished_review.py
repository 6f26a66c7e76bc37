"""The unfinished review of a proposal; it survives a restart."""

from dataclasses import dataclass, replace

from app.images.mentions import Mention
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileChange, Hunk, HunkState, Proposal
from widgets.diff.diff_rows import Side, lines_of


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment on a line, by path, so that it survives a new diff."""

    path: str
    side: Side
    line: int
    """From 0."""
    text: str
    quote: str = ""
    """The lines around it as they were shown when it was written."""
    draft: bool = False
    """Whether it is still being written, or was put aside."""

    @property
    def place(self) -> tuple[str, Side, int]:
        """Return the position of the comment."""
        return self.path, self.side, self.line

    @property
    def comment(self) -> LineComment:
        """The remark as the model gets it."""
        return LineComment(path=self.path, line=self.line + 1, side=self.side, quote=self.quote, text=self.text)

    @classmethod
    def of(cls, comment: LineComment) -> "Remark":
        """The remark that a comment was."""
        return cls(comment.path, comment.side, comment.line - 1, comment.text, comment.quote)


@dataclass(frozen=True, slots=True)
class UnfinishedReview:
    """The user's unfinished work on one proposal."""

    draft: str = ""
    """Feedback begun and not sent."""
    remarks: tuple[Remark, ...] = ()
    left_out: tuple[str, ...] = ()
    """Ids of the hunks that an approval would leave out."""
    answered: tuple[str, ...] = ()
    """Keys of the comments sent with its denial that were ticked off."""

    def __bool__(self) -> bool:
        return self != _NONE


_NONE = UnfinishedReview()


@dataclass(frozen=True, slots=True)
class ReviewFeedback:
    """The user's words with a decision."""

    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    mentions: tuple[Mention, ...] = ()
    """Files that the user has named in them."""

    def __bool__(self) -> bool:
        return bool(self.feedback.strip() or self.comments)

    @property
    def text(self) -> str:
        """All of it, to be put where the user writes."""
        comments = [f"{comment.path}:{comment.line}  {comment.text}" for comment in self.comments]
        return "\n\n".join(filter(None, (self.feedback.strip(), *comments)))


NOTHING_SAID = ReviewFeedback()


def moved(remark: Remark, before: Proposal, after: Proposal) -> Remark:
    """Return the comment at its line in the present proposal; unchanged if the line can't be found."""
    old = next((change for change in before.files if change.path == remark.path), None)
    new = next((change for change in after.files if change.path == remark.path), None)
    if old is None or new is None:
        return remark
    for hunk in old.hunks:
        if remark.line in lines_of(hunk, remark.side):
            now = next((one for one in new.hunks if one.id == hunk.id), None)
            if now is None and old.base == new.base:
                # The user has edited the text.
                now = next((one for one in new.hunks if one.new_count and _touch(one, hunk)), None)
            return remark if now is None else _moved_with(remark, hunk, now)
    if old.base != new.base or remark.side == "old":
        return remark
    in_base = remark.line - _shift(old, remark.line, proposed=True)
    return replace(remark, line=in_base + _shift(new, in_base, proposed=False))


def _touch(one: Hunk, other: Hunk) -> bool:
    """Whether two hunks replace lines of the base that overlap or are neighbours."""
    here, there = lines_of(one, "old"), lines_of(other, "old")
    return here.start <= there.stop and there.start <= here.stop


def _moved_with(remark: Remark, hunk: Hunk, now: Hunk) -> Remark:
    """Return a comment on a line of a hunk that has moved, or that is decided and only marks its place."""
    at = remark.line - lines_of(hunk, remark.side).start
    if lines := lines_of(now, remark.side):
        return replace(remark, line=lines[min(at, len(lines) - 1)])
    # What is there now is unchanged: the old lines of what was denied, the new ones of what was written.
    rows = hunk.old_count if now.state is HunkState.DENIED else hunk.new_count
    return replace(remark, side="new", line=now.new_start + max(0, min(at, rows - 1)))


def _shift(change: FileChange, line: int, *, proposed: bool) -> int:
    """By how much the hunks before a line, of the proposed text or of the base, make the file longer."""
    return sum(
        hunk.new_count - hunk.old_count
        for hunk in change.hunks
        if (hunk.new_start if proposed else hunk.old_start) <= line
    )
