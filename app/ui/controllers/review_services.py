"""Services of the review: side questions, checks, and the lines that the user has seen."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from app.agent.updates import EventRecorded, SideAnswerDiscarded, SideAnswerStreamed, Update
from app.config.settings import WORKSPACE_FILE
from app.conversation.events import SideAnswer, SideQuestion
from app.review.review_stores import CheckResultStore
from app.storage import StorageError
from app.ui.context.app_context import AppContext, Notify
from app.ui.context.current_session import CurrentSession
from widgets.chat.markdown.markdown_document import preload_markdown_and_code_parsers
from widgets.common.input_order import wait_for_typing_pause
from widgets.common.workbench_bars import ReviewReadingStatus
from widgets.review import review_messages
from widgets.review.review import ReviewPane

if TYPE_CHECKING:
    from app.automation.check_results import ProposalChecks
    from app.automation.check_scheduler import CheckScheduler
    from app.automation.evidence.evidence_scheduler import HunkTestEvidenceScheduler
    from app.config.settings import CheckTable
    from app.proposals.values.models import Proposal
    from app.runtime.open_workspace import OpenWorkspace


class SideQuestionController:
    """Sends the side questions of the review to the model."""

    def __init__(self, review: ReviewPane, session: CurrentSession, runtime: "OpenWorkspace", notify: Notify) -> None:
        self._review = review
        self._session = session
        self._runtime = runtime
        self.notify = notify

    async def ask(self, event: review_messages.SideQuestionAsked) -> None:
        """Ask the question; the answer arrives in updates of the session.

        On any error, put the text back into its field and raise the error.
        """
        try:
            await self._session.wait_until_open()
            await self._session.require_session().side_questions.ask(event.anchor, event.text, event.picked)
            await asyncio.to_thread(preload_markdown_and_code_parsers)
        except BaseException:
            self._review.ask_panel.restore_text(event.anchor, event.text)
            raise

    def stop(self, event: review_messages.SideQuestionStopRequested) -> None:
        """Stop waiting for an answer; a running turn continues.

        If another window asked the question, only this window stops waiting.
        """
        session = self._session.current
        if session is None or not session.side_questions.stop(event.question):
            self._review.ask_panel.handle_update(SideAnswerDiscarded(event.question, over=True))

    def handle_update(self, update: Update) -> None:
        """Show an update about a side question."""
        match update:
            case SideAnswerStreamed() | SideAnswerDiscarded() | EventRecorded(event=SideQuestion() | SideAnswer()):
                self._review.ask_panel.handle_update(update)

    async def load_threads(self, event: review_messages.SideThreadsWanted) -> None:
        """Load the side questions about a proposal from all sessions. Raises StorageError."""
        exchanges = await asyncio.to_thread(self._runtime.sessions.side_questions, event.proposal_id)
        if exchanges:
            self._review.ask_panel.load_threads(exchanges)


class CheckController:
    """Runs the configured checks; imports nothing if there are none."""

    def __init__(self, review: ReviewPane, runtime: "OpenWorkspace", app_context: AppContext) -> None:
        self._review = review
        self._runtime = runtime
        self._app_context = app_context
        self.scheduler: CheckScheduler | None = None
        """None as long as no checks are configured."""
        self._evidence: HunkTestEvidenceScheduler | None = None
        self._proposals: Sequence[Proposal] = ()

    def check_proposals(self, proposals: "Sequence[Proposal] | None" = None) -> None:
        """Check newly staged proposals and the shown one; start the scheduler if checks are configured now."""
        if proposals is not None:
            self._proposals = proposals
        if self.scheduler is None and self._configured_checks():
            from app.automation.check_scheduler import CheckScheduler
            from app.automation.evidence.evidence_scheduler import HunkTestEvidenceScheduler

            self.scheduler = CheckScheduler(
                self._runtime.checks,
                self._configured_checks,
                self._runtime.service.versions_to_check,
                self._chosen_hunks,
                self._show_checks,
            )
            self._evidence = HunkTestEvidenceScheduler(
                self._runtime.evidence,
                self._configured_checks,
                lambda: self._runtime.settings.evidence_seconds,
                self._chosen_hunks,
                self._review.set_evidence,
                lambda: wait_for_typing_pause(self._review.app),
            )
            self._app_context.run(self._watch_disk, group="checks", exclusive=True)
        if self.scheduler is not None and self._evidence is not None:
            self._evidence.update_proposals(self._proposals)
            self.scheduler.update_proposals(self._proposals, self._review.state.current)
        else:
            self._show_untrusted()

    def stop(self, *proposal_ids: str) -> None:
        """Stop the checks of proposals that are being decided."""
        if self.scheduler is not None:
            self.scheduler.stop(proposal_ids)
        if self._evidence is not None:
            self._evidence.stop(proposal_ids)

    def start_or_stop_evidence(self, proposal_id: str) -> None:
        """Start or stop running a proposal's tests without each hunk; show the reason if that is not possible."""
        why_not = "There is no check whose tests could tell: add a [[check]] to .signoff.toml."
        if self._evidence is not None:
            why_not = self._evidence.start_or_stop(proposal_id)
        elif "check" in self._runtime.configuration.untrusted:
            why_not = f"{WORKSPACE_FILE} waits for your trust (/trust)."
        if why_not:
            self._review.show_notice(why_not)

    def _show_checks(self, checked: "ProposalChecks") -> None:
        self._review.set_checks(checked)
        if not checked.is_running:
            store = CheckResultStore(self._runtime.sessions, self._runtime.signal)
            self._app_context.run(lambda: asyncio.to_thread(store.save, checked), group="kept checks")
        if self._evidence is not None:
            self._evidence.start_after_checks(checked)

    def _chosen_hunks(self, proposal: "Proposal") -> "tuple[str, ...] | None":
        return self._review.state.hunk_exclusions.approval_selection(proposal).decided_hunks

    def rerun_checks(self, proposal_id: str) -> None:
        """Run the checks that were not run yet, or all again; stop them if they run."""
        if self.scheduler is None or not self.scheduler.start_or_stop(proposal_id):
            self._review.show_notice(f"There is nothing to run on {proposal_id} now.")

    async def _watch_disk(self) -> None:
        from app.automation.check_scheduler import watch_workspace_changes

        assert self.scheduler is not None
        async with aclosing(watch_workspace_changes(self._runtime.workspace)) as changes:
            await self.scheduler.rerun_on_changes(self._drop_outdated_evidence(changes))

    async def _drop_outdated_evidence(self, changes: "AsyncIterator[None]") -> "AsyncIterator[None]":
        """Yield at each change of the workspace; then drop evidence about files that have changed."""
        async for _ in changes:
            yield
            if self._evidence is not None:
                await self._evidence.drop_outdated()

    async def show_output(self, event: review_messages.CheckOutputWanted) -> None:
        """Show the output of the checks."""
        from app.ui.screens.output_screens import ChecksScreen

        if (checked := self._review.state.checks.get(event.proposal_id)) is not None:
            await self._app_context.push_screen(ChecksScreen(checked))

    async def close(self) -> None:
        """Stop all checks and evidence."""
        if self._evidence is not None:
            await self._evidence.close()
        if self.scheduler is not None:
            await self.scheduler.close()

    def _show_untrusted(self) -> None:
        """Show that checks are configured in an untrusted file of the workspace."""
        proposal = self._review.state.proposal
        if proposal is not None and "check" in self._runtime.configuration.untrusted:
            from app.automation.check_results import ProposalChecks

            why_not = f"{WORKSPACE_FILE} waits for your trust (/trust)"
            self._review.set_checks(ProposalChecks(proposal.id, proposal.revision, (), why_not))

    def _configured_checks(self) -> "tuple[CheckTable, ...]":
        return self._runtime.settings.check


