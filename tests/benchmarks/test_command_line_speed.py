"""What commands cost, as ratios to `git`, `unidiff` or a bare interpreter in the same run.

Run with `pytest -n0 -s tests/benchmarks/test_command_line_speed.py`. A first run compiles all Python files and does
not count. The least of some interleaved rounds counts, since what else the machine does only ever adds; each begins
with nothing left to write. It is CPU time but for the thousand files. There, both sides have to end with everything
on the disk, and what a process waits for the disk is not CPU: a program that writes each file anew and flushes it is
measured by the clock, on the same file system as ours.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1_800)

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
FILES = 3.0
"""Measured on two cores, by the clock: stage 1.8 to 2.0, show 0.4 to 0.5, approve 1.3 to 1.4."""
STAGE_LINES, SHOW_LINES, APPROVE_LINES = 14.0, 6.5, 9.0
"""Measured: 8.3 to 10.3, 3.6 to 4.5 and 5.4 to 5.9, where `unidiff` took 0.2 s to read the patch."""
FLUSHED = """
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
    """Seconds that a command took."""

    cpu: float
    """In user and system."""
    wall: float


def cost(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Cost:
    """Run a command."""
    os.sync()
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall)


def cpu(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """Seconds of CPU that a command takes."""
    return cost(command, folder, environment).cpu


def signoff(*words: str) -> list[str]:
    return [sys.executable, "-P", "-c", "import sys; from app.cli.main import main; sys.exit(main())", *words]


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk, where to flush takes its time: other tests write into memory where they can."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="signoff-") as folder:
        yield Path(folder)


@pytest.fixture
def environment(disk: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI", "SIGNOFF"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**kept, "SIGNOFF_HOME": str(disk / "home"), "PYTHONPATH": str(ROOT)}


def test_that_nothing_waits_costs_little(tmp_path: Path, environment: dict[str, str]) -> None:
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(8):
        bare.append(cpu([sys.executable, "-c", "import sqlite3"], tmp_path, environment))
        ours.append(cpu(signoff("proposals"), tmp_path, environment))
    ratio = min(ours[1:]) / min(bare[1:])
    print(f"\nnothing waits: {ratio:.1f} x import sqlite3 ({min(bare):.3f} s)")
    assert ratio < 5


def files_of(folder: Path, changed: Iterable[int] = ()) -> None:
    """1,000 files of 12 KB, as source files are; lines in `changed` differ."""
    for number in range(1_000):
        path = folder / f"package{number % 50}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"    value_{line} = compute({number}, 'line {line}')\n" for line in range(300)]
        for line in changed:
            lines[line] = f"    # changed {lines[line]}"
        path.write_text("".join(lines))


def lines_of(folder: Path, changed: bool) -> None:
    """50,000 lines, every other one changed."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{'LINE' if changed and not number % 2 else 'line'} {number}\n" for number in range(50_000)]
    (folder / "lines.txt").write_text("".join(lines))


def measured(disk: Path, environment: dict[str, str]) -> dict[str, Cost]:
    """The least cost of git, `unidiff`, files flushed one by one, and our commands, from `a` to `b`."""
    old, new, patch = disk / "a", disk / "b", disk / "patch.diff"
    compare = ["git", "diff", "--no-index", "--no-prefix", "a", "b"]
    patch.write_bytes(subprocess.run(compare, cwd=disk, capture_output=True, check=False).stdout)
    shutil.rmtree(new)
    found: dict[str, list[Cost]] = {}
    cpu(signoff("sessions"), disk, environment)
    for number in range(ROUNDS):
        plain, workspace = disk / f"git{number}", disk / f"workspace{number}"
        shutil.copytree(old, plain)
        shutil.copytree(old, workspace)
        git_commands: Commands = {
            "git apply": ["git", "apply", str(patch)],
            "git apply -R": ["git", "apply", "-R", str(patch)],
            "files, flushed": [sys.executable, "-c", FLUSHED],
        }
        our_commands: Commands = {
            "stage": signoff("stage", str(patch)),
            "show": signoff("show", "P1"),
            "approve": signoff("approve", "P1"),
        }
        for folder, commands in ((plain, git_commands), (workspace, our_commands)):
            for name, command in commands.items():
                found.setdefault(name, []).append(cost(command, folder, environment))
        reading = "import sys, unidiff; unidiff.PatchSet.from_filename(sys.argv[1])"
        reader = [sys.executable, "-c", reading, str(patch)]
        found.setdefault("unidiff", []).append(cost(reader, workspace, environment))
    return {
        name: Cost(min(each.cpu for each in costs), min(each.wall for each in costs)) for name, costs in found.items()
    }


def test_a_thousand_files_against_flushing_each(disk: Path, environment: dict[str, str]) -> None:
    files_of(disk / "a")
    files_of(disk / "b", (10, 150, 290))
    costs = measured(disk, environment)
    theirs, durable = costs["git apply"].cpu, costs["files, flushed"].wall
    by_clock = {name: costs[name].wall / durable for name in COMMANDS}
    by_cpu = {name: costs[name].cpu / theirs for name in COMMANDS}
    print(f"\n1,000 files, by the clock, x writing each with a flush ({durable:.2f} s): {_shown(by_clock)}")
    print(f"1,000 files, in CPU, x git apply ({theirs:.2f} s): {_shown(by_cpu)}")
    assert max(by_clock.values()) < FILES


def test_fifty_thousand_lines(disk: Path, environment: dict[str, str]) -> None:
    lines_of(disk / "a", changed=False)
    lines_of(disk / "b", changed=True)
    costs = measured(disk, environment)
    ratios = {name: costs[name].cpu / costs["unidiff"].cpu for name in COMMANDS}
    print(f"\n50,000 lines, x unidiff ({costs['unidiff'].cpu:.2f} s): {_shown(ratios)}")
    assert ratios["stage"] < STAGE_LINES
    assert ratios["show"] < SHOW_LINES
    assert ratios["approve"] < APPROVE_LINES


def _shown(ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
