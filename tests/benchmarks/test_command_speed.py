"""What the layer under a command costs: the same whatever the size of the workspace, and little."""

import asyncio
import os
import statistics
import time
from pathlib import Path

import pytest

from app.sandbox.confinement import SandboxMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace

FILES = 100_000
ROUNDS = 9
MOST_ADDED = 0.050
"""Seconds of CPU, of signoff and of all that it starts."""


def spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


async def layered(root: Path, state: Path) -> tuple[float, float]:
    """Seconds of CPU and of wall time, the median of each, of an empty command with all around it."""
    sandbox = Sandbox(Workspace(root), state, own_folders=())
    if (await sandbox.probe()).mode is not SandboxMode.OVERLAY:
        pytest.skip((await sandbox.probe()).why_not)
    rounds = []
    for _ in range(ROUNDS):
        before, begun = spent(), time.perf_counter()
        async with sandbox.open_run({}) as run:
            await run.execute(["/bin/true"], folder=".", seconds=60, output=lambda data: None)
            assert not (await run.find_changes()).touched
        rounds.append((spent() - before, time.perf_counter() - begun))
    cpu, wall = map(statistics.median, zip(*rounds, strict=True))
    return cpu, wall


async def bare() -> tuple[float, float]:
    before, begun = spent(), time.perf_counter()
    for _ in range(ROUNDS):
        await (await asyncio.create_subprocess_exec("/bin/true")).wait()
    return (spent() - before) / ROUNDS, (time.perf_counter() - begun) / ROUNDS


@pytest.mark.timeout(300)
async def test_a_layer_costs_the_same_over_a_hundred_thousand_files(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for root, count in ((small, 100), (large, FILES)):
        for folder in range(count // 100):
            (root / str(folder)).mkdir(parents=True)
            for number in range(100):
                (root / str(folder) / str(number)).touch()
    few, few_wall = await layered(small, tmp_path / "runs")
    many, many_wall = await layered(large, tmp_path / "runs")
    alone, alone_wall = await bare()
    print(f"\nbare {alone:.4f} s CPU, layered over 100 files {few:.4f}, over {FILES:,} {many:.4f}: {many / few:.2f}x")
    # Told, not judged: other programs' load is in it.
    print(f"bare {alone_wall:.4f} s wall, layered over 100 files {few_wall:.4f}, over {FILES:,} {many_wall:.4f}")
    assert many < 2 * few
    assert many - alone < MOST_ADDED
