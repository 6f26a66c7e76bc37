"""The two review panes together: they take what the application tells and show it. Keys are the subclass's."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.content import Content

from app.actions import in_scope
from app.keymap import key_name
from app.proposals.facts import LineComment
from app.proposals.models import FileDiff, Proposal
from app.proposals.splitting import Part
from app.tools.contract import Confirmation
from widgets.approval import messages
from widgets.approval.comments import placed, top_notes
from widgets.approval.decide import Ask
from widgets.approval.feedback import FeedbackField
from widgets.approval.guard import GRACE_SECONDS, Guard
from widgets.approval.notes import Notes
from widgets.approval.offered import title_now
from widgets.approval.pane import ApprovalPane
from widgets.approval.queue import ReviewQueue
from widgets.approval.shown import content_of, content_of_diffs
from widgets.approval.state import ReviewState
from widgets.approval.wording import confirmation_notes, question_line, safe
from widgets.common.plain import Column
from widgets.common.sight import Sight
from widgets.common.splitter import Splitter
from widgets.diff.file_list import FileList
from widgets.diff.messages import CameOnScreen, NoteClicked, NothingUnseen
from widgets.diff.pane import DiffPane
from widgets.diff.writing import WritingField

_A_LITTLE = 0.05
"""Seconds by which the look of the keys may lag behind their working again."""


class ReviewPanes(Column):
    """The diff preview above the approvals, always showing one item of the queue."""

    DEFAULT_CSS: ClassVar[str] = """
    ReviewPanes {
        width: 1fr;
        height: 1fr;
        &.-writing #headline { display: none; }
        &.-writing ApprovalPane { min-height: 2; }
        &.-full ApprovalPane { min-height: 0; }
        &.-full ReviewQueue { display: none; }
        &.-full Splitter { display: none; }
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
        self.view.drawn = self._gain_sight
        self.pane = ApprovalPane()
        self.guard = Guard(clock)
        """Over decisions: what would be written, and the question that is open."""
        self.choice_guard = Guard(clock)
        """Over taking hunks in and out: the proposal that is shown."""
        self.picture = Sight()
        """Over clicks that decide: whether what would be decided was on the screen."""
        self.sight = Sight()
        """Over keys that decide: whether it was there with the focus here."""
        self._had_focus = False
        self.question: Ask | None = None
        self.comparing = False
        """Whether the diff pane compares two versions instead of showing what would be written."""
        self.diffs: tuple[FileDiff, ...] = ()
        """Those of the shown proposal."""
        self.deciding: dict[str, Proposal] = {}
        """What was decided and has not been answered by the application yet."""
        self.feedback = FeedbackField()
        self._keys = dict(keys or {})
        self.known_keys = self._all_keys()
        """Keys that mean something in the review."""
        self._diffs_of: Proposal | None = None
        self._versions: tuple[str, tuple[FileDiff, ...]] | None = None

    def compose(self) -> ComposeResult:
        yield self.diff_pane
        yield Splitter()
        yield self.feedback
        yield self.pane

    def on_mount(self) -> None:
        """Show what there is."""
        for field in self.query(WritingField):
            field.set_keys(self._keys)
        self.show_current()

    def on_resize(self) -> None:
        """Share the height between the panes."""
        self.pane.fit(self.size.height)

    # What the application tells

    def set_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Take all waiting and recent proposals as they are now."""
        before = self.state.current
        known = set(self.state.keys)
        self.state.update(proposals)
        if not known.issuperset(self.state.waiting_keys):
            # What came of a decision before has been overtaken: the model has answered.
            self.pane.outcome(None)
        self.deciding = {key: value for key, value in self.deciding.items() if self.state.get(key) == value}
        if self.state.current != before:
            self.show_current()
            return
        proposal = self.state.proposal
        if proposal is not None and proposal != self._diffs_of:
            self.post_message(messages.DiffsWanted(proposal.id))
        self.draw()

    def set_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the diffs that were wanted; those of another proposal than the shown one are ignored."""
        proposal = self.state.proposal
        if proposal is None or proposal.id != proposal_id:
            return
        self.comparing = False
        self.diffs, self._diffs_of = tuple(diffs), proposal
        self.state.note_bases(proposal)
        self.view.show(proposal, diffs, extra=top_notes(self.state, proposal), seen=self.state.seen_of(proposal))
        self.show_choice()
        self.draw()

    def take_parts(self, proposal_id: str, parts: Sequence[Part], whole: Collection[str]) -> None:
        """Lines were cut out of their hunks: take them in or out. The proposal with the parts comes next."""
        if (proposal := self.state.get(proposal_id)) is not None:
            self.state.take_parts(proposal, parts, whole)

    def set_versions(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the changes from the version before to this one, and show them if they are still wanted."""
        self._versions = (proposal_id, tuple(diffs))
        proposal = self.state.proposal
        if proposal is not None and proposal.id == proposal_id:
            self.compare(proposal)

    def set_sent_comments(self, proposal_id: str, comments: Sequence[LineComment]) -> None:
        """Take the comments that went to the model with the denial of a proposal, to tick off in the next version."""
        self.state.sent[proposal_id] = tuple(comments)
        if (proposal := self.state.proposal) is not None and self.view.proposal is not None and not self.comparing:
            self.view.set_extra(top_notes(self.state, proposal))

    def add_confirmation(self, key: str, confirmation: Confirmation) -> None:
        """Ask the user; the model's turn waits for it."""
        self.state.confirmations[key] = confirmation
        self.pane.outcome(None)
        # What the user is writing about stays in view until it is written.
        if self.is_writing or not self.show_permission():
            self.draw()

    def show_permission(self) -> bool:
        """Show what a tool waits for, which has the keys then; whether that was not shown."""
        if not self.state.permission_first:
            return False
        self.state.show_permission()
        self.show_current()
        return True

    def remove_confirmation(self, key: str) -> None:
        """The question is gone, answered or not."""
        self.state.confirmations.pop(key, None)
        self.state.narrowed.pop(key, None)
        if not (self.feedback.is_open and self.feedback.subject == key):
            self.strand(self.state.drafts.pop(key, ""))
        if self.state.current == key:
            self.state.leave_permission()
            self.show_current()
        else:
            self.draw()

    def strand(self, text: str) -> None:
        """Hand on words whose subject is gone."""
        if text.strip():
            self.post_message(messages.Stranded(text))

    @property
    def is_writing(self) -> bool:
        """Whether the user writes feedback or a comment."""
        return any(field.is_open for field in self.query(WritingField))

    @property
    def permissions(self) -> int:
        """How many questions of tools are open."""
        return len(self.state.confirmations)

    def recall(self, notes: Mapping[str, Notes]) -> None:
        """Take up what the user had begun before a restart, by proposal."""
        for key, begun in notes.items():
            self.state.recall(key, begun)
        self.show_choice()
        if (proposal := self.state.proposal) is not None and self.view.proposal is not None and not self.comparing:
            self.view.set_extra(top_notes(self.state, proposal))
        self.draw()

    def keep_notes(self, key: str) -> None:
        """Have kept what is begun on a proposal; a permission is gone with its turn."""
        if key not in self.state.confirmations:
            self.post_message(messages.NotesChanged(key, self.state.notes(key)))

    def note_question(self, asked: bool) -> None:
        """Whether the model waits for the answer to a question, which is the chat's."""
        if asked != self.state.asked_in_chat:
            self.state.asked_in_chat = asked
            self.draw_approvals()

    def outcome(self, text: str, *, problem: bool = False, passing: bool = False) -> None:
        """Say in one line what a decision came to (`wrote 2 files; u undoes`), or what went wrong.

        `passing` is what holds only until the model's turn is over.
        """
        if problem:
            self.deciding.clear()
        self.pane.outcome(safe(text), problem=problem, passing=passing)

    def turn_over(self, instead: str) -> None:
        """Control is back: put something in the place of what held until then, nothing if it is empty."""
        if self.pane.is_passing:
            self.pane.outcome(safe(instead) if instead else None, passing=bool(instead))

    def set_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys that the hints name, by action id."""
        self._keys = dict(keys)
        self.known_keys = self._all_keys()
        for field in self.query(WritingField):
            field.set_keys(keys)
        self.draw()

    def set_goes_on(self, goes_on: bool) -> None:
        """Take whether the model goes on by itself once nothing waits any more."""
        if goes_on != self.state.goes_on:
            self.state.goes_on = goes_on
            self.draw()

    def show_item(self, key: str) -> None:
        """Show a proposal or a confirmation of the queue, by its id or key."""
        if self.state.lists(key) and key != self.state.current:
            self.state.current, self.state.picked = key, True
            self.show_current()

    # Drawing

    def show_current(self) -> None:
        """Show the current item from the start."""
        self._diffs_of, self.diffs, self.comparing, self.question = None, (), False, None
        proposal, confirmation = self.state.proposal, self.state.confirmation
        if confirmation is not None:
            self.view.show_text(confirmation_notes(confirmation))
        elif proposal is None:
            self.view.clear("Nothing to review yet. What the model proposes appears here.")
        else:
            self.view.clear(f"Loading {proposal.id} …")
            self.post_message(messages.DiffsWanted(proposal.id))
        self.draw()

    def is_shown(self, proposal: Proposal) -> bool:
        """Whether the diff on screen is of what an approval of this proposal would write."""
        shown = self._diffs_of is not None and self._diffs_of.id == proposal.id and not self.comparing
        return shown and content_of_diffs(self.diffs) == content_of(proposal)

    def show_choice(self) -> None:
        """Mark in the diff what is left out and what was remarked."""
        proposal = self.state.proposal
        if proposal is not None and self.view.diffs:
            self.view.set_left_out(frozenset(self.state.left_out.get(proposal.id, set())))
            remarks = self.state.remarks.get(proposal.id, ())
            self.diff_pane.set_comments(placed((one for one in remarks if not one.draft), self.view.diffs))
            self.diff_pane.set_drafts(placed((one for one in remarks if one.draft), self.view.diffs))

    def compare(self, proposal: Proposal) -> None:
        """Show the version before against this one."""
        if self._versions is None or self._versions[0] != proposal.id:
            self.post_message(messages.VersionsWanted(proposal.id))
            return
        self.comparing = True
        self.view.clear()
        self.view.show(proposal, self._versions[1], versions=True)
        self.draw()

    def draw(self) -> None:
        """Draw everything anew, and start the grace period if a key would decide something else now."""
        if not self.is_mounted:
            return
        if self.question is not None and not self._still_asked(self.question):
            self.question = None
        proposal = self.state.proposal
        item = (self.state.current, proposal and proposal.revision, proposal and content_of(proposal))
        shown = proposal is not None and self.is_shown(proposal)
        chosen = self.state.choice(proposal).hunks if proposal is not None else ()
        self.choice_guard.watch(item)
        changed = self.guard.watch((item, shown, chosen, self.state.form, self.question))
        if changed or not self.state.queue_position(self.state.current):
            self._dim_keys()
        if changed:
            self.lose_picture()
        self.draw_approvals()
        self.diff_pane.set_title(self._title())

    def draw_approvals(self) -> None:
        """Draw the lower pane anew."""
        self.pane.show(self.state, self.key_of, comparing=self.comparing)
        self.pane.ask(None if self.question is None else question_line(self.question, self.key_of))

    def _still_asked(self, question: Ask) -> bool:
        """Whether nothing that a question is about has changed since."""
        return all(
            (proposal := self.state.get(subject.id)) is not None and proposal == subject
            for subject in question.subjects
        )

    def hold_keys(self, why: str) -> None:
        """Begin the grace period anew."""
        self.guard.restart(why)
        self.choice_guard.restart(why)
        self._dim_keys()

    def lose_picture(self) -> None:
        """Let nothing decide before all this has been painted anew."""
        self.picture.lose()
        self.sight.lose()
        self.view.refresh()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _follow_focus(self) -> None:
        if self.in_focus != self._had_focus:
            self._had_focus = self.in_focus
            self.sight.lose()
            self.view.refresh()

    def _gain_sight(self) -> None:
        self.picture.gain()
        if self.in_focus:
            self.sight.gain()

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
        if self.guard.open:
            self.pane.remove_class("-changed")

    def title_of(self, action: str) -> str:
        """What a key answers at this moment; empty if it does what its action is called."""
        return title_now(action, self.state, self.question)

    def key_of(self, action: str) -> str:
        """The key of an action of the review or the diff as hints show it."""
        found = next(item for item in in_scope("review", "diff") if item.handler == action)
        return key_name(self._keys.get(found.id, found.keys).split(",")[0].strip())

    def _all_keys(self) -> frozenset[str]:
        actions = in_scope("app", "review", "diff", "files", "approval")
        return frozenset(
            key.strip() for action in actions for key in self._keys.get(action.id, action.keys).split(",") if key
        )

    def _title(self) -> Content:
        """What the line above the diff begins with."""
        proposal = self.state.proposal
        if proposal is None or self.view.proposal is None:
            return Content("")
        if self.comparing:
            return Content.styled(f"{proposal.supersedes} → {proposal.id}", "bold $text-warning")
        version = f" v{proposal.version}" if proposal.version > 1 else ""
        return Content.styled(f"{proposal.id}{version}", "bold $text-accent")

    @on(CameOnScreen)
    def _count_unseen(self) -> None:
        self.pane.show_headline(self.state, self.key_of, comparing=self.comparing)

    @on(NothingUnseen)
    def _say_all_was_seen(self) -> None:
        self.pane.outcome(safe("Everything that would be written has been on screen."))

    @on(NoteClicked)
    def _tick(self, event: NoteClicked) -> None:
        self.state.answered ^= {event.key}
        self.keep_notes(event.key.partition("/")[0])
        if (proposal := self.state.proposal) is not None:
            self.view.set_extra(top_notes(self.state, proposal))

    @on(ReviewQueue.Picked)
    def _pick(self, event: ReviewQueue.Picked) -> None:
        self.show_item(event.key)

    @on(Splitter.Dragged)
    def _drag(self, event: Splitter.Dragged) -> None:
        event.stop()
        self.pane.add_class("dragged")
        self.pane.fit(self.size.height)
        self.pane.styles.height = max(4, min(self.region.bottom - event.screen_y - 1, self.size.height - 6))
