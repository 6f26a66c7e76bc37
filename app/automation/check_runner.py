"""Runs checks one at a time and caches their results by content."""

import asyncio
import errno
import re
import shlex
import shutil
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from app.automation.check_results import (
    CheckRunResult,
    CheckState,
    ProposalCheckResult,
    count_failures,
    mark_new_findings,
    parse_findings,
)
from app.automation.tool_reports import ChangedLineCoverage, read_changed_line_coverage
from app.automation.workspace_tree import WorkspaceTreeReader, WorkspaceTreeSnapshot
from app.config.config_tables import FILES, TESTS
from app.config.settings import CheckTable
from app.copies import replace
from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
from app.sandbox.captured_changes import PendingFiles
from app.sandbox.confinement import CommandWriteMode, SandboxedWorkspace
from app.sandbox.process import ProcessExit, StartFailed, run_shielded
from app.sandbox.sandbox import Sandbox
from app.text.quantities import format_count
from app.tools.command.command_result import HeadAndTailBuffer, PlainTextDecoder
from app.workspace.ignore import FolderIgnorePatterns, compile_ignore_patterns
from app.workspace.paths import Workspace

_NICENESS = 10
_SHELL_ERROR_CODES = {126: "not executable", 127: "command not found"}
"""Meaning of the exit codes that a shell returns itself."""


def files_for_check(check: CheckTable, files: Sequence[str]) -> tuple[str, ...] | None:
    """Return the files of a proposal that a check covers; None if it does not cover the proposal."""
    rules = FolderIgnorePatterns(compile_ignore_patterns("\n".join(check.files)))
    chosen = tuple(path for path in files if not check.files or rules.verdict(path, path.rpartition("/")[2], False))
    # Without a file name, a tool would check all files.
    return chosen if chosen or not (check.files or command_takes_files(check)) else None


def command_takes_files(check: CheckTable) -> bool:
    """Return whether the check's command takes file names."""
    return FILES in check.run


async def checks_unavailable_reason(sandbox: Sandbox) -> str:
    """Return why checks cannot run here; empty if they can."""
    probe = await sandbox.probe()
    return f"checks need a layer over the files: {probe.why_not}" if probe.mode is CommandWriteMode.IN_PLACE else ""


_GO_TEST = re.compile(r"\bgo test\b|\bgotestsum\b")


def all_tests_placeholder_arguments(command: str) -> tuple[str, ...]:
    """Return the arguments that replace `{tests}` in a command for a run of all tests."""
    return ("./...",) if _GO_TEST.search(command) else ()


def quote_names_for_shell(names: Iterable[str]) -> str:
    """Return names as words of a shell command; none of them contains a placeholder such as `{tests}`."""
    # `shlex` puts names with braces between single quotes, so that two more of them change nothing.
    return shlex.join(names).replace("{", "{''")


async def run_check(
    sandbox: Sandbox,
    root: Path,
    check: CheckTable,
    tree: PendingFiles,
    files: Sequence[str],
    progress: Callable[[str], None],
    read_artifacts: Callable[[SandboxedWorkspace], None] = lambda run: None,
    *,
    when_idle: bool = False,
) -> CheckRunResult:
    """Run a check on one tree.

    Args:
        files: The value of `{files}`.
        progress: Receives the last line of the output whenever it grows.
        read_artifacts: Reads files that the command wrote, on a thread, before they are removed.
        when_idle: Use processor time only while no other process needs it, if the system supports this.
    """
    if reason := await checks_unavailable_reason(sandbox):
        # In place, it would run on the user's own files instead of the proposal.
        return CheckRunResult(CheckState.BROKEN, reason=reason)
    plain, kept = PlainTextDecoder(), HeadAndTailBuffer()

    def take(data: bytes) -> None:
        text = plain.feed(data)
        kept.feed(text)
        if line := text.strip().rpartition("\n")[2].rpartition("\r")[2].strip():
            progress(line[:200])

    command = check.run.replace(
        FILES, quote_names_for_shell([f"./{path}" if path.startswith("-") else path for path in files])
    )
    command = command.replace(TESTS, quote_names_for_shell(all_tests_placeholder_arguments(command)))
    try:
        async with sandbox.open_run(tree) as run:
            ended = await run.execute(
                [*_priority_command(when_idle), "/bin/sh", "-c", command],
                folder=".",
                seconds=check.seconds,
                output=take,
            )
            await run_shielded(asyncio.to_thread(read_artifacts, run))
    except (StartFailed, OSError) as error:
        reason = f"could not be run: {error}"
        if command_takes_files(check) and getattr(error.__cause__, "errno", None) == errno.E2BIG:
            names = f"the names of {format_count(len(files), 'file')}"
            reason = f"too long with {names}: narrow `files`, or leave {FILES} out of `run`"
        return CheckRunResult(CheckState.BROKEN, reason=reason)
    kept.feed(plain.feed(b"", final=True))
    return _make_outcome(ended, kept.text(), root)


