"""The cost of commands, relative to `git`, `unidiff` or a bare interpreter in the same run.

Run with `pytest -n0 -s tests/benchmarks/test_command_line_speed.py`. A first run compiles all Python files and does
not count. The minimum of some interleaved rounds counts, because other load only adds time; each round begins with
flushed disks. The figures are CPU times, except for the thousand files: there both sides must flush to the disk, and
waiting for the disk is not CPU time. A program that writes and flushes each file is measured by wall-clock time on
the same file system.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks.outside import ROOT, children_cpu
from tests.terminal.terminal import signoff_command as signoff

pytestmark = pytest.mark.timeout(1_800)
ROUNDS = 3
MAX_FILES_RATIO = 3.0
"""Measured on two cores, wall-clock: stage 1.8 to 2.0, show 0.4 to 0.5, approve 1.3 to 1.4."""
MAX_STAGE_RATIO, MAX_SHOW_RATIO, MAX_APPROVE_RATIO = 14.0, 6.5, 9.0
"""Measured: 8.3 to 10.3, 3.6 to 4.5 and 5.4 to 5.9, where `unidiff` took 0.2 s to read the patch."""
FLUSH_PROGRAM = """
import os, pathlib, sys
for path in sorted(pathlib.Path(".").rglob("*.py")):
    data, new = path.read_bytes(), path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    new.replace(path)
"""
"""Writes each file as safely as an approval does."""
COMMANDS = ("stage", "show", "approve")
Commands = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float
    """User and system time."""
    wall: float


def cost(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Cost:
    os.sync()
    return Cost(*children_cpu(command, cwd=folder, env=environment, capture_output=True))


def cpu(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    return cost(command, folder, environment).cpu


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a real disk with real flush times: other tests use a disk in memory if possible."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="signoff-") as folder:
        yield Path(folder)


@pytest.fixture
def environment(disk: Path) -> dict[str, str]:
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI", "SIGNOFF"))}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**variables, "SIGNOFF_HOME": str(disk / "home"), "PYTHONPATH": str(ROOT)}


def test_listing_no_proposals_costs_little(tmp_path: Path, environment: dict[str, str]) -> None:
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(8):
        bare.append(cpu([sys.executable, "-c", "import sqlite3"], tmp_path, environment))
        ours.append(cpu(signoff("proposals"), tmp_path, environment))
    ratio = min(ours[1:]) / min(bare[1:])
    print(f"\nnothing waits: {ratio:.1f} x import sqlite3 ({min(bare):.3f} s)")
    assert ratio < 5


def write_files(folder: Path, changed: Iterable[int] = ()) -> None:
    """Write 1,000 files of 12 KB, like source files; the lines in `changed` differ."""
    for number in range(1_000):
        path = folder / f"package{number % 50}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"    value_{line} = compute({number}, 'line {line}')\n" for line in range(300)]
        for line in changed:
            lines[line] = f"    # changed {lines[line]}"
        path.write_text("".join(lines))


def write_lines(folder: Path, changed: bool) -> None:
    """Write a file of 50,000 lines; if `changed`, every other line differs."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{'LINE' if changed and not number % 2 else 'line'} {number}\n" for number in range(50_000)]
    (folder / "lines.txt").write_text("".join(lines))


def measure_commands(disk: Path, environment: dict[str, str]) -> dict[str, Cost]:
    """Return the minimum cost of git, `unidiff`, flushed files and our commands, for the change from `a` to `b`."""
    old, new, patch = disk / "a", disk / "b", disk / "patch.diff"
    compare = ["git", "diff", "--no-index", "--no-prefix", "a", "b"]
    patch.write_bytes(subprocess.run(compare, cwd=disk, capture_output=True, check=False).stdout)
    shutil.rmtree(new)
    samples: dict[str, list[Cost]] = {}
    cpu(signoff("sessions"), disk, environment)
    for number in range(ROUNDS):
        plain, workspace = disk / f"git{number}", disk / f"workspace{number}"
        shutil.copytree(old, plain)
        shutil.copytree(old, workspace)
        git_commands: Commands = {
            "git apply": ["git", "apply", str(patch)],
            "git apply -R": ["git", "apply", "-R", str(patch)],
            "files, flushed": [sys.executable, "-c", FLUSH_PROGRAM],
        }
        our_commands: Commands = {
            "stage": signoff("stage", str(patch)),
            "show": signoff("show", "P1"),
            "approve": signoff("approve", "P1"),
        }
        for folder, commands in ((plain, git_commands), (workspace, our_commands)):
            for name, command in commands.items():
                samples.setdefault(name, []).append(cost(command, folder, environment))
        reading = "import sys, unidiff; unidiff.PatchSet.from_filename(sys.argv[1])"
        reader = [sys.executable, "-c", reading, str(patch)]
        samples.setdefault("unidiff", []).append(cost(reader, workspace, environment))
    return {
        name: Cost(min(sample.cpu for sample in costs), min(sample.wall for sample in costs))
        for name, costs in samples.items()
    }


def test_1000_files_against_flushing_each_file(disk: Path, environment: dict[str, str]) -> None:
    write_files(disk / "a")
    write_files(disk / "b", (10, 150, 290))
    costs = measure_commands(disk, environment)
    theirs, durable = costs["git apply"].cpu, costs["files, flushed"].wall
    by_clock = {name: costs[name].wall / durable for name in COMMANDS}
    by_cpu = {name: costs[name].cpu / theirs for name in COMMANDS}
    print(f"\n1,000 files, by the clock, x writing each with a flush ({durable:.2f} s): {_format_ratios(by_clock)}")
    print(f"1,000 files, in CPU, x git apply ({theirs:.2f} s): {_format_ratios(by_cpu)}")
    assert max(by_clock.values()) < MAX_FILES_RATIO


def test_50000_lines_against_unidiff(disk: Path, environment: dict[str, str]) -> None:
    write_lines(disk / "a", changed=False)
    write_lines(disk / "b", changed=True)
    costs = measure_commands(disk, environment)
    ratios = {name: costs[name].cpu / costs["unidiff"].cpu for name in COMMANDS}
    print(f"\n50,000 lines, x unidiff ({costs['unidiff'].cpu:.2f} s): {_format_ratios(ratios)}")
    assert ratios["stage"] < MAX_STAGE_RATIO
    assert ratios["show"] < MAX_SHOW_RATIO
    assert ratios["approve"] < MAX_APPROVE_RATIO


def _format_ratios(ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
