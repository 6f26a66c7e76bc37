"""The review: diff above, approvals below, and the keys that decide. It only posts messages.

Kept whole: Textual looks for all of its actions in this class.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

from textual import events, on
from textual.binding import BindingType

from app.images.mentions import Mention
from app.keys.registry import bindings, in_scope
from app.proposals.values.models import HunkState
from app.tools.base.contract import ConfirmationAnswer, PermissionScope
from widgets.common.key_hints import MAIN_BUTTON
from widgets.diff.diff_messages import ComparisonWanted, HunkClicked
from widgets.diff.diff_pane import DiffPane
from widgets.diff.line_selection import PickedLines
from widgets.diff.writing_field import WritingField
from widgets.review import review_messages
from widgets.review.asking_keys import AskingKeys
from widgets.review.key_availability import CHECKS, DECIDES, SHAPES
from widgets.review.review_wording import ACTION
from widgets.review.verdicts import approve, approve_all, can_be_asked_anew, deny, deny_all, deny_in_words

_OF_DIFF = frozenset(action.handler for action in in_scope("diff"))
_FIELD_CLOSED = "The field was closed just now. Press the key again."
"""Whoever writes on although it is gone decides nothing."""
_UNTIL_SEEN = 1.0
"""Seconds that it has to be drawn in, before a command goes on without."""


class Review(AskingKeys):
    """The review panes with their keys."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("review"), *bindings("diff", through="in_diff")]

    _held: str | None = None
    """The action of the chip on which the mouse button went down."""
    # Keys that decide

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Decisions exist only while a pane itself has the focus, and while there is something to decide."""
        if action in DECIDES | SHAPES | CHECKS:
            return self.in_focus and self._is_live(action)
        if action == "in_diff":
            return self.in_focus and self.view.check_action(str(parameters[0]), ())
        return super().check_action(action, parameters)

    def action_approve(self) -> None:
        """Approve what is chosen, allow what is asked, or say yes to the question."""
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
        """Approve what is chosen, and let the model go on."""
        if self._decides() and self.deciding.question is None:
            self._approve("approve_and_continue")

    def _approve(self, action: Literal["approve", "approve_and_continue"]) -> None:
        proposal = self.state.proposal
        if proposal is not None and not self.deciding.is_busy(proposal):
            shown, comparing = self.preview.shows(proposal), self.preview.comparing
            verdict = partial(approve, self.state, proposal, shown=shown, versions=comparing, action=action)
            self.deciding.act(verdict(), verdict)

    def action_deny(self) -> None:
        """Deny the proposal or what is asked, or say no to the question."""
        if self.deciding.question is not None:
            self.deciding.ask(None)
            return
        if not self._decides():
            return
        if self.state.confirmation is not None:
            self._refuse(self.state.current)
            return
        proposal = self.state.proposal
        if proposal is not None and not self.deciding.is_busy(proposal):
            verdict = partial(deny, self.state, proposal)
            self.deciding.act(verdict(), verdict)

    def action_approve_all(self) -> None:
        """Approve everything, after a question; from the question, what it left out, too."""
        if not self._decides():
            return
        if (question := self.deciding.question) is not None:
            if question.named:
                ids = {*question.ids, *question.named}
                self.deciding.perform("approve_all", tuple(item.id for item in self.state.waiting if item.id in ids))
            return
        self.deciding.act(approve_all(self.state))

    def action_deny_all(self) -> None:
        """Deny everything, after a question."""
        if self._decides() and self.deciding.question is None:
            self.deciding.act(deny_all(self.state))

    def action_deny_hunk(self) -> None:
        """Deny the hunk at the cursor alone."""
        if not self._decides():
            return
        proposal, hunk = self._choosable, self.view.cursor.hunk
        if hunk is not None and hunk.state is HunkState.PENDING and proposal and self.preview.shows(proposal):
            self.deciding.deny_hunk(proposal, hunk.id)

    def action_allow_session(self) -> None:
        """Allow what is asked, and all of the shown form or else the very same, for this session."""
        if self._decides() and self.state.confirmation is not None:
            self._allow(PermissionScope.SESSION)

    def action_allow_project(self) -> None:
        """Allow what is asked, and all of the shown form in this project, until that is revoked."""
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
        if self.view.unread is not None:
            self.show_notice(f"Not all of it has been on screen: {self.key_of('next_unseen')} goes on.")
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
        """Answer what a tool asks, by the name of an action, where that was asked beside the chat."""
        if key not in self.state.permissions.asked:
            return
        if action == "deny":
            self._refuse(key)
            return
        span = PermissionScope.SESSION if action == "allow_session" else PermissionScope.ONCE
        form = None if span is PermissionScope.ONCE else self.state.permissions.form(key)
        self._answer(key, ConfirmationAnswer(allowed=True, span=span, form=form))

    def _refuse(self, key: str) -> None:
        """Do not allow what is asked, and say what the user has written about it."""
        words = self.writing.take(key)
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
            self.deciding.ask(None)
            return
        if self.in_focus and event.is_printable and not self.has_effect(event.key, event.character):
            self.hold_keys(
                f"“{event.character}” does nothing here. In case you were writing to the chat, keys decide nothing "
                "for a moment. Press the key again."
            )
            if event.character == self.key_of("undo") and self.state.recent:
                leads_there = self.key_of("next_proposal")
                self.show_notice(
                    f"To undo what was decided earlier or elsewhere, show it first: {leads_there} leads there."
                )

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember the chip on which a click begins."""
        self._held = event.style.meta.get(ACTION)

    async def on_click(self, event: events.Click) -> None:
        """A click on a chip is a press of its key, in the review as if it had the focus.

        It begins and ends on the same chip: to select words in the pane, or to slide off a chip, decides nothing.
        """
        action, self._held = self._held, None
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
        """Do what was picked by its name elsewhere, as soon as it can be seen what it is done to."""
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
        if (picked := self.view.picked()) is not None:
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

    @on(HunkClicked)
    def _toggle_clicked(self, event: HunkClicked) -> None:
        self._toggle([event.hunk])

    def _toggle(self, ids: Sequence[str]) -> None:
        proposal = self._choosable
        if proposal is None or not self._ready(self.readiness.choice_guard):
            return
        self.show_notice("")
        self.state.chosen.toggle(proposal, [hunk for hunk in proposal.hunks if hunk.id in ids])
        self.writing.keep(proposal.id)
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
        """Show the next item."""
        self._step(1)

    def action_previous_proposal(self) -> None:
        """Show the previous item."""
        self._step(-1)

    def _step(self, by: int) -> None:
        keys = self.state.keys
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
        """Write what should be different; sending it denies the proposal."""
        if not self._decides(writes=True) or self.deciding.question is not None:
            return
        if self.writing.open():
            self.show_notice("")
        self.pane.set_class(self.feedback.is_open, "-writing")

    @on(WritingField.Typed, "#feedback")
    def _keep_draft(self, event: WritingField.Typed) -> None:
        self.writing.put_aside(event.subject, event.text)
        if self.deciding.question is not None:
            self.deciding.ask(None)

    @on(WritingField.Closed, "#feedback")
    def _put_aside(self, event: WritingField.Closed) -> None:
        self.writing.put_aside(event.subject, event.draft)
        self._end_writing()
        self.writing.end(event.subject)

    @on(WritingField.Sent, "#feedback")
    def _send_feedback(self, event: WritingField.Sent) -> None:
        key = event.subject
        self.writing.put_aside(key, event.text)
        self._end_writing()
        if key in self.state.permissions.asked:
            self._refuse(key)
            return
        proposal = self.state.get(key)
        if proposal is None or not proposal.state.is_pending:
            self.writing.end(key)
        elif not self.state.unsaid.feedback_for(proposal):
            if not can_be_asked_anew(proposal):
                self.show_notice("Nothing was written, so nothing was sent.")
            elif not self.deciding.is_busy(proposal):
                self.deciding.deny_stale(proposal)
        elif not self.deciding.is_busy(proposal):
            self.deciding.act(deny_in_words(self.state, proposal))

    def _end_writing(self) -> None:
        self.pane.remove_class("-writing")
        self.screen.set_focus(self.view)
        self.hold_keys(_FIELD_CLOSED)
        self.show_permission()

    @on(DiffPane.Commented)
    def _take_comment(self, event: DiffPane.Commented) -> None:
        self.writing.comment(event, self.preview.diffs)
        if event.saved:
            self.hold_keys(_FIELD_CLOSED)
            self.preview.show_choice()
        else:
            self.preview.restore_drafts(event.proposal)
        self.draw_approvals()

    @on(WritingField.Closed, "#comment")
    def _put_comment_aside(self) -> None:
        self.writing.strand()
        self.show_permission()

    # Versions

    @on(ComparisonWanted)
    def action_toggle_versions(self) -> None:
        """The version before against this one, or back to what an approval would write."""
        proposal = self.state.proposal
        if proposal is None:
            return
        if self.preview.comparing:
            self.show_current()
        elif not proposal.supersedes:
            self.show_notice(f"{proposal.id} is the first version.")
        elif self.preview.compare_versions(proposal):
            self.draw()