def _make_outcome(ended: ProcessExit, output: str, root: Path) -> CheckRunResult:
    if ended.limit:
        return CheckRunResult(CheckState.BROKEN, ended.code, ended.seconds, output, reason=f"stopped: {ended.limit}")
    if ended.timed_out:
        return CheckRunResult(CheckState.TIMED_OUT, ended.code, ended.seconds, output, parse_findings(output, root))
    if ended.code == 0:
        return CheckRunResult(CheckState.PASSED, 0, ended.seconds, output)
    if reason := _SHELL_ERROR_CODES.get(ended.code):
        return CheckRunResult(CheckState.BROKEN, ended.code, ended.seconds, output, reason=reason)
    return CheckRunResult(
        CheckState.FAILED, ended.code, ended.seconds, output, parse_findings(output, root), count_failures(output)
    )


def _priority_command(when_idle: bool) -> list[str]:
    """Return the command prefix that lowers the priority; empty if the system has no such command."""
    nice, chrt = (shutil.which(name, path="/usr/bin:/bin") for name in ("nice", "chrt"))
    if when_idle and chrt:
        return [chrt, "--idle", "0"]
    return [nice, "-n", str(_NICENESS)] if nice else []


_MAX_CACHED_RESULTS = 500
"""Number of cached results."""
_QUICK_SECONDS = 3.0
"""Seconds; a check that passes within them also runs without the proposal, to show whether the proposal fixes it."""
_PROGRESS_SECONDS = 0.5
"""Seconds between two progress reports."""

_Result = TypeVar("_Result")
ReportResult = Callable[[ProposalCheckResult], None]
"""Receives an unfinished result."""


class TreesWithAndWithoutProposal(Struct, frozen=True):
    """The workspace's tree with and without a proposal, whose results a check compares."""

    after: WorkspaceTreeSnapshot
    before: WorkspaceTreeSnapshot

    @property
    def ids(self) -> tuple[str, str, str]:
        """Return the HEAD commit and the ids of both trees."""
        return self.after.commit, self.after.id, self.before.id


