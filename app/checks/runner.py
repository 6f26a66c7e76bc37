"""Runs checks one at a time, whoever wants them, and remembers what they came to."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from app.checks.findings import compared
from app.checks.results import Outcome, Result, State
from app.checks.running import files_for, names_files, run_on, why_not
from app.checks.workspace_tree import WorkspaceTree, WorkspaceTrees
from app.config.settings import Check
from app.proposals.trees import Trees
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace

_REMEMBERED = 500
"""Results."""
_QUICK = 3.0
"""Seconds; what passes within is run without the proposal, too, to tell what the proposal has mended."""
_TICK = 0.5
"""Seconds between two tellings of how far a check is."""

Tell = Callable[[Result], None]
"""Takes a result that is not final yet."""


@dataclass(frozen=True, slots=True)
class CheckedTrees:
    """The exact contents of the workspace that a check compares."""

    after: WorkspaceTree
    before: WorkspaceTree

    @property
    def ids(self) -> tuple[str, str, str]:
        """What tells them from all others."""
        return self.after.commit, self.after.id, self.before.id


class CheckRunner:
    """Of one workspace; to be used on one event loop."""

    def __init__(self, sandbox: Callable[[], Sandbox], workspace: Workspace) -> None:
        """
        Args:
            sandbox: Gives the sandbox of the workspace.
            workspace: The files that are checked.
        """
        self._sandbox = sandbox
        self._root = workspace.root
        self._trees = WorkspaceTrees(workspace)
        self._turn = asyncio.Lock()
        self._known: OrderedDict[tuple[Check, tuple[str, ...], tuple[str, str, str]], Result] = OrderedDict()

    async def why_not(self) -> str:
        """Why checks can't be run here; empty if they can. Raises ConfigError."""
        return await why_not(self._sandbox())

    async def read(self, trees: Trees) -> CheckedTrees:
        """What a check would compare now; raises OSError."""
        return CheckedTrees(*await asyncio.to_thread(self._trees.read, trees.after, trees.before))

    def known(self, check: Check, trees: Trees, read: CheckedTrees) -> Result | None:
        """Its result on these very bytes, if it has one."""
        known = self._known.get((check, trees.files, read.ids))
        return known and replace(known, tree=read.after)

    async def run(
        self, check: Check, trees: Trees, tell: Tell = lambda result: None, *, patience: float | None = None
    ) -> Result:
        """Run a check, and if it fails, also on the workspace without the proposal.

        The result names the tree on which it was obtained. Where the files have changed while it ran there is no such
        tree: the result says what has changed, and is not remembered. Cancelled, it leaves no process.

        Args:
            check: Which.
            trees: What it is run on.
            tell: Takes how far it is.
            patience: Seconds that it waits for its turn behind others; None for as long as they take.

        Raises:
            OSError: The workspace can't be read.
            TimeoutError: It has not had its turn in that time.
        """
        async with self._in_turn(patience):
            read = await self.read(trees)
            if known := self.known(check, trees, read):
                return known
            with _ticking(Result(check.name, State.RUNNING, check.when), tell) as progress:
                outcome = await self._run_on(check, trees, progress)
                before = None
                if outcome.state is State.PASSED and outcome.seconds <= _QUICK:
                    tell(
                        Result(
                            check.name, State.PASSED, check.when, outcome, seconds=outcome.seconds, tree=read.after
                        )
                    )
                    before = await self._run_before(check, trees)
                if outcome.state is State.FAILED:
                    progress("the same without the proposal")
                    before = await self._run_before(check, trees)
                    outcome = replace(outcome, findings=compared(outcome.findings, before.findings))
            result = Result(check.name, outcome.state, check.when, outcome, before, "", outcome.seconds, read.after)
            now = await self.read(trees)
            if now.ids != read.ids:
                return result.outdated_by(now.after)
            # The names of all files are as many as the workspace has.
            self._known[check, trees.files, read.ids] = replace(result, tree=None)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            return result

    @asynccontextmanager
    async def _in_turn(self, patience: float | None) -> AsyncIterator[None]:
        async with asyncio.timeout(patience):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def forget(self, check: Check) -> None:
        """Have it run anew when it is wanted again."""
        for key in [key for key in self._known if key[0] == check]:
            del self._known[key]

    async def _run_on(self, check: Check, trees: Trees, progress: Callable[[str], None]) -> Outcome:
        files = files_for(check, trees.files) or ()
        return await run_on(self._sandbox(), self._root, check, trees.after, files, progress)

    async def _run_before(self, check: Check, trees: Trees) -> Outcome:
        files = files_for(check, trees.old_files)
        if files is None and names_files(check):
            # What it looked at was not there, so there was nothing wrong with it.
            return Outcome(State.PASSED)
        return await run_on(self._sandbox(), self._root, check, trees.before, files or (), lambda line: None)


@contextmanager
def _ticking(result: Result, tell: Tell) -> Iterator[Callable[[str], None]]:
    """Tell of a check while it runs, now and then; gives what takes the last line of its output."""
    loop, started, last = asyncio.get_running_loop(), time.monotonic(), ""
    timer: asyncio.Handle

    def take(line: str) -> None:
        nonlocal last
        last = line

    def tick() -> None:
        nonlocal timer
        tell(replace(result, progress=last, seconds=time.monotonic() - started))
        timer = loop.call_later(_TICK, tick)

    timer = loop.call_soon(tick)
    try:
        yield take
    finally:
        timer.cancel()
