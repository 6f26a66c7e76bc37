"""Runs the checks of a proposal as soon as it is staged or shown, and stops them when it is decided.

A result belongs to the exact content that was checked. When an approval would leave other content, the result is
shown as outdated with the reason, and automatic checks run again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterable
from contextlib import aclosing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from app.automation.check_results import CheckRunResult, CheckState, ProposalCheckResult, ProposalChecks
from app.automation.check_runner import CheckRunner, TreesWithAndWithoutProposal, files_for_check
from app.config.settings import CheckTable
from app.copies import replace
from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
from app.proposals.values.models import Proposal, ProposalState
from app.text.quantities import format_count
from app.workspace.file_watching import watch_changes
from app.workspace.git_repository import find_repository
from app.workspace.paths import Workspace

_QUIET_MS = 150
"""Milliseconds in which changes are collected into one."""
_POLL_SECONDS = 3.0
_MAX_FOLDERS = 20_000
"""Maximum number of watched folders; each takes a kilobyte of the kernel's memory."""


async def watch_workspace_changes(workspace: Workspace) -> AsyncGenerator[None]:
    """Yield once the workspace is watched, and then soon after each change in it.

    If the system does not allow more watches, yield every few seconds.
    """
    while True:
        folders = await asyncio.to_thread(_watched_folders, workspace)
        try:
            async with aclosing(watch_changes(folders, quiet_ms=_QUIET_MS)) as changes:
                async for changed in changes:
                    yield
                    if any(path in folders or path.is_dir() for path in changed):
                        break
        except FileNotFoundError:
            # A folder was removed before it was watched; the workspace itself may be created again.
            if not workspace.root.is_dir():
                await asyncio.sleep(_POLL_SECONDS)
        except OSError:
            await asyncio.sleep(_POLL_SECONDS)
            yield


def _watched_folders(workspace: Workspace) -> frozenset[Path]:
    """Return the folders that no ignore rule excludes, and those of git's index and HEAD."""
    found = find_repository(workspace.root)
    git = (found.folder,) if found is not None else ()
    below = (workspace.root / path for path in islice(workspace.walk_folders(), _MAX_FOLDERS))
    return frozenset((workspace.root, *git, *below))


UNDECIDED_STATES = (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)
_CALM_SECONDS = 0.4
"""Seconds without another change before checks run again: users often exclude several hunks one after the other."""
_MAX_APPROVAL_ATTEMPTS = 3
"""Number of runs before an approval while the files keep changing."""
_NO_TREES = FilesToCheckBeforeAndAfter({}, {}, (), ())

HunkExclusions = tuple[str, ...] | None
"""Ids of the hunks that an approval would name; None for all pending hunks."""


class _CheckedProposal(Struct):
    """One proposal at one revision, with the hunks that are chosen in it."""

    revision: int
    chosen: HunkExclusions
    checks: tuple[CheckTable, ...]
    change: str = ""
    """The user's change since the results were obtained: `before hunk 3 was taken out`."""
    results: dict[str, ProposalCheckResult] = field(default_factory=dict)
    """By the check's name."""
    trees: FilesToCheckBeforeAndAfter | None = None
    why_not: str = ""
    is_outdated: bool = False
    """Whether the files have changed since the proposal was examined."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    looked_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the applicable checks are known, or finding them has failed."""
    is_being_approved: bool = False
    """Whether an approval waits for its checks; the approval reads the files itself."""
    refused: bool = False
    """Whether an approval was refused because no check can run."""

    def missing_check(self) -> tuple[ProposalCheckResult, ...]:
        """Return the required checks that cannot run before an approval; empty after the first call."""
        if self.refused:
            return ()
        self.refused = True
        outcome = CheckRunResult(CheckState.BROKEN, reason=self.why_not)
        return tuple(
            ProposalCheckResult(check.name, CheckState.BROKEN, check.when, outcome)
            for check in self.checks
            if check.when == "approve"
        )

    def to_run(self, when: str) -> list[str]:
        """Return the names of the checks of this kind that have no result on the current content."""
        return [name for name, one in self.results.items() if one.when == when and not one.is_current]

    def restarted_copy(self) -> "_CheckedProposal":
        """Return a copy to examine again; checks that still run report to the old object only."""
        results = {name: one for name, one in self.results.items() if one.state.has_outcome}
        return _CheckedProposal(self.revision, self.chosen, self.checks, self.change, results)

    def is_running(self) -> bool:
        """Return whether a check runs; finished tasks are removed a moment later."""
        return not all(task.done() for task in self.tasks)

    def cancel(self) -> None:
        """Stop the running checks."""
        for task in self.tasks:
            task.cancel()