class ReadingProgressController:
    """Counts the lines that the user has read; shares them with other windows, the doors and the next run."""

    def __init__(self, review: ReviewPane, runtime: "OpenWorkspace") -> None:
        self._review = review
        self._runtime = runtime
        self._save_lock = asyncio.Lock()
        self._is_save_due = False
        self._pace = ReadingPace()

    @property
    def status(self) -> ReviewReadingStatus:
        """Return how many of the waiting lines are read, with the time for the rest if `reading.pace` is set."""
        read_lines, lines = self._review.state.read_line_counts
        wants_pace = self._runtime.settings.reading.pace
        return ReviewReadingStatus(
            read_lines, lines, self._pace.minutes_for(lines - read_lines) if wants_pace else None
        )

    async def load(self) -> None:
        """Load the lines that were seen in other windows and runs, and the stored pace. Raises StorageError."""
        if self._runtime.settings.reading.pace and not self._pace.is_known:
            stored_pace = await asyncio.to_thread(self._runtime.sessions.setting, _PACE_KEY)
            self._pace.restore(stored_pace or "")
        self._review.restore_seen(await asyncio.to_thread(lambda: self._runtime.seen_lines_store.seen_lines()))

    async def save_soon(self) -> bool:
        """Save the seen lines after a pause; return False if another call will do it.

        Raises:
            StorageError: the lines cannot be saved.
        """
        if self._is_save_due:
            return False
        self._is_save_due = True
        await asyncio.sleep(_SAVE_DELAY_SECONDS)
        await self.flush()
        return True

    async def flush(self) -> None:
        """Save the seen lines and the pace now. Raises StorageError."""
        async with self._save_lock:
            self._is_save_due = False
            if new_lines := self._review.state.seen_tracker.pop_new_lines():
                await asyncio.to_thread(lambda: self._runtime.seen_lines_store.add_seen(new_lines))
                if self._runtime.settings.reading.pace:
                    self._pace.record_read_lines(self._review.state.seen_tracker.lines_read, time.monotonic())
                    await asyncio.to_thread(self._runtime.sessions.set_setting, _PACE_KEY, self._pace.stored_form)

    async def close(self) -> None:
        """Save the seen lines; storage errors are ignored because the app is exiting."""
        with contextlib.suppress(StorageError):
            await self.flush()


