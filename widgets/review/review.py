"""The review: the diff above, the approvals below, and the keys that decide; decisions leave it as messages."""

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

from app.automation.check_results import ProposalChecks, findings_as_feedback, uncovered_as_feedback
from app.automation.evidence.proposal_evidence import ProposalEvidence, unheld_hunks_as_feedback
from app.automation.reproduction import Reproduction
from app.conversation.events import ThreadAnchor
from app.images.mentions import Mention
from app.keys.actions import Action, actions_in_scope, make_bindings
from app.keys.keymap import effective_keys, key_name
from app.proposals.decide.comment_follow_up import CommentFollowUp
from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileDiff, HunkState, Proposal
from app.review.review_state import ReviewState
from app.review.unfinished_review import ReviewFeedback, UnfinishedReview
from app.review.verdicts import (
    can_ask_model_again,
    judge_approval,
    judge_approve_all,
    judge_denial,
    judge_deny_all,
    judge_feedback,
)
from app.tools.base.contract import Confirmation, ConfirmationAnswer, PermissionScope
from widgets.chat.transcript import Transcript
from widgets.common.containers import Column
from widgets.common.input_order import input_arrival, is_joined_input
from widgets.common.key_hints import MAIN_BUTTON
from widgets.common.splitter import Splitter
from widgets.common.workbench_bars import RetitlesKeys, ShowsOwnKeys
from widgets.diff.diff_pane import DiffPane
from widgets.diff.diff_view import DiffView
from widgets.diff.file_list import FileList
from widgets.diff.line_selection import PickedLines
from widgets.diff.writing_field import WritingField
from widgets.review import review_messages
from widgets.review.approval_pane import ApprovalPane, ReviewQueue
from widgets.review.ask_panel import AskPanel, as_feedback
from widgets.review.key_availability import (
    CHECKS,
    DECIDES,
    GRACE_SECONDS,
    SHAPES,
    GracePeriod,
    KeyReadiness,
    is_offered,
    title_now,
)
from widgets.review.preview_controller import PreviewController, written_versions
from widgets.review.review_wording import ACTION, question_line, safe_content
from widgets.review.review_writing import AUTHORS_WORDS, FeedbackField, ReviewWriting
from widgets.review.verdict_handler import VerdictHandler

_GO_HERE = next(action for action in actions_in_scope("app") if action.id == "app.focus_approvals")
_TAKE_BACK = frozenset({"undo", "redo"})
_LEAST = Size(40, 12)
"""Of the terminal, below which nothing can be reviewed."""
_A_LITTLE = 0.05
"""Seconds by which the look of the keys may lag behind their working again."""
_OF_DIFF = frozenset(action.handler for action in actions_in_scope("diff"))
_FIELD_CLOSED = "The field was closed just now. Press the key again."
"""Shown when the user types on after a field was closed: such a key decides nothing."""
_UNTIL_SEEN = 1.0
"""Seconds that it has to be drawn in, before a command goes on without."""


