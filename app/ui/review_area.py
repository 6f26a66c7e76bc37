"""The right side of the workbench: the review, and the routing of its messages."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message

from app.review.review_stores import UnfinishedReviewStore
from app.ui.context.app_context import RunInBackground, open_link
from app.ui.controllers.review_actions import DecisionMessage, ReviewActions
from app.ui.controllers.review_services import ReadingProgressController, SideQuestionController
from widgets.chat.transcript import Transcript
from widgets.common.containers import Column
from widgets.common.workbench_bars import SeenLinesSaved
from widgets.diff.diff_view import DiffView
from widgets.review import review_messages
from widgets.review.review import ReviewPane

if TYPE_CHECKING:
    from app.config.settings import Settings


class _BackgroundHandler(NamedTuple):
    """The function that handles a message of the review in the background, and its group of workers."""

    run: Callable[[Any], Coroutine[Any, Any, None]]
    group: str = "work"
    exclusive: bool = True
    """Whether the job replaces the running one of its group."""


class ReviewArea(Column):
    """Holds the review, and routes its messages."""

    def __init__(
        self,
        review: ReviewPane,
        actions: ReviewActions,
        notes: UnfinishedReviewStore,
        side_questions: SideQuestionController,
        reading: ReadingProgressController,
        run_work: RunInBackground,
    ) -> None:
        super().__init__()
        self.review = review
        self._actions = actions
        self._notes = notes
        self._side_questions = side_questions
        self._reading = reading
        self._run_work = run_work
        self._handlers: dict[type[Message], _BackgroundHandler] = {
            review_messages.VersionDiffsRequested: _BackgroundHandler(actions.load_version_diffs, "versions"),
            review_messages.CommentFollowUpsWanted: _BackgroundHandler(actions.load_follow_ups, "answers"),
            review_messages.SideThreadsWanted: _BackgroundHandler(side_questions.load_threads, "threads"),
            review_messages.EditProposedFile: _BackgroundHandler(actions.edit_file, "edit"),
            review_messages.Undo: _BackgroundHandler(actions.handle_decision, exclusive=False),
            review_messages.Redo: _BackgroundHandler(actions.handle_decision, exclusive=False),
            review_messages.IncludeOrExcludeLines: _BackgroundHandler(actions.toggle_lines, "lines", exclusive=False),
            review_messages.SideQuestionAsked: _BackgroundHandler(side_questions.ask, "aside", exclusive=False),
            review_messages.CheckOutputWanted: _BackgroundHandler(actions.checks.show_output, "output"),
            review_messages.ModelReadsWanted: _BackgroundHandler(actions.show_reads, "output"),
        }
        self._applied_look: tuple[str, bool, bool, dict[str, str]] = ("auto", False, True, dict(review.keymap))
        """Layout, wrap, white space and keys that were applied last."""

    def compose(self) -> ComposeResult:
        yield self.review

    @on(events.Key)
    @on(events.MouseDown)
    def keep_user_focus(self) -> None:
        """Keep the focus in the review after the last decision: the user is active here."""
        self._actions.after_decision.stay_in_review()

    def apply_settings(self, settings: "Settings") -> None:
        """Apply the settings that changed since the last call; choices that the user made by key stay."""
        self._actions.checks.check_proposals()
        self.review.set_model_continues(settings.continue_after_approval)
        look = (settings.layout, settings.wrap, settings.white_space, settings.keys)
        former, self._applied_look = self._applied_look, look
        if look[0] != former[0]:
            self.review.view.set_split({"auto": None, "unified": False, "split": True}[settings.layout])
        if look[1] != former[1]:
            self.review.view.set_wrap(settings.wrap)
        if look[2] != former[2]:
            self.review.view.set_white_space(settings.white_space)
        if look[3] != former[3]:
            self.review.override_keys(settings.keys)

    # Messages of the review

    @on(DiffView.CameOnScreen)
    def save_seen_lines(self) -> None:
        """Save the seen lines at the next pause, then post `SeenLinesSaved`."""

        async def save() -> None:
            if await self._reading.save_soon():
                self.post_message(SeenLinesSaved())

        self._run_work(save, group="reading")

    @on(review_messages.VersionDiffsRequested)
    @on(review_messages.CommentFollowUpsWanted)
    @on(review_messages.SideThreadsWanted)
    @on(review_messages.EditProposedFile)
    @on(review_messages.Undo)
    @on(review_messages.Redo)
    @on(review_messages.IncludeOrExcludeLines)
    @on(review_messages.SideQuestionAsked)
    @on(review_messages.CheckOutputWanted)
    @on(review_messages.ModelReadsWanted)
    def run_handler(self, event: Message) -> None:
        """Carry out a request of the review."""
        handler = self._handlers[type(event)]
        self._run_work(partial(handler.run, event), group=handler.group, exclusive=handler.exclusive)

    @on(review_messages.DiffsRequested)
    def load_diffs(self, event: review_messages.DiffsRequested) -> None:
        """Load a diff for the review."""
        self._actions.checks.check_proposals()
        self._run_work(partial(self._actions.load_diffs, event), group="diffs", exclusive=True)

    @on(DiffView.ExternalDiffWanted)
    def show_external_diff(self, event: DiffView.ExternalDiffWanted) -> None:
        """Show a file in the user's external diff program."""
        self._run_work(
            partial(self._actions.external_diffs.show_file, event.proposal, event.path),
            group="external",
            exclusive=True,
        )

    @on(review_messages.Approve)
    @on(review_messages.ApproveSeveralProposals)
    @on(review_messages.Deny)
    @on(review_messages.DenySeveralProposals)
    def handle_decision(self, event: DecisionMessage) -> None:
        """Carry out a decision; after the last one the focus returns to the chat, unless the user acts here again."""
        self._actions.after_decision.on_decision()
        self._run_work(partial(self._actions.handle_decision, event))

    @on(review_messages.PermissionAnswered)
    def answer_permission_request(self, event: review_messages.PermissionAnswered) -> None:
        """Pass on the user's answer to a permission request."""
        self._actions.answer_permission_request(event)

    @on(review_messages.CheckRunWanted)
    def run_checks(self, event: review_messages.CheckRunWanted) -> None:
        """Run the checks, or run them again."""
        self._actions.checks.rerun_checks(event.proposal_id)

    @on(review_messages.EvidenceRunOrStopWanted)
    def find_evidence(self, event: review_messages.EvidenceRunOrStopWanted) -> None:
        """Start the tests without each hunk, or stop them."""
        self._actions.checks.start_or_stop_evidence(event.proposal_id)

    @on(review_messages.CommandRerunOrStopWanted)
    def reproduce(self, event: review_messages.CommandRerunOrStopWanted) -> None:
        """Run the command of a proposal again, or stop it."""
        # Decide here: a replaced run may end only after the next one has begun.
        proposal_id = "" if event.is_running else event.proposal_id
        self._run_work(partial(self._actions.reproduce, proposal_id), group="run again", exclusive=True)

    @on(review_messages.SideQuestionStopRequested)
    def stop_side_question(self, event: review_messages.SideQuestionStopRequested) -> None:
        """Stop waiting for an answer."""
        self._side_questions.stop(event)

    @on(Transcript.LinkOpened)
    def open_link(self, event: Transcript.LinkOpened) -> None:
        """Open a link of an answer that the user clicked."""
        event.stop()
        open_link(self.app, event.href, self._side_questions.notify)

    @on(review_messages.UnfinishedReviewChanged)
    def save_notes(self, event: review_messages.UnfinishedReviewChanged) -> None:
        """Save an unfinished review for the next start; check the chosen hunks."""
        self._actions.checks.check_proposals()
        self._run_work(partial(self._notes.save_soon, event.proposal_id, event.notes), group="notes")

    @on(review_messages.FeedbackOrphaned)
    def move_feedback_to_composer(self, event: review_messages.FeedbackOrphaned) -> None:
        """Move feedback whose proposal is already decided to the composer."""
        self._actions.chat.add_to_composer(event.text)
