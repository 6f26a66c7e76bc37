"""Follows what waits: runs the checks of a proposal as soon as it is staged or shown, and stops them with it."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from app.checks.results import Checked, Outcome, Result, State
from app.checks.runner import CheckRunner
from app.checks.running import files_for
from app.config.settings import Check
from app.proposals.models import Proposal, ProposalState
from app.proposals.trees import Trees

_TO_BE_DECIDED = (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)


@dataclass(slots=True)
class _Followed:
    """One proposal at one revision."""

    revision: int
    checks: tuple[Check, ...]
    results: dict[str, Result] = field(default_factory=dict)
    """By the check's name."""
    trees: Trees | None = None
    why_not: str = ""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it is known which checks there are, or that this can't be known."""
    refused: bool = False
    """An approval was kept from being written because no check can be run."""

    def hindered(self) -> bool:
        """Whether no check can be run."""
        return bool(self.why_not)

    def not_run(self) -> tuple[Result, ...]:
        """What should have been run before an approval and can't be; nothing once that was said."""
        if self.refused:
            return ()
        self.refused = True
        outcome = Outcome(State.BROKEN, reason=self.why_not)
        return tuple(
            Result(check.name, State.BROKEN, check.when, outcome) for check in self.checks if check.when == "approve"
        )

    def cancel(self) -> None:
        """End what runs."""
        for task in self.tasks:
            task.cancel()


