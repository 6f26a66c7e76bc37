"""What waits must not make the next proposal dearer: costs at two sizes in one run, as the ratio per proposal."""

import time
from pathlib import Path

import pytest

from app.proposals.desk import ProposalDesk
from app.storage.database import Database
from app.storage.proposals import SqliteProposalStore
from app.storage.signals import Signal
from app.workspace.paths import Workspace

FEW, MANY = 100, 800


def desk_with(folder: Path, files: int) -> ProposalDesk:
    root = folder / "workspace"
    root.mkdir(parents=True)
    for number in range(files):
        (root / f"f{number}.txt").write_text("a\nb\nc\n")
    store = SqliteProposalStore(Database(folder / "db"), "here", Signal(folder, "here"))
    return ProposalDesk(Workspace(root), store, folder / "lock")


def cpu_each(desk: ProposalDesk, count: int) -> float:
    """Seconds of CPU for each of so many proposals, staged one after the other."""
    started = time.process_time()
    for number in range(count):
        desk.stage_patch(f"--- a/f{number}.txt\n+++ b/f{number}.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
    return (time.process_time() - started) / count


def test_staging_is_linear_in_what_waits(tmp_path: Path) -> None:
    few, many = (cpu_each(desk_with(tmp_path / str(count), count), count) for count in (FEW, MANY))
    print(f"\none of {FEW}: {few * 1000:.2f} ms, one of {MANY}: {many * 1000:.2f} ms: {many / few:.2f}")
    assert many < 2 * few


@pytest.mark.parametrize("kind", ["edits", "creations"])
def test_a_patch_is_linear_in_files(tmp_path: Path, kind: str) -> None:
    def seconds(count: int) -> tuple[float, float]:
        desk = desk_with(tmp_path / f"{kind}{count}", count if kind == "edits" else 0)
        hunk = "--- a/f{0}.txt\n+++ b/f{0}.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        new = "--- /dev/null\n+++ b/folder/f{0}.txt\n@@ -0,0 +1 @@\n+new\n"
        patch = "".join((hunk if kind == "edits" else new).format(number) for number in range(count))
        started = time.process_time()
        desk.stage_patch(patch)
        staged = time.process_time()
        desk.approve("P1")
        return (staged - started) / count, (time.process_time() - staged) / count

    few, many = seconds(500), seconds(4_000)
    print(f"\n{kind}: stage {many[0] / few[0]:.2f}, approve {many[1] / few[1]:.2f} per file, of 4,000 to one of 500")
    assert many[0] < 2 * few[0]
    assert many[1] < 2 * few[1]
