"""The unfinished review of a proposal, which survives a restart, and the hunks that the user has chosen."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from app.images.mentions import Mention
from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileChange, FileDiff, Hunk, HunkState, Proposal
from app.review.hunk_lines import Side, hunk_line_numbers
from app.tools.base.contract import escape_surrogates


@dataclass(frozen=True, slots=True)
class ChosenPart:
    """The part of a proposal that an approval would write."""

    hunks: tuple[str, ...]
    """Ids of the chosen hunks."""
    total: int
    """Hunks that wait."""
    files: int
    """Files that would change."""
    added: int
    removed: int

    @property
    def is_all(self) -> bool:
        """Return whether nothing is excluded."""
        return len(self.hunks) == self.total

    @property
    def is_empty(self) -> bool:
        """Return whether everything is excluded."""
        return bool(self.total) and not self.hunks

    @property
    def decided_hunks(self) -> tuple[str, ...] | None:
        """Return the hunks that an approval names; None for all that are pending."""
        return None if self.is_all else self.hunks


class ChosenHunks:
    """The user's choice among the hunks of all proposals."""

    def __init__(self) -> None:
        self.left_out: dict[str, set[str]] = {}
        """Ids of hunks, by proposal."""
        self._latest: tuple[Proposal, frozenset[str], ChosenPart] | None = None
        """The last result: each frame asks for it several times, and a proposal may have thousands of hunks."""

    def excluded_from(self, key: str) -> frozenset[str]:
        """Return the excluded hunks of a proposal."""
        return frozenset(self.left_out.get(key, ()))

    def chosen_part(self, proposal: Proposal) -> ChosenPart:
        """Return what an approval would write now."""
        out = self.excluded_from(proposal.id)
        if self._latest is None or self._latest[0] is not proposal or self._latest[1] != out:
            self._latest = proposal, out, _part(proposal, out)
        return self._latest[2]

    def toggle(self, proposal: Proposal, hunks: Sequence[Hunk]) -> None:
        """Exclude pending hunks, or include them if all of these are excluded."""
        pending = {hunk.id for hunk in filter_pending_hunks(hunks)}
        if not pending:
            return
        out = self.left_out.setdefault(proposal.id, set())
        if pending <= out:
            out -= pending
        else:
            out |= pending

    def toggle_split_parts(self, proposal: Proposal, parts: Sequence[HunkPart], whole: Collection[str]) -> None:
        """Toggle lines of a hunk that was just split, and hunks of which all lines were selected.

        `proposal` is as it was before. The selection goes in if all of it was left out, else out; the rest stays.
        """
        out = self.left_out.setdefault(proposal.id, set())
        cut = {part.whole for part in parts}
        goes_in = out.issuperset({*cut, *whole})
        left = {part.hunk.id for part in parts if (not goes_in if part.picked else part.whole in out)}
        out -= {*cut, *whole}
        out |= left if goes_in else {*left, *whole}

    def carry_over_exclusions(self, before: Proposal, after: Proposal) -> None:
        """Keep excluded hunks excluded when a re-base or edit replaces them."""
        out = self.left_out.get(after.id)
        ids = [hunk.id for hunk in after.hunks]
        if out and not out.issubset(ids):
            known = {hunk.id for hunk in before.hunks}
            out |= {identity for identity in ids if identity not in known}


def _part(proposal: Proposal, out: frozenset[str]) -> ChosenPart:
    pending = filter_pending_hunks(proposal.hunks)
    chosen = [hunk for hunk in pending if hunk.id not in out]
    ids = tuple(hunk.id for hunk in chosen)
    if len(chosen) == len(pending):
        return ChosenPart(ids, len(pending), len(proposal.counted_changes), proposal.added, proposal.removed)
    files = sum(
        1 for change in proposal.files if not out.issuperset(hunk.id for hunk in filter_pending_hunks(change.hunks))
    )
    added, removed = sum(hunk.new_count for hunk in chosen), sum(hunk.old_count for hunk in chosen)
    return ChosenPart(ids, len(pending), files, added, removed)


