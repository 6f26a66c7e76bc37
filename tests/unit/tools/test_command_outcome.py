"""What becomes of what a command has changed: what can't be staged is named, and the rest does not suffer."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.sandbox.captured_changes import PathChange
from app.sandbox.sandbox_mode import SandboxMode
from app.tools.base.contract import ConfirmationAnswer
from app.tools.command import command_outcome
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench, MemoryDraft, Report


@pytest.fixture
def allowed(tmp_path: Path) -> Bench:
    (tmp_path / "ws").mkdir()
    workspace = Workspace(tmp_path / "ws")
    return Bench(workspace, MemoryDraft(workspace), ConfirmationAnswer(True))


@pytest.mark.parametrize(
    ("limit", "reason"), [("MOST_KEPT", "all that was changed is over 10 B"), ("LARGEST", "larger than 10 bytes")]
)
async def test_what_is_too_large_is_left_out_and_named(
    allowed: Bench, monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    monkeypatch.setattr(command_outcome, limit, 10)
    output = await allowed.call("run_command", command="echo 1 > a; echo a long line > b; echo 3 > c")
    assert f"[not kept: b: {reason}]" in output.text
    assert allowed.draft.held == {"a": b"1\n", "c": b"3\n"}


@pytest.mark.layer
async def test_what_somebody_else_has_changed_meanwhile_is_left_to_them(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    workspace = Workspace(tmp_path / "ws")
    bench = Bench(workspace, MemoryDraft(workspace), ConfirmationAnswer(True), modes=[SandboxMode.OVERLAY])
    go = bench.shared / "go"
    os.mkfifo(go)
    (workspace.root / "a").write_text("before\n")

    def change_meanwhile() -> None:
        # It is opened once the command reads it, and ends what it reads when it is closed.
        with go.open("w"):
            (workspace.root / "a").write_text("somebody else\n")

    changing = asyncio.create_task(asyncio.to_thread(change_meanwhile))
    output = await bench.call("run_command", command=f"echo mine > a; echo b > b; cat {go}")
    await changing
    assert "[not kept: a: changed on disk by someone else while the command ran]" in output.text
    assert bench.draft.held == {"b": b"b\n"}
    assert (workspace.root / "a").read_text() == "somebody else\n"


async def test_a_call_that_is_given_up_takes_back_what_it_was_about_to_stage(allowed: Bench) -> None:
    entered, leave, left, take = threading.Event(), threading.Event(), threading.Event(), allowed.draft.take_changes

    def slow(changes: Sequence[PathChange]) -> Report:
        entered.set()
        leave.wait(10)
        report: Report = take(changes)
        left.set()
        return report

    allowed.draft.take_changes = slow
    call = asyncio.create_task(allowed.call("run_command", command="echo 1 > a"))
    await asyncio.to_thread(entered.wait, 10)
    call.cancel()
    await asyncio.sleep(0)
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.to_thread(left.wait, 10)
    assert allowed.draft.held == {}