class CheckRunner:
    """Runs the checks of one workspace; for one event loop."""

    def __init__(self, sandbox: Callable[[], Sandbox], workspace: Workspace) -> None:
        self._sandbox = sandbox
        self._root = workspace.root
        self._trees = WorkspaceTreeReader(workspace)
        self._turn_lock = asyncio.Lock()
        self._low_priority_work: asyncio.Future[Any] | None = None
        """Work that holds `_turn_lock` only until a check needs it."""
        self._cached_results: OrderedDict[
            tuple[CheckTable, tuple[str, ...], tuple[str, str, str]], ProposalCheckResult
        ] = OrderedDict()

    @property
    def sandbox(self) -> Sandbox:
        """Return the sandbox in which checks run. Raises ConfigError."""
        return self._sandbox()

    async def unavailable_reason(self) -> str:
        """Return why checks cannot run here; empty if they can. Raises ConfigError."""
        return await checks_unavailable_reason(self._sandbox())

    async def read_trees(self, versions: FilesToCheckBeforeAndAfter) -> TreesWithAndWithoutProposal:
        """Return the trees that a check would compare now. Raises OSError."""
        return TreesWithAndWithoutProposal(
            *await asyncio.to_thread(self._trees.read_trees, versions.after, versions.before)
        )

    def cached_result(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, checked_trees: TreesWithAndWithoutProposal
    ) -> ProposalCheckResult | None:
        """Return the cached result for these exact contents; None if there is none."""
        known = self._cached_results.get((check, trees.files, checked_trees.ids))
        return known and replace(known, tree=checked_trees.after, hunks=trees.hunks)

    async def run_check(
        self,
        check: CheckTable,
        trees: FilesToCheckBeforeAndAfter,
        report: ReportResult = lambda result: None,
        *,
        max_wait_seconds: float | None = None,
    ) -> ProposalCheckResult:
        """Run a check; if it fails or passes quickly, run it on the workspace without the proposal as well.

        The result names the tree that was checked. If the files changed while the check ran, no tree matches: the
        result is marked as outdated and not cached. A cancellation leaves no process running.

        Args:
            trees: The workspace with and without the proposal.
            report: Receives the progress.
            max_wait_seconds: Seconds to wait for earlier checks; None waits without limit.

        Raises:
            OSError: The workspace can't be read.
            TimeoutError: Earlier checks took longer than `max_wait_seconds`.
        """
        async with self._hold_turn(max_wait_seconds):
            read = await self.read_trees(trees)
            if known := self.cached_result(check, trees, read):
                return known
            before = None
            with _report_progress(
                ProposalCheckResult(check.name, CheckState.RUNNING, check.when), report
            ) as progress:
                outcome = await self._run_on(check, trees, progress)
                if outcome.state is CheckState.FAILED:
                    progress("the same without the proposal")
                    before = await self._run_before(check, trees)
                    outcome = replace(outcome, findings=mark_new_findings(outcome.findings, before.findings))
            result = ProposalCheckResult(
                check.name,
                outcome.state,
                check.when,
                outcome,
                before,
                seconds=outcome.seconds,
                tree=read.after,
                hunks=trees.hunks,
            )
            if outcome.state is CheckState.PASSED and outcome.seconds <= _QUICK_SECONDS:
                # Report this result already: a decision made while the check runs without the proposal uses it.
                report(result)
                result = replace(result, before=await self._run_before(check, trees))
            now = await self.read_trees(trees)
            if now.ids != read.ids:
                return result.as_outdated(now.after)
            # Don't cache the tree, which has an entry for each file.
            self._cached_results[check, trees.files, read.ids] = replace(result, tree=None, hunks={})
            while len(self._cached_results) > _MAX_CACHED_RESULTS:
                self._cached_results.popitem(last=False)
            return result

    async def run_at_low_priority(self, work: Callable[[Sandbox, Path], Awaitable[_Result]]) -> _Result:
        """Do work while no check runs; if a check has to run, cancel the work, and start it again later.

        Args:
            work: Takes the sandbox and the root of the workspace; may be called several times.
        """
        while True:
            async with self._turn_lock:
                self._low_priority_work = task = asyncio.ensure_future(work(self._sandbox(), self._root))
                try:
                    await asyncio.wait({task})
                finally:
                    self._low_priority_work = None
                    if not task.done():
                        task.cancel()
                        await asyncio.wait({task})
            if not task.cancelled():
                return task.result()

    @asynccontextmanager
    async def _hold_turn(self, max_wait_seconds: float | None) -> AsyncIterator[None]:
        if self._low_priority_work is not None:
            self._low_priority_work.cancel()
        async with asyncio.timeout(max_wait_seconds):
            await self._turn_lock.acquire()
        try:
            yield
        finally:
            self._turn_lock.release()

    def forget_results(self, check: CheckTable) -> None:
        """Remove a check's cached results."""
        for key in [key for key in self._cached_results if key[0] == check]:
            del self._cached_results[key]

    async def _run_on(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, progress: Callable[[str], None]
    ) -> CheckRunResult:
        files = files_for_check(check, trees.files) or ()
        coverage: ChangedLineCoverage | None = None

        def leave(run: SandboxedWorkspace) -> None:
            nonlocal coverage
            coverage = read_changed_line_coverage(run, check.coverage, trees, self._root)

        outcome = await run_check(self._sandbox(), self._root, check, trees.after, files, progress, leave)
        ended = outcome.state in (CheckState.PASSED, CheckState.FAILED)
        return replace(outcome, coverage=coverage) if ended else outcome

    async def _run_before(self, check: CheckTable, trees: FilesToCheckBeforeAndAfter) -> CheckRunResult:
        files = files_for_check(check, trees.old_files)
        if files is None and command_takes_files(check):
            # Without the proposal there is no file to check, so nothing can fail.
            return CheckRunResult(CheckState.PASSED)
        return await run_check(self._sandbox(), self._root, check, trees.before, files or (), lambda line: None)


@contextmanager
def _report_progress(result: ProposalCheckResult, tell: ReportResult) -> Iterator[Callable[[str], None]]:
    """Report the progress of a check every half second; yield a function that takes the last output line."""
    loop, started, last = asyncio.get_running_loop(), time.monotonic(), ""
    timer: asyncio.Handle

    def take(line: str) -> None:
        nonlocal last
        last = line

    def tick() -> None:
        nonlocal timer
        tell(replace(result, progress=last, seconds=time.monotonic() - started))
        timer = loop.call_later(_PROGRESS_SECONDS, tick)

    timer = loop.call_soon(tick)
    try:
        yield take
    finally:
        timer.cancel()
