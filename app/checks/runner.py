"""Runs checks one at a time, whoever wants them, and remembers what they came to."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from app.checks.findings import compared
from app.checks.results import Outcome, Result, State
from app.checks.running import files_for, names_files, run_on, why_not
from app.config.settings import Check
from app.proposals.trees import Trees
from app.sandbox.sandbox import Sandbox

_REMEMBERED = 500
"""Results."""
_QUICK = 3.0
"""Seconds; what passes within is run without the proposal, too, to tell what the proposal has mended."""
_TICK = 0.5
"""Seconds between two tellings of how far a check is."""

Tell = Callable[[Result], None]
"""Takes a result that is not final yet."""


class CheckRunner:
    """Of one workspace; to be used on one event loop."""

    def __init__(self, sandbox: Callable[[], Sandbox], root: Path) -> None:
        """`sandbox` gives the sandbox of the workspace, whose root is `root`."""
        self._sandbox = sandbox
        self._root = root
        self._turn = asyncio.Lock()
        self._known: OrderedDict[tuple[Check, str], Result] = OrderedDict()

    async def why_not(self) -> str:
        """Why checks can't be run here; empty if they can. Raises ConfigError."""
        return await why_not(self._sandbox())

    def known(self, check: Check, trees: Trees) -> Result | None:
        """What it came to before."""
        return self._known.get((check, trees.key))

    async def run(
        self, check: Check, trees: Trees, tell: Tell = lambda result: None, *, patience: float | None = None
    ) -> Result:
        """Run a check, and if it fails, also on the workspace without the proposal.

        Cancelled, it leaves no process.

        Args:
            check: Which.
            trees: What it is run on.
            tell: Takes how far it is.
            patience: Seconds that it waits for its turn behind others; None for as long as they take.

        Raises:
            TimeoutError: It has not had its turn in that time.
        """
        async with self._in_turn(patience):
            if known := self.known(check, trees):
                return known
            with _ticking(Result(check.name, State.RUNNING, check.when), tell) as progress:
                outcome = await self._run_on(check, trees, progress)
                before = None
                if outcome.state is State.PASSED and outcome.seconds <= _QUICK:
                    tell(Result(check.name, State.PASSED, check.when, outcome, seconds=outcome.seconds))
                    before = await self._run_before(check, trees)
                if outcome.state is State.FAILED:
                    progress("the same without the proposal")
                    before = await self._run_before(check, trees)
                    outcome = replace(outcome, findings=compared(outcome.findings, before.findings))
            result = Result(check.name, outcome.state, check.when, outcome, before, seconds=outcome.seconds)
            self._known[check, trees.key] = result
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

    def forget(self, check: Check, trees: Trees) -> None:
        """Have it run anew when it is wanted again."""
        self._known.pop((check, trees.key), None)

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
