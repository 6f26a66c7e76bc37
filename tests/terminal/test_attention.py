"""Calling the user back, in a real terminal: only while it is not focused, and only as wanted."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.staged import opened, stage
from tests.terminal.terminal import LIMIT, Terminal, signoff_command, terminal_environment

pytestmark = pytest.mark.timeout(120)

FOCUS_IN, FOCUS_OUT = "\x1b[I", "\x1b[O"
STRING = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""An OSC sequence; a BEL may be its end, and is no bell then."""
NOTIFICATION = re.compile(rb"\x1b\]9;signoff: [^\x07\x1b]+\x1b\\\x1b\]777;notify;signoff;[^\x07\x1b]+\x1b\\")


def bells(terminal: Terminal) -> int:
    return STRING.sub(b"", bytes(terminal.raw)).count(b"\x07")


def wants(home: Path, notify: str) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(f'notify = "{notify}"\n')


@pytest.mark.parametrize(
    ("notify", "focus", "rung", "notified"),
    [
        ("bell", FOCUS_OUT, 1, 0),
        ("desktop", FOCUS_OUT, 0, 1),
        ("bell", FOCUS_OUT + FOCUS_IN, 0, 0),
        pytest.param("desktop", FOCUS_OUT + FOCUS_IN, 0, 0, marks=pytest.mark.soak),
        pytest.param("off", FOCUS_OUT, 0, 0, marks=pytest.mark.soak),
    ],
)
def test_the_user_is_called_as_wanted_when_control_is_back_and_nobody_looks(
    tmp_path: Path, processes: Forking, notify: str, focus: str, rung: int, notified: int
) -> None:
    wants(tmp_path / "home", notify)
    with opened(processes, tmp_path) as terminal:
        # The focus goes, or comes back, before the turn ends.
        stage(terminal, focus)
        terminal.settle()
        assert (bells(terminal), len(NOTIFICATION.findall(terminal.raw))) == (rung, notified)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_tmux_shows_nothing_of_a_notification_and_notes_the_bell(tmp_path: Path) -> None:
    temp, home = tmp_path / "tmp", tmp_path / "home"
    temp.mkdir()
    wants(home, "desktop")
    tmux = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "socket")]
    environment = terminal_environment(home, TMPDIR=str(temp))

    def ask(*arguments: str) -> str:
        return subprocess.run([*tmux, *arguments], env=environment, capture_output=True, text=True, check=True).stdout

    def wait_for(text: str) -> str:
        end = time.monotonic() + LIMIT
        while text not in (screen := ask("capture-pane", "-p", "-t", "work:0")):
            assert time.monotonic() < end, screen
            time.sleep(0.05)
        return screen

    ask("new-session", "-d", "-s", "work", "-x", "120", "-y", "40", *signoff_command("--demo"))
    try:
        wait_for("signoff-demo")
        # A bell is noted for windows that are not in front.
        ask("new-window", "-t", "work", "sleep 600")
        ask("send-keys", "-t", "work:0", "-l", "fix the failing tests")
        ask("send-keys", "-t", "work:0", "Enter")
        ask("send-keys", "-t", "work:0", "-l", FOCUS_OUT)
        end = time.monotonic() + LIMIT
        while ask("display-message", "-p", "-t", "work:0", "#{window_bell_flag}").strip() != "1":
            assert time.monotonic() < end, ask("capture-pane", "-p", "-t", "work:0")
            time.sleep(0.05)
        screen = wait_for("tool calls")
        assert "notify" not in screen and "tmux;" not in screen and "signoff: " not in screen
    finally:
        ask("kill-server")
