"""The unfinished review of a proposal, which survives a restart, and the user's choice of hunks."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from app.copies import replace
from app.images.mentions import Mention
from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileChange, FileDiff, Hunk, HunkState, Proposal
from app.review.hunk_lines import Side, hunk_line_numbers
from app.tools.base.contract import escape_surrogates


class ApprovalSelection(Struct, frozen=True):
    """The part of a proposal that an approval would write, and how much that is.

    Files without hunks are written with all hunks, or alone once every hunk is excluded.
    """

    hunks: tuple[str, ...]
    """Ids of the chosen hunks."""
    total: int
    """Number of pending hunks."""
    files: int
    """Number of files that would change."""
    added: int
    removed: int
    whole_files: tuple[str, ...] = ()
    """Paths of the files without hunks, if no hunk is chosen."""

    @property
    def is_all(self) -> bool:
        """Return whether nothing is excluded."""
        return len(self.hunks) == self.total

    @property
    def is_empty(self) -> bool:
        """Return whether everything is excluded."""
        return bool(self.total) and not self.hunks and not self.whole_files

    @property
    def decided_hunks(self) -> tuple[str, ...] | None:
        """Return the hunks, or files without hunks, that an approval names; None for everything pending."""
        return None if self.is_all else self.hunks or self.whole_files


class HunkExclusions:
    """The hunks of each proposal that the user excludes from an approval."""

    def __init__(self) -> None:
        self.left_out: dict[str, set[str]] = {}
        """Ids of excluded hunks, by proposal."""
        self._latest_selection: tuple[Proposal, frozenset[str], ApprovalSelection] | None = None
        """The last result: each frame needs it several times, and a proposal may have thousands of hunks."""

    def excluded_from(self, key: str) -> frozenset[str]:
        """Return the excluded hunks of a proposal."""
        return frozenset(self.left_out.get(key, ()))

    def approval_selection(self, proposal: Proposal) -> ApprovalSelection:
        """Return the part that an approval would write now."""
        excluded = self.excluded_from(proposal.id)
        if (
            self._latest_selection is None
            or self._latest_selection[0] is not proposal
            or self._latest_selection[1] != excluded
        ):
            self._latest_selection = proposal, excluded, _select_for_approval(proposal, excluded)
        return self._latest_selection[2]

    def toggle(self, proposal: Proposal, hunks: Sequence[Hunk]) -> None:
        """Exclude the pending hunks among these; if all of them are excluded, include them."""
        pending = {hunk.id for hunk in hunks if hunk.state is HunkState.PENDING}
        if not pending:
            return
        excluded = self.left_out.setdefault(proposal.id, set())
        if pending <= excluded:
            excluded -= pending
        else:
            excluded |= pending

    def toggle_split_parts(self, proposal: Proposal, parts: Sequence[HunkPart], whole: Collection[str]) -> None:
        """Toggle the selected lines of hunks that were just split, and hunks of which all lines were selected.

        If all of the selection was excluded, it is included, else it is excluded; the rest keeps its state.

        Args:
            proposal: The proposal before the split.
            parts: The parts of the split hunks.
            whole: Ids of the hunks of which all lines were selected.
        """
        excluded = self.left_out.setdefault(proposal.id, set())
        split_hunks = {part.whole for part in parts}
        is_included = excluded.issuperset({*split_hunks, *whole})
        excluded_parts = {
            part.hunk.id for part in parts if (not is_included if part.picked else part.whole in excluded)
        }
        excluded -= {*split_hunks, *whole}
        excluded |= excluded_parts if is_included else {*excluded_parts, *whole}

    def carry_over_exclusions(self, before: Proposal, after: Proposal) -> None:
        """Keep excluded hunks excluded when a re-base or edit replaces them."""
        excluded = self.left_out.get(after.id)
        ids = [hunk.id for hunk in after.hunks]
        if excluded and not excluded.issubset(ids):
            earlier_ids = {hunk.id for hunk in before.hunks}
            excluded |= {identity for identity in ids if identity not in earlier_ids}


def _select_for_approval(proposal: Proposal, excluded: frozenset[str]) -> ApprovalSelection:
    pending = proposal.pending_hunks
    chosen = [hunk for hunk in pending if hunk.id not in excluded]
    ids = tuple(hunk.id for hunk in chosen)
    if pending and not chosen:
        whole_files = pending_files_without_hunks(proposal)
        return ApprovalSelection((), len(pending), len(whole_files), 0, 0, whole_files)
    if len(chosen) == len(pending):
        return ApprovalSelection(ids, len(pending), len(proposal.counted_changes), proposal.added, proposal.removed)
    files = sum(1 for change in proposal.files if not excluded.issuperset(hunk.id for hunk in change.pending_hunks))
    added, removed = sum(hunk.new_count for hunk in chosen), sum(hunk.old_count for hunk in chosen)
    return ApprovalSelection(ids, len(pending), files, added, removed)


def pending_files_without_hunks(proposal: Proposal) -> tuple[str, ...]:
    """Return the paths of pending files without hunks; they are decided with the proposal as a whole."""
    return tuple(change.path for change in proposal.files if not change.hunks and change.state is HunkState.PENDING)


@dataclass(frozen=True, slots=True)
class UnsentComment:
    """A comment on a line that is not yet sent; it names the file by path and survives a new diff."""

    path: str
    side: Side
    line: int
    """Line number, from 0."""
    text: str
    quote: str = ""
    """The lines around it as they were shown when the user wrote it."""
    draft: bool = False
    """Whether the user has not saved it yet."""

    @property
    def place(self) -> tuple[str, Side, int]:
        """Return path, side and line."""
        return self.path, self.side, self.line

    @property
    def as_line_comment(self) -> LineComment:
        """Return the comment as it is sent to the model."""
        return LineComment(path=self.path, line=self.line + 1, side=self.side, quote=self.quote, text=self.text)

    @classmethod
    def from_comment(cls, comment: LineComment) -> "UnsentComment":
        """Return a sent comment as one that the user can edit."""
        return cls(comment.path, comment.side, comment.line - 1, comment.text, comment.quote)


@dataclass(frozen=True, slots=True)
class UnfinishedReview:
    """The user's unfinished work on one proposal."""

    draft: str = ""
    """Unsent feedback."""
    remarks: tuple[UnsentComment, ...] = ()
    left_out: tuple[str, ...] = ()
    """Ids of the hunks that an approval leaves out."""
    answered: tuple[str, ...] = ()
    """Keys of the comments sent with its denial that the user ticked off."""

    def __bool__(self) -> bool:
        return self != _EMPTY_REVIEW


