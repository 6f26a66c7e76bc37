"""`signoff proposals --json --watch`: a line of JSON for each change, for editors and status bars."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress

from app.agent.turn_state import find_oldest_open_question
from app.cli.command_output import ExitCode, print_error, print_json_line
from app.cli.json_documents import FinishedCheckJson, ProposalJson, ProposalWatchJson
from app.conversation.events import Question
from app.proposals.values.decision_facts import RecordedCheckResult
from app.proposals.values.models import Proposal
from app.review.review_stores import CheckResultStore
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.unfinished_work import recover_interrupted_work_and_notify, stage_hook_edits_and_list_failures
from app.storage.session_store import SessionRecord

_MAX_WATCHED_SESSIONS = 10
"""Number of the latest sessions whose questions are reported."""


def watch_proposals(runtime: OpenWorkspace) -> int:
    """Print the pending proposals, then each change, until a signal or the reader's end; return the exit code."""
    recover_interrupted_work_and_notify(runtime, print_error)
    return asyncio.run(_watch_until_signal(runtime))


async def _watch_until_signal(runtime: OpenWorkspace) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, 128 + number)
    output = sys.stdout.fileno()
    if stat.S_ISFIFO(mode := os.fstat(output).st_mode) or stat.S_ISSOCK(mode):
        # Readable means that the reader has closed its end: no data is ever sent here.
        loop.add_reader(output, end, 128 + signal.SIGPIPE)
    following = asyncio.ensure_future(_print_changes(runtime))
    try:
        await asyncio.wait((following, ended), return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            await following
        return ended.result() if ended.done() else ExitCode.DONE
    finally:
        loop.remove_reader(output)
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _print_changes(runtime: OpenWorkspace) -> None:
    changes = _ChangeFinder(runtime)
    async with aclosing(runtime.signal.listen()) as heard:
        async for _ in heard:
            for line in await asyncio.to_thread(lambda: list(changes.look())):
                print_json_line(line)


class _ChangeFinder:
    """Finds the changes since the previous call."""

    def __init__(self, runtime: OpenWorkspace) -> None:
        self._runtime = runtime
        self._check_store = CheckResultStore(runtime.sessions, runtime.signal)
        self._is_first_call = True
        self._proposals: dict[str, Proposal] = {}
        self._checks: dict[str, list[RecordedCheckResult]] = {}
        self._questions: dict[str, Question] = {}
        """By session id."""
        self._seen_sessions: dict[str, SessionRecord] = {}

    def look(self) -> Iterator[ProposalWatchJson]:
        """Yield a line for each change. Raises StorageError."""
        for problem in stage_hook_edits_and_list_failures(self._runtime):
            print_error(problem)
        found = {proposal.id: proposal for proposal in self._runtime.proposals.recent_proposals()}
        for key in self._proposals.keys() - found.keys():
            # It is no longer recent, because it was decided.
            if self._proposals[key].state.is_pending and (one := self._runtime.proposals.proposal(key)) is not None:
                found[key] = one
        pending = [proposal.id for proposal in found.values() if proposal.state.is_pending]
        yield from self._proposal_changes(found, len(pending))
        checks = self._check_store.load(pending)
        for key, facts in checks.items():
            if facts != self._checks.get(key):
                lines = [FinishedCheckJson.model_validate(check) for check in facts]
                yield ProposalWatchJson(change="checks", waiting=len(pending), id=key, checks=lines)
        yield from self._question_changes(self._runtime.sessions.all()[:_MAX_WATCHED_SESSIONS], len(pending))
        self._proposals, self._checks, self._is_first_call = found, checks, False

    def _proposal_changes(self, found: dict[str, Proposal], waiting: int) -> Iterator[ProposalWatchJson]:
        for key, now in found.items():
            before = self._proposals.get(key)
            line = ProposalWatchJson(change="changed", waiting=waiting, proposal=ProposalJson.model_validate(now))
            if self._is_first_call:
                if now.state.is_pending:
                    yield line.model_copy(update={"change": "waiting"})
            elif before is None:
                yield line.model_copy(update={"change": "staged"})
            elif now.last is not None and now.last != before.last:
                yield line.model_copy(update={"change": "decided", "decision": now.last.decision})
            elif (now.revision, now.state, now.summary) != (before.revision, before.state, before.summary):
                yield line

    def _question_changes(self, sessions: Sequence[SessionRecord], waiting: int) -> Iterator[ProposalWatchJson]:
        for record in sessions:
            if self._seen_sessions.get(record.id) == record:
                continue
            self._seen_sessions[record.id] = record
            before = self._questions.get(record.id)
            now = find_oldest_open_question(self._runtime.sessions.last_turns(record.id))
            if now is not None and now != before:
                yield ProposalWatchJson(
                    change="question", waiting=waiting, session=record.id, text=now.text, options=list(now.options)
                )
            elif now is None and before is not None:
                yield ProposalWatchJson(change="answered", waiting=waiting, session=record.id, text=before.text)
            self._questions.pop(record.id, None)
            if now is not None:
                self._questions[record.id] = now
