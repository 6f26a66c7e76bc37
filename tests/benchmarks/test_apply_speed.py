"""A crash-safe apply of 1,000 files, compared with `git apply`, which is not crash-safe."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from app.proposals.locate.matching import TextReplacement
from tests.benchmarks.test_waiting_speed import service_with

FILES = 1_000
RATIO = 30.0
"""Measured on ext4: 0.4 for an approval and 0.6 for an undo, because git removes the old files one by one. On a disk
in memory, where only the bookkeeping counts (hashes, journal, path checks), 15 to 20.
"""


def seconds(work: Callable[[], object]) -> float:
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def test_apply_of_1000_files_against_git_apply(tmp_path: Path) -> None:
    service, root = service_with(tmp_path, 0), tmp_path / "workspace"
    for number in range(FILES):
        path = root / f"folder{number % 50}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {line} of {number}\n" for line in range(200)))
    shutil.copytree(root, tmp_path / "git")
    draft = service.new_draft("session")
    for number in range(FILES):
        edit = TextReplacement(f"line 50 of {number}\n", "a new line\nand another\n")
        draft.edit(f"folder{number % 50}/file{number}.py", [edit])
    proposal = service.stage(draft, "A thousand files")
    patch = tmp_path / "patch.diff"
    patch.write_text(service.unified_diff(proposal.id))

    def git(*arguments: str) -> None:
        subprocess.run(["git", "apply", *arguments, str(patch)], cwd=tmp_path / "git", check=True)

    git_apply = seconds(git)
    approve = seconds(lambda: service.approve(proposal.id))
    git_undo = seconds(lambda: git("-R"))
    undo = seconds(lambda: service.undo(proposal.id))
    print(f"\napply {approve:.2f} s, git {git_apply:.2f} s: {approve / git_apply:.1f}")
    print(f"undo  {undo:.2f} s, git {git_undo:.2f} s: {undo / git_undo:.1f}")
    assert approve < RATIO * git_apply
    assert undo < RATIO * git_undo


def test_half_of_many_hunks_against_all_of_them(tmp_path: Path) -> None:
    """The report of each hunk to the model must not read the whole file again."""
    service = service_with(tmp_path, 0)
    old = "".join(f"line {number}\na\nb\nc\nd\ne\nf\n" for number in range(3_000))
    durations: list[float] = []
    for name, share in (("whole.txt", 3_000), ("half.txt", 1_500)):
        (tmp_path / "workspace" / name).write_text(old)
        draft = service.new_draft("session")
        draft.write(name, old.replace("line", "LINE"))
        proposal = service.stage(draft, "Shout")
        chosen = [hunk.id for hunk in proposal.hunks[:share]]
        assert len(chosen) == share
        durations.append(seconds(partial(service.approve, proposal.id, chosen)))
    print(f"\nall {durations[0]:.2f} s, half {durations[1]:.2f} s: {durations[1] / durations[0]:.1f}")
    assert durations[1] < 8 * durations[0]
