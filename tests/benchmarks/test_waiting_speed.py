"""The cost of a proposal must not grow with the pending ones: cost per proposal at two sizes in one run."""

import time
from pathlib import Path

import pytest

from app.proposals.proposal_service import ProposalService
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.sqlite_proposal_store import SqliteProposalStore
from app.workspace.paths import Workspace
from tests.ui.review_app import reviewing
from tests.ui.test_review_decisions import small

FEW, MANY = 100, 800


def service_with(folder: Path, files: int) -> ProposalService:
    root = folder / "workspace"
    root.mkdir(parents=True)
    for number in range(files):
        (root / f"f{number}.txt").write_text("a\nb\nc\n")
    store = SqliteProposalStore(Database(folder / "db"), "here", DatabaseChangeSignal(folder, "here"))
    return ProposalService(Workspace(root), store, folder / "lock")


def cpu_each(service: ProposalService, count: int) -> float:
    """Return the CPU seconds for each of `count` proposals, staged one after the other."""
    started = time.process_time()
    for number in range(count):
        service.stage_patch(f"--- a/f{number}.txt\n+++ b/f{number}.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
    return (time.process_time() - started) / count


def test_staging_is_linear_in_pending_proposals(tmp_path: Path) -> None:
    few, many = (cpu_each(service_with(tmp_path / str(count), count), count) for count in (FEW, MANY))
    print(f"\none of {FEW}: {few * 1000:.2f} ms, one of {MANY}: {many * 1000:.2f} ms: {many / few:.2f}")
    assert many < 2 * few


def test_staging_is_linear_in_pending_proposals_on_the_same_file(tmp_path: Path) -> None:
    def cpu_of_last(count: int) -> float:
        """Return the CPU seconds for each of the last 50 of `count` proposals on one file."""
        service = service_with(tmp_path / str(count), 1)
        (tmp_path / str(count) / "workspace" / "f0.txt").write_text("".join(f"{line}\n" for line in range(MANY)))
        for number in range(count):
            if number == count - 50:
                started = time.process_time()
            service.stage_patch(
                f"--- a/f0.txt\n+++ b/f0.txt\n@@ -{number + 1} +{number + 1} @@\n-{number}\n+{number}!\n"
            )
        return (time.process_time() - started) / 50

    few, many = cpu_of_last(FEW), cpu_of_last(MANY)
    print(f"\non one file: up to {FEW}: {few * 1000:.2f} ms, up to {MANY}: {many * 1000:.2f} ms: {many / few:.2f}")
    assert many < 2 * few


@pytest.mark.parametrize("kind", ["edits", "creations"])
def test_patch_cost_is_linear_in_files(tmp_path: Path, kind: str) -> None:
    def seconds(count: int) -> tuple[float, float]:
        service = service_with(tmp_path / f"{kind}{count}", count if kind == "edits" else 0)
        hunk = "--- a/f{0}.txt\n+++ b/f{0}.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        new = "--- /dev/null\n+++ b/folder/f{0}.txt\n@@ -0,0 +1 @@\n+new\n"
        patch = "".join((hunk if kind == "edits" else new).format(number) for number in range(count))
        started = time.process_time()
        service.stage_patch(patch)
        staged = time.process_time()
        service.approve("P1")
        return (staged - started) / count, (time.process_time() - staged) / count

    few, many = seconds(500), seconds(4_000)
    print(f"\n{kind}: stage {many[0] / few[0]:.2f}, approve {many[1] / few[1]:.2f} per file, of 4,000 to one of 500")
    assert many[0] < 2 * few[0]
    assert many[1] < 2 * few[1]


KEYS = 20


async def review_cpu(pending_count: int) -> tuple[float, float]:
    """Return the CPU seconds to show `pending_count` pending proposals, and for a key that moves to the next one."""
    proposal, diffs = small("P1")
    many = [proposal.model_copy(update={"id": f"P{number}", "created": number}) for number in range(pending_count)]
    async with reviewing(*((pending, diffs) for pending in many), size=(120, 40)) as (app, pilot):
        app.review.approval_pane.queue.focus()
        await pilot.pause()
        started = time.thread_time()
        app.tell()
        await pilot.pause()
        shown = time.thread_time()
        for _ in range(KEYS):
            await pilot.press("j")
        await pilot.pause()
        return shown - started, (time.thread_time() - shown) / KEYS


async def test_review_keys_are_as_fast_with_thousands_of_proposals() -> None:
    (few, few_key), (many, many_key) = await review_cpu(50), await review_cpu(5_000)
    print(
        f"\n50 pending: shown in {few * 1000:.1f} ms, a key {few_key * 1000:.1f} ms; 5,000 pending:"
        f" {many * 1000:.1f} ms ({many / few:.1f}), a key {many_key * 1000:.1f} ms ({many_key / few_key:.2f})"
    )
    assert many_key < 1.5 * few_key
    assert many < 10 * few
