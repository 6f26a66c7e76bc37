"""Controls which diff of the current item is on the screen, so that a key decides only on the shown diff."""

from collections.abc import Iterator, Sequence
from typing import Literal

from textual.content import Content

from app.automation.evidence.proposal_evidence import ProposalTestEvidence
from app.proposals.risk.edited_file import sort_in_path_order
from app.proposals.text.hunks import has_changed_lines
from app.proposals.values.decision_facts import HunkTestVerdict
from app.proposals.values.models import FileChange, FileDiff, Proposal
from app.review.hunk_lines import add_evidence_reasons, changed_line_at, has_evidence_reason
from app.review.review_state import ReviewQueueState
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_pane import DiffPane
from widgets.diff.diff_rows import CommentKind, SourceLinePosition
from widgets.review.review_messages import (
    CommentFollowUpsWanted,
    DiffsRequested,
    ReviewPaneInterface,
    VersionDiffsRequested,
)
from widgets.review.review_wording import (
    QUIET_STYLE,
    check_findings_as_comments,
    permission_notes_and_must_see_count,
    safe_line_content,
)
from widgets.review.review_writing import comments_in_diffs, notes_above_diff

_EVIDENCE_COMMENT_KINDS: dict[HunkTestVerdict, CommentKind] = {
    HunkTestVerdict.HELD: "noticed",
    HunkTestVerdict.RED: "noticed",
    HunkTestVerdict.UNNOTICED: "unnoticed",
    HunkTestVerdict.GREEN: "unnoticed",
}


def versions_written_by_approval(changes: Sequence[FileChange]) -> tuple[tuple[object, ...], ...]:
    """Return the versions that an approval of these changes would write, as a comparable value."""
    return tuple(
        (
            change.path,
            change.old_path,
            change.op,
            change.base and (change.base.sha256, change.base.mode),
            change.result and (change.result.sha256, change.result.mode),
            tuple(hunk.id for hunk in change.hunks),
        )
        for change in sorted(changes, key=lambda change: change.path)
    )


def _has_new_decisions(before: Proposal, now: Proposal) -> bool:
    """Return whether some pending hunks were decided while others are still pending."""
    pending_before = {hunk.id for hunk in before.pending_hunks}
    pending_now = {hunk.id for hunk in now.pending_hunks}
    return bool(pending_now) and any(hunk.id in pending_before - pending_now for hunk in now.hunks)


