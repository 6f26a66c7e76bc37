"""How a command is ended: by what watches it, and where there is nothing between by its group and its marker."""

import asyncio
import os
import random
import signal
import subprocess
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path

import pytest

from app.sandbox import enclosed, process_tree
from app.sandbox.enclosed import end_enclosed
from app.sandbox.environment import MARKER
from app.sandbox.process import run_process
from app.sandbox.process_tree import kill_strays
from tests.unit.tools.processes import running
from tests.waiting import until


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


@pytest.mark.skipif(process_tree.PLATFORM != "linux", reason="reads /proc")
def test_strays_are_looked_for_only_on_linux_and_told_only_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"{random.randrange(10**6, 10**7)}"
    assert not kill_strays(mark)
    with subprocess.Popen(["/bin/sleep", f"{mark}.5"], env={MARKER: mark}) as stray:
        monkeypatch.setattr(process_tree, "PLATFORM", "darwin")
        assert not kill_strays(mark) and stray.poll() is None
        monkeypatch.setattr(process_tree, "PLATFORM", "linux")
        assert kill_strays(mark)
        assert stray.wait() == -signal.SIGKILL


async def test_a_start_that_is_given_up_at_any_step_leaves_nothing_running() -> None:
    for steps in range(8):
        mark = f"{random.randrange(10**6, 10**7)}.75"
        starting = asyncio.ensure_future(
            run_process(
                ["/bin/sleep", mark],
                folder=Path("/"),
                environment={},
                seconds=60,
                output=lambda _: None,
                end=end_enclosed,
            )
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled() and not running(mark)


async def test_nobody_is_signalled_for_a_process_that_has_ended() -> None:
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "sleep 60 >/dev/null & echo $!", stdout=PIPE, start_new_session=True
    )
    assert process.stdout is not None
    other = int(await process.stdout.readline())
    await process.wait()
    assert not await end_enclosed(process)
    # Still there: whoever has its number, or that of its group, by now is no business of anyone's.
    os.kill(other, signal.SIGKILL)


async def test_a_process_that_nobody_has_seen_end_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    process = await asyncio.create_subprocess_exec("/bin/true", start_new_session=True)
    # The event loop hears of it only later.
    with suppress(ChildProcessError):
        os.waitpid(process.pid, 0)
    assert process.returncode is None and await end_enclosed(process)
    caplog.clear()


async def test_what_watches_and_heeds_no_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enclosed, "GRACE", 0.05)
    script = "trap '' TERM USR1; echo ready; while :; do sleep 0.01; done"
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", script, stdout=PIPE, start_new_session=True)
    assert process.stdout is not None
    await process.stdout.readline()
    assert await end_enclosed(process)
    await until(lambda: process.returncode == -signal.SIGKILL)
