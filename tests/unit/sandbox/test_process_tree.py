"""How a command is ended where there is no helper between, as on macOS: by its group, and by its marker."""

import os
import random
import subprocess
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from app.sandbox import process_tree
from app.sandbox.environment import MARKER
from app.sandbox.process import run_process
from tests.unit.tools.processes import running


@pytest.mark.skipif(process_tree.PLATFORM != "linux", reason="reads /proc")
@pytest.mark.parametrize("stray", ["", "setsid "])
async def test_nothing_of_a_command_is_left_at_its_time_limit(stray: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "GRACE", 0.2)
    mark = f"{random.randrange(10**6, 10**7)}.125"

    async def end(process: Process) -> bool:
        return await process_tree.end_tree(process, mark)

    ended = await run_process(
        ["/bin/sh", "-c", f"trap '' TERM; {stray}sleep {mark} & while :; do sleep 0.05; done"],
        folder=Path("/"),
        environment={**os.environ, MARKER: mark},
        seconds=0.5,
        output=lambda _: None,
        end=end,
    )
    assert ended.timed_out and ended.left_running
    assert not running(mark), subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=True).stdout
