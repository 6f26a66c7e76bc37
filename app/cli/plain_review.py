"""`signoff review --plain`: the review as lines, hunk by hunk, like `git add -p`."""

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from app.agent.decision_service import DecisionService
from app.cli.app_arguments import environment_wants_plain_mode
from app.cli.approve_deny_undo import find_command_caller
from app.cli.command_output import CommandError, ExitCode, print_error
from app.cli.hunk_keys import NonDecidingKeyHandler
from app.cli.plain_terminal import LineInterrupted, PlainTerminal
from app.cli.proposal_choice import rebase_and_mark_changed_as_unshown, record_proposal_as_seen
from app.conversation.events import ProposalLocation, SideExchange
from app.copies import replace
from app.images.image import Image
from app.proposals.values.models import DecisionResult, FileDiff, Hunk, HunkState, Proposal, describe_state
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_errors import DecisionMadeButNotRecorded, ProposalError
from app.review import line_review
from app.review.hunk_lines import changed_line_count
from app.review.line_review import HunkAnswer, HunkByHunkReview
from app.review.review_decisions import (
    ReviewDecisionService,
    describe_approval,
    describe_completed_undo,
    describe_denial,
)
from app.review.review_state import ReviewQueueState
from app.review.review_stores import CheckResultStore, UnfinishedReviewStore
from app.review.unfinished_review import FeedbackWithComments, pending_files_without_hunks
from app.review.verdicts import (
    ActionNeedsConfirmation,
    ActionRefused,
    Verdict,
    can_ask_model_to_redo_stale_proposal,
    can_be_approved,
    judge_approval,
    judge_denial,
    judge_denial_with_feedback,
    reasons_against_bulk_approval,
)
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.session_host import SessionlessDecisionService
from app.runtime.user_editor import EditorFailed
from app.storage import StorageError

if TYPE_CHECKING:
    from app.automation.check_results import ProposalChecks
    from app.automation.check_scheduler import CheckScheduler

AskSideQuestion = Callable[[Proposal, ProposalLocation, str], Awaitable[SideExchange]]
"""Asks the model a side question about a place of a proposal. Raises CommandError."""

_KEY_HELP = {
    "y": "yes",
    "n": "no",
    "s": "split: take lines of this hunk apart",
    "e": "edit the proposed text of the file in your editor",
    "c": "comment on a line; it goes to the model with the decision",
    "r": "request changes: deny all of the proposal, with your words",
    "q": "ask the model a question about this; decides nothing",
    "b": "print what the model had read before it wrote this",
    "u": "undo: take the last answer back, or else the last decision",
    "p": "print this again",
    "j": "leave this undecided and go on",
    "x": "leave the review; what is not decided waits",
    "?": "this help",
}
_HUNK_KEYS = tuple(_KEY_HELP)
_ANSWER_BY_KEY: dict[str, HunkAnswer] = {"y": "yes", "n": "no", "j": "later"}


def review_proposals(runtime: OpenWorkspace, arguments: argparse.Namespace) -> int:
    """Review the named proposals, or all pending ones, on this terminal."""
    if not arguments.plain and not environment_wants_plain_mode():
        raise CommandError("`signoff` opens the review in the app; --plain has it as lines.", ExitCode.USAGE)
    return asyncio.run(_run_review(runtime, [runtime.service.get(name).id for name in arguments.ids]))


async def _run_review(runtime: OpenWorkspace, ids: Sequence[str]) -> int:
    from app.cli.headless_run import ask_side_question_in_proposing_session
    from app.runtime.model_connection import make_commit_function

    terminal = PlainTerminal()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, terminal.interrupt)
    decisions = SessionlessDecisionService(
        runtime, lambda: make_commit_function(runtime, runtime.settings), lambda ids: None, print_error
    )
    reviewed = PlainReview(
        terminal, runtime, lambda: decisions, partial(ask_side_question_in_proposing_session, runtime)
    )
    try:
        await reviewed.review(ids)
    except LineInterrupted:
        return 128 + signal.SIGINT
    finally:
        await reviewed.close()
    return ExitCode.DONE


