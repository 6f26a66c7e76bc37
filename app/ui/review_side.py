"""The right side of the workbench: the review, and the routing of its messages."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult

from app.ui.context.app_context import RunWork, open_link
from app.ui.controllers.review_actions import Decided, ReviewActions
from app.ui.controllers.review_services import ReadingProgress, ReviewNotes, SideQuestionActions
from widgets.common.containers import Column
from widgets.diff.diff_messages import CameOnScreen, ExternalDiffWanted
from widgets.review import review_messages as wishes
from widgets.review.review import Review

if TYPE_CHECKING:
    from app.config.settings import Settings


class ReviewSide(Column):
    """Holds the review, and routes its messages.

    Args:
        review: It.
        decisions: Acts on what it says.
        notes: Keeps what is begun in it.
        asking: Asks the model what is asked in it.
        reading: Shares what was seen in it.
        work: Runs that.
        take_words: Takes words that nobody in the review can take any more.
    """

    def __init__(
        self,
        review: Review,
        decisions: ReviewActions,
        notes: ReviewNotes,
        asking: SideQuestionActions,
        reading: ReadingProgress,
        work: RunWork,
        take_words: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.review = review
        self._decisions = decisions
        self._notes = notes
        self._asking = asking
        self._reading = reading
        self._work = work
        self._take_words = take_words
        self._look: tuple[str, bool, bool, dict[str, str]] = ("auto", False, True, dict(review.keymap))
        """Of the settings, those that the review follows already."""

    def compose(self) -> ComposeResult:
        """The review alone."""
        yield self.review

    def keep_focus(self) -> None:
        """Leave the focus where the user has put it since the last decision."""
        self._decisions.aftermath.cancel()

    def on_key(self) -> None:
        """The user goes on here."""
        self.keep_focus()

    def on_mouse_down(self) -> None:
        """The user goes on here."""
        self.keep_focus()

    def apply_settings(self, settings: "Settings") -> None:
        """Apply the settings, except where the user has changed the view by key."""
        self._decisions.checks.check_new()
        self.review.set_goes_on(settings.continue_after_approval)
        look = (settings.layout, settings.wrap, settings.white_space, settings.keys)
        before, self._look = self._look, look
        if look[0] != before[0]:
            self.review.view.set_split({"auto": None, "unified": False, "split": True}[settings.layout])
        if look[1] != before[1]:
            self.review.view.set_wrap(settings.wrap)
        if look[2] != before[2]:
            self.review.view.set_white_space(settings.white_space)
        if look[3] != before[3]:
            self.review.set_keys(settings.keys)

    # What the user sees, and wants to see

    @on(CameOnScreen)
    def keep_seen(self) -> None:
        """More of a proposal was on screen."""
        self._work(self._reading.save_soon, group="reading")

    @on(wishes.DiffsWanted)
    def load_diffs(self, event: wishes.DiffsWanted) -> None:
        """Load a diff for the review."""
        self._decisions.checks.check_new()
        self._work(partial(self._decisions.load_diffs, event), group="diffs", exclusive=True)

    @on(wishes.VersionsWanted)
    def load_versions(self, event: wishes.VersionsWanted) -> None:
        """Load the diff between two versions."""
        self._work(partial(self._decisions.load_versions, event), group="versions", exclusive=True)

    @on(wishes.AnswersWanted)
    def load_answers(self, event: wishes.AnswersWanted) -> None:
        """Load how a version responds to the comments on the one before."""
        self._work(partial(self._decisions.load_answers, event), group="answers", exclusive=True)

    @on(ExternalDiffWanted)
    def show_external_diff(self, event: ExternalDiffWanted) -> None:
        """Show a file in the user's external diff program."""
        self._work(
            partial(self._decisions.outside.show, event.proposal, event.path), group="external", exclusive=True
        )

    # What the user decides

    @on(wishes.Approve)
    @on(wishes.ApproveAll)
    @on(wishes.Deny)
    @on(wishes.DenyAll)
    def decide(self, event: Decided) -> None:
        """Carry out a decision; after the last one the focus goes to the chat if the user does nothing more here."""
        self._decisions.aftermath.on_decision()
        self._work(partial(self._decisions.carry_out, event))

    @on(wishes.Undo)
    @on(wishes.Redo)
    def take_back(self, event: Decided) -> None:
        """Undo or redo a decision."""
        self._work(partial(self._decisions.carry_out, event))

    @on(wishes.TakeLines)
    def take_lines(self, event: wishes.TakeLines) -> None:
        """Take single lines in or out."""
        self._work(partial(self._decisions.take_lines, event), group="lines")

    @on(wishes.Edit)
    def edit(self, event: wishes.Edit) -> None:
        """Change the proposed text."""
        self._work(partial(self._decisions.edit, event), group="edit", exclusive=True)

    @on(wishes.Confirmed)
    def confirm(self, event: wishes.Confirmed) -> None:
        """The answer to a tool that asked."""
        self._decisions.confirm(event)

    # What the user has checked

    @on(wishes.ChecksWanted)
    def run_checks(self, event: wishes.ChecksWanted) -> None:
        """Run the checks, or run them again."""
        self._decisions.checks.run_again(event.proposal_id)

    @on(wishes.CheckOutputWanted)
    def show_output(self, event: wishes.CheckOutputWanted) -> None:
        """Show the output of the checks."""
        self._work(partial(self._decisions.checks.show_output, event.proposal_id), group="output", exclusive=True)

    # What the user asks

    @on(wishes.ThreadsWanted)
    def load_threads(self, event: wishes.ThreadsWanted) -> None:
        """Load the side questions of a proposal."""
        self._work(partial(self._asking.load, event), group="threads", exclusive=True)

    @on(wishes.SideQuestionAsked)
    def ask(self, event: wishes.SideQuestionAsked) -> None:
        """The user asks the model, aside from the conversation."""
        self._work(partial(self._asking.ask, event), group="aside")

    @on(wishes.SideQuestionStopped)
    def stop_answer(self, event: wishes.SideQuestionStopped) -> None:
        """Stop waiting for an answer."""
        self._asking.stop(event)

    @on(wishes.LinkWanted)
    def open_link(self, event: wishes.LinkWanted) -> None:
        """A link in an answer was clicked."""
        open_link(self.app, event.href, self._asking.tell)

    # What the user writes

    @on(wishes.NotesChanged)
    def keep_notes(self, event: wishes.NotesChanged) -> None:
        """Save an unfinished review, so that it survives a restart; update the checks for the chosen hunks."""
        self._decisions.checks.check_new()
        self._work(partial(self._notes.save_soon, event.proposal_id, event.notes), group="notes")

    @on(wishes.FeedbackOrphaned)
    def keep_words(self, event: wishes.FeedbackOrphaned) -> None:
        """Move orphaned words to the composer."""
        self._take_words(event.text)
