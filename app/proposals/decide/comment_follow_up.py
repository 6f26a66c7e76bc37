"""Compare two versions of a proposal at the lines that the user commented on."""

from collections.abc import Sequence
from enum import StrEnum

from app.proposals.decide.patch_export import make_review_diff
from app.proposals.files.file_changes import make_file_change, next_hunk_number
from app.proposals.files.overlay import ContentStore
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import Document
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileChange, FileDiff, FileVersion, Hunk, Proposal
from app.proposals.values.proposal_errors import UnknownProposal
from app.proposals.values.proposal_store import ProposalStore


def diff_with_superseded_proposal(store: ProposalStore, proposal_id: str) -> list[FileDiff]:
    """Return the files in which a proposal and its predecessor differ.

    If only one of the two changes a file, its result is compared with the file in the workspace.

    Raises:
        UnknownProposal: one of the two does not exist, or the proposal has no predecessor.
    """
    new = store.proposal(proposal_id)
    old = store.proposal(new.supersedes) if new is not None and new.supersedes else None
    if new is None or old is None:
        raise UnknownProposal(f"There is no earlier version of {proposal_id} to compare with.")
    contents = ContentStore(store)
    changes: list[FileChange] = []
    number = 1
    for path in dict.fromkeys(path for proposal in (old, new) for change in proposal.files for path in change.paths):
        before, after = _version_after(old, path, new), _version_after(new, path, old)
        if before == after:
            continue
        change = make_file_change(contents, path, before, after, next_number=number)
        changes.append(change)
        number = max(number, next_hunk_number([change]))
    return [make_review_diff(contents, change) for change in changes]


def _version_after(proposal: Proposal, path: str, other: Proposal) -> FileVersion | None:
    """Return the file at the path after the proposal is written."""
    for change in proposal.files:
        if change.path == path:
            return change.result
        if change.old_path == path:
            return None
    for change in other.files:
        if path in change.paths:
            # The proposal does not touch this path, so the file stays as `other` found it; a rename's base is at its
            # old path.
            return change.base if path == (change.old_path or change.path) else None
    return None


class CommentedLineChange(StrEnum):
    """How a new version changed the lines of a comment on the version before."""

    CHANGED = "changed"
    BESIDE = "beside"
    """The line is unchanged, but a line directly above or below it is not."""
    SAME = "same"
    GONE = "gone"
    """The new version does not change the file any more."""
    UNKNOWN = "unknown"
    """The line is not found, because a part of the version before was decided or re-based meanwhile."""


def compare_commented_lines(
    store: ProposalStore, proposal_id: str, comments: Sequence[LineComment]
) -> tuple[CommentedLineChange, ...]:
    """Return for each comment on the superseded version how the new version changes its line.

    Raises:
        MissingContent: the result of one of the two is not stored any more.
    """
    new = store.proposal(proposal_id)
    old = store.proposal(new.supersedes) if new is not None and new.supersedes else None
    if new is None or old is None:
        return (CommentedLineChange.UNKNOWN,) * len(comments)
    contents = ContentStore(store)
    return tuple(_compare_line(contents, old, new, comment) for comment in comments)


def _compare_line(contents: ContentStore, old: Proposal, new: Proposal, comment: LineComment) -> CommentedLineChange:
    before = _find_change(old, comment.path)
    after = _find_change(new, comment.path)
    if before is None:
        return CommentedLineChange.UNKNOWN
    if after is None:
        return CommentedLineChange.GONE
    line = comment.line - 1
    if comment.side == "old":
        return _compare_removed(contents, before, after, line)
    for version in (before.result, *(part.before for part in reversed(before.denied))):
        texts = _line_texts(contents, version)
        if line < len(texts) and _is_quoted(texts[line], comment):
            return _compare_text(texts, _line_texts(contents, after.result), line)
    return CommentedLineChange.UNKNOWN


def _find_change(proposal: Proposal, path: str) -> FileChange | None:
    return next((change for change in proposal.files if path in change.paths), None)


def _line_texts(contents: ContentStore, version: FileVersion | None) -> Sequence[str]:
    document = Document(contents.get(version))
    return () if document.is_binary else document.line_texts


def _is_quoted(text: str, comment: LineComment) -> bool:
    """Return whether a line is part of the comment's quote; True without a quote."""
    return not comment.quote or any(quoted[1:] == text for quoted in comment.quote.split("\n"))


def _compare_text(before: Sequence[str], after: Sequence[str], line: int) -> CommentedLineChange:
    is_beside = False
    for change in diff_lines(before, after):
        if change.old_start <= line < change.old_end:
            return CommentedLineChange.CHANGED
        is_beside = is_beside or change.old_end == line or change.old_start == line + 1
    return CommentedLineChange.BESIDE if is_beside else CommentedLineChange.SAME


def _compare_removed(contents: ContentStore, before: FileChange, after: FileChange, line: int) -> CommentedLineChange:
    """Return the follow-up for a line that the version before removes: is it still removed, and for the same text?"""
    if before.base != after.base:
        return CommentedLineChange.UNKNOWN
    first, second = _hunk_at(before, line), _hunk_at(after, line)
    if first is None:
        return CommentedLineChange.UNKNOWN
    if second is None or (first.old_start, first.old_count) != (second.old_start, second.old_count):
        return CommentedLineChange.CHANGED
    same = _inserted_lines(contents, before, first) == _inserted_lines(contents, after, second)
    return CommentedLineChange.SAME if same else CommentedLineChange.CHANGED


def _hunk_at(change: FileChange, line: int) -> Hunk | None:
    return next((hunk for hunk in change.hunks if hunk.old_start <= line < hunk.old_start + hunk.old_count), None)


def _inserted_lines(contents: ContentStore, change: FileChange, hunk: Hunk) -> Sequence[str]:
    return _line_texts(contents, change.result)[hunk.new_start : hunk.new_start + hunk.new_count]
