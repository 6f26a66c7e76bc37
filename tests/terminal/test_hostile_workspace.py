"""A workspace that wants to keep signoff from starting, drawing or ending, and a system that wants it to end."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.terminal import running, running_signoff, terminal_environment

ENDPOINT = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")
MOUSE_OFF, OTHER_SCREEN_OFF, CURSOR_ON = b"\x1b[?1003l", b"\x1b[?1049l", b"\x1b[?25h"
PYTHONPATH = str(Path(__file__).parents[2])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def test_an_endless_configuration_is_named(folder: Path, processes: Forking) -> None:
    environment = terminal_environment(folder.parent / "home")
    for make in (endless, os.mkfifo):
        make(folder / ".signoff.toml")
        with running_signoff(processes, *ENDPOINT, folder=folder, environment=environment) as terminal:
            assert terminal.wait_for_exit() == 2
            assert "signoff: .signoff.toml" in terminal.text and "move it away" in terminal.text
        (folder / ".signoff.toml").unlink()


def test_a_home_that_nobody_named_is_opened_only_after_a_yes(folder: Path, processes: Forking) -> None:
    environment = terminal_environment(folder.parent / "home", HOME=str(folder))
    with running_signoff(processes, folder=folder, environment=environment) as terminal:
        terminal.wait_for("your home folder", "Open it all the same?")
        terminal.press("enter")
        assert terminal.wait_for_exit() == 0
        assert not (folder.parent / "home").exists()
    with running_signoff(processes, *ENDPOINT, ".", folder=folder, environment=environment) as terminal:
        terminal.wait_for("This is your home folder: the model can read all of it.")
        assert b"Open it all the same?" not in terminal.raw
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0
    with running_signoff(processes, *ENDPOINT, folder=folder, environment=environment) as terminal:
        terminal.wait_for("Open it all the same?")
        terminal.type("y\r")
        terminal.wait_for("This is your home folder: the model can read all of it.")
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0


def test_nothing_else_blocks_it_and_sigterm_ends_it(folder: Path, processes: Forking) -> None:
    (folder / ".gitignore").write_text("*a*a*a*a*a*a*a*a*ab\n**/*a*/**/*a*/**/*a*b\n" + "[" * 100)
    (folder / ("a" * 60)).touch()
    (folder / "wanted.py").touch()
    (folder / ".git").mkdir()
    os.mkfifo(folder / ".git/HEAD")
    os.mkfifo(folder / "AGENTS.md")
    (folder / "sub").mkdir()
    endless(folder / "sub/AGENTS.md")
    endless(folder / ".ignore")
    environment = terminal_environment(folder.parent / "home")
    with running_signoff(processes, *ENDPOINT, folder=folder, environment=environment) as terminal:
        terminal.wait_for("model may act")
        terminal.type("@wan")
        terminal.wait_for("wanted.py")
        before = len(terminal.raw)
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_for_exit() == 128 + signal.SIGTERM
        terminal.settle()
        after = bytes(terminal.raw[before:])
        assert all(code in after for code in (MOUSE_OFF, OTHER_SCREEN_OFF, CURSOR_ON))


STUCK = """
import asyncio, os, signal, sys, threading, time
from app.runtime import shutdown as leaving
from app.runtime.shutdown import exit_on_signals_even_if_stuck

leaving.PATIENCE = 0.2

async def main():
    sys.stdout.write("\\x1b[?1049h\\x1b[?1003h")
    with exit_on_signals_even_if_stuck(lambda code: None, lambda: True) as end_if_stuck:
        print("stuck", flush=True)
        WAY

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("time.sleep(1000)", 128 + signal.SIGTERM),
        ("await asyncio.to_thread(time.sleep, 1000)", 128 + signal.SIGTERM),
        ("while True: pass", 128 + signal.SIGTERM),
        ("end_if_stuck(lambda: os.write(1, b'written')); await asyncio.to_thread(time.sleep, 1000)", 0),
    ],
    ids=["loop", "thread", "busy", "thread after quitting"],
)
def test_stuck_program_ends_and_restores_the_terminal_after_writes(folder: Path, way: str, code: int) -> None:
    environment = terminal_environment(folder.parent / "home", PYTHONPATH=PYTHONPATH)
    script = STUCK.replace("WAY", way)
    with running([sys.executable, "-c", script], folder=folder, environment=environment) as terminal:
        if code:
            terminal.wait_for("stuck")
            os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_for_exit() == code
        terminal.settle()
        assert all(sequence in terminal.raw for sequence in (MOUSE_OFF, OTHER_SCREEN_OFF, CURSOR_ON))
        assert code or terminal.raw.index(b"written") < terminal.raw.index(CURSOR_ON)


STUCK_APP = """
import sys, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
from app.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_app_can_be_left_while_a_thread_waits_for_a_dead_file_system(folder: Path) -> None:
    environment = terminal_environment(folder.parent / "home", PYTHONPATH=PYTHONPATH)
    command = [sys.executable, "-c", STUCK_APP, *ENDPOINT]
    with running(command, folder=folder, environment=environment) as terminal:
        terminal.wait_for("model may act")
        terminal.type("\x11")
        assert terminal.wait_for_exit() == 0
        terminal.settle()
        assert all(code in terminal.raw for code in (MOUSE_OFF, OTHER_SCREEN_OFF, CURSOR_ON))


PATIENT_APP = """
import sys
from app.runtime import shutdown
from app.cli.main import main
shutdown.PATIENCE = 1000
sys.exit(main(sys.argv[1:]))
"""


def test_the_app_ends_without_force_when_its_terminal_vanishes(folder: Path) -> None:
    environment = terminal_environment(folder.parent / "home", PYTHONPATH=PYTHONPATH, TMPDIR=str(folder))
    command = [sys.executable, "-c", PATIENT_APP, "--demo"]
    with running(command, folder=folder, environment=environment) as terminal:
        terminal.wait_for("model may act")
        terminal.type("fix the failing tests\r")
        terminal.wait_for("interrupts")
        terminal.vanish()
        assert terminal.exit_code == 128 + signal.SIGHUP
    assert list(folder.glob("signoff-demo-*")) == []