class Following:
    """The checks of what waits in one workspace; to be used on one event loop."""

    def __init__(
        self,
        runner: CheckRunner,
        configured: Callable[[], tuple[Check, ...]],
        trees: Callable[[str], Trees],
        publish: Callable[[Checked], None],
    ) -> None:
        """Nothing is run yet.

        Args:
            runner: Runs them.
            configured: The checks that are in force.
            trees: What a proposal is checked on, by its id; called on a thread.
            publish: Takes what the checks of a proposal say whenever that has changed.
        """
        self._runner = runner
        self._configured = configured
        self._trees = trees
        self._publish = publish
        self._followed: dict[str, _Followed] = {}
        self._seen: set[str] | None = None
        """What waited when it was looked at last; None before the first time."""

    def follow(self, proposals: Iterable[Proposal], shown: str = "") -> None:
        """Take what there is now: check what is newly staged and what is shown, let go of what is decided."""
        waiting = {one.id: one for one in proposals if one.state in _TO_BE_DECIDED}
        checks = self._configured()
        for proposal_id, followed in list(self._followed.items()):
            proposal = waiting.get(proposal_id)
            if proposal is None or proposal.revision != followed.revision or followed.checks != checks:
                self.stop((proposal_id,))
        new = waiting.keys() - self._seen if self._seen is not None else set()
        self._seen = set(waiting)
        if not checks:
            return
        # What is looked at comes first.
        for proposal_id in sorted(new | ({shown} & waiting.keys()), key=lambda one: (one != shown, int(one[1:]))):
            if proposal_id not in self._followed:
                followed = self._followed[proposal_id] = _Followed(waiting[proposal_id].revision, checks)
                self._spawn(proposal_id, followed, self._begin(proposal_id, followed))

    def stop(self, proposal_ids: Collection[str]) -> None:
        """End the checks of proposals that are being decided on."""
        for proposal_id in proposal_ids:
            if followed := self._followed.pop(proposal_id, None):
                followed.cancel()

    def ask(self, proposal_id: str) -> bool:
        """Run the checks of a proposal that were not run; where all were, all again; end those that run.

        Returns:
            Whether there is any of that to do.
        """
        followed = self._followed.get(proposal_id)
        if followed is None or followed.trees is None or not followed.results:
            return False
        if followed.tasks:
            followed.cancel()
            for name, result in followed.results.items():
                if not result.state.ended:
                    followed.results[name] = Result(name, State.CANCELLED, result.when)
            self._tell(proposal_id, followed)
            return True
        names = [name for name, result in followed.results.items() if not result.state.ended]
        if not names:
            names = list(followed.results)
            for check in followed.checks:
                self._runner.forget(check, followed.trees)
        self._spawn(proposal_id, followed, self._run(proposal_id, followed, names))
        return True

    async def before_approval(self, proposal_id: str) -> tuple[Result, ...]:
        """Run what is to be run before a proposal is written, unless it was.

        Returns:
            Those that speak against it, and those that have said nothing: ended by the user, or not to be run, which
            is told once.
        """
        followed = self._followed.get(proposal_id)
        if followed is None:
            return ()
        await followed.begun.wait()
        if followed.hindered():
            return followed.not_run()
        names = [name for name, one in followed.results.items() if one.when == "approve" and not one.state.ended]
        if not names:
            return ()
        task = self._spawn(proposal_id, followed, self._run(proposal_id, followed, names))
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        if followed.hindered():
            return followed.not_run()
        ran = [followed.results[name] for name in names]
        return tuple(each for each in ran if each.red or each.state is State.BROKEN or not each.state.ended)

    async def close(self) -> None:
        """End all; no process is left."""
        tasks = {task for followed in self._followed.values() for task in followed.tasks}
        self.stop(tuple(self._followed))
        if tasks:
            await asyncio.wait(tasks)

    async def _begin(self, proposal_id: str, followed: _Followed) -> None:
        try:
            await self._look(proposal_id, followed)
        except Exception as error:
            # Before an approval goes on that has waited for this.
            self._give_up(proposal_id, followed, error)
            return
        finally:
            followed.begun.set()
        waiting = [name for name, one in followed.results.items() if one.state is State.WAITING]
        if followed.results or followed.why_not:
            await self._run(proposal_id, followed, waiting)

    async def _look(self, proposal_id: str, followed: _Followed) -> None:
        """See which checks look at what the proposal changes, and whether they can be run."""
        trees = followed.trees = await asyncio.to_thread(self._trees, proposal_id)
        for check in followed.checks:
            if files_for(check, trees.files) is not None:
                state = State.WAITING if check.when == "staged" else State.NOT_ASKED
                known = self._runner.known(check, trees)
                followed.results[check.name] = known or Result(check.name, state, check.when)
        if not followed.results:
            return
        followed.why_not = await self._runner.why_not()
        if followed.why_not:
            followed.results.clear()

    async def _run(self, proposal_id: str, followed: _Followed, names: Collection[str]) -> None:
        """Run checks of a proposal, one after the other."""

        def take(result: Result) -> None:
            followed.results[result.name] = result
            self._tell(proposal_id, followed)

        assert followed.trees is not None
        for name in names:
            followed.results[name] = Result(name, State.WAITING, followed.results[name].when)
        self._tell(proposal_id, followed)
        for check in followed.checks:
            if check.name in names:
                try:
                    take(await self._runner.run(check, followed.trees, take))
                except asyncio.CancelledError:
                    # It may have told how far it was after it was marked as ended.
                    take(Result(check.name, State.CANCELLED, check.when))
                    raise

    def _spawn(self, proposal_id: str, followed: _Followed, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        def end(task: asyncio.Task[None]) -> None:
            followed.tasks.discard(task)
            if not task.cancelled() and (error := task.exception()):
                self._give_up(proposal_id, followed, error)

        task = asyncio.ensure_future(work)
        followed.tasks.add(task)
        task.add_done_callback(end)
        return task

    def _give_up(self, proposal_id: str, followed: _Followed, error: BaseException) -> None:
        """No check may end the app, nor go unsaid."""
        followed.why_not = str(error) or type(error).__name__
        self._tell(proposal_id, followed)

    def _tell(self, proposal_id: str, followed: _Followed) -> None:
        if self._followed.get(proposal_id) is followed:
            results = tuple(followed.results.values())
            self._publish(Checked(proposal_id, followed.revision, results, followed.why_not))