class PlainReview:
    """Reviews proposals in lines, with the state, the safeguards and the record of the app.

    Args:
        service: Returns the service that carries out decisions.
        ask_aside: Asks the model a side question.
    """

    def __init__(
        self,
        terminal: PlainTerminal,
        runtime: OpenWorkspace,
        service: Callable[[], DecisionService],
        ask_aside: AskSideQuestion,
    ) -> None:
        self._terminal = terminal
        self._runtime = runtime
        self._service = service
        self.state = ReviewQueueState()
        self._draft_store = UnfinishedReviewStore(runtime.sessions)
        self._checks: CheckScheduler | None = None
        caller = find_command_caller()
        self._decisions = ReviewDecisionService(self.state, service, lambda: self._checks, "plain review", caller)
        self._commands = NonDecidingKeyHandler(terminal, runtime, self.state, service, ask_aside)
        self._decided_proposals: list[str] = []
        """Ids of the proposals that were decided here, in the order of the decisions."""
        self.goes_on = False
        """Whether the model should continue although the user wrote nothing: it learns why a proposal was stale."""
        self.approved = False
        """Whether the last review has approved a proposal or a part of one."""

    async def review(self, ids: Sequence[str] = ()) -> None:
        """Review these proposals, or all pending ones; return when all were shown or the user leaves.

        Raises:
            LineInterrupted: The user pressed Ctrl-C at a question.
        """
        self.approved = False
        await self._refresh_proposals()
        for key, begun in (await asyncio.to_thread(self._draft_store.load)).items():
            self.state.restore_notes(key, replace(begun, left_out=()))
        queue = list(dict.fromkeys(ids)) or [proposal.id for proposal in self.state.waiting]
        try:
            while queue:
                name = queue.pop(0)
                if (reopened := await self._review_one(name)) is not None:
                    queue[:0] = dict.fromkeys((reopened, name))
        except EOFError:
            pass
        await self._refresh_proposals()
        left = ", ".join(proposal.id for proposal in self.state.waiting)
        self._terminal.print_lines(f"Still waiting: {left}." if left else "Nothing else waits for you.")

    async def close(self) -> None:
        """Store the seen lines, and stop the running checks."""
        with suppress(StorageError):
            await self._store_seen_lines()
        if self._checks is not None:
            await self._checks.close()

    async def _refresh_proposals(self) -> None:
        """Read the pending proposals, re-based onto the disk, and the lines that other windows have shown."""
        await self._store_seen_lines()
        await asyncio.to_thread(rebase_and_mark_changed_as_unshown, self._runtime)
        self.state.update_proposals(await asyncio.to_thread(self._runtime.service.pending))
        self.state.seen_tracker.restore(await asyncio.to_thread(self._runtime.seen_lines_store.seen_lines))

    async def _store_seen_lines(self) -> None:
        """Store the seen lines, for other windows and the doors of agents."""
        if new := self.state.seen_tracker.pop_new_lines():
            await asyncio.to_thread(self._runtime.seen_lines_store.add_seen, new)

    # One proposal

    async def _review_one(self, name: str) -> str | None:
        """Review a proposal until it is decided or left; return the id of one that was reopened meanwhile."""
        walk: HunkByHunkReview | None = None
        while True:
            await self._refresh_proposals()
            proposal = self.state.get(name)
            if proposal is None:
                if walk is None:
                    self._terminal.print_lines(f"{name} is not waiting any more.")
                return None
            if walk is None or walk.proposal != proposal:
                walk = await self._print_proposal_head(proposal, walk)
            self._print_current_hunk(walk)
            try:
                if (over := await self._ask_and_answer(walk)) is not None:
                    return over or None
            except (ProposalError, StorageError, EditorFailed, CommandError) as error:
                self._terminal.print_lines(str(error))

    async def _print_proposal_head(self, proposal: Proposal, before: HunkByHunkReview | None) -> HunkByHunkReview:
        """Print the head of a proposal; keep answers to unchanged hunks."""
        self.state.current = proposal.id
        self.state.seen_tracker.remember_bases(proposal)
        walk = HunkByHunkReview.from_diffs(
            proposal, await asyncio.to_thread(self._runtime.service.file_diffs, proposal.id)
        )
        record_proposal_as_seen(self._runtime, proposal.id)
        if before is not None:
            walk.copy_answers(before)
            self._terminal.print_lines(f"{proposal.id} has changed. This is what it is now.")
        self._terminal.print_lines()
        self._print_lines(line_review.format_proposal_head(self.state, proposal))
        for path in self.state.seen_tracker.rebased_files(proposal):
            self._terminal.print_lines(f"Caution: {path} was re-based since you last saw it here. Look again.")
        await self._run_checks(proposal)
        await self._load_evidence(proposal)
        walk.add_evidence_reasons(self.state)
        self._print_lines(line_review.format_check_results(self.state.checks.get(proposal.id)))
        return walk

    def _print_current_hunk(self, walk: HunkByHunkReview) -> None:
        """Print the current hunk with the head of its file; after the last hunk, the heads of all remaining files."""
        current = walk.next_unanswered_hunk
        for number, diff in enumerate(walk.diffs, 1):
            change = diff.change
            is_due = current is None or diff is current[0]
            if is_due and change.state is HunkState.PENDING and change.path not in walk.printed:
                walk.printed.add(change.path)
                self._terminal.print_lines()
                self._print_lines(line_review.format_file_head(diff, number, len(walk.diffs)))
                if self._terminal.is_watched:
                    self.state.seen_tracker.seen_lines(walk.proposal).mark_file_seen(change.path)
        if current is not None and current[1].id != walk.shown:
            walk.shown = current[1].id
            self._print_hunk(walk.proposal, *current)

    def _print_hunk(self, proposal: Proposal, diff: FileDiff, hunk: Hunk) -> None:
        self._terminal.print_lines()
        self._print_lines(line_review.format_hunk_lines(diff, hunk))
        self._print_lines(line_review.format_hunk_notes(self.state, proposal, diff, hunk))
        if self._terminal.is_watched:
            seen = self.state.seen_tracker.seen_lines(proposal)
            for number in range(changed_line_count(hunk)):
                seen.mark_seen(hunk, number)

    def _print_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._terminal.print_lines(line)

    async def _ask_and_answer(self, walk: HunkByHunkReview) -> str | None:
        """Ask about the current hunk or the whole proposal, and act on the answer.

        Returns:
            None to continue with this proposal; empty to leave it; else the id of a proposal that was reopened.
        """
        question, keys = _next_question(walk)
        if not question:
            return ""
        self._terminal.print_lines(walk.position_line(self.state))
        key = await self._terminal.ask_for_decision(f"{question} [{','.join(keys)}]")
        if key not in keys:
            self._terminal.print_lines(
                f"“{key}” means nothing here. ? lists the keys." if key else "? lists the keys."
            )
            return None
        match key:
            case "?":
                self._print_lines(f"{key}  {_KEY_HELP[key]}" for key in keys)
            case "x":
                raise EOFError
            case "u":
                return await self._undo(walk)
            case "b":
                self._print_lines(await asyncio.to_thread(self._runtime.describe_model_reads, walk.proposal.id))
            case "p":
                walk.shown = ""
            case "r":
                await self._request_changes(walk.proposal)
            case "s" | "e" | "c" | "q":
                await self._commands.run_command(key, walk.proposal, walk.diffs, walk.next_unanswered_hunk)
                await self._save_draft(walk.proposal)
            case "j" if walk.next_unanswered_hunk is None:
                return ""
            case _:
                await self._apply_answer(walk, _ANSWER_BY_KEY[key])
        return None

    async def _apply_answer(self, walk: HunkByHunkReview, answer: HunkAnswer) -> None:
        """Apply an answer to the current hunk, or to the whole proposal."""
        if (current := walk.next_unanswered_hunk) is not None:
            walk.answers[current[1].id] = answer
            if walk.is_decided_by_one_answer and answer != "later":
                await self._carry_out_answers(walk)
        elif walk.hunks and answer == "no" and can_be_approved(walk.proposal):
            walk.remove_last_answer()
            self._terminal.print_lines("Nothing is decided. Your last answer is taken back.")
        elif can_be_approved(walk.proposal):
            await self._carry_out_answers(walk, whole=answer)
        elif await self._confirm_if_needed(judge_denial(self.state, walk.proposal)):
            await self._deny(walk.proposal, None)

    async def _save_draft(self, proposal: Proposal) -> None:
        """Save the user's unsent text."""
        await self._draft_store.save(proposal.id, self.state.unfinished_review(proposal.id))

    # Decisions

    async def _carry_out_answers(self, walk: HunkByHunkReview, whole: HunkAnswer = "yes") -> None:
        """Decide as the user has answered; `whole` is the answer for a proposal without hunks."""
        yes, no = walk.hunks_with_answer("yes"), walk.hunks_with_answer("no")
        proposal = walk.proposal
        decided = False
        try:
            if yes or (not walk.hunks and whole == "yes"):
                left_out = {hunk.id for _, hunk in walk.hunks} - set(yes)
                self.state.hunk_exclusions.left_out[proposal.id] = left_out
                doubts = reasons_against_bulk_approval(proposal)
                if not await self._confirm_if_needed(judge_approval(self.state, proposal, doubts=doubts)):
                    return
                proposal = (await self._approve(proposal)).proposal
                decided = self.approved = True
            if no or (not walk.hunks and whole == "no"):
                waiting = {hunk.id for hunk in proposal.pending_hunks}
                is_rest = waiting == set(no) and not (decided and pending_files_without_hunks(proposal))
                hunks = None if is_rest else no
                if (
                    hunks is None
                    and not decided
                    and not await self._confirm_if_needed(judge_denial(self.state, proposal))
                ):
                    return
                await self._deny(proposal, hunks)
                decided = True
        finally:
            if not decided:
                # Ask the last question again.
                walk.remove_last_answer()
            self.state.hunk_exclusions.left_out.pop(proposal.id, None)

    async def _confirm_if_needed(self, verdict: Verdict) -> bool:
        """Return whether a decision can be made; ask the user first if it needs a confirmation."""
        match verdict:
            case ActionRefused(reason):
                self._terminal.print_lines(reason)
                return False
            case ActionNeedsConfirmation(question):
                return await self._terminal.confirm(question)
        return True

    async def _approve(self, proposal: Proposal) -> DecisionResult:
        hunks = self.state.hunk_exclusions.approval_selection(proposal).decided_hunks
        if self._checks is not None:
            self._checks.update_proposals([proposal], proposal.id)
            with self._on_interrupt(partial(self._checks.start_or_stop, proposal.id)):
                await self._decisions.run_required_checks(proposal.id, proposal.revision, hunks)

        async def write(words: FeedbackWithComments, images: tuple[Image, ...]) -> DecisionResult:
            return await self._decisions.approve(proposal.id, proposal.revision, hunks, words, images)

        return await self._decide_with_feedback(proposal, hunks, write, lambda result: describe_approval(result).text)

    async def _deny(self, proposal: Proposal, hunks: tuple[str, ...] | None) -> None:
        revision = proposal.revision if proposal.on_disk else None

        async def refuse(words: FeedbackWithComments, images: tuple[Image, ...]) -> DecisionResult:
            return await self._decisions.deny(proposal.id, revision, hunks, words, images)

        await self._decide_with_feedback(proposal, hunks, refuse, lambda result: describe_denial(result, hunks).text)

    async def _decide_with_feedback(
        self,
        proposal: Proposal,
        hunks: tuple[str, ...] | None,
        decide: Callable[[FeedbackWithComments, tuple[Image, ...]], Awaitable[DecisionResult]],
        outcome: Callable[[DecisionResult], str],
    ) -> DecisionResult:
        """Decide with the user's feedback; if the decision fails, keep the feedback as a draft."""
        words = self.state.feedback_drafts.pop_feedback(proposal, hunks)
        agent = proposal.origin.kind is OriginKind.AGENT
        try:
            # Other agents read image files themselves, by the names in the feedback.
            result = await decide(words, () if agent else await self._load_feedback_images(words))
        except BaseException as error:
            # If only the record failed, the decision has its feedback, which is delivered after it is recorded.
            if not isinstance(error, DecisionMadeButNotRecorded):
                self.state.feedback_drafts.restore(proposal.id, words)
            raise
        self._terminal.print_lines(outcome(result))
        self._decided_proposals.append(proposal.id)
        await self._save_draft(proposal)
        if words:
            who = proposal.origin.agent_name if agent else "the model"
            heard = agent or proposal.session
            self._terminal.print_lines(f"Your words go to {who}." if heard else "Your words are in the log.")
        for other in result.changed:
            self._terminal.print_lines(f"{other.id} is {describe_state(other.state)} now. {other.reason}".rstrip())
        return result

    async def _load_feedback_images(self, words: FeedbackWithComments) -> tuple[Image, ...]:
        if "@" not in words.text:
            return ()
        # Imported only here: little feedback names an image.
        from app.cli.headless_run import load_and_store_named_images

        return await load_and_store_named_images(self._runtime, words.text, "", "It is decided without images.")

    async def _request_changes(self, proposal: Proposal) -> None:
        drafts, name = self.state.feedback_drafts, proposal.id
        before, lines = drafts.drafts.get(name, ""), list[str]()
        at_once = "leaves it as it was"
        if drafts.feedback_for(proposal):
            at_once = "sends what you wrote before"
        elif can_ask_model_to_redo_stale_proposal(proposal):
            at_once = "denies it because it is stale"
        if before:
            self._terminal.print_lines(f"You have written about {name}, but not sent:\n{before}")
        try:
            async for line in self._terminal.read_lines(f"What should be different about {name}?", at_once):
                lines.append(line)
        finally:
            text = "\n".join(lines).strip("\n")
            drafts.set_feedback(name, "\n\n".join(filter(None, (before, text))))
            await self._save_draft(proposal)
        if not drafts.feedback_for(proposal):
            if not can_ask_model_to_redo_stale_proposal(proposal):
                self._terminal.print_lines("Nothing was written, so nothing was sent.")
                return
            is_heard = proposal.session or proposal.origin.kind is OriginKind.AGENT
            self._terminal.print_lines(f"Why it is stale {'goes to the model' if is_heard else 'is in the log'}.")
            self.goes_on = True
        if await self._confirm_if_needed(judge_denial_with_feedback(self.state, proposal)):
            await self._deny(proposal, None)

    async def _undo(self, walk: HunkByHunkReview) -> str | None:
        """Take back the last answer, or else the last decision; return the id of a proposal that is pending again."""
        if walk.remove_last_answer():
            return None
        if not self._decided_proposals:
            self._terminal.print_lines("There is nothing to undo.")
            return None
        name = self._decided_proposals[-1]
        result = await self._service().undo(name)
        self._decided_proposals.pop()
        self._terminal.print_lines(describe_completed_undo(result).text)
        return name if result.proposal.state.is_pending else None

    # Checks

    async def _run_checks(self, proposal: Proposal) -> None:
        """Run the automatic checks; Ctrl-C ends them."""
        if "check" in self._runtime.configuration.untrusted:
            self._terminal.print_lines("Not checked: .signoff.toml waits for your trust (/trust in the app).")
        if not self._runtime.settings.check or not can_be_approved(proposal):
            return
        if self._checks is None:
            from app.automation.check_scheduler import CheckScheduler

            self._checks = CheckScheduler(
                self._runtime.checks,
                lambda: self._runtime.settings.check,
                self._runtime.service.versions_to_check,
                lambda one: self.state.hunk_exclusions.approval_selection(one).decided_hunks,
                self._receive_check_results,
            )
        self._checks.update_proposals([proposal], proposal.id)
        with self._on_interrupt(partial(self._checks.start_or_stop, proposal.id)):
            await self._checks.wait_until_done(proposal.id)
        if (checked := self.state.checks.get(proposal.id)) is not None:
            kept = CheckResultStore(self._runtime.sessions, self._runtime.signal)
            await asyncio.to_thread(kept.save, checked)

    async def _load_evidence(self, proposal: Proposal) -> None:
        """Load the stored evidence; on an error of storage or disk, there is none."""
        if self._runtime.settings.check and can_be_approved(proposal):
            chosen = self.state.hunk_exclusions.approval_selection(proposal).decided_hunks
            with suppress(ProposalError, OSError):
                found = await self._runtime.evidence.load_current_evidence(proposal.id, chosen)
                if found is not None:
                    self.state.evidence[proposal.id] = found

    def _receive_check_results(self, checked: "ProposalChecks") -> None:
        before = self.state.checks.get(checked.proposal)
        if checked.is_running and not (before is not None and before.is_running):
            self._terminal.print_lines("Checks run; Ctrl-C ends them.")
        self.state.checks[checked.proposal] = checked

    @contextmanager
    def _on_interrupt(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Make Ctrl-C call `interrupt` during the `with` block."""
        self._terminal.on_interrupt = interrupt
        try:
            yield
        finally:
            self._terminal.on_interrupt = lambda: None


def _next_question(walk: HunkByHunkReview) -> tuple[str, Sequence[str]]:
    """Return the next question and the keys that answer it; empty if no question is left."""
    if walk.next_unanswered_hunk is not None:
        return ("Keep this hunk?" if walk.proposal.on_disk else "Approve this hunk?"), _HUNK_KEYS
    if not can_be_approved(walk.proposal):
        return "It cannot be approved. n denies it, r asks for a new version.", ("n", "r", "q", "u", "j", "x", "?")
    if not walk.hunks:
        verb = "Keep" if walk.proposal.on_disk else "Approve"
        return f"{verb} {walk.proposal.id}?", ("y", "n", "r", "q", "u", "j", "x", "?")
    plan = walk.plan_description if walk.hunks_with_answer("yes") or walk.hunks_with_answer("no") else ""
    return (f"{plan[:1].upper()}{plan[1:]}?" if plan else ""), ("y", "n", "r", "u", "j", "x", "?")
