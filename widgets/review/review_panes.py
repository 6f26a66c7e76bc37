"""The two review panes together: they show what the app tells them, and hold the parts that decide.

Kept whole: each part that it tells of a change is told in one place. Keys and clicks are `Review`'s.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import Size
from textual.widgets import Static

from app.automation.check_results import ProposalChecks
from app.keys.keymap import key_name, keys_of
from app.keys.registry import Action, in_scope
from app.proposals.decide.comment_follow_up import CommentFollowUp
from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileDiff, Proposal
from app.tools.base.contract import Confirmation
from widgets.common.containers import Column
from widgets.common.splitter import Splitter
from widgets.diff.diff_messages import CameOnScreen, NoteClicked, NothingUnseen, OrderWanted
from widgets.diff.diff_pane import DiffPane
from widgets.diff.file_list import FileList
from widgets.diff.writing_field import WritingField
from widgets.review.approval_pane import ApprovalPane
from widgets.review.ask_panel import AskPanel
from widgets.review.key_availability import CHECKS, DECIDES, GRACE_SECONDS, SHAPES, Readiness, is_offered, title_now
from widgets.review.preview_controller import PreviewController, written_versions
from widgets.review.review_queue import ReviewQueue
from widgets.review.review_state import ReviewState
from widgets.review.review_wording import question_line, safe
from widgets.review.review_writing import AUTHORS_WORDS, FeedbackField, ReviewWriting
from widgets.review.side_threads import SideThreads
from widgets.review.unfinished_review import ReviewFeedback, UnfinishedReview
from widgets.review.verdict_handler import VerdictHandler

_GO_HERE = next(action for action in in_scope("app") if action.id == "app.focus_approvals")
_TAKE_BACK = frozenset({"undo", "redo"})
_LEAST = Size(40, 12)
"""Of the terminal, below which nothing can be reviewed."""
_A_LITTLE = 0.05
"""Seconds by which the look of the keys may lag behind their working again."""


class ReviewPanes(Column):
    """The diff preview above the approvals, always showing one item of the queue."""

    DEFAULT_CSS: ClassVar[str] = """
    ReviewPanes {
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
        id: str | None = None,  # noqa: A002
    ) -> None:
        """`clock` gives monotonic seconds; `keys` overrides the registry's keys for the hints, by action id."""
        super().__init__(id=id)
        self.state = ReviewState()
        self.diff_pane = DiffPane()
        self.view = self.diff_pane.view
        self.view.drawn = lambda: self.readiness.note_painted(in_focus=self.in_focus)
        self.pane = ApprovalPane()
        self.feedback = FeedbackField()
        self.asking = AskPanel()
        self.threads = SideThreads()
        self.preview = PreviewController(self.state, self.diff_pane, self.post_message)
        self.readiness = Readiness(clock)
        self.writing = ReviewWriting(self.state, self.feedback, self.diff_pane, self.post_message)
        self.deciding = VerdictHandler(self.state, self.writing.take, self.post_message, self.show_notice, self.draw)
        self.drawn: Callable[[], None] = lambda: None
        """Called whenever what waits is drawn anew."""
        self._had_focus = False
        self._possible: frozenset[tuple[str, str | None]] = frozenset()
        """The actions that had something to act on when it was drawn last, and what they meant."""
        self._keys = dict(keys or {})
        """Keys that mean something in the review."""

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
        """Show what there is."""
        for field in self.query(WritingField):
            field.take_pastes(self.writing.dropped.mention_text)
        for field in (*self.query(WritingField), self.asking):
            field.set_keys(self._keys)
        self.view.sheet.space_key = self.key_of("toggle_white_space")
        self.pane.on_named_keys = self.refresh_bindings
        self.preview.show_current()

    def on_resize(self) -> None:
        """Share the height between the panes; where there is hardly any, say that."""
        self.query_one("#too-small").display = self.is_too_small
        self.pane.fit_height(self.size.height)
        self.call_after_refresh(self.drawn)

    @property
    def is_too_small(self) -> bool:
        """Whether the terminal has no room for what would be decided."""
        return self.app.size.width < _LEAST.width or self.app.size.height < _LEAST.height

    # What the application tells

    def set_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Take all waiting and recent proposals as they are now; no word about what was decided elsewhere is lost."""
        before = self.state.current
        known = set(self.state.keys)
        self.state.update(proposals, attended=self.is_mounted and (self.in_focus or self.is_writing))
        if not known.issuperset(self.state.waiting_keys):
            # What came of a decision before has been overtaken: the model has answered.
            self.pane.show_outcome(None)
        self.deciding.follow()
        if self.state.current != before:
            self.show_current()
        else:
            self.preview.update_shown()
            self.draw()
        self.writing.strand()

    def set_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the diffs that were wanted; those of another proposal than the shown one are ignored."""
        if self.preview.take_diffs(proposal_id, diffs):
            self.draw()

    def set_versions(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the changes from the version before to this one, and show them if they are still wanted."""
        if self.preview.take_versions(proposal_id, diffs):
            self.draw()

    def set_checks(self, checked: ProposalChecks) -> None:
        """Take what the checks say of a proposal by now."""
        self.state.checks[checked.proposal] = checked
        if checked.proposal == self.state.current and self.is_mounted:
            self.preview.show_findings()
            self.draw()

    def take_parts(self, proposal_id: str, parts: Sequence[HunkPart], whole: Collection[str]) -> None:
        """Lines were cut out of their hunks: take them in or out. The proposal with the parts comes next."""
        if (proposal := self.state.get(proposal_id)) is not None:
            self.state.take_parts(proposal, parts, whole)

    def set_sent_comments(self, proposal_id: str, comments: Sequence[LineComment]) -> None:
        """Take the comments that went to the model with the denial of a proposal, to tick off in the next version."""
        self.state.unsaid.sent[proposal_id] = tuple(comments)
        self.preview.request_follow_ups()
        self.preview.show_notes()

    def set_answers(self, proposal_id: str, answers: Sequence[CommentFollowUp]) -> None:
        """Take what a proposal does at each of the comments on the version before."""
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
        """Whether there is room for all that a tool asks, and that is shown."""
        view = self.view
        return self.state.current == key and 0 < view.rows.height <= view.size.height

    def show_permission(self) -> bool:
        """Show what a tool waits for, which has the keys then; whether that was not shown."""
        if not self.state.permission_first:
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
        return self.asking.has_keys or any(field.is_open for field in self.query(WritingField))

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

    def clear_sent_feedback(self, key: str, words: ReviewFeedback) -> None:
        """Remove the feedback draft: it was recorded with the decision."""
        self.writing.said(key, words)

    def restore_feedback(self, key: str, words: ReviewFeedback) -> None:
        """Restore the feedback of a failed decision."""
        self.writing.give_back(key, words)
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
        """Say in one line what a decision came to, or what went wrong.

        Args:
            text: `P1 written: a.py.`
            problem: it went wrong.
            passing: it holds only until the model's turn is over.
            back: the action that takes it back, and what that does: `undo`, `undoes it`.
        """
        if problem:
            self.deciding.failed()
        words = None if back is None else lambda: f"{self.keys_to(back[0])} {back[1]}."
        self.pane.show_outcome(safe(text), problem=problem, passing=passing, back=words)

    def show_notice(self, text: str) -> None:
        """Show in one line why something was not done."""
        self.pane.show_outcome(safe(text) if text else None, problem=bool(text))

    def end_turn(self, instead: str) -> None:
        """Replace a status that held only during the turn by `instead`; remove it if that is empty."""
        if self.pane.is_passing:
            self.pane.show_outcome(safe(instead) if instead else None, passing=bool(instead))

    def set_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys that the hints name, by action id."""
        self._keys = dict(keys)
        for field in (*self.query(WritingField), self.asking):
            field.set_keys(keys)
        self.view.sheet.space_key = self.key_of("toggle_white_space")
        self.draw()

    def set_goes_on(self, goes_on: bool) -> None:
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
        """Draw everything anew, offer the keys that have something to act on; begin a grace period."""
        state, question, proposal = self.state, self.deciding.question, self.state.proposal
        item = (state.current, proposal and proposal.revision, proposal and written_versions(proposal.files))
        shown = proposal is not None and self.preview.shows(proposal)
        chosen = state.chosen.chosen_part(proposal).hunks if proposal is not None else ()
        self.readiness.choice_guard.watch(item)
        changed = self.readiness.guard.watch((item, shown, chosen, state.form, question))
        if changed or not state.queue_position(state.current):
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

    def draw_approvals(self) -> None:
        """Draw the lower pane anew."""
        question = self.deciding.question
        self.pane.show_question(None if question is None else question_line(question, self.key_of))
        # A class would have all that is inside styled again.
        self.pane.queue.display = not self.has_class("-full")
        notes_shown = self.view.rows.height <= self.view.size.height
        self.pane.show(self.state, self._key_in_headline, comparing=self.preview.comparing, notes_shown=notes_shown)
        self.query_one(Splitter).display = self.pane.queue.display and bool(self.pane.queue.items)
        if self.preview.title_is_cut == self.pane.shows_title:
            self.preview.title_is_cut = not self.pane.shows_title
            self.preview.show_notes()

    def hold_keys(self, why: str) -> None:
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
            self.readiness.sight.lose()
            self.view.refresh()
            self.pane.clear_key_notice()
            self.pane.draw_outcome()
            self.draw_approvals()

    @property
    def in_focus(self) -> bool:
        """Whether keys come here rather than to a field."""
        focused = self.screen.focused
        return focused is self.view or isinstance(focused, ReviewQueue | FileList)

    def _dim_keys(self) -> None:
        """Show that the keys are dead, while there is something to decide."""
        waits = self.state.queue_position(self.state.current) > 0
        self.pane.set_class(waits, "-changed")
        if waits:
            # A timer of Textual's that is late from the start never fires.
            asyncio.get_running_loop().call_later(GRACE_SECONDS + _A_LITTLE, self._end_grace)

    def _end_grace(self) -> None:
        if self.readiness.guard.is_over:
            self.pane.remove_class("-changed")

    def title_of(self, action: str) -> str | None:
        """What a key answers at this moment; empty if it does what its action is called, None if only to refuse."""
        if action == "in_diff('external_diff')":
            return self.view.title_of("external_diff")
        return title_now(action, self.state, self.deciding.question, comparing=self.preview.comparing)

    @property
    def named_keys(self) -> frozenset[str]:
        """The actions whose keys are named above the list now."""
        return frozenset() if self.has_class("-aside") or self.feedback.is_open else self.pane.named_keys

    def key_of(self, action: str) -> str:
        """The key of an action of the review or the diff as hints show it."""
        return self._first_key(next(item for item in in_scope("review", "diff") if item.handler == action))

    def keys_to(self, action: str) -> str:
        """The key of an action, after the one that leads here while the focus is elsewhere."""
        return self.key_of(action) if self.in_focus else f"{self._first_key(_GO_HERE)} {self.key_of(action)}"

    def _key_in_headline(self, action: str) -> str:
        # A decision may have led back to the composer, where the key that takes it back would be typed.
        return self.keys_to(action) if action in _TAKE_BACK else self.key_of(action)

    def _first_key(self, action: Action) -> str:
        return key_name(keys_of(action, self._keys)[0])

    @on(CameOnScreen)
    @on(ReviewQueue.Turned)
    def _count_unseen(self) -> None:
        if self.deciding.asks_anew():
            self.draw()
        else:
            self.draw_approvals()

    @on(OrderWanted)
    def _turn_order(self) -> None:
        self.show_notice(self.preview.toggle_order())
        self.draw()

    @on(NothingUnseen)
    def _say_all_was_seen(self) -> None:
        self.pane.show_outcome(safe("Everything that would be written has been on screen."))

    @on(NoteClicked)
    def _tick(self, event: NoteClicked) -> None:
        if event.key == AUTHORS_WORDS:
            self.preview.toggle_description()
            return
        self.state.unsaid.answered ^= {event.key}
        self.writing.keep(event.key.partition("/")[0])
        self.preview.show_notes()

    @on(ReviewQueue.Picked)
    def _pick(self, event: ReviewQueue.Picked) -> None:
        self.show_item(event.key)

    @on(Splitter.Dragged)
    def _drag(self, event: Splitter.Dragged) -> None:
        event.stop()
        self.pane.set_list_height(max(4, min(self.region.bottom - event.screen_y - 1, self.size.height - 6)))
