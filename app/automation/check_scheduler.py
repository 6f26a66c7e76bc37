"""Runs the checks of a proposal as soon as it is staged or shown, and stops them when it is decided.

A result belongs to the exact bytes on which it was obtained. As soon as an approval would leave other bytes, it is
shown as outdated with the reason, and checks that run by themselves run anew.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from app.automation.check_results import CheckOutcome, CheckResult, CheckState, ProposalChecks
from app.automation.check_runner import CheckedTrees, CheckRunner, files_for_check
from app.config.settings import CheckTable
from app.proposals.decide.workspace_versions import WorkspaceVersions
from app.proposals.values.models import Proposal, ProposalState
from app.text.quantities import format_count
from app.workspace.file_watching import watch_changes
from app.workspace.git_repository import find_repository
from app.workspace.paths import Workspace

_QUIET_MS = 150
"""How long changes are gathered."""
_LOOK_SECONDS = 3.0
_MAX_FOLDERS = 20_000
"""Folders that are watched, of a workspace that has more; each takes a kilobyte of the kernel's memory."""


async def watch_workspace_changes(workspace: Workspace) -> AsyncGenerator[None]:
    """Yield once the workspace is watched, and then soon after each change in it.

    Where the system lets no more folders be watched, it yields every few seconds.
    """
    while True:
        folders = await asyncio.to_thread(_folders, workspace)
        try:
            async with aclosing(watch_changes(folders, quiet_ms=_QUIET_MS)) as changes:
                async for changed in changes:
                    yield
                    if any(path in folders or path.is_dir() for path in changed):
                        break
        except FileNotFoundError:
            # A folder went away before it was watched; the workspace itself may come back.
            if not workspace.root.is_dir():
                await asyncio.sleep(_LOOK_SECONDS)
        except OSError:
            await asyncio.sleep(_LOOK_SECONDS)
            yield


def _folders(workspace: Workspace) -> frozenset[Path]:
    """Return the folders that no ignore rule leaves out, and those of git's index and HEAD."""
    found = find_repository(workspace.root)
    git = (found.folder,) if found is not None else ()
    below = (workspace.root / path for path in islice(workspace.walk_folders(), _MAX_FOLDERS))
    return frozenset((workspace.root, *git, *below))


_TO_BE_DECIDED = (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)
_CALM = 0.4
"""Seconds without another change after which checks run anew: hunks are often taken out one after the other."""
_ATTEMPTS = 3
"""Runs before an approval while the files keep changing."""
_NO_TREES = WorkspaceVersions({}, {}, (), ())

ChosenHunks = tuple[str, ...] | None
"""Ids of the hunks that an approval would name; None for all that waits."""


@dataclass(slots=True)
class _CheckedProposal:
    """One proposal at one revision, with the hunks that are chosen in it."""

    revision: int
    chosen: ChosenHunks
    checks: tuple[CheckTable, ...]
    change: str = ""
    """What the user did since the results were obtained, in words: `before hunk 3 was taken out`."""
    results: dict[str, CheckResult] = field(default_factory=dict)
    """By the check's name."""
    trees: WorkspaceVersions | None = None
    why_not: str = ""
    is_outdated: bool = False
    """Whether the files have changed since it was looked at."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    looked_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it is known which checks there are, or that this can't be known."""
    is_being_approved: bool = False
    """Whether an approval waits for its checks; the approval reads the files itself."""
    refused: bool = False
    """An approval was kept from being written because no check can be run."""

    def is_blocked(self) -> bool:
        """Whether no check can be run."""
        return bool(self.why_not)

    def missing_check(self) -> tuple[CheckResult, ...]:
        """Return the required checks that cannot be run before an approval; empty once the user was told."""
        if self.refused:
            return ()
        self.refused = True
        outcome = CheckOutcome(CheckState.BROKEN, reason=self.why_not)
        return tuple(
            CheckResult(check.name, CheckState.BROKEN, check.when, outcome)
            for check in self.checks
            if check.when == "approve"
        )

    def to_run(self, when: str) -> list[str]:
        """The names of the checks of this kind that have no result on the present bytes."""
        return [name for name, one in self.results.items() if one.when == when and not one.is_current]

    def restarted_copy(self) -> "_CheckedProposal":
        """Return a copy to look at again; checks that still run report to the old one only."""
        results = {name: one for name, one in self.results.items() if one.state.has_outcome}
        return _CheckedProposal(self.revision, self.chosen, self.checks, self.change, results)

    def is_running(self) -> bool:
        """Return whether anything runs; a task that is done is removed a moment later."""
        return not all(task.done() for task in self.tasks)

    def cancel(self) -> None:
        """Stop the running checks."""
        for task in self.tasks:
            task.cancel()


