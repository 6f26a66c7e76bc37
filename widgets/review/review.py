"""The review: the diff above, the approvals below, and the decision keys; it posts decisions as messages."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.widgets import Static

from app.automation.check_results import ProposalChecks, new_failures_as_feedback, uncovered_lines_as_feedback
from app.automation.evidence.proposal_evidence import (
    CommandReproductionResult,
    ProposalTestEvidence,
    hunks_unnoticed_by_tests_as_feedback,
)
from app.conversation.events import ProposalLocation
from app.images.mentions import Mention
from app.keys.actions import UserAction, actions_in_scopes, make_key_bindings_of_scopes
from app.keys.keymap import effective_keys, key_display_name
from app.proposals.decide.comment_follow_up import CommentedLineChange
from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileDiff, Hunk, HunkState, Proposal
from app.review.review_state import ReviewQueueState
from app.review.unfinished_review import FeedbackWithComments, UnfinishedReview
from app.review.verdicts import (
    COMPARES_VERSIONS_MESSAGE,
    can_ask_model_to_redo_stale_proposal,
    describe_proposal_state_in_review,
    judge_approval,
    judge_approve_all,
    judge_denial,
    judge_denial_with_feedback,
    judge_deny_all,
)
from app.tools.base.contract import PermissionAnswer, PermissionDuration, PermissionRequest
from widgets.common.containers import Column
from widgets.common.input_order import input_arrival_time, is_burst_input
from widgets.common.key_hints import MAIN_BUTTON
from widgets.common.splitter import Splitter
from widgets.common.workbench_bars import HasChangingKeyTitles, ShowsOwnActionKeys
from widgets.diff.diff_cursor import PickedLines
from widgets.diff.diff_pane import DiffPane
from widgets.diff.diff_view import DiffView
from widgets.diff.file_list import FileList
from widgets.diff.writing_field import WritingField
from widgets.review import review_messages
from widgets.review.approval_pane import ApprovalPane, ReviewQueue
from widgets.review.ask_panel import SideQuestionPanel, exchange_as_feedback
from widgets.review.decision_keys import (
    GRACE_SECONDS,
    NO_SUBJECT_NOTICES,
    REVIEW_ACTION_NAMES,
    ActionVerdictHandler,
    GracePeriod,
    SeenBeforeDecisionGuard,
    find_current_key_title,
    is_action_available,
)
from widgets.review.diff_preview_controller import DiffPreviewController, versions_written_by_approval
from widgets.review.review_wording import ACTION_META_KEY, question_with_keys, safe_line_content
from widgets.review.review_writing import AUTHOR_TEXT_KEY, FeedbackField, UnsentTextController

_FOCUS_REVIEW_ACTION = next(action for action in actions_in_scopes("app") if action.id == "app.focus_approvals")
_REVERSAL_ACTIONS = frozenset({"undo", "redo"})
_MIN_TERMINAL_SIZE = Size(40, 12)
"""Minimum size of the terminal for a review."""
_EXTRA_DIM_SECONDS = 0.05
"""Seconds that the dimmed look of the keys may last longer than the grace period."""
_DIFF_ACTIONS = frozenset(action.handler for action in actions_in_scopes("diff"))
_FIELD_CLOSED_MESSAGE = "The field was closed just now. Press the key again."
"""Shown when the user keeps typing after a field was closed; these keys decide nothing."""
_WHOLE_FILE_MESSAGE = "This file is decided with the proposal as a whole."
_MAX_PAINT_WAIT_SECONDS = 1.0
"""Maximum seconds to wait for the painted screen before a command from the palette runs."""


class ReviewPane(Column, HasChangingKeyTitles, ShowsOwnActionKeys):
    """The diff preview above the approvals; shows one item of the queue and the keys that decide on it.

    Args:
        clock: Returns monotonic seconds.
        keys: Keys that override the defaults, by action id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close_thread", "Close"),
        *make_key_bindings_of_scopes("review"),
        *make_key_bindings_of_scopes("diff", wrapper_action="in_diff"),
    ]

    DEFAULT_CSS: ClassVar[str] = """
    ReviewPane {
        width: 1fr;
        height: 1fr;
        layers: default notice;
        #too-small {
            display: none;
            layer: notice;
            width: 100%;
            height: 100%;
            content-align: center middle;
            text-align: center;
            background: $background;
            color: $text-warning;
        }
        &.-aside #headline { display: none; }
        &.-aside ApprovalPane { min-height: 2; }
        &.-full ApprovalPane { min-height: 0; }
    }
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, keys: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.state = ReviewQueueState()
        self.diff_pane = DiffPane()
        self.view = self.diff_pane.view
        self.view.after_frame = lambda: self.readiness.mark_painted(in_focus=self.has_review_focus)
        self.approval_pane = ApprovalPane()
        self.feedback_field = FeedbackField()
        self.preview = DiffPreviewController(self.state, self.diff_pane, self)
        self.ask_panel = SideQuestionPanel(self.state, self.diff_pane, self.preview)
        self.readiness = SeenBeforeDecisionGuard(clock)
        self.text_controller = UnsentTextController(self.state, self.feedback_field, self.diff_pane, self)
        self.verdict_handler = ActionVerdictHandler(self.state, self.text_controller.collect_feedback, self)
        self.after_redraw: Callable[[], None] = lambda: None
        """Called after each redraw."""
        self._had_focus = False
        self._available_actions: frozenset[tuple[str, str | None]] = frozenset()
        """The available actions and their titles at the latest redraw."""
        self.keymap: Mapping[str, str] = dict(keys or {})
        """The user's keys, by action id."""
        self._pressed_chip_action: str | None = None
        """The action of the chip on which the mouse button was pressed."""
        self._was_able_to_ask = False
        self._proposal_to_show_unseen = ""
        """Id of the proposal whose first unseen line is shown when its diff is loaded."""

    def compose(self) -> ComposeResult:
        yield self.diff_pane
        yield self.ask_panel
        yield Splitter()
        yield self.feedback_field
        yield self.approval_pane
        yield Static(
            f"too small to review\n{_MIN_TERMINAL_SIZE.width}x{_MIN_TERMINAL_SIZE.height} is needed",
            id="too-small",
            markup=False,
        )

    def on_mount(self) -> None:
        for field in self.query(WritingField):
            field.set_paste_handler(self.text_controller.dropped.mention_text)
        self._show_keys()
        self.approval_pane.shown_keys_changed = self.refresh_bindings
        self.preview.show_current_item()

    def on_resize(self) -> None:
        """Divide the height between the panes; show a notice if the terminal is too small."""
        self.query_one("#too-small").display = self.is_too_small
        self.refresh_bindings()
        self.approval_pane.fit_height(self.size.height)
        self.call_after_refresh(self.after_redraw)

    @property
    def is_too_small(self) -> bool:
        """Return whether the terminal is too small to show the subject of a decision."""
        return self.app.size.width < _MIN_TERMINAL_SIZE.width or self.app.size.height < _MIN_TERMINAL_SIZE.height

    # Called by the app

    def set_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Replace all pending and recent proposals; feedback on proposals decided elsewhere goes to the composer."""
        previous = self.state.current
        known_keys = set(self.state.listed_keys)
        attended = self.is_mounted and (self.has_review_focus or self.is_writing)
        commented = self.state.get(self.diff_pane.commented_proposal) if attended else None
        is_edited = self.is_mounted and (self.ask_panel.is_writing or self.text_controller.is_writing_about(previous))
        self.state.update_proposals(proposals, attended=attended, is_edited=is_edited)
        present = self.state.get(commented.id) if commented is not None else None
        if commented is not None and present is not None and commented.revision != present.revision:
            self.diff_pane.move_comment(commented, present)
        decided = self.approval_pane.decided_proposal
        now = self.state.get(decided.id) if decided is not None else None
        is_decided_again = now and decided and now.next_decision_number > decided.next_decision_number
        if is_decided_again or not known_keys.issuperset(self.state.waiting_keys):
            # Another window has decided since, or a new item waits: the outcome of the decision is outdated.
            self.approval_pane.show_outcome(None)
        self.verdict_handler.update_proposals()
        if self.state.current != previous:
            self.show_current_item()
        else:
            self.preview.update_shown_proposal()
            self.redraw()
        self.text_controller.release_orphaned_feedback()

    def set_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take requested diffs, and request the side questions; ignore the diffs if another proposal is shown."""
        if self.preview.show_requested_diffs(proposal_id, diffs):
            self.redraw()
            if self._proposal_to_show_unseen == proposal_id:
                self.call_after_refresh(self.view.action_next_unseen)
            self._proposal_to_show_unseen = ""
        self.post_message(review_messages.SideThreadsWanted(proposal_id))

    def set_version_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the changes from the previous version to this one, and show them if this proposal is still shown."""
        if self.preview.show_requested_versions(proposal_id, diffs):
            self._show_comparison()

    def set_checks(self, checks: ProposalChecks) -> None:
        """Take the current check results of a proposal."""
        self.state.checks[checks.proposal] = checks
        if checks.proposal == self.state.current and self.is_mounted:
            self.preview.show_findings()
            self.preview.mark_attention_reasons()
            self.redraw()

    def set_evidence(self, evidence: ProposalTestEvidence) -> None:
        """Take the current evidence about a proposal."""
        self.state.evidence[evidence.proposal] = evidence
        if evidence.proposal == self.state.current and self.is_mounted:
            self.preview.show_findings()
            if not evidence.is_running:
                self.preview.mark_attention_reasons()
            self.redraw()

    def begin_reproduction(self, proposal_id: str) -> None:
        """Show that the command of a proposal runs again; an empty id means that none runs."""
        self.state.reproducing = proposal_id
        if self.is_mounted:
            self.redraw()

    def set_reproduction(self, reproduction: CommandReproductionResult) -> None:
        """Take the result of a second run of a proposal's command."""
        self.state.reproductions[reproduction.proposal] = reproduction
        if self.is_mounted:
            self.redraw()

    def select_split_parts(self, proposal_id: str, parts: Sequence[HunkPart], whole: Collection[str]) -> None:
        """Include or exclude split parts of hunks; the proposal with the parts is shown next."""
        if (proposal := self.state.get(proposal_id)) is not None:
            self.state.select_split_parts(proposal, parts, whole)

    def set_sent_comments(self, proposal_id: str, comments: Sequence[LineComment]) -> None:
        """Take the comments that were sent with the denial of a proposal; the next version lists them."""
        self.state.feedback_drafts.sent[proposal_id] = tuple(comments)
        self.preview.request_follow_ups()
        self.preview.show_notes()

    def set_follow_ups(self, proposal_id: str, answers: Sequence[CommentedLineChange]) -> None:
        """Take the effects of a proposal on the comments on its previous version."""
        self.state.feedback_drafts.answers[proposal_id] = tuple(answers)
        if proposal_id == self.state.current:
            self.preview.show_notes()

    def add_permission_request(self, key: str, permission_request: PermissionRequest) -> None:
        """Add a permission request; the model's turn waits for the answer."""
        self.state.permissions.asked[key] = permission_request
        self.approval_pane.show_outcome(None)
        # While the user writes, keep the subject of the text in view.
        if self.is_writing or not self.show_permission():
            self.redraw()

    def shows_whole_request(self, key: str) -> bool:
        """Return whether the whole permission request fits and is shown."""
        view = self.view
        return self.state.current == key and 0 < view.layout_rows.height <= view.size.height

    def show_permission(self) -> bool:
        """Show the oldest permission request if it is hidden; return whether it was hidden."""
        if not self.state.has_hidden_permission:
            return False
        self.state.show_permission()
        self.show_current_item()
        return True

    def remove_permission_request(self, key: str) -> None:
        """Remove a permission request, answered or not."""
        self.state.permissions.remove(key)
        self.text_controller.end_permission(key)
        if self.state.current == key:
            self.state.leave_permission()
            self.show_current_item()
        else:
            self.redraw()

    @property
    def is_writing(self) -> bool:
        """Return whether the user writes feedback, a comment or a question."""
        return self.ask_panel.is_writing or any(field.is_open for field in self.query(WritingField))

    def restore_notes(self, notes: Mapping[str, UnfinishedReview]) -> None:
        """Restore unfinished reviews after a restart, by proposal."""
        for key, unfinished in notes.items():
            self.state.restore_notes(key, unfinished)
        self.preview.mark_chosen_hunks()
        self.preview.show_notes()
        self.redraw()

    def restore_seen(self, stored: Mapping[str, Mapping[str, bytes]]) -> None:
        """Add the lines that were seen in other windows and earlier runs."""
        tracker, proposal = self.state.seen_tracker, self.state.proposal
        count_before = tracker.seen_lines(proposal).lines if proposal is not None else 0
        tracker.restore(stored)
        if proposal is not None and tracker.seen_lines(proposal).lines != count_before:
            self.view.seen_recorder.update_counted_lines()
            self.redraw()

    def restore_feedback(self, key: str, feedback: FeedbackWithComments) -> None:
        """Restore the feedback of a failed decision."""
        self.text_controller.restore_feedback(key, feedback)
        self.preview.mark_chosen_hunks()
        self.redraw()

    def set_question_pending(self, pending: bool) -> None:
        """Set whether the model waits for the answer to a question in the chat."""
        if pending != self.state.has_question_in_chat:
            self.state.has_question_in_chat = pending
            self.redraw_approvals()

    def show_outcome(
        self,
        text: str,
        *,
        problem: bool = False,
        passing: bool = False,
        reversal: tuple[str, str] | None = None,
        decided: Proposal | None = None,
    ) -> None:
        """Show the outcome of a decision, or a problem, in one line.

        Args:
            text: For example `P1 written: a.py.`
            problem: Whether it is an error; then the user can repeat the failed decision.
            passing: Whether to remove it at the end of the model's turn.
            reversal: The action that reverts the decision, and the words for it: `undo`, `undoes it`.
            decided: The proposal after the decision; the line is removed once it is decided again elsewhere.
        """
        if problem:
            self.verdict_handler.on_decision_failed()
        reversal_hint = None if reversal is None else lambda: f"{self.keys_leading_to(reversal[0])} {reversal[1]}."
        self.approval_pane.show_outcome(
            safe_line_content(text), problem=problem, passing=passing, reversal_hint=reversal_hint, decided=decided
        )

    def show_notice(self, text: str) -> None:
        """Show in one line why something was not done; remove the line if the text is empty."""
        self.approval_pane.show_outcome(safe_line_content(text) if text else None, problem=bool(text))

    def end_turn(self, replacement: str) -> None:
        """Replace an outcome that applied only during the turn; if `replacement` is empty, remove it."""
        if self.approval_pane.is_passing:
            outcome = safe_line_content(replacement) if replacement else None
            self.approval_pane.show_outcome(outcome, passing=bool(replacement))

    def override_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys in the hints, by action id."""
        self.keymap = dict(keys)
        self._show_keys()
        self.redraw()

    def _show_keys(self) -> None:
        for field in (*self.query(WritingField), self.ask_panel):
            field.override_keys(self.keymap)
        self.view.model.space_key = self.key_of_action("toggle_white_space")

    def set_model_continues(self, continues: bool) -> None:
        """Set whether the model continues when no proposal waits any more."""
        if continues != self.state.continues_when_empty:
            self.state.continues_when_empty = continues
            self.redraw()

    def show_item(self, key: str) -> None:
        """Show a listed proposal or permission request, by its id or key."""
        if self.state.is_listed(key) and key != self.state.current:
            self.state.current, self.state.is_picked_by_user = key, True
            self.show_current_item()

    # Drawing

    def show_current_item(self) -> None:
        """Show the current item from the start."""
        self.verdict_handler.question = None
        self.approval_pane.clear_key_notice()
        self.preview.show_current_item()
        self.redraw()

    def redraw(self) -> None:
        """Redraw everything and update the available keys; start a grace period if the decision's subject changed."""
        state, question, proposal = self.state, self.verdict_handler.question, self.state.proposal
        shown_item = (
            state.current,
            proposal and proposal.revision,
            proposal and versions_written_by_approval(proposal.files),
        )
        is_diff_shown = proposal is not None and self.preview.is_showing_approvable_diff(proposal)
        chosen_hunks = state.hunk_exclusions.approval_selection(proposal).hunks if proposal is not None else ()
        self.readiness.choice_grace_period.set_subject(shown_item)
        changed = self.readiness.grace_period.set_subject(
            (shown_item, is_diff_shown, chosen_hunks, state.form, question)
        )
        if changed or not state.queue_number(state.current):
            self._dim_keys()
        if changed:
            self.require_repaint()
        self.redraw_approvals()
        self.diff_pane.set_title(self.preview.title, self.preview.origin)
        self.approval_pane.set_class(self.feedback_field.is_open, "-writing")
        actions = (action for action in REVIEW_ACTION_NAMES if is_action_available(action, state, question))
        available = frozenset((action, self.title_of(action)) for action in actions)
        if available != self._available_actions:
            self._available_actions = available
            self.refresh_bindings()
        self.after_redraw()
        self.ask_panel.show_marks()
        if self.ask_panel.can_ask != self._was_able_to_ask:
            self._was_able_to_ask = self.ask_panel.can_ask
            self.refresh_bindings()

    def redraw_approvals(self) -> None:
        """Redraw the lower pane."""
        question = self.verdict_handler.question
        self.approval_pane.show_question(
            None if question is None else question_with_keys(question, self.key_of_action)
        )
        # A CSS class would make Textual restyle all widgets inside.
        self.approval_pane.queue.display = not self.has_class("-full")
        notes_shown = self.view.layout_rows.height <= self.view.size.height
        self.approval_pane.show_state(
            self.state, self._key_in_headline, comparing=self.preview.comparing, notes_shown=notes_shown
        )
        self.query_one(Splitter).display = self.approval_pane.queue.display and bool(self.approval_pane.queue.items)
        if self.preview.title_is_cut == self.approval_pane.shows_title:
            self.preview.title_is_cut = not self.approval_pane.shows_title
            self.preview.show_notes()

    def restart_grace_period(self, why: str) -> None:
        """Start the grace period again."""
        self.readiness.restart_grace_periods(why)
        self._dim_keys()

    def require_repaint(self) -> None:
        """Ignore keys until everything has been painted again."""
        self.readiness.require_repaint()
        self.view.refresh()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _follow_focus(self) -> None:
        if self.has_review_focus != self._had_focus:
            self._had_focus = self.has_review_focus
            self.readiness.focus_clock.mark_not_painted()
            self.view.refresh()
            self.approval_pane.clear_key_notice()
            self.approval_pane.redraw_outcome()
            self.redraw_approvals()
        # While the user writes a side question, the decision keys are letters.
        self.set_class(self.ask_panel.is_writing, "-aside")
        self.ask_panel.update_title()

    @property
    def has_review_focus(self) -> bool:
        """Return whether the diff, the queue or the file list has the focus, rather than a field."""
        focused = self.screen.focused
        return focused is self.view or isinstance(focused, ReviewQueue | FileList)

    def _dim_keys(self) -> None:
        """Show the decision keys as inactive during the grace period."""
        is_waiting = self.state.queue_number(self.state.current) > 0
        self.approval_pane.set_class(is_waiting, "-changed")
        if is_waiting:
            # A Textual timer that is already late when it starts never fires.
            asyncio.get_running_loop().call_later(GRACE_SECONDS + _EXTRA_DIM_SECONDS, self._end_dimming)

    def _end_dimming(self) -> None:
        if self.readiness.grace_period.is_over:
            self.approval_pane.remove_class("-changed")

    def title_of(self, action: str) -> str | None:
        """Return the title of a key now; empty for the default title, None if the key would only refuse."""
        if action == "in_diff('external_diff')":
            return self.view.title_of("external_diff")
        return find_current_key_title(
            action, self.state, self.verdict_handler.question, is_comparing_versions=self.preview.comparing
        )

    @property
    def actions_with_shown_keys(self) -> frozenset[str]:
        """Return the actions whose keys are shown above the list."""
        is_hidden = self.has_class("-aside") or self.feedback_field.is_open
        return frozenset() if is_hidden else self.approval_pane.actions_with_shown_keys

    def key_of_action(self, action: str) -> str:
        """Return the key of an action of the review or the diff, as hints show it."""
        return self._first_key(next(item for item in actions_in_scopes("review", "diff") if item.handler == action))

    def keys_leading_to(self, action: str) -> str:
        """Return the key of an action; without the focus here, put the key that focuses the review before it."""
        key = self.key_of_action(action)
        return key if self.has_review_focus else f"{self._first_key(_FOCUS_REVIEW_ACTION)} {key}"

    def _key_in_headline(self, action: str) -> str:
        # After a decision, the focus may be in the composer, where the undo key would be typed as text.
        return self.keys_leading_to(action) if action in _REVERSAL_ACTIONS else self.key_of_action(action)

    def _first_key(self, action: UserAction) -> str:
        return key_display_name(effective_keys(action, self.keymap)[0])

    @on(DiffView.CameOnScreen)
    @on(ReviewQueue.DecidedToggled)
    def _update_unseen_count(self) -> None:
        if self.verdict_handler.refresh_question():
            self.redraw()
        else:
            self.redraw_approvals()

    @on(DiffView.OrderWanted)
    def _toggle_order(self) -> None:
        self.show_notice(self.preview.toggle_order())
        self.redraw()

    @on(DiffView.NothingUnseen)
    def _go_to_next_unread(self) -> None:
        """Show the next proposal with unseen lines, at its first unseen line; if there is none, show a notice."""
        if (key := self.state.next_unread_proposal) and self._proposal_open_to_choice is not None:
            self._proposal_to_show_unseen = key
            self.show_item(key)
        else:
            self.approval_pane.show_outcome(safe_line_content("Everything that would be written has been on screen."))

    @on(DiffView.NoLineToComment)
    def _explain_comment_key(self) -> None:
        self.show_notice("A comment is on a line; move to one.")

    @on(DiffView.NoteClicked)
    def _toggle_note(self, event: DiffView.NoteClicked) -> None:
        if event.key == AUTHOR_TEXT_KEY:
            self.preview.toggle_description()
            return
        self.state.feedback_drafts.answered ^= {event.key}
        self.text_controller.save_text(event.key.partition("/")[0])
        self.preview.show_notes()

    @on(ReviewQueue.Picked)
    def _show_picked_item(self, event: ReviewQueue.Picked) -> None:
        self.show_item(event.key)

    @on(Splitter.Dragged)
    def _resize_list(self, event: Splitter.Dragged) -> None:
        event.stop()
        self.approval_pane.set_list_height(max(4, min(self.region.bottom - event.screen_y - 1, self.size.height - 6)))

    # Whether keys take effect

    def is_key_active(self, *names: str | None) -> bool:
        """Return whether a key, by any of its names, has an effect here now."""
        return any(
            not {*names}.isdisjoint(effective_keys(action, self.keymap)) and self._is_action_available(action.handler)
            for action in actions_in_scopes("app", "review", "diff", "files", "approval")
        )

    def _is_action_available(self, action: str) -> bool:
        if action in REVIEW_ACTION_NAMES:
            return is_action_available(action, self.state, self.verdict_handler.question)
        return action != "comment" or bool(self.view.check_action(action, ()))

    def _accepts_key(self, grace_period: GracePeriod | None = None, *, writes: bool = False) -> bool:
        """Return whether a decision key counts now; if not, show why and restart the grace period.

        The restart matters after an `r` that came too early: the user may type on for a field that did not open.

        Args:
            grace_period: The grace period for this key; None for that of decisions.
            writes: Whether the key only opens a field; then it also counts if text followed it in the same read.
        """
        if not self.has_review_focus or self.is_too_small:
            return False
        in_burst = not writes and is_burst_input(self.app)
        why_not = self.readiness.blocking_reason(
            grace_period or self.readiness.grace_period, input_arrival_time(self.app), in_burst=in_burst
        )
        if why_not:
            self.restart_grace_period(why_not)
            self.approval_pane.show_outcome(safe_line_content(why_not), problem=True, about_key=True)
        return not why_not

    def _accepts_decision_key(self, *, writes: bool = False) -> bool:
        """Return whether a decision key applies to the shown item; show an open permission request first."""
        return self._accepts_key(writes=writes) and not self.show_permission()

    @property
    def _proposal_open_to_choice(self) -> Proposal | None:
        """Return the shown proposal if it is pending, no question is open, and no versions are compared."""
        proposal = self.state.proposal
        can_choose = self.verdict_handler.question is None and not self.preview.comparing
        return proposal if proposal is not None and proposal.state.is_pending and can_choose else None

    # Checks

    def action_run_checks(self) -> None:
        """Run the checks of the shown proposal that have not run; if all have run, run all again."""
        self.post_message(review_messages.CheckRunWanted(self.state.current))

    def action_show_checks(self) -> None:
        self.post_message(review_messages.CheckOutputWanted(self.state.current))

    def action_show_reads(self) -> None:
        """Show what the model had read before it wrote the shown proposal."""
        self.post_message(review_messages.ModelReadsWanted(self.state.current))

    def action_find_evidence(self) -> None:
        """Run the tests without each hunk of the shown proposal, or stop that run."""
        self.post_message(review_messages.EvidenceRunOrStopWanted(self.state.current))

    def action_reproduce(self) -> None:
        """Run the command of the shown proposal again, or stop it."""
        is_running = self.state.reproducing == self.state.current
        self.post_message(review_messages.CommandRerunOrStopWanted(self.state.current, is_running))

    def action_send_findings(self) -> None:
        """Deny the proposal with the findings of the checks as feedback; the model continues.

        If tests do not notice a hunk or do not run a line, that is not an error yet. Then the text becomes a draft,
        and the user decides whether to send it.
        """
        proposal = self._proposal_open_to_choice
        # Proposals that are on disk already are reverted with another key, which says what would be lost.
        if proposal is None or proposal.on_disk or not self._accepts_decision_key():
            return
        if self.verdict_handler.refuse_if_busy(proposal) or not self.preview.is_showing_approvable_diff(proposal):
            return
        checks, evidence = self.state.checks.get(proposal.id), self.state.evidence.get(proposal.id)
        failures = new_failures_as_feedback(checks) if checks is not None else ""
        unnoticed = hunks_unnoticed_by_tests_as_feedback(evidence, self.preview.diffs) if evidence is not None else ""
        uncovered = uncovered_lines_as_feedback(checks) if checks is not None and not failures else ""
        if unnoticed or uncovered:
            self._append_to_feedback_draft(proposal, "\n\n".join(filter(None, (failures, unnoticed, uncovered))))
        elif failures:
            self.verdict_handler.deny_with_feedback(proposal, failures)

    def _append_to_feedback_draft(self, proposal: Proposal, text: str) -> None:
        """Append a text to the feedback draft, unless the draft contains it, and open the field."""
        draft = self.state.feedback_drafts.drafts.get(proposal.id, "").rstrip()
        if text not in draft:
            self.text_controller.save_draft(proposal.id, "\n\n".join(filter(None, (draft, text))))
        self.text_controller.open_feedback_field()
        self.approval_pane.set_class(self.feedback_field.is_open, "-writing")

    # Decision keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible now; decision keys need the focus and something to decide."""
        if self.is_too_small and (action in REVIEW_ACTION_NAMES or action in ("in_diff", "ask")):
            return False
        if action in REVIEW_ACTION_NAMES:
            return self.has_review_focus and self._is_action_available(action)
        match action:
            case "in_diff":
                return self.has_review_focus and self.view.check_action(str(parameters[0]), ())
            case "ask":
                return self.ask_panel.can_ask
            case "close_thread":  # While it is disabled, Escape interrupts the turn.
                return self.has_review_focus and self.ask_panel.is_open
        return super().check_action(action, parameters)

    def action_approve(self) -> None:
        """Approve the chosen hunks, allow the request, or confirm the question."""
        if not self._accepts_decision_key():
            return
        if (question := self.verdict_handler.question) is not None:
            if question.ids:
                self.verdict_handler.decide_proposals(question.action, question.ids)
        elif self.state.permission_request is not None:
            self._allow_request(PermissionDuration.ONCE)
        else:
            self._approve("approve")

    def action_approve_and_continue(self) -> None:
        """Approve the chosen hunks, and let the model continue."""
        if self._accepts_decision_key() and self.verdict_handler.question is None:
            self._approve("approve_and_continue")

    def _approve(self, action: Literal["approve", "approve_and_continue"]) -> None:
        proposal = self.state.proposal
        if proposal is not None and not self.verdict_handler.refuse_if_busy(proposal):
            verdict = partial(
                judge_approval,
                self.state,
                proposal,
                is_diff_shown=self.preview.is_showing_approvable_diff(proposal),
                compares_versions=self.preview.comparing,
                action=action,
            )
            self.verdict_handler.handle_verdict(verdict(), verdict)

    def action_deny(self) -> None:
        """Deny the proposal or the request, or answer the question with no."""
        if self.verdict_handler.question is not None:
            self.verdict_handler.show_question(None)
            return
        if not self._accepts_decision_key():
            return
        if self.state.permission_request is not None:
            self._deny_request(self.state.current)
        elif (proposal := self.state.proposal) is not None:
            self._deny(proposal)

    def _deny(self, proposal: Proposal) -> None:
        if not self.verdict_handler.refuse_if_busy(proposal):
            verdict = partial(judge_denial, self.state, proposal)
            self.verdict_handler.handle_verdict(verdict(), verdict)

    def action_approve_all(self) -> None:
        """Ask to approve all proposals; if that question is open, also approve those that it excludes."""
        if not self._accepts_decision_key():
            return
        if (question := self.verdict_handler.question) is not None:
            if question.named:
                ids = {*question.ids, *question.named}
                self.verdict_handler.decide_proposals(
                    "approve_all", tuple(item.id for item in self.state.waiting if item.id in ids)
                )
            return
        self.verdict_handler.handle_verdict(judge_approve_all(self.state))

    def action_deny_all(self) -> None:
        if self._accepts_decision_key() and self.verdict_handler.question is None:
            self.verdict_handler.handle_verdict(judge_deny_all(self.state))

    def action_deny_hunk(self) -> None:
        """Deny only the hunk at the cursor."""
        if not self._accepts_decision_key():
            return
        proposal = self._proposal_open_to_choice
        if (
            (hunk := self._pending_hunk_at_cursor())
            and proposal
            and self.preview.is_showing_approvable_diff(proposal)
        ):
            self.verdict_handler.deny_hunk(proposal, hunk.id)

    def _pending_hunk_at_cursor(self) -> Hunk | None:
        """Return the pending hunk at the cursor; if there is none, show a notice."""
        view, hunk = self.view, self.view.cursor.hunk
        if self.preview.comparing:
            self.show_notice(COMPARES_VERSIONS_MESSAGE)
        elif view.diffs and not view.diffs[view.cursor.file_index].change.hunks:
            self.show_notice(_WHOLE_FILE_MESSAGE)
        elif hunk is None:
            self.show_notice(f"No hunk is at the cursor; {self.key_of_action('next_hunk')} goes to the next one.")
        elif hunk.state is not HunkState.PENDING:
            self.show_notice(f"Hunk {hunk.number:,} is decided.")
        else:
            return hunk
        return None

    def action_allow_session(self) -> None:
        """Allow the request and everything that matches the shown form (else only the same call) in this session."""
        if self._accepts_decision_key() and self.state.permission_request is not None:
            self._allow_request(PermissionDuration.SESSION)

    def action_allow_project(self) -> None:
        """Allow the request and everything that matches the shown form in this project, until it is revoked."""
        if self._accepts_decision_key() and self.state.form is not None:
            self._allow_request(PermissionDuration.PROJECT)

    def action_narrower(self) -> None:
        """Allow less: add one word to the form."""
        self.state.permissions.narrow_form(self.state.current, 1)
        self.redraw()

    def action_wider(self) -> None:
        """Allow more: remove the last word of the form."""
        self.state.permissions.narrow_form(self.state.current, -1)
        self.redraw()

    def _allow_request(self, duration: PermissionDuration) -> None:
        if self.view.first_unread_line is not None:
            self.show_notice(f"Part of it has not been on screen: {self.key_of_action('next_unseen')} shows more.")
            return
        form = None if duration is PermissionDuration.ONCE else self.state.form
        self._answer_request(self.state.current, PermissionAnswer(allowed=True, duration=duration, form=form))

    def action_undo(self) -> None:
        """Undo the decision on the shown proposal, or the last decision."""
        if not self._accepts_decision_key() or self.verdict_handler.question is not None:
            return
        if (proposal := self.state.undo_target) is not None:
            # Show the proposal, so that the redo key applies to it.
            self.show_item(proposal.id)
            self.show_notice("")
            self.post_message(review_messages.Undo(proposal.id))

    def action_redo(self) -> None:
        """Repeat a decision that was undone."""
        if (
            self._accepts_decision_key()
            and self.verdict_handler.question is None
            and (proposal := self.state.redo_target) is not None
        ):
            if proposal.state.is_pending:
                # It was denied and reopened. Its files may have changed since: deny it as it is now.
                self._deny(proposal)
                return
            self.show_notice("")
            self.post_message(review_messages.Redo(proposal.id))

    def answer_by_name(self, key: str, action: str) -> None:
        """Answer a permission request with an action from the bar beside the chat; ignore a request that is gone."""
        if key not in self.state.permissions.asked:
            return
        if action == "deny":
            self._deny_request(key)
            return
        duration = PermissionDuration.SESSION if action == "allow_session" else PermissionDuration.ONCE
        form = None if duration is PermissionDuration.ONCE else self.state.permissions.selected_form(key)
        self._answer_request(key, PermissionAnswer(allowed=True, duration=duration, form=form))

    def _deny_request(self, key: str) -> None:
        """Deny the request with the text that the user has written about it."""
        feedback = self.text_controller.collect_feedback(key)
        self._answer_request(key, PermissionAnswer(allowed=False, feedback=feedback.feedback), feedback.mentions)

    def _answer_request(self, key: str, answer: PermissionAnswer, mentions: tuple[Mention, ...] = ()) -> None:
        self.post_message(review_messages.PermissionAnswered(key, answer, mentions))
        self.remove_permission_request(key)

    def on_key(self, event: events.Key) -> None:
        """Close a question on Escape; warn about text that was meant for the chat.

        A letter that has no effect here shows that the user may be writing: the keys are ignored for a moment after
        it.
        """
        if event.key == "escape" and self.verdict_handler.question is not None:
            event.stop()
            self.verdict_handler.show_question(None)
            return
        if self.has_review_focus and event.is_printable and not self.is_key_active(event.key, event.character):
            self.restart_grace_period(
                f"“{event.character}” does nothing here. In case you were writing to the chat, keys decide nothing "
                "for a moment. Press the key again."
            )
            if self.verdict_handler.question is None and not self.state.permissions.asked:
                self._explain_missing_subject({event.key, event.character})

    def _explain_missing_subject(self, names: set[str | None]) -> None:
        actions = (
            item.handler
            for item in actions_in_scopes("review", "diff")
            if not names.isdisjoint(effective_keys(item, self.keymap))
        )
        action = next((action for action in actions if action in REVIEW_ACTION_NAMES or action == "comment"), "")
        if action == "undo" and self.state.recent:
            next_key = self.key_of_action("next_proposal")
            self.show_notice(f"To undo what was decided earlier or elsewhere, show it first: {next_key} leads there.")
        elif action in NO_SUBJECT_NOTICES:
            self.show_notice(NO_SUBJECT_NOTICES[action])
        elif action and self.preview.comparing:
            self.show_notice(COMPARES_VERSIONS_MESSAGE)
        elif action and (proposal := self.state.proposal) is not None:
            state = describe_proposal_state_in_review(proposal)
            self.show_notice(f"{proposal.id} is {state}: {self.key_of_action(action)} does nothing for it.")

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed_chip_action = event.style.meta.get(ACTION_META_KEY)

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the clicked chip, and focus the diff if the review has no focus.

        The click must begin and end on the same chip: selecting text, or leaving the chip with the mouse, decides
        nothing.
        """
        action, self._pressed_chip_action = self._pressed_chip_action, None
        if action is None or event.button != MAIN_BUTTON or event.style.meta.get(ACTION_META_KEY) != action:
            return
        event.stop()
        if not self.has_review_focus:
            self.screen.set_focus(self.view)
        await self._run_named_action(action)

    async def _run_named_action(self, action: str) -> None:
        self.readiness.is_chosen_by_name = True
        try:
            await self.run_action(f"in_diff({action!r})" if action in _DIFF_ACTIONS else action)
        finally:
            self.readiness.is_chosen_by_name = False

    async def perform_action(self, action: str) -> None:
        """Run an action from the command palette when its subject is on the screen."""
        self.require_repaint()
        await self.readiness.picture_clock.wait_until_on_screen(_MAX_PAINT_WAIT_SECONDS)
        await self._run_named_action(action)

    async def action_in_diff(self, action: str) -> None:
        """Focus the diff and run an action of it, also from the queue or the list of files."""
        self.screen.set_focus(self.view)
        await self.view.run_action(action)

    # Keys that change what a decision covers

    def action_toggle_hunk(self) -> None:
        """Include or exclude the hunk at the cursor, or the picked lines."""
        if (picked := self.view.picked_lines()) is not None:
            self._toggle_picked_lines(picked)
            return
        if self.view.line_selection.start is not None:
            self.show_notice("No changed line is picked.")
        elif (hunk := self._pending_hunk_at_cursor()) is not None:
            self._toggle_hunks([hunk.id])
            self.view.cursor.scroll_into_view()

    def action_toggle_file(self) -> None:
        """Include or exclude all hunks of the file."""
        if self.view.diffs:
            change = self.view.diffs[self.view.cursor.file_index].change
            if change.hunks:
                self._toggle_hunks([hunk.id for hunk in change.hunks])
            else:
                self.show_notice(_WHOLE_FILE_MESSAGE)

    @on(DiffView.HunkClicked)
    def _toggle_clicked_hunk(self, event: DiffView.HunkClicked) -> None:
        self._toggle_hunks([event.hunk])

    def _toggle_hunks(self, ids: Sequence[str]) -> None:
        proposal = self._proposal_open_to_choice
        if proposal is None or not self._accepts_key(self.readiness.choice_grace_period):
            return
        self.show_notice("")
        self.state.hunk_exclusions.toggle(proposal, [hunk for hunk in proposal.hunks if hunk.id in ids])
        self.text_controller.save_text(proposal.id)
        self.preview.mark_left_out_hunks()
        self.redraw()

    def _toggle_picked_lines(self, picked: PickedLines) -> None:
        if picked.hunks == picked.whole:
            self.view.end_picking()
            self._toggle_hunks(sorted(picked.hunks))
            return
        proposal = self._proposal_open_to_choice
        if proposal is None or not self._accepts_key(self.readiness.choice_grace_period):
            return
        if self.preview.is_showing_approvable_diff(proposal):
            self.show_notice("")
            self.view.end_picking()
            self.post_message(
                review_messages.IncludeOrExcludeLines(proposal.id, proposal.revision, picked.lines, picked.whole)
            )

    def action_edit(self) -> None:
        """Request the editor for the proposed text of the file at the cursor."""
        proposal = self.state.proposal
        if proposal is not None and proposal.state.is_pending and self.view.diffs and self._accepts_key():
            path = self.view.diffs[self.view.cursor.file_index].change.path
            self.post_message(review_messages.EditProposedFile(proposal.id, path, self._line_at_cursor()))

    def _line_at_cursor(self) -> int:
        """Return the number of the proposed line at or near the cursor, from 0."""
        line, hunk = self.view.cursor.source_line, self.view.cursor.hunk
        if line is not None and line.side == "new":
            return line.line
        return hunk.new_start if hunk is not None else 0

    def action_next_origin(self) -> None:
        """List only the proposals of the next origin; after the last origin, list all."""
        if self.verdict_handler.question is None:
            self.state.list_next_origin()
            self.show_current_item()

    def action_next_proposal(self) -> None:
        self._show_neighbour(1)

    def action_previous_proposal(self) -> None:
        self._show_neighbour(-1)

    def _show_neighbour(self, offset: int) -> None:
        keys = self.state.listed_keys
        if keys:
            index = keys.index(self.state.current) + offset if self.state.current in keys else 0
            self.show_item(keys[max(0, min(index, len(keys) - 1))])

    def action_full_screen(self) -> None:
        """Give the review the whole screen, or end that."""
        has_all = self.screen.has_class("-narrow") and not self.approval_pane.queue.items
        if has_all and not self.has_class("-full"):
            self.show_notice("The review has the whole screen already.")
            return
        self.toggle_class("-full")
        self.redraw_approvals()
        self.post_message(review_messages.FullScreenWanted(self.has_class("-full")))

    def action_more_room(self) -> None:
        """Give the review more room beside the chat."""
        self.post_message(review_messages.ReviewResizeWanted(1))

    def action_less_room(self) -> None:
        """Give the chat more room beside the review."""
        self.post_message(review_messages.ReviewResizeWanted(-1))

    # Feedback and comments

    def action_request_changes(self) -> None:
        """Open the field for feedback; sending the feedback denies the proposal."""
        if not self._accepts_decision_key(writes=True) or self.verdict_handler.question is not None:
            return
        if self.text_controller.open_feedback_field():
            self.show_notice("")
        self.approval_pane.set_class(self.feedback_field.is_open, "-writing")

    @on(WritingField.Typed, "#feedback")
    def _save_feedback_draft(self, event: WritingField.Typed) -> None:
        self.text_controller.save_draft(event.subject, event.text)
        if self.verdict_handler.question is not None:
            self.verdict_handler.show_question(None)

    @on(WritingField.Closed, "#feedback")
    def _close_feedback_field(self, event: WritingField.Closed) -> None:
        self.text_controller.save_draft(event.subject, event.draft)
        self._end_writing()
        self.text_controller.close_field(event.subject)

    @on(WritingField.Sent, "#feedback")
    def _send_feedback(self, event: WritingField.Sent) -> None:
        key = event.subject
        self.text_controller.save_draft(key, event.text)
        self._end_writing()
        if key in self.state.permissions.asked:
            self._deny_request(key)
            return
        proposal = self.state.get(key)
        if proposal is None or not proposal.state.is_pending:
            self.text_controller.close_field(key)
        elif not self.state.feedback_drafts.feedback_for(proposal):
            if not can_ask_model_to_redo_stale_proposal(proposal):
                self.show_notice("Nothing was written, so nothing was sent.")
            elif not self.verdict_handler.refuse_if_busy(proposal):
                self.verdict_handler.deny_stale(proposal)
        elif not self.verdict_handler.refuse_if_busy(proposal):
            self.verdict_handler.handle_verdict(judge_denial_with_feedback(self.state, proposal))

    def _end_writing(self) -> None:
        self.approval_pane.remove_class("-writing")
        self.screen.set_focus(self.view)
        self.restart_grace_period(_FIELD_CLOSED_MESSAGE)
        self.show_permission()

    @on(DiffPane.CommentEdited)
    def _apply_comment(self, event: DiffPane.CommentEdited) -> None:
        self.text_controller.apply_comment(event, self.preview.diffs)
        if event.saved:
            self.restart_grace_period(_FIELD_CLOSED_MESSAGE)
            self.preview.mark_chosen_hunks()
        else:
            self.preview.restore_drafts(event.proposal)
        self.redraw_approvals()

    @on(WritingField.Closed, "#comment")
    def _close_comment_field(self) -> None:
        self.text_controller.release_orphaned_feedback()
        self.show_permission()

    # Side questions

    @on(DiffView.AskWanted)
    def action_ask(self) -> None:
        """Ask about the hunk at the cursor, the picked lines, or else the file; on a mark, show its thread."""
        opened = self.ask_panel.open_at_cursor()
        self.show_notice("" if opened else "There is no proposal on the screen to ask about.")

    @on(DiffView.ViewMoved)
    def _go_to_requested_thread(self) -> None:
        self.ask_panel.go_to_requested_thread()

    def show_thread(self, anchor: ProposalLocation) -> None:
        """Show a thread, and move to its hunk when the diff is loaded."""
        self.show_notice("")
        self.ask_panel.show_thread(anchor)

    def action_close_thread(self) -> None:
        """Close the side thread; a running answer continues."""
        self.ask_panel.close()
        self.refresh_bindings()

    @on(SideQuestionPanel.Closed)
    def _close_thread(self, event: SideQuestionPanel.Closed) -> None:
        event.stop()
        self._end_asking()
        self.show_permission()

    def _end_asking(self) -> None:
        self.ask_panel.close()
        self.screen.set_focus(self.view)
        # If the user keeps typing after the field is closed, the keys decide nothing.
        self.restart_grace_period("The field for questions was closed just now. Press the key again.")

    @on(SideQuestionPanel.FeedbackWanted)
    def _make_feedback(self, event: SideQuestionPanel.FeedbackWanted) -> None:
        event.stop()
        exchanges = [item for item in self.ask_panel.threads.exchanges_at(event.anchor) if item.answer_text]
        proposal = self.state.get(event.anchor.proposal)
        if proposal is None or not proposal.state.is_pending or not self.state.is_listed(proposal.id):
            name = event.anchor.proposal
            self.show_notice(f"{name} is decided, or not listed here: the feedback would reach nobody.")
            return
        self._end_asking()
        self.show_item(proposal.id)
        self._append_to_feedback_draft(proposal, exchange_as_feedback(exchanges[-1]))

    # Versions

    @on(DiffView.ComparisonWanted)
    def action_toggle_versions(self) -> None:
        """Compare with the previous version, or show again what an approval would write."""
        proposal = self.state.proposal
        if proposal is None:
            return
        if self.preview.comparing:
            self.show_current_item()
        elif not proposal.supersedes:
            self.show_notice(f"{proposal.id} is the first version.")
        elif self.preview.compare_versions(proposal):
            self._show_comparison()

    def _show_comparison(self) -> None:
        # A question is about the diff that is not on the screen now.
        self.verdict_handler.question = None
        self.redraw()
