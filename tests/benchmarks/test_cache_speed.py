"""The cost of an overlay over the user's caches for a command with a warm cache, for example a second `uv sync`."""

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from app.sandbox.confinement import CommandWriteMode, ConfiguredCommandAccess
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.benchmarks.outside import cpu_seconds
from tests.unit.sandbox.test_confinement import outside

ROUNDS = 21
FILES = 2_000
MAX_RATIO = 1.3
"""Maximum CPU time, relative to a command with the cache in place: 1.1 is the aim, the rest is noise."""

UV = "uv pip install --quiet --offline --no-index --no-deps --find-links ../wheels --python PYTHON --target out many"
GO = "go build -o out ."


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=outside(), prefix=".signoff-test-") as folder:
        yield Path(folder).resolve()


def make_wheel(folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(folder / "many-1.0-py3-none-any.whl", "w") as wheel:
        names = [f"many/m{number}.py" for number in range(FILES)]
        for name in names:
            wheel.writestr(name, f"x = {name!r}\n" * 20)
        wheel.writestr("many-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: many\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr("many-1.0.dist-info/WHEEL", tags)
        record = [*names, *(f"many-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD"))]
        wheel.writestr("many-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in record))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("variable", "command"), [("UV_CACHE_DIR", UV), ("GOCACHE", GO)], ids=["uv", "go"])
async def test_overlay_over_a_warm_cache_adds_little_cpu_time(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, command: str
) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    root, cache = home / "ws", home / "cache"
    for folder in (root, cache):
        folder.mkdir()
    make_wheel(home / "wheels")
    (root / "go.mod").write_text("module m\n")
    (root / "main.go").write_text('package main\n\nimport "strconv"\n\nfunc main() { println(strconv.Itoa(1)) }\n')
    monkeypatch.setenv(variable, str(cache))
    words = ["/bin/sh", "-c", f"rm -rf out && {command.replace('PYTHON', sys.executable)}"]

    async def bare() -> None:
        assert await (await asyncio.create_subprocess_exec(*words, cwd=root)).wait() == 0

    def layered(*writable: str) -> Callable[[], Awaitable[None]]:
        folder = home / f"runs{len(writable)}"
        sandbox = Sandbox(Workspace(root), folder, own_folders=(), permissions=ConfiguredCommandAccess(writable))

        async def run() -> None:
            if (await sandbox.probe()).mode is not CommandWriteMode.OVERLAY:
                pytest.skip((await sandbox.probe()).why_not)
            output: list[bytes] = []
            async with sandbox.open_run({}, keep_files=True) as opened:
                ended = await opened.execute(words, folder=".", seconds=120, output=output.append)
            assert ended.code == 0, b"".join(output)

        return run

    variants = {"outside": bare, "cache in place": layered(str(cache)), "layer over the cache": layered()}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(ROUNDS + 1):
        for name, run in variants.items():
            shutil.rmtree(root / "out", ignore_errors=True)
            (root / "out").unlink(missing_ok=True)
            before, started = cpu_seconds(), time.perf_counter()
            await run()
            # The first round warms the cache.
            if number:
                samples[name].append((cpu_seconds() - before, time.perf_counter() - started))
    print()
    cpu, wall = (
        {name: statistics.median(sample[index] for sample in samples[name]) for name in variants} for index in (0, 1)
    )
    for name in variants:
        print(f"{name}: {cpu[name]:.3f} s CPU, {wall[name]:.3f} s wall")
    pairs = list(zip(samples["layer over the cache"], samples["cache in place"], strict=True))
    ratios = [statistics.median(overlay[index] / in_place[index] for overlay, in_place in pairs) for index in (0, 1)]
    print(f"layer over the cache / cache in place: {ratios[0]:.2f}x CPU, {ratios[1]:.2f}x wall")
    assert ratios[0] < MAX_RATIO