class CheckScheduler:
    """Keeps the checks of all waiting proposals of a workspace up to date; for one event loop.

    Args:
        trees: What an approval of some hunks of a proposal would leave, by its id; called on a thread.
        chosen: The hunks that an approval of a proposal would name now.
        publish: Takes what the checks of a proposal say whenever that has changed.
    """

    def __init__(
        self,
        runner: CheckRunner,
        configured: Callable[[], tuple[CheckTable, ...]],
        trees: Callable[[str, ChosenHunks], WorkspaceVersions],
        chosen: Callable[[Proposal], ChosenHunks],
        publish: Callable[[ProposalChecks], None],
    ) -> None:
        self._runner = runner
        self._configured = configured
        self._trees = trees
        self._chosen = chosen
        self._publish = publish
        self._followed: dict[str, _CheckedProposal] = {}
        self._seen: set[str] | None = None
        """What waited when it was looked at last; None before the first time."""
        self._shown = ""
        self._tasks: set[asyncio.Task[None]] = set()
        """All that was begun and has not come to its end, for what is followed no longer too."""
        self._base: CheckedTrees | None = None
        """The workspace without any proposal, as it was read last."""

    def update_proposals(self, proposals: Iterable[Proposal], shown: str = "") -> None:
        """Take the current proposals: check new and shown ones, and stop the checks of decided ones."""
        proposals = tuple(proposals)
        waiting = {one.id: one for one in proposals if one.state in _TO_BE_DECIDED}
        self._shown = shown
        checks = self._configured()
        for proposal_id, followed in list(self._followed.items()):
            proposal = waiting.get(proposal_id)
            if proposal is None or followed.checks != checks:
                if proposal is None and any(one.id == proposal_id and one.state.is_pending for one in proposals):
                    self._mark_outdated(proposal_id, followed, f"before {proposal_id} turned stale")
                self.stop((proposal_id,))
            else:
                self._follow_choice(proposal, followed)
        new = waiting.keys() - self._seen if self._seen is not None else set()
        self._seen = set(waiting)
        if not checks:
            return
        # What is looked at comes first.
        for proposal_id in sorted(new | ({shown} & waiting.keys()), key=lambda one: (one != shown, int(one[1:]))):
            if proposal_id not in self._followed:
                proposal = waiting[proposal_id]
                self._begin(proposal_id, _CheckedProposal(proposal.revision, self._chosen(proposal), checks))
            elif (followed := self._followed[proposal_id]).is_outdated and not followed.is_being_approved:
                self._begin(proposal_id, followed.restarted_copy(), calm=_CALM)

    async def rerun_on_changes(self, changes: AsyncIterator[None]) -> None:
        """Mark results outdated and rerun checks after changes of the workspace, until `changes` ends.

        Args:
            changes: Yields whenever something in the workspace may have changed.
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
                    self._begin(proposal_id, followed.restarted_copy(), calm=_CALM)
                else:
                    # Until it is shown, and looked at.
                    self._mark_outdated(proposal_id, followed, "before the files changed")

    def _follow_choice(self, proposal: Proposal, followed: _CheckedProposal) -> None:
        """Mark the results as outdated if an approval would write something else than when they were obtained."""
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
        """Show the results that there are as outdated."""
        results = {
            name: replace(one, stale=change) for name, one in followed.results.items() if one.state.has_outcome
        }
        followed.results = results
        self._publish_results(proposal_id, followed)

    async def wait_until_done(self, proposal_id: str) -> None:
        """Wait until nothing runs on a proposal."""
        while (followed := self._followed.get(proposal_id)) is not None and followed.tasks:
            await asyncio.wait(set(followed.tasks))

    def stop(self, proposal_ids: Collection[str]) -> None:
        """Stop the checks of proposals that are being decided."""
        for proposal_id in proposal_ids:
            if followed := self._followed.pop(proposal_id, None):
                followed.cancel()

    def start_or_stop(self, proposal_id: str) -> bool:
        """Run the checks of a proposal that were not run, or all again; stop them if they are running.

        Returns:
            Whether there is any of that to do.
        """
        followed = self._followed.get(proposal_id)
        if followed is None or followed.trees is None or not followed.results:
            return False
        if followed.is_running():
            followed.cancel()
            for name, result in followed.results.items():
                if not result.state.has_outcome:
                    followed.results[name] = CheckResult(name, CheckState.CANCELLED, result.when)
            self._publish_results(proposal_id, followed)
            return True
        names = [name for name, result in followed.results.items() if not result.is_current]
        if not names:
            names = list(followed.results)
            for check in followed.checks:
                self._runner.forget_results(check)
        self._spawn(proposal_id, followed, self._run(proposal_id, followed, names))
        return True

    async def run_before_approval(
        self, proposal_id: str, revision: int, hunks: ChosenHunks
    ) -> tuple[CheckResult, ...]:
        """Run the required checks on exactly what approving these hunks would leave, unless they were run.

        Returns:
            Those that speak against it, and those that have said nothing: ended by the user, or not to be run, which
            is told once.
        """
        checks = self._configured()
        if not checks:
            return ()
        followed = self._followed.get(proposal_id)
        if followed is None or (followed.revision, followed.chosen) != (revision, hunks):
            followed = _CheckedProposal(revision, hunks, checks)
            self._begin(proposal_id, followed)
        await followed.looked_up.wait()
        followed.is_being_approved = True
        try:
            ran = await self._run_for_approval(proposal_id, followed)
        finally:
            followed.is_being_approved = False
        if followed.is_blocked():
            return followed.missing_check()
        results = [one for name, one in followed.results.items() if name in ran]
        return tuple(
            each for each in results if each.has_new_failure or each.state is CheckState.BROKEN or not each.is_current
        )

    async def _run_for_approval(self, proposal_id: str, followed: _CheckedProposal) -> set[str]:
        """Run checks without a result on the present bytes until the bytes stay the same; return the names of those
        run."""
        ran: set[str] = set()
        if not followed.results:
            return ran
        for attempt in range(_ATTEMPTS + 1):
            await self._wait_for(proposal_id, followed, self._look(proposal_id, followed))
            names = followed.to_run("approve")
            if followed.is_blocked() or not names or attempt == _ATTEMPTS:
                break
            ran.update(names)
            await self._wait_for(proposal_id, followed, self._run(proposal_id, followed, names))
            if followed.is_blocked() or any(followed.results[name].state is CheckState.CANCELLED for name in names):
                break
        return ran

    async def close(self) -> None:
        """Stop all checks and their processes."""
        self.stop(tuple(self._followed))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, proposal_id: str, followed: _CheckedProposal, *, calm: float = 0.0) -> None:
        """Examine a proposal and start its automatic checks; this replaces earlier work on it.

        Args:
            calm: Seconds to wait before anything runs.
        """
        self.stop((proposal_id,))
        self._followed[proposal_id] = followed
        self._spawn(proposal_id, followed, self._look_and_run(proposal_id, followed, calm))

    async def _look_and_run(self, proposal_id: str, followed: _CheckedProposal, calm: float) -> None:
        try:
            await self._look(proposal_id, followed)
        except Exception as error:
            # Before an approval goes on that has waited for this.
            self._report_failure(proposal_id, followed, error)
            return
        finally:
            followed.looked_up.set()
        names = followed.to_run("staged")
        if names and calm:
            await asyncio.sleep(calm)
        if followed.results or followed.why_not:
            await self._run(proposal_id, followed, names)

    async def _look(self, proposal_id: str, followed: _CheckedProposal) -> None:
        """Find out which checks concern the proposal, which results are current, and whether any can be run."""
        trees = followed.trees = await asyncio.to_thread(self._trees, proposal_id, followed.chosen)
        checks = [check for check in followed.checks if files_for_check(check, trees.files) is not None]
        # Results stay in place until all are known: a look that is cancelled must not lose them.
        earlier, found = followed.results, dict[str, CheckResult]()
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
                    # It may be there already while it runs without the proposal.
                    is_of_this = old.is_current and old.tree == read.after
                    result = old if is_of_this else old.as_outdated(read.after, followed.change)
                found[check.name] = result or CheckResult(check.name, state, check.when)
        followed.results = found
        if found != earlier:
            self._publish_results(proposal_id, followed)

    async def _run(self, proposal_id: str, followed: _CheckedProposal, names: Collection[str]) -> None:
        """Run checks of a proposal, one after the other."""

        def take(result: CheckResult) -> None:
            followed.results[result.name] = result
            self._publish_results(proposal_id, followed)

        assert followed.trees is not None
        for name in names:
            if not followed.results[name].state.has_outcome:
                followed.results[name] = CheckResult(name, CheckState.WAITING, followed.results[name].when)
        self._publish_results(proposal_id, followed)
        for check in followed.checks:
            if check.name in names:
                try:
                    take(await self._runner.run_check(check, followed.trees, take))
                except asyncio.CancelledError:
                    # It may have told how far it was after it was marked as ended.
                    take(CheckResult(check.name, CheckState.CANCELLED, check.when))
                    raise

    async def _wait_for(self, proposal_id: str, followed: _CheckedProposal, work: Coroutine[Any, Any, None]) -> None:
        """Do a part of an approval, which the user can end."""
        task = self._spawn(proposal_id, followed, work)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()

    def _spawn(
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
        """No check may end the app, nor go unsaid."""
        followed.why_not = str(error) or type(error).__name__
        self._publish_results(proposal_id, followed)

    def _publish_results(self, proposal_id: str, followed: _CheckedProposal) -> None:
        if self._followed.get(proposal_id) is followed:
            results = tuple(followed.results.values())
            self._publish(ProposalChecks(proposal_id, followed.revision, results, followed.why_not))


def _describe_choice_change(proposal: Proposal, before: ChosenHunks, now: ChosenHunks) -> str:
    """`before hunk 3 was taken out`."""
    numbers = {hunk.id: hunk.number for hunk in proposal.hunks}
    old, new = (set(numbers if chosen is None else chosen) for chosen in (before, now))
    moved, way = (old - new, "taken out") if old - new else (new - old, "taken back in")
    if len(moved) == 1:
        return f"before hunk {numbers.get(next(iter(moved)), '?')} was {way}"
    return f"before {format_count(len(moved), 'hunk')} were {way}"
