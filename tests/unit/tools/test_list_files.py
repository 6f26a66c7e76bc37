"""`list_files`: what is there, with the pending edits in place."""

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from app.tools.base.contract import ToolError
from app.tools.search import list_files, search_text
from app.tools.search.list_files import compile_path_matcher
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench, MemoryDraft


def put(bench: Bench, *paths: str) -> None:
    for path in paths:
        target = bench.workspace.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("x\n")


async def test_lists_sorted_without_the_ignored_and_unasked(bench: Bench) -> None:
    put(bench, "b.py", "a/z.py", "a/y.txt", "out/x.py", ".git/config", ".env", "caf\udce9.py")
    (bench.workspace.root / ".gitignore").write_text("out/\n")
    output = await bench.call("list_files")
    assert output.text.split("\n") == [".env", ".gitignore", "a/y.txt", "a/z.py", "b.py"]
    assert output.summary == "5 files"
    assert bench.asked == []
    for tool in (list_files.ListFiles, search_text.SearchText):
        assert "not UTF-8" in tool.description, "the model knows what is left out"


async def test_one_folder_and_a_pattern(bench: Bench) -> None:
    put(bench, "src/a.py", "src/sub/b.py", "src/sub/c.ts", "d.py")
    assert (await bench.call("list_files", path="src")).text == "src/a.py\nsrc/sub/b.py\nsrc/sub/c.ts"
    assert (await bench.call("list_files", pattern="*.py")).text == "d.py\nsrc/a.py\nsrc/sub/b.py"
    assert (await bench.call("list_files", path="src", pattern="sub/*.{ts,js}")).text == "src/sub/c.ts"
    assert (await bench.call("list_files", path="src", pattern="src/*.py")).text == "src/a.py"


async def test_a_link_to_a_folder_lists_the_folder(bench: Bench) -> None:
    put(bench, "real/a.py")
    (bench.workspace.root / "link").symlink_to("real")
    bench.draft.held["real/b.py"] = b"x"
    text = (await bench.call("list_files", path="link", pattern="*.py")).text
    assert text == "real/a.py\nreal/b.py  [staged, not on disk yet]"


async def test_absurd_names_do_not_flood_the_model(bench: Bench) -> None:
    put(bench, *(f"{'x' * 200}{number:03}/{'y' * 200}/{'z' * 200}" for number in range(400)))
    assert len((await bench.call("list_files")).text) < 110_000


async def test_pending_edits_add_and_remove(bench: Bench) -> None:
    put(bench, "gone.py", "kept.py")
    bench.draft.held = {"gone.py": None, "new/made.py": b"x"}
    text = (await bench.call("list_files")).text
    assert text == "kept.py\nnew/made.py  [staged, not on disk yet]"
    assert (await bench.call("list_files", path="new")).text == "new/made.py  [staged, not on disk yet]"
    with pytest.raises(ToolError, match="a staged edit deletes"):
        await bench.call("list_files", path="gone.py")


class EndlessWorkspace(Workspace):
    """Has another file for whoever asks for one more; as slow a disk as there are, after more than one batch."""

    def walk_files(self, under: str = ".", ended: Callable[[], bool] = lambda: False) -> Iterator[str]:
        for number in count():
            if number > 200:
                time.sleep(0.001)
            yield f"{number:012}.txt"


async def test_a_listing_ends_at_its_time_limit_with_partial_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_files, "LIST_SECONDS", 0.2)
    workspace = EndlessWorkspace(tmp_path)
    output = await Bench(workspace, MemoryDraft(workspace)).call("list_files")
    assert output.summary.endswith("cut short")
    assert "[stopped after" in output.text.split("\n")[-1]


@pytest.mark.parametrize("regex", [True, False])
async def test_a_search_reads_files_before_the_listing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regex: bool
) -> None:
    monkeypatch.setattr(search_text, "SEARCH_SECONDS", 1.0)
    (tmp_path / "000000000003.txt").write_text("a needle\n")
    workspace = EndlessWorkspace(tmp_path)
    output = await Bench(workspace, MemoryDraft(workspace)).call("search_text", pattern="needle", regex=regex)
    assert output.text.startswith("000000000003.txt\n  1: a needle\n")
    assert "[stopped after" in output.text


async def test_counts_by_folder_where_there_are_too_many(bench: Bench) -> None:
    put(bench, *(f"pkg{folder}/f{file}.py" for folder in range(6) for file in range(100)), "top.py")
    output = await bench.call("list_files")
    assert output.summary == "601 files"
    assert output.text.split("\n")[1:] == [*(f"pkg{folder}/ (100)" for folder in range(6)), "top.py"]


async def test_a_flat_folder_is_shortened_with_a_count(bench: Bench) -> None:
    put(bench, *(f"f{file:04}.py" for file in range(620)))
    output = await bench.call("list_files")
    assert output.text.startswith("[620 files")
    assert output.text.endswith("[120 more entries not shown]")
    assert len(output.text.split("\n")) == 502


async def test_an_empty_listing_or_refusal_says_so(bench: Bench) -> None:
    assert (await bench.call("list_files")).text == "There are no files in the workspace."
    for path, message in (("nope", "^nope does not exist"), ("..", "leads out"), (".git", "belongs to git")):
        with pytest.raises(ToolError, match=message):
            await bench.call("list_files", path=path)
    put(bench, "a.py")
    assert "No file matches '*.rs'" in (await bench.call("list_files", pattern="*.rs")).text


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a/b/c.py", True),
        ("a/*.py", "a/c.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/*.py", "a/c.py", True),
        ("a/**/*.py", "a/b/d/c.py", True),
        ("**/c.py", "c.py", True),
        ("./a/*.py", "a/c.py", True),
        ("*.{py,ts}", "x.ts", True),
        ("{a,b}/{x,y}.py", "b/y.py", True),
        ("{a,b}/{x,y}.py", "c/y.py", False),
        ("tests", "tests/unit/x.py", True),
        ("!*.py", "a.py", False),
        ("#notes", "#notes", True),
        ("*", "any/thing", True),
        ("[ab].py", "a.py", True),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert compile_path_matcher(pattern)(path) is expected


@pytest.mark.parametrize("pattern", ["", "   ", "{a,b}" * 10, "/"])
def test_senseless_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ToolError):
        compile_path_matcher(pattern)
