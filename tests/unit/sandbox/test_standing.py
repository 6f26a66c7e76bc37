"""A program that stays, and its layer: nothing is left of either, at whatever moment they are given up."""

import asyncio
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from app.sandbox.environment import MARKER
from app.sandbox.sandbox import Sandbox
from app.sandbox.standing import start_standing
from app.workspace.paths import Workspace
from tests.unit.tools.processes import running
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_start_that_is_given_up_leaves_neither_process_nor_descriptor(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], MARKER: "standing-test"}
    # What asyncio opens once for all is open by then.
    first = await start_standing([], ["/bin/true"], folder=tmp_path, environment=environment)
    await first.ended()
    await first.end()
    await first.drain()
    before = open_files()
    for steps in range(12):
        program = ["/bin/sleep", f"{98_800 + steps}"]
        starting = asyncio.ensure_future(start_standing([], program, folder=tmp_path, environment=environment))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        if not starting.cancelled():
            started = starting.result()
            await started.end()
            await started.drain()
        await until(lambda: not running(program[1]))  # noqa: B023
    await until(lambda: open_files() <= before)


async def test_a_layer_that_is_given_up_while_it_is_made_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workspace").mkdir()
    state = tmp_path / "state"
    sandbox = Sandbox(Workspace(tmp_path / "workspace"), state, own=())
    begun, go, made = threading.Event(), threading.Event(), threading.Event()
    make = tempfile.mkdtemp

    def slow(*arguments: Any, **more: Any) -> str:
        begun.set()
        go.wait()
        folder: str = make(*arguments, **more)
        made.set()
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", slow)

    async def stand() -> None:
        async with sandbox.stand():
            raise AssertionError("it was given up")

    standing = asyncio.ensure_future(stand())
    await asyncio.to_thread(begun.wait)
    standing.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait({standing})
    assert standing.cancelled()
    await asyncio.to_thread(made.wait)
    await until(lambda: not list(state.iterdir()))
