"""What walking, searching and showing cost, as ratios to what the machine does with the bare task just then.

Costs are CPU seconds, in user and system, of the process and of what it starts, and the least of some rounds: what
else the machine does makes them a third larger at most.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.text.deceiving_text import inspect
from app.text.safe_text import visible
from app.tools.search import search_text
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench, MemoryDraft

FOLDERS = 400
FILES_EACH = 250
LEAST = 0.1
RULES = """
*.pyc
__pycache__/
node_modules/
/dist/
build/
*.egg-info/
.venv/
*.log
!keep.log
*.so
*.o
docs/_build/
*.swp
*~
.DS_Store
coverage.xml
htmlcov/
/pkg3/sub1/gen_*
"""


def cpu() -> float:
    """Seconds of CPU so far, of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """The least CPU seconds of some rounds, each of a tenth of a second at least: the clock ticks a hundred times."""
    costs = []
    for _ in range(rounds):
        started, count = cpu(), 0
        while not count or cpu() - started < LEAST:
            work()
            count += 1
        costs.append((cpu() - started) / count)
    return min(costs)


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 small files in 400 folders."""
    root = tmp_path_factory.mktemp("many")
    for number in range(FOLDERS):
        folder = root / f"pkg{number % 20}/sub{number}"
        folder.mkdir(parents=True)
        for file in range(FILES_EACH):
            (folder / f"module_{file}.py").write_text("value = 1\n" if file else "the needle\n")
    (root / ".gitignore").write_text(RULES)
    return root


def test_walking_100_000_files_by_the_rules_costs_a_small_multiple_of_a_bare_walk(many_files: Path) -> None:
    workspace = Workspace(many_files)

    def bare() -> int:
        return sum(len(files) for _, _, files in os.walk(many_files))

    assert len(list(workspace.files())) == FOLDERS * FILES_EACH + 1
    ratio = best(lambda: list(workspace.files())) / best(bare)
    print(f"walk: {ratio:.1f} x os.walk")
    assert ratio < 12


def test_an_ignored_folder_costs_nothing(many_files: Path, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(many_files)
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.py").touch()
    many_files.rename(tmp_path / "node_modules_real")
    try:
        (tmp_path / ".gitignore").write_text("node_modules_real/\n")
        workspace = Workspace(tmp_path)
        bare = best(lambda: [files for _, _, files in os.walk(tmp_path / "node_modules_real")])
        assert best(lambda: list(workspace.files())) < bare / 10
    finally:
        (tmp_path / "node_modules_real").rename(many_files)


def test_searching_costs_a_small_multiple_of_reading_the_files(
    many_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(many_files)
    monkeypatch.setattr(search_text, "TIME_LIMIT", 600.0)

    def bare() -> int:
        return sum(b"the needle" in (many_files / path).read_bytes() for path in workspace.files())

    def search() -> None:
        bench = Bench(workspace, MemoryDraft(workspace))
        output = asyncio.run(bench.call("search_text", pattern="the needle"))
        assert output.summary == f"{FOLDERS} matching lines in {FOLDERS} files"

    base = best(bare, 2)
    sieved = best(search, 2) / base
    monkeypatch.setattr(search_text, "find_ripgrep", lambda root: None)
    plain = best(search, 1) / base
    print(f"search: {sieved:.2f} x with ripgrep, {plain:.2f} x without, of walking and reading all files")
    assert sieved < 3
    assert plain < 8


def test_a_safe_read_costs_a_small_multiple_of_an_open(many_files: Path) -> None:
    workspace = Workspace(many_files)
    paths = [path for _, path in zip(range(5000), workspace.files(), strict=False)]
    ratio = best(lambda: [workspace.read(path) for path in paths]) / best(
        lambda: [(many_files / path).read_bytes() for path in paths]
    )
    print(f"read: {ratio:.1f} x Path.read_bytes")
    assert ratio < 12


@pytest.mark.parametrize("line", ["    return self.value + 1  # plain\n", "    return größe + 1  # déjà vu\n"])
def test_showing_text_costs_a_small_multiple_of_folding_its_case(line: str) -> None:
    text = line * 30_000
    base = best(lambda: text.casefold())
    shown, inspected = best(lambda: visible(text)) / base, best(lambda: inspect(text)) / base
    print(f"visible: {shown:.1f} x casefold, inspect: {inspected:.1f} x")
    assert shown < 20
    assert inspected < 120
