"""The tools over the proposals engine itself: what the model is told is what is staged."""

import json
from pathlib import Path

import pytest

from app.proposals.desk import ProposalDesk
from app.proposals.draft import Draft
from app.tools.contract import ToolError
from app.workspace.paths import Workspace
from tests.unit.proposals.memory_store import MemoryStore
from tests.unit.tools.memory_draft import Bench


@pytest.fixture
def desk(tmp_path: Path) -> ProposalDesk:
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "ws/src/a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "ws/b.py").write_text("b\n")
    return ProposalDesk(Workspace(tmp_path / "ws"), MemoryStore(), tmp_path / "lock")


@pytest.fixture
def draft(desk: ProposalDesk) -> Draft:
    return desk.draft("s1")


@pytest.fixture
def bench(tmp_path: Path, draft: Draft) -> Bench:
    return Bench(Workspace(tmp_path / "ws"), draft)


async def test_read_edit_read_again(bench: Bench, draft: Draft) -> None:
    before = await bench.call("read_file", path="src/a.py")
    version = before.reads["src/a.py"]
    output = await bench.call(
        "edit_file",
        path="src/a.py",
        edits=[{"old": "two", "new": "TWO"}],
        version=version[:12],
        summary="Shout",
    )
    told = json.loads(output.text)
    assert told["status"] == "staged"
    assert told["files"] == [{"path": "src/a.py", "op": "edit", "added": 1, "removed": 1}]
    after = await bench.call("read_file", path="src/a.py")
    assert "2\tTWO" in after.text
    assert f"staged edits of {told['proposal']}" in after.text
    assert after.reads["src/a.py"] != version
    assert (bench.workspace.root / "src/a.py").read_text() == "one\ntwo\nthree\n"
    assert draft.changed
    assert draft.summaries == ["Shout"]


async def test_what_was_told_is_what_an_approval_writes(bench: Bench, desk: ProposalDesk, draft: Draft) -> None:
    await bench.call("write_file", path="new/c.py", content="c\n")
    await bench.call("rename_file", path="b.py", new_path="d.py")
    listing = (await bench.call("list_files")).text.split("\n")
    assert listing == ["d.py  [staged, not on disk yet]", "new/c.py  [staged, not on disk yet]", "src/a.py"]
    proposal = desk.stage(draft, "Both")
    desk.approve(proposal.id)
    assert (await bench.call("list_files")).text.replace("  [staged, not on disk yet]", "").split("\n") == [
        "d.py",
        "new/c.py",
        "src/a.py",
    ]
    assert sorted(bench.workspace.files()) == ["d.py", "new/c.py", "src/a.py"]


async def test_a_patch(bench: Bench) -> None:
    patch = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    told = json.loads((await bench.call("apply_patch", patch=patch)).text)
    assert told["files"] == [{"path": "src/a.py", "op": "edit", "added": 1, "removed": 1}]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("edit_file", {"path": "src/a.py", "edits": [{"old": "nowhere", "new": "x"}]}, "nowhere|not"),
        ("edit_file", {"path": "missing", "edits": [{"old": "a", "new": "x"}]}, "does not exist"),
        ("write_file", {"path": "b.py", "content": "b\n"}, "already"),
        ("delete_file", {"path": "src"}, "folder"),
        ("rename_file", {"path": "b.py", "new_path": "src/a.py"}, "exists already"),
        ("apply_patch", {"patch": "hello"}, "."),
    ],
)
async def test_refusals_are_errors_and_stage_nothing(
    bench: Bench, draft: Draft, name: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await bench.call(name, **arguments)
    assert not draft.changed


async def test_search_sees_pending_edits_and_not_what_they_replace(
    bench: Bench, desk: ProposalDesk, draft: Draft
) -> None:
    await bench.call("edit_file", path="src/a.py", edits=[{"old": "two", "new": "zwei"}])
    await bench.call("write_file", path="new.py", content="zwei\n")
    found = (await bench.call("search_text", pattern="zwei")).text
    assert "src/a.py" in found and "new.py" in found
    assert "src/a.py" not in (await bench.call("search_text", pattern="two")).text
    desk.stage(draft, "German")
    later = Bench(bench.workspace, desk.draft("s2"))
    assert "new.py" in (await later.call("search_text", pattern="zwei")).text
    await later.call("rename_file", path="new.py", new_path="neu.py")
    renamed = (await later.call("search_text", pattern="zwei")).text
    assert "neu.py" in renamed and "new.py" not in renamed
