"""The cost of the overlay for a command: small, and independent of the workspace's size."""

import asyncio
import statistics
import time
from pathlib import Path

import pytest

from app.sandbox.confinement import CommandWriteMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.benchmarks.outside import cpu_seconds

FILES = 100_000
ROUNDS = 9
MAX_ADDED_SECONDS = 0.050
"""Maximum added CPU seconds of signoff and its child processes."""


async def run_in_overlay(root: Path, state: Path) -> tuple[float, float]:
    sandbox = Sandbox(Workspace(root), state, own_folders=())
    if (await sandbox.probe()).mode is not CommandWriteMode.OVERLAY:
        pytest.skip((await sandbox.probe()).why_not)
    rounds = []
    for _ in range(ROUNDS):
        before, started = cpu_seconds(), time.perf_counter()
        async with sandbox.open_run({}) as run:
            await run.execute(["/bin/true"], folder=".", seconds=60, output=lambda data: None)
            assert not (await run.find_changes()).touched
        rounds.append((cpu_seconds() - before, time.perf_counter() - started))
    cpu, wall = map(statistics.median, zip(*rounds, strict=True))
    return cpu, wall


async def run_bare() -> tuple[float, float]:
    before, started = cpu_seconds(), time.perf_counter()
    for _ in range(ROUNDS):
        await (await asyncio.create_subprocess_exec("/bin/true")).wait()
    return (cpu_seconds() - before) / ROUNDS, (time.perf_counter() - started) / ROUNDS


@pytest.mark.timeout(300)
async def test_overlay_cost_does_not_depend_on_file_count(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for root, count in ((small, 100), (large, FILES)):
        for folder in range(count // 100):
            (root / str(folder)).mkdir(parents=True)
            for number in range(100):
                (root / str(folder) / str(number)).touch()
    few, few_wall = await run_in_overlay(small, tmp_path / "runs")
    many, many_wall = await run_in_overlay(large, tmp_path / "runs")
    alone, alone_wall = await run_bare()
    print(f"\nbare {alone:.4f} s CPU, overlay over 100 files {few:.4f}, over {FILES:,} {many:.4f}: {many / few:.2f}x")
    # Only printed, not asserted, because the load of other programs affects it.
    print(f"bare {alone_wall:.4f} s wall, overlay over 100 files {few_wall:.4f}, over {FILES:,} {many_wall:.4f}")
    assert many < 2 * few
    assert many - alone < MAX_ADDED_SECONDS
