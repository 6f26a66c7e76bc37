"""The user's texts about items of the review: from the field to the decision with which they are sent."""

from collections.abc import Iterable, Sequence
from typing import Literal

from textual.content import Content

from app.copies import replace
from app.proposals.decide.comment_follow_up import CommentedLineChange
from app.proposals.risk.change_summary import (
    attribute_summary_to_author,
    risk_summary_clauses,
    summarize_size_and_risks,
)
from app.proposals.values.models import FileDiff, Proposal
from app.review.hunk_lines import diff_side_lines
from app.review.review_state import ReviewQueueState
from app.review.unfinished_review import FeedbackWithComments, UnsentComment, add_quoted_lines
from app.review.verdicts import can_ask_model_to_redo_stale_proposal, can_be_approved
from app.text.quantities import format_count
from app.tools.base.contract import PermissionRequest
from widgets.chat.composer_field import DroppedImages
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_pane import DiffPane
from widgets.diff.diff_rows import NoteRow, SourceLinePosition
from widgets.diff.writing_field import WritingField
from widgets.review.review_messages import FeedbackOrphaned, ReviewPaneInterface, UnfinishedReviewChanged
from widgets.review.review_wording import safe_line_content

_FOLLOW_UP_PHRASES = {
    CommentedLineChange.CHANGED: "changed in v{}: ",
    CommentedLineChange.BESIDE: "not changed, but a line beside it is in v{}: ",
    CommentedLineChange.SAME: "not changed in v{}: ",
    CommentedLineChange.GONE: "not in v{}: ",
    CommentedLineChange.UNKNOWN: "",
}
"""Phrases for the effect of the next version on a commented line."""

AUTHOR_TEXT_KEY = "words"
"""Key of the note with the author's description of a proposal; the user can unfold it."""


def comments_in_diffs(comments: Iterable[UnsentComment], diffs: Sequence[FileDiff]) -> list[DiffComment]:
    """Return the comments on lines of these diffs."""
    files = {diff.change.path: number for number, diff in enumerate(diffs)}
    located = []
    for comment in comments:
        file = files.get(comment.path)
        if file is not None and comment.line < len(diff_side_lines(diffs[file], comment.side)):
            located.append(DiffComment(SourceLinePosition(file, comment.side, comment.line), comment.text))
    return located


def notes_above_diff(
    state: ReviewQueueState, proposal: Proposal, description_display: Literal["", "folded", "unfolded"]
) -> list[NoteRow]:
    """Return the notes above the first file: summary, description, re-based files, comments on the previous version.

    Args:
        description_display: How to show the author's description; empty if the approval pane shows all of it.
    """
    notes = [NoteRow(-1, summarize_size_and_risks(proposal), "plain")] if risk_summary_clauses(proposal) else []
    if description_display and (summary := attribute_summary_to_author(proposal)):
        notes.append(NoteRow(-1, summary, description_display, AUTHOR_TEXT_KEY))
    for path in state.seen_tracker.rebased_files(proposal) if can_be_approved(proposal) else ():
        text = f"{path}: re-based since you last saw it here. Look again at what would be written."
        notes.append(NoteRow(-1, text, "warning"))
    return [*notes, *previous_version_comment_notes(state, proposal)]


def previous_version_comment_notes(state: ReviewQueueState, proposal: Proposal) -> list[NoteRow]:
    """Return notes with the comments sent on the previous version; the user can mark each as answered."""
    comments = state.feedback_drafts.sent.get(proposal.supersedes, ())
    if not comments:
        return []
    keys = [f"{proposal.supersedes}/{number}" for number in range(len(comments))]
    open_count = sum(key not in state.feedback_drafts.answered for key in keys)
    rows = [NoteRow(-1, f"Your comments on {proposal.supersedes}, {open_count} of {len(comments)} open:", "plain")]
    answers = state.feedback_drafts.answers.get(proposal.id, ())
    for number, (key, comment) in enumerate(zip(keys, comments, strict=True)):
        text = " ".join(comment.text.split())
        effect = _FOLLOW_UP_PHRASES[answers[number]].format(proposal.version) if number < len(answers) else ""
        level: Literal["done", "open"] = "done" if key in state.feedback_drafts.answered else "open"
        rows.append(NoteRow(-1, f"{comment.path}:{comment.line}  {effect}{text}", level, key))
    return rows


_MAX_LISTED_COMMENTS = 5
"""Maximum number of comments that are listed; the others are counted."""


class FeedbackField(WritingField):
    """The field for feedback on a proposal, or for the reason why a permission request is denied."""

    def __init__(self) -> None:
        super().__init__("send to the model", id="feedback")

    def open_for_proposal(self, proposal: Proposal, comments: Sequence[UnsentComment], draft: str) -> None:
        """Open the field for feedback on a proposal."""
        summary = safe_line_content(proposal.summary, "$foreground 65%")
        title = Content.assemble(f"Request changes to {proposal.id}  ", summary)
        context = []
        for comment in comments[:_MAX_LISTED_COMMENTS]:
            place = safe_line_content(f"{comment.path}:{comment.line + 1}", "$text-accent")
            context.append(Content.assemble(place, "  ", safe_line_content(comment.text)))
        if len(comments) > _MAX_LISTED_COMMENTS:
            context.append(Content(f"and {format_count(len(comments) - _MAX_LISTED_COMMENTS, 'more comment')}"))
        if context:
            context.append(Content("These comments are sent too; your own text is optional."))
        if can_ask_model_to_redo_stale_proposal(proposal):
            text = f"The reason why it is stale is sent: {proposal.reason}. Your own text is optional."
            context.append(safe_line_content(text))
        self.open(proposal.id, title, draft, context)

    def open_for_permission_request(self, key: str, permission_request: PermissionRequest, draft: str) -> None:
        """Open the field for the reason of a denial."""
        title = Content.assemble(
            "Deny ", safe_line_content(permission_request.detail, "$text-warning"), " and say why"
        )
        self.open(key, title, draft)