_SAVE_DELAY_SECONDS = 0.3
"""Seconds from the first new line to the write."""
_PACE_KEY = "reading pace"
_ABSENT_SECONDS = 60.0
"""Seconds without new lines after which the user is considered absent."""
_MIN_READ_LINES = 40
"""Least number of read lines for an estimate."""
_MAX_AVERAGED_LINES = 2_000
"""Lines after which the sums are halved, so that older lines count less."""


class ReadingPace:
    """How fast the user reads: a running average of newly shown lines, without long pauses."""

    def __init__(self) -> None:
        self._seconds = self._lines = 0.0
        self._last_record = (0, 0.0)
        """Number of read lines and time in seconds at the latest record."""

    @property
    def is_known(self) -> bool:
        """Return whether enough lines were read for an estimate."""
        return self._lines >= _MIN_READ_LINES

    @property
    def stored_form(self) -> str:
        """Return the pace in the form that `restore` accepts."""
        return f"{self._seconds:.1f} {self._lines:.0f}"

    def restore(self, stored: str) -> None:
        """Set the pace of earlier runs; ignore an invalid value."""
        with contextlib.suppress(ValueError):
            seconds, lines = map(float, stored.split())
            if seconds > 0 and lines > 0:
                self._seconds, self._lines = seconds, lines

    def record_read_lines(self, total_lines: int, now: float) -> None:
        """Record the total number of lines that were read until `now`, in seconds."""
        former_total, former_time = self._last_record
        self._last_record = total_lines, now
        if former_time and total_lines > former_total and now - former_time < _ABSENT_SECONDS:
            self._seconds, self._lines = self._seconds + now - former_time, self._lines + total_lines - former_total
            if self._lines > _MAX_AVERAGED_LINES:
                self._seconds, self._lines = self._seconds / 2, self._lines / 2

    def minutes_for(self, lines: int) -> float | None:
        """Return how many minutes the user needs for `lines`; None if too few lines were read."""
        return lines * self._seconds / self._lines / 60 if self.is_known else None
