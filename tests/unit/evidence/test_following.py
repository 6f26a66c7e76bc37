"""Evidence is begun by a check that has passed or by the user, and what is no longer true is dropped."""

import asyncio

import pytest

from app.automation.check_results import CheckRunResult, CheckState, ProposalCheckResult, ProposalChecks
from app.automation.check_scheduler import HunkExclusions
from app.automation.evidence.evidence_runner import HunkTestEvidenceCollector, ReportEvidence
from app.automation.evidence.evidence_scheduler import HunkTestEvidenceScheduler
from app.automation.evidence.proposal_evidence import ProposalTestEvidence
from app.config.settings import CheckTable
from app.proposals.values.decision_facts import HunkTestEvidence, HunkTestVerdict
from app.proposals.values.models import FileChange, FileOperation, Proposal, ProposalState
from tests.waiting import until

CHECK = CheckTable(name="tests", run="true", evidence=True)
CHANGE = FileChange(path="a.py", op=FileOperation.EDIT, base=None, result=None)
MARK = HunkTestEvidence(path="a.py", hunk=1, verdict=HunkTestVerdict.HELD)


def proposal(number: int = 1, **more: object) -> Proposal:
    values = {"id": f"P{number}", "workspace": "/w", "created": 0.0, "summary": "x", "files": (CHANGE,)}
    return Proposal.model_validate({**values, **more})


class Runner(HunkTestEvidenceCollector):
    """Finds one mark, and goes on as long as it is not let go."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.go = asyncio.Event()
        self.first = {"h": MARK}

    async def collect_evidence(
        self,
        proposal_id: str,
        chosen: object,
        check: CheckTable,
        seconds: float,
        tell: ReportEvidence = lambda found: None,
        wait_for_quiet: object = None,
    ) -> ProposalTestEvidence:
        self.running.append(proposal_id)
        found = ProposalTestEvidence(proposal_id, 1, marks=self.first, tree="t", is_running=True)
        tell(found)
        try:
            await self.go.wait()
        finally:
            self.running.remove(proposal_id)
        return ProposalTestEvidence(proposal_id, 1, marks={"h": MARK}, tree="t")

    async def is_current(self, found: ProposalTestEvidence) -> bool:
        return False


class Scene:
    """A follower, and what it has published last of each proposal."""

    def __init__(self) -> None:
        self.runner = Runner()
        self.chosen: HunkExclusions = None
        self.said: dict[str, ProposalTestEvidence] = {}
        self.follower = HunkTestEvidenceScheduler(
            self.runner,
            lambda: (CHECK,),
            lambda: 60,
            lambda each: self.chosen,
            lambda found: self.said.update({found.proposal: found}),
        )

    async def begun(self, number: int = 1) -> None:
        assert self.follower.start_or_stop(f"P{number}") == ""
        await until(lambda: f"P{number}" in self.runner.running, "the run")


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    scene.follower.update_proposals([proposal(1), proposal(2)])
    return scene


def passed() -> ProposalChecks:
    result = ProposalCheckResult("tests", CheckState.PASSED, outcome=CheckRunResult(CheckState.PASSED))
    return ProposalChecks("P1", 1, (result,))


async def test_one_proposal_at_a_time(scene: Scene) -> None:
    await scene.begun(1)
    scene.follower.start_or_stop("P2")
    await asyncio.sleep(0)
    assert scene.runner.running == ["P1"]
    assert scene.said["P2"].is_running
    scene.runner.go.set()
    await until(lambda: not scene.said["P2"].is_running, "the end")
    await scene.follower.close()


async def test_the_key_stops_a_running_collection_and_keeps_its_results(scene: Scene) -> None:
    await scene.begun()
    scene.follower.start_or_stop("P1")
    await until(lambda: not scene.runner.running, "the end of it")
    assert (scene.said["P1"].is_running, scene.said["P1"].marks) == (False, {"h": MARK})
    scene.follower.start_after_checks(passed())
    await asyncio.sleep(0)
    assert not scene.runner.running, "what the user has ended does not begin by itself"


async def test_evidence_stays_while_it_is_found_again_and_is_dropped_when_outdated(scene: Scene) -> None:
    async def collect() -> None:
        scene.runner.go.set()
        assert scene.follower.start_or_stop("P1") == ""
        await until(lambda: bool(scene.said["P1"].marks) and not scene.said["P1"].is_running, "evidence")

    await collect()
    scene.chosen = ("h",)
    scene.follower.update_proposals([proposal(1)])
    assert not scene.said["P1"].marks, "other hunks are chosen"
    await collect()
    await scene.follower.drop_outdated()
    assert not scene.said["P1"].marks, "the files are others"
    await collect()
    scene.runner.go.clear()
    scene.runner.first = {}
    await scene.begun()
    assert scene.said["P1"].is_running and scene.said["P1"].marks == {"h": MARK}
    await scene.follower.close()


async def test_a_decision_ends_the_tests(scene: Scene) -> None:
    await scene.begun()
    scene.follower.update_proposals([proposal(1, state=ProposalState.APPLIED)])
    await until(lambda: not scene.runner.running, "the end of it")
    assert scene.follower.start_or_stop("P1") == "P1 does not wait for a decision."


async def test_a_passed_check_with_the_setting_starts_the_collection(scene: Scene) -> None:
    red = ProposalCheckResult("tests", CheckState.FAILED, outcome=CheckRunResult(CheckState.FAILED))
    old = ProposalCheckResult("tests", CheckState.PASSED, outcome=CheckRunResult(CheckState.PASSED), stale="before")
    for result in (red, old):
        scene.follower.start_after_checks(ProposalChecks("P1", 1, (result,)))
    scene.follower.start_after_checks(ProposalChecks("P1", 2, passed().results))
    await asyncio.sleep(0)
    assert not scene.said
    scene.follower.start_after_checks(passed())
    await until(lambda: scene.runner.running == ["P1"], "the run")
    await scene.follower.close()