_EMPTY_REVIEW = UnfinishedReview()


class FeedbackWithComments(Struct, frozen=True):
    """The user's feedback and comments that go with a decision."""

    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    mentions: tuple[Mention, ...] = ()
    """Files that the user mentions in them."""

    def __bool__(self) -> bool:
        return bool(self.feedback.strip() or self.comments)

    @property
    def text(self) -> str:
        """Return the feedback and the comments as one text for the input."""
        comments = [f"{comment.path}:{comment.line}  {comment.text}" for comment in self.comments]
        return "\n\n".join(filter(None, (self.feedback.strip(), *comments)))


NOTHING_SAID = FeedbackWithComments()


def move_comment_to_revision(comment: UnsentComment, before: Proposal, after: Proposal) -> UnsentComment:
    """Return the comment at its line in the present proposal; unchanged if the line is not found."""
    old = next((change for change in before.files if change.path == comment.path), None)
    new = next((change for change in after.files if change.path == comment.path), None)
    if old is None or new is None:
        return comment
    for hunk in old.hunks:
        if comment.line in hunk_line_numbers(hunk, comment.side):
            new_hunk = next((candidate for candidate in new.hunks if candidate.id == hunk.id), None)
            if new_hunk is None and old.base == new.base:
                # The user has edited the proposed text.
                new_hunk = next(
                    (candidate for candidate in new.hunks if candidate.new_count and _touch_in_base(candidate, hunk)),
                    None,
                )
            return comment if new_hunk is None else _move_with_hunk(comment, hunk, new_hunk)
    if old.base != new.base:
        # Re-based: an unchanged line moves with the nearest hunk.
        starts = {hunk.id: hunk.new_start for hunk in new.hunks}
        moves = [
            (abs(comment.line - hunk.new_start), starts[hunk.id] - hunk.new_start)
            for hunk in old.hunks
            if hunk.id in starts
        ]
        return replace(comment, line=max(0, comment.line + min(moves, default=(0, 0))[1]))
    if comment.side == "old":
        return comment
    in_base = comment.line - _count_lines_added_before(old, comment.line, proposed=True)
    return replace(comment, line=in_base + _count_lines_added_before(new, in_base, proposed=False))


