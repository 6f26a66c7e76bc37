"""Carries out the user's decisions in the review, and reports their results."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from app.agent.updates import PhaseChanged, SessionPhase
from app.images.mentions import has_image_name
from app.proposals.values.proposal_errors import DecisionMadeButNotRecorded
from app.review.review_decisions import (
    DecisionAndUndoText,
    ReviewDecisionService,
    describe_approval,
    describe_completed_undo,
    describe_denial,
)
from app.text.quantities import format_count, join_first
from app.text.safe_text import escape_unsafe
from app.ui.context.app_context import AppContext, ChatActions
from app.ui.context.current_session import CurrentSession
from app.ui.context.preferences import LiveSettings
from app.ui.controllers.review_services import CheckController
from app.ui.screens.output_screens import ExternalDiffController, ReadsBeforeProposalScreen
from widgets.common.input_order import wait_until_input_painted
from widgets.review import review_messages
from widgets.review.review import ReviewPane

if TYPE_CHECKING:
    from app.agent.updates import Update
    from app.images.image import Image
    from app.images.mentions import Mention
    from app.proposals.decide.conflicts import FileConflict, UnsavedEdit
    from app.proposals.values.models import DecisionResult, FileDiff, FileVersion, Proposal
    from app.runtime.open_workspace import OpenWorkspace
    from app.ui.terminal.external_editor import ExternalEditor


_DELIVERED_WITH_ANSWER = " Your words go to the model with your answer to its question."


class DecisionFollowUpController:
    """Follows up decisions: returns the focus to the composer, and lets the model continue."""

    def __init__(
        self, review: ReviewPane, session: CurrentSession, preferences: LiveSettings, chat: ChatActions
    ) -> None:
        self._review = review
        self._session = session
        self._preferences = preferences
        self._chat = chat
        self._returns_focus = False
        """Whether the focus returns to the composer after the last decision."""
        self._running_decisions = 0
        """Number of decisions that are being carried out; each may let the model continue at its end."""

    @contextmanager
    def hold_focus_during_decision(self) -> Iterator[None]:
        """Keep the focus in the review during a decision; afterwards return it to the composer if nothing waits."""
        self._running_decisions += 1
        try:
            yield
        except BaseException:
            self.stay_in_review()
            raise
        finally:
            self._running_decisions -= 1
        self.return_to_composer_if_done()

    def on_decision(self) -> None:
        """Record a decision of the user: the focus may return to the composer."""
        self._returns_focus = True

    def stay_in_review(self) -> None:
        """Keep the focus where it is: the user undid a decision or left the review, or the decision failed."""
        self._returns_focus = False

    def return_to_composer_if_done(self) -> None:
        """Focus the composer if nothing waits for a decision and the model does not work."""
        session, review = self._session.current, self._review
        busy = session is not None and session.is_busy
        if not self._returns_focus or self._running_decisions or busy or review.state.waiting_count:
            return
        self._returns_focus = False
        if review.has_review_focus and review.verdict_handler.question is None:
            self._chat.show_chat()

    def delivery_sentence(self, proposals: "Sequence[Proposal]") -> str:
        """Return a sentence on when the model or agent gets the feedback of these decisions."""
        if all(proposal.origin.kind == "agent" for proposal in proposals):
            agents = dict.fromkeys(proposal.origin.agent_name for proposal in proposals)
            return f" Your words go to {' and '.join(agents)}."
        session = self._session.current
        if all(proposal.session not in ("", session.id if session else "") for proposal in proposals):
            sessions = "sessions" if len({proposal.session for proposal in proposals}) > 1 else "session"
            return f" Your words go to the {sessions} of {' and '.join(proposal.id for proposal in proposals)}."
        if session is None:
            return " There is no model to read your words; they are stored in the log."
        if session.question is not None:
            return _DELIVERED_WITH_ANSWER
        return " Your words are on their way to the model."

    async def continue_if_wanted(self, proposal: "Proposal", *, is_requested: bool) -> str:
        """Let the model continue after an approval if that is wanted; return a sentence about it.

        Args:
            proposal: The proposal that was written last.
            is_requested: Whether the user asked for it by key; else the settings decide, once nothing waits.
        """
        session = self._session.current
        if not is_requested and (
            not self._preferences.settings.continue_after_approval
            or any(other.state.is_pending for other in await self._session.host.proposals())
        ):
            return ""
        if proposal.origin.kind == "agent":
            return f" It belongs to {proposal.origin.agent_name}, which goes on by itself."
        if proposal.session and (session is None or proposal.session != session.id):
            return " It belongs to another session, whose model goes on there."
        if session is None:
            return " There is no model yet to go on."
        if session.is_follower:
            return " Let the model go on in the window that has this session open."
        if session.question is not None:
            return " The model goes on once you have answered its question."
        if await session.resume():
            return " The model goes on."
        return " There is nothing to continue yet; write a message." if is_requested else ""

    def handle_update(self, update: "Update") -> None:
        """Handle an update of the session."""
        session = self._session.current
        # Updates of a finished turn may arrive before its proposals are shown: act only at its end.
        has_ended = isinstance(update, PhaseChanged) and update.phase in (SessionPhase.IDLE, SessionPhase.ASKING)
        if session is None or not has_ended or session.is_busy:
            return
        # The model has the feedback now, or gets it with the answer to its question.
        is_feedback_waiting = session.has_undelivered_feedback and session.question is not None
        self._review.end_turn(_DELIVERED_WITH_ANSWER.strip() if is_feedback_waiting else "")
        self.return_to_composer_if_done()


_DecisionWithFeedback = TypeVar("_DecisionWithFeedback", review_messages.Approve, review_messages.Deny)

DecisionMessage = (
    review_messages.Approve
    | review_messages.ApproveSeveralProposals
    | review_messages.Deny
    | review_messages.DenySeveralProposals
    | review_messages.Undo
    | review_messages.Redo
)
"""The messages of the review that are decisions."""


class ReviewActions:
    """Carries out what the user does in the review, such as approving, denying, undoing and editing.

    The review may exist before the session; decisions then wait for the session.
    """

    def __init__(
        self,
        review: ReviewPane,
        session: CurrentSession,
        runtime: "OpenWorkspace",
        preferences: LiveSettings,
        editor: "ExternalEditor",
        app_context: AppContext,
        chat: ChatActions,
    ) -> None:
        self._review = review
        self._session = session
        self._runtime = runtime
        self._editor = editor
        self._app_context = app_context
        self.chat = chat
        self.checks = CheckController(review, runtime, app_context)
        self._decisions = ReviewDecisionService(
            review.state, lambda: session.host.decisions, lambda: self.checks.scheduler, "app"
        )
        self.after_decision = DecisionFollowUpController(review, session, preferences, chat)
        self._preferences = preferences
        self.external_diffs = ExternalDiffController(review, runtime, app_context)
        self._line_exclusion = asyncio.Lock()
        """Held while lines are taken out, so that a decision made right after Space comes later, and is refused."""

    async def handle_decision(self, event: DecisionMessage) -> None:
        """Carry out a decision, undo or redo, once a session is open and earlier exclusions of lines are done."""
        await self._session.wait_until_open()
        async with self._line_exclusion:
            pass
        match event:
            case review_messages.Undo():
                await self.undo(event)
                return
            case review_messages.Redo():
                await self.redo(event)
                return
        with self.after_decision.hold_focus_during_decision():
            match event:
                case review_messages.Approve():
                    await self.approve(event)
                case review_messages.ApproveSeveralProposals():
                    await self.approve_all(event)
                case review_messages.Deny():
                    await self.deny(event)
                case review_messages.DenySeveralProposals():
                    await self.deny_all(event)

    async def approve(self, event: review_messages.Approve) -> None:
        """Write a proposal, or some of its hunks, to disk."""
        (result,) = await self._carry_out_all((event,), self._write_proposal)
        follow_up = self._describe_delivery((event,), (result,)) or await self.after_decision.continue_if_wanted(
            result.proposal, is_requested=event.model_continues
        )
        self._show_outcome(result, describe_approval(result), follow_up)

    async def approve_all(self, event: review_messages.ApproveSeveralProposals) -> None:
        """Write several proposals, the oldest first; stop at the first that cannot be written."""
        results = await self._carry_out_all(event.approvals, self._write_proposal)
        follow_up = self._describe_delivery(event.approvals, results) or await self.after_decision.continue_if_wanted(
            results[-1].proposal, is_requested=False
        )
        outcome = describe_approval(results[0])
        if len(results) > 1:
            ids = ", ".join(result.proposal.id for result in results)
            outcome = DecisionAndUndoText(f"{len(results)} proposals written: {ids}.", "undoes the last")
        self._show_outcome(results[-1], outcome, follow_up)

    async def deny(self, event: review_messages.Deny) -> None:
        """Deny a proposal or some of its hunks; with feedback the model continues at once."""
        (result,) = await self._carry_out_all((event,), self._deny_proposal)
        if event.model_continues:
            follow_up = await self.after_decision.continue_if_wanted(result.proposal, is_requested=True)
            delivery = f" The model is told why it was stale.{follow_up}"
        else:
            delivery = self._describe_delivery((event,), (result,))
        self._show_outcome(result, describe_denial(result, event.hunks), delivery)

    async def deny_all(self, event: review_messages.DenySeveralProposals) -> None:
        """Deny several proposals."""
        results = await self._carry_out_all(event.denials, self._deny_proposal)
        on_disk = [result.proposal.id for result in results if result.proposal.on_disk]
        others = [result.proposal for result in results if not result.proposal.on_disk]
        partly_written = [proposal.id for proposal in others if proposal.is_written_in_part]
        effect = (
            f"what was written of {join_first(partly_written, 4)} stays" if partly_written else "nothing was written"
        )
        if on_disk:
            effect = f"{join_first(on_disk, 4)} reverted on disk"
        undo_removes_writes = results[-1].proposal.is_written_in_part and not results[-1].proposal.on_disk
        undo_effect = "undoes what was written of the last" if undo_removes_writes else "reopens the last"
        summary = f"{format_count(len(event.denials), 'proposal')} denied; {effect}."
        delivery = self._describe_delivery(event.denials, results)
        self._show_outcome(results[-1], DecisionAndUndoText(summary, undo_effect), delivery)

    async def _write_proposal(self, event: review_messages.Approve) -> "DecisionResult":
        name, revision, hunks = event.proposal_id, event.revision, event.hunks
        await self._decisions.run_required_checks(name, revision, hunks)
        images = await self._load_feedback_images(event)
        self.checks.stop(name)
        result = await self._decisions.approve(name, revision, hunks, event.feedback, images)
        self._show_outcome(result, describe_approval(result))
        return result

    async def _deny_proposal(self, event: review_messages.Deny) -> "DecisionResult":
        images = await self._load_feedback_images(event)
        self.checks.stop(event.proposal_id)
        return await self._decisions.deny(event.proposal_id, event.revision, event.hunks, event.feedback, images)

    async def _load_feedback_images(
        self, event: "review_messages.Approve | review_messages.Deny"
    ) -> "tuple[Image, ...]":
        """Return the images in the feedback; none for another agent, which reads the named files itself."""
        proposal = self._review.state.get(event.proposal_id)
        if proposal is not None and proposal.origin.kind == "agent":
            self._notify_named_images(event.feedback.mentions, proposal.origin.agent_name)
            return ()
        consequence = f"{event.proposal_id} waits as it did, and your words are where you wrote them"
        return await self.chat.load_images(event.feedback.mentions, consequence)

    async def _carry_out_all(
        self,
        events: Sequence[_DecisionWithFeedback],
        carry_out: "Callable[[_DecisionWithFeedback], Awaitable[DecisionResult]]",
    ) -> "list[DecisionResult]":
        """Carry out decisions in order; if one fails, restore its feedback and that of the later ones."""
        results = []
        for number, event in enumerate(events):
            try:
                results.append(await carry_out(event))
            except BaseException as error:
                # A decision that took effect without a record keeps its feedback, which is sent with the record.
                keeps_feedback = isinstance(error, DecisionMadeButNotRecorded)
                for failed_event in events[number + keeps_feedback :]:
                    self._review.restore_feedback(failed_event.proposal_id, failed_event.feedback)
                raise
            self._review.text_controller.clear_sent_feedback(event.proposal_id, event.feedback)
        return results

    def _describe_delivery(
        self, events: "Sequence[review_messages.Approve | review_messages.Deny]", results: "Sequence[DecisionResult]"
    ) -> str:
        proposals = [result.proposal for event, result in zip(events, results, strict=True) if event.feedback]
        return self.after_decision.delivery_sentence(proposals) if proposals else ""

    async def undo(self, event: review_messages.Undo) -> None:
        """Undo a decision."""
        self.after_decision.stay_in_review()
        result = await self._session.host.decisions.undo(event.proposal_id)
        self._show_outcome(result, describe_completed_undo(result), reversal="redo")

    async def redo(self, event: review_messages.Redo) -> None:
        """Write an undone proposal again."""
        self.after_decision.stay_in_review()
        result = await self._session.host.decisions.redo(event.proposal_id)
        self._show_outcome(result, describe_approval(result))

    async def load_diffs(self, event: review_messages.DiffsRequested) -> None:
        """Compute a proposal's diffs on a thread, and show them."""
        diffs = await asyncio.to_thread(self._compute_diffs, event.proposal_id)
        if not self._review.has_review_focus:
            # Replacing the diffs repaints the whole review: paint pending keys before.
            await wait_until_input_painted(self._review.app)
        self._review.set_diffs(event.proposal_id, diffs)
        await self.external_diffs.detect_program()

    def _compute_diffs(self, proposal_id: str) -> "list[FileDiff]":
        # Runs on a thread: the first access imports and makes the proposal service.
        return self._runtime.service.file_diffs(proposal_id)

    async def load_version_diffs(self, event: review_messages.VersionDiffsRequested) -> None:
        """Load the diff between a proposal and its former version."""
        from app.proposals.decide.comment_follow_up import diff_with_superseded_proposal

        diffs = await asyncio.to_thread(diff_with_superseded_proposal, self._runtime.proposals, event.proposal_id)
        self._review.set_version_diffs(event.proposal_id, diffs)

    async def load_follow_ups(self, event: review_messages.CommentFollowUpsWanted) -> None:
        """Load how the proposal changes the lines that the user commented on."""
        from app.proposals.decide.comment_follow_up import compare_commented_lines

        answers = await asyncio.to_thread(
            compare_commented_lines, self._runtime.proposals, event.proposal_id, event.comments
        )
        self._review.set_follow_ups(event.proposal_id, answers)

    async def toggle_lines(self, event: review_messages.IncludeOrExcludeLines) -> None:
        """Split hunks so that the given lines can be selected or left out by themselves."""
        async with self._line_exclusion:
            await self._session.wait_until_open()
            parts = await asyncio.to_thread(
                lambda: self._runtime.service.split_hunks(event.proposal_id, event.lines, event.revision)
            )
            self._review.select_split_parts(event.proposal_id, parts, event.whole)
        await self.chat.show_proposals()

    async def edit_file(self, event: review_messages.EditProposedFile) -> None:
        """Let the user edit the proposed text of a file, and save it in the proposal."""
        from app.proposals.decide.conflicts import UnsavedEdit, find_editable_result
        from app.proposals.values.models import ProposalState
        from app.proposals.values.proposal_errors import ChangedSinceShown, StaleProposal
        from app.review.hunk_lines import diff_side_text
        from app.ui.screens.edit_screens import EditProposedFileScreen

        await self._session.wait_until_open()
        shown = self._review.state.get(event.proposal_id)
        if shown is not None and shown.state is ProposalState.STALE:
            await self._resolve_conflicts(event)
            return
        name, service = event.proposal_id, self._runtime.service
        proposal = await asyncio.to_thread(service.get, name)
        find_editable_result(proposal, event.path)
        revision = proposal.revision
        diffs = await asyncio.to_thread(self._compute_diffs, name)
        diff = next(candidate for candidate in diffs if candidate.change.path == event.path)
        unsaved: list[UnsavedEdit] = []

        async def save(text: str) -> None:
            decisions = self._session.host.decisions
            try:
                edited = await decisions.edit_proposal(name, event.path, text, revision)
            except (StaleProposal, ChangedSinceShown):
                # Show a conflict that cannot be merged while the user's text is still on the screen.
                unsaved_text = UnsavedEdit(text, diff_side_text(diff, "old"))
                conflict = await asyncio.to_thread(service.load_file_conflict, name, event.path, unsaved_text)
                if conflict.regions:
                    unsaved.append(unsaved_text)
                    return
                merged = conflict.text_with_choices()
                edited = await decisions.resolve_conflict(name, event.path, merged, conflict.disk)
            self._show_edited(edited, f"{event.path} in {name} is yours now")

        text = diff_side_text(diff, "new")
        await self._app_context.push_screen(
            EditProposedFileScreen(
                name, event.path, text, save, self._editor, line=event.line, vim=self._preferences.settings.vim
            )
        )
        if unsaved:
            await self._resolve_conflicts(event, unsaved[0])

    async def _resolve_conflicts(
        self, event: review_messages.EditProposedFile, unsaved: "UnsavedEdit | None" = None
    ) -> None:
        """Let the user resolve the conflicts of a stale proposal, one file after the other.

        Args:
            event: Names the proposal and the first file.
            unsaved: The user's text for that file, if it came into conflict while they wrote it.
        """
        from app.proposals.values.models import ProposalState
        from app.ui.screens.edit_screens import ConflictScreen, Resolution

        name = event.proposal_id
        path, service = event.path, self._runtime.service
        while True:
            conflict = await asyncio.to_thread(service.load_file_conflict, name, path, unsaved)
            path = conflict.path

            async def save(answer: Resolution, seen: "FileVersion | None", path: str = path) -> None:
                await self._session.host.decisions.resolve_conflict(name, path, answer, seen)

            async def reload(text: "UnsavedEdit | None", path: str = path) -> "FileConflict":
                return await asyncio.to_thread(service.load_file_conflict, name, path, text)

            vim = self._preferences.settings.vim
            screen = ConflictScreen(conflict, save, reload, self._editor, unsaved=unsaved, vim=vim)
            if not await self._app_context.push_screen(screen):
                return
            proposal = await asyncio.to_thread(service.get, name)
            if proposal.state is not ProposalState.STALE:
                break
            path, unsaved = "", None
        self._show_edited(proposal, f"The conflicts of {name} are resolved")

    def _show_edited(self, proposal: "Proposal", fact: str) -> None:
        text = f"{fact}; nothing is written before {self._review.key_of_action('approve')}."
        self._review.show_outcome(text, decided=proposal)

    async def reproduce(self, proposal_id: str) -> None:
        """Run the command of a proposal again and show the result; with an empty id, only show that none runs."""
        from app.automation.evidence.command_reproducer import CommandNotRepeatable

        self._review.begin_reproduction(proposal_id)
        if not proposal_id:
            return
        try:
            reproduction = await self._runtime.reproduce(proposal_id)
        except CommandNotRepeatable as error:
            self._review.show_outcome(f"Not run again: {error}.", problem=True)
        else:
            self._review.set_reproduction(reproduction)
            await self._session.host.publish_proposal_changes()
        finally:
            if self._review.state.reproducing == proposal_id:
                self._review.begin_reproduction("")

    async def show_reads(self, event: review_messages.ModelReadsWanted) -> None:
        """Show what the model had read before it wrote a proposal."""
        lines = await asyncio.to_thread(self._runtime.describe_model_reads, event.proposal_id)
        await self._app_context.push_screen(ReadsBeforeProposalScreen(event.proposal_id, lines))

    def answer_permission_request(self, event: review_messages.PermissionAnswered) -> None:
        """Pass on the user's answer to a permission request."""
        self.after_decision.on_decision()
        self._session.require_session().answer_permission_request(event.key, event.answer)
        # Feedback on a call is sent as text only.
        self._notify_named_images(event.mentions, "The model")

    def _notify_named_images(self, mentions: "Sequence[Mention]", who: str) -> None:
        """Notify the user that mentioned images are sent by name only, if there are any."""
        if image_paths := [mention.path for mention in mentions if has_image_name(mention.path)]:
            self._app_context.notify(
                f"{who} gets only the name {escape_unsafe(', '.join(image_paths), keep='')}, not the image."
            )

    def _show_outcome(
        self,
        result: "DecisionResult",
        outcome: DecisionAndUndoText,
        follow_up: str = "",
        reversal: Literal["undo", "redo"] = "undo",
    ) -> None:
        """Show the outcome of a decision, a sentence on what the model does now, and the key that reverts it."""
        self._review.show_outcome(
            f"{outcome.text}{follow_up}",
            passing=bool(follow_up),
            reversal=(reversal, outcome.reversal_effect) if outcome.reversal_effect else None,
            decided=result.proposal,
        )