def filter_pending_hunks(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Return the pending hunks."""
    return [hunk for hunk in hunks if hunk.state is HunkState.PENDING]


@dataclass(frozen=True, slots=True)
class DraftComment:
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
    def as_line_comment(self) -> LineComment:
        """The remark as the model gets it."""
        return LineComment(path=self.path, line=self.line + 1, side=self.side, quote=self.quote, text=self.text)

    @classmethod
    def from_comment(cls, comment: LineComment) -> "DraftComment":
        """The remark that a comment was."""
        return cls(comment.path, comment.side, comment.line - 1, comment.text, comment.quote)


@dataclass(frozen=True, slots=True)
class UnfinishedReview:
    """The user's unfinished work on one proposal."""

    draft: str = ""
    """Feedback begun and not sent."""
    remarks: tuple[DraftComment, ...] = ()
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


def move_comment(comment: DraftComment, before: Proposal, after: Proposal) -> DraftComment:
    """Return the comment at its line in the present proposal; unchanged if the line can't be found."""
    old = next((change for change in before.files if change.path == comment.path), None)
    new = next((change for change in after.files if change.path == comment.path), None)
    if old is None or new is None:
        return comment
    for hunk in old.hunks:
        if comment.line in hunk_line_numbers(hunk, comment.side):
            now = next((one for one in new.hunks if one.id == hunk.id), None)
            if now is None and old.base == new.base:
                # The user has edited the text.
                now = next((one for one in new.hunks if one.new_count and _touch(one, hunk)), None)
            return comment if now is None else _moved_with(comment, hunk, now)
    if old.base != new.base or comment.side == "old":
        return comment
    in_base = comment.line - _shift(old, comment.line, proposed=True)
    return replace(comment, line=in_base + _shift(new, in_base, proposed=False))


def _touch(one: Hunk, other: Hunk) -> bool:
    """Whether two hunks replace lines of the base that overlap or are neighbours."""
    here, there = hunk_line_numbers(one, "old"), hunk_line_numbers(other, "old")
    return here.start <= there.stop and there.start <= here.stop


def _moved_with(comment: DraftComment, hunk: Hunk, now: Hunk) -> DraftComment:
    """Return a comment on a line of a hunk that has moved, or that is decided and only marks its place."""
    at = comment.line - hunk_line_numbers(hunk, comment.side).start
    if lines := hunk_line_numbers(now, comment.side):
        return replace(comment, line=lines[min(at, len(lines) - 1)])
    # What is there now is unchanged: the old lines of what was denied, the new ones of what was written.
    rows = hunk.old_count if now.state is HunkState.DENIED else hunk.new_count
    return replace(comment, side="new", line=now.new_start + max(0, min(at, rows - 1)))


def _shift(change: FileChange, line: int, *, proposed: bool) -> int:
    """By how much the hunks before a line, of the proposed text or of the base, make the file longer."""
    return sum(
        hunk.new_count - hunk.old_count
        for hunk in change.hunks
        if (hunk.new_start if proposed else hunk.old_start) <= line
    )


QUOTED_LINES = 3
"""Lines quoted above and below the one that a remark is on."""


def add_quote(comment: DraftComment, diffs: Iterable[FileDiff]) -> DraftComment:
    """Return the comment with the shown lines around it."""
    diff = next((diff for diff in diffs if diff.change.path == comment.path), None)
    return comment if diff is None else replace(comment, quote=quote_lines(diff, comment))


def quote_lines(diff: FileDiff, comment: DraftComment) -> str:
    """The lines around a remark as the diff shows them, with `+`, `-` or space; undecodable bytes written out."""
    shown: list[str] = []
    at = 0

    def take(side: Side, lines: Sequence[str], start: int, end: int, sign: str) -> None:
        nonlocal at
        if comment.side == side and start <= comment.line < end:
            at = len(shown) + comment.line - start
        shown.extend(f"{sign}{line}" for line in lines[start:end])

    new = 0
    for hunk in diff.change.hunks:
        take("new", diff.new, new, hunk.new_start, " ")
        new = hunk.new_start + hunk.new_count
        take("old", diff.old, hunk.old_start, hunk.old_start + hunk.old_count, "-")
        take("new", diff.new, hunk.new_start, new, "+")
    take("new", diff.new, new, len(diff.new), " ")
    return escape_surrogates("\n".join(shown[max(0, at - QUOTED_LINES) : at + QUOTED_LINES + 1]))
