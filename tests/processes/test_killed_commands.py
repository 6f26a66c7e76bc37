"""kill -9 of signoff in mid-command: no process goes on, no byte of the workspace is another, nothing is left."""

import asyncio
import os
import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from app.sandbox.sandbox import Sandbox
from app.sandbox.sandbox_mode import SandboxMode
from app.workspace.paths import Workspace
from tests.forking import Forking
from tests.unit.sandbox.test_scripts import make, state
from tests.unit.tools.processes import new_mark

ROOT = Path(__file__).resolve().parents[2]


def going_on(mark: str, place: Path) -> bool:
    """Whether anything is left of a command: itself, what it runs in its turn, who watches it."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                return True
            # What a killed shell has started has no mark, and may be about to leave the kernel.
            if (folder / "cwd").readlink().is_relative_to(place):
                return True
    return False


@pytest.mark.parametrize("way", list(SandboxMode))
@pytest.mark.parametrize("instants", [3, pytest.param(50, marks=pytest.mark.marathon)])
def test_whatever_the_instant_nothing_goes_on_and_nothing_has_changed(
    processes: Forking, tmp_path: Path, way: SandboxMode, instants: int
) -> None:
    root, runs = tmp_path / "ws", tmp_path / "runs"
    make(root)
    before = state(root)
    seed = random.Random(7)
    for _ in range(instants):
        mark = new_mark()
        command = (
            f"env -i setsid sleep {mark} & i=0; while :; do i=$((i+1)); echo $i >> a.txt; rm -rf d/e; "
            f"mkdir -p d/e/$i; "
            f"echo $i > d/e/$i/new; ln -sfn $i link; mv d/x d/x2; mv d/x2 d/x; done"
        )
        ours, theirs = socket.socketpair()
        words = ("tests.processes.one_run", str(root), str(runs), way, command)
        process = processes.start_module(*words, folder=ROOT, environment=os.environ, talk=theirs)
        with ours, ours.makefile("rb") as told:
            assert told.readline() == b"ready\n"
            time.sleep(seed.random() / 4)
            process.kill()
            assert process.wait() == -signal.SIGKILL
        deadline = time.monotonic() + 60
        # A process that forks and dies while the others are looked at is in no one's sight; so more than one look.
        clear = 0
        while clear < 5 and time.monotonic() < deadline:
            clear = 0 if going_on(mark, tmp_path) else clear + 1
            time.sleep(0.02)
        assert clear == 5, Path("/proc/loadavg").read_text()
        sandbox = Sandbox(Workspace(root), runs, own=())
        sandbox.restore_workspace()
        assert state(root) == before
        asyncio.run(sandbox.probe())
        assert not [each for each in runs.iterdir() if each.name.startswith("run-")]
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_rules_that_a_killed_command_has_written_hide_nothing_from_the_next_start(
    processes: Forking, tmp_path: Path
) -> None:
    """It is put back by the rules from before the command: what they ignored stays as the command has written it."""
    root, runs, talk = tmp_path / "ws", tmp_path / "runs", socket.socketpair()
    make(root)
    (root / ".gitignore").write_text("*.log\n")
    before = state(root)
    rules = "rm -r d; mkdir new; for each in . new; do echo '*' > $each/.gitignore; echo x > $each/code.py; done"
    mark = new_mark()
    command = f"echo 1 > a.log; {rules}; echo > a.txt; echo > end.log; sleep {mark}"
    words = ("tests.processes.one_run", str(root), str(runs), SandboxMode.IN_PLACE, command)
    process = processes.start_module(*words, folder=ROOT, environment=os.environ, talk=talk[1])
    with talk[0]:
        deadline = time.monotonic() + 60
        while not (root / "end.log").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert (root / "new/code.py").exists() and not (root / "d").exists()
    while going_on(mark, tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "cut off" in Sandbox(Workspace(root), runs, own=()).restore_workspace()
    assert (root / "a.log").read_text() == "1\n"
    for name in ("a.log", "end.log"):
        (root / name).unlink()
    assert state(root) == before
