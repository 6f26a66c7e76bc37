"""What a step is told of its checks: nothing is loaded or run for it that has nothing to say."""

from typing import Any

from app.automation.check_results import CheckOutcome, CheckResult, CheckState
from app.automation.draft_checks import DraftChecks
from app.config.settings import CheckTable
from app.proposals.decide.workspace_versions import WorkspaceVersions

RED = CheckOutcome(CheckState.FAILED, 1, output="it says Hi")
DRAFT: Any = None


def fed(name: str, files: str = "*.py") -> CheckTable:
    return CheckTable(name=name, run="false", feed=True, files=(files,))


class Runner:
    """Everything fails, but for what hangs."""

    def __init__(self, obstacle: str = "") -> None:
        self.ran: list[str] = []
        self.looked = 0
        self._why_not = obstacle

    def trees(self, draft: object) -> WorkspaceVersions:
        self.looked += 1
        return WorkspaceVersions(after={}, before={}, files=("a.py",), old_files=("a.py",))

    async def obstacle(self) -> str:
        return self._why_not

    async def run(self, check: CheckTable, trees: WorkspaceVersions, *, patience: float) -> CheckResult:
        self.ran.append(check.name)
        if check.name == "hangs":
            raise TimeoutError
        return CheckResult(check.name, CheckState.FAILED, outcome=RED)

    async def told(self, *checks: CheckTable) -> str:
        runner: Any = self
        return await DraftChecks(lambda: runner, lambda: checks, self.trees)(DRAFT)


async def test_where_no_check_feeds_nobody_looks_at_the_draft() -> None:
    runner = Runner()
    assert (
        await runner.told(
            CheckTable(name="x", run="false"), CheckTable(name="y", run="false", when="asked", feed=True)
        )
        == ""
    )
    assert (runner.looked, runner.ran) == (0, [])


async def test_only_checks_that_are_about_the_draft_and_can_be_run_are_run() -> None:
    runner, hindered = Runner(), Runner("no layer")
    assert await runner.told(fed("x", "*.rs")) == await hindered.told(fed("x")) == ""
    assert runner.ran == hindered.ran == []
    assert "it says Hi" in await runner.told(fed("x", "*.rs"), fed("y")) and runner.ran == ["y"]


async def test_one_that_has_to_wait_too_long_keeps_no_other_from_being_told() -> None:
    assert "The check red fails" in await Runner().told(fed("hangs"), fed("red"))
