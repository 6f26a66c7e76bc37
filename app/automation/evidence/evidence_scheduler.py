"""Collects evidence when a check has passed or the user asks, and drops outdated evidence."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import Struct

from app.automation.check_results import CheckState, ProposalChecks
from app.automation.check_scheduler import UNDECIDED_STATES, HunkExclusions
from app.automation.evidence.evidence_runner import HunkTestEvidenceCollector
from app.automation.evidence.proposal_evidence import ProposalTestEvidence
from app.automation.evidence.relevant_tests import choose_evidence_check
from app.config.settings import CheckTable
from app.copies import replace
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import ProposalError


class _FollowedEvidence(Struct):
    """The evidence about one proposal with some hunks chosen."""

    revision: int
    chosen: HunkExclusions
    found: ProposalTestEvidence
    task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()


@dataclass(slots=True)
class HunkTestEvidenceScheduler:
    """Starts and stops the test runs for evidence, one proposal at a time, and drops outdated evidence.

    Args:
        runner: Collects the evidence.
        configured: Returns the configured checks.
        seconds: Returns the time limit of all test runs for a proposal.
        chosen: Returns the hunks that an approval of a proposal would name now.
        publish: Receives the evidence of a proposal whenever it changes; dropped evidence has no marks.
        wait_for_quiet: Awaited before each test run; returns once the user pauses.
    """

    runner: HunkTestEvidenceCollector
    configured: Callable[[], tuple[CheckTable, ...]]
    seconds: Callable[[], float]
    chosen: Callable[[Proposal], HunkExclusions]
    publish: Callable[[ProposalTestEvidence], None]
    wait_for_quiet: Callable[[], Awaitable[None]] | None = None
    _followed: dict[str, _FollowedEvidence] = field(default_factory=dict, init=False)
    _waiting: dict[str, Proposal] = field(default_factory=dict, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    def update_proposals(self, proposals: Iterable[Proposal]) -> None:
        """Load stored evidence of new proposals; drop evidence of decided ones and for another choice of hunks."""
        before = self._waiting
        self._waiting = {proposal.id: proposal for proposal in proposals if proposal.state in UNDECIDED_STATES}
        for proposal_id in self._waiting.keys() - before.keys() - self._followed.keys():
            self._start_task(self._load_stored(self._waiting[proposal_id]))
        for proposal_id, followed in list(self._followed.items()):
            proposal = self._waiting.get(proposal_id)
            if proposal is None:
                self.stop((proposal_id,))
            elif (proposal.revision, self.chosen(proposal)) != (followed.revision, followed.chosen):
                self._drop_evidence(proposal_id)

    def start_or_stop(self, proposal_id: str) -> str:
        """Collect evidence about a proposal, continue after the time limit, or stop the run.

        Returns:
            Why that is not possible; empty if it is.
        """
        followed = self._followed.get(proposal_id)
        if followed is not None and followed.task is not None and followed.is_running:
            followed.task.cancel()
            followed.found = replace(followed.found, is_running=False)
            self.publish(followed.found)
            return ""
        proposal = self._waiting.get(proposal_id)
        if proposal is None:
            return f"{proposal_id} does not wait for a decision."
        check = choose_evidence_check(self.configured())
        if check is None:
            return "No check seems to run tests: add evidence = true to one."
        self._start_collecting(proposal, check)
        return ""

    def start_after_checks(self, checks: ProposalChecks) -> None:
        """Start automatically if a check with `evidence = true` has passed on the proposed files."""
        proposal = self._waiting.get(checks.proposal)
        if proposal is None or checks.proposal in self._followed or checks.revision != proposal.revision:
            return
        wanted = {check.name: check for check in self.configured() if check.evidence}
        for result in checks.results:
            if result.name in wanted and result.state is CheckState.PASSED and result.is_current:
                self._start_collecting(proposal, wanted[result.name])
                return

    async def drop_outdated(self) -> None:
        """Drop evidence that does not match the current files."""
        for proposal_id, followed in list(self._followed.items()):
            if not followed.found.tree or followed.is_running:
                continue
            try:
                is_same = await self.runner.is_current(followed.found)
            except (ProposalError, OSError):
                is_same = False
            if not is_same and self._followed.get(proposal_id) is followed:
                self._drop_evidence(proposal_id)

    def stop(self, proposal_ids: Collection[str]) -> None:
        """Stop the tests of proposals that are being decided, and drop their evidence."""
        for proposal_id in proposal_ids:
            followed = self._followed.pop(proposal_id, None)
            if followed is not None and followed.task is not None:
                followed.task.cancel()

    async def close(self) -> None:
        """End all tests and their processes."""
        self.stop(tuple(self._followed))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _drop_evidence(self, proposal_id: str) -> None:
        revision = self._followed[proposal_id].revision
        self.stop((proposal_id,))
        self.publish(ProposalTestEvidence(proposal_id, revision))

    def _start_collecting(self, proposal: Proposal, check: CheckTable) -> None:
        chosen = self.chosen(proposal)
        before = self._followed.get(proposal.id)
        found = before.found if before is not None else ProposalTestEvidence(proposal.id, proposal.revision)
        followed = _FollowedEvidence(
            proposal.revision, chosen, replace(found, check=check.name, is_running=True, why_not="")
        )
        self._followed[proposal.id] = followed
        self.publish(followed.found)
        followed.task = self._start_task(self._collect_and_publish(followed, check))

    def _start_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _load_stored(self, proposal: Proposal) -> None:
        """Load stored evidence of another process or an earlier start, if it matches the current content."""
        chosen = self.chosen(proposal)
        with suppress(ProposalError, OSError):
            found = await self.runner.load_current_evidence(proposal.id, chosen)
            if found is not None and proposal.id in self._waiting and proposal.id not in self._followed:
                self._followed[proposal.id] = _FollowedEvidence(proposal.revision, chosen, found)
                self.publish(found)

    async def _collect_and_publish(self, followed: _FollowedEvidence, check: CheckTable) -> None:
        proposal_id = followed.found.proposal

        def tell(found: ProposalTestEvidence) -> None:
            if self._followed.get(proposal_id) is followed:
                if found.is_running:
                    # Earlier results stay on the screen until they are replaced.
                    found = replace(found, marks={**followed.found.marks, **found.marks})
                followed.found = found
                self.publish(found)

        async with self._turn:
            try:
                found = await self.runner.collect_evidence(
                    proposal_id, followed.chosen, check, self.seconds(), tell, self.wait_for_quiet
                )
                tell(found)
            except Exception as error:
                # Report any error; it must not end the app.
                why_not = str(error) or type(error).__name__
                tell(ProposalTestEvidence(proposal_id, followed.revision, why_not=why_not))
