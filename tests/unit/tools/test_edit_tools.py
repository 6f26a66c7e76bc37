"""The edit tools: what they hand to the draft, and what the model is told."""

import asyncio
import json
import threading

import pytest

from app.proposals.values.proposal_errors import EditRefused
from app.tools.base.contract import PermissionAnswer, ToolCallNotPermitted, ToolError
from tests.unit.tools.memory_draft import Bench, File, Report, Stat


def put(bench: Bench, path: str, text: str) -> None:
    target = bench.workspace.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def disk(bench: Bench) -> dict[str, str]:
    return {path: (bench.workspace.root / path).read_text() for path in bench.workspace.walk_files()}


async def test_an_edit_is_staged_and_says_so(bench: Bench) -> None:
    put(bench, "a.py", "x = 1\n")
    output = await bench.call(
        "edit_file",
        path="./a.py",
        edits=[{"old": "x = 1", "new": "x = 2"}],
        version="abc",
        summary="Make x\n two ",
    )
    assert json.loads(output.text) == {
        "status": "staged",
        "proposal": "P1",
        "applied": False,
        "next": "awaiting approval; do not call tools; hand control back",
        "files": [{"path": "a.py", "op": "edit", "added": 1, "removed": 1}],
    }
    assert output.summary == "a.py +1 -1"
    assert bench.draft.held == {"a.py": b"x = 2\n"}
    assert bench.draft.versions == ["abc"]
    assert bench.draft.summaries == ["Make x two"]
    assert disk(bench) == {"a.py": "x = 1\n"}, "nothing is written"


async def test_every_edit_tool_stages_and_writes_nothing(bench: Bench) -> None:
    put(bench, "a.py", "1\n")
    put(bench, "b.py", "2\n")
    outputs = [
        await bench.call("write_file", path="new/c.py", content="3\n"),
        await bench.call("delete_file", path="a.py"),
        await bench.call("rename_file", path="b.py", new_path="d.py"),
        await bench.call("apply_patch", patch="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"),
    ]
    assert all(json.loads(output.text)["status"] == "staged" for output in outputs)
    assert bench.draft.held == {"new/c.py": b"3\n", "a.py": None, "b.py": None, "d.py": b"2\n"}
    assert json.loads(outputs[3].text)["notes"] == "a.py: found by spacing at line 3"
    assert disk(bench) == {"a.py": "1\n", "b.py": "2\n"}
    assert bench.draft.summaries == []


SECRET_CALLS: list[tuple[str, dict[str, object]]] = [
    ("edit_file", {"path": ".env", "edits": [{"old": "guess", "new": "b"}]}),
    ("rename_file", {"path": ".env", "new_path": "notes.txt"}),
    ("write_file", {"path": ".env", "content": "KEY=hunter2\n"}),
    ("write_file", {"path": ".env", "content": "KEY=guess\n"}),
    ("delete_file", {"path": ".env"}),
    ("edit_file", {"path": ".npmrc", "edits": [{"old": "guess", "new": "b"}]}),
    ("apply_patch", {"patch": "--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-guess\n+b\n"}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: .env\n@@\n-guess\n+b\n*** End Patch"}),
    ("apply_patch", {"patch": "diff --git a/.env b/x\nrename from .env\nrename to x\n"}),
]


async def test_an_edit_of_a_secret_asks_too(bench: Bench) -> None:
    put(bench, ".env", "KEY=hunter2\n")
    put(bench, ".npmrc", "//example.invalid/:_authToken=hunter2\n")
    for name, arguments in SECRET_CALLS:
        with pytest.raises(ToolCallNotPermitted) as raised:
            await bench.call(name, **arguments)
        assert "hunter2" not in str(raised.value)
        assert (bench.draft.held, bench.draft.patches) == ({}, []), (name, arguments)


async def test_the_result_of_a_patch_over_many_files_is_short(bench: Bench) -> None:
    files = tuple(Stat(f"f{number}", "edit", 1, 0) for number in range(500))
    bench.draft.apply_patch = lambda patch: Report(files, "note " * 5000)
    output = await bench.call("apply_patch", patch="--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n")
    told = json.loads(output.text)
    assert (len(told["files"]), told["more_files"]) == (50, 450)
    assert len(output.text) < 12_000
    assert output.summary == "f0 +1 -0, f1 +1 -0, f2 +1 -0 and 497 more"


async def test_a_secret_may_be_edited_after_a_yes_and_made_without_one(bench: Bench) -> None:
    await bench.call("write_file", path=".env", content="KEY=\n")
    await bench.call("edit_file", path=".env", edits=[{"old": "KEY", "new": "TOKEN"}])
    assert bench.asked == [], "what the model wrote itself is no secret to it"
    put(bench, "x.pem", "a\n")
    bench.answer = PermissionAnswer(True)
    await bench.call("edit_file", path="x.pem", edits=[{"old": "a", "new": "b"}])
    assert [asked.detail for asked in bench.asked] == ["x.pem"]


async def test_cancelling_an_edit_waits_for_its_draft(bench: Bench) -> None:
    entered = threading.Event()
    leave = threading.Event()

    def slow(path: str, content: str) -> Report:
        entered.set()
        leave.wait(10)
        bench.draft.held[path] = content.encode()
        return Report(())

    bench.draft.write = slow
    task = asyncio.create_task(bench.call("write_file", path="a", content="x"))
    await asyncio.to_thread(entered.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.draft.held == {"a": b"x"}


async def test_trouble_is_an_error_for_the_model_without_lone_surrogates(bench: Bench) -> None:
    def full(path: str, content: str) -> Report:
        raise OSError(28, "No space left on device")

    def edit(*_: object) -> Report:
        raise EditRefused("caf\udce9")

    bench.draft.write, bench.draft.edit = full, edit
    bench.draft.read = lambda path: File(b"caf\xe9\n", "0" * 64)
    with pytest.raises(ToolError, match="Nothing was staged: No space left"):
        await bench.call("write_file", path="a", content="x")
    (await bench.call("read_file", path="a")).text.encode()
    with pytest.raises(ToolError) as raised:
        await bench.call("edit_file", path="a", edits=[{"old": "a", "new": "b"}])
    str(raised.value).encode()