class UnsentTextController:
    """Keeps the user's feedback and comments until they are sent; opens the field and returns orphaned texts."""

    def __init__(
        self, state: ReviewQueueState, field: FeedbackField, diff_pane: DiffPane, host: ReviewPaneInterface
    ) -> None:
        self._state = state
        self._field = field
        self._diff_pane = diff_pane
        self._host = host
        self.dropped = DroppedImages()
        """The images that were dropped on the terminal while the user wrote here."""

    def open_feedback_field(self) -> bool:
        """Open the field for feedback on the shown item; return whether it is open."""
        key = self._state.current
        draft = self._state.feedback_drafts.drafts.get(key, "")
        if self._state.permission_request is not None:
            self._field.open_for_permission_request(key, self._state.permission_request, draft)
        elif (proposal := self._state.proposal) is not None and proposal.state.is_pending:
            self._field.open_for_proposal(proposal, self._state.feedback_drafts.remarks.get(key, ()), draft)
        return self._field.is_open

    def save_text(self, key: str) -> None:
        """Request that the unfinished review of a proposal is saved; a permission request is not saved."""
        if key not in self._state.permissions.asked:
            self._host.post_message(UnfinishedReviewChanged(key, self._state.unfinished_review(key)))

    def save_draft(self, key: str, text: str) -> None:
        """Keep unfinished feedback."""
        self._state.feedback_drafts.set_feedback(key, text)
        self.save_text(key)

    def apply_comment(self, event: DiffPane.CommentEdited, diffs: tuple[FileDiff, ...]) -> None:
        """Apply an edited comment; `diffs` are those of the shown proposal."""
        proposal = self._state.get(event.proposal)
        if proposal is None:
            self._send_to_composer(event.text if event.saved else "")
            return
        comment = UnsentComment(event.path, event.line.side, event.line.line, event.text, draft=not event.saved)
        if proposal.id == self._state.current:
            comment = add_quoted_lines(comment, diffs)
        self._state.feedback_drafts.set_comment(proposal, comment)
        self.save_text(proposal.id)
        self.release_orphaned_feedback()

    def collect_feedback(self, key: str, hunks: tuple[str, ...] | None = None) -> FeedbackWithComments:
        """Remove and return the user's text for an answer to a request, or for a decision on a proposal or hunks.

        Close the fields whose text is returned.
        """
        drafts, proposal = self._state.feedback_drafts, self._state.get(key)
        if proposal is None:
            feedback = FeedbackWithComments(drafts.drafts.pop(key, ""))
        else:
            feedback = drafts.pop_feedback(proposal, hunks)
        if feedback.feedback and self._is_field_open_for(key):
            self._field.close()
        has_comment_draft = any(comment.draft for comment in drafts.remarks.get(key, ()))
        if self._diff_pane.commented_proposal == key and not has_comment_draft:
            self._diff_pane.close_comment_field()
        texts = (feedback.feedback, *(comment.text for comment in feedback.comments))
        return replace(feedback, mentions=self.dropped.find_mentions("\n".join(texts)))

    def clear_sent_feedback(self, key: str, feedback: FeedbackWithComments) -> None:
        """Clear the feedback draft, because it is recorded in the log; remember the sent comments."""
        if feedback.comments:
            sent = self._state.feedback_drafts.sent
            sent[key] = (*sent.get(key, ()), *feedback.comments)
        self.save_text(key)

    def restore_feedback(self, key: str, feedback: FeedbackWithComments) -> None:
        """Restore the feedback of a failed decision, because it was not sent."""
        self._state.feedback_drafts.restore(key, feedback)
        if self._is_field_open_for(key):
            self._field.set_text(self._state.feedback_drafts.drafts.get(key, ""))
        self.save_text(key)

    def release_orphaned_feedback(self) -> None:
        """Send feedback on proposals that are no longer pending to the composer, unless the user is editing it."""
        feedback_drafts = self._state.feedback_drafts
        for key in {*feedback_drafts.drafts, *feedback_drafts.remarks}:
            proposal = self._state.get(key)
            if proposal is not None and not proposal.state.is_pending and not self.is_writing_about(key):
                self._send_to_composer(feedback_drafts.pop_feedback(proposal).text)
                self.save_text(key)

    def close_field(self, key: str) -> None:
        """Handle the closed field; text about a permission request that is gone goes to the composer."""
        if self._state.get(key) is None and key not in self._state.permissions.asked:
            self._send_to_composer(self._state.feedback_drafts.drafts.pop(key, ""))
        self.release_orphaned_feedback()

    def end_permission(self, key: str) -> None:
        """Move the text about a closed permission request to the composer; keep it while the field is open."""
        if not self._is_field_open_for(key):
            self._send_to_composer(self._state.feedback_drafts.drafts.pop(key, ""))

    def _send_to_composer(self, text: str) -> None:
        """Send text without a subject to the composer, and show a notice about it."""
        if text.strip():
            self._host.post_message(FeedbackOrphaned(text))
            self._host.show_notice("Your text was not sent, because its subject is decided. It is in the composer.")

    def is_writing_about(self, key: str) -> bool:
        """Return whether the user writes feedback or a comment on an item now."""
        return self._is_field_open_for(key) or self._diff_pane.commented_proposal == key

    def _is_field_open_for(self, key: str) -> bool:
        return self._field.is_open and self._field.subject == key
