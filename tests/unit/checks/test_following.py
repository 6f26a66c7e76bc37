"""No approval goes past a check that was to say something first."""

import asyncio
from typing import Any

import pytest

from app.automation import check_scheduler
from app.automation.check_results import CheckRunResult, CheckState, ProposalCheckResult, ProposalChecks
from app.automation.check_runner import ReportResult, TreesWithAndWithoutProposal
from app.automation.check_scheduler import CheckScheduler
from app.automation.draft_checks import DraftCheckRunner
from app.automation.workspace_tree import WorkspaceTreeSnapshot
from app.config.settings import CheckTable
from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
from app.proposals.values.models import FileChange, FileOperation, Proposal, ProposalState
from app.storage import StorageError

CHECK = CheckTable(name="tests", run="true", when="approve")
PROPOSAL = Proposal(
    id="P1",
    workspace="/w",
    created=0.0,
    summary="Change a",
    state=ProposalState.PENDING,
    files=(FileChange(path="a.py", op=FileOperation.EDIT, base=None, result=None, added=1, removed=1),),
)


READ = TreesWithAndWithoutProposal(WorkspaceTreeSnapshot("c", "after"), WorkspaceTreeSnapshot("c", "before"))


def everything(proposal: Proposal) -> None:
    """The hunks that are chosen: all."""


def some_trees(proposal: str, hunks: object = None) -> FilesToCheckBeforeAndAfter:
    return FilesToCheckBeforeAndAfter(after={}, before={}, files=("a.py",), old_files=("a.py",))


