"""No approval goes past a check that was to say something first."""

import asyncio
from typing import Any

import pytest

from app.checks.following import Following
from app.checks.results import Result, State
from app.checks.runner import Tell
from app.config import Check
from app.proposals.models import FileChange, Op, Proposal, ProposalState
from app.proposals.trees import Trees

CHECK = Check(name="tests", run="true", when="approve")
PROPOSAL = Proposal(
    id="P1",
    workspace="/w",
    created=0.0,
    summary="Change a",
    state=ProposalState.PENDING,
    files=(FileChange(path="a.py", op=Op.EDIT, base=None, result=None, added=1, removed=1),),
)


class Endless:
    """A runner whose checks run until they are cancelled, and tell how far they are even then."""

    def __init__(self) -> None:
        self.running = asyncio.Event()

    def known(self, check: Check, trees: Trees) -> None: ...

    async def why_not(self) -> str:
        return ""

    async def run(self, check: Check, trees: Trees, tell: Tell) -> Result:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            tell(Result(check.name, State.RUNNING, check.when))
        raise AssertionError


@pytest.fixture
async def runner() -> Any:
    return Endless()


@pytest.fixture
async def following(runner: Any) -> Following:
    trees = Trees(after={}, before={}, files=("a.py",), old_files=("a.py",))
    return Following(runner, lambda: (CHECK,), lambda proposal: trees, lambda checked: None)


async def test_a_check_that_the_user_ends_keeps_an_approval_from_being_written(
    runner: Any, following: Following
) -> None:
    following.follow([PROPOSAL], "P1")
    approving = asyncio.create_task(following.before_approval("P1"))
    await runner.running.wait()
    assert following.ask("P1")
    assert [(result.name, result.state) for result in await approving] == [("tests", State.CANCELLED)]
    await following.close()


async def test_an_approval_right_after_the_proposal_came_waits_for_its_checks(
    runner: Any, following: Following
) -> None:
    following.follow([PROPOSAL], "P1")
    approving = asyncio.create_task(following.before_approval("P1"))
    await asyncio.wait(
        [approving, running := asyncio.create_task(runner.running.wait())], return_when="FIRST_COMPLETED"
    )
    assert running.done() and not approving.done()
    await following.close()
    assert [result.state for result in await approving] == [State.CANCELLED]
