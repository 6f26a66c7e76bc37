"""Services of the review: side questions, checks, and notes that survive a restart."""

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from app.agent.updates import Recorded, SideDiscarded, SideStreamed, Update
from app.config.settings import WORKSPACE_FILE
from app.conversation.events import SideAnswer, SideQuestion
from app.storage.session_store import SessionStore
from app.storage.storage_errors import StorageError
from app.ui.context.app_context import AppContext, Notify
from app.ui.context.current_session import CurrentSession
from widgets.chat.markdown.markdown_document import preload
from widgets.review import review_messages
from widgets.review.review import Review
from widgets.review.review_messages import Approve

if TYPE_CHECKING:
    from app.automation.check_follower import CheckFollower
    from app.automation.check_results import CheckResult
    from app.config.settings import CheckTable
    from app.proposals.values.models import Proposal
    from app.runtime.open_workspace import OpenWorkspace
    from widgets.review.unfinished_review import UnfinishedReview


class SideQuestionActions:
    """Carries out side questions of the review.

    Args:
        review: Where the user asks.
        session: Whose model is asked.
        runtime: The open workspace.
        tell: Shows a line that belongs to no pane.
    """

    def __init__(self, review: Review, session: CurrentSession, runtime: "OpenWorkspace", tell: Notify) -> None:
        self._review = review
        self._session = session
        self._runtime = runtime
        self.tell = tell

    async def ask(self, event: review_messages.SideQuestionAsked) -> None:
        """Ask the question; the answer arrives in updates of the session.

        If it fails, the exception is raised and the text is back where it was written.
        """
        try:
            await self._session.wait_until_open()
            await self._session.get().aside.ask(event.place, event.text, event.picked)
            await asyncio.to_thread(preload)
        except BaseException:
            self._review.asking.restore_text(event.place, event.text)
            raise

    def stop(self, event: review_messages.SideQuestionStopped) -> None:
        """Stop waiting for an answer; a running turn continues.

        One that another window asked for is that window's: here nobody waits for it any more.
        """
        session = self._session.current
        if session is None or not session.aside.stop(event.question):
            self._review.asking.handle_update(SideDiscarded(event.question, over=True))

    def handle_update(self, update: Update) -> None:
        """Show an update about a side question."""
        match update:
            case SideStreamed() | SideDiscarded() | Recorded(event=SideQuestion() | SideAnswer()):
                self._review.asking.handle_update(update)

    async def load(self, event: review_messages.ThreadsWanted) -> None:
        """Load the side questions about a proposal, of any session; raises StorageError."""
        asked = await asyncio.to_thread(self._runtime.sessions.side_questions, event.proposal_id)
        if asked:
            self._review.asking.load_threads(asked)


class ReviewChecks:
    """Checks of one workspace; nothing is loaded or run where none are configured.

    Args:
        review: Where they are shown.
        runtime: The open workspace, with the checks that are in force.
        app_context: How work is run and the user is notified or asked.
    """

    def __init__(self, review: Review, runtime: "OpenWorkspace", app_context: AppContext) -> None:
        self._review = review
        self._runtime = runtime
        self._app_context = app_context
        self._following: CheckFollower | None = None
        self._proposals: Sequence[Proposal] = ()

    def check_new(self, proposals: "Sequence[Proposal] | None" = None) -> None:
        """Check newly staged proposals and the shown one."""
        if proposals is not None:
            self._proposals = proposals
        if self._following is None and self._configured():
            from app.automation.check_follower import CheckFollower

            self._following = CheckFollower(
                self._runtime.checks,
                self._configured,
                self._runtime.service.check_trees,
                lambda proposal: self._review.state.chosen.chosen_part(proposal).decided_hunks,
                self._review.set_checks,
            )
            self._app_context.run(self._follow_disk, group="checks", exclusive=True)
        if self._following is not None:
            self._following.follow(self._proposals, self._review.state.current)
        else:
            self._say_untrusted()

    def stop(self, *proposal_ids: str) -> None:
        """Stop the checks of what is being decided."""
        if self._following is not None:
            self._following.stop(proposal_ids)

    def run_again(self, proposal_id: str) -> None:
        """Run the checks that were not run, or all again."""
        if self._following is None or not self._following.run_or_stop(proposal_id):
            self._review.show_notice(f"There is nothing to run on {proposal_id} now.")

    async def run_before_approval(self, event: Approve) -> "tuple[CheckResult, ...]":
        """Run the required checks before an approval; return the results that oppose it."""
        if self._following is None:
            return ()
        return await self._following.run_before_approval(event.proposal_id, event.revision, event.hunks)

    async def _follow_disk(self) -> None:
        from app.automation.check_follower import watch_workspace

        assert self._following is not None
        async with aclosing(watch_workspace(self._runtime.workspace)) as changes:
            await self._following.follow_disk(changes)

    async def show_output(self, proposal_id: str) -> None:
        """Show the output of the checks."""
        from app.ui.screens.checks_screen import ChecksScreen

        if (checked := self._review.state.checks.get(proposal_id)) is not None:
            await self._app_context.push_screen(ChecksScreen(checked))

    async def close(self) -> None:
        """End all of them."""
        if self._following is not None:
            await self._following.close()

    def _say_untrusted(self) -> None:
        """Tell the user that checks are configured in a file of the workspace that is not trusted."""
        proposal = self._review.state.proposal
        if proposal is not None and "check" in self._runtime.configuration.untrusted:
            from app.automation.check_results import ProposalChecks

            why_not = f"{WORKSPACE_FILE} waits for your trust (/trust)"
            self._review.set_checks(ProposalChecks(proposal.id, proposal.revision, (), why_not))

    def _configured(self) -> "tuple[CheckTable, ...]":
        return self._runtime.settings.check


