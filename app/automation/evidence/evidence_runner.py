"""Runs tests on layers with a proposal but without one of its hunks, to find hunks that no test notices."""

import asyncio
import shlex
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from app.automation.check_results import CheckRunResult, CheckState
from app.automation.check_runner import (
    CheckRunner,
    all_tests_placeholder_arguments,
    files_for_check,
    quote_names_for_shell,
    run_check,
)
from app.automation.evidence.ablation_plan import AblationPlan, HunkGroup, HunkThatChangesTests, plan_ablation
from app.automation.evidence.proposal_evidence import NO_TIME_LEFT, ProposalTestEvidence
from app.automation.evidence.relevant_tests import TestRunner, TestSelection, TestSelector, detect_test_runner
from app.automation.evidence.suite_outcome import PYTEST_REPORT_PATH, SuiteOutcome, read_suite_outcome
from app.automation.tool_reports import MAX_REPORT_BYTES
from app.automation.workspace_tree import WorkspaceTreeSnapshot
from app.config.config_tables import TESTS
from app.config.settings import CheckTable
from app.copies import replace
from app.proposals.decide.decision_outcomes import make_decision_scope
from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
from app.proposals.proposal_service import ProposalService
from app.proposals.risk.edited_file import is_test_or_test_data
from app.proposals.values.decision_facts import HunkTestEvidence, HunkTestVerdict
from app.proposals.values.models import FileDiff, Hunk, Proposal
from app.sandbox.captured_changes import PendingFiles
from app.sandbox.confinement import ChangedByCommandAndOtherProgram, SandboxedWorkspace
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace

_MAX_CACHED_OUTCOMES = 500
"""Number of cached outcomes."""
_MAX_REPEATED_TESTS = 20
"""Maximum number of failing tests that run a second time."""
_MAX_FAILURES = 10
"""Failures after which pytest ends if a hunk is left out: one is enough, and if ten tests fail, all may."""
_MAX_NAMED_TESTS = 3
"""Number of tests that a mark names."""
_TIME_LIMIT_FACTOR = 5
"""Time limit without a hunk, as a multiple of the time with the whole proposal: the hunk may end a loop."""
_MIN_LIMIT_SECONDS = 20.0
"""Minimum time limit in seconds."""
_MIN_REMAINING_PART = 0.5
"""A run is started only if this part of the time of the whole proposal's run is left."""

ReportEvidence = Callable[[ProposalTestEvidence], None]
"""Receives the evidence found so far."""
_OutcomeKey = tuple[str, tuple[str, ...] | None, str, str]


class FilesChangedDuringTests(Exception):
    """Files changed while the tests ran: the results are not valid for the proposal."""


class _TimeLimitReached(Exception):
    """The time limit is reached."""


class _EvidenceSearch(Struct):
    """The search for evidence about one proposal."""

    proposal: Proposal
    check: CheckTable
    diffs: Sequence[FileDiff]
    hunks: frozenset[str]
    """Ids of the chosen hunks."""
    whole: frozenset[str]
    """Paths of the files that are chosen as a whole."""
    plan: AblationPlan
    budget: float
    tell: ReportEvidence
    found: ProposalTestEvidence
    wait_for_quiet: Callable[[], Awaitable[None]] | None = None
    baseline: SuiteOutcome = field(default_factory=lambda: SuiteOutcome(True))
    selections: dict[frozenset[str], TestSelection] = field(default_factory=dict)
    """Tests of each group, by the ids of its hunks."""
    baseline_selection: TestSelection = field(default_factory=TestSelection)
    """All tests that ran with the whole proposal."""
    seconds: float = 0.0

    def publish(self, *, is_running: bool = True) -> None:
        """Publish the evidence found so far."""
        hunks = {test.hunk.id for test in self.plan.tests}.union(*(group.hunk_ids for group in self.plan.groups))
        left = len(hunks - self.found.marks.keys())
        self.found = replace(self.found, seconds=self.seconds, left=left, is_running=is_running)
        self.tell(self.found)

    def mark(
        self, path: str, hunks: Sequence[Hunk], verdict: HunkTestVerdict, tests: Sequence[str] = (), reason: str = ""
    ) -> None:
        """Record the verdict on hunks that were left out together."""
        numbers = [hunk.number for hunk in hunks]
        new = {
            hunk.id: HunkTestEvidence(
                path=path,
                hunk=hunk.number,
                verdict=verdict,
                tests=tuple(tests[:_MAX_NAMED_TESTS]),
                count=len(tests),
                together=tuple(number for number in numbers if number != hunk.number),
                reason=reason,
            )
            for hunk in hunks
        }
        self.found = replace(self.found, marks={**self.found.marks, **new})