class Review(Column, RetitlesKeys, ShowsOwnKeys):
    """The diff preview above the approvals, showing one item of the queue, with the keys that decide on it.

    Args:
        clock: Monotonic seconds.
        keys: Replaces the registry's keys in the hints, by action id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close_thread", "Close"),
        *make_bindings("review"),
        *make_bindings("diff", through="in_diff"),
    ]

    DEFAULT_CSS: ClassVar[str] = """
    Review {
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

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.state = ReviewState()
        self.diff_pane = DiffPane()
        self.view = self.diff_pane.view
        self.view.drawn = lambda: self.readiness.note_painted(in_focus=self.in_focus)
        self.pane = ApprovalPane()
        self.feedback = FeedbackField()
        self.preview = PreviewController(self.state, self.diff_pane, self)
        self.asking = AskPanel(self.state, self.diff_pane, self.preview)
        self.readiness = KeyReadiness(clock)
        self.writing = ReviewWriting(self.state, self.feedback, self.diff_pane, self)
        self.deciding = VerdictHandler(self.state, self.writing.take_feedback, self)
        self.drawn: Callable[[], None] = lambda: None
        """Called whenever what waits is drawn anew."""
        self._had_focus = False
        self._possible: frozenset[tuple[str, str | None]] = frozenset()
        """The actions that had something to act on when it was drawn last, and what they meant."""
        self._keys = dict(keys or {})
        """Keys that mean something in the review."""
        self._held_action: str | None = None
        """The action of the chip on which the mouse button went down."""
        self._could_ask = False
        self._unseen_wanted = ""
        """The proposal whose first unseen line is to be shown once its diff is there."""

    def compose(self) -> ComposeResult:
        yield self.diff_pane
        yield self.asking
        yield Splitter()
        yield self.feedback
        yield self.pane
        yield Static(
            f"too small to review\n{_LEAST.width}x{_LEAST.height} is the least", id="too-small", markup=False
        )

    def on_mount(self) -> None:
        for field in self.query(WritingField):
            field.take_pastes(self.writing.dropped.mention_text)
        for field in (*self.query(WritingField), self.asking):
            field.override_keys(self._keys)
        self.view.sheet.space_key = self.key_of_action("toggle_white_space")
        self.pane.on_named_keys = self.refresh_bindings
        self.preview.show_current()

    def on_resize(self) -> None:
        """Share the height between the panes; show a notice where there is hardly any."""
        self.query_one("#too-small").display = self.is_too_small
        self.pane.fit_height(self.size.height)
        self.call_after_refresh(self.drawn)

    @property
    def is_too_small(self) -> bool:
        """Return whether the terminal is too small to show what would be decided."""
        return self.app.size.width < _LEAST.width or self.app.size.height < _LEAST.height

    # What the application tells

    def set_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Take all waiting and recent proposals; words about proposals decided elsewhere are kept."""
        before = self.state.current
        known = set(self.state.listed_keys)
        self.state.update_proposals(proposals, attended=self.is_mounted and (self.in_focus or self.is_writing))
        if not known.issuperset(self.state.waiting_keys):
            # What came of a decision before has been overtaken: the model has answered.
            self.pane.show_outcome(None)
        self.deciding.update_proposals()
        if self.state.current != before:
            self.show_current()
        else:
            self.preview.update_shown()
            self.draw()
        self.writing.release_orphaned()

    def set_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the diffs that were wanted; those of another proposal than the shown one are ignored."""
        if self.preview.show_wanted_diffs(proposal_id, diffs):
            self.draw()
            if self._unseen_wanted == proposal_id:
                self.call_after_refresh(self.view.action_next_unseen)
            self._unseen_wanted = ""
        self.post_message(review_messages.ThreadsWanted(proposal_id))

    def set_versions(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the changes from the version before to this one, and show them if they are still wanted."""
        if self.preview.show_wanted_versions(proposal_id, diffs):
            self.draw()

    def set_checks(self, checked: ProposalChecks) -> None:
        """Take the present check results of a proposal."""
        self.state.checks[checked.proposal] = checked
        if checked.proposal == self.state.current and self.is_mounted:
            self.preview.show_findings()
            self.preview.show_reasons()
            self.draw()

    def set_evidence(self, found: ProposalEvidence) -> None:
        """Take the present evidence about a proposal."""
        self.state.evidence[found.proposal] = found
        if found.proposal == self.state.current and self.is_mounted:
            self.preview.show_findings()
            if not found.is_running:
                self.preview.show_reasons()
            self.draw()

    def begin_reproduction(self, proposal_id: str) -> None:
        """Show that the command of a proposal runs again; empty if none does any more."""
        self.state.running_again = proposal_id
        if self.is_mounted:
            self.draw()

    def set_reproduction(self, found: Reproduction) -> None:
        """Take the result of a second run of a proposal's command."""
        self.state.reproductions[found.proposal] = found
        if self.is_mounted:
            self.draw()

    def select_split_parts(self, proposal_id: str, parts: Sequence[HunkPart], whole: Collection[str]) -> None:
        """Lines were cut out of their hunks: take them in or out. The proposal with the parts comes next."""
        if (proposal := self.state.get(proposal_id)) is not None:
            self.state.select_split_parts(proposal, parts, whole)

    def set_sent_comments(self, proposal_id: str, comments: Sequence[LineComment]) -> None:
        """Take the comments that went to the model with the denial of a proposal, to tick off in the next version."""
        self.state.unsaid.sent[proposal_id] = tuple(comments)
        self.preview.request_follow_ups()
        self.preview.show_notes()

    def set_follow_ups(self, proposal_id: str, answers: Sequence[CommentFollowUp]) -> None:
        """Take the proposal's effects on each comment on its former version."""
        self.state.unsaid.answers[proposal_id] = tuple(answers)
        if proposal_id == self.state.current:
            self.preview.show_notes()

    def add_confirmation(self, key: str, confirmation: Confirmation) -> None:
        """Ask the user; the model's turn waits for it."""
        self.state.permissions.asked[key] = confirmation
        self.pane.show_outcome(None)
        # What the user is writing about stays in view until it is written.
        if self.is_writing or not self.show_permission():
            self.draw()

    @property
    def keymap(self) -> Mapping[str, str]:
        """The user's own keys, by action id."""
        return self._keys

    def shows_all_of(self, key: str) -> bool:
        """Return whether the whole permission request fits and is shown."""
        view = self.view
        return self.state.current == key and 0 < view.rows.height <= view.size.height

    def show_permission(self) -> bool:
        """Show the open permission request, which then has the keys; return whether it was not shown before."""
        if not self.state.has_hidden_permission:
            return False
        self.state.show_permission()
        self.show_current()
        return True

    def remove_confirmation(self, key: str) -> None:
        """The question is gone, answered or not."""
        self.state.permissions.remove(key)
        self.writing.end_permission(key)
        if self.state.current == key:
            self.state.leave_permission()
            self.show_current()
        else:
            self.draw()

    @property
    def is_writing(self) -> bool:
        """Whether the user writes feedback, a comment or a question."""
        return self.asking.is_writing or any(field.is_open for field in self.query(WritingField))

    @property
    def open_permission_count(self) -> int:
        """Return the number of open permission requests."""
        return len(self.state.permissions.asked)

    def restore_notes(self, notes: Mapping[str, UnfinishedReview]) -> None:
        """Restore unfinished reviews after a restart, by proposal."""
        for key, begun in notes.items():
            self.state.restore_notes(key, begun)
        self.preview.show_choice()
        self.preview.show_notes()
        self.draw()

    def restore_seen(self, stored: Mapping[str, Mapping[str, bytes]]) -> None:
        """Add lines that were seen in other windows and runs."""
        tracker, proposal = self.state.looked_at, self.state.proposal
        before = tracker.seen_lines(proposal).lines if proposal is not None else 0
        tracker.restore(stored)
        if proposal is not None and tracker.seen_lines(proposal).lines != before:
            self.view.on_screen.recount()
            self.draw()

    def clear_sent_feedback(self, key: str, words: ReviewFeedback) -> None:
        """Remove the feedback draft: it was recorded with the decision."""
        self.writing.clear_sent(key, words)

    def restore_feedback(self, key: str, words: ReviewFeedback) -> None:
        """Restore the feedback of a failed decision."""
        self.writing.restore_feedback(key, words)
        self.preview.show_choice()
        self.draw()

    def set_question_pending(self, asked: bool) -> None:
        """Set whether the model waits for the answer to a question in the chat."""
        if asked != self.state.asked_in_chat:
            self.state.asked_in_chat = asked
            self.draw_approvals()

    def show_outcome(
        self, text: str, *, problem: bool = False, passing: bool = False, back: tuple[str, str] | None = None
    ) -> None:
        """Show the outcome of a decision, or a problem, in one line.

        Args:
            text: `P1 written: a.py.`
            problem: it went wrong.
            passing: it holds only until the model's turn is over.
            back: the action that takes it back, and what that does: `undo`, `undoes it`.
        """
        if problem:
            self.deciding.on_decision_failed()
        words = None if back is None else lambda: f"{self.keys_leading_to(back[0])} {back[1]}."
        self.pane.show_outcome(safe_content(text), problem=problem, passing=passing, back=words)

    def show_notice(self, text: str) -> None:
        """Show in one line why something was not done."""
        self.pane.show_outcome(safe_content(text) if text else None, problem=bool(text))

    def end_turn(self, instead: str) -> None:
        """Replace a status that held only during the turn by `instead`; remove it if that is empty."""
        if self.pane.is_passing:
            self.pane.show_outcome(safe_content(instead) if instead else None, passing=bool(instead))

    def override_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys that the hints name, by action id."""
        self._keys = dict(keys)
        for field in (*self.query(WritingField), self.asking):
            field.override_keys(keys)
        self.view.sheet.space_key = self.key_of_action("toggle_white_space")
        self.draw()

    def set_model_continues(self, goes_on: bool) -> None:
        """Take whether the model goes on by itself once nothing waits any more."""
        if goes_on != self.state.goes_on:
            self.state.goes_on = goes_on
            self.draw()

    def show_item(self, key: str) -> None:
        """Show a proposal or a confirmation of the queue, by its id or key."""
        if self.state.is_listed(key) and key != self.state.current:
            self.state.current, self.state.picked = key, True
            self.show_current()

    # Drawing

    def show_current(self) -> None:
        """Show the current item from the start."""
        self.deciding.question = None
        self.pane.clear_key_notice()
        self.preview.show_current()
        self.draw()

    def draw(self) -> None:
        """Redraw everything, offer the possible keys, and begin a grace period."""
        state, question, proposal = self.state, self.deciding.question, self.state.proposal
        item = (state.current, proposal and proposal.revision, proposal and written_versions(proposal.files))
        shown = proposal is not None and self.preview.shows(proposal)
        chosen = state.chosen.chosen_part(proposal).hunks if proposal is not None else ()
        self.readiness.choice_guard.set_subject(item)
        changed = self.readiness.guard.set_subject((item, shown, chosen, state.form, question))
        if changed or not state.queue_number(state.current):
            self._dim_keys()
        if changed:
            self.wait_for_paint()
        self.draw_approvals()
        self.diff_pane.set_title(self.preview.title, self.preview.origin)
        self.pane.set_class(self.feedback.is_open, "-writing")
        offered = (one for one in DECIDES | SHAPES | CHECKS if is_offered(one, state, question))
        possible = frozenset((one, self.title_of(one)) for one in offered)
        if possible != self._possible:
            self._possible = possible
            self.refresh_bindings()
        self.drawn()
        self.asking.show_marks()
        if self.asking.can_ask != self._could_ask:
            self._could_ask = self.asking.can_ask
            self.refresh_bindings()

    def draw_approvals(self) -> None:
        """Redraw the lower pane."""
        question = self.deciding.question
        self.pane.show_question(None if question is None else question_line(question, self.key_of_action))
        # A class would have all that is inside styled again.
        self.pane.queue.display = not self.has_class("-full")
        notes_shown = self.view.rows.height <= self.view.size.height
        self.pane.show(self.state, self._key_in_headline, comparing=self.preview.comparing, notes_shown=notes_shown)
        self.query_one(Splitter).display = self.pane.queue.display and bool(self.pane.queue.items)
        if self.preview.title_is_cut == self.pane.shows_title:
            self.preview.title_is_cut = not self.pane.shows_title
            self.preview.show_notes()

    def restart_grace_period(self, why: str) -> None:
        """Start the grace period again."""
        self.readiness.restart(why)
        self._dim_keys()

    def wait_for_paint(self) -> None:
        """Ignore keys until everything has been painted again."""
        self.readiness.wait_for_paint()
        self.view.refresh()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _follow_focus(self) -> None:
        if self.in_focus != self._had_focus:
            self._had_focus = self.in_focus
            self.readiness.sight.mark_not_painted()
            self.view.refresh()
            self.pane.clear_key_notice()
            self.pane.draw_outcome()
            self.draw_approvals()
        # In the field for side questions, the keys that decide are letters.
        self.set_class(self.asking.is_writing, "-aside")
        self.asking.follow_focus()

    @property
    def in_focus(self) -> bool:
        """Whether keys come here rather than to a field."""
        focused = self.screen.focused
        return focused is self.view or isinstance(focused, ReviewQueue | FileList)

    def _dim_keys(self) -> None:
        """Show that the keys are dead, while there is something to decide."""
        waits = self.state.queue_number(self.state.current) > 0
        self.pane.set_class(waits, "-changed")
        if waits:
            # A timer of Textual's that is late from the start never fires.
            asyncio.get_running_loop().call_later(GRACE_SECONDS + _A_LITTLE, self._end_grace)

    def _end_grace(self) -> None:
        if self.readiness.guard.is_over:
            self.pane.remove_class("-changed")

    def title_of(self, action: str) -> str | None:
        """Return the title of a key at this moment; empty for the usual one, None if the key would only refuse."""
        if action == "in_diff('external_diff')":
            return self.view.title_of("external_diff")
        return title_now(action, self.state, self.deciding.question, comparing=self.preview.comparing)

    @property
    def named_keys(self) -> frozenset[str]:
        """Return the actions whose keys are shown above the list."""
        return frozenset() if self.has_class("-aside") or self.feedback.is_open else self.pane.named_keys

    def key_of_action(self, action: str) -> str:
        """The key of an action of the review or the diff as hints show it."""
        return self._first_key(next(item for item in actions_in_scope("review", "diff") if item.handler == action))

    def keys_leading_to(self, action: str) -> str:
        """Return the key of an action, after the one that leads here while the focus is elsewhere."""
        return (
            self.key_of_action(action)
            if self.in_focus
            else f"{self._first_key(_GO_HERE)} {self.key_of_action(action)}"
        )

    def _key_in_headline(self, action: str) -> str:
        # A decision may have led back to the composer, where the key that takes it back would be typed.
        return self.keys_leading_to(action) if action in _TAKE_BACK else self.key_of_action(action)

    def _first_key(self, action: Action) -> str:
        return key_name(effective_keys(action, self._keys)[0])

    @on(DiffView.CameOnScreen)
    @on(ReviewQueue.DecidedToggled)
    def _count_unseen(self) -> None:
        if self.deciding.refresh_question():
            self.draw()
        else:
            self.draw_approvals()

    @on(DiffView.OrderWanted)
    def _turn_order(self) -> None:
        self.show_notice(self.preview.toggle_order())
        self.draw()

    @on(DiffView.NothingUnseen)
    def _go_to_next_unread(self) -> None:
        """Show the next proposal with unseen lines, at the first of them; say so if there is none."""
        if (key := self.state.next_unread) and self._choosable is not None:
            self._unseen_wanted = key
            self.show_item(key)
        else:
            self.pane.show_outcome(safe_content("Everything that would be written has been on screen."))

    @on(DiffView.NoteClicked)
    def _tick(self, event: DiffView.NoteClicked) -> None:
        if event.key == AUTHORS_WORDS:
            self.preview.toggle_description()
            return
        self.state.unsaid.answered ^= {event.key}
        self.writing.save_text(event.key.partition("/")[0])
        self.preview.show_notes()

    @on(ReviewQueue.Picked)
    def _pick(self, event: ReviewQueue.Picked) -> None:
        self.show_item(event.key)

    @on(Splitter.Dragged)
    def _drag(self, event: Splitter.Dragged) -> None:
        event.stop()
        self.pane.set_list_height(max(4, min(self.region.bottom - event.screen_y - 1, self.size.height - 6)))

    # Whether keys take effect

    def has_effect(self, *names: str | None) -> bool:
        """Return whether a key, by any of its names, does something here now."""
        return any(
            not {*names}.isdisjoint(effective_keys(action, self._keys)) and self._is_live(action.handler)
            for action in actions_in_scope("app", "review", "diff", "files", "approval")
        )

    def _is_live(self, action: str) -> bool:
        return action not in DECIDES | SHAPES | CHECKS or is_offered(action, self.state, self.deciding.question)

    def _ready(self, guard: GracePeriod | None = None, *, writes: bool = False) -> bool:
        """Return whether a decision key counts now; if not, say so and start the wait again.

        After an early `r` the user may type on, for a field that has not opened.

        Args:
            guard: The grace period that it is subject to, if it is not that of decisions.
            writes: It only opens a field, so that it counts, too, where the text for it came in the same read.
        """
        if not self.in_focus or self.is_too_small:
            return False
        joined = not writes and is_joined_input(self.app)
        why_not = self.readiness.blocking_reason(
            guard or self.readiness.guard, input_arrival(self.app), joined=joined
        )
        if why_not:
            self.restart_grace_period(why_not)
            self.pane.show_outcome(safe_content(why_not), problem=True, of_key=True)
        return not why_not

    def _decides(self, *, writes: bool = False) -> bool:
        """Return whether a decision key counts now for the shown item: an open permission request comes first."""
        return self._ready(writes=writes) and not self.show_permission()

    @property
    def _choosable(self) -> Proposal | None:
        """The shown proposal, if it waits, all of it is shown, and no question is open."""
        proposal = self.state.proposal
        free = self.deciding.question is None and not self.preview.comparing
        return proposal if proposal is not None and proposal.state.is_pending and free else None

    # Checks

    def action_run_checks(self) -> None:
        """Run the checks of the shown proposal that were not run, or all of them again."""
        self.post_message(review_messages.ChecksWanted(self.state.current))

    def action_show_checks(self) -> None:
        """Show the output of the checks."""
        self.post_message(review_messages.CheckOutputWanted(self.state.current))

    def action_show_reads(self) -> None:
        """Show what the model had read before it wrote the shown proposal."""
        self.post_message(review_messages.ReadsWanted(self.state.current))

    def action_find_evidence(self) -> None:
        """Run tests without each hunk of the shown proposal, or stop."""
        self.post_message(review_messages.EvidenceWanted(self.state.current))

    def action_reproduce(self) -> None:
        """Run the command of the shown proposal again, or stop."""
        is_running = self.state.running_again == self.state.current
        self.post_message(review_messages.ReproductionWanted(self.state.current, is_running))

    def action_send_findings(self) -> None:
        """Deny the proposal with the findings of the checks as feedback; the model continues.

        Hunks that nothing notices and lines that no test runs are no fault yet: with them, the words are a draft that
        the user sends or not.
        """
        proposal = self._choosable
        # What is on disk already is taken back by a key of its own, which says what would be lost.
        if proposal is None or proposal.on_disk or not self._decides() or self.deciding.is_busy(proposal):
            return
        if not self.preview.shows(proposal):
            return
        checked, found = self.state.checks.get(proposal.id), self.state.evidence.get(proposal.id)
        red = findings_as_feedback(checked) if checked is not None else ""
        unheld = unheld_hunks_as_feedback(found, self.preview.diffs) if found is not None else ""
        uncovered = uncovered_as_feedback(checked) if checked is not None and not red else ""
        if unheld or uncovered:
            self._open_draft(proposal, "\n\n".join(filter(None, (red, unheld, uncovered))))
        elif red:
            self.deciding.deny_with(proposal, red)

    def _open_draft(self, proposal: Proposal, text: str) -> None:
        """Open the field for feedback with a text below the user's own; a text is not added twice."""
        before = self.state.unsaid.drafts.get(proposal.id, "").rstrip()
        if text not in before:
            self.writing.save_draft(proposal.id, "\n\n".join(filter(None, (before, text))))
        self.writing.open_feedback_field()
        self.pane.set_class(self.feedback.is_open, "-writing")

    # Keys that decide

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Decisions exist only while a pane itself has the focus, and while there is something to decide."""
        if action in DECIDES | SHAPES | CHECKS:
            return self.in_focus and self._is_live(action)
        match action:
            case "in_diff":
                return self.in_focus and self.view.check_action(str(parameters[0]), ())
            case "ask":
                return self.asking.can_ask
            case "close_thread":  # Else Escape interrupts the turn.
                return self.in_focus and self.asking.is_open
        return super().check_action(action, parameters)

    def action_approve(self) -> None:
        """Approve the chosen hunks, allow the request, or confirm the question."""
        if not self._decides():
            return
        if (question := self.deciding.question) is not None:
            if question.ids:
                self.deciding.perform(question.action, question.ids)
        elif self.state.confirmation is not None:
            self._allow(PermissionScope.ONCE)
        else:
            self._approve("approve")

    def action_approve_and_continue(self) -> None:
        """Approve the chosen hunks, and let the model continue."""
        if self._decides() and self.deciding.question is None:
            self._approve("approve_and_continue")

    def _approve(self, action: Literal["approve", "approve_and_continue"]) -> None:
        proposal = self.state.proposal
        if proposal is not None and not self.deciding.is_busy(proposal):
            shown, comparing = self.preview.shows(proposal), self.preview.comparing
            verdict = partial(judge_approval, self.state, proposal, shown=shown, versions=comparing, action=action)
            self.deciding.act(verdict(), verdict)

    def action_deny(self) -> None:
        """Deny the proposal or the request, or answer the question with no."""
        if self.deciding.question is not None:
            self.deciding.show_question(None)
            return
        if not self._decides():
            return
        if self.state.confirmation is not None:
            self._refuse(self.state.current)
            return
        proposal = self.state.proposal
        if proposal is not None and not self.deciding.is_busy(proposal):
            verdict = partial(judge_denial, self.state, proposal)
            self.deciding.act(verdict(), verdict)

    def action_approve_all(self) -> None:
        """Approve all proposals, after a question; from the question, also those it left out."""
        if not self._decides():
            return
        if (question := self.deciding.question) is not None:
            if question.named:
                ids = {*question.ids, *question.named}
                self.deciding.perform("approve_all", tuple(item.id for item in self.state.waiting if item.id in ids))
            return
        self.deciding.act(judge_approve_all(self.state))

    def action_deny_all(self) -> None:
        """Deny everything, after a question."""
        if self._decides() and self.deciding.question is None:
            self.deciding.act(judge_deny_all(self.state))

    def action_deny_hunk(self) -> None:
        """Deny the hunk at the cursor alone."""
        if not self._decides():
            return
        proposal, hunk = self._choosable, self.view.cursor.hunk
        if hunk is not None and hunk.state is HunkState.PENDING and proposal and self.preview.shows(proposal):
            self.deciding.deny_hunk(proposal, hunk.id)

    def action_allow_session(self) -> None:
        """Allow the request, and everything of the shown form (else the exact same call) in this session."""
        if self._decides() and self.state.confirmation is not None:
            self._allow(PermissionScope.SESSION)

    def action_allow_project(self) -> None:
        """Allow the request, and everything of the shown form in this project, until it is revoked."""
        if self._decides() and self.state.form is not None:
            self._allow(PermissionScope.PROJECT)

    def action_narrower(self) -> None:
        """Allow less: the form that would be allowed gets one more word."""
        self.state.permissions.narrow(self.state.current, 1)
        self.draw()

    def action_wider(self) -> None:
        """Allow more: the form that would be allowed loses its last word."""
        self.state.permissions.narrow(self.state.current, -1)
        self.draw()

    def _allow(self, span: PermissionScope) -> None:
        if self.view.first_unread_line is not None:
            self.show_notice(f"Not all of it has been on screen: {self.key_of_action('next_unseen')} goes on.")
            return
        form = None if span is PermissionScope.ONCE else self.state.form
        self._answer(self.state.current, ConfirmationAnswer(allowed=True, span=span, form=form))

    def action_undo(self) -> None:
        """Take back the decision on the shown proposal, or the last one."""
        if not self._decides() or self.deciding.question is not None:
            return
        if (proposal := self.state.undo_target) is not None:
            # What is taken back is shown, so that the key to apply again means the same.
            self.show_item(proposal.id)
            self.show_notice("")
            self.post_message(review_messages.Undo(proposal.id))

    def action_redo(self) -> None:
        """Decide again as before it was taken back."""
        if self._decides() and self.deciding.question is None and (proposal := self.state.redo_target) is not None:
            self.show_notice("")
            self.post_message(review_messages.Redo(proposal.id))

    def answer_by_name(self, key: str, action: str) -> None:
        """Answer a permission request by the name of an action, from the bar beside the chat."""
        if key not in self.state.permissions.asked:
            return
        if action == "deny":
            self._refuse(key)
            return
        span = PermissionScope.SESSION if action == "allow_session" else PermissionScope.ONCE
        form = None if span is PermissionScope.ONCE else self.state.permissions.selected_form(key)
        self._answer(key, ConfirmationAnswer(allowed=True, span=span, form=form))

    def _refuse(self, key: str) -> None:
        """Deny the request with the text that the user has written about it."""
        words = self.writing.take_feedback(key)
        self._answer(key, ConfirmationAnswer(allowed=False, feedback=words.feedback), words.mentions)

    def _answer(self, key: str, answer: ConfirmationAnswer, mentions: tuple[Mention, ...] = ()) -> None:
        self.post_message(review_messages.Confirmed(key, answer, mentions))
        self.remove_confirmation(key)

    def on_key(self, event: events.Key) -> None:
        """Escape leaves a question; words that were meant for the chat decide nothing.

        Such words show by a letter that means nothing here: the keys are dead for a moment after it.
        """
        if event.key == "escape" and self.deciding.question is not None:
            event.stop()
            self.deciding.show_question(None)
            return
        if self.in_focus and event.is_printable and not self.has_effect(event.key, event.character):
            self.restart_grace_period(
                f"“{event.character}” does nothing here. In case you were writing to the chat, keys decide nothing "
                "for a moment. Press the key again."
            )
            if event.character == self.key_of_action("undo") and self.state.recent:
                leads_there = self.key_of_action("next_proposal")
                self.show_notice(
                    f"To undo what was decided earlier or elsewhere, show it first: {leads_there} leads there."
                )

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember the chip on which a click begins."""
        self._held_action = event.style.meta.get(ACTION)

    async def on_click(self, event: events.Click) -> None:
        """A click on a chip is a press of its key, in the review as if it had the focus.

        It begins and ends on the same chip: to select words in the pane, or to slide off a chip, decides nothing.
        """
        action, self._held_action = self._held_action, None
        if action is None or event.button != MAIN_BUTTON or event.style.meta.get(ACTION) != action:
            return
        event.stop()
        if not self.in_focus:
            self.screen.set_focus(self.view)
        await self._perform_by_name(action)

    async def _perform_by_name(self, action: str) -> None:
        self.readiness.named = True
        try:
            await self.run_action(f"in_diff({action!r})" if action in _OF_DIFF else action)
        finally:
            self.readiness.named = False

    async def perform(self, action: str) -> None:
        """Perform an action that was picked by name, as soon as its subject is visible."""
        self.wait_for_paint()
        await self.readiness.picture.wait(_UNTIL_SEEN)
        await self._perform_by_name(action)

    async def action_in_diff(self, action: str) -> None:
        """A key of the diff, pressed in the queue or the list of files: it leads there."""
        self.screen.set_focus(self.view)
        await self.view.run_action(action)

    # Keys that shape

    def action_toggle_hunk(self) -> None:
        """Take the hunk at the cursor, or the lines that are picked, in or out."""
        if (picked := self.view.picked_lines()) is not None:
            self._toggle_picked(picked)
            return
        if self.view.picking.start is not None:
            self.show_notice("No changed line is picked.")
            return
        hunk = self.view.cursor.hunk
        if hunk is not None:
            self._toggle([hunk.id])

    def action_toggle_file(self) -> None:
        """Take all hunks of the file in or out."""
        if self.view.diffs:
            change = self.view.diffs[self.view.cursor.file].change
            if not change.hunks:
                self.show_notice("This file is decided with the proposal as a whole.")
            self._toggle([hunk.id for hunk in change.hunks])

    @on(DiffView.HunkClicked)
    def _toggle_clicked(self, event: DiffView.HunkClicked) -> None:
        self._toggle([event.hunk])

    def _toggle(self, ids: Sequence[str]) -> None:
        proposal = self._choosable
        if proposal is None or not self._ready(self.readiness.choice_guard):
            return
        self.show_notice("")
        self.state.chosen.toggle(proposal, [hunk for hunk in proposal.hunks if hunk.id in ids])
        self.writing.save_text(proposal.id)
        self.preview.show_left_out()
        self.draw()

    def _toggle_picked(self, picked: PickedLines) -> None:
        if picked.hunks == picked.whole:
            self.view.end_picking()
            self._toggle(sorted(picked.hunks))
            return
        proposal = self._choosable
        if proposal and self._ready(self.readiness.choice_guard) and self.preview.shows(proposal):
            self.show_notice("")
            self.view.end_picking()
            self.post_message(review_messages.TakeLines(proposal.id, proposal.revision, picked.lines, picked.whole))

    def action_edit(self) -> None:
        """Change the proposed text of the file at the cursor."""
        proposal = self.state.proposal
        if proposal is not None and proposal.state.is_pending and self.view.diffs and self._ready():
            path = self.view.diffs[self.view.cursor.file].change.path
            self.post_message(review_messages.Edit(proposal.id, path, self._line_at_cursor()))

    def _line_at_cursor(self) -> int:
        """The line of the proposed text that the cursor is on, or nearest to it."""
        line, hunk = self.view.cursor.source_line, self.view.cursor.hunk
        if line is not None and line.side == "new":
            return line.line
        return hunk.new_start if hunk is not None else 0

    def action_next_origin(self) -> None:
        """List the proposals of the next origin alone, after the last all again."""
        if self.deciding.question is None:
            self.state.list_next_origin()
            self.show_current()

    def action_next_proposal(self) -> None:
        self._step(1)

    def action_previous_proposal(self) -> None:
        self._step(-1)

    def _step(self, by: int) -> None:
        keys = self.state.listed_keys
        if keys:
            at = keys.index(self.state.current) + by if self.state.current in keys else 0
            self.show_item(keys[max(0, min(at, len(keys) - 1))])

    def action_full_screen(self) -> None:
        """Give the review the whole screen, or give it back."""
        self.toggle_class("-full")
        self.draw_approvals()
        self.post_message(review_messages.FullScreen(self.has_class("-full")))

    def action_more_room(self) -> None:
        """Give the review more room beside the chat."""
        self.post_message(review_messages.RoomWanted(1))

    def action_less_room(self) -> None:
        """Give the chat more room beside the review."""
        self.post_message(review_messages.RoomWanted(-1))

    # Words

    def action_request_changes(self) -> None:
        """Write feedback; sending it denies the proposal."""
        if not self._decides(writes=True) or self.deciding.question is not None:
            return
        if self.writing.open_feedback_field():
            self.show_notice("")
        self.pane.set_class(self.feedback.is_open, "-writing")

    @on(WritingField.Typed, "#feedback")
    def _keep_draft(self, event: WritingField.Typed) -> None:
        self.writing.save_draft(event.subject, event.text)
        if self.deciding.question is not None:
            self.deciding.show_question(None)

    @on(WritingField.Closed, "#feedback")
    def _put_aside(self, event: WritingField.Closed) -> None:
        self.writing.save_draft(event.subject, event.draft)
        self._end_writing()
        self.writing.close_field(event.subject)

    @on(WritingField.Sent, "#feedback")
    def _send_feedback(self, event: WritingField.Sent) -> None:
        key = event.subject
        self.writing.save_draft(key, event.text)
        self._end_writing()
        if key in self.state.permissions.asked:
            self._refuse(key)
            return
        proposal = self.state.get(key)
        if proposal is None or not proposal.state.is_pending:
            self.writing.close_field(key)
        elif not self.state.unsaid.feedback_for(proposal):
            if not can_ask_model_again(proposal):
                self.show_notice("Nothing was written, so nothing was sent.")
            elif not self.deciding.is_busy(proposal):
                self.deciding.deny_stale(proposal)
        elif not self.deciding.is_busy(proposal):
            self.deciding.act(judge_feedback(self.state, proposal))

    def _end_writing(self) -> None:
        self.pane.remove_class("-writing")
        self.screen.set_focus(self.view)
        self.restart_grace_period(_FIELD_CLOSED)
        self.show_permission()

    @on(DiffPane.Commented)
    def _take_comment(self, event: DiffPane.Commented) -> None:
        self.writing.take_comment(event, self.preview.diffs)
        if event.saved:
            self.restart_grace_period(_FIELD_CLOSED)
            self.preview.show_choice()
        else:
            self.preview.restore_drafts(event.proposal)
        self.draw_approvals()

    @on(WritingField.Closed, "#comment")
    def _put_comment_aside(self) -> None:
        self.writing.release_orphaned()
        self.show_permission()

    # Side questions

    @on(DiffView.AskWanted)
    def action_ask(self) -> None:
        """Ask about the hunk at the cursor, the picked lines, or else the file; on a mark, show its thread."""
        opened = self.asking.open_at_cursor()
        self.show_notice("" if opened else "There is no proposal on the screen to ask about.")

    @on(DiffView.ViewMoved)
    def _follow_view(self) -> None:
        self.asking.go_to_requested_thread()

    def show_thread(self, place: ThreadAnchor) -> None:
        """Show a thread and its place, as soon as the diff is loaded."""
        self.show_notice("")
        self.asking.show_thread(place)

    def action_close_thread(self) -> None:
        """Close the side question beside the diff; a running answer goes on."""
        self.asking.close()
        self.refresh_bindings()

    @on(AskPanel.Closed)
    def _leave_thread(self, event: AskPanel.Closed) -> None:
        event.stop()
        self._end_asking()
        self.show_permission()

    def _end_asking(self) -> None:
        self.asking.close()
        self.screen.set_focus(self.view)
        # Whoever writes on although the field is gone decides nothing.
        self.restart_grace_period("The field for questions was closed just now. Press the key again.")

    @on(AskPanel.FeedbackWanted)
    def _make_feedback(self, event: AskPanel.FeedbackWanted) -> None:
        event.stop()
        place, answered = (
            event.place,
            [one for one in self.asking.threads.exchanges_at(event.place) if one.answer_text],
        )
        proposal = self.state.get(place.proposal)
        if proposal is None or not proposal.state.is_pending or not self.state.is_listed(proposal.id):
            self.show_notice(f"{place.proposal} is decided, or not listed here: nobody would get the feedback.")
            return
        self._end_asking()
        self.show_item(proposal.id)
        self._open_draft(proposal, as_feedback(answered[-1]))

    @on(Transcript.LinkOpened)
    def _open_link(self, event: Transcript.LinkOpened) -> None:
        event.stop()
        self.post_message(review_messages.LinkWanted(event.href))

    # Versions

    @on(DiffView.ComparisonWanted)
    def action_toggle_versions(self) -> None:
        """Compare with the former version, or return to what an approval would write."""
        proposal = self.state.proposal
        if proposal is None:
            return
        if self.preview.comparing:
            self.show_current()
        elif not proposal.supersedes:
            self.show_notice(f"{proposal.id} is the first version.")
        elif self.preview.compare_versions(proposal):
            self.draw()
