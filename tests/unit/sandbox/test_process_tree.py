"""How a command is ended: by what watches it, and where there is nothing between by its group and its marker."""

import asyncio
import itertools
import os
import random
import signal
import subprocess
import time
from asyncio.subprocess import PIPE, Process
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from app.sandbox import enclosed_process
from app.sandbox import process as process_module
from app.sandbox.enclosed_process import end_enclosed_process_if_running
from app.sandbox.process import MARKER_VARIABLE, kill_marked_processes, run_process
from tests.unit.tools.processes import running
from tests.waiting import until


@pytest.mark.skipif(process_module.PLATFORM != "linux", reason="reads /proc")
@pytest.mark.parametrize("stray", ["", "setsid "])
async def test_no_process_of_a_command_survives_its_time_limit(stray: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GRACE_SECONDS", 0.2)
    mark = f"{random.randrange(10**6, 10**7)}.125"

    async def end(process: Process) -> bool:
        return await process_module.end_process_tree(process, mark)

    ended = await run_process(
        ["/bin/sh", "-c", f"trap '' TERM; {stray}sleep {mark} & while :; do sleep 0.05; done"],
        folder=Path("/"),
        environment={**os.environ, MARKER_VARIABLE: mark},
        seconds=0.5,
        output=lambda _: None,
        end_process=end,
    )
    assert ended.timed_out and ended.had_running_children
    assert not running(mark), subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(process_module.PLATFORM != "linux", reason="reads /proc")
def test_strays_are_looked_for_on_linux_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"{random.randrange(10**6, 10**7)}"
    assert not kill_marked_processes(mark)
    with subprocess.Popen(["/bin/sleep", f"{mark}.5"], env={MARKER_VARIABLE: mark}) as stray:
        monkeypatch.setattr(process_module, "PLATFORM", "darwin")
        assert not kill_marked_processes(mark) and stray.poll() is None
        monkeypatch.setattr(process_module, "PLATFORM", "linux")
        # Until it has begun with its program, it shows the environment of these tests, or hides it.
        while not shows(stray.pid, mark):
            time.sleep(0.001)
        assert kill_marked_processes(mark)
        assert stray.wait() == -signal.SIGKILL


def shows(process: int, mark: str) -> bool:
    """Whether a process has a text in its environment."""
    with suppress(PermissionError):
        return mark in Path(f"/proc/{process}/environ").read_text()
    return False


@pytest.mark.skipif(process_module.PLATFORM != "linux", reason="reads /proc")
def test_a_process_seen_before_its_exec_is_examined_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "1000"]) as stray, ExitStack() as after:
        after.callback(stray.kill)
        # As the kernel shows one between the end of its program before and the environment of the next one.
        name, fields = Path("/proc/self/stat").read_text().rsplit(")", 1)
        bare = fields.split()
        begun = [*bare[: 51 - 3], "0", *bare[51 - 2 :]]
        kernels = [*begun[: 23 - 3], "0", *begun[23 - 2 :]]
        for number, one in ((stray.pid, begun), (2, kernels), (3, bare)):
            (tmp_path / str(number)).mkdir()
            (tmp_path / str(number) / "environ").touch()
            (tmp_path / str(number) / "stat").write_text(f"{name}) (b) {' '.join(one)}")
        environment = tmp_path / str(stray.pid) / "environ"
        monkeypatch.setattr(process_module, "PROC_FOLDER", tmp_path)
        looks: list[float] = []

        def lay_out(seconds: float) -> None:
            looks.append(seconds)
            assert len(looks) < 50, "waits for ever"
            if len(looks) == 3:
                environment.write_text(f"A=b\0{MARKER_VARIABLE}=7\0")

        monkeypatch.setattr(time, "sleep", lay_out)
        assert kill_marked_processes("7")
        assert stray.wait() == -signal.SIGKILL
        assert len(looks) == 3

        # Nobody waits for the kernel's own threads, for one without an environment, nor for ever for one that hangs.
        environment.write_text("A=b\0")
        assert not kill_marked_processes("7") and len(looks) == 3
        environment.write_text("")
        now = itertools.count()
        monkeypatch.setattr(time, "monotonic", lambda: next(now) / 10)
        assert not kill_marked_processes("7") and 3 < len(looks) < 10


async def test_a_start_cancelled_at_any_step_leaves_no_process() -> None:
    for steps in range(8):
        mark = f"{random.randrange(10**6, 10**7)}.75"
        starting = asyncio.ensure_future(
            run_process(
                ["/bin/sleep", mark],
                folder=Path("/"),
                environment={},
                seconds=60,
                output=lambda _: None,
                end_process=end_enclosed_process_if_running,
            )
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled() and not running(mark)


async def test_no_signal_is_sent_for_an_ended_process() -> None:
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "sleep 60 >/dev/null & echo $!", stdout=PIPE, start_new_session=True
    )
    assert process.stdout is not None
    other = int(await process.stdout.readline())
    await process.communicate()
    assert not await end_enclosed_process_if_running(process)
    # Still there: whoever has its number, or that of its group, by now is no business of anyone's.
    os.kill(other, signal.SIGKILL)


async def test_a_process_reaped_elsewhere_causes_no_error(caplog: pytest.LogCaptureFixture) -> None:
    process = await asyncio.create_subprocess_exec("/bin/true", start_new_session=True)
    # The event loop hears of it only later.
    with suppress(ChildProcessError):
        os.waitpid(process.pid, 0)
    assert process.returncode is None and await end_enclosed_process_if_running(process)
    caplog.clear()


async def test_supervisor_that_ignores_signals_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enclosed_process, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(enclosed_process, "KILL_SECONDS", 0.05)
    script = "trap '' TERM USR1; echo ready; while :; do sleep 0.01; done"
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", script, stdout=PIPE, start_new_session=True)
    assert process.stdout is not None
    await process.stdout.readline()
    assert await end_enclosed_process_if_running(process)
    await until(lambda: process.returncode == -signal.SIGKILL)
    await process.communicate()