class DiffPreviewController:
    """Shows the current item of a review in the diff pane: its diff, two versions of it, or a permission request."""

    def __init__(self, state: ReviewQueueState, pane: DiffPane, host: ReviewPaneInterface) -> None:
        self._state = state
        self._pane = pane
        self._view = pane.view
        self._host = host
        self.comparing = False
        """Whether the pane compares two versions instead of showing what an approval would write."""
        self.title_is_cut = False
        """Whether the approval pane cuts the author's description."""
        self._is_description_unfolded = False
        self.by_path = False
        """Whether the user wants the files in path order instead of order of risk."""
        self.diffs: tuple[FileDiff, ...] = ()
        """Diffs of the shown proposal, in the order on screen."""
        self._proposal_of_diffs: Proposal | None = None
        self._version_diffs: tuple[str, tuple[FileDiff, ...]] | None = None

    def show_current_item(self) -> None:
        """Show the current item from the start; request the diffs of a proposal."""
        self._proposal_of_diffs, self.diffs, self.comparing = None, (), False
        self._is_description_unfolded = False
        proposal, permission_request = self._state.proposal, self._state.permission_request
        if permission_request is not None:
            self._view.show_text(*permission_notes_and_must_see_count(permission_request))
        elif proposal is None:
            self._view.show_message("Nothing to review yet. What the model proposes appears here.")
        else:
            self._view.show_message(f"Loading {proposal.id} …")
            self._host.post_message(DiffsRequested(proposal.id))

    def update_shown_proposal(self) -> None:
        """Request the diffs of the shown proposal if it has changed."""
        proposal = self._state.proposal
        if proposal is not None and proposal != self._proposal_of_diffs:
            self._host.post_message(DiffsRequested(proposal.id))

    def show_requested_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> bool:
        """Show requested diffs; return False if another proposal is shown now."""
        proposal = self._state.proposal
        if proposal is None or proposal.id != proposal_id:
            return False
        self.comparing = False
        self._show_diffs(proposal, diffs)
        return True

    def _show_diffs(self, proposal: Proposal, diffs: Sequence[FileDiff]) -> None:
        state = self._state
        diffs = add_evidence_reasons(diffs, state.checks.get(proposal.id), state.evidence.get(proposal.id))
        order = () if self.by_path else proposal.order
        ordered = sort_in_path_order(diffs, [diff.change.path for diff in diffs], order)
        if not self.by_path:
            ordered.sort(key=lambda diff: not has_evidence_reason(diff))
        self.diffs = tuple(ordered)
        previous, self._proposal_of_diffs = self._proposal_of_diffs, proposal
        state.seen_tracker.remember_bases(proposal)
        self._show_change(proposal)
        if previous is not None and previous.id == proposal.id and _has_new_decisions(previous, proposal):
            self._view.go_to_pending_hunk()
        self.request_follow_ups()
        self.mark_chosen_hunks()

    def _show_change(self, proposal: Proposal) -> None:
        notes = notes_above_diff(self._state, proposal, self._description_state)
        seen = self._state.seen_tracker.seen_lines(proposal)
        self._view.show_change(proposal, self.diffs, extra=notes, seen=seen)

    def toggle_order(self) -> str:
        """Toggle between risk order and path order, keep the cursor on its line, and return a notice."""
        self.by_path = not self.by_path
        if not self.comparing and self._proposal_of_diffs is not None:
            self._show_diffs(self._proposal_of_diffs, sorted(self.diffs, key=lambda diff: diff.change.path))
        return "Files by path." if self.by_path else "Files by risk."

    def show_requested_versions(self, proposal_id: str, diffs: Sequence[FileDiff]) -> bool:
        """Show requested changes since the previous version; return False if another proposal is shown."""
        self._version_diffs = (proposal_id, tuple(diffs))
        proposal = self._state.proposal
        return proposal is not None and proposal.id == proposal_id and self.compare_versions(proposal)

    def compare_versions(self, proposal: Proposal) -> bool:
        """Compare the previous version with this one; if its diff is missing, request it and return False."""
        if self._version_diffs is None or self._version_diffs[0] != proposal.id:
            self._host.post_message(VersionDiffsRequested(proposal.id))
            return False
        self.comparing = True
        self._view.show_message()
        self._view.show_change(proposal, self._version_diffs[1], versions=True)
        return True

    def is_showing_approvable_diff(self, proposal: Proposal) -> bool:
        """Return whether the diff on screen is what an approval of this proposal would write."""
        if self.comparing or self._proposal_of_diffs is None or self._proposal_of_diffs.id != proposal.id:
            return False
        return versions_written_by_approval([diff.change for diff in self.diffs]) == versions_written_by_approval(
            proposal.files
        )

    def mark_left_out_hunks(self) -> None:
        """Mark the hunks that an approval would not write."""
        self._view.set_left_out(self._state.hunk_exclusions.excluded_from(self._state.current))

    def mark_chosen_hunks(self) -> None:
        """Mark the excluded hunks and show the comments, drafts and findings."""
        if self._state.proposal is not None and self._view.diffs:
            self.mark_left_out_hunks()
            comments = self._state.feedback_drafts.remarks.get(self._state.current, ())
            saved_comments = (comment for comment in comments if not comment.draft)
            self._pane.set_comments(comments_in_diffs(saved_comments, self._view.diffs))
            self.restore_drafts(self._state.current)
            self.show_findings()

    def show_findings(self) -> None:
        """Show the findings of checks at their lines; at the head of hunks, the evidence and what repeats an edit."""
        if self._view.diffs and not self.comparing:
            diffs, state = self._view.diffs, self._state
            findings = check_findings_as_comments(state.checks.get(state.current), diffs)
            self._pane.set_findings([*findings, *_hunk_head_comments(state.evidence.get(state.current), diffs)])

    def mark_attention_reasons(self) -> None:
        """Mark hunks that no test notices and lines that no test runs; keep the order of the files."""
        proposal, state = self._proposal_of_diffs, self._state
        if proposal is None or self.comparing or state.proposal != proposal:
            return
        checks, evidence = state.checks.get(proposal.id), state.evidence.get(proposal.id)
        marked_diffs = tuple(add_evidence_reasons(self.diffs, checks, evidence))
        if marked_diffs != self.diffs:
            self.diffs = marked_diffs
            self._show_change(proposal)
            self.mark_chosen_hunks()

    def restore_drafts(self, key: str) -> None:
        """Show the unsaved comments of a proposal."""
        comments = self._state.feedback_drafts.remarks.get(key, ())
        self._pane.set_drafts(comments_in_diffs((comment for comment in comments if comment.draft), self._view.diffs))

    def request_follow_ups(self) -> None:
        """Request how the shown proposal responds to the comments on the previous version."""
        proposal = self._state.proposal
        if proposal is not None and (comments := self._state.feedback_drafts.sent.get(proposal.supersedes)):
            self._host.post_message(CommentFollowUpsWanted(proposal.id, comments))

    @property
    def _description_state(self) -> Literal["", "folded", "unfolded"]:
        if not self.title_is_cut:
            return ""
        return "unfolded" if self._is_description_unfolded else "folded"

    def toggle_description(self) -> None:
        """Show the author's complete description, or only its beginning."""
        self._is_description_unfolded = not self._is_description_unfolded
        self.show_notes()

    def show_notes(self) -> None:
        """Update the notes above the diff."""
        if (proposal := self._state.proposal) is not None and self._view.proposal is not None and not self.comparing:
            self._view.set_notes_above(notes_above_diff(self._state, proposal, self._description_state))

    @property
    def title(self) -> Content:
        """Return the title for the line above the diff."""
        proposal = self._state.proposal
        if proposal is None or self._view.proposal is None or not self.comparing:
            return Content("")
        return Content.styled(f"{proposal.supersedes} → {proposal.id}", "bold $text-warning")

    @property
    def origin(self) -> Content:
        """Return the origin of the shown proposal for the line above the diff."""
        proposal = self._state.proposal
        if proposal is None or self._view.proposal is None:
            return Content("")
        return safe_line_content(proposal.origin.name, QUIET_STYLE)


def _hunk_head_comments(evidence: ProposalTestEvidence | None, diffs: Sequence[FileDiff]) -> Iterator[DiffComment]:
    """Yield what is known about each hunk in these diffs, for its first changed line."""
    for file, diff in enumerate(diffs):
        for hunk in filter(has_changed_lines, diff.change.hunks):
            line = SourceLinePosition(file, *changed_line_at(hunk, 0))
            if hunk.repeat_of:
                yield DiffComment(line, f"repeats an edit that you denied in {hunk.repeat_of}", "repeated")
            if evidence is not None and (mark := evidence.marks.get(hunk.id)) is not None:
                kind = _EVIDENCE_COMMENT_KINDS.get(mark.verdict, "unclear")
                yield DiffComment(line, mark.description, kind)