class EvidenceStorePort(Protocol):
    """Stores evidence by proposal; implemented by `app.review.review_stores.ProposalEvidenceStore`."""

    def save(self, found: ProposalTestEvidence, waiting: Collection[str]) -> None:
        """Store the evidence, and remove that of proposals that are not in `waiting`."""
        ...

    def load(self, proposal_id: str) -> ProposalTestEvidence | None:
        """Return the stored evidence, even if it is outdated; None if there is none."""
        ...


class HunkTestEvidenceCollector:
    """Runs tests without each hunk of a proposal, and stores which hunks they notice; for one event loop.

    Args:
        checks: Runs all tests, one run at a time, after all checks.
        service: Provides the proposals.
        store: Stores evidence for other processes and later starts.
    """

    def __init__(
        self, checks: CheckRunner, service: ProposalService, workspace: Workspace, store: EvidenceStorePort
    ) -> None:
        self._checks = checks
        self._service = service
        self._workspace = workspace
        self._kept = store
        self._cached_outcomes: OrderedDict[_OutcomeKey, SuiteOutcome] = OrderedDict()

    async def collect_evidence(
        self,
        proposal_id: str,
        chosen: Collection[str] | None,
        check: CheckTable,
        seconds: float,
        report: ReportEvidence = lambda found: None,
        wait_for_quiet: Callable[[], Awaitable[None]] | None = None,
    ) -> ProposalTestEvidence:
        """Run tests without each hunk of a pending proposal. A cancellation leaves no process running.

        Outcomes for the same content are cached, so a second call continues where the first one reached its time
        limit.

        Args:
            chosen: The hunks that an approval would name; None for all pending hunks.
            check: The check whose tests run.
            seconds: Time limit of all test runs together.
            report: Receives the evidence after each step.
            wait_for_quiet: Awaited before each test run; returns once the user pauses.

        Raises:
            ProposalError: It is not pending, or has no such hunk.
            FilesChangedDuringTests: The workspace changed meanwhile.
            OSError: The workspace can't be read.
        """
        search = await asyncio.to_thread(self._prepare_search, proposal_id, chosen, check, seconds, report)
        search.wait_for_quiet = wait_for_quiet
        if not search.plan.groups and not search.plan.tests:
            return search.found
        if why_not := await self._checks.unavailable_reason():
            search.found = replace(search.found, why_not=why_not)
            return search.found
        search.publish()
        try:
            if await self._run_whole_proposal(search):
                await self._try_without_code(search)
                for group in search.plan.groups:
                    await self._try_without_group(search, group)
                await self._try_without_all(search)
        except _TimeLimitReached:
            pass
        self._mark_untested(search, NO_TIME_LEFT)
        search.publish(is_running=False)
        waiting = [proposal.id for proposal in await asyncio.to_thread(self._service.pending)]
        await asyncio.to_thread(self._kept.save, search.found, waiting)
        return search.found

    async def load_current_evidence(
        self, proposal_id: str, chosen: Collection[str] | None
    ) -> ProposalTestEvidence | None:
        """Return the stored evidence, if it matches exactly the content that an approval of these hunks would leave
        now.

        Args:
            proposal_id: Id of a pending proposal.
            chosen: The hunks that the approval would name; None for all pending hunks.

        Raises:
            ProposalError: It is not pending, or has no such hunk.
            OSError: The workspace can't be read.
        """
        if (found := await asyncio.to_thread(self._kept.load, proposal_id)) is None:
            return None
        choice = make_decision_scope(await asyncio.to_thread(self._service.get, proposal_id), chosen)
        is_same = found.chosen == choice.hunks | choice.paths and await self.is_current(found)
        return found if is_same else None

    async def is_current(self, evidence: ProposalTestEvidence) -> bool:
        """Return whether an approval of the same hunks would leave the content that was tested.

        Raises:
            ProposalError: The proposal is no longer pending.
            OSError: The workspace can't be read.
        """
        proposal = await asyncio.to_thread(self._service.get, evidence.proposal)
        if proposal.revision != evidence.revision:
            return False
        tree = await asyncio.to_thread(self._service.overlay_with_hunks, evidence.proposal, evidence.chosen)
        return (await self._read_tree(tree)).id == evidence.tree

    def _prepare_search(
        self,
        proposal_id: str,
        chosen: Collection[str] | None,
        check: CheckTable,
        seconds: float,
        tell: ReportEvidence,
    ) -> _EvidenceSearch:
        proposal = self._service.get(proposal_id)
        choice = make_decision_scope(proposal, chosen)
        diffs = self._service.file_diffs(proposal_id)
        plan = plan_ablation(diffs, choice.hunks)
        found = ProposalTestEvidence(proposal_id, proposal.revision, choice.hunks | choice.paths, check.name)
        search = _EvidenceSearch(proposal, check, diffs, choice.hunks, choice.paths, plan, seconds, tell, found)
        texts = {diff.change.path: None if diff.change.result is None else "\n".join(diff.new) for diff in diffs}
        texts |= {diff.change.old_path: None for diff in diffs if diff.change.old_path}
        selector = TestSelector(self._workspace, check, texts)
        for group in plan.groups:
            lines = {line for hunk in group.hunks for line in _lines_on_disk(hunk)}
            search.selections[group.hunk_ids] = selector.select([group.path], {group.path: lines})
        return search

    async def _run_whole_proposal(self, search: _EvidenceSearch) -> bool:
        """Run all selected tests with the whole proposal; return whether the result can be compared."""
        selections = [*search.selections.values()]
        changed = _test_files(search.plan.tests)
        whole = selections[0] if selections else _changed_files(search.check, changed)
        for selection in selections[1:]:
            whole = whole.union(selection)
        if changed and whole.names is not None:
            whole = replace(whole.union(_changed_files(search.check, changed)), words=whole.words)
        tree = await asyncio.to_thread(
            self._service.overlay_with_hunks, search.proposal.id, search.hunks | search.whole
        )
        baseline = await self._run_tests(search, whole, tree)
        if baseline.broken and not baseline.test_count and (files := whole.to_whole_files()) is not None:
            # A recorded test may have been removed: then the runner rejects all names.
            search.selections = {ids: each.to_whole_files() or each for ids, each in search.selections.items()}
            whole = files
            baseline = await self._run_tests(search, whole, tree)
        if baseline.is_empty and whole.names is not None:
            # The runner finds no related test, so run all.
            whole = TestSelection()
            search.selections = dict.fromkeys(search.selections, whole)
            baseline = await self._run_tests(search, whole, tree)
        search.baseline, search.baseline_selection = baseline, whole
        words = ", ".join(filter(None, (whole.words, baseline.load_errors_text)))
        search.found = replace(search.found, selection=words, tests=baseline.test_count)
        problem = baseline.problem
        if not problem and baseline.broken and not baseline.passed:
            problem = "the tests do not load with the proposal"
        if not problem and baseline.is_empty:
            problem = "no test was found"
        if not problem and not baseline.named and not baseline.ok:
            problem = "the check fails with the proposal"
        if not problem and baseline.named and not baseline.passed:
            problem = "no test passes with the proposal"
        if problem:
            self._mark_untested(search, problem)
        search.publish()
        return not problem

    async def _try_without_code(self, search: _EvidenceSearch) -> None:
        """Run the tests that the proposal adds or changes without its code."""
        changed, code = search.plan.tests, {hunk for group in search.plan.groups for hunk in group.hunk_ids}
        if not changed:
            return
        if not code:
            for each in changed:
                search.mark(each.path, [each.hunk], HunkTestVerdict.NOT_RUN, reason="no code changes with it")
            return
        selection = _changed_files(search.check, _test_files(changed))
        tests = {hunk.id for diff in search.diffs for hunk in diff.change.hunks if hunk.id in search.hunks - code}
        tests |= {path for path in search.whole if is_test_or_test_data(path)}
        tree = await asyncio.to_thread(self._service.overlay_with_hunks, search.proposal.id, tests)
        outcome = await self._run_tests(search, selection, tree)
        new = outcome.new_failures(search.baseline)
        again = await self._repeat_failed_tests(search, selection, tree, new) if new else ()
        for each in changed:
            ids = each.matching_ids(new)
            if outcome.problem:
                search.mark(each.path, [each.hunk], HunkTestVerdict.NOT_RUN, reason=outcome.problem)
            elif each.path in outcome.broken or (outcome.broken and not ids):
                search.mark(each.path, [each.hunk], HunkTestVerdict.RED, reason="it does not load")
            elif red := [test for test in ids if test in again]:
                search.mark(each.path, [each.hunk], HunkTestVerdict.RED, red)
            elif ids:
                search.mark(each.path, [each.hunk], HunkTestVerdict.FLAKY, ids)
            elif search.baseline.named and not each.matching_ids(search.baseline.passed):
                search.mark(each.path, [each.hunk], HunkTestVerdict.NOT_RUN, reason="it does not pass, or is skipped")
            else:
                search.mark(each.path, [each.hunk], HunkTestVerdict.GREEN)
        search.publish()

    async def _try_without_group(self, search: _EvidenceSearch, group: HunkGroup) -> None:
        """Run the tests without some hunks, and mark these."""
        selection = search.selections[group.hunk_ids]
        tree = await self._tree_without(search, group.hunk_ids)
        outcome = await self._run_tests(search, selection, tree)
        if outcome.is_empty:
            # No test is related to this file: run the tests that are related to the others.
            selection = search.baseline_selection
            outcome = await self._run_tests(search, selection, tree)
        new = outcome.new_failures(search.baseline)
        if outcome.problem:
            search.mark(group.path, group.hunks, HunkTestVerdict.NOT_RUN, reason=outcome.problem)
        elif outcome.has_only_load_failures(search.baseline):
            search.mark(group.path, group.hunks, HunkTestVerdict.LOAD)
        elif not new:
            search.mark(group.path, group.hunks, HunkTestVerdict.UNNOTICED)
        elif again := await self._repeat_failed_tests(search, selection, tree, new):
            search.mark(group.path, group.hunks, HunkTestVerdict.HELD, again)
        else:
            search.mark(group.path, group.hunks, HunkTestVerdict.FLAKY, new)
        search.publish()

    async def _try_without_all(self, search: _EvidenceSearch) -> None:
        """Leave out hunks together that are only needed to load: one may be the import that another needs."""
        loads: dict[str, list[HunkGroup]] = {}
        for group in search.plan.groups:
            if all(search.found.marks[hunk].verdict is HunkTestVerdict.LOAD for hunk in group.hunk_ids):
                loads.setdefault(group.path, []).append(group)
        for path, groups in loads.items():
            if len(groups) < 2:
                continue
            joined = HunkGroup(path, tuple(hunk for group in groups for hunk in group.hunks))
            selection = search.selections[groups[0].hunk_ids]
            for group in groups[1:]:
                selection = selection.union(search.selections[group.hunk_ids])
            search.selections[joined.hunk_ids] = selection
            before = search.found
            await self._try_without_group(search, joined)
            if search.found.marks[groups[0].hunks[0].id].verdict in (HunkTestVerdict.LOAD, HunkTestVerdict.NOT_RUN):
                search.found = replace(search.found, marks=before.marks)

    async def _tree_without(self, search: _EvidenceSearch, out: Collection[str]) -> PendingFiles:
        chosen = (search.hunks - frozenset(out)) | search.whole
        return await asyncio.to_thread(self._service.overlay_with_hunks, search.proposal.id, chosen)

    def _mark_untested(self, search: _EvidenceSearch, reason: str) -> None:
        """Mark hunks without a verdict as not run."""
        for group in search.plan.groups:
            if not group.hunk_ids & search.found.marks.keys():
                search.mark(group.path, group.hunks, HunkTestVerdict.NOT_RUN, reason=reason)
        for test in search.plan.tests:
            if test.hunk.id not in search.found.marks:
                search.mark(test.path, [test.hunk], HunkTestVerdict.NOT_RUN, reason=reason)

    # Runs

    async def _repeat_failed_tests(
        self, search: _EvidenceSearch, selection: TestSelection, tree: PendingFiles, failed: Sequence[str]
    ) -> tuple[str, ...]:
        """Run failed tests a second time; return those that fail again."""
        can_name = detect_test_runner(search.check.run) is TestRunner.PYTEST and selection.names is not None
        if can_name and all("::" in test for test in failed[:_MAX_REPEATED_TESTS]):
            selection = TestSelection(tuple(failed[:_MAX_REPEATED_TESTS]))
        outcome = await self._run_tests(search, selection, tree, again=True)
        return tuple(test for test in failed if test in outcome.failed)

    async def _run_tests(
        self, search: _EvidenceSearch, selection: TestSelection, tree: PendingFiles, *, again: bool = False
    ) -> SuiteOutcome:
        """Run tests on a tree; return the cached outcome for the same content unless `again`."""
        read = await self._read_tree(tree)
        key = (search.check.run, selection.names, read.commit, read.id)
        is_whole = read.id == search.found.tree or not search.found.tree
        if not search.found.tree:
            search.found = replace(search.found, tree=read.id)
        kept = None if again else self._cached_outcomes.get(key)
        if kept is not None:
            return kept
        left = search.budget - search.seconds
        if left <= max(_MIN_REMAINING_PART * search.baseline.seconds * (not again), 0):
            raise _TimeLimitReached
        longest = search.check.seconds
        if search.baseline.seconds:
            longest = min(longest, max(_TIME_LIMIT_FACTOR * search.baseline.seconds, _MIN_LIMIT_SECONDS))
        seconds = min(longest, left)
        report = b""

        async def run(sandbox: Sandbox, root: Path) -> CheckRunResult:
            nonlocal report

            def leave(written: SandboxedWorkspace) -> None:
                nonlocal report
                with suppress(OSError, ChangedByCommandAndOtherProgram):
                    leaf = written.read_change(PYTEST_REPORT_PATH, MAX_REPORT_BYTES).after
                    report = leaf.data if leaf is not None and not leaf.is_link else b""

            report = b""
            files = [change.path for change in search.proposal.files if tree.get(change.path, True) is not None]
            chosen = files_for_check(search.check, files) or ()
            command = _test_command(search.check, selection, root, 0 if is_whole else _MAX_FAILURES)
            timed = search.check.model_copy(update={"run": command, "seconds": seconds})
            return await run_check(sandbox, root, timed, tree, chosen, lambda line: None, leave, when_idle=True)

        if search.wait_for_quiet is not None:
            await search.wait_for_quiet()
        ended = await self._checks.run_at_low_priority(run)
        search.seconds += ended.seconds
        outcome = read_suite_outcome(ended, report)
        if ended.state is CheckState.TIMED_OUT and seconds < longest:
            raise _TimeLimitReached
        if (await self._read_tree(tree)).id != read.id:
            raise FilesChangedDuringTests("files changed while the tests ran")
        if not again:
            self._cached_outcomes[key] = outcome
            while len(self._cached_outcomes) > _MAX_CACHED_OUTCOMES:
                self._cached_outcomes.popitem(last=False)
        return outcome

    async def _read_tree(self, tree: PendingFiles) -> WorkspaceTreeSnapshot:
        return (await self._checks.read_trees(FilesToCheckBeforeAndAfter(tree, {}, (), ()))).after