class Endless:
    """A runner whose checks run until they are cancelled, and tell how far they are even then."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.results: dict[str, ProposalCheckResult] = {}

    def cached_result(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, read: TreesWithAndWithoutProposal
    ) -> ProposalCheckResult | None:
        return self.results.get(check.name)

    async def read_trees(self, trees: FilesToCheckBeforeAndAfter) -> TreesWithAndWithoutProposal:
        return READ

    async def unavailable_reason(self) -> str:
        return ""

    async def run_check(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, tell: ReportResult
    ) -> ProposalCheckResult:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            tell(ProposalCheckResult(check.name, CheckState.RUNNING, check.when))
        raise AssertionError


@pytest.fixture
async def runner() -> Any:
    return Endless()


@pytest.fixture
async def following(runner: Any) -> CheckScheduler:
    return CheckScheduler(runner, lambda: (CHECK,), some_trees, everything, lambda checked: None)


@pytest.mark.parametrize("by_the_user", [True, False], ids=["by the user", "by the end"])
async def test_an_immediate_approval_waits_for_a_check_and_stops_when_it_is_ended(
    runner: Any, following: CheckScheduler, by_the_user: bool
) -> None:
    following.update_proposals([PROPOSAL], "P1")
    approving = asyncio.create_task(following.run_before_approval("P1", 1, None))
    running = asyncio.create_task(runner.running.wait())
    await asyncio.wait([approving, running], return_when="FIRST_COMPLETED")
    assert running.done() and not approving.done()
    if by_the_user:
        assert following.start_or_stop("P1")
    else:
        await following.close()
    assert [(result.name, result.state) for result in await approving] == [("tests", CheckState.CANCELLED)]
    await following.close()


class Brief(Endless):
    """A runner that comes to something at once."""

    def __init__(self, outcome: CheckRunResult, obstacle: str = "") -> None:
        super().__init__()
        self._outcome = outcome
        self._why_not = obstacle

    async def unavailable_reason(self) -> str:
        return self._why_not

    async def run_check(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, tell: ReportResult
    ) -> ProposalCheckResult:
        self.results[check.name] = ProposalCheckResult(check.name, self._outcome.state, check.when, self._outcome)
        return self.results[check.name]


class Disturbed(Brief):
    """A runner that sees the files change while it runs the first check, and then as they were."""

    runs = 0

    async def run_check(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, tell: ReportResult
    ) -> ProposalCheckResult:
        self.runs += 1
        result = await super().run_check(check, trees, tell)
        return self.results.pop(check.name).as_outdated(READ.after) if self.runs == 1 else result


@pytest.mark.parametrize("shown", [True, False])
async def test_automatic_check_runs_again_if_the_files_changed_meanwhile_even_if_they_are_as_before(
    shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_scheduler, "_CALM_SECONDS", 0.0)
    runner: Any = Disturbed(CheckRunResult(CheckState.PASSED))
    automatic = CHECK.model_copy(update={"when": "staged"})
    said: list[ProposalChecks] = []
    following = CheckScheduler(runner, lambda: (automatic,), some_trees, everything, said.append)
    following.update_proposals([])
    following.update_proposals([PROPOSAL], "P1" if shown else "")
    await following.wait_until_done("P1")
    assert said[-1].results[0].is_current is shown
    following.update_proposals([PROPOSAL], "P1")
    await following.wait_until_done("P1")
    assert said[-1].results[0].is_current and runner.runs == 2
    await following.close()


class Failing(Brief):
    """A runner that fails as it runs one."""

    async def run_check(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, tell: ReportResult
    ) -> ProposalCheckResult:
        raise OSError("The disk is full.")


def no_trees(proposal: str, hunks: object = None) -> FilesToCheckBeforeAndAfter:
    raise StorageError("The database is damaged.")


@pytest.mark.parametrize(
    ("runner", "trees", "words"),
    [
        (Brief(CheckRunResult(CheckState.PASSED)), no_trees, "The database is damaged."),
        (Brief(CheckRunResult(CheckState.PASSED), "no layer"), some_trees, "no layer"),
        (Brief(CheckRunResult(CheckState.BROKEN, reason="command not found")), some_trees, "command not found"),
        (Failing(CheckRunResult(CheckState.PASSED)), some_trees, "The disk is full."),
    ],
)
async def test_a_check_that_cannot_run_stops_the_approval_once(runner: Any, trees: Any, words: str) -> None:
    said: list[ProposalChecks] = []
    following = CheckScheduler(runner, lambda: (CHECK,), trees, everything, said.append)
    following.update_proposals([PROPOSAL], "P1")
    (result,) = await following.run_before_approval("P1", 1, None)
    assert (result.name, result.state, result.summary) == ("tests", CheckState.BROKEN, words)
    assert await following.run_before_approval("P1", 1, None) == ()
    await following.close()
    assert said[-1].why_not in ("", words)


async def test_without_checks_nothing_is_run(runner: Any, following: CheckScheduler) -> None:
    assert not following.start_or_stop("P1")
    following.update_proposals([PROPOSAL], "P1")
    assert not following.start_or_stop("P1"), "not before it is known which checks there are"
    await following.close()


async def test_only_checks_of_the_proposals_files_are_reported_and_once() -> None:
    looked: list[str] = []
    said: list[ProposalChecks] = []

    def trees(proposal: str, hunks: object = None) -> FilesToCheckBeforeAndAfter:
        looked.append(proposal)
        return some_trees(proposal)

    checks: tuple[CheckTable, ...]
    for checks, obstacle, reported in (
        ((), "no layer", False),
        ((CHECK.model_copy(update={"files": ("*.rs",)}),), "no layer", False),
        ((CHECK,), "", True),
    ):
        said.clear()
        looked.clear()
        runner: Any = Brief(CheckRunResult(CheckState.PASSED), obstacle)
        following = CheckScheduler(runner, lambda checks=checks: checks, trees, everything, said.append)  # type: ignore[misc]
        following.update_proposals([PROPOSAL], "P1")
        assert await following.run_before_approval("P1", 1, None) == ()
        assert bool(said) is reported and bool(looked) is bool(checks)
        before = len(said)
        assert await following.run_before_approval("P1", 1, None) == ()
        assert len(said) == before, "a check that has passed starts no second time"
        await following.close()


RED = CheckRunResult(CheckState.FAILED, 1, output="it says Hi")
DRAFT: Any = None


def fed(name: str, files: str = "*.py") -> CheckTable:
    return CheckTable(name=name, run="false", feed=True, files=(files,))


class Runner:
    """Everything fails, but for what hangs."""

    def __init__(self, obstacle: str = "") -> None:
        self.ran: list[str] = []
        self.looked = 0
        self._why_not = obstacle

    def trees(self, draft: object) -> FilesToCheckBeforeAndAfter:
        self.looked += 1
        return FilesToCheckBeforeAndAfter(after={}, before={}, files=("a.py",), old_files=("a.py",))

    async def unavailable_reason(self) -> str:
        return self._why_not

    async def run_check(
        self, check: CheckTable, trees: FilesToCheckBeforeAndAfter, *, max_wait_seconds: float
    ) -> ProposalCheckResult:
        self.ran.append(check.name)
        if check.name == "hangs":
            raise TimeoutError
        return ProposalCheckResult(check.name, CheckState.FAILED, outcome=RED)

    async def told(self, *checks: CheckTable) -> str:
        runner: Any = self
        return await DraftCheckRunner(lambda: runner, lambda: checks, self.trees)(DRAFT, lambda: self.ran.append(""))


async def test_draft_is_not_read_without_a_feeding_check() -> None:
    runner, unfed = Runner(), CheckTable(name="x", run="false")
    asked = CheckTable(name="y", run="false", when="asked", feed=True)
    assert await runner.told(unfed, asked) == ""
    assert (runner.looked, runner.ran) == (0, [])


async def test_checks_that_are_about_the_draft_and_can_be_run_are_run_and_hide_no_others() -> None:
    runner, hindered = Runner(), Runner("no layer")
    assert await runner.told(fed("x", "*.rs")) == await hindered.told(fed("x")) == ""
    assert runner.ran == hindered.ran == []
    told = await runner.told(fed("x", "*.rs"), fed("hangs"), fed("red"))
    assert "The check red fails" in told and "it says Hi" in told and runner.ran == ["", "hangs", "red"]
