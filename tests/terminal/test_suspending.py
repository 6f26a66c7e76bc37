"""Ctrl+Z and fg, in a shell with job control in a real terminal."""

import shlex
from pathlib import Path

import pytest

from tests.terminal.terminal import running, signoff_command, terminal_environment

pytestmark = pytest.mark.timeout(120)


def test_ctrl_z_leads_to_the_shell_and_fg_back_to_the_same_picture(tmp_path: Path) -> None:
    environment = terminal_environment(tmp_path / "home", PS1="shell> ")
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with running(shell, folder=tmp_path, environment=environment) as terminal:
        terminal.wait_for("shell>")
        terminal.type(shlex.join(signoff_command("--demo")) + "\r")
        terminal.wait_for("model may act", "signoff-demo", "The model proposes, you sign off.")
        terminal.type("half a sentence")
        terminal.wait_for("half a sentence")
        terminal.settle()
        before = terminal.text
        terminal.press("ctrl+z")
        terminal.wait_for("Stopped", "shell>")
        terminal.type("echo still $((40 + 2))\r")
        terminal.wait_for("still 42")
        terminal.type("fg\r")
        terminal.wait_until(lambda: terminal.text == before, "the picture of before")
        terminal.type(" ends")
        terminal.wait_for("half a sentence ends")
        # What took the key before is on another one.
        terminal.type("\x1f")
        terminal.wait_for("❯", without=["sentence ends"])