def _lines_on_disk(hunk: Hunk) -> range:
    """Return the line numbers, from 1, that a hunk replaces, or those on both sides of an insertion."""
    if hunk.old_count:
        return range(hunk.old_start + 1, hunk.old_start + hunk.old_count + 1)
    return range(hunk.old_start, hunk.old_start + 2)


def _test_files(tests: Sequence[HunkThatChangesTests]) -> tuple[str, ...]:
    return tuple(sorted({test.path for test in tests}))


def _changed_files(check: CheckTable, paths: Sequence[str]) -> TestSelection:
    """Return the selection of the test files that a proposal changes."""
    if TESTS not in check.run or detect_test_runner(check.run) in (TestRunner.OTHER, TestRunner.GO):
        return TestSelection(all_tests_placeholder_arguments(check.run) or None)
    if detect_test_runner(check.run) is TestRunner.VITEST:
        return TestSelection(("--run", *paths), "the tests that it changes")
    return TestSelection(tuple(paths), "the tests that it changes")


def _test_command(check: CheckTable, selection: TestSelection, root: Path, most: int) -> str:
    """Return the command with its tests.

    pytest writes a report that names each test, continues if a file does not load, and ends after `most` failures.
    """
    names = all_tests_placeholder_arguments(check.run) if selection.names is None else selection.names
    options = f"{shlex.quote(f'--junitxml={root / PYTEST_REPORT_PATH}')} -o junit_family=xunit1"
    options += f" --continue-on-collection-errors --maxfail={most}"
    ask = f'export PYTEST_ADDOPTS="${{PYTEST_ADDOPTS:-}} "{shlex.quote(options)}'
    return f"{ask}\n{check.run.replace(TESTS, quote_names_for_shell(names))}"