def _touch_in_base(first: Hunk, second: Hunk) -> bool:
    """Return whether two hunks replace lines of the base that overlap or are neighbours."""
    first_lines, second_lines = hunk_line_numbers(first, "old"), hunk_line_numbers(second, "old")
    return first_lines.start <= second_lines.stop and second_lines.start <= first_lines.stop


def _move_with_hunk(comment: UnsentComment, hunk: Hunk, new_hunk: Hunk) -> UnsentComment:
    """Return a comment at the new place of its hunk, which may be decided and have no lines any more."""
    offset = comment.line - hunk_line_numbers(hunk, comment.side).start
    if lines := hunk_line_numbers(new_hunk, comment.side):
        return replace(comment, line=lines[min(offset, len(lines) - 1)])
    # The present text there is unchanged: the old lines of a denied hunk, or the new lines of a written one.
    rows = hunk.old_count if new_hunk.state is HunkState.DENIED else hunk.new_count
    return replace(comment, side="new", line=new_hunk.new_start + max(0, min(offset, rows - 1)))


def _count_lines_added_before(change: FileChange, line: int, *, proposed: bool) -> int:
    """Return how many lines the hunks before a line, of the proposed text or of the base, add to the file."""
    return sum(
        hunk.new_count - hunk.old_count
        for hunk in change.hunks
        if (hunk.new_start if proposed else hunk.old_start) <= line
    )


QUOTED_LINES = 3
"""Number of quoted lines above and below the commented one."""


def add_quoted_lines(comment: UnsentComment, diffs: Iterable[FileDiff]) -> UnsentComment:
    """Return the comment with the lines around it as a quote, as the diff shows them."""
    diff = next((diff for diff in diffs if diff.change.path == comment.path), None)
    return comment if diff is None else replace(comment, quote=quote_lines(diff, comment))


def quote_lines(diff: FileDiff, comment: UnsentComment) -> str:
    """Return the lines around a comment as the diff shows them, with `+`, `-` or space; undecodable bytes are
    escaped.
    """
    shown: list[str] = []
    comment_index = 0

    def add_lines(side: Side, lines: Sequence[str], start: int, end: int, sign: str) -> None:
        nonlocal comment_index
        if comment.side == side and start <= comment.line < end:
            comment_index = len(shown) + comment.line - start
        shown.extend(f"{sign}{line}" for line in lines[start:end])

    new_at = 0
    for hunk in diff.change.hunks:
        add_lines("new", diff.new, new_at, hunk.new_start, " ")
        new_at = hunk.new_start + hunk.new_count
        add_lines("old", diff.old, hunk.old_start, hunk.old_start + hunk.old_count, "-")
        add_lines("new", diff.new, hunk.new_start, new_at, "+")
    add_lines("new", diff.new, new_at, len(diff.new), " ")
    return escape_surrogates(
        "\n".join(shown[max(0, comment_index - QUOTED_LINES) : comment_index + QUOTED_LINES + 1])
    )