class ReadingProgress:
    """Shares what was seen in the review with other windows, the doors of agents and the next run.

    Args:
        review: Where the user reads.
        runtime: The open workspace.
    """

    def __init__(self, review: Review, runtime: "OpenWorkspace") -> None:
        self._review = review
        self._runtime = runtime
        self._saving = asyncio.Lock()
        self._is_due = False

    async def load(self) -> None:
        """Take what was seen elsewhere; raises StorageError."""
        self._review.restore_seen(await asyncio.to_thread(lambda: self._runtime.reading.seen()))

    async def save_soon(self) -> None:
        """Save what came on screen, as soon as there is a pause. Raises StorageError."""
        if not self._is_due:
            self._is_due = True
            await asyncio.sleep(_PAUSE)
            await self.flush()

    async def flush(self) -> None:
        """Save what came on screen at once; raises StorageError."""
        async with self._saving:
            self._is_due = False
            if new := self._review.state.looked_at.take_new():
                await asyncio.to_thread(lambda: self._runtime.reading.add(new))

    async def close(self) -> None:
        """Save what came on screen; storage errors are ignored because the app is exiting."""
        with contextlib.suppress(StorageError):
            await self.flush()


_PREFIX = "review:"
_PAUSE = 0.3
"""Seconds without a change before it is written."""


@cache
def _adapter() -> "TypeAdapter[UnfinishedReview]":
    # Whether there are any is asked before the review is loaded.
    from widgets.review.unfinished_review import UnfinishedReview

    return TypeAdapter(UnfinishedReview)


class ReviewNotes:
    """Unfinished reviews of one workspace: feedback, comments, choices, ticks."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._unsaved: dict[str, UnfinishedReview] = {}

    def exist(self) -> bool:
        """Return whether there are unfinished review notes; raises StorageError."""
        return bool(self._store.settings(_PREFIX))

    def load(self) -> "dict[str, UnfinishedReview]":
        """Return the unfinished reviews by proposal, without unreadable ones. Raises `StorageError`."""
        found = {}
        for key, value in self._store.settings(_PREFIX).items():
            try:
                found[key.removeprefix(_PREFIX)] = _adapter().validate_json(value)
            except ValidationError:
                continue
        return found

    async def save_soon(self, proposal_id: str, notes: "UnfinishedReview") -> None:
        """Save the unfinished notes on a proposal at the next pause. Raises StorageError."""
        waits = bool(self._unsaved)
        self._unsaved[proposal_id] = notes
        if not waits:
            await asyncio.sleep(_PAUSE)
            await self.flush()

    async def flush(self) -> None:
        """Write unsaved notes at once; raises StorageError."""
        unsaved, self._unsaved = self._unsaved, {}
        if unsaved:
            await asyncio.to_thread(self._write, unsaved)

    async def close(self) -> None:
        """Write unsaved notes; storage errors are ignored because the app is exiting."""
        with contextlib.suppress(StorageError):
            await self.flush()

    def _write(self, unsaved: "dict[str, UnfinishedReview]") -> None:
        for proposal_id, notes in unsaved.items():
            self._store.set_setting(_PREFIX + proposal_id, _adapter().dump_json(notes).decode() if notes else None)
