"""What commands cost, as ratios to `git` or a bare interpreter in the same run.

Run with `pytest -n0 -s tests/benchmarks/test_command_line_speed.py`. A first run compiles all Python files and does
not count. The least of some interleaved rounds counts, since what else the machine does only ever adds; each begins
with nothing left to write. It is CPU time but for the thousand files. There, both sides have to end with everything
on the disk, and what a process waits for the disk is not CPU: `git apply`, which leaves that to later, and a `sync`
of its file system are measured together, by the clock, on the same file system as ours.
"""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1_800)

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
FILES = 4.0
"""Measured on two busy cores, by the clock: stage 1.8 to 3.5, show 0.8 to 1.1, approve 1.3 to 3.2. In CPU alone an
approval is 3 to 13 times `git apply` without its `sync`, which took 0.09 to 0.35 s: 0.3 s of ours are the start."""
STAGE_LINES, SHOW_LINES, APPROVE_LINES = 60.0, 35.0, 60.0
"""Measured: 47, 26 and 51, where `git diff` took 0.03 s; a bare interpreter is worth 0.4 of that."""
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
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI", "SIGNOFF"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**kept, "SIGNOFF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


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


def measured(tmp_path: Path, environment: dict[str, str]) -> dict[str, Cost]:
    """The least cost of `git apply`, alone and with `sync`, of `git diff` and of our commands, from `a` to `b`."""
    old, new, patch = tmp_path / "a", tmp_path / "b", tmp_path / "patch.diff"
    compare = ["git", "diff", "--no-index", "--no-prefix", "a", "b"]
    patch.write_bytes(subprocess.run(compare, cwd=tmp_path, capture_output=True, check=False).stdout)
    shutil.rmtree(new)
    found: dict[str, list[Cost]] = {}
    cpu(signoff("sessions"), tmp_path, environment)
    for number in range(ROUNDS):
        plain, workspace = tmp_path / f"git{number}", tmp_path / f"workspace{number}"
        shutil.copytree(old, plain)
        shutil.copytree(old, workspace)
        git_commands: Commands = {
            "git apply": ["git", "apply", str(patch)],
            "git apply -R": ["git", "apply", "-R", str(patch)],
            "git apply, sync": ["sh", "-c", 'git apply "$0" && sync', str(patch)],
        }
        our_commands: Commands = {
            "stage": signoff("stage", str(patch)),
            "show": signoff("show", "P1"),
            "approve": signoff("approve", "P1"),
        }
        for folder, commands in ((plain, git_commands), (workspace, our_commands)):
            for name, command in commands.items():
                found.setdefault(name, []).append(cost(command, folder, environment))
        script = (
            "import subprocess; subprocess.run(['git', 'diff', '--no-index', '--quiet', '../a', '.'], check=False)"
        )
        found.setdefault("git diff", []).append(cost([sys.executable, "-c", script], workspace, environment))
    return {
        name: Cost(min(each.cpu for each in costs), min(each.wall for each in costs)) for name, costs in found.items()
    }


def test_a_thousand_files_against_git_apply(tmp_path: Path, environment: dict[str, str]) -> None:
    files_of(tmp_path / "a")
    files_of(tmp_path / "b", (10, 150, 290))
    costs = measured(tmp_path, environment)
    theirs, durable = costs["git apply"].cpu, costs["git apply, sync"].wall
    by_clock = {name: costs[name].wall / durable for name in COMMANDS}
    by_cpu = {name: costs[name].cpu / theirs for name in COMMANDS}
    print(f"\n1,000 files, by the clock, x git apply and sync ({durable:.2f} s): {_shown(by_clock)}")
    print(f"1,000 files, in CPU, x git apply ({theirs:.2f} s): {_shown(by_cpu)}")
    assert max(by_clock.values()) < FILES


def test_fifty_thousand_lines(tmp_path: Path, environment: dict[str, str]) -> None:
    lines_of(tmp_path / "a", changed=False)
    lines_of(tmp_path / "b", changed=True)
    costs = measured(tmp_path, environment)
    ratios = {name: costs[name].cpu / costs["git diff"].cpu for name in COMMANDS}
    print(f"\n50,000 lines, x git diff ({costs['git diff'].cpu:.2f} s): {_shown(ratios)}")
    assert ratios["stage"] < STAGE_LINES
    assert ratios["show"] < SHOW_LINES
    assert ratios["approve"] < APPROVE_LINES


def _shown(ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