class CheckScheduler:
    """Keeps the checks of all pending proposals of a workspace up to date; for one event loop.

    Args:
        configured: Returns the configured checks.
        trees: Returns the contents with and without some hunks of a proposal, by its id; called on a thread.
        chosen: Returns the hunks that an approval of a proposal would name now.
        publish: Receives the results of a proposal whenever they change.
    """

    def __init__(
        self,
        runner: CheckRunner,
        configured: Callable[[], tuple[CheckTable, ...]],
        trees: Callable[[str, HunkExclusions], FilesToCheckBeforeAndAfter],
        chosen: Callable[[Proposal], HunkExclusions],
        publish: Callable[[ProposalChecks], None],
    ) -> None:
        self._runner = runner
        self._configured = configured
        self._trees = trees
        self._chosen = chosen
        self._publish = publish
        self._followed: dict[str, _CheckedProposal] = {}
        self._seen: set[str] | None = None
        """Ids of the proposals that were pending at the last update; None before the first one."""
        self._shown = ""
        self._tasks: set[asyncio.Task[None]] = set()
        """All unfinished tasks, also those of proposals that are no longer followed."""
        self._base: TreesWithAndWithoutProposal | None = None
        """The workspace without any proposal, as it was last read."""

    def update_proposals(self, proposals: Iterable[Proposal], shown: str = "") -> None:
        """Check new proposals and the shown one, and stop the checks of decided proposals.

        Args:
            shown: The id of the proposal that the user looks at; empty for none.
        """
        proposals = tuple(proposals)
        waiting = {proposal.id: proposal for proposal in proposals if proposal.state in UNDECIDED_STATES}
        self._shown = shown
        checks = self._configured()
        for proposal_id, followed in list(self._followed.items()):
            proposal = waiting.get(proposal_id)
            if proposal is None or followed.checks != checks:
                if proposal is None and any(
                    proposal.id == proposal_id and proposal.state.is_pending for proposal in proposals
                ):
                    self._mark_outdated(proposal_id, followed, f"before {proposal_id} turned stale")
                self.stop((proposal_id,))
            else:
                self._follow_choice(proposal, followed)
        new = waiting.keys() - self._seen if self._seen is not None else set()
        self._seen = set(waiting)
        if not checks:
            return
        # The shown proposal comes first.
        for proposal_id in sorted(new | ({shown} & waiting.keys()), key=lambda one: (one != shown, int(one[1:]))):
            if proposal_id not in self._followed:
                proposal = waiting[proposal_id]
                self._restart_checks(proposal_id, _CheckedProposal(proposal.revision, self._chosen(proposal), checks))
            elif (followed := self._followed[proposal_id]).is_outdated and not followed.is_being_approved:
                self._restart_checks(proposal_id, followed.restarted_copy(), calm=_CALM_SECONDS)

    async def rerun_on_changes(self, changes: AsyncIterator[None]) -> None:
        """Mark results outdated and rerun checks after changes of the workspace, until `changes` ends.

        Args:
            changes: Yields whenever a file in the workspace may have changed.
        """
        async for _ in changes:
            before = self._base
            with suppress(OSError):
                self._base = await self._runner.read_trees(_NO_TREES)
            if before is None or self._base is None or before.ids == self._base.ids:
                continue
            for proposal_id, followed in list(self._followed.items()):
                followed.is_outdated, followed.change = True, ""
                if followed.is_being_approved:
                    continue
                if proposal_id == self._shown:
                    self._restart_checks(proposal_id, followed.restarted_copy(), calm=_CALM_SECONDS)
                else:
                    # It is examined when the user shows it.
                    self._mark_outdated(proposal_id, followed, "before the files changed")

    def _follow_choice(self, proposal: Proposal, followed: _CheckedProposal) -> None:
        """Mark the results as outdated if an approval would now write other content."""
        chosen = self._chosen(proposal)
        if (followed.revision, followed.chosen) == (proposal.revision, chosen):
            return
        if followed.revision != proposal.revision:
            change = f"before {proposal.id} changed"
        else:
            change = _describe_choice_change(proposal, followed.chosen, chosen)
        self._mark_outdated(proposal.id, followed, change)
        self.stop((proposal.id,))
        changed = _CheckedProposal(
            proposal.revision, chosen, followed.checks, change, followed.results, is_outdated=True
        )
        self._followed[proposal.id] = changed

    def _mark_outdated(self, proposal_id: str, followed: _CheckedProposal, change: str) -> None:
        """Mark the finished results as outdated and publish them; drop the others."""
        results = {
            name: replace(one, stale=change) for name, one in followed.results.items() if one.state.has_outcome
        }
        followed.results = results
        self._publish_results(proposal_id, followed)

    async def wait_until_done(self, proposal_id: str) -> None:
        """Wait until no check of a proposal runs."""
        while (followed := self._followed.get(proposal_id)) is not None and followed.tasks:
            await asyncio.wait(set(followed.tasks))

    def stop(self, proposal_ids: Collection[str]) -> None:
        """Stop the checks of proposals that are being decided."""
        for proposal_id in proposal_ids:
            if followed := self._followed.pop(proposal_id, None):
                followed.cancel()

    def start_or_stop(self, proposal_id: str) -> bool:
        """Stop a proposal's checks if they run; otherwise run those without a current result, or all again.

        Returns:
            Whether there were checks to stop or to run.
        """
        followed = self._followed.get(proposal_id)
        if followed is None or followed.trees is None or not followed.results:
            return False
        if followed.is_running():
            followed.cancel()
            for name, result in followed.results.items():
                if not result.state.has_outcome:
                    followed.results[name] = ProposalCheckResult(name, CheckState.CANCELLED, result.when)
            self._publish_results(proposal_id, followed)
            return True
        names = [name for name, result in followed.results.items() if not result.is_current]
        if not names:
            names = list(followed.results)
            for check in followed.checks:
                self._runner.forget_results(check)
        self._start_task(proposal_id, followed, self._run_checks(proposal_id, followed, names))
        return True

    async def run_before_approval(
        self, proposal_id: str, revision: int, hunks: HunkExclusions
    ) -> tuple[ProposalCheckResult, ...]:
        """Run the required checks on exactly the content that approving these hunks would leave, unless they ran
        already.

        Returns:
            The checks that are a reason against the approval: failed ones, and those without a result. If no check
            can run, the required checks are returned only the first time.
        """
        checks = self._configured()
        if not checks:
            return ()
        followed = self._followed.get(proposal_id)
        if followed is None or (followed.revision, followed.chosen) != (revision, hunks):
            followed = _CheckedProposal(revision, hunks, checks)
            self._restart_checks(proposal_id, followed)
        await followed.looked_up.wait()
        followed.is_being_approved = True
        try:
            ran = await self._run_for_approval(proposal_id, followed)
        finally:
            followed.is_being_approved = False
        if followed.why_not:
            return followed.missing_check()
        results = [one for name, one in followed.results.items() if name in ran]
        return tuple(
            result
            for result in results
            if result.has_new_failure or result.state is CheckState.BROKEN or not result.is_current
        )

    async def _run_for_approval(self, proposal_id: str, followed: _CheckedProposal) -> set[str]:
        """Run checks that have no result on the current content, until the content stays the same.

        Returns:
            The names of the checks that ran.
        """
        ran: set[str] = set()
        if not followed.results:
            return ran
        for attempt in range(_MAX_APPROVAL_ATTEMPTS + 1):
            await self._await_task(proposal_id, followed, self._examine_proposal(proposal_id, followed))
            names = followed.to_run("approve")
            if followed.why_not or not names or attempt == _MAX_APPROVAL_ATTEMPTS:
                break
            ran.update(names)
            await self._await_task(proposal_id, followed, self._run_checks(proposal_id, followed, names))
            if followed.why_not or any(followed.results[name].state is CheckState.CANCELLED for name in names):
                break
        return ran

    async def close(self) -> None:
        """Stop all checks and their processes."""
        self.stop(tuple(self._followed))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _restart_checks(self, proposal_id: str, followed: _CheckedProposal, *, calm: float = 0.0) -> None:
        """Examine a proposal and start its automatic checks; this cancels earlier work on it.

        Args:
            calm: Seconds to wait before a check runs.
        """
        self.stop((proposal_id,))
        self._followed[proposal_id] = followed
        self._start_task(proposal_id, followed, self._examine_and_run(proposal_id, followed, calm))

    async def _examine_and_run(self, proposal_id: str, followed: _CheckedProposal, calm: float) -> None:
        """Examine a proposal and run its automatic checks, again if the files changed while one ran."""
        while True:
            try:
                await self._examine_proposal(proposal_id, followed)
            except Exception as error:
                # Report it before `looked_up` is set, on which an approval waits.
                self._report_failure(proposal_id, followed, error)
                return
            finally:
                followed.looked_up.set()
            names = followed.to_run("staged")
            if names and calm:
                await asyncio.sleep(calm)
            if followed.results or followed.why_not:
                await self._run_checks(proposal_id, followed, names)
            # A change that was undone at once leaves the workspace as `rerun_on_changes` knows it.
            if not any(followed.results[name].stale for name in names):
                return
            if proposal_id != self._shown:
                followed.is_outdated = True
                return
            calm = _CALM_SECONDS

    async def _examine_proposal(self, proposal_id: str, followed: _CheckedProposal) -> None:
        """Find out which checks apply to the proposal, which results are current, and whether checks can run."""
        trees = followed.trees = await asyncio.to_thread(self._trees, proposal_id, followed.chosen)
        checks = [check for check in followed.checks if files_for_check(check, trees.files) is not None]
        # Replace the results only when all are known, so that a cancellation does not lose them.
        earlier, found = followed.results, dict[str, ProposalCheckResult]()
        if checks:
            followed.why_not = await self._runner.unavailable_reason()
            if followed.why_not:
                followed.results = found
                return
            if self._base is None:
                self._base = await self._runner.read_trees(_NO_TREES)
            read = await self._runner.read_trees(trees)
            for check in checks:
                state = CheckState.WAITING if check.when == "staged" else CheckState.NOT_ASKED
                result = self._runner.cached_result(check, trees, read)
                if result is None and (old := earlier.get(check.name)) is not None and old.state.has_outcome:
                    # `run_check` reports it early, while the check still runs without the proposal.
                    is_of_this = old.is_current and old.tree == read.after
                    result = old if is_of_this else old.as_outdated(read.after, followed.change)
                found[check.name] = result or ProposalCheckResult(check.name, state, check.when)
        followed.results = found
        if found != earlier:
            self._publish_results(proposal_id, followed)

    async def _run_checks(self, proposal_id: str, followed: _CheckedProposal, names: Collection[str]) -> None:

        def take(result: ProposalCheckResult) -> None:
            followed.results[result.name] = result
            self._publish_results(proposal_id, followed)

        assert followed.trees is not None
        for name in names:
            if not followed.results[name].state.has_outcome:
                followed.results[name] = ProposalCheckResult(name, CheckState.WAITING, followed.results[name].when)
        self._publish_results(proposal_id, followed)
        for check in followed.checks:
            if check.name in names:
                try:
                    take(await self._runner.run_check(check, followed.trees, take))
                except asyncio.CancelledError:
                    # It may have reported progress after it was marked as cancelled.
                    take(ProposalCheckResult(check.name, CheckState.CANCELLED, check.when))
                    raise

    async def _await_task(
        self, proposal_id: str, followed: _CheckedProposal, work: Coroutine[Any, Any, None]
    ) -> None:
        """Run a part of an approval in a task that the user can cancel."""
        task = self._start_task(proposal_id, followed, work)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()

    def _start_task(
        self, proposal_id: str, followed: _CheckedProposal, work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        def end(task: asyncio.Task[None]) -> None:
            followed.tasks.discard(task)
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()):
                self._report_failure(proposal_id, followed, error)

        task = asyncio.ensure_future(work)
        followed.tasks.add(task)
        self._tasks.add(task)
        task.add_done_callback(end)
        return task

    def _report_failure(self, proposal_id: str, followed: _CheckedProposal, error: BaseException) -> None:
        """Publish an error of a check as the reason that no check runs; it must not end the app."""
        followed.why_not = str(error) or type(error).__name__
        self._publish_results(proposal_id, followed)

    def _publish_results(self, proposal_id: str, followed: _CheckedProposal) -> None:
        if self._followed.get(proposal_id) is followed:
            results = tuple(followed.results.values())
            self._publish(ProposalChecks(proposal_id, followed.revision, results, followed.why_not))


def _describe_choice_change(proposal: Proposal, before: HunkExclusions, now: HunkExclusions) -> str:
    """Return the change in words: `before hunk 3 was taken out`."""
    numbers = {hunk.id: hunk.number for hunk in proposal.hunks}
    old, new = (set(numbers if chosen is None else chosen) for chosen in (before, now))
    moved, way = (old - new, "taken out") if old - new else (new - old, "taken back in")
    if len(moved) == 1:
        return f"before hunk {numbers.get(next(iter(moved)), '?')} was {way}"
    return f"before {format_count(len(moved), 'hunk')} were {way}"
